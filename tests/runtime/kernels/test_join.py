"""Join kernel against Flink's operator row by row."""

from __future__ import annotations

import pickle
from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.types import BIGINT, BOOLEAN, STRING, LogicalType, row_type
from stateplan.execnodes.specs import JoinSpec
from stateplan.functions.rex import Call as RexCall
from stateplan.functions.rex import InputRef
from stateplan.runtime.kernels.join import JoinKernel
from tests.runtime.kernels.reference import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Change,
    Join,
    JoinSide,
    Row,
    SemiAntiJoin,
    fold,
    upsert_fold,
)
from tests.runtime.kernels.support import CLOCK, CUTS, anything, changes_of, frame, inserting, retracting, row_of, split
from tests.runtime.memory_state import MemoryState

ROW = row_of("lsi")
WIDE = row_of("lsil")
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, 1, 2, 2**40]),
    st.sampled_from([None, "a", "é"]),
    st.integers(0, 1),
    st.sampled_from([None, 1]),
)

DIFFERENT = RexCall(
    BOOLEAN, (InputRef(ROW.fields[2].type, 2), InputRef(ROW.fields[2].type, 6)), internal_name="$<>$1", syntax="BINARY"
)
"""The third fields of two rows of WIDE differ."""

KEYS = st.sampled_from([((0,), (0,)), ((0, 1), (0, 1)), ((1,), (1,)), ((0, 0), (0, 0)), ((0, 0), (0, 3)), ((), ())])
UNIQUE = st.sampled_from([(), ((0,),), ((1,),), ((0, 1, 2), (1, 2)), ((2,), (0,))])
"""Declared unique keys. They are not enforced: then the last row wins, in Flink as here."""


def identity(keys: tuple[int, ...], upsert_keys: tuple[tuple[int, ...], ...]) -> tuple[int, ...] | None:
    """JoinUtil.analyzeJoinInput: none, within the join key, or the shortest."""
    if not upsert_keys:
        return None
    if any(set(k) <= set(keys) for k in upsert_keys):
        return ()
    return min(upsert_keys, key=len)


TYPES = st.sampled_from(["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"])


def build(
    keys, filters, left_unique, right_unique, condition=False, ttl=(0, 0), row: LogicalType = ROW, join_type="INNER"
):
    spec = JoinSpec(
        join_type=join_type,
        left_keys=keys[0],
        right_keys=keys[1],
        filter_nulls=filters,
        non_equi_condition=DIFFERENT if condition else None,
    )
    watched = (ttl[0] > 0, ttl[1] > 0)
    kernel = JoinKernel(row, row, spec, left_unique, right_unique, watched=watched)
    sides = [JoinSide(k, identity(k, u), t) for k, u, t in zip(keys, (left_unique, right_unique), ttl, strict=True)]
    width = len(row.fields)

    def passes(r: Row) -> bool:
        return not condition or (r[2] is not None and r[width + 2] is not None and r[2] != r[width + 2])

    if join_type in ("SEMI", "ANTI"):
        return MemoryState(kernel), SemiAntiJoin(sides[0], sides[1], filters, passes, join_type == "ANTI")
    flink = Join(sides[0], sides[1], filters, passes, join_type, (width, width))
    return MemoryState(kernel), flink


def both(changes: st.SearchStrategy[list[Change]]) -> st.SearchStrategy[list[tuple[int, Change]]]:
    """Changes of two inputs, mixed."""

    def mix(drawn: tuple[list[Change], list[Change], list[int]]) -> list[tuple[int, Change]]:
        queues = (list(drawn[0]), list(drawn[1]))
        out = []
        for turn in drawn[2] * 60:
            if not (queues[0] or queues[1]):
                break
            side = turn if queues[turn] else 1 - turn
            out.append((side, queues[side].pop(0)))
        return out

    turns = st.lists(st.integers(0, 1), min_size=3, max_size=8)
    return st.tuples(changes, changes, turns).map(mix)


