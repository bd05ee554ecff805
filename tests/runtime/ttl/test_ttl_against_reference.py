"""How state ages, against one access at a time by the rules of FLIP-25, over random rows and watermarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.common.ttl import TtlConfig
from stateplan.common.types import BIGINT, INT
from stateplan.execnodes.specs import JoinSpec
from stateplan.runtime.kernel import NO_WATERMARK, Kernel, Watermark
from stateplan.runtime.kernels.deduplicate import DeduplicateKernel
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from stateplan.runtime.kernels.join import JoinKernel
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.state.ttl_access import InputFields
from tests.runtime.kernels import reference
from tests.runtime.kernels.reference import DELETE, INSERT, Change, Row, fold
from tests.runtime.kernels.support import call, changes_of, frame, row_of
from tests.runtime.memory_state import MemoryState, ttls
from tests.runtime.ttl.flip25 import CONFIGS, Aggregate, Entries, Moment, Side, config
from tests.support.long_runs import LONG

ROW = row_of("iil")
"""Key, value, and the time of the row."""
TTL = 10
Reference = Callable[[int, Change], list[Change]]
Batch = tuple[int, int, list[list[Change]]]
"""When it comes, the watermark behind it, and the changes of each input."""


def batches(retract: bool, inputs: int) -> st.SearchStrategy[list[Batch]]:
    """Micro-batches; rows come out of order, and what is retracted is there. No two rows are equal."""
    rows = st.tuples(st.integers(1, 2), st.integers(0, 2), st.integers(-12, 6), st.booleans(), st.integers(0, 50))
    batch = st.tuples(st.integers(0, 8), st.integers(0, 8), st.lists(st.lists(rows, max_size=4), min_size=inputs))

    def play(drawn: list[tuple[int, int, list[list[Any]]]]) -> list[Batch]:
        there: list[list[Row]] = [[] for _ in range(inputs)]
        now = mark = 100
        out: list[Batch] = []
        for wait, progress, sides in drawn:
            now += wait
            made: list[list[Change]] = []
            for side in range(inputs):
                changes: list[Change] = []
                for k, v, late, goes, which in sides[side] if side < len(sides) else []:
                    if retract and goes and there[side]:
                        changes.append((DELETE, there[side].pop(which % len(there[side]))))
                    else:
                        row = (k, v, mark + late)
                        if row not in there[side]:
                            there[side].append(row)
                            changes.append((INSERT, row))
                made.append(changes)
            mark += progress
            out.append((now, mark, made))
        return out

    return st.lists(batch, max_size=10).map(play)


def compare(
    kernel: Kernel, flink: Reference, moment: Moment, configs: Sequence[TtlConfig], drawn: list[Batch], retract: bool
) -> None:
    """Whether both states give what the reference gives, micro-batch by micro-batch."""
    memory, store, cache = MemoryState(kernel), MemoryRunStore(), RunCache(None)
    inputs = len(drawn[0][2]) if drawn else 1
    fields = InputFields((("c0",),) * inputs, ("c2",) * inputs)
    before = NO_WATERMARK
    cleaned = False
    for number, (now, mark, sides) in enumerate(drawn, start=1):
        if not any(sides):
            before = mark
            continue
        expected: list[Change] = []
        moment.now, moment.batch = now, number
        moment.watermark = None if before == NO_WATERMARK else before
        for side, changes in enumerate(sides):
            for change in changes:
                moment.event = change[1][2]
                expected += flink(side, change)
        frames = [frame(ROW, changes, kind=retract) for changes in sides]
        watermark = Watermark(before, mark)
        mine = memory.step(frames, now, configs, watermark, fields)
        runs = KeyedState(store, cache, kernel.tables, "test")
        theirs = runs.step(kernel, frames, now, ttls(configs), watermark, fields)
        assert fold(changes_of(mine)) == fold(expected), number
        if not cleaned:
            assert fold(changes_of(theirs)) == fold(expected), number
        # What expired rows give depends on whether they are still there, once merges have removed some.
        cleaned |= runs.stats.expired_rows.total() > 0 and any(c.finds_expired for c in configs)
        before = mark


@pytest.mark.parametrize("words", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("last", [False, True])
@settings(max_examples=20 if LONG else 5)
@given(drawn=batches(False, 1))
def test_deduplicate(last: bool, words: Sequence[str], drawn: list[Batch]) -> None:
    lifetime, moment = config(TTL, *words), Moment()
    flink = reference.Deduplicate((0,), last, True, TTL)
    flink.state = Entries(lifetime, moment)
    kernel = DeduplicateKernel(ROW, (0,), last, True)
    compare(kernel, lambda _, change: flink.add(change, 0), moment, [lifetime], drawn, False)


@pytest.mark.halved
@pytest.mark.parametrize("words", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("retract", [False, True])
@settings(max_examples=20 if LONG else 5)
@given(data=st.data())
def test_group_aggregate(retract: bool, words: Sequence[str], data: st.DataObject) -> None:
    drawn = data.draw(batches(retract, 1))
    lifetime, moment = config(TTL, *words), Moment()
    calls = (call("COUNT", None, BIGINT), call("SUM", 1, INT), call("COUNT", 1, BIGINT, True))
    kernel = GroupAggregateKernel(ROW, (0,), calls, (retract,) * 3, True, retract, lists_expire=lifetime.is_plain)
    counted = [reference.Call("COUNT", None), reference.Call("SUM", 1), reference.Call("COUNT", 1, True)]
    flink = Aggregate((0,), counted, retract, lifetime, moment)
    compare(kernel, lambda _, change: flink.add(change, 0), moment, [lifetime], drawn, retract)


@pytest.mark.halved
@pytest.mark.parametrize("words", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("kind", ["INNER", "LEFT", "unique"])
@settings(max_examples=20 if LONG else 5)
@given(data=st.data())
def test_join(kind: str, words: Sequence[str], data: st.DataObject) -> None:
    drawn = data.draw(batches(True, 2))
    moment = Moment()
    lifetimes = [config(TTL, *words), config(data.draw(st.sampled_from([0, 5])), *words)]
    join_type = "LEFT" if kind == "LEFT" else "INNER"
    spec = JoinSpec(join_type=join_type, left_keys=(0,), right_keys=(0,), filter_nulls=(True,))
    unique = ((1, 2),) if kind == "unique" else ()
    kernel = JoinKernel(ROW, ROW, spec, unique, unique)
    sides = [Side((0,), unique[0] if unique else None, c, moment) for c in lifetimes]
    flink = reference.Join(sides[0], sides[1], (True,), join_type=join_type, widths=(3, 3))
    compare(kernel, lambda side, change: flink.add(side, change, 0), moment, lifetimes, drawn, True)
