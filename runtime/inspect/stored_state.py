"""Reads the state of a checkpoint through Spark's own state reader, one partition of state per task.

The runs of a key group lie in one partition, so that every task decides alone which version of a row is the newest; the
lists of runs, which it needs to know, are read first. All of Spark's operators are read after the same micro-batch: it
stays readable, while the job continues, for as long as Spark keeps its files
(``spark.sql.streaming.minBatchesToRetain``).

Codes: CKPT045, and CKPT010 to CKPT013 of :mod:`runtime.state.keyed_state` for state that is damaged.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, TypeVar

from stateplan.common.errors import CheckpointError, find_encoded
from stateplan.common.failure_reasons import text_of
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import TtlConfig
from stateplan.runtime.inspect.inspection import OperatorState, Snapshot
from stateplan.runtime.inspect.state_figures import TableFigures, count_table, cut_of
from stateplan.runtime.inspect.state_rows import (
    RowRequest,
    arrow_batches,
    arrow_schema,
    spark_schema,
    table_rows,
)
from stateplan.runtime.kernel import FormerColumns, StateTable
from stateplan.runtime.spark.jvm_loss import is_of_spark, jvm_loss_behind
from stateplan.runtime.spark.repartition import plain_name
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.state.runs import RunInfo
from stateplan.runtime.worker import with_coded_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame as DataFrame
    from pyspark.sql import SparkSession as SparkSession

T = TypeVar("T")

UNREADABLE = "CKPT045"
"""The code of state that Spark cannot read, perhaps because its files have been replaced since."""

_FIGURES = "operator int, key_group int, place int, figures binary"


@dataclass(frozen=True)
class Cut:
    """The rows to count of a table: those that will have expired ``ahead`` ms from now under ``ttl`` ms, when nobody
    accesses them."""

    ahead: int
    ttl: int


# ---- what runs in the tasks ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoredOperator:
    """Of an operator what a task has to know to read its state."""

    name: str
    tables: tuple[StateTable, ...]
    configs: tuple[TtlConfig, ...]
    version: int
    former_columns: FormerColumns

    @staticmethod
    def of(operator: OperatorState) -> StoredOperator:
        tables = tuple(t.table for t in operator.tables)
        configs = tuple(operator.ttl[t.slot] for t in tables)
        return StoredOperator(operator.name, tables, configs, operator.entry.version, operator.entry.former_columns)


@dataclass(frozen=True)
class SlotStates:
    """Puts the state of slots together from the values of Spark's ``runs``.

    Attributes:
        operators: the operators that keep the state.
        owners: Spark's grouping key of a slot -> (operator, key group).
        manifests: Spark's grouping key of a slot -> its list of runs.
        now: the instant that ages are counted from, ms.
    """

    operators: tuple[StoredOperator, ...]
    owners: Mapping[int, tuple[int, int]]
    manifests: Mapping[int, str]
    now: int

    def states(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, KeyedState]]:
        """(operator, key group, state) of every slot with runs, as soon as it is complete; those of which a run is
        missing at the end."""
        keys_by_label = {label: stored_keys(text) for label, text in self.manifests.items()}
        stores: dict[int, MemoryRunStore] = {}
        for batch in batches:
            for label, key, data in zip(*(batch.column(i).to_pylist() for i in range(3)), strict=True):
                if key not in keys_by_label[label]:
                    continue
                store = stores.setdefault(label, MemoryRunStore())
                store.values[key] = data
                if len(store.values) == len(keys_by_label[label]):
                    yield self.state(label, stores.pop(label))
        for label in sorted(stores):
            yield self.state(label, stores[label])

    def state(self, label: int, store: MemoryRunStore) -> tuple[int, int, KeyedState]:
        operator, group = self.owners[label]
        parts = self.operators[operator]
        store.text = self.manifests[label]
        place = f"{parts.name}, key group {group}"
        state = KeyedState(store, RunCache(None), parts.tables, place, parts.version, parts.former_columns)
        return operator, group, state

    def cut(self, operator: int, place: int, state: KeyedState, ahead: int, ttl: int) -> int | None:
        """The latest time of access (ms) of a table that will have expired ``ahead`` ms from now, under ``ttl``."""
        config = replace(self.operators[operator].configs[place], ttl=ttl)
        cut = cut_of(config, self.now, state.time.watermark)
        return None if cut is None else cut + ahead


@dataclass(frozen=True)
class _Count:
    """Counts; returns rows of :data:`_FIGURES`. ``cuts`` are per operator and table."""

    slots: SlotStates
    cuts: Sequence[Sequence[Sequence[Cut]]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        rows = list(with_coded_errors(self.rows)(batches))
        if rows:
            types = (pa.int32(), pa.int32(), pa.int32(), pa.binary())
            columns = [pa.array(c, t) for c, t in zip(zip(*rows, strict=True), types, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, names=["operator", "key_group", "place", "figures"])

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, int, bytes]]:
        for operator, group, state in self.slots.states(batches):
            for place, table in enumerate(self.slots.operators[operator].tables):
                cuts_of_state = self.cuts[operator][place]
                cuts = [self.slots.cut(operator, place, state, cut.ahead, cut.ttl) for cut in cuts_of_state]
                yield operator, group, place, pickle.dumps(count_table(table, state.runs(table), cuts))


@dataclass(frozen=True)
class _Rows:
    """Returns the rows of one table, of the first operator; with ``packed`` as Arrow streams, one per row."""

    slots: SlotStates
    place: int
    request: RowRequest
    packed: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in with_coded_errors(self.batches)(batches):
            if self.packed:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, batch.schema) as writer:
                    writer.write_batch(batch)
                data = pa.array([sink.getvalue().to_pybytes()], pa.binary())
                yield pa.RecordBatch.from_arrays([data], names=["data"])
            else:
                yield batch

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(self.request)
        for operator, _, state in self.slots.states(batches):
            runs = [frame for _, frame in state.runs(self.request.table)]
            cut = self.slots.cut(operator, self.place, state, 0, self.request.ttl)
            yield from arrow_batches(table_rows(self.request, runs, cut), schema)


def stored_keys(manifest: str) -> set[str]:
    """The keys under which the runs of a manifest are stored; none of one that cannot be read."""
    try:
        lists = json.loads(manifest)["tables"].values()
        infos = [RunInfo(*entry) for entries in lists for entry in entries]
        return {f"{info.id}/{n}" for info in infos for n in range(info.chunks)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {""}


def stored_time(manifest: str) -> str | None:
    """How far event time has come by a manifest, as JSON; all key groups of an operator know the same."""
    try:
        time = json.loads(manifest).get("time")
    except (ValueError, AttributeError):
        return None
    return None if time is None else json.dumps(time)


# ---- what runs in the driver -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoredRuns:
    """The runs of some operators, and what belongs to them.

    Attributes:
        slots: puts their state together.
        frame: slot, id and data of each run; None where there are none.
        times: by number of the operator, how far event time has come, as JSON; without operators that do not ask.
    """

    slots: SlotStates
    frame: DataFrame | None
    times: Mapping[int, str]


def _variable_frame(spark: SparkSession, snapshot: Snapshot, number: int, variable: str) -> DataFrame:
    """What one of Spark's operators has stored in a variable of state, with the grouping key as ``slot``."""
    from pyspark.sql import functions as F  # noqa: N812

    reader = spark.read.format("statestore").option("operatorId", number).option("stateVarName", variable)
    frame = reader.option("batchId", snapshot.batch).load(plain_name(snapshot.spark.folder))
    return frame.withColumn("slot", F.col("key.slot"))


