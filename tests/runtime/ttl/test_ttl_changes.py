"""Lifetimes that change over state that is there: switched on, off, shortened, lengthened, counted in another way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from scripts.pages import page_path
from stateplan.common.errors import PlanError
from stateplan.common.ttl import TtlConfig, TtlTimeCharacteristic, UpdateType
from stateplan.common.types import BIGINT
from stateplan.execnodes.specs import StateMetadata
from stateplan.plans.document import PlanDocument
from stateplan.runtime.kernel import NO_WATERMARK, Watermark
from stateplan.runtime.kernels.deduplicate import DeduplicateKernel
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.state.runs import WRITE_TIME
from stateplan.runtime.state.ttl_access import InputFields, expiry_clock
from stateplan.runtime.translate import translate
from tests.runtime.kernels.reference import DELETE, INSERT
from tests.runtime.kernels.support import call, changes_of, frame, row_of
from tests.runtime.memory_state import ttls
from tests.runtime.ttl.ttl_plays import KINDS, Play, aged, compiled

FIRST = KINDS["deduplicate first"]
READS = ("OnReadAndWrite", "NeverReturnExpired", "ProcessingTime")
PLAIN = ("OnCreateAndWrite", "NeverReturnExpired", "ProcessingTime")
FINDS = ("OnCreateAndWrite", "ReturnExpiredIfNotCleanedUp", "ProcessingTime")
NEW, KNOWN = ["+I[1, 7"], list[str]()


def told(lines: Sequence[str]) -> list[str]:
    return [line.split(", 2024")[0] for line in lines]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # The row of 0 s is asked for at 12 s, with the second lifetime.
        (("0 ms", *PLAIN), ("10 s", *PLAIN), NEW),  # switched on: it is as old as it is
        (("0 ms", *PLAIN), ("20 s", *PLAIN), KNOWN),
        (("10 s", *PLAIN), ("0 ms", *PLAIN), KNOWN),  # switched off: what is still there is found
        (("20 s", *PLAIN), ("10 s", *PLAIN), NEW),  # shortened
        (("10 s", *PLAIN), ("20 s", *PLAIN), KNOWN),  # lengthened
        (("10 s", *PLAIN), ("10 s", *READS), NEW),  # what was read before does not count
        (("10 s", *READS), ("10 s", *PLAIN), KNOWN),  # what was read before still does
        (("10 s", *PLAIN), ("10 s", *FINDS), KNOWN),
        (("10 s", *FINDS), ("10 s", *PLAIN), NEW),
    ],
)
def test_another_lifetime_over_the_same_state(
    before: Sequence[str], after: Sequence[str], expected: list[str], tmp_path: Path
) -> None:
    plan = compiled(FIRST.query, FIRST.sink, (), str(tmp_path))
    play = Play(aged(plan, FIRST.node, 0, *before), tmp_path, by_event=False)
    play.batch(0, FIRST.write)
    assert play.batch(6, FIRST.read) == []
    play.go_on(aged(plan, FIRST.node, 0, *after))
    assert told(play.batch(12, FIRST.ask)) == expected


def test_rows_that_expired_and_are_there_come_back(tmp_path: Path) -> None:
    """Lengthening finds what has expired and not been removed, as Flink does; what was removed is gone."""
    plan = compiled(FIRST.query, FIRST.sink, (), str(tmp_path))
    short, long = aged(plan, FIRST.node, 0, "10 s"), aged(plan, FIRST.node, 0, "1 h")
    play = Play(short, tmp_path, by_event=False)
    play.batch(0, [("a", 1, 0, 5)])
    play.go_on(long)
    assert play.batch(60, [("a", 1, 0, 6)]) == []
    play.go_on(short)
    assert told(play.batch(61, [("a", 2, 0, 6)])) == ["+I[2, 6"]  # looks at the key group, and drops what has expired
    play.go_on(long)
    assert told(play.batch(62, [("a", 1, 0, 7)])) == NEW


ROW = row_of("il")
READING = TtlConfig(10, UpdateType.ON_READ_AND_WRITE)
BY_EVENT = TtlConfig(10, time_characteristic=TtlTimeCharacteristic.EVENT_TIME)
FIELDS = InputFields((("c0",),), ("c1",))


def test_runs_with_and_without_times_of_writing_are_read_and_merged_together() -> None:
    """Lifetimes that differ take turns; the groups of an aggregate know their values through all of them."""
    kernel = GroupAggregateKernel(ROW, (0,), (call("COUNT", 1, BIGINT, True),), (True,), True, True)
    store, cache = MemoryRunStore(), RunCache(None)
    configs = [TtlConfig(1000), READING, BY_EVENT]
    values = set()
    for number in range(60):
        state = KeyedState(store, cache, kernel.tables, "test")
        config = configs[number % 3]
        ttl = TtlConfig(1000, config.update_type, config.visibility, config.time_characteristic)
        rows = [(INSERT, (1, number)), (DELETE, (1, number - 4))] if number > 3 else [(INSERT, (1, number))]
        out = state.step(kernel, [frame(ROW, rows, True)], number, ttls([ttl]), Watermark(), FIELDS)
        values = (values | {number}) - {number - 4}
        assert changes_of(out)[-1][1] == (1, len(values))
    assert any(WRITE_TIME in found.columns for table in kernel.tables for _, found in state.runs(table))


def test_event_time_decides_in_the_sweep_of_idle_key_groups() -> None:
    kernel = DeduplicateKernel(ROW, (0,), False, True)
    store, cache = MemoryRunStore(), RunCache(None)
    state = KeyedState(store, cache, kernel.tables, "test")
    state.step(kernel, [frame(ROW, [(INSERT, (1, 50))])], 10**12, [BY_EVENT], Watermark(), FIELDS)
    for mark, left in ((NO_WATERMARK, 1), (59, 1), (60, 0)):
        state = KeyedState(store, cache, kernel.tables, "test")
        state.time.watermark = mark
        state.sweep(10**12, [BY_EVENT])
        assert state.stats.rows == {"deduplicateState": left}, mark


def test_by_which_clock_state_expires() -> None:
    assert expiry_clock(TtlConfig(5), 100, 7) == (100, 5)
    assert expiry_clock(BY_EVENT, 100, 7) == (7, 10)
    assert expiry_clock(BY_EVENT, 100, NO_WATERMARK)[1] == 0


def test_reading_writes_a_row_once() -> None:
    """A row that was accessed at the same time already is not written again."""
    kernel = DeduplicateKernel(ROW, (0,), False, True)
    store, cache = MemoryRunStore(), RunCache(None)
    written = []
    for now in (1, 5, 5, 6):
        state = KeyedState(store, cache, kernel.tables, "test")
        state.step(kernel, [frame(ROW, [(INSERT, (1, 1)), (INSERT, (1, 2))])], now, [READING])
        written.append(state.stats.bytes_written > 0)
    assert written == [True, True, False, True]


def test_plain_lifetimes_write_no_more_than_before() -> None:
    kernel = DeduplicateKernel(ROW, (0,), False, True)
    state = KeyedState(MemoryRunStore(), RunCache(None), kernel.tables, "test")
    state.step(kernel, [frame(ROW, [(INSERT, (1, 1))])], 5, [TtlConfig(10)], Watermark(3, 9), FIELDS)
    ((_, run),) = state.runs(kernel.tables[0])
    assert run.columns == ["c0", "@t", "@h", "@x"] and run["@t"].to_list() == [5]
    assert isinstance(run, pl.DataFrame)


def refused(plan: PlanDocument) -> PlanError:
    with pytest.raises(PlanError) as error:
        translate(plan.graph, {}, key_groups=1)
    return error.value


def test_event_time_needs_a_time_in_the_rows(tmp_path: Path) -> None:
    query = "SELECT a.k, v FROM a JOIN b ON a.k = b.k"
    plan = aged(compiled(query, "k INT, v INT", (), str(tmp_path)), "join", 1, "0 ms", *PLAIN[:2], "EventTime")
    error = refused(plan)
    assert (error.code, error.place and error.place.pointer) == (
        "PLAN190",
        f"/nodes/{[n['type'] for n in json.loads(plan.text)['nodes']].index('stream-exec-join_1')}"
        "/state/1/timeCharacteristic",
    )
    assert "rightState" in error.message and "join" in error.message and error.expected and error.hint


def test_event_time_of_rows_with_several_times(tmp_path: Path) -> None:
    query = (
        "SELECT k, MAX(v), MAX(t1), MAX(t2) FROM (SELECT a.k, v, a.ts AS t1, b.ts AS t2 FROM a JOIN b ON a.k = b.k) "
        "GROUP BY k"
    )
    plan = compiled(query, "k INT, v INT, t1 TIMESTAMP(3), t2 TIMESTAMP(3)", (), str(tmp_path))
    error = refused(aged(plan, "group-aggregate", 0, "1 h", *PLAIN[:2], "EventTime"))
    assert error.code == "PLAN191" and error.message.endswith("several time attributes: t1, t2")


def test_a_side_without_times_does_not_make_the_other_younger(tmp_path: Path) -> None:
    query = "SELECT a.k, v, w, a.ts FROM a JOIN b ON a.k = b.k"
    plan = compiled(query, "k INT, v INT, w INT, ts TIMESTAMP(3)", (), str(tmp_path))
    plan = aged(plan, "join", 0, "10 s", "OnReadAndWrite", "NeverReturnExpired", "EventTime")
    play = Play(plan, tmp_path, by_event=True)
    play.batch(0, [("a", 1, 0, 5)])
    assert told(play.batch(6, [("b", 1, 1)])) == ["+I[1, 5, 1"]
    play.mark(12)
    assert play.batch(13, [("b", 1, 2)]) == []


def test_the_entry_in_the_docs_is_one() -> None:
    text = page_path("state-ttl").read_text()
    entry = StateMetadata.model_validate(json.loads(text.split("```json")[1].split("```")[0]))
    assert entry.ttl_config(entry.ttl) == TtlConfig(
        3_600_000, UpdateType.ON_READ_AND_WRITE, time_characteristic=TtlTimeCharacteristic.EVENT_TIME
    )
