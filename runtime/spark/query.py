"""The job graph as one Structured Streaming query.

What Spark ships to its Python workers is the pickled job graph as bytes: a worker decodes it once per query, when it
first has rows, and not for every task. (Spark also starts a Python process on the driver for every
``transformWithState``, only to list its state variables: that one never needs the graph nor the libraries behind it.)
"""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from stateplan.runtime.spark.state_messages import update_value
from stateplan.runtime.spark.tasks import (
    ACTIVE_PLAN,
    TTLS,
    WATERMARKS,
    local_property,
    micro_batch,
    with_watermarks,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from stateplan.common.secrets import Environment
    from stateplan.runtime.jobgraph import JobGraph
    from stateplan.runtime.memory import CacheSettings
    from stateplan.runtime.metrics.figures import TaskCounters
    from stateplan.runtime.scratch import JointScratch
    from stateplan.runtime.sinks import SinkDriver
    from stateplan.runtime.state.run_cache import RunCache
    from stateplan.runtime.worker import MicroBatch

Task = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]
"""What Spark's ``mapInArrow`` runs over a partition."""

_graphs: dict[str, JobGraph] = {}
_live: dict[tuple[str, ...], JobGraph] = {}
_slots: dict[str, dict[int, tuple[int, int]]] = {}
_caches: dict[tuple[Any, ...], RunCache] = {}
_folders: list[JointScratch] = []
"""Of the run cache of this process, where executors have folders of their own."""


class Shipment:
    """A job graph on its way to the workers.

    Args:
        graph: the job graph.
        cache: the workers' run cache.
        environment: the environment that their references need; None if they have one of their own.
        short_messages: whether the tweak ``state-messages`` is on.
    """

    def __init__(
        self,
        graph: JobGraph,
        cache: CacheSettings,
        environment: Environment | None = None,
        short_messages: bool = False,
    ) -> None:
        self.environment = environment
        self.short_messages = short_messages
        self.payload = pickle.dumps(graph)
        self.key = hashlib.sha1(self.payload, usedforsecurity=False).hexdigest()
        self.cache_settings: tuple[Any, ...] = tuple(cache)  # a plain one: to unpickle it takes no module

    def graph(self) -> JobGraph:
        """The graph with the TTLs, the watermarks and the active plan of the micro-batch of this task; decoded at
        most once in this process."""
        graph = self._plan_graph()
        ttls, marks, active_plan = (local_property(name) or "" for name in (TTLS, WATERMARKS, ACTIVE_PLAN))
        if not ttls and not marks and not active_plan:
            return graph
        key = (self.key, ttls, marks, active_plan)
        if key not in _live:
            _live.clear()
            from stateplan.runtime.active_plan import with_active_plan
            from stateplan.runtime.batch_ttls import with_ttls

            graph = with_active_plan(graph, "old" if active_plan == "old" else "new") if active_plan else graph
            graph = with_ttls(graph, ttls) if ttls else graph
            _live[key] = with_watermarks(graph, marks) if marks else graph
        return _live[key]

    def _plan_graph(self) -> JobGraph:
        """The graph as the plan has it."""
        if self.key not in _graphs:
            _graphs.clear()
            _graphs[self.key] = pickle.loads(self.payload)
        return _graphs[self.key]

    def slots(self) -> dict[int, tuple[int, int]]:
        """Spark grouping key -> (operator, key group)."""
        from stateplan.runtime.worker import unslot

        if self.key not in _slots:
            _slots.clear()
            _slots[self.key] = unslot(self._plan_graph())
        return _slots[self.key]

    def cache(self) -> RunCache:
        """The run cache of this process."""
        from stateplan.runtime.state.run_cache import RunCache

        key = (self.key, *self.cache_settings)
        if key not in _caches:
            _caches.clear()
            folder, memory, limit, reserve, parent = self.cache_settings
            if parent is not None:
                folder = _executor_folder(parent, self.key)
            _caches[key] = RunCache(folder, memory, limit, reserve)
        return _caches[key]


