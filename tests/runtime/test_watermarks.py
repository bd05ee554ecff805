"""Event time between operators: watermarks of channels, how they are kept, and how they travel."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import CheckpointError, DataError
from stateplan.common.ttl import TtlConfig
from stateplan.common.types import LogicalType
from stateplan.connectors.protocol import OffsetSource
from stateplan.connectors.splits import AssignedSplit, Split
from stateplan.functions.rex import InputRef
from stateplan.runtime.delivery import Clock, deliver, send_marks
from stateplan.runtime.exchange import Blob, Rows, encode
from stateplan.runtime.hashing import slot_label
from stateplan.runtime.jobgraph import JobGraph, OperatorSpec, Pipeline, ReaderSpec, SourceSpec, ToOperator
from stateplan.runtime.kernel import (
    ACCESS_TIME,
    END_OF_TIME,
    NO_WATERMARK,
    EventTimeKernel,
    StateTable,
    Step,
    Watermark,
    own_columns,
)
from stateplan.runtime.local.counters import LocalCounters
from stateplan.runtime.metrics.figures import take_parts
from stateplan.runtime.readers import KeptReaders, Readers
from stateplan.runtime.source_tasks import read_splits
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.transforms.calc import WatermarkTransform
from stateplan.runtime.watermarks import EventTime, Mark, PartWatermark
from stateplan.runtime.worker import MicroBatch, run_operator
from tests.runtime.memory_state import MemoryState, ttls

MARKS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(1, 50)), max_size=4)


@given(st.lists(MARKS, max_size=20))
def test_the_watermark_is_the_least_of_the_channels_and_never_goes_back(batches) -> None:
    time, best = EventTime(), Counter()
    for now, marks in enumerate(batches):
        before = time.watermark
        got = time.advance([(i, PartWatermark(c, value)) for i, c, value in marks], (2, 2), now)
        for i, c, value in marks:
            best[i, c] = max(best[i, c], value)
        least = min(best[i, c] or NO_WATERMARK for i in (0, 1) for c in (0, 1))
        assert got == Watermark(before, least) and time.watermark == least
        time = EventTime.from_json(json.loads(json.dumps(time.to_json())))


def test_the_end_of_input_is_not_remembered() -> None:
    time = EventTime()
    time.advance([(0, PartWatermark(0, 10))], (1,), 1)
    assert time.advance([(0, PartWatermark(0, END_OF_TIME))], (1,), 2) == Watermark(10, END_OF_TIME)
    assert time.advance([(0, PartWatermark(0, 12))], (1,), 3) == Watermark(10, 12)


def test_all_inputs_must_end() -> None:
    time = EventTime()
    assert time.advance([(0, PartWatermark(0, END_OF_TIME))], (1, 1), 1) == Watermark()
    assert time.advance([(0, PartWatermark(0, END_OF_TIME)), (1, PartWatermark(0, 7))], (1, 1), 2) == Watermark(
        NO_WATERMARK, 7
    )


def test_a_silent_channel_holds_back_the_others_until_it_is_idle() -> None:
    time = EventTime()
    assert time.advance([(0, PartWatermark(0, 10))], (1, 1), 0, 100).now == NO_WATERMARK
    assert time.advance([(0, PartWatermark(0, 20))], (1, 1), 99, 100).now == NO_WATERMARK
    assert time.advance([(0, PartWatermark(0, 30))], (1, 1), 100, 100).now == 30
    assert time.advance([(1, PartWatermark(0, 5))], (1, 1), 120, 100).now == 30, "never back"
    assert time.advance([(0, PartWatermark(0, 40))], (1, 1), 130, 100).now == 30, "the other one is back"
    assert time.advance([(0, PartWatermark(0, 50)), (1, PartWatermark(0, 45))], (1, 1), 140, 100).now == 45


PART_MARKS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 50), st.booleans()), max_size=5)


@given(st.lists(PART_MARKS, max_size=20), st.sampled_from([0, 3]))
def test_the_watermark_of_a_channel_is_the_least_of_its_parts(batches, idle_timeout) -> None:
    time, best, rows, parts, least = EventTime(), {}, {}, set(), NO_WATERMARK
    for now, marks in enumerate(batches):
        got = time.advance([(0, PartWatermark(0, v, p, some)) for p, v, some in marks], (1,), now, idle_timeout)
        for part, value, some in marks:
            before = best.get(part, NO_WATERMARK) if part in parts else NO_WATERMARK
            best[part] = max(before, value, *(v for p, v, _ in marks if p == part))
            first = part not in parts and part not in {p for p, _, _ in marks[: marks.index((part, value, some))]}
            if first or any(s for p, _, s in marks if p == part):
                rows[part] = now
        parts = {part for part, _, _ in marks} or parts
        active = [best[p] for p in parts if not idle_timeout or now - rows[p] < idle_timeout]
        if parts and active:
            least = max(least, min(active))
        assert got.now == least
        time = EventTime.from_json(json.loads(json.dumps(time.to_json())))


def test_a_part_without_rows_is_known_and_holds_back_the_others() -> None:
    time = EventTime()
    silent = PartWatermark(0, NO_WATERMARK, "b", rows=False)
    assert time.advance([(0, PartWatermark(0, 10, "a")), (0, silent)], (1,), 0, 100).now == NO_WATERMARK
    assert time.advance([(0, PartWatermark(0, 20, "a")), (0, silent)], (1,), 99, 100).now == NO_WATERMARK
    assert time.advance([(0, PartWatermark(0, 30, "a")), (0, silent)], (1,), 100, 100).now == 30, "it is idle"
    assert time.advance([(0, PartWatermark(0, 40, "a"))], (1,), 101).now == 40, "it is gone"


def test_it_says_when_the_watermark_came_to_where_it_is() -> None:
    time = EventTime()
    for now, mark in ((1, NO_WATERMARK), (2, 10), (3, 10), (4, 5), (5, 11), (6, END_OF_TIME)):
        time.advance([(0, PartWatermark(0, mark))], (1,), now)
        assert time.advanced == (None if now == 1 else 2 if now < 5 else 5)


def test_marks_survive_the_exchange() -> None:
    for channel, value in ((0, 1), (3, NO_WATERMARK), (7, END_OF_TIME)):
        for part, rows in (("", True), ("orders-1", False)):
            mark = PartWatermark(channel, value, part, rows)
            assert PartWatermark.unpacked(mark.packed()) == mark


class _Due(EventTimeKernel):
    """Keeps (key, time) rows until they are due, and gives them out then."""

    columns = own_columns({"c0": pl.Int64(), "c1": pl.Int64()})
    tables = (StateTable("waiting", 0, ("c0",), ("c0", "c1"), columns, due="c1"),)

    def keys(self, inputs):
        return [inputs[0].select("c0") if inputs[0].height else None]

    def advance(self, inputs, state, now, ttl, watermark):
        rows = pl.concat([state[0].select("c0", "c1"), inputs[0].select("c0", "c1")]).unique(maintain_order=True)
        out = rows.filter(pl.col("c1") <= watermark.now)
        kept = inputs[0].filter(pl.col("c1") > watermark.now).unique()
        kept = kept.with_columns(pl.lit(now, dtype=pl.Int64).alias(ACCESS_TIME))
        gone = out.join(state[0], on=["c0", "c1"], how="semi")
        return Step(out, [kept if kept.height else None], [gone if gone.height else None])


def _rows(pairs):
    return pl.DataFrame(pairs, schema={"c0": pl.Int64, "c1": pl.Int64}, orient="row")


@given(st.lists(st.tuples(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=5), st.integers(0, 6))))
def test_what_is_due_is_found_once(batches) -> None:
    kernel, twin = _Due(), MemoryState(_Due())
    store, cache = MemoryRunStore(), RunCache(None)
    watermark, pending = 0, set()
    for now, (rows, step) in enumerate(batches):
        time = Watermark(watermark, watermark + step)
        watermark += step
        expected = {r for r in (*pending, *rows) if r[1] <= watermark}
        pending = {r for r in (*pending, *rows) if r[1] > watermark}
        state = KeyedState(store, cache, kernel.tables, "here")
        assert set(state.step(kernel, [_rows(rows)], now, ttls([0]), time).rows()) == expected
        assert set(twin.step([_rows(rows)], now, [0], time).rows()) == expected


TIMESTAMP = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=3)


def test_a_row_without_a_time_fails() -> None:
    transform = WatermarkTransform(InputRef(TIMESTAMP, 0), 0, "ts")
    frame = pl.DataFrame({"c0": [1, None]}, schema={"c0": pl.Datetime("ms")})
    with pytest.raises(DataError, match="DATA330"):
        transform(frame, 0)
    assert transform.watermark(frame, 0) == 1


def _spec(name, level, pipeline, channels):
    return OperatorSpec(
        name, name, _Due(), (TtlConfig(),), 1, ({"c0": pl.Int64(), "c1": pl.Int64()},), pipeline, level, channels
    )


def test_one_key_group_passes_the_watermark_on_to_all() -> None:
    after = Pipeline((), (ToOperator(1, 0, ("c0",), 0, True),))
    graph = JobGraph((), (_spec("a", 1, after, (1,)), _spec("b", 2, Pipeline((), ()), (1,))), (), 3)
    sent = list(send_marks(graph, {Mark(0, 0, 0): 9}, 5))
    assert [b.slot for b in sent] == [slot_label(graph.slot(0, g)) for g in range(3)]
    onward = []
    for group, blob in enumerate(sent):
        out = run_operator(MicroBatch(graph), 0, group, [blob], MemoryRunStore(), RunCache(None))
        onward += [(group, b.slot, b.content) for b in out]
    assert onward == [(0, slot_label(graph.slot(1, g)), PartWatermark(0, 9)) for g in range(3)]


def test_rows_and_watermark_of_one_micro_batch_come_together() -> None:
    graph = JobGraph((), (_spec("a", 1, Pipeline((), ()), (1,)),), (), 1)
    store = MemoryRunStore()
    label = slot_label(graph.slot(0, 0))

    def play(rows, mark, now):
        blobs = [Blob(label, 0, "s", now, Rows(len(rows), encode(_rows(rows))))] if rows else []
        blobs.append(Blob(label, 0, "", now, PartWatermark(0, mark)))
        assert not list(run_operator(MicroBatch(graph), 0, 0, blobs, store, RunCache(None)))
        return json.loads(store.manifest())

    expected_time = {"watermark": 5, "since": 1, "advanced": 1, "channels": [[0, 0, 5, 1]]}
    assert play([(1, 5), (1, 9)], 5, 1)["time"] == expected_time
    assert [sum(r[1] for r in runs) for runs in play([], 4, 2)["tables"].values()] == [1]
    assert play([], END_OF_TIME, 3)["time"]["watermark"] == 5


def test_a_pipeline_notes_its_largest_watermark() -> None:
    stamp = WatermarkTransform(InputRef(TIMESTAMP, 0), 0, "ts")
    for asked in (True, False):
        pipeline = Pipeline((stamp,), (ToOperator(0, 1, ("c0",), 2, asked),))
        graph = JobGraph((), (_spec("a", 1, Pipeline((), ()), (1,)),), (), 1)
        clock = Clock()
        for times in ([5, 30], [20], [-3]):
            frame = pl.DataFrame({"c0": times}, schema={"c0": pl.Datetime("ms")})
            assert len(list(deliver(graph, pipeline, frame, 0, "", clock))) == 1
        assert clock.marks == ({Mark(0, 1, 2): 30} if asked else {})


@dataclass(frozen=True)
class _Times(Split):
    times: list[int]


class _Parts(OffsetSource[_Times]):
    """Splits with the times of their rows."""

    split_type = _Times

    def initial_offset(self):
        return {}

    def latest_offset(self, start):
        return start

    def plan(self, start, end):
        return []

    def read(self, split):
        if split.times:
            yield pl.DataFrame({"c0": split.times}, schema={"c0": pl.Datetime("ms")})


def test_a_source_sends_a_watermark_for_each_of_its_parts() -> None:
    stamp = WatermarkTransform(InputRef(TIMESTAMP, 0), 0, "ts")
    pipeline = Pipeline((stamp,), (ToOperator(0, 0, ("c0",), 0, True),))
    source = SourceSpec("s", "t", "c", _Parts(), pipeline)
    graph = JobGraph((source,), (_spec("a", 1, Pipeline((), ()), (1,)),), (), 1)
    times = {"a": [5, 30], "b": [7], "c": []}
    splits = [AssignedSplit(_Times(some, part=part), part, 1) for part, some in times.items()]
    blobs = [b for some in read_splits(MicroBatch(graph), 0, [splits], list) for b in some]
    marks = [b.content for b in blobs if isinstance(b.content, PartWatermark)]
    assert marks == [
        PartWatermark(0, 30, "a"),
        PartWatermark(0, 7, "b"),
        PartWatermark(0, NO_WATERMARK, "c", rows=False),
    ]
    waits = AssignedSplit(_Times([], part="c", waits=True), "c", 1)
    blobs = [b for some in read_splits(MicroBatch(graph), 0, [[waits]], list) for b in some]
    assert blobs[0].content == PartWatermark(0, NO_WATERMARK, "c"), "it is not idle"


def test_the_driver_is_told_the_watermarks_of_the_parts_of_an_aligned_source() -> None:
    times = {"a.b_ms": [5, 30], "b": [-1], "c": []}
    splits = [AssignedSplit(_Times(some, part=part), part, 1) for part, some in times.items()]
    for aligned in (True, False):
        stamp = WatermarkTransform(InputRef(TIMESTAMP, 0), 0, "ts", aligned=aligned)
        graph = JobGraph((SourceSpec("s", "t", "c", _Parts(), Pipeline((stamp,), ())),), (), (), 1)
        counters = LocalCounters()
        batch = MicroBatch(graph, counters=counters)
        for _ in range(2):
            assert not [b for some in read_splits(batch, 0, [splits], list) for b in some]
        figures = counters.end(0)
        assert figures["s"]["busy_ms"] < 1000, "a watermark is no time of work"
        assert take_parts(figures) == ({"s": {"a.b_ms": 30}} if aligned else {})
        assert not any("." in name and "_ms" in name for name in figures["s"])


def _told(reader: int, channel: int, value: int, now: int = 0) -> Blob:
    return Blob(0, reader, "", now, PartWatermark(channel, value))


TWO = (ReaderSpec("one", 1, 1), ReaderSpec("two", 2, 2))


def test_a_step_without_state_reads_the_least_watermark_of_its_channels() -> None:
    readers = Readers(TWO)
    assert readers.begin(0) == {}
    readers.end(0, [_told(0, 0, 10), _told(1, 0, 10)])
    assert readers.begin(1) == {0: 10}
    readers.end(1, [_told(1, 1, 7), _told(0, 0, 9)])
    assert readers.begin(2) == {0: 10, 1: 7}
    readers.end(2, [_told(0, 0, END_OF_TIME), _told(1, 0, END_OF_TIME), _told(1, 1, END_OF_TIME)])
    assert readers.begin(3) == {0: 10, 1: 7}, "the end of input is not kept"


@given(st.lists(st.tuples(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 50)), max_size=3), st.booleans())))
def test_what_a_step_reads_outlives_restarts_and_repeated_micro_batches(batches) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, plain = Path(place), Readers(TWO)
        kept = KeptReaders(TWO, folder, (), 0)
        for number, (marks, restarts) in enumerate(batches):
            told = [_told(1, channel, value) for channel, value in marks]
            expected = plain.begin(number)
            assert kept.begin(number) == expected
            kept.end(number, told)
            if restarts:  # before Spark has noted that the micro-batch is done
                kept = KeptReaders(TWO, folder, ("one", "two"), number)
                assert kept.begin(number) == expected
                kept.end(number, told)
            plain.end(number, told)


def test_a_lost_or_old_file_of_watermarks_is_refused(tmp_path: Path) -> None:
    kept = KeptReaders(TWO, tmp_path, (), 0)
    for number in range(5):
        kept.begin(number)
        kept.end(number, [_told(0, 0, number + 1)])
    for number in (2, 3):
        with pytest.raises(CheckpointError, match="micro-batch"):
            KeptReaders(TWO, tmp_path, ("one",), number)
    assert KeptReaders(TWO, tmp_path, (), 2).begin(2) == {}, "both steps are new in the plan"
    for text in ("", "[]", '{"4": {}, "5": {}}', '{"5": {"one": {"watermark": "x"}}}'):
        (tmp_path / "watermarks.json").write_text(text)
        with pytest.raises(CheckpointError):
            KeptReaders(TWO, tmp_path, ("one",), 5)