def by_row(changes: list[Change]) -> list[tuple[int, str]]:
    """The changes one input row caused: their order is nobody's business."""
    return sorted((kind, repr(row)) for kind, row in changes)


def inputs_of(batch: list[tuple[int, Change]], row: LogicalType = ROW) -> list[pl.DataFrame]:
    return [frame(row, [c for s, c in batch if s == side]) for side in (0, 1)]


def test_a_left_row_waits_for_its_match() -> None:
    """``LEFT JOIN`` on the first fields: a row without a match is taken back when the match arrives."""
    spec = JoinSpec(join_type="LEFT", left_keys=(0,), right_keys=(0,), filter_nulls=(True,))
    state = MemoryState(JoinKernel(ROW, ROW, spec))
    nothing = frame(ROW, [])
    out = state.step([frame(ROW, [(INSERT, (1, "l", 0))]), nothing], now=1000, ttl=[0, 0])
    assert changes_of(out) == [(INSERT, (1, "l", 0, None, None, None))]
    out = state.step([nothing, frame(ROW, [(INSERT, (1, "r", 5)), (INSERT, (2, "r", 6))])], now=1001, ttl=[0, 0])
    assert changes_of(out) == [
        (DELETE, (1, "l", 0, None, None, None)),
        (INSERT, (1, "l", 0, 1, "r", 5)),
    ]
    left, right = state.tables
    assert [(row["c0"], row["c1"], row["c2"], row["@matches"]) for row in left.values()] == [(1, "l", 0, 1)]
    assert [(row["c0"], row["c1"], row["c2"]) for row in right.values()] == [(1, "r", 5), (2, "r", 6)]


@given(st.data(), TYPES, KEYS, st.booleans(), st.booleans(), UNIQUE, UNIQUE, st.booleans())
def test_row_by_row(data, join_type, keys, nulls, filtered, left_unique, right_unique, condition) -> None:
    filters = (not nulls, filtered)[: len(keys[0])]
    changes = data.draw(both(st.one_of(retracting(ROWS, 10), anything(ROWS, 15))))
    state, flink = build(keys, filters, left_unique, right_unique, condition, row=WIDE, join_type=join_type)
    for now, (side, change) in enumerate(changes):
        out = changes_of(state.step(inputs_of([(side, change)], WIDE), now, [0, 0]))
        assert by_row(out) == by_row(flink.add(side, change, now))


@given(st.data(), TYPES, st.sampled_from([((0,), (0,)), ((1,), (1,))]), UNIQUE, UNIQUE, CLOCK)
def test_row_by_row_with_a_clock(data, join_type, keys, left_unique, right_unique, clock) -> None:
    """The sides expire each by its own TTL. Every row is there once: see the next test for equal rows."""
    row = row_of("lsill")
    serial = iter(range(10**6))
    rows = ROWS.map(lambda r: (*r, next(serial)))
    changes = data.draw(both(retracting(rows, 12)))
    ttl = data.draw(st.tuples(st.sampled_from([0, 6, 10]), st.sampled_from([0, 6, 10])))
    state, flink = build(keys, (True,), left_unique, right_unique, ttl=ttl, row=row, join_type=join_type)
    now = 0
    for n, (side, change) in enumerate(changes):
        now += clock[n % len(clock)]
        out = changes_of(state.step(inputs_of([(side, change)], row), now, list(ttl)))
        assert by_row(out) == by_row(flink.add(side, change, now))


@given(st.data(), st.booleans(), UNIQUE, UNIQUE, CLOCK, CUTS)
def test_batches_with_a_clock(data, condition, left_unique, right_unique, clock, cuts) -> None:
    """With numbers of matches on both sides equal rows are one entry, as in Flink."""
    changes = data.draw(both(st.one_of(retracting(ROWS, 15), anything(ROWS, 12))))
    ttl = data.draw(st.tuples(st.sampled_from([0, 6, 10]), st.sampled_from([0, 6, 10])))
    state, flink = build(((0,), (0,)), (True,), left_unique, right_unique, condition, ttl, WIDE, "FULL")
    now = 0
    for n, batch in enumerate(split(changes, cuts)):
        now += clock[n % len(clock)]
        out = changes_of(state.step(inputs_of(batch, WIDE), now, list(ttl)))
        expected = [c for side in (0, 1) for s, change in batch if s == side for c in flink.add(s, change, now)]
        assert fold(out) == fold(expected)


