"""Changes folded into the rows that a query has: against a list that is gone through row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.changelog import KIND, RowKind
from stateplan.common.errors import RunError
from stateplan.common.types import parse_type
from stateplan.connectors.results import ResultChannel
from stateplan.session import materialized
from stateplan.session.materialized import Materialized, surviving

TYPES = [parse_type("BIGINT"), parse_type("ARRAY<STRING>"), parse_type("ROW<a INT>"), parse_type("DOUBLE")]
NAMES = [f"c{i}" for i in range(len(TYPES))]

ROWS = st.tuples(
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, [], ["x", None]]),
    st.sampled_from([None, {"a": 1}, {"a": None}]),
    st.sampled_from([None, 0.5, float("nan")]),
)
CHANGES = st.lists(st.tuples(ROWS, st.sampled_from(list(RowKind))), max_size=40)


def frame(changes: Sequence[tuple[tuple[Any, ...], RowKind]], kinds: bool = True) -> pl.DataFrame:
    columns = {
        name: pl.Series([row[i] for row, _ in changes], dtype=t.polars())
        for i, (name, t) in enumerate(zip(NAMES, TYPES, strict=True))
    }
    kind = {KIND: pl.Series([int(k) for _, k in changes], dtype=pl.Int8)} if kinds else {}
    return pl.DataFrame({**columns, **kind})


def one_by_one(changes: Sequence[tuple[tuple[Any, ...], RowKind]]) -> list[str]:
    rows: list[str] = []
    for row, kind in changes:
        if not kind.is_retraction:
            rows.append(repr(row))
        elif repr(row) in rows:
            del rows[len(rows) - 1 - rows[::-1].index(repr(row))]
    return rows


@given(CHANGES, st.integers(1, 9), st.sampled_from([0, 7, 10**6]))
def test_the_rows_are_those_of_a_list(changes: list[Any], step: int, few: int) -> None:
    channel = ResultChannel()
    table = Materialized(channel, TYPES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(materialized, "_FEW", few)
        for at in range(0, len(changes), step):
            part = changes[at : at + step]
            channel.put(frame(part, kinds=any(kind for _, kind in part)))
            assert table.pull(0)
    assert [repr(row) for row in table.rows().rows()] == one_by_one(changes)
    assert table.changes == len(changes)


@pytest.mark.parametrize(
    ("sql", "one", "other"),
    [
        ("DECIMAL(38, 2)", "1.00", "1.01"),
        ("BYTES", b"a", b"b"),
        ("TIME(3)", "10:00:00", "10:00:01"),
        ("TIMESTAMP(9)", 1, 2),
        ("TIMESTAMP_LTZ(3)", 1, 2),
        ("MAP<STRING, INT>", [{"key": "a", "value": 1}], [{"key": "a", "value": 2}]),
        ("BOOLEAN", True, False),
        ("FLOAT", 1.5, 2.5),
        ("INTERVAL DAY TO SECOND(3)", 1, 2),
    ],
)
def test_a_deletion_finds_its_row(sql: str, one: Any, other: Any) -> None:
    dtype = parse_type(sql).polars()
    values = pl.Series([one, other, None, one, None], strict=False)
    values = values.str.to_time() if isinstance(dtype, pl.Time) else values.cast(dtype)
    changes = pl.DataFrame({"c0": values, KIND: pl.Series([0, 0, 0, 3, 1], dtype=pl.Int8)})
    assert surviving(changes, ["c0"])["c0"].to_list() == changes["c0"].to_list()[1:2]


def test_the_last_rows_are_kept() -> None:
    channel = ResultChannel()
    table = Materialized(channel, TYPES[:1])
    for start in (0, 10):
        channel.put(pl.DataFrame({"c0": pl.int_range(start, start + 10, eager=True)}))
        table.pull(0)
        table.keep_last(3)
    assert (table.rows()["c0"].to_list(), table.dropped_rows, table.changes) == ([17, 18, 19], 17, 20)


def test_the_error_comes_after_the_rows() -> None:
    channel = ResultChannel()
    table = Materialized(channel, TYPES[:1])
    channel.put(pl.DataFrame({"c0": [1]}))
    channel.end(RunError("RUN051"))
    assert table.pull(0)
    with pytest.raises(RunError):
        table.pull(0)
    assert table.rows()["c0"].to_list() == [1]
