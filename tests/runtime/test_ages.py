"""How old rows of state are when they are used: the histogram, and what operators tell of their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.changelog import KIND, RowKind
from stateplan.common.ttl import TtlConfig, UpdateType
from stateplan.execnodes.specs import JoinSpec
from stateplan.runtime.kernel import Kernel
from stateplan.runtime.kernels.deduplicate import DeduplicateKernel
from stateplan.runtime.kernels.join import JoinKernel
from stateplan.runtime.metrics.ages import (
    Histogram,
    add_ages,
    age_figures,
    bounds,
    count_ages,
    take_ages,
)
from stateplan.runtime.metrics.records import BatchMetrics
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.state.ttl_access import InputFields
from tests.runtime.kernels.support import row_of

MONTH = 30 * 86_400_000
AGES = st.lists(st.integers(0, 400 * MONTH) | st.integers(0, 2000), max_size=60)


def histogram(ages: Sequence[int]) -> Histogram:
    return Histogram(count_ages(np.array(ages, np.int64)))


# ---- the histogram ---------------------------------------------------------------------------------------------


@given(AGES)
def test_every_age_is_in_its_bucket_and_near_its_middle(ages: list[int]) -> None:
    for age in ages:
        ((bucket, count),) = count_ages(np.array([age])).items()
        low, high = bounds(bucket)
        assert count == 1 and low <= age <= high
        assert abs(age - (low + high) / 2) <= 0.02 * age


def test_buckets_follow_each_other_without_a_gap() -> None:
    before = -1
    for bucket in range(1200):
        low, high = bounds(bucket)
        if low <= high:  # below 32 ms some have no whole number
            assert low == before + 1
            before = high
    assert before > 24 * MONTH


def test_an_age_below_zero_is_zero() -> None:
    assert count_ages(np.array([-5, 0])) == {0: 2}


@given(AGES, AGES)
def test_histograms_add_up(some: list[int], more: list[int]) -> None:
    both = add_ages(add_ages({}, {"a": {"0.joined": histogram(some)}}), {"a": {"0.joined": histogram(more)}})
    assert both["a"]["0.joined"] == histogram(some + more)


@given(AGES)
def test_a_histogram_comes_back_from_text(ages: list[int]) -> None:
    assert Histogram.from_text(histogram(ages).to_text()) == histogram(ages)


@pytest.mark.parametrize("text", ["x y", ":", "1,,2", "-"])
def test_text_that_is_no_histogram(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        Histogram.from_text(text)


@given(AGES.filter(bool), st.integers(0, 60))
def test_the_ttl_for_some_misses_is_the_shortest_within_three_percent(ages: list[int], missed: int) -> None:
    found = histogram(ages)
    ttl = found.ttl_for(missed)
    assert sum(age >= ttl for age in ages) <= missed
    needed = next((age + 1 for age in sorted(ages, reverse=True)[missed:]), 1)
    assert needed <= ttl <= needed * 1.032 + 1
    assert found.missed(ttl) <= missed


@given(AGES, st.integers(1, 400 * MONTH))
def test_no_miss_is_overlooked(ages: list[int], ttl: int) -> None:
    found = histogram(ages)
    assert sum(age >= ttl for age in ages) <= found.missed(ttl) <= sum(age >= ttl * 0.968 - 1 for age in ages)
    assert found.missed(0) == 0


@given(st.lists(st.tuples(st.integers(0, 3), AGES), max_size=6))
def test_records_carry_ages_and_add_them_up(parts: list[tuple[int, list[int]]]) -> None:
    whole: BatchMetrics | None = None
    for number, (state, ages) in enumerate(parts):
        figures: dict[str, float] = {"rows_in": 1, **dict(age_figures(state, "joined", count_ages(np.array(ages))))}
        operators = {"a": figures}
        record = BatchMetrics(number, 0, 0, 1.0, operators, {}, ages=take_ages(operators))
        assert operators == {"a": {"rows_in": 1}}
        record = BatchMetrics.from_json(record.to_json())
        whole = record if whole is None else whole.followed_by(record)
    for state in range(4):
        wanted = histogram([age for of, ages in parts if of == state for age in ages])
        found = whole.ages.get("a", {}).get(f"{state}.joined", Histogram()) if whole else Histogram()
        assert found == wanted


# ---- what operators tell ---------------------------------------------------------------------------------------

ROW = row_of("ii")
BATCHES = st.lists(st.tuples(st.integers(1, 50), *[st.lists(st.integers(0, 3), max_size=4)] * 2), max_size=8)
"""Micro-batches: how much later than the one before, and the keys of the rows of both inputs."""


BY_KEY = InputFields((("c0",), ("c0",)))


class Steps:
    """An operator over its micro-batches, and all ages that it told."""

    def __init__(self, kernel: Kernel, configs: Sequence[TtlConfig]) -> None:
        self.kernel, self.configs = kernel, configs
        self.store = MemoryRunStore()
        self.told: Counter[tuple[int, str, int]] = Counter()

    def step(self, now: int, *inputs: pl.DataFrame) -> None:
        state = KeyedState(self.store, RunCache(None), self.kernel.tables, "here")
        state.step(self.kernel, inputs, now, self.configs, fields=BY_KEY)
        for (slot, use), counts in state.stats.ages.items():
            for bucket, n in counts.items():
                self.told[slot, use, bucket] += n


def rows(keys: Sequence[int], number: int, kinds: Sequence[RowKind] | None = None) -> pl.DataFrame:
    """A row per key, which no other row is equal to."""
    values = [100 * number + i for i in range(len(keys))]
    out = pl.DataFrame({"c0": keys, "c1": values}, schema={"c0": pl.Int32, "c1": pl.Int32})
    return out if kinds is None else out.with_columns(pl.Series(KIND, [int(k) for k in kinds], pl.Int8))


def bucket_of(age: int) -> int:
    return next(iter(count_ages(np.array([age]))))


@given(BATCHES, st.sampled_from([0, 60, 1000]), st.sampled_from(["INNER", "LEFT"]))
def test_a_join_tells_the_rows_that_met_a_row_of_the_other_side(
    batches: list[tuple[int, list[int], list[int]]], ttl: int, kind: str
) -> None:
    spec = JoinSpec(join_type=kind, left_keys=(0,), right_keys=(0,), filter_nulls=(True,), non_equi_condition=None)
    steps = Steps(JoinKernel(ROW, ROW, spec, left_upsert_keys=((1,),), right_upsert_keys=((1,),)), [TtlConfig(ttl)] * 2)
    wanted: Counter[tuple[int, str, int]] = Counter()
    kept: tuple[list[list[int]], list[list[int]]] = ([], [])  # per side, key and time of each row
    now = 1000
    for number, (later, left, right) in enumerate(batches):
        now += later
        steps.step(now, rows(left, number), rows(right, number))
        for side, mine, theirs in ((0, left, right), (1, right, left)):
            for row in kept[side]:
                if row[0] in theirs and (ttl == 0 or row[1] > now - ttl):
                    wanted[side, "joined", bucket_of(now - row[1])] += 1
                    if kind == "LEFT" and side == 0:
                        row[1] = now  # the number of its matches is written
            kept[side].extend([key, now] for key in mine)
        kept[0][:] = [row for row in kept[0] if ttl == 0 or row[1] > now - ttl]
        kept[1][:] = [row for row in kept[1] if ttl == 0 or row[1] > now - ttl]
    assert steps.told == wanted


@given(BATCHES, st.booleans())
def test_a_join_tells_retractions_from_matches(batches: list[tuple[int, list[int], list[int]]], met: bool) -> None:
    spec = JoinSpec(join_type="INNER", left_keys=(0,), right_keys=(0,), filter_nulls=(True,), non_equi_condition=None)
    steps = Steps(JoinKernel(ROW, ROW, spec), [TtlConfig()] * 2)
    there: list[tuple[int, int, int]] = []  # key, value and time of the rows of the left input
    wanted: Counter[tuple[int, str, int]] = Counter()
    now = 0
    for number, (later, added, others) in enumerate(batches):
        now += later
        gone = there[: len(others)]
        kinds = [RowKind.DELETE] * len(gone)
        old = pl.DataFrame([g[:2] for g in gone], {"c0": pl.Int32, "c1": pl.Int32}, orient="row")
        old = old.with_columns(pl.Series(KIND, [int(k) for k in kinds], pl.Int8))
        new = rows(added, number, [RowKind.INSERT] * len(added))
        theirs = others if met else []
        steps.step(now, pl.concat([old, new]), rows(theirs, number))
        for row in there:
            if row in gone:
                wanted[0, "retracted", bucket_of(now - row[2])] += 1
            elif row[0] in theirs:
                wanted[0, "joined", bucket_of(now - row[2])] += 1
        there = [*there[len(gone) :], *((key, 100 * number + i, now) for i, key in enumerate(added))]
    assert {key: n for key, n in steps.told.items() if key[0] == 0} == wanted


@given(BATCHES, st.sampled_from([0, 60, 1000]), st.booleans(), st.booleans())
def test_a_deduplication_tells_the_keys_that_come_again(
    batches: list[tuple[int, list[int], list[int]]], ttl: int, keep_last: bool, refreshed: bool
) -> None:
    update = UpdateType.ON_READ_AND_WRITE if refreshed else UpdateType.ON_CREATE_AND_WRITE
    kernel = DeduplicateKernel(ROW, (0,), keep_last=keep_last, generate_update_before=False)
    steps = Steps(kernel, [TtlConfig(ttl, update)])
    use = "refreshed" if keep_last else "deduplicated"
    wanted: Counter[tuple[int, str, int]] = Counter()
    accessed: dict[int, int] = {}
    now = 0
    for number, (later, keys, _) in enumerate(batches):
        now += later
        steps.step(now, rows(keys, number))
        for key in set(keys):
            if key in accessed and (ttl == 0 or accessed[key] > now - ttl):
                wanted[0, use, bucket_of(now - accessed[key])] += 1
                if not keep_last and not (refreshed and ttl):
                    continue
            accessed[key] = now
    assert steps.told == wanted
