"""OVER in the order of a field that is no time attribute, against Flink's functions row by row."""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.types import BIGINT, DOUBLE, INT, STRING, row_type
from stateplan.execnodes.specs import AggCall
from stateplan.runtime.kernels.common.over_frames import Frame
from stateplan.runtime.kernels.over_non_time import NonTimeOverKernel
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from tests.runtime.kernels.over_functions import ANY_FRAME, Function
from tests.runtime.kernels.reference import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Change, Row, fold, retracts
from tests.runtime.kernels.support import (
    CLOCK,
    CUTS,
    anything,
    changes_of,
    fewer,
    frame,
    inserting,
    legal,
    retracting,
    split,
)
from tests.runtime.memory_state import MemoryState, ttls

ROW = row_type([("k", STRING), ("o", INT), ("v", INT), ("d", DOUBLE)])
COUNTS = [Function(name, BIGINT, None, len) for name in ("ROW_NUMBER", "RANK", "DENSE_RANK")]
FUNCTIONS = [*ANY_FRAME, *COUNTS]
CALLS = tuple(f.call for f in FUNCTIONS)

ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([None, -1, 0, 1, 1, 7]),
    st.sampled_from([None, -2, 0, 1, 5]),
    st.just(None),
)
KEYS = st.sampled_from([(0,), (), (0, 2)])
TTLS = st.sampled_from([0, 10])


@dataclass
class Partition:
    """The rows of one partition, in their order."""

    rows: list[Row] = field(default_factory=list)
    changed: int = 0


class Flink:
    """NonTimeRowsUnboundedPrecedingFunction, NonTimeRangeUnboundedPrecedingFunction."""

    def __init__(self, keys: Sequence[int], rows: bool, nulls_last: bool, ttl: int) -> None:
        self.keys, self.rows, self.nulls_last, self.ttl = keys, rows, nulls_last, ttl
        self.parts: dict[Hashable, Partition] = {}
        self.missed = 0

    def place(self, row: Row) -> tuple[bool, int]:
        null = row[1] is None
        return (null if self.nulls_last else not null), row[1] or 0

    def values(self, rows: list[Row]) -> list[Row]:
        out: list[Row] = []
        for i, row in enumerate(rows):
            seen = rows[: i + 1] if self.rows else [r for r in rows if self.place(r) <= self.place(row)]
            out.append(
                (*row, *(f.value([None if f.argument is None else r[f.argument] for r in seen]) for f in FUNCTIONS))
            )
        return out

    def add(self, change: Change, now: int) -> list[Change]:
        kind, row = change
        key = tuple(row[k] for k in self.keys)
        part = self.parts.get(key, Partition())
        if self.ttl and part.changed + self.ttl <= now:
            part = Partition()
        before = self.values(part.rows)
        if retracts(kind):
            equal = [i for i, r in enumerate(part.rows) if r == row]
            if not equal:
                self.missed += 1
                return []
            del part.rows[equal[0] if self.rows else equal[-1]]
        else:
            part.rows = sorted([*part.rows, row], key=self.place)
        part.changed = now
        self.parts[key] = part
        return [*((DELETE, r) for r in before), *((INSERT, r) for r in self.values(part.rows))]


def kernel(keys: tuple[int, ...], rows: bool, nulls_last: bool = False) -> NonTimeOverKernel:
    return NonTimeOverKernel(ROW, keys, CALLS, Frame(rows), order=1, nulls_last=nulls_last)


def hashable(changes: Sequence[Change]) -> list[Change]:
    return [(kind, tuple(tuple(v) if isinstance(v, list) else v for v in row)) for kind, row in changes]


def play(
    changes: Sequence[Change], keys: tuple[int, ...], rows: bool, nulls_last: bool, ttl: int, cuts: Any, clock: Any
) -> None:
    state = MemoryState(pickle.loads(pickle.dumps(kernel(keys, rows, nulls_last))))
    flink = Flink(keys, rows, nulls_last, ttl)
    out: list[Change] = []
    expected: list[Change] = []
    now = 1000
    for n, batch in enumerate(split(changes, cuts)):
        now += clock[n % len(clock)]
        out += hashable(changes_of(state.step([frame(ROW, batch)], now, [ttl])))
        expected += hashable([c for change in batch for c in flink.add(change, now)])
        assert fold(out) == fold(expected)
        assert state.missed == flink.missed
        state.expire(now, [ttl])
    assert legal(out)


def test_numbers_of_rows_change_when_a_row_comes_before_them() -> None:
    """``ROW_NUMBER() OVER (PARTITION BY k ORDER BY o)``: the number is the last field of the output."""
    state = MemoryState(NonTimeOverKernel(ROW, (0,), (COUNTS[0].call,), Frame(True), order=1))
    out = state.step([frame(ROW, [(INSERT, ("a", 5, 50, None)), (INSERT, ("b", 1, 10, None))])], 0, [0])
    assert sorted(changes_of(out)) == [
        (INSERT, ("a", 5, 50, None, 1)),
        (INSERT, ("b", 1, 10, None, 1)),
    ]
    out = state.step([frame(ROW, [(INSERT, ("a", 3, 30, None))])], 1, [0])
    assert sorted(changes_of(out), key=repr) == [
        (INSERT, ("a", 3, 30, None, 1)),
        (UPDATE_BEFORE, ("a", 5, 50, None, 1)),
        (UPDATE_AFTER, ("a", 5, 50, None, 2)),
    ]
    assert sorted((row["c0"], row["c1"], row["c2"]) for row in state.tables[1].values()) == [
        ("a", 3, 30),
        ("a", 5, 50),
        ("b", 1, 10),
    ]


