"""What runs inside Spark's Python workers: sources, levels of stateful operators, and sinks, all over blobs."""

from __future__ import annotations

import contextlib
import functools
import os
import time
import traceback
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ParamSpec, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa

from stateplan.common.changelog import KIND, RowKind
from stateplan.common.errors import DataError, Place, StateplanError
from stateplan.common.files import bytes_taken, local_path, plain_path
from stateplan.common.roots import hold
from stateplan.connectors.protocol import Split
from stateplan.connectors.rejects import Reject, collecting
from stateplan.runtime.exchange import Blob, blob_batch, decode, encode, split
from stateplan.runtime.hashing import slot_label
from stateplan.runtime.jobgraph import (
    JobGraph,
    OperatorSpec,
    Pipeline,
    SourceSpec,
    ToOperator,
    ToReader,
    ToSink,
    targets,
)
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, Reading, Watermark
from stateplan.runtime.metrics.ages import age_figures
from stateplan.runtime.metrics.figures import PART_WATERMARK, WAITING
from stateplan.runtime.side_outputs import SplitLate
from stateplan.runtime.state.keyed_state import KeyedState, RunStore, StepStats
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.watermarks import MARK, READER, Mark, Received, decode_mark, encode_mark

P = ParamSpec("P")
T = TypeVar("T")

Count = Callable[[str, dict[str, float]], None]
"""Adds figures to the counters of the operator with the given uid."""


class WorkerError(RuntimeError):
    """Carries a StateplanError to the driver inside Spark's exception text."""


