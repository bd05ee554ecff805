"""Numbering of keys, replay of counters and netting, against dictionaries."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.runtime.kernels.common import key_ids as module
from stateplan.runtime.kernels.common.key_ids import (
    equal,
    first_of_each,
    ids_of,
    key_ids,
    net_rows,
    positions,
    ranks,
    replay,
)

WIDE = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
CLOSE = st.one_of(st.none(), st.integers(-3, 3))
TEXT = st.one_of(st.none(), st.sampled_from(["", "a", "é", "aé", "日本"]))
REAL = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")]))
COLUMNS: list[tuple[st.SearchStrategy[object], pl.DataType]] = [
    (WIDE, pl.Int64()),
    (CLOSE, pl.Int64()),
    (CLOSE, pl.Int8()),
    (TEXT, pl.String()),
    (REAL, pl.Float64()),
    (st.one_of(st.none(), st.booleans()), pl.Boolean()),
    (st.sampled_from([None, Decimal("1.50"), Decimal("-2.00")]), pl.Decimal(38, 2)),
    (st.sampled_from([None, [], [1], [1, None]]), pl.List(pl.Int64())),
    (st.sampled_from([None, {"x": 1}, {"x": None}]), pl.Struct({"x": pl.Int64()})),
    (st.sampled_from([None, 0, 10**6]), pl.Datetime("ms", "UTC")),
    (st.none(), pl.Null()),
]


@st.composite
def frames(draw: st.DrawFn) -> pl.DataFrame:
    chosen = draw(st.lists(st.sampled_from(range(len(COLUMNS))), min_size=1, max_size=3))
    height = draw(st.integers(0, 30))
    series = []
    for place, index in enumerate(chosen):
        values, dtype = COLUMNS[index]
        drawn = draw(st.lists(values, min_size=height, max_size=height))
        series.append(pl.Series(f"c{place}", drawn, dtype=dtype))
    return pl.DataFrame(series)


def comparable(row: tuple[object, ...]) -> str:
    return repr(tuple(0.0 if isinstance(v, float) and v == 0 else v for v in row))


def check(frame: pl.DataFrame) -> None:
    ids = key_ids(frame, frame.columns)
    rows = [comparable(r) for r in frame.rows()]
    assert ids.count == len(set(rows))
    for number, row in zip(ids.codes.tolist(), rows, strict=True):
        assert rows[ids.first[number]] == row
        assert rows.index(row) == ids.first[number]


def test_equal_keys_have_the_number_of_the_first() -> None:
    ids = key_ids(pl.DataFrame({"c0": ["b", "a", "b", None]}), ["c0"])
    assert ids.count == 3
    assert ids.first[ids.codes].tolist() == [0, 1, 0, 3], "the first row with the key of each row"


@given(frames())
def test_equal_keys_have_one_number_and_their_first_row(frame: pl.DataFrame) -> None:
    check(frame)


@given(frames())
def test_hashes_that_collide(frame: pl.DataFrame) -> None:
    """Keys are compared: with a hash that is always the same the numbers do not change."""
    original = pl.DataFrame.hash_rows
    calls = []

    def constant(self: pl.DataFrame, *_: object) -> pl.Series:
        calls.append(self.height)
        return pl.Series(np.zeros(self.height, np.uint64))

    pl.DataFrame.hash_rows = constant  # type: ignore[method-assign, assignment]
    try:
        check(frame)
    finally:
        pl.DataFrame.hash_rows = original  # type: ignore[method-assign]


def test_collisions_are_seen() -> None:
    """The comparison behind the hashes is what finds a collision."""
    frame = pl.DataFrame({"c0": ["a", "b", "a"]})
    wrong = module.KeyIds(np.array([0]), np.array([0, 0, 0]))
    assert not module._same(frame, ["c0"], wrong)
    assert not module._same(frame, ["c0"], module._sort_ids(np.zeros(3, np.uint64)))
    assert module._same(frame, ["c0"], module.KeyIds(np.array([0, 1]), np.array([0, 1, 0])))
    assert module._same(frame, ["c0"], module._sort_ids(np.array([7, 3, 7], np.uint64)))


@given(st.lists(CLOSE, max_size=20), st.lists(CLOSE, max_size=20))
def test_first_of_each_not_seen(seen: list[int | None], arriving: list[int | None]) -> None:
    frame, before = (pl.DataFrame({"c0": pl.Series(v, dtype=pl.Int64)}) for v in (arriving, seen))
    expected = [i for i, v in enumerate(arriving) if v not in seen and v not in arriving[:i]]
    assert first_of_each(frame, ["c0"], before).tolist() == expected


def test_no_columns_is_one_key() -> None:
    frame = pl.DataFrame({"c0": [1, 2]})
    ids, parts = ids_of((frame, frame), [])
    assert ids.count == 1 and [p.tolist() for p in parts] == [[0, 0], [0, 0]]
    assert key_ids(frame, []).first.tolist() == [0]


STEPS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([1, -1])), min_size=1, max_size=60)


@given(STEPS, st.lists(st.integers(0, 3), min_size=5, max_size=5))
def test_replay(steps: list[tuple[int, int]], start: list[int]) -> None:
    codes = np.array([c for c, _ in steps], np.int64)
    change = np.array([s for _, s in steps], np.int64)
    done, final = replay(codes, change, np.array(start, np.int64))
    level, seen, empty = list(start), [0] * 5, [0] * 5
    for code, step in steps:
        level[code] = max(0, level[code] + step)
        seen[code] += 1
        if level[code] == 0:
            empty[code] = seen[code]
    assert final.tolist() == level
    assert done.tolist() == empty


@given(STEPS)
def test_ranks_and_positions(steps: list[tuple[int, int]]) -> None:
    codes = np.array([c for c, _ in steps], np.int64)
    listed = codes.tolist()
    assert ranks(codes).tolist() == [listed[:i].count(c) for i, c in enumerate(listed)]
    assert ranks(codes, backwards=True).tolist() == [listed[i + 1 :].count(c) for i, c in enumerate(listed)]
    last = {c: i for i, c in enumerate(listed)}
    assert positions(codes, 5).tolist() == [last.get(c, -1) for c in range(5)]


@given(STEPS)
def test_netting(steps: list[tuple[int, int]]) -> None:
    codes = np.array([c for c, _ in steps], np.int64)
    change = np.array([s for _, s in steps], np.int64)
    rows = net_rows(codes, change, 5)
    net = Counter[int]()
    for code, step in steps:
        net[code] += step
    if rows is None:
        assert all(abs(net[c]) == codes.tolist().count(c) for c in net)
        return
    assert rows.tolist() == sorted(rows.tolist())
    left = Counter[int]()
    for row in rows:
        left[steps[row][0]] += steps[row][1]
    assert {c: n for c, n in left.items() if n} == {c: n for c, n in net.items() if n}
    assert len(rows) == sum(abs(n) for n in net.values())


@pytest.mark.parametrize("dtype", [pl.Float64(), pl.Int64(), pl.String(), pl.List(pl.Int64())])
def test_equal(dtype: pl.DataType) -> None:
    values: dict[str, list[object]] = {
        "Float64": [1.0, None, float("nan"), 2.0],
        "Int64": [1, None, 3, 2],
        "String": ["a", None, "", "b"],
        "List(Int64)": [[1], None, [], [2]],
    }
    left = pl.Series(values[str(dtype)], dtype=dtype)
    assert equal(left, left).tolist() == [True] * 4
    assert equal(left, left[::-1]).tolist() == [False] * 4
    assert equal(left, left[[0, 1, 2, 0]]).tolist() == [True, True, True, False]