def test_equal_rows_without_unique_key_expire_one_by_one() -> None:
    """Documented difference: in Flink the second row would refresh the first, and both would match."""
    state, _ = build(((0,), (0,)), (True,), (), ())
    one = (INSERT, (1, "a", 1))
    state.step(inputs_of([(0, one)]), 0, [10, 0])
    state.step(inputs_of([(0, one)]), 6, [10, 0])
    out = changes_of(state.step(inputs_of([(1, (INSERT, (1, "x", 1)))]), 12, [10, 0]))
    assert out == [(INSERT, (1, "a", 1, 1, "x", 1))]
    # A retraction replays all occurrences, and so refreshes the ones that stay, as in Flink.
    state, _ = build(((0,), (0,)), (True,), (), ())
    state.step(inputs_of([(0, one), (0, one)]), 0, [10, 0])
    state.step(inputs_of([(0, (DELETE, one[1]))]), 6, [10, 0])
    assert len(changes_of(state.step(inputs_of([(1, (INSERT, (1, "x", 1)))]), 12, [10, 0]))) == 1


@given(st.data(), TYPES, KEYS, st.booleans(), st.booleans(), UNIQUE, UNIQUE, st.booleans(), CUTS)
def test_batches(data, join_type, keys, nulls, filtered, left_unique, right_unique, condition, cuts) -> None:
    """Any split gives what Flink gives when it sees the left rows of each batch first."""
    filters = (not nulls, filtered)[: len(keys[0])]
    changes = data.draw(both(st.one_of(retracting(ROWS, 20), inserting(ROWS, 20), anything(ROWS, 15))))
    state, flink = build(keys, filters, left_unique, right_unique, condition, row=WIDE, join_type=join_type)
    out: list[Change] = []
    expected: list[Change] = []
    for now, batch in enumerate(split(changes, cuts)):
        out += changes_of(state.step(inputs_of(batch, WIDE), now, [0, 0]))
        for side in (0, 1):
            expected += [c for s, change in batch if s == side for c in flink.add(s, change, now)]
        assert fold(out) == fold(expected)
    if not (left_unique or right_unique or any(filters)):
        assert state.missed == sum(s.missed for s in flink.sides)


def relational(join_type: str, left: Counter[Row], right: Counter[Row], width: int) -> Counter[Row]:
    """The join of two tables on their first fields."""
    nothing = (None,) * width
    pairs = [(a, b) for a in left for b in right if a[0] is not None and a[0] == b[0]]
    matched = {a for a, _ in pairs}, {b for _, b in pairs}
    if join_type in ("SEMI", "ANTI"):
        return Counter({a: n for a, n in left.items() if (a in matched[0]) == (join_type == "SEMI")})
    out = Counter({a + b: left[a] * right[b] for a, b in pairs})
    if join_type in ("LEFT", "FULL"):
        out.update({a + nothing: n for a, n in left.items() if a not in matched[0]})
    if join_type in ("RIGHT", "FULL"):
        out.update({nothing + b: n for b, n in right.items() if b not in matched[1]})
    return out


@given(st.data(), TYPES, st.lists(st.integers(0, 200), max_size=4), CUTS)
def test_the_split_does_not_matter(data, join_type, cuts, other_cuts) -> None:
    """Without expiry, and retracting only what is there, all splits give the join of what is there."""
    changes = data.draw(both(retracting(ROWS, 25)))
    results = []
    for places in (cuts, other_cuts):
        state, _ = build(((0,), (0,)), (True,), (), (), row=WIDE, join_type=join_type)
        out: list[Change] = []
        for now, batch in enumerate(split(changes, places)):
            out += changes_of(state.step(inputs_of(batch, WIDE), now, [0, 0]))
        results.append(fold(out))
    left, right = (fold([c for s, c in changes if s == side]) for side in (0, 1))
    assert results[0] == results[1] == relational(join_type, left, right, 4)