def coded(function: Callable[P, Iterator[T]], operator: str | None = None) -> Callable[P, Iterator[T]]:
    """Makes a generator raise stateplan's errors in the form that the driver finds again; where they name no operator,
    they name ``operator``."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        try:
            yield from function(*args, **kwargs)
        except StateplanError as error:
            raise WorkerError((error.within(operator) if operator else error).encoded()) from None
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            detail = "".join(traceback.format_exception_only(error)).strip()
            raise WorkerError(f"{detail}\n{traceback.format_exc()}") from None

    return run


_KINDS = tuple(kind.short for kind in RowKind)


def count_rows(figures: dict[str, float], name: str, frame: pl.DataFrame) -> None:
    """Adds the rows of a frame of changes to the figures ``name.<row kind>``."""
    if frame.height == 0:
        return
    if KIND not in frame.columns:
        counts = [frame.height]
    else:
        counts = np.bincount(frame[KIND].to_numpy(), minlength=len(_KINDS)).tolist()
    for kind, count in zip(_KINDS, counts, strict=False):
        if count:
            figures[f"{name}.{kind}"] = figures.get(f"{name}.{kind}", 0) + count


@dataclass
class Clock:
    """Event time in a task: the watermarks it makes; and what it delivers to sinks.

    Attributes:
        marks: the largest watermark made for each channel of an operator or a reader.
        made: per place in a pipeline that makes watermarks, and part of the source, the largest one so far.
        delivered: per sink, figures of the rows that go there.
        part: of the source that the rows come from.
        late: per operator, the rows that were taken out in front of it because they were late.
    """

    marks: dict[Mark, int] = field(default_factory=dict)
    made: dict[tuple[int, str], int] = field(default_factory=dict)
    delivered: dict[int, dict[str, float]] = field(default_factory=dict)
    part: str = ""
    late: Counter[int] = field(default_factory=Counter)

    def take(self, pipeline: Pipeline, place: int, value: int | None) -> None:
        """Notes a watermark made in ``pipeline``, for all it leads to."""
        made = max(self.seen(place), value if value and value > 0 else NO_WATERMARK)
        self.made[place, self.part] = made
        for key in marks_of(pipeline, self.part):
            self.marks[key] = max(self.marks.get(key, NO_WATERMARK), made)

    def seen(self, place: int) -> int:
        """The largest watermark made at a place of the part that the rows come from."""
        return self.made.get((place, self.part), NO_WATERMARK)

    def least(self) -> int:
        """The least watermark of the parts, of each the largest one that was made."""
        parts: dict[str, int] = {}
        for (_, part), value in self.made.items():
            parts[part] = max(parts.get(part, NO_WATERMARK), value)
        return min(parts.values(), default=NO_WATERMARK)


def marks_of(pipeline: Pipeline, part: str = "") -> Iterator[Mark]:
    """Where the watermarks of a part of a source go that are made in front of a pipeline."""
    for to in targets(pipeline):
        if isinstance(to, ToOperator) and to.event_time:
            yield Mark(to.operator, to.input, to.channel, part)
        elif isinstance(to, ToReader):
            yield Mark(READER, to.reader, to.channel, part)


def deliver(
    graph: JobGraph,
    pipeline: Pipeline,
    frame: pl.DataFrame,
    now: int,
    seq: str,
    clock: Clock | None = None,
    way: str = "",
) -> Iterator[Blob]:
    """The blobs that a pipeline makes of a frame of changes; watermarks it makes are noted in ``clock``. ``way`` tells
    the pipeline from others that get the same frame."""
    clock = clock or Clock()
    for step, transform in enumerate(pipeline.transforms):
        if frame.height == 0:
            return
        if transform.makes_watermarks:
            frame = transform(frame, now)
            if transform.aligned or _asked(pipeline):
                clock.take(pipeline, id(transform), transform.watermark(frame, now))
        elif isinstance(transform, Reading) and isinstance(transform.transform, SplitLate):
            split_, mark = transform.transform, graph.watermarks.get(transform.reader)
            frame, late = split_.split(frame, mark)
            clock.late.update({to.operator: late.height for to in targets(pipeline) if isinstance(to, ToOperator)})
            yield from side_blobs(graph, split_.late.sink, late, now, seq, clock)
        elif isinstance(transform, Reading):
            read = transform.of_piece(f"{seq}{way}.{step}")
            frame = read.at_watermark(frame, now, graph.watermarks.get(transform.reader))
        else:
            frame = transform.of_piece(f"{seq}{way}.{step}")(frame, now)
    if frame.height == 0:
        return
    for number, output in enumerate(pipeline.outputs):
        if isinstance(output, ToOperator):
            for group, rows in split(frame, output.keys, graph.key_groups):
                label = slot_label(graph.slot(output.operator, group))
                yield Blob(label, output.input, seq, now, rows.height, encode(rows))
        elif isinstance(output, ToSink):
            yield from _to_sink(graph, output.sink, output.count_only, frame, now, seq, clock)
        elif isinstance(output, Pipeline):
            yield from deliver(graph, output, frame, now, seq, clock, f"{way}/{number}")


def _to_sink(
    graph: JobGraph, sink: int, count_only: bool, frame: pl.DataFrame, now: int, seq: str, clock: Clock
) -> Iterator[Blob]:
    data = b"" if count_only else encode(frame)
    count_rows(clock.delivered.setdefault(sink, {}), "rows_in.0", frame)
    yield Blob(slot_label(graph.sink_slot(sink)), 0, seq, now, frame.height, data)


def side_blobs(graph: JobGraph, sink: int, frame: pl.DataFrame, now: int, seq: str, clock: Clock) -> Iterator[Blob]:
    """The rows of a side output, for its sink."""
    if frame.height:
        yield from _to_sink(graph, sink, not graph.sinks[sink].writer.needs_rows, frame, now, f"{seq}\0side", clock)


def name_part(pipeline: Pipeline, clock: Clock) -> None:
    """Notes that there is the part ``clock.part``, wherever watermarks are made, should it have no rows."""
    for transform in pipeline.transforms:
        if transform.makes_watermarks and (transform.aligned or _asked(pipeline)):
            clock.take(pipeline, id(transform), None)
    for output in pipeline.outputs:
        if isinstance(output, Pipeline):
            name_part(output, clock)


def _asked(pipeline: Pipeline) -> bool:
    """Whether the watermarks made in a pipeline are of use to anyone."""
    return any(True for _ in marks_of(pipeline))


def send_marks(graph: JobGraph, marks: Mapping[Mark, int], now: int, silent: Container[str] = ()) -> Iterator[Blob]:
    """Watermarks, to every key group of the operators they are for, and to the driver; ``silent`` are parts that had no
    rows."""
    for to, value in marks.items():
        data = encode_mark(Received(to.channel, value, to.part, to.part not in silent))
        if to.operator == READER:
            yield Blob(slot_label(graph.driver_slot), to.input, "", now, MARK, data)
            continue
        for group in range(graph.key_groups):
            yield Blob(slot_label(graph.slot(to.operator, group)), to.input, "", now, MARK, data)


def closing_marks(graph: JobGraph) -> dict[Mark, int]:
    """The watermarks that end bounded input, of all sources."""
    return {mark: END_OF_TIME for source in graph.sources for mark in marks_of(source.pipeline)}


TOUCH = -2
"""``rows`` of a blob that only has its receiver look at its state."""


def touches(graph: JobGraph, now: int) -> Iterator[Blob]:
    """What has every slot look at its state whose state is to be dropped or rewritten."""
    firsts = [d.first for d in graph.dropped]
    firsts += [graph.slot(i, 0) for i, o in enumerate(graph.operators) if o.rewrite is not None]
    for first in firsts:
        for group in range(graph.key_groups):
            yield Blob(slot_label(first + group), 0, "", now, TOUCH, b"")


SWEPT_WITHIN = 256
"""A key group that gets no rows looks at its state once in at most so many micro-batches."""


def sweeps(graph: JobGraph, batch: int, now: int, level: int = 1) -> Iterator[Blob]:
    """What has a few key groups drop state that has expired, in turn: mostly one, whatever they get besides.

    Args:
        batch: the id of the micro-batch; says whose turn it is.
        level: the first level that these blobs come to.
    """
    slots = [
        (spec.level, graph.slot(i, group))
        for i, spec in enumerate(graph.operators)
        if any(config.ttl for config in spec.ttl) and (not spec.kernel.by_event_time or spec.kernel.by_clock)
        for group in range(graph.key_groups)
    ]
    turns = -(-len(slots) // SWEPT_WITHIN)
    for turn in range(batch * turns, (batch + 1) * turns):
        at, slot = slots[turn % len(slots)]
        if at >= level:
            yield Blob(slot_label(slot), 0, "", now, TOUCH, b"")


def alarms(graph: JobGraph, now: int, level: int = 1) -> Iterator[Blob]:
    """What has operators by processing time look at what is due, in every key group, and, where the input ends, tell
    what is not due yet.

    Args:
        now: the micro-batch's time, ms.
        level: the first level that these blobs come to.
    """
    for number, spec in enumerate(graph.operators):
        tells = graph.bounded and spec.kernel.awaits is not None
        if (tells or spec.kernel.alarms is not None) and spec.level >= level:
            for group in range(graph.key_groups):
                yield Blob(slot_label(graph.slot(number, group)), 0, "", now, TOUCH, b"")


def read_source(
    graph: JobGraph, index: int, count: Count | None, touch: bool = False, number: int | None = None, level: int = 1
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow`` that turns the splits of source ``index`` into blobs.

    A split is a row of the Spark source; it has ``now`` (ms) and ``seq``, a text that orders the splits. With ``touch``
    the blobs are followed by :func:`touches`; else by the :func:`sweeps` of micro-batch ``number``, and in any case by
    :func:`alarms`, both from ``level`` on.
    """
    reader = graph.sources[index].reader

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        splits = (split for batch in batches for split in reader.splits(batch))
        return read_splits(graph, index, splits, blob_batch, count, touch, number, level)

    return run


