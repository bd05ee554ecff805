"""Multi-join kernel against nested loops over what is there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.types import BOOLEAN
from stateplan.functions.rex import Call as RexCall
from stateplan.functions.rex import InputRef
from stateplan.runtime.kernels.multi_join import MultiJoinKernel
from tests.runtime.kernels.reference import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Change, Row, fold
from tests.runtime.kernels.support import CLOCK, changes_of, fewer, frame, inserting, retracting, row_of
from tests.runtime.memory_state import MemoryState

ROW = row_of("li")
VERSIONED = row_of("lii")
"""A common key, a number that is unique with it, and a value."""
ROWS: st.SearchStrategy[Row] = st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from([None, 0, 1, 2]))
TYPES = st.sampled_from(
    [("INNER",) * 2, ("INNER",) * 3, ("INNER", "LEFT"), ("INNER", "INNER", "LEFT"), ("INNER", "LEFT", "LEFT")]
)


def equal(a: int, b: int, name: str = "$=$1", field_number: int = 0) -> RexCall:
    typed = ROW.fields[field_number].type
    return RexCall(BOOLEAN, (InputRef(typed, a), InputRef(typed, b)), internal_name=name, syntax="BINARY")


@dataclass
class MultiJoin:
    """The operator row by row; ``less`` adds the condition that the second field of the last input is smaller."""

    types: tuple[str, ...]
    unique: tuple[bool, ...]
    less: bool
    ttl: tuple[int, ...]
    rows: list[list[tuple[Row, int]]] = field(default_factory=list)
    width: int = 2

    def __post_init__(self) -> None:
        self.rows = [[] for _ in self.types]

    def matches(self, i: int, left: tuple[object, ...], right: Row) -> bool:
        if left[0] is None or right[0] is None or left[0] != right[0]:
            return False
        if not self.less or i < len(self.types) - 1:
            return True
        return right[1] is not None and left[1] is not None and right[1] < left[1]  # type: ignore[operator]

    def result(self, inputs: list[list[Row]]) -> Counter[Row]:
        out: list[tuple[object, ...]] = list(inputs[0])
        for i, others in enumerate(inputs[1:], 1):
            joined: list[tuple[object, ...]] = []
            for left in out:
                met = [(*left, *right) for right in others if self.matches(i, left, right)]
                joined += met or ([(*left, *[None] * self.width)] if self.types[i] == "LEFT" else [])
            out = joined
        return Counter(out)

    def add(self, side: int, change: Change, now: int) -> Counter[Row]:
        """The rows that come (positive) and go (negative)."""
        kind, row = change
        for i, held in enumerate(self.rows):
            held[:] = [(r, t) for r, t in held if self.ttl[i] == 0 or t + self.ttl[i] > now]
        live = [[r for r, _ in held] for held in self.rows]
        held = self.rows[side]
        same = [
            n
            for n, (r, _) in enumerate(held)
            if (r[1] if self.unique[side] else r) == (row[1] if self.unique[side] else row) and r[0] == row[0]
        ]
        if kind in (INSERT, UPDATE_AFTER):
            before = self.result(live)
            if self.unique[side]:
                for n in reversed(same):
                    del held[n]
            held.append((row, now))
        else:
            before = self.result([rows + ([row] if i == side and not same else []) for i, rows in enumerate(live)])
            for n in reversed(same[:1]):
                del held[n]
            if not self.unique[side]:
                held[:] = [(r, now if r == row else t) for r, t in held]
        after = self.result([[r for r, _ in rows] for rows in self.rows])
        after.subtract(before)
        return Counter({r: n for r, n in after.items() if n})


def build(types: tuple[str, ...], unique: tuple[bool, ...], less: bool) -> MemoryState:
    n = len(types)
    conditions = [None, *(equal(0, 2 * i) for i in range(1, n))]
    if less:
        last = conditions[-1]
        assert last is not None
        smaller = equal(2 * n - 1, 1, "$<$1", 1)
        conditions[-1] = RexCall(BOOLEAN, (last, smaller), internal_name="$AND$1", syntax="BINARY")
    kernel = MultiJoinKernel(
        (ROW,) * n,
        types,
        tuple(conditions),
        ((), *(((0, 0, 0),) for _ in range(1, n))),
        ((0,),) * n,
        tuple(((1,),) if u else () for u in unique),
    )
    return MemoryState(kernel)


def inputs_of(batch: list[tuple[int, Change]], n: int) -> list[pl.DataFrame]:
    return [frame(ROW, [c for s, c in batch if s == side]) for side in range(n)]


def net(changes: list[Change]) -> Counter[Row]:
    out: Counter[Row] = Counter()
    for kind, row in changes:
        out[row] += 1 if kind in (INSERT, UPDATE_AFTER) else -1
    return Counter({r: n for r, n in out.items() if n})


def test_three_rows_of_one_key_meet() -> None:
    """Three inputs, joined on their first fields: nothing comes out until each has a row."""
    state = build(("INNER", "INNER", "INNER"), (False, False, False), less=False)
    none = frame(ROW, [])
    assert changes_of(state.step([frame(ROW, [(INSERT, (1, 10))]), none, none], 0, [0, 0, 0])) == []
    assert changes_of(state.step([none, frame(ROW, [(INSERT, (1, 20))]), none], 1, [0, 0, 0])) == []
    out = state.step([none, none, frame(ROW, [(INSERT, (1, 30)), (INSERT, (2, 40))])], 2, [0, 0, 0])
    assert changes_of(out) == [(INSERT, (1, 10, 1, 20, 1, 30))]
    assert [[(row["c0"], row["c1"]) for row in table.values()] for table in state.tables] == [
        [(1, 10)],
        [(1, 20)],
        [(1, 30), (2, 40)],
    ]


@fewer(0.3)
@given(st.data(), TYPES, st.booleans(), st.booleans(), CLOCK)
def test_row_by_row(data: st.DataObject, types: tuple[str, ...], less: bool, expire: bool, clock: list[int]) -> None:
    n = len(types)
    unique = tuple(data.draw(st.booleans()) for _ in types)
    ttl = tuple(data.draw(st.sampled_from([0, 6, 10])) if expire else 0 for _ in types)
    queues = [data.draw(st.one_of(inserting(ROWS, 8), retracting(ROWS, 8))) for _ in types]
    turns = data.draw(st.lists(st.integers(0, n - 1), min_size=3, max_size=8))
    state, flink = build(types, unique, less), MultiJoin(types, unique, less, ttl)
    now = 0
    for k, turn in enumerate(turns * 30):
        if not any(queues):
            break
        side = turn if queues[turn] else next(i for i, q in enumerate(queues) if q)
        change = queues[side].pop(0)
        now += clock[k % len(clock)]
        out = changes_of(state.step(inputs_of([(side, change)], n), now, list(ttl)))
        assert net(out) == flink.add(side, change, now)


@fewer(0.3)
@given(st.data(), TYPES, st.booleans())
def test_micro_batches(data: st.DataObject, types: tuple[str, ...], less: bool) -> None:
    """However the changes are cut into micro-batches, the result is the same."""
    n = len(types)
    queues = [data.draw(retracting(ROWS, 10)) for _ in types]
    turns = data.draw(st.lists(st.integers(0, n - 1), min_size=3, max_size=8))
    cuts = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    flink = MultiJoin(types, (False,) * n, less, (0,) * n)
    whole: list[tuple[int, Change]] = []
    for turn in turns * 30:
        if not any(queues):
            break
        side = turn if queues[turn] else next(i for i, q in enumerate(queues) if q)
        whole.append((side, queues[side].pop(0)))
    for now, (side, change) in enumerate(whole):
        flink.add(side, change, now)
    state = build(types, (False,) * n, less)
    out: list[Change] = []
    start = 0
    for k in range(len(whole)):
        size = cuts[k % len(cuts)]
        batch = whole[start : start + size]
        start += size
        if not batch:
            break
        out += changes_of(state.step(inputs_of(batch, n), k, [0] * n))
    assert fold(out) == flink.result([[r for r, _ in rows] for rows in flink.rows])


@st.composite
def spread(draw: st.DrawFn, size: int) -> list[Change]:
    """Changes of :data:`VERSIONED` rows, each version sent by one of three tasks, which do not wait for each other."""
    versions = st.one_of(st.none(), st.tuples(st.integers(0, 2), st.integers(0, 2)))
    updates = draw(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 1), versions), max_size=size))
    there: dict[tuple[int, int], tuple[int, int]] = {}
    tasks: list[list[Change]] = [[], [], []]
    for key, number, version in updates:
        before = there.pop((key, number), None)
        if before is not None:
            tasks[before[1]].append((DELETE if version is None else UPDATE_BEFORE, (key, number, before[0])))
        if version is not None:
            there[key, number] = version
            tasks[version[1]].append((INSERT if before is None else UPDATE_AFTER, (key, number, version[0])))
    out: list[Change] = []
    while any(tasks):
        out.append(draw(st.sampled_from([task for task in tasks if task])).pop(0))
    return out


def versions_kernel(types: tuple[str, ...]) -> MultiJoinKernel:
    """A join of :data:`VERSIONED` rows, all inputs keyed by the number."""
    n = len(types)
    return MultiJoinKernel(
        (VERSIONED,) * n,
        types,
        (None, *(equal(0, 3 * i) for i in range(1, n))),
        ((), *(((0, 0, 0),) for _ in range(1, n))),
        ((0,),) * n,
        (((1,),),) * n,
        out_of_order=frozenset(range(n)),
    )


def test_the_retraction_of_an_old_row_leaves_the_newer_one() -> None:
    state = MemoryState(versions_kernel(("INNER", "INNER")))
    none = frame(VERSIONED, [])
    other = (1, 9, 9)
    state.step([frame(VERSIONED, [(INSERT, (1, 7, 0))]), frame(VERSIONED, [(INSERT, other)])], 0, [0, 0])
    came = state.step([frame(VERSIONED, [(UPDATE_AFTER, (1, 7, 5))]), none], 1, [0, 0])
    assert changes_of(came) == [(INSERT, (1, 7, 5, *other))]
    went = state.step([frame(VERSIONED, [(UPDATE_BEFORE, (1, 7, 0))]), none], 2, [0, 0])
    assert changes_of(went) == [(DELETE, (1, 7, 0, *other))]
    again = state.step([none, frame(VERSIONED, [(INSERT, (1, 8, 8))])], 3, [0, 0])
    assert changes_of(again) == [(INSERT, (1, 7, 5, 1, 8, 8))]


@fewer(0.3)
@given(st.data(), TYPES)
def test_versions_of_several_tasks(data: st.DataObject, types: tuple[str, ...]) -> None:
    """In whatever order the tasks send their changes, the result is that of the rows that are there in the end."""
    n = len(types)
    queues = [data.draw(spread(10)) for _ in types]
    there = [[row for row, count in net(queue).items() for _ in range(count)] for queue in queues]
    state = MemoryState(versions_kernel(types))
    out: list[Change] = []
    for now in range(100):
        if not any(queues):
            break
        sizes = [data.draw(st.integers(0, 3)) for _ in types] if now < 99 else [len(q) for q in queues]
        batches = [
            [queue.pop(0) for _ in range(min(size, len(queue)))] for size, queue in zip(sizes, queues, strict=True)
        ]
        if any(batches):
            out += changes_of(state.step([frame(VERSIONED, batch) for batch in batches], now, [0] * n))
    assert fold(out) == MultiJoin(types, (False,) * n, False, (0,) * n, width=3).result(there)