@st.composite
def keyed(draw, size: int) -> list[Change]:
    """Changes of rows with a unique third field, which decides the first one."""
    there: dict[int, Row] = {}
    out: list[Change] = []
    for number, text, what in draw(
        st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.integers(0, 3)), max_size=size)
    ):
        row = (number % 2, text, number)
        old = there.pop(number, None)
        if old is not None and what == 0:
            out.append((DELETE, old))
            continue
        out += [(INSERT, row)] if old is None else [(UPDATE_BEFORE, old), (UPDATE_AFTER, row)]
        there[number] = row
    return out


@given(st.data(), st.sampled_from(["INNER", "LEFT", "SEMI", "ANTI"]), CUTS)
def test_the_order_of_changes_is_right_for_a_table_with_a_key(data, join_type, cuts) -> None:
    """At most one row on the right per key: the left key is the key of the result. What takes away comes first."""
    changes = [(s, c) for s, c in data.draw(both(keyed(20))) if s == 0 or c[1][2] < 2]
    state, _ = build(((0,), (0,)), (True,), ((2,),), ((0,),), join_type=join_type)
    out: list[Change] = []
    for now, batch in enumerate(split(changes, cuts)):
        out += changes_of(state.step(inputs_of(batch), now, [0, 0]))
    left, right = (fold([c for s, c in changes if s == side]) for side in (0, 1))
    kept = upsert_fold([(DELETE if kind == UPDATE_BEFORE else kind, row) for kind, row in out], (2,))
    assert sorted(kept.values(), key=repr) == sorted(relational(join_type, left, right, 3), key=repr)


def test_a_match_in_the_same_batch_is_all_that_is_said() -> None:
    """No row padded with NULLs that goes at once."""
    one = [(0, (INSERT, (1, "a", 1))), (1, (INSERT, (1, "x", 1)))]
    for join_type, expected in (("LEFT", [(INSERT, (1, "a", 1, 1, "x", 1))]), ("ANTI", []), ("SEMI", None)):
        state, _ = build(((0,), (0,)), (True,), (), (), join_type=join_type)
        out = changes_of(state.step(inputs_of(one), 0, [0, 0]))
        assert out == ([(INSERT, (1, "a", 1))] if expected is None else expected)


def test_a_match_refreshes_the_row_that_waits_for_it() -> None:
    """As in Flink: the number of matches is written, and so the row lives on; and it counts what expired."""
    state, _ = build(((0,), (0,)), (True,), ((0,),), ((2,),), join_type="LEFT")
    ttl = [10, 4]

    def right(now: int, kind: int, n: int) -> list[Change]:
        return changes_of(state.step(inputs_of([(1, (kind, (1, "x", n)))]), now, ttl))

    state.step(inputs_of([(0, (INSERT, (1, "l", 0)))]), 0, ttl)
    assert right(6, INSERT, 1) == [(DELETE, (1, "l", 0, None, None, None)), (INSERT, (1, "l", 0, 1, "x", 1))]
    assert right(14, INSERT, 2) == [(INSERT, (1, "l", 0, 1, "x", 2))]
    assert right(15, DELETE, 2) == [(DELETE, (1, "l", 0, 1, "x", 2))]
    assert right(25, INSERT, 3) == []


def test_rows_that_come_and_go_in_a_batch_are_not_mentioned() -> None:
    state, _ = build(((0,), (0,)), (True,), (), ())
    state.step(inputs_of([(1, (INSERT, (1, "x", 1)))]), 0, [0, 0])
    passing = [
        (0, (INSERT, (1, "a", 1))),
        (0, (UPDATE_BEFORE, (1, "a", 1))),
        (0, (UPDATE_AFTER, (1, "b", 1))),
        (0, (UPDATE_BEFORE, (1, "b", 1))),
        (0, (UPDATE_AFTER, (1, "c", 1))),
    ]
    assert changes_of(state.step(inputs_of(passing), 1, [0, 0])) == [(UPDATE_AFTER, (1, "c", 1, 1, "x", 1))]
    back = [(0, (UPDATE_BEFORE, (1, "c", 1))), (0, (UPDATE_AFTER, (1, "c", 1)))]
    assert changes_of(state.step(inputs_of(back), 2, [0, 0])) == []


