"""What becomes of a frame of changes behind a source or an operator: blobs for the next operators and sinks, and the
watermarks that are made on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import field

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, RowKind
from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.exchange import Blob, Rows, encode, split
from stateplan.runtime.hashing import slot_label
from stateplan.runtime.jobgraph import JobGraph, Pipeline, ToOperator, ToReader, ToSink, targets
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, WatermarkTap
from stateplan.runtime.side_outputs import SplitLate
from stateplan.runtime.watermarks import READER, Mark, PartWatermark

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
        largest: per place in a pipeline that makes watermarks, and part of the source, the largest one so far.
        delivered: per sink, figures of the rows that go there.
        part: the part of the source that the rows come from.
        late: per operator, the rows that were taken out in front of it because they were late.
    """

    marks: dict[Mark, int] = field(default_factory=dict)
    largest: dict[tuple[int, str], int] = field(default_factory=dict)
    delivered: dict[int, dict[str, float]] = field(default_factory=dict)
    part: str = ""
    late: Counter[int] = field(default_factory=Counter)

    def take(self, pipeline: Pipeline, place: int, value: int | None) -> None:
        """Notes a watermark made in ``pipeline``, for all it leads to."""
        watermark = max(self.largest_at(place), value if value and value > 0 else NO_WATERMARK)
        self.largest[place, self.part] = watermark
        for key in marks_of(pipeline, self.part):
            self.marks[key] = max(self.marks.get(key, NO_WATERMARK), watermark)

    def largest_at(self, place: int) -> int:
        """The largest watermark made at a place of the part that the rows come from."""
        return self.largest.get((place, self.part), NO_WATERMARK)

    def least(self) -> int:
        """The least watermark of the parts, of each the largest one that was made."""
        parts: dict[str, int] = {}
        for (_, part), value in self.largest.items():
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
    """The blobs that a pipeline makes of a frame of changes; watermarks it makes are recorded in ``clock``. ``way``
    distinguishes the pipeline from others that get the same frame."""
    clock = clock or Clock()
    for step, transform in enumerate(pipeline.transforms):
        if frame.height == 0:
            return
        if transform.makes_watermarks:
            frame = transform(frame, now)
            if transform.aligned or _has_marks(pipeline):
                clock.take(pipeline, id(transform), transform.watermark(frame, now))
        elif isinstance(transform, WatermarkTap) and isinstance(transform.transform, SplitLate):
            split_, mark = transform.transform, graph.watermarks.get(transform.reader)
            frame, late = split_.split(frame, mark)
            clock.late.update({to.operator: late.height for to in targets(pipeline) if isinstance(to, ToOperator)})
            yield from side_blobs(graph, split_.late.sink, late, now, seq, clock)
        elif isinstance(transform, WatermarkTap):
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
                yield Blob(label, output.input, seq, now, Rows(rows.height, encode(rows)))
        elif isinstance(output, ToSink):
            yield from _to_sink(graph, output.sink, output.count_only, frame, now, seq, clock)
        elif isinstance(output, Pipeline):
            yield from deliver(graph, output, frame, now, seq, clock, f"{way}/{number}")


def _to_sink(
    graph: JobGraph, sink: int, count_only: bool, frame: pl.DataFrame, now: int, seq: str, clock: Clock
) -> Iterator[Blob]:
    if not graph.sinks[sink].is_open(graph.active_plan):
        return
    data = b"" if count_only else encode(frame)
    count_rows(clock.delivered.setdefault(sink, {}), "rows_in.0", frame)
    yield Blob(slot_label(graph.sink_slot(sink)), 0, seq, now, Rows(frame.height, data))


def side_blobs(graph: JobGraph, sink: int, frame: pl.DataFrame, now: int, seq: str, clock: Clock) -> Iterator[Blob]:
    """The rows of a side output, for its sink."""
    if frame.height:
        yield from _to_sink(graph, sink, not graph.sinks[sink].writer.needs_rows, frame, now, f"{seq}\0side", clock)


def name_part(pipeline: Pipeline, clock: Clock) -> None:
    """Notes that there is the part ``clock.part``, wherever watermarks are made, should it have no rows."""
    for transform in pipeline.transforms:
        if transform.makes_watermarks and (transform.aligned or _has_marks(pipeline)):
            clock.take(pipeline, id(transform), None)
    for output in pipeline.outputs:
        if isinstance(output, Pipeline):
            name_part(output, clock)


def _has_marks(pipeline: Pipeline) -> bool:
    """Whether the watermarks made in a pipeline are of use to anyone."""
    return any(True for _ in marks_of(pipeline))


def send_marks(graph: JobGraph, marks: Mapping[Mark, int], now: int, silent: Container[str] = ()) -> Iterator[Blob]:
    """Watermarks, to every key group of the operators they are for, and to the driver; ``silent`` are parts that had no
    rows."""
    for to, value in marks.items():
        mark = PartWatermark(to.channel, value, to.part, to.part not in silent)
        if to.operator == READER:
            yield Blob(slot_label(graph.driver_slot), to.input, "", now, mark)
            continue
        for group in range(graph.key_groups):
            yield Blob(slot_label(graph.slot(to.operator, group)), to.input, "", now, mark)


def closing_marks(graph: JobGraph) -> dict[Mark, int]:
    """The watermarks that end bounded input, of all sources."""
    return {mark: END_OF_TIME for source in graph.sources for mark in marks_of(source.pipeline)}
