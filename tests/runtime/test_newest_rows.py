"""The newest versions of rows, as a selection, are those that a merge leaves."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.runtime.inspect.newest_rows import newest_rows
from stateplan.runtime.inspect.state_figures import current_rows
from stateplan.runtime.kernel import ACCESS_TIME, StateTable, own_columns
from stateplan.runtime.state.runs import build_run

TYPES = {"k": pl.Int64(), "n": pl.Int64(), "v": pl.String()}
TABLES = {
    "key": StateTable("t", 0, ("k",), ("k",), own_columns(TYPES)),
    "key and number": StateTable("t", 0, ("k",), ("k", "n"), own_columns(TYPES)),
    "one row": StateTable("t", 0, (), (), own_columns(TYPES)),
}
ROW = st.tuples(
    st.none() | st.integers(0, 3), st.integers(0, 1), st.sampled_from("ab"), st.integers(0, 9), st.booleans()
)


def runs_of(table: StateTable, batches: list[list[tuple[int | None, int, str, int, bool]]]) -> list[pl.DataFrame]:
    """A run for each micro-batch: of each identity the last row, written or deleted."""
    runs = []
    for rows in batches:
        last = {tuple(row[list(TYPES).index(c)] for c in table.identity): row for row in rows}
        frame = pl.DataFrame(
            list(last.values()), {**TYPES, ACCESS_TIME: pl.Int64(), "dead": pl.Boolean()}, orient="row"
        )
        dead = frame.filter("dead").select(table.identity) if table.identity else None
        run = build_run(table, frame.filter(~pl.col("dead")).drop("dead"), dead, 0)
        if run is not None:
            runs.append(run)
    return runs


@pytest.mark.parametrize("name", TABLES)
@given(batches=st.lists(st.lists(ROW, max_size=6), max_size=5), cut=st.none() | st.integers(-1, 10))
def test_the_newest_rows_are_those_of_a_merge(
    name: str, batches: list[list[tuple[int | None, int, str, int, bool]]], cut: int | None
) -> None:
    table = TABLES[name]
    runs = runs_of(table, batches)
    if not runs:
        return
    merged = current_rows(table, runs)
    if cut is not None:
        merged = merged.filter(pl.col(ACCESS_TIME) > cut)
    for columns in (["k", "n", "v", ACCESS_TIME], ["v"], [ACCESS_TIME]):
        rows = newest_rows(table, runs, columns, cut)
        assert sorted(map(repr, rows.rows())) == sorted(map(repr, merged.select(columns).rows()))