@given(inserting(ROWS, 25), KEYS, st.booleans(), st.booleans(), TTLS, CUTS, CLOCK)
def test_append(changes, keys, rows, nulls_last, ttl, cuts, clock) -> None:
    play(changes, keys, rows, nulls_last, ttl, cuts, clock)


@given(retracting(ROWS, 25), KEYS, st.booleans(), st.booleans(), TTLS, CUTS, CLOCK)
def test_updates(changes, keys, rows, nulls_last, ttl, cuts, clock) -> None:
    play(changes, keys, rows, nulls_last, ttl, cuts, clock)


@given(anything(ROWS, 25), KEYS, st.booleans(), TTLS, CUTS, CLOCK)
def test_retractions_of_rows_that_are_not_there(changes, keys, rows, ttl, cuts, clock) -> None:
    play(changes, keys, rows, False, ttl, cuts, clock)


@fewer(0.5)
@given(anything(ROWS, 25), KEYS, st.booleans(), TTLS, CUTS, CLOCK)
def test_over_sorted_runs(changes, keys, rows, ttl, cuts, clock) -> None:
    made = kernel(keys, rows)
    memory, store = MemoryState(made), MemoryRunStore()
    now = 1000
    for n, batch in enumerate(split(changes, cuts)):
        now += clock[n % len(clock)]
        runs = KeyedState(store, RunCache(None), made.tables, "test")
        mine = hashable(changes_of(memory.step([frame(ROW, batch)], now, [ttl])))
        theirs = hashable(changes_of(runs.step(made, [frame(ROW, batch)], now, ttls([ttl]))))
        assert sorted(mine, key=repr) == sorted(theirs, key=repr)


def test_what_did_not_change_is_neither_emitted_nor_written() -> None:
    made = NonTimeOverKernel(ROW, (0,), (COUNTS[0].call,), Frame(True), order=1)
    state = MemoryState(made)
    first = [(INSERT, ("a", n, n, None)) for n in (1, 2, 4, 5)]
    state.step([frame(ROW, first)], 0, [0])
    out = changes_of(state.step([frame(ROW, [(INSERT, ("a", 3, 3, None))])], 0, [0]))
    assert [(kind, row[1], row[4]) for kind, row in out] == [
        (UPDATE_BEFORE, 4, 3),
        (UPDATE_AFTER, 4, 4),
        (UPDATE_BEFORE, 5, 4),
        (UPDATE_AFTER, 5, 5),
        (INSERT, 3, 3),
    ]
    step = made.process([frame(ROW, [(INSERT, ("a", 9, 9, None))])], tables(state, "a"), 0, [0])
    assert [t.height if t is not None else 0 for t in step.upserts] == [1, 1]
    assert changes_of(step.output) == [(INSERT, ("a", 9, 9, None, 6))]


def tables(state: MemoryState, key: str) -> list[pl.DataFrame]:
    keys = pl.DataFrame({"c0": [key]})
    return [state.lookup(t, keys, 0, 0) for t in state.kernel.tables]


def test_rows_are_written_anew_at_most_every_half_of_the_ttl() -> None:
    made = kernel((0,), True)
    state = MemoryState(made)
    state.step([frame(ROW, [(INSERT, ("a", 1, 1, None))])], 0, [100])
    written = []
    for now in range(10, 200, 10):
        step = made.process([frame(ROW, [(INSERT, ("a", 3, 1, None))])], tables(state, "a"), now, [100])
        parts, rows = step.upserts
        assert parts is not None and rows is not None
        if 1 in rows["c1"]:
            written.append(now)
        for table, upserts in zip(made.tables, step.upserts, strict=True):
            state.write(table, upserts, None)
    assert written == [60, 120, 180]


@pytest.mark.parametrize(("rows", "left"), [(True, "b,a"), (False, "a,b")])
def test_of_equal_rows_the_first_leaves_in_rows_and_the_last_in_range(rows: bool, left: str) -> None:
    listed = AggCall(name="x", internal_name="$LISTAGG$1", arg_list=(0,), type=STRING)
    state = MemoryState(NonTimeOverKernel(ROW, (2,), (listed,), Frame(rows), order=1))
    a, b = ("a", 1, 1, None), ("b", 1, 1, None)
    out = changes_of(state.step([frame(ROW, [(INSERT, a), (INSERT, b), (INSERT, a)])], 0, [0]))
    out += changes_of(state.step([frame(ROW, [(DELETE, a)])], 0, [0]))
    assert max((row[4] for row in fold(out)), key=len) == left


@pytest.mark.parametrize("rows", [True, False])
def test_floating_point_order(rows: bool) -> None:
    count = AggCall(name="x", internal_name="$COUNT$1", type=BIGINT)
    state = MemoryState(NonTimeOverKernel(ROW, (0,), (count,), Frame(rows), order=3))
    values = [float("nan"), 1.0, None, -0.0, 0.0, float("-inf")]
    out = changes_of(state.step([frame(ROW, [(INSERT, ("a", n, 1, v)) for n, v in enumerate(values)])], 0, [0]))
    found = {row[1]: row[4] for _, row in out}
    ties = [3, 4] if rows else [4, 4]
    assert found == {2: 1, 5: 2, 3: ties[0], 4: ties[1], 1: 5, 0: 6}