def read_splits(
    graph: JobGraph,
    index: int,
    splits: Iterable[Split],
    pack: Callable[[list[Blob]], T],
    count: Count | None,
    touch: bool = False,
    number: int | None = None,
    level: int = 1,
) -> Iterator[T]:
    """What :func:`read_source` gives, of splits.

    Args:
        pack: makes what is given of some blobs.
    """
    source = graph.sources[index]

    def run() -> Iterator[T]:
        hold(graph.roots)
        figures: dict[str, float] = dict.fromkeys(("rows_in", "bytes_out", "read_ms", "deliver_ms"), 0)
        clock, now, some, ended, size = Clock(), 0, False, False, 0
        rows_of: Counter[str] = Counter()
        waiting: set[str] = set()
        so_far = getattr(count, "so_far", None)
        for part in splits:
            now = max(now, part["now"])
            if part.get("ends"):
                ended = True
                continue
            some = True
            started = time.perf_counter()
            before, own = bytes_taken(), _size_of(part)
            clock.part = part.get("part", "")
            if clock.part:
                rows_of[clock.part] += 0
                if part.get("waits"):
                    waiting.add(clock.part)
                name_part(source.pipeline, clock)
            rows_before = 0
            for n, (frame, rejects) in enumerate(_read(source, part)):
                read = time.perf_counter()
                figures["rows_in"] += frame.height
                rows_of[clock.part] += frame.height
                count_rows(figures, "rows_out", frame)
                seq = f"{part['seq']}\0{n:08d}"
                try:
                    blobs = list(deliver(graph, source.pipeline, frame, part["now"], seq, clock))
                except DataError as error:
                    _locate(error, graph, source, frame, part, rows_before)
                    raise
                rows_before += frame.height
                if rejects and source.errors is not None:
                    rows = source.errors.of(rejects)
                    blobs += side_blobs(graph, source.errors.sink, rows, part["now"], seq, clock)
                out = pack(blobs) if blobs else None
                figures["bytes_out"] += sum(len(b.data) for b in blobs)
                figures["read_ms"] += 1000 * (read - started)
                figures["deliver_ms"] += 1000 * (time.perf_counter() - read)
                if own:
                    figures["bytes_read"] = size + min(own, bytes_taken() - before)
                if so_far is not None:
                    so_far(source.uid, figures)
                if out is not None:
                    yield out
                started = time.perf_counter()
            size += own
        if size:
            figures["bytes_read"] = size
        if clock.marks:
            silent = {part for part, rows in rows_of.items() if part and not rows} - waiting
            yield pack(list(send_marks(graph, clock.marks, now, silent)))
        if ended:
            yield pack(list(send_marks(graph, closing_marks(graph), now)))
        if touch and (some or ended):
            yield pack(list(touches(graph, now)))
        elif number is not None and some and (swept := list(sweeps(graph, number, now, level))):
            yield pack(swept)
        if some and (woken := list(alarms(graph, now, level))):
            yield pack(woken)
        if count and some:
            figures["rows_out"] = figures["rows_in"]
            made = clock.least()
            figures |= _aligned(source.pipeline, clock)
            _count_all(count, graph, source.uid, figures, clock, now, made)

    return coded(run, f"table {source.name}")()