def stored_manifests(spark: SparkSession, snapshot: Snapshot) -> Iterator[tuple[int, int, str]]:
    """The lists of runs of all slots: Spark's number of its operator, Spark's grouping key of the slot, the list.
    Raises what Spark raises; see :func:`run_on_spark`."""
    from pyspark.sql import functions as F  # noqa: N812

    parts = [
        _variable_frame(spark, snapshot, n, "manifest").select(F.lit(n).alias("number"), "slot", F.col("value.text"))
        for n in snapshot.spark.operators
    ]
    if parts:
        yield from reduce(lambda a, b: a.unionAll(b), parts).collect()


def stored_runs(spark: SparkSession, snapshot: Snapshot, operators: Sequence[OperatorState]) -> StoredRuns:
    from pyspark.sql import functions as F  # noqa: N812

    owners = {
        label: (number, group)
        for number, operator in enumerate(operators)
        for label, group in operator.labels(snapshot.key_groups).items()
    }
    manifests: dict[int, str] = {}
    times: dict[int, str] = {}
    places: dict[int, set[int]] = {}
    for number, slot, text in stored_manifests(spark, snapshot) if owners else ():
        if slot in owners:
            manifests[slot] = text
            time = stored_time(text)
            if time is not None:
                times[owners[slot][0]] = time
            if stored_keys(text):
                places.setdefault(number, set()).add(slot)
    wanted_manifests = {
        slot: text
        for slot, text in manifests.items()
        if any(slot in slots_of_place for slots_of_place in places.values())
    }
    slots = SlotStates(
        tuple(StoredOperator.of(o) for o in operators),
        {s: owners[s] for s in wanted_manifests},
        wanted_manifests,
        snapshot.now,
    )
    frames = [
        _variable_frame(spark, snapshot, number, "runs")
        .where(F.col("slot").isin(sorted(slots_of_place)))
        .select("slot", F.col("user_map_key.id").alias("id"), F.col("user_map_value.data").alias("data"))
        for number, slots_of_place in sorted(places.items())
    ]
    return StoredRuns(slots, reduce(lambda a, b: a.unionAll(b), frames) if frames else None, times)


