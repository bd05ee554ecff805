"""What runs inside Spark's Python workers: sources, levels of stateful operators, and sinks, all over blobs."""

from __future__ import annotations

import functools
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, ParamSpec, TypeVar

import polars as pl
import pyarrow as pa

from execnodes.errors import StateplanError
from execnodes.runtime.cache import RunCache
from execnodes.runtime.exchange import decode, encode, split
from execnodes.runtime.hashing import slot_label
from execnodes.runtime.jobgraph import JobGraph, OperatorSpec, Pipeline, ToOperator, ToSink, targets
from execnodes.runtime.kernel import END_OF_TIME, NO_WATERMARK, EventTimeKernel, Watermark
from execnodes.runtime.state import KeyedState, RunStore
from execnodes.runtime.watermarks import MARK, Mark, decode_mark, encode_mark

__all__ = [
    "Blob",
    "Clock",
    "WorkerError",
    "blob_batch",
    "closing_marks",
    "coded",
    "deliver",
    "read_source",
    "run_operator",
    "send_marks",
    "touches",
    "unslot",
]

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


@dataclass
class Clock:
    """Event time in a task: the watermarks it makes, and the one that its rows see.

    Attributes:
        watermark: how far event time has come where the rows come from; None before the first watermark.
        marks: the largest watermark made for each channel of an operator.
        made: per place in a pipeline that makes watermarks, the largest one so far.
    """

    watermark: int | None = None
    marks: dict[Mark, int] = field(default_factory=dict)
    made: dict[int, int] = field(default_factory=dict)

    def take(self, pipeline: Pipeline, place: int, value: int | None) -> None:
        """Notes a watermark made in ``pipeline``, for all it leads to."""
        self.made[place] = max(self.made.get(place, NO_WATERMARK), value if value and value > 0 else NO_WATERMARK)
        for to in targets(pipeline):
            if isinstance(to, ToOperator) and to.event_time:
                key = Mark(to.operator, to.input, to.channel)
                self.marks[key] = max(self.marks.get(key, NO_WATERMARK), self.made[place])


def deliver(
    graph: JobGraph, pipeline: Pipeline, frame: pl.DataFrame, now: int, seq: str, clock: Clock | None = None
) -> Iterator[Blob]:
    """The blobs that a pipeline makes of a frame of changes; watermarks it makes are noted in ``clock``."""
    clock = clock or Clock()
    seen = clock.watermark
    for transform in pipeline.transforms:
        if frame.height == 0:
            return
        watermark = getattr(transform, "watermark", None)
        if watermark is not None:
            frame = transform(frame, now)
            known = clock.made.get(id(transform), NO_WATERMARK)
            seen = None if known == NO_WATERMARK else known
            if _asked(pipeline):
                clock.take(pipeline, id(transform), watermark(frame, now))
        elif getattr(transform, "reads_watermark", False):
            frame = transform(frame, now, seen)  # type: ignore[call-arg]
        else:
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
            yield Blob(slot_label(graph.sink_slot(output.sink)), 0, seq, now, frame.height, data)
        else:
            yield from deliver(graph, output, frame, now, seq, replace(clock, watermark=seen))


def _asked(pipeline: Pipeline) -> bool:
    """Whether the watermarks made in a pipeline are of use to anyone."""
    return any(isinstance(t, ToOperator) and t.event_time for t in targets(pipeline)) or _reads(pipeline)


def _reads(pipeline: Pipeline) -> bool:
    return any(getattr(t, "reads_watermark", False) for t in pipeline.transforms) or any(
        _reads(o) for o in pipeline.outputs if isinstance(o, Pipeline)
    )


def send_marks(graph: JobGraph, marks: Mapping[Mark, int], now: int) -> Iterator[Blob]:
    """Watermarks, to every key group of the operators they are for."""
    for to, value in marks.items():
        data = encode_mark(to.channel, value)
        for group in range(graph.key_groups):
            yield Blob(slot_label(graph.slot(to.operator, group)), to.input, "", now, MARK, data)


def closing_marks(graph: JobGraph) -> dict[Mark, int]:
    """The watermarks that end bounded input, of all sources."""
    return {
        Mark(to.operator, to.input, to.channel): END_OF_TIME
        for source in graph.sources
        for to in targets(source.pipeline)
        if isinstance(to, ToOperator) and to.event_time
    }