def _executor_folder(parent: str, job: str) -> str | None:
    """A folder for all workers of this executor; None if there can be none."""
    from stateplan.runtime.scratch import JointScratch

    while _folders:
        _folders.pop().leave()
    place = parent or os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    try:
        _folders.append(JointScratch(f"runs-{socket.gethostname()}-{os.getppid()}-{job[:12]}", Path(place)))
    except OSError:
        return None
    return str(_folders[0].folder)


_tasks = 0
_SETTLED = (2, 8, 32)


def _settle() -> None:
    """Counts a task of this process. A worker of Spark collects garbage after every one: tens of milliseconds over the
    objects of imported libraries alone, which live as long as the process. So what the first tasks have left is
    taken out of that."""
    global _tasks
    _tasks += 1
    if _tasks in _SETTLED:
        gc.freeze()


# As text they would be sent to the JVM to be parsed, five times for each task.
_MANIFEST = StructType([StructField("text", StringType())])
_RUN_ID = StructType([StructField("id", StringType())])
_RUN_DATA = StructType([StructField("data", BinaryType())])


class SparkRunStore:
    """Manifests and runs in the state variables of a ``transformWithState``.

    Args:
        handle: of the processor.
        short_messages: whether the tweak ``state-messages`` is on.
    """

    is_compact = True

    def __init__(self, handle: StatefulProcessorHandle, short_messages: bool = False) -> None:
        self._short_messages = short_messages
        self._manifest = handle.getValueState("manifest", _MANIFEST)
        self._runs = handle.getMapState("runs", _RUN_ID, _RUN_DATA)

    def manifest(self) -> str | None:
        row = self._manifest.get()
        return None if row is None else row[0]

    def set_manifest(self, text: str) -> None:
        self._manifest.update((text,))

    def put(self, key: str, data: bytes) -> None:
        if self._short_messages:
            update_value(self._runs, (key,), (data,))
        else:
            self._runs.updateValue((key,), (data,))

    def get(self, key: str) -> bytes | None:
        row = self._runs.getValue((key,))
        return None if row is None else row[0]

    def remove(self, key: str) -> None:
        self._runs.removeKey((key,))

    def clear(self) -> None:
        """Removes everything."""
        if self._manifest.exists():
            self._manifest.clear()
            self._runs.clear()


class LevelProcessor(StatefulProcessor):  # type: ignore[misc] # a base without types
    """Runs every operator of one level and passes on what is for later ones."""

    def __init__(self, shipped: Shipment, level: int, counters: TaskCounters) -> None:
        self.shipped = shipped
        self.level = level
        self.counters = counters

    def init(self, handle: StatefulProcessorHandle) -> None:
        _settle()
        self.store = SparkRunStore(handle, self.shipped.short_messages)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's names
        from stateplan.runtime.exchange import Blob
        from stateplan.runtime.worker import step_operator

        batch = _micro_batch(self.shipped, self.counters)
        slot = int(key[0])
        owner = self.shipped.slots().get(slot)
        if owner is None or self._level(batch.graph, owner[0]) != self.level:
            yield from rows
            return
        if owner[0] < 0:
            self.store.clear()
            return
        blobs = [Blob.unpacked(slot, data) for _, data in rows]
        for blob in step_operator(batch, *owner, blobs, self.store, self.shipped.cache()):
            yield Row(slot=blob.slot, blob=blob.packed())

    @staticmethod
    def _level(graph: JobGraph, owner: int) -> int:
        return graph.operators[owner].level if owner >= 0 else graph.unused_ranges[-1 - owner].level

    def close(self) -> None:
        pass


def _micro_batch(shipment: Shipment, counters: TaskCounters) -> MicroBatch:
    """The micro-batch of this task. Where its number is not known it drops state: doing so once more does no harm."""
    from stateplan.runtime.worker import MicroBatch

    graph, number = shipment.graph(), micro_batch()
    return MicroBatch(graph, number, graph.touches_state and number in (None, graph.first_batch), counters)


