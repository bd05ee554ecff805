"""Generated rows: a function of row number and seed, within what the options say."""

from __future__ import annotations

import pickle
from decimal import Decimal

import polars as pl
import pytest
from connector_tables import fields
from hypothesis import given
from hypothesis import strategies as st

from stateplan.connectors.datagen import DatagenGenerator, bounded

EVERYTHING = (
    "a INT, b STRING, c DECIMAL(10,2), d DATE, e TIME(0), f TIMESTAMP(3), g TIMESTAMP_LTZ(9), h ARRAY<INT>, "
    "i MAP<STRING,INT>, j ROW<x INT, y STRING>, k BYTES, l BOOLEAN, m CHAR(5), n VARCHAR(7), o DOUBLE, p FLOAT, "
    "q TINYINT, r MULTISET<STRING>, s BINARY(3), t BIGINT, u DECIMAL(38,0), v SMALLINT, w ARRAY<ARRAY<STRING>>"
)


def test_every_type_is_right_and_rows_are_their_number() -> None:
    columns = fields(EVERYTHING)
    made = DatagenGenerator({"connector": "datagen"}, columns, now=1_700_000_000_123)
    df = made.rows(0, 200)
    assert dict(df.schema) == {f"c{i}": t.polars() for i, (_, t) in enumerate(columns)}
    assert df.null_count().sum_horizontal().item() == 0
    again = pickle.loads(pickle.dumps(made))
    assert again.rows(50, 60).equals(df.slice(50, 10))
    other = DatagenGenerator({}, columns, seed=1, now=1_700_000_000_123).rows(0, 200)
    assert not other["c0"].equals(df["c0"])
    assert made.rows(7, 7).schema == df.schema and made.rows(7, 7).height == 0
    varying = [c for c in df.columns if c not in ("c3", "c4", "c5", "c6")]
    assert all(df[c].n_unique() > 1 for c in varying)
    assert df["c11"].mean() == pytest.approx(0.5, abs=0.2)


def test_options() -> None:
    columns = fields(
        "a INT, b STRING, c STRING, d TIMESTAMP(3), e ROW<x INT>, f ARRAY<INT>, g MAP<STRING,INT>, h DECIMAL(5,2)"
    )
    options = {
        "fields.a.min": "-3", "fields.a.max": "3", "fields.a.null-rate": "0.5", "fields.b.length": "4",
        "fields.c.length": "9", "fields.c.var-len": "true", "fields.d.max-past": "1 s", "fields.e.x.min": "7",
        "fields.e.x.max": "8", "fields.f.length": "2", "fields.f.element.min": "1", "fields.f.element.max": "1",
        "fields.g.key.length": "1", "fields.h.min": "-1.50", "fields.h.max": "1.5",
    }  # fmt: skip
    df = DatagenGenerator(options, columns, now=10_000).rows(0, 2000)
    assert set(df["c0"].drop_nulls()) == {-3, -2, -1, 0, 1, 2, 3}
    assert 800 < df["c0"].null_count() < 1200
    assert set(df["c1"].str.len_bytes()) == {4} and df["c1"].str.contains("^[0-9a-f]+$").all()
    assert set(df["c2"].str.len_bytes()) == set(range(1, 10))
    past = df["c3"].to_physical()
    assert past.min() >= 9000 and past.max() <= 10_000 and past.n_unique() > 500  # type: ignore[operator]
    assert set(df["c4"].struct.field("x")) == {7, 8}
    assert set(map(tuple, df["c5"])) == {(1, 1)}
    assert all(len({e["key"] for e in row}) == len(row) for row in df["c6"].to_list())
    assert df["c7"].min() >= Decimal("-1.50") and df["c7"].max() <= Decimal("1.50")  # type: ignore[operator]
    assert df["c7"].n_unique() == 301


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_integers_stay_in_their_range(one: int, other: int) -> None:
    low, high = sorted((one, other))
    df = DatagenGenerator({"fields.a.min": str(low), "fields.a.max": str(high)}, fields("a BIGINT")).rows(0, 50)
    assert all(low <= v <= high for v in df["c0"])


def test_sequences_end_the_table() -> None:
    columns = fields("a INT, b STRING, c DOUBLE, d DECIMAL(10,2), e BIGINT")
    options = {f"fields.{c}.kind": "sequence" for c in "abcde"} | {"number-of-rows": "10"}
    for i, c in enumerate("abcde"):
        options |= {f"fields.{c}.start": str(i), f"fields.{c}.end": str(i + 3 + i)}
    made = DatagenGenerator(options, columns)
    assert made.bounded == 4
    assert made.rows(0, 100).rows() == [(i, str(1 + i), 2.0 + i, Decimal(3 + i), 4 + i) for i in range(4)]
    assert made.rows(3, 100).rows() == [(3, "4", 5.0, Decimal(6), 7)]
    assert made.rows(9, 100).height == 0


def test_bounded() -> None:
    assert bounded({"connector": "datagen"}) is None
    assert bounded({"number-of-rows": "7"}) == 7
    sequence = {"fields.a.kind": "sequence", "fields.a.start": "3", "fields.a.end": "5"}
    assert bounded(sequence) == 3
    assert bounded(sequence | {"number-of-rows": "2"}) == 2
    assert bounded({"fields.a.kind": "random", "fields.a.start": "3", "fields.a.end": "5"}) is None


def test_no_columns() -> None:
    df = DatagenGenerator({"number-of-rows": "3"}, []).rows(0, 10)
    assert isinstance(df, pl.DataFrame) and df.height == 3