def blob_batch(blobs: list[Blob]) -> pa.RecordBatch:
    """Blobs as one Arrow batch of the exchange's schema."""
    types = (pa.int32(), pa.int32(), pa.string(), pa.int64(), pa.int64(), pa.binary())
    return pa.RecordBatch.from_arrays(
        [pa.array(column, t) for column, t in zip(zip(*blobs, strict=True), types, strict=True)],
        names=list(Blob._fields),
    )


TOUCH = -2
"""``rows`` of a blob that only has its receiver look at its state."""


def touches(graph: JobGraph, now: int) -> Iterator[Blob]:
    """What has every slot look at its state whose state is to be dropped or rewritten."""
    firsts = [d.first for d in graph.dropped]
    firsts += [graph.slot(i, 0) for i, o in enumerate(graph.operators) if o.rewrite is not None]
    for first in firsts:
        for group in range(graph.key_groups):
            yield Blob(slot_label(first + group), 0, "", now, TOUCH, b"")


def read_source(
    graph: JobGraph, index: int, count: Count | None, touch: bool = False
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow`` that turns the splits of source ``index`` into blobs.

    A split is a row of the Spark source; it has ``now`` (ms) and ``seq``, a text that orders the splits. With ``touch``
    the blobs are followed by :func:`touches`.
    """
    source = graph.sources[index]

    @coded
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = 0
        started = time.perf_counter()
        clock, now, splits = Clock(), 0, 0
        for batch in batches:
            for part in source.reader.splits(batch):
                splits += 1
                now = max(now, part["now"])
                for n, frame in enumerate(source.reader.read(part)):
                    rows += frame.height
                    blobs = list(deliver(graph, source.pipeline, frame, part["now"], f"{part['seq']}\0{n:08d}", clock))
                    if blobs:
                        yield blob_batch(blobs)
        if clock.marks:
            yield blob_batch(list(send_marks(graph, clock.marks, now)))
        if touch and splits:
            yield blob_batch(list(touches(graph, now)))
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
        mine = [b.data for b in blobs if b.input == number and b.rows >= 0]
        inputs.append(decode(mine) if mine else pl.DataFrame(schema=spec.input_schemas[number]))
    place = f"{spec.name}, key group {group}"
    state = KeyedState(store, cache, spec.kernel.tables, place, spec.version, spec.rewrite)
    watermark = Watermark()
    if spec.event_time:
        received = ((b.input, *decode_mark(b.data)) for b in blobs if b.rows == MARK)
        watermark = state.time.advance(received, spec.channels, now, spec.idle_timeout)
        state.touch_time()
    if isinstance(spec.kernel, EventTimeKernel) or any(f.height for f in inputs):
        by_clock = getattr(spec.kernel, "by_clock", False)
        time_of_kernel = Watermark(NO_WATERMARK, now) if by_clock else watermark
        output = state.step(spec.kernel, inputs, now, spec.ttl, time_of_kernel)
    else:
        output = pl.DataFrame()
        state.flush()
    clock = Clock(None if watermark.before == NO_WATERMARK else watermark.before)
    yield from deliver(graph, spec.pipeline, output, now, f"{operator:04d}\0{group:06d}", clock)
    if spec.event_time:
        yield from send_marks(graph, _passed_on(spec, group, watermark, clock), now)
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


def _passed_on(spec: OperatorSpec, group: int, watermark: Watermark, clock: Clock) -> dict[Mark, int]:
    """The watermarks that a key group sends on: those made behind the operator, and, as one group for all, its own."""
    marks = dict(clock.marks)
    if group == 0 and watermark.now > NO_WATERMARK:
        delay = getattr(spec.kernel, "watermark_delay", 0)
        value = watermark.now if watermark.now == END_OF_TIME else watermark.now - delay
        for to in targets(spec.pipeline):
            if isinstance(to, ToOperator) and to.event_time:
                marks.setdefault(Mark(to.operator, to.input, to.channel), value)
    return marks


def unslot(graph: JobGraph) -> dict[int, tuple[int, int]]:
    """Spark grouping key -> (operator, key group), for every slot of every operator; of the dropped range i, the
    operator is -1 - i."""
    ranges = [(i, graph.slot(i, 0)) for i in range(len(graph.operators))]
    ranges += [(-1 - i, d.first) for i, d in enumerate(graph.dropped)]
    return {slot_label(first + g): (number, g) for number, first in ranges for g in range(graph.key_groups)}