def test_upserts_keep_the_deletion_of_an_older_row() -> None:
    """Without -U in the stream, +U then -D is not nothing: the row of an earlier batch goes."""
    state, _ = build(((0,), (0,)), (True,), ((0,),), ((0,),))
    state.step(inputs_of([(0, (INSERT, (1, "a", 0))), (1, (INSERT, (1, "x", 1)))]), 0, [0, 0])
    batch = [(0, (UPDATE_AFTER, (1, "b", 0))), (0, (DELETE, (1, "b", 0)))]
    assert changes_of(state.step(inputs_of(batch), 1, [0, 0]))[-1] == (DELETE, (1, "b", 0, 1, "x", 1))


@pytest.mark.parametrize("unique", [(), ((2,),), ((0,),)])
def test_retractions_of_expired_and_unknown_rows_meet_the_other_side(unique) -> None:
    """As measured on Flink 2.3 for all three kinds of state."""
    state, _ = build(((0,), (0,)), (True,), unique, ((0,),))
    ttl = [1000, 3600_000]

    def left(now: int, kind: int, k: int, n: int) -> list[Change]:
        return changes_of(state.step(inputs_of([(0, (kind, (k, "l", n)))]), now, ttl))

    state.step(inputs_of([(1, (INSERT, (1, "x", 0)))]), 0, ttl)
    assert left(20, INSERT, 1, 1) == [(INSERT, (1, "l", 1, 1, "x", 0))]
    update = [(1, (UPDATE_BEFORE, (1, "x", 0))), (1, (UPDATE_AFTER, (1, "y", 0)))]
    assert changes_of(state.step(inputs_of(update), 1820, ttl)) == []
    assert left(1840, DELETE, 1, 9) == [(DELETE, (1, "l", 9, 1, "y", 0))]
    assert left(1860, DELETE, 1, 1) == [(DELETE, (1, "l", 1, 1, "y", 0))]
    assert left(1880, UPDATE_BEFORE, 1, 2) == [(UPDATE_BEFORE, (1, "l", 2, 1, "y", 0))]


def test_reads_follow_the_change() -> None:
    """The own side is read for retractions without unique key only."""
    one = [(0, (INSERT, (7, "a", 1)))]
    gone = [(0, (DELETE, (7, "a", 1)))]
    for unique, batch, reads_own in (((), one, False), ((), gone, True), (((0,),), one, False), (((0,),), gone, False)):
        state, _ = build(((0,), (0,)), (True,), unique, unique)
        own, other = state.kernel.keys(inputs_of(batch))
        assert (own is not None) == reads_own
        assert other is not None and other["c0"].to_list() == [7]


@given(st.data(), TYPES, st.booleans(), st.booleans(), CLOCK)
def test_retractions_of_expired_rows_are_counted(data, join_type, left_unique, right_unique, clock) -> None:
    """By unique key within the join key, and without one."""
    serial = iter(range(10**6))
    rows = ROWS.filter(lambda r: r[0] is not None).map(lambda r: (*r, next(serial)))
    changes = data.draw(both(retracting(rows, 12)))
    unique = [((0,),) if u else () for u in (left_unique, right_unique)]
    row = row_of("lsill")
    state, flink = build(((0,), (0,)), (True,), *unique, ttl=(10, 10), row=row, join_type=join_type)
    now = 0
    for n, (side, change) in enumerate(changes):
        now += clock[n % len(clock)]
        state.step(inputs_of([(side, change)], row), now, [10, 10])
        flink.add(side, change, now)
    assert state.missed == sum(s.missed for s in flink.sides)