def run_on_spark(snapshot: Snapshot, work: Callable[[], T]) -> T:
    """``work``, its errors of Spark as coded ones.

    Raises:
        CheckpointError: :data:`UNREADABLE`, and what the tasks raise.
    """
    try:
        return work()
    except Exception as failure:
        text = text_of(failure)
        error = jvm_loss_behind(failure) or find_encoded(text)
        if error is not None:
            raise error from failure
        if not is_of_spark(failure):
            raise
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        cause = next((line for line in reversed(lines) if line.startswith("Caused by:")), lines[0] if lines else "")
        raise CheckpointError(UNREADABLE, folder=snapshot.folder, batch=snapshot.batch, cause=cause[:300]) from failure


def count_state(
    spark: SparkSession,
    snapshot: Snapshot,
    operators: Sequence[OperatorState],
    cuts: Sequence[Sequence[Sequence[Cut]]],
) -> dict[tuple[int, int], TableFigures]:
    """The figures of every table of ``operators``, over all key groups, by the numbers of operator and table.

    Args:
        cuts: per operator and table, for which rows are counted; the first one decides which rows are expired.

    Raises:
        CheckpointError: CKPT010 to CKPT013, state is damaged; :data:`UNREADABLE`, Spark cannot read it.
    """

    def work() -> dict[tuple[int, int], TableFigures]:
        source = stored_runs(spark, snapshot, operators)
        out = {(n, p): TableFigures() for n, o in enumerate(operators) for p in range(len(o.tables))}
        if source.frame is None:
            return out
        owners = set()
        for operator, group, place, data in source.frame.mapInArrow(_Count(source.slots, cuts), _FIGURES).collect():
            owners.add((operator, group))
            out[operator, place] += pickle.loads(data)
        for label, owner in source.slots.owners.items():
            if owner not in owners:  # of its runs there is none: this says so
                state = source.slots.state(label, MemoryRunStore())[2]
                for table in source.slots.operators[owner[0]].tables:
                    state.runs(table)
        return out

    return run_on_spark(snapshot, work)


def row_frame(spark: SparkSession, snapshot: Snapshot, operator: OperatorState, request: RowRequest) -> DataFrame:
    """The rows of one table as a frame of Spark, read when it is used.

    Raises:
        CheckpointError: as :func:`count_state`; what is damaged within a run, when the frame is used.
    """

    def work() -> DataFrame:
        schema = spark_schema(arrow_schema(request))
        task = _task(spark, snapshot, operator, request, is_packed=False)
        return spark.createDataFrame([], schema) if task is None else task[0].mapInArrow(task[1], schema)

    return run_on_spark(snapshot, work)


def iterate_rows(
    spark: SparkSession, snapshot: Snapshot, operator: OperatorState, request: RowRequest
) -> Iterator[pa.RecordBatch]:
    """The rows of one table, partition by partition: never more than one of them in memory.

    Raises:
        CheckpointError: as :func:`count_state`.
    """
    task = run_on_spark(snapshot, lambda: _task(spark, snapshot, operator, request, is_packed=True))
    return iter(()) if task is None else _unpacked(snapshot, task[0].mapInArrow(task[1], "data binary"))


def _unpacked(snapshot: Snapshot, frame: DataFrame) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    rows = run_on_spark(snapshot, lambda: iter(frame.toLocalIterator()))
    while (row := run_on_spark(snapshot, lambda: next(rows, None))) is not None:
        with pa.ipc.open_stream(pa.py_buffer(row[0])) as stream:
            yield from stream


def _task(
    spark: SparkSession, snapshot: Snapshot, operator: OperatorState, request: RowRequest, *, is_packed: bool
) -> tuple[DataFrame, _Rows] | None:
    source = stored_runs(spark, snapshot, [operator])
    if source.frame is None:
        return None
    place = next(i for i, t in enumerate(operator.tables) if t.table.name == request.table.name)
    return source.frame, _Rows(source.slots, place, request, is_packed)
