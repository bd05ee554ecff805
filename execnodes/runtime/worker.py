"""What runs inside Spark's Python workers: sources, levels of stateful operators, and sinks, all over blobs."""

from __future__ import annotations

import functools
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, ParamSpec, TypeVar

import polars as pl
import pyarrow as pa

from execnodes.errors import StateplanError
from execnodes.runtime.cache import RunCache
from execnodes.runtime.exchange import decode, encode, split
from execnodes.runtime.hashing import slot_label
from execnodes.runtime.jobgraph import JobGraph, OperatorSpec, Pipeline, ToOperator, ToSink
from execnodes.runtime.state import KeyedState, RunStore

__all__ = ["Blob", "WorkerError", "blob_batch", "coded", "deliver", "read_source", "run_operator"]

P = ParamSpec("P")
T = TypeVar("T")

Count = Callable[[str, dict[str, float]], None]
"""Adds figures to the counters of the operator with the given uid."""


class Blob(NamedTuple):
    """One row of the exchange; see :data:`execnodes.runtime.exchange.BLOB_SCHEMA`."""

    slot: int
    input: int
    seq: str
    now: int
    rows: int
    data: bytes


class WorkerError(RuntimeError):
    """Carries a StateplanError to the driver inside Spark's exception text."""


def coded(function: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """Makes a generator raise stateplan's errors in the form that the driver finds again."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        try:
            yield from function(*args, **kwargs)
        except StateplanError as error:
            raise WorkerError(error.encoded()) from None
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            detail = "".join(traceback.format_exception_only(error)).strip()
            raise WorkerError(f"{detail}\n{traceback.format_exc()}") from None

    return run


def deliver(graph: JobGraph, pipeline: Pipeline, frame: pl.DataFrame, now: int, seq: str) -> Iterator[Blob]:
    """The blobs that a pipeline makes of a frame of changes."""
    for transform in pipeline.transforms:
        if frame.height == 0:
            return
        frame = transform(frame, now)
    if frame.height == 0:
        return
    for output in pipeline.outputs:
        if isinstance(output, ToOperator):
            for group, rows in split(frame, output.keys, graph.key_groups):
                label = slot_label(graph.slot(output.operator, group))
                yield Blob(label, output.input, seq, now, rows.height, encode(rows))
        elif isinstance(output, ToSink):
            data = b"" if output.count_only else encode(frame)
            yield Blob(slot_label(output.sink), 0, seq, now, frame.height, data)
        else:
            yield from deliver(graph, output, frame, now, seq)


def blob_batch(blobs: list[Blob]) -> pa.RecordBatch:
    """Blobs as one Arrow batch of the exchange's schema."""
    types = (pa.int32(), pa.int32(), pa.string(), pa.int64(), pa.int64(), pa.binary())
    return pa.RecordBatch.from_arrays(
        [pa.array(column, t) for column, t in zip(zip(*blobs, strict=True), types, strict=True)],
        names=list(Blob._fields),
    )


def read_source(
    graph: JobGraph, index: int, count: Count | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow`` that turns the splits of source ``index`` into blobs.

    A split is a row of the Spark source; it has ``now`` (ms) and ``seq``, a text that orders the splits.
    """
    source = graph.sources[index]

    @coded
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = 0
        started = time.perf_counter()
        for batch in batches:
            for part in source.reader.splits(batch):
                for n, frame in enumerate(source.reader.read(part)):
                    rows += frame.height
                    blobs = list(deliver(graph, source.pipeline, frame, part["now"], f"{part['seq']}\0{n:08d}"))
                    if blobs:
                        yield blob_batch(blobs)
        if count and rows:
            count(source.uid, {"rows_in": rows, "seconds": time.perf_counter() - started})

    return run


def run_operator(
    graph: JobGraph, operator: int, group: int, blobs: list[Blob], store: RunStore, cache: RunCache, count: Count | None
) -> Iterator[Blob]:
    """One micro-batch of one key group of a stateful operator."""
    spec: OperatorSpec = graph.operators[operator]
    started = time.perf_counter()
    blobs.sort(key=lambda b: b.seq)
    now = max(b.now for b in blobs)
    inputs = []
    for number in range(spec.inputs):
        mine = [b.data for b in blobs if b.input == number]
        inputs.append(decode(mine) if mine else pl.DataFrame(schema=spec.input_schemas[number]))
    state = KeyedState(store, cache, spec.kernel.tables, f"{spec.name}, key group {group}")
    output = state.step(spec.kernel, inputs, now, spec.ttl)
    yield from deliver(graph, spec.pipeline, output, now, f"{operator:04d}\0{group:06d}")
    if count:
        count(
            spec.uid,
            {
                "rows_in": sum(f.height for f in inputs),
                "rows_out": output.height,
                "state_bytes_written": state.stats.bytes_written,
                "state_bytes": state.stats.bytes_written - state.stats.bytes_dropped,
                "state_rows": state.stats.rows_change,
                "state_rows_merged": state.stats.merged_rows,
                "retractions_missed": state.stats.missed,
                "seconds": time.perf_counter() - started,
            },
        )


def unslot(graph: JobGraph) -> dict[int, tuple[int, int]]:
    """Spark grouping key -> (operator, key group), for every slot of every operator."""
    return {slot_label(graph.slot(o, g)): (o, g) for o in range(len(graph.operators)) for g in range(graph.key_groups)}