def test_a_keyed_side_looks_at_the_first_retractions_of_a_batch() -> None:
    state, _ = build(((0,), (0,)), (True,), ((0,),), ((0,),), ttl=(10, 0))
    there = [(0, (INSERT, (k, "a", 1))) for k in range(400)]
    state.step(inputs_of(there), 0, [10, 0])
    again = [(0, (INSERT, (1000, "b", 1))), (0, (DELETE, (1000, "b", 1)))]
    gone = [(0, (DELETE, change[1])) for _, change in there]
    own, _ = state.kernel.keys(inputs_of([*again, *gone]))
    assert own is not None and own.height == 256
    state.step(inputs_of([*again, *gone]), 20, [10, 0])
    assert state.missed == 255
    left, right = state.kernel.keys(inputs_of([(1, (DELETE, (1, "a", 1)))]))
    assert left is not None and right is None


def test_null_keys_are_not_kept() -> None:
    state, _ = build(((0,), (0,)), (True,), (), ())
    state.step(inputs_of([(0, (INSERT, (None, "a", 1))), (1, (INSERT, (None, "b", 1)))]), 0, [0, 0])
    assert state.tables == [{}, {}]
    state, _ = build(((0,), (0,)), (False,), (), ())
    out = state.step(inputs_of([(0, (INSERT, (None, "a", 1))), (1, (INSERT, (None, "b", 1)))]), 0, [0, 0])
    assert changes_of(out) == [(INSERT, (None, "a", 1, None, "b", 1))]


def test_output_has_the_kind_column_when_an_input_has_it() -> None:
    state, _ = build(((0,), (0,)), (True,), (), ())
    plain = state.step(inputs_of([(0, (INSERT, (1, "a", 1))), (1, (INSERT, (1, "b", 1)))]), 0, [0, 0])
    assert plain.columns == [f"c{i}" for i in range(6)]
    kinds = [frame(ROW, [], kind=True), frame(ROW, [(INSERT, (1, "c", 1))])]
    mixed = state.step(kinds, 1, [0, 0])
    assert mixed.columns[-1] == "kind" and mixed["kind"].to_list() == [INSERT]
    assert state.step([frame(ROW, [], kind=True), frame(ROW, [])], 2, [0, 0]).schema == mixed.schema


def test_pickle() -> None:
    kernel = build(((0,), (0,)), (True,), (), (), condition=True, row=WIDE)[0].kernel
    rows = [(0, (INSERT, (1, "a", 1, 1))), (1, (INSERT, (1, "b", 1, 1))), (1, (INSERT, (1, "b", 0, 1)))]
    assert MemoryState(kernel).step(inputs_of(rows, WIDE), 0, [0, 0]).rows() == [(1, "a", 1, 1, 1, "b", 0, 1)]
    assert pickle.loads(pickle.dumps(kernel)) == kernel


def test_different_keys_on_both_sides() -> None:
    left, right = row_type([("a", STRING), ("k", BIGINT)]), row_type([("k", BIGINT), ("t", STRING)])
    spec = JoinSpec(join_type="INNER", left_keys=(1,), right_keys=(0,), filter_nulls=(True,))
    kernel = JoinKernel(left, right, spec, ((0,),), ((0,),))
    assert kernel.tables[0].identity == ("c1", "c0") and kernel.tables[1].identity == ("c0",)
    state = MemoryState(kernel)
    out = state.step([frame(left, [(INSERT, ("x", 5))]), frame(right, [(INSERT, (5, "y"))])], 0, [0, 0])
    assert out.rows() == [("x", 5, 5, "y")]
    moved = [(UPDATE_BEFORE, ("x", 5)), (UPDATE_AFTER, ("x", 6))]
    out = state.step([frame(left, moved), frame(right, [(INSERT, (6, "z"))])], 1, [0, 0])
    assert changes_of(out) == [(UPDATE_BEFORE, ("x", 5, 5, "y")), (INSERT, ("x", 6, 6, "z"))]
    assert [row["c1"] for row in state.tables[0].values()] == [6]