def _locate(
    error: DataError, graph: JobGraph, source: SourceSpec, frame: pl.DataFrame, part: Split, before: int
) -> None:
    """Adds to an error of a row in which file the row is, and its number there.

    Args:
        frame: the row is in it.
        before: rows of the same file before the frame.
    """
    place = error.place or Place()
    if place.file is not None or "path" not in part:
        return
    low, high = 0, frame.height
    while high - low > 1:
        middle = (low + high) // 2
        try:
            for _ in deliver(graph, source.pipeline, frame[low:middle], part["now"], str(part["seq"])):
                pass
            low = middle
        except StateplanError:
            high = middle
    error.place = replace(place, file=plain_path(part["path"]), row=before + low + 1)


def _read(source: SourceSpec, part: Split) -> Iterator[tuple[pl.DataFrame, list[Reject]]]:
    """The frames of a split, and with each what was skipped since the one before; the last one may have no rows."""
    frames = iter(source.reader.read(part))
    if source.errors is None:
        yield from ((frame, []) for frame in frames)
        return
    while True:
        with collecting() as found:
            frame = next(frames, None)
        if frame is not None:
            yield frame, found
        else:
            if found:
                yield pl.DataFrame(), found
            return


def _aligned(pipeline: Pipeline, clock: Clock) -> dict[str, float]:
    """The watermarks of the parts of an aligned source, as figures."""
    places = {id(t) for t in pipeline.transforms if t.aligned}
    made = {part: value for (place, part), value in clock.made.items() if place in places and value > NO_WATERMARK}
    return {f"{PART_WATERMARK}{part}": value for part, value in made.items()}


