"""TIMESTAMP(7) to (9) and TIMESTAMP_LTZ(7) to (9) from the year 1 to 9999: functions, keys, state, files, Python."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan import TableEnvironment
from stateplan.common.errors import StateplanError
from stateplan.common.types import parse_type
from stateplan.common.values.codecs import codec
from stateplan.runtime.hashing import hash_rows
from stateplan.runtime.inspect.state_rows import RowRequest, arrow_schema, table_rows
from stateplan.runtime.kernel import ACCESS_TIME, StateColumn, StateTable
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.state.runs import HASH, TOMBSTONE, encode_frame, in_memory

FIRST, LAST = "0001-01-01 00:00:00.000000001", "9999-12-31 23:59:59.999999999"
NEAR = "2024-02-29 10:11:12.123456789"
_COLUMNS = {"k": StateColumn(pl.Int128(), "k"), "v": StateColumn(pl.List(pl.Int128()), "v")}
_TABLE = StateTable("s", 0, ("k",), ("k",), _COLUMNS)
DAYS = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)).map(lambda d: d.replace(microsecond=0))


def _rows(query: str, zone: str = "UTC") -> list[tuple[object, ...]]:
    env = TableEnvironment.create()
    env.execute_sql(f"SET 'table.local-time-zone' = '{zone}'")
    return env.sql_query(query).to_polars().rows()


def _over(columns: str, *texts: str) -> str:
    rows = ", ".join(f"('{text}')" for text in texts)
    return f"SELECT {columns} FROM (SELECT CAST(s AS TIMESTAMP(9)) AS t, s FROM (VALUES {rows}) AS v(s))"


def test_texts_of_all_years_are_read_and_written() -> None:
    columns = "CAST(t AS STRING), CAST(CAST(t AS TIMESTAMP(7)) AS STRING), DATE_FORMAT(t, 'yyyy SSSSSSSSS')"
    assert _rows(_over(columns, FIRST, NEAR, LAST)) == [
        (FIRST, FIRST[:-2], "0001 000000001"),
        (NEAR, NEAR[:-2], "2024 123456789"),
        (LAST, LAST[:-2], "9999 999999999"),
    ]


def test_try_cast_gives_a_value_where_flink_does() -> None:
    found = _rows("SELECT CAST(TRY_CAST(s AS TIMESTAMP(9)) AS STRING) FROM (VALUES ('9999-12-31'), ('x')) AS v(s)")
    assert found == [("9999-12-31 00:00:00.000000000",), (None,)]


def test_an_instant_of_any_year_has_the_clock_of_its_zone() -> None:
    columns = "CAST(z AS STRING), CAST(CAST(z AS DATE) AS STRING)"
    query = f"SELECT {columns} FROM (SELECT CAST(t AS TIMESTAMP_LTZ(9)) AS z FROM ({_over('t', FIRST, NEAR, LAST)}))"
    assert _rows(query, "America/New_York") == [(t, t[:10]) for t in (FIRST, NEAR, LAST)]


def test_arithmetic_and_comparison() -> None:
    columns = (
        "CAST(t + INTERVAL '0.001' SECOND AS STRING), CAST(t - INTERVAL '1' MONTH AS STRING), "
        "t > CAST(t AS TIMESTAMP(3)), EXTRACT(NANOSECOND FROM t), CAST(FLOOR(t TO MINUTE) AS STRING), "
        "TIMESTAMPDIFF(YEAR, t, TIMESTAMP '2000-01-01 00:00:00')"
    )
    assert _rows(_over(columns, NEAR, "1500-03-31 00:00:00.000000001")) == [
        (
            "2024-02-29 10:11:12.124456789",
            "2024-01-29 10:11:12.123456789",
            True,
            123456789,
            "2024-02-29 10:11:00.000000000",
            -24,
        ),
        (
            "1500-03-31 00:00:00.001000001",
            "1500-02-28 00:00:00.000000001",
            True,
            -999999999,
            "1500-03-31 00:00:00.000000000",
            499,
        ),
    ]


def test_keys_aggregates_and_sorting() -> None:
    values = ", ".join(f"('{text}')" for text in (FIRST, LAST, NEAR, LAST))
    source = f"(SELECT CAST(s AS TIMESTAMP(9)) AS t FROM (VALUES {values}) AS v(s))"
    assert sorted(_rows(f"SELECT CAST(t AS STRING), COUNT(*) FROM {source} GROUP BY t")) == [
        (FIRST, 1),
        (NEAR, 1),
        (LAST, 2),
    ]
    assert _rows(f"SELECT CAST(MIN(t) AS STRING), CAST(MAX(t) AS STRING), COUNT(DISTINCT t) FROM {source}") == [
        (FIRST, LAST, 3)
    ]
    assert _rows(f"SELECT CAST(t AS STRING) FROM {source} ORDER BY t DESC LIMIT 1") == [(LAST,)]
    assert _rows(f"SELECT CARDINALITY(ARRAY_AGG(t)), CARDINALITY(COLLECT(t)) FROM {source}") == [(4, 3)]
    joined = f"SELECT COUNT(*) FROM {source} AS a JOIN {source} AS b ON a.t = b.t"
    assert _rows(joined) == [(6,)]


@pytest.mark.parametrize("fmt", ["json", "csv"])
def test_files(fmt: str, tmp_path: Path) -> None:
    env = TableEnvironment.create()
    columns = "(t TIMESTAMP(9), z TIMESTAMP_LTZ(9), a ARRAY<TIMESTAMP(9)>)"
    env.execute_sql(
        f"CREATE TABLE f {columns} WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/f', 'format' = '{fmt}')"
    )
    query = f"SELECT t, CAST(t AS TIMESTAMP_LTZ(9)), ARRAY[t] FROM ({_over('t', FIRST, NEAR, LAST)})"
    env.execute_sql(f"INSERT INTO f {query}").wait()
    shown = env.sql_query("SELECT CAST(t AS STRING), CAST(z AS STRING), CAST(a AS STRING) FROM f").to_polars().rows()
    assert sorted(shown) == [(t, t, f"[{t}]") for t in (FIRST, NEAR, LAST)]


def test_python_has_what_arrow_holds_and_refuses_the_rest(tmp_path: Path) -> None:
    found = TableEnvironment.create().sql_query(_over("t, ARRAY[t] AS a, ROW(t) AS r", NEAR)).to_polars()
    assert found.schema["t"] == pl.Datetime("ns") and found["t"].dt.nanosecond().to_list() == [123456789]
    env = TableEnvironment.create()
    with pytest.raises(StateplanError, match="DATA345"):
        env.sql_query(_over("t", LAST)).to_polars()
    options = f"'connector' = 'filesystem', 'path' = '{tmp_path}/p', 'format' = 'parquet'"
    env.execute_sql(f"CREATE TABLE p (t TIMESTAMP(9)) WITH ({options})")
    with pytest.raises(StateplanError, match="DATA345"):
        env.execute_sql(f"INSERT INTO p {_over('t', LAST)}").wait()


@given(DAYS, st.integers(0, 10**9 - 1), st.sampled_from(["TIMESTAMP(9)", "TIMESTAMP_LTZ(9)"]))
def test_a_constant_reads_as_it_is_written(day: dt.datetime, nanos: int, sql: str) -> None:
    kind = parse_type(sql)
    text = f"{day.isoformat(' ')}.{nanos:09}"
    count = codec(kind).constant(text)
    shown = pl.Series("t", [count], dtype=kind.polars()).to_frame().select(codec(kind).sql(pl.col("t"), "UTC"))
    assert shown.item() == text
    assert codec(kind).constant(codec(kind).literal(count)) == count


def test_state_of_earlier_versions_is_found() -> None:
    """They held 64-bit timestamps: the hashes of keys are the same, and stored rows become what kernels have now."""
    moment = dt.datetime(2024, 2, 29, 10, 11, 12, 123456)
    old = pl.DataFrame(
        {"k": [moment, None], "v": [[moment], None], ACCESS_TIME: [1, 2], HASH: [0, 1], TOMBSTONE: [False, False]},
        schema={
            "k": pl.Datetime("ns"),
            "v": pl.List(pl.Datetime("ns")),
            ACCESS_TIME: pl.Int64(),
            HASH: pl.UInt64(),
            TOMBSTONE: pl.Boolean(),
        },
    )
    now = in_memory(old, _TABLE)
    assert {name: now.schema[name] for name in _TABLE.schema} == _TABLE.schema
    assert now["v"].to_list() == [[1_709_201_472_123_456_000], None]
    assert np.array_equal(hash_rows(old, ["k"]), hash_rows(now, ["k"]))


def test_state_is_stored_and_read() -> None:
    count = codec(parse_type("TIMESTAMP(9)")).constant(LAST)
    frame = pl.DataFrame(
        {"k": [count, None], "v": [[count, None], None], HASH: [0, 1]},
        schema={**_TABLE.schema, HASH: pl.UInt64()},
    )
    read = RunCache(None).of("here").load("r", lambda: encode_frame(frame))
    assert in_memory(read.frame, _TABLE).equals(frame)


def test_state_is_shown() -> None:
    """With the classes of Polars' types too, as those within lists are."""
    inner = pl.List(pl.Struct({"v": pl.Int128}))
    table = StateTable("s", 0, ("k",), ("k",), {"k": _COLUMNS["k"], "v": StateColumn(inner, "v")})
    count = codec(parse_type("TIMESTAMP(9)")).constant(LAST)
    frame = pl.DataFrame(
        {"k": [count], "v": [[{"v": count}]], ACCESS_TIME: [1], HASH: [0], TOMBSTONE: [False]},
        schema={**table.schema, ACCESS_TIME: pl.Int64(), HASH: pl.UInt64(), TOMBSTONE: pl.Boolean()},
    )
    request = RowRequest(table, {"k": "k", "v": "v"}, 0)
    shown = table_rows(request, [frame], None)
    assert shown.select("k", "v").rows() == [(LAST, [{"v": LAST}])]
    assert [str(f.type) for f in arrow_schema(request)][:2] == ["string", "list<item: struct<v: string>>"]