def _source_reader(shipment: Shipment, index: int, counters: TaskCounters, level: int = 1) -> Task:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from stateplan.runtime.source_tasks import read_source

        _settle()
        yield from read_source(_micro_batch(shipment, counters), index, level)(batches)

    return run


def _closing_reader(shipment: Shipment, counters: TaskCounters) -> Task:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from stateplan.runtime.delivery import closing_marks, send_marks
        from stateplan.runtime.exchange import blob_batch
        from stateplan.runtime.wakeups import touches

        batch = _micro_batch(shipment, counters)
        graph = batch.graph
        for rows in batches:
            for now in rows.column("now").to_pylist():
                yield blob_batch(list(send_marks(graph, closing_marks(graph), now)))
                if batch.touches:
                    yield blob_batch(list(touches(graph, now)))

    return run


def _sink_writer(job: JobGraph, sinks: SinkDriver, counters: TaskCounters, read: Task | None) -> Task:
    """Writes the blobs of a micro-batch to their sinks, or those that ``read`` makes, in the same Python process."""
    writers = [(s.writer, s.name, s.uid) for s in sinks.sinks]
    slots = [job.sink_slot(i) for i in range(len(job.sinks))]
    shared_folder, roots = sinks.parts_folder, job.roots

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from stateplan.runtime.sinks import write_sinks

        _settle()
        number = micro_batch()
        assert number is not None
        yield from write_sinks(writers, number, slots, counters, shared_folder, roots)(
            batches if read is None else read(batches)
        )

    return run


def with_level(chain: DataFrame, shipment: Shipment, level: int, counters: TaskCounters) -> DataFrame:
    """The chain with one more level of operators."""
    from stateplan.runtime.exchange import BLOB_SCHEMA

    processor = LevelProcessor(shipment, level, counters)
    return chain.groupBy("slot").transformWithState(processor, BLOB_SCHEMA, "Append", "None")


def build(
    graph: JobGraph,
    shipment: Shipment,
    source_frames: Callable[[int], DataFrame],
    sinks: SinkDriver,
    counters: TaskCounters,
    closing: Callable[[], DataFrame] | None = None,
) -> DataFrame:
    """The chain of sources, levels and sinks; its rows are what the driver has to know of the sinks.

    Args:
        source_frames: gives the streaming frame of splits of source number i.
        closing: gives the streaming frame of the ends of bounded input, for plans with event time.
    """
    from stateplan.runtime.exchange import BLOB_SCHEMA
    from stateplan.runtime.jobgraph import first_level, natural_order
    from stateplan.runtime.sinks import SINK_SCHEMA

    if graph.levels == 0 and len(graph.sources) == 1 and not graph.event_time:
        alone = _sink_writer(graph, sinks, counters, _source_reader(shipment, 0, counters))
        return source_frames(0).mapInArrow(alone, SINK_SCHEMA)
    order = graph.order or natural_order(graph)
    # Spark counts sources in the order of the chain: none may enter it behind the next one.
    enters = [1 if i is None or graph.touches_state else first_level(graph, i) for i in order]
    for at in range(len(enters) - 2, -1, -1):
        enters[at] = min(enters[at], enters[at + 1])
    chain: DataFrame | None = None
    for level in range(1, graph.levels + 2):
        for index, entry in zip(order, enters, strict=True):
            if entry != level:
                continue
            if index is not None:
                part = source_frames(index).mapInArrow(_source_reader(shipment, index, counters, level), BLOB_SCHEMA)
            else:
                assert closing is not None
                part = closing().mapInArrow(_closing_reader(shipment, counters), BLOB_SCHEMA)
            chain = part if chain is None else chain.unionAll(part)
        if level <= graph.levels:
            assert chain is not None
            chain = with_level(chain, shipment, level, counters)
    assert chain is not None
    return chain.mapInArrow(_sink_writer(graph, sinks, counters, None), SINK_SCHEMA)