def _size_of(split: Split) -> int:
    """Bytes of the file that a split is; 0 for one that is none, or whose size is not known here."""
    if "size" in split:
        return int(split["size"])
    if "data" in split:
        return len(split["data"])
    path = plain_path(split.get("path", ""))
    with contextlib.suppress(OSError):
        return os.path.getsize(path) if path and local_path(path) else 0
    return 0


def run_operator(
    graph: JobGraph, operator: int, group: int, blobs: list[Blob], store: RunStore, cache: RunCache, count: Count | None
) -> Iterator[Blob]:
    """One micro-batch of one key group of a stateful operator."""
    hold(graph.roots)
    spec: OperatorSpec = graph.operators[operator]
    began = time.perf_counter()
    blobs.sort(key=lambda b: b.seq)
    now = max(b.now for b in blobs)
    inputs = []
    for number in range(spec.inputs):
        mine = [b.data for b in blobs if b.input == number and b.rows >= 0]
        inputs.append(decode(mine) if mine else pl.DataFrame(schema=spec.input_schemas[number]))
    figures: dict[str, float] = {"decode_ms": 1000 * (time.perf_counter() - began)}
    place = f"{spec.name}, key group {group}"
    state = KeyedState(store, cache, spec.kernel.tables, place, spec.version, spec.rewrite)
    watermark = Watermark()
    if spec.event_time:
        received = ((b.input, decode_mark(b.data)) for b in blobs if b.rows == MARK)
        watermark = state.time.advance(received, spec.channels, now, spec.idle_timeout, spec.idle_timeouts)
        state.touch_time()
    if spec.kernel.by_event_time or any(f.height for f in inputs):
        time_of_kernel = Watermark(NO_WATERMARK, now) if spec.kernel.by_clock else watermark
        output = state.step(spec.kernel, inputs, now, spec.ttl, time_of_kernel, spec.fields)
    else:
        output = pl.DataFrame()
        if any(b.rows == TOUCH for b in blobs):
            state.sweep(now, spec.ttl)
        else:
            state.flush()
    clock = Clock()
    stepped = time.perf_counter()
    out = list(deliver(graph, spec.pipeline, output, now, f"{operator:04d}\0{group:06d}", clock))
    figures["deliver_ms"] = 1000 * (time.perf_counter() - stepped)
    yield from out
    for late, rows in zip(spec.late, state.late_rows, strict=False):
        if late is not None and rows.height:
            seq = f"{operator:04d}\0{group:06d}\0{late.input}"
            yield from side_blobs(graph, late.sink, late.of(rows, watermark.before), now, seq, clock)
    if spec.event_time:
        yield from send_marks(graph, _passed_on(spec, group, watermark, clock), now)
    if count:
        for number, frame in enumerate(inputs):
            count_rows(figures, f"rows_in.{number}", frame)
        figures["rows_in"] = sum(f.height for f in inputs)
        figures["rows_out"] = output.height
        figures["key_groups"] = 1 if figures["rows_in"] else 0
        count_rows(figures, "rows_out", output)
        figures["bytes_in"] = sum(len(b.data) for b in blobs)
        figures["bytes_out"] = sum(len(b.data) for b in out)
        figures |= _state_figures(state.stats)
        if graph.bounded and spec.kernel.awaits is not None:
            figures[WAITING] = state.waiting(spec.kernel, now, spec.ttl)
        _count_all(count, graph, spec.uid, figures, clock, now, watermark.now)


def step_operator(
    graph: JobGraph, operator: int, group: int, blobs: list[Blob], store: RunStore, cache: RunCache, count: Count | None
) -> Iterator[Blob]:
    """:func:`run_operator` whose errors find their way to the driver, and say for the log where they are from."""
    name = graph.operators[operator].name
    try:
        yield from coded(run_operator, name)(graph, operator, group, blobs, store, cache, count)
    except Exception as error:
        error.add_note(f"in {name}, key group {group}")
        raise


def _state_figures(stats: StepStats) -> dict[str, float]:
    """What a step did to the state, in figures."""
    figures: dict[str, float] = {
        "lookup_ms": stats.lookup_ms,
        "kernel_ms": stats.kernel_ms,
        "write_ms": stats.write_ms,
        "state_bytes_written": stats.bytes_written,
        "state_bytes": stats.bytes_written - stats.bytes_dropped,
        "state_rows": stats.rows_change,
        "state_rows_merged": stats.merged_rows,
        "expired_rows": sum(stats.expired_rows.values()),
        "retractions_missed": stats.missed,
        "late_rows": stats.late,
        "cache_hits": stats.loads - stats.cache_misses,
        "cache_misses": stats.cache_misses,
        "cache_unwritten": stats.cache_unwritten,
    }
    for slot, rows in stats.expired_rows.items():
        figures[f"expired_rows.{slot}"] = rows
    for (slot, use), counts in stats.ages.items():
        figures |= age_figures(slot, use, counts)
    for slot, (rows, size, runs) in stats.growth.items():
        figures |= {f"state_rows.{slot}": rows, f"state_bytes.{slot}": size, f"state_runs.{slot}": runs}
    return figures


def _count_all(
    count: Count, graph: JobGraph, uid: str, figures: dict[str, float], clock: Clock, now: int, watermark: int
) -> None:
    """Counts the figures of a source or an operator, and those of the sinks that got rows from it."""
    figures["busy_ms"] = sum(ms for name, ms in figures.items() if name.endswith("_ms") and "." not in name)
    figures["now_ms"] = now
    if watermark != NO_WATERMARK:
        figures["watermark_ms"] = watermark
    count(uid, figures)
    for operator, late in clock.late.items():
        count(graph.operators[operator].uid, {"late_rows": late})
    for sink, delivered in clock.delivered.items():
        count(graph.sinks[sink].uid, {"rows_in": sum(delivered.values()), **delivered})


def _passed_on(spec: OperatorSpec, group: int, watermark: Watermark, clock: Clock) -> dict[Mark, int]:
    """The watermarks that a key group sends on: those made behind the operator, and, as one group for all, its own."""
    marks = dict(clock.marks)
    if group == 0 and watermark.now > NO_WATERMARK:
        value = watermark.now if watermark.now == END_OF_TIME else watermark.now - spec.kernel.watermark_delay
        for mark in marks_of(spec.pipeline):
            marks.setdefault(mark, value)
    return marks


def unslot(graph: JobGraph) -> dict[int, tuple[int, int]]:
    """Spark grouping key -> (operator, key group), for every slot of every operator; of the dropped range i, the
    operator is -1 - i."""
    ranges = [(i, graph.slot(i, 0)) for i in range(len(graph.operators))]
    ranges += [(-1 - i, d.first) for i, d in enumerate(graph.dropped)]
    return {slot_label(first + g): (number, g) for number, first in ranges for g in range(graph.key_groups)}
