"""The print connector's lines, as Flink 2.3.0 printed them (``golden/print.txt``) and as its row text has them."""

from __future__ import annotations

import math
import os
import sys
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from connector_tables import GOLDEN, fields
from hypothesis import given
from hypothesis import strategies as st

from stateplan.cli.console import abandon
from stateplan.common.errors import RunError
from stateplan.common.types import INT, STRING
from stateplan.common.values.atomic import FieldStyle
from stateplan.common.values.codecs import codec
from stateplan.common.values.fields import build_series, raw_dtype
from stateplan.common.values.floats import double_text, float_text
from stateplan.common.values.java_hash import hash_map_order
from stateplan.connectors.print import _Lines, format_rows
from tests.common.texts import scalar_field, value_text

ROW = (
    ("BOOLEAN", True), ("TINYINT", 1), ("SMALLINT", 2), ("INT", 3), ("BIGINT", 4), ("FLOAT", 1.5), ("DOUBLE", 1e10),
    ("DECIMAL(10,2)", Decimal("12.30")), ("STRING", "hi, there"), ("CHAR(3)", "ab "), ("BYTES", b"h\xff"),
    ("DATE", 19753), ("TIME(0)", 45240 * 10**9), ("TIMESTAMP(3)", 1704067200000), ("TIMESTAMP(6)", 1704067201500000),
    ("TIMESTAMP_LTZ(3)", 1704067200000), ("ARRAY<STRING>", ["a", "b"]),
    ("MAP<STRING,INT>", [{"key": "k", "value": 1}, {"key": "l", "value": 2}]),
    ("ROW<x INT, y STRING>", {"x": 1, "y": "z"}), ("DECIMAL(38,18)", Decimal("0E-18")), ("BINARY(2)", b"\x01\x02"),
    ("MULTISET<STRING>", None),
)  # fmt: skip


def test_every_type_as_flink_prints_it() -> None:
    types = [t for _, t in fields(", ".join(f"f{i} {t}" for i, (t, _) in enumerate(ROW)))]
    df = pl.DataFrame([build_series(f"c{i}", [v], t) for i, ((_, v), t) in enumerate(zip(ROW, types, strict=True))])
    assert format_rows(df, types, "id") == (GOLDEN / "print.txt").read_text(encoding="utf-8").splitlines()


def test_kinds_and_identifier() -> None:
    df = pl.DataFrame(
        {
            "c0": pl.Series([1, 1, 2, None], dtype=pl.Int32),
            "c1": ["a", "a", "b", None],
            "kind": pl.Series([0, 1, 2, 3], dtype=pl.Int8),
        }
    )
    assert format_rows(df, [INT, STRING]) == ["+I[1, a]", "-U[1, a]", "+U[2, b]", "-D[null, null]"]
    assert format_rows(df.drop("kind").head(1), [INT, STRING], "out") == ["out> +I[1, a]"]
    assert format_rows(df.head(0), [INT, STRING]) == []
    assert format_rows(df.select("kind").head(2), []) == ["+I[]", "-U[]"]


@pytest.mark.parametrize("to_stderr", [False, True])
def test_an_output_that_cannot_be_written(to_stderr: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    name, stream = ("stderr", "standard error") if to_stderr else ("stdout", "standard output")
    sink = _Lines((INT,), None, to_stderr)
    monkeypatch.setattr(sys, name, None)
    with pytest.raises(RunError, match=f"RUN090.*{stream} is closed"):
        sink.commit([b"+I[1]\n"], 0)
    read_end, write_end = os.pipe()
    os.close(read_end)
    with open(write_end, "w") as pipe:
        monkeypatch.setattr(sys, name, pipe)
        with pytest.raises(RunError, match=f"RUN090.*{stream} cannot be written: broken pipe") as raised:
            sink.commit([b"+I[1]\n"], 0)
        abandon(pipe)
    assert isinstance(raised.value.__cause__, BrokenPipeError)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (100.0, "100.0"), (1e7, "1.0E7"), (9999999.999, "9999999.999"),
        (12345678.0, "1.2345678E7"), (1e-3, "0.001"), (9.999e-4, "9.999E-4"), (1e21, "1.0E21"), (1e-5, "1.0E-5"),
        (123456789.5, "1.234567895E8"), (4.9e-324, "4.9E-324"), (1e-323, "1.0E-323"), (0.1, "0.1"),
        (1.7976931348623157e308, "1.7976931348623157E308"), (math.inf, "Infinity"), (-math.inf, "-Infinity"),
        (math.nan, "NaN"), (-123.456, "-123.456"), (0.30000000000000004, "0.30000000000000004"),
    ],
)  # fmt: skip
def test_doubles(value: float, text: str) -> None:
    assert double_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_read_back(value: float) -> None:
    assert float(double_text(value)) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_floats_read_back_and_are_short(value: float) -> None:
    text = float_text(value)
    assert pl.Series([text]).cast(pl.Float64).cast(pl.Float32).item() == value
    assert len(text) <= 15


def test_floats() -> None:
    texts = {1.1: "1.1", 0.1: "0.1", 16777216.0: "1.6777216E7", 1e10: "1.0E10", 3.4028234663852886e38: "3.4028235E38"}
    for value, text in texts.items():
        assert float_text(pl.Series([value], dtype=pl.Float32).item()) == text


@pytest.mark.parametrize(
    ("count", "unit", "plain", "zoned"),
    [
        (1704067200000, "ms", "2024-01-01T00:00", "2024-01-01T00:00:00Z"),
        (1704067201000, "ms", "2024-01-01T00:00:01", "2024-01-01T00:00:01Z"),
        (1704067200100, "ms", "2024-01-01T00:00:00.100", "2024-01-01T00:00:00.100Z"),
        (1704067200123456, "us", "2024-01-01T00:00:00.123456", "2024-01-01T00:00:00.123456Z"),
        (1704067200123456700, "ns", "2024-01-01T00:00:00.123456700", "2024-01-01T00:00:00.123456700Z"),
        (-1, "ms", "1969-12-31T23:59:59.999", "1969-12-31T23:59:59.999Z"),
        (-62135596800000, "ms", "0001-01-01T00:00", "0001-01-01T00:00:00Z"),
        (253402300800000, "ms", "+10000-01-01T00:00", "+10000-01-01T00:00:00Z"),
    ],
)
def test_timestamps(count: int, unit: Any, plain: str, zoned: str) -> None:
    precision = {"ms": 3, "us": 6, "ns": 9}[unit]
    assert java_texts(f"TIMESTAMP({precision})", [count]) == [plain]
    assert java_texts(f"TIMESTAMP_LTZ({precision})", [count]) == [zoned]


def java_texts(name: str, raw: list[Any]) -> list[str | None]:
    """The texts of a column of raw values."""
    ((_, declared),) = fields(f"a {name}")
    return column_of(build_series("v", raw, declared), codec(declared).java(pl.col("v")))


def column_of(series: pl.Series, text: pl.Expr) -> list[str | None]:
    return series.alias("v").to_frame().select(text).to_series().to_list()


def test_dates_before_the_common_era_and_far_away() -> None:
    assert java_texts("DATE", [-719163, -719529, 0, 2932897]) == [
        "0000-12-31",
        "-0001-12-31",
        "1970-01-01",
        "+10000-01-01",
    ]
    assert java_texts("DATE", [-(2**31), 2**31 - 1, 0]) == ["-5877641-06-23", "+5881580-07-11", "1970-01-01"]
    assert java_texts("TIMESTAMP(3)", [2**62, None, -1]) == [
        "+146140482-04-24T15:36:27.904",
        None,
        "1969-12-31T23:59:59.999",
    ]


def test_intervals() -> None:
    texts = {0: "PT0S", 5: "PT0.005S", 93784567: "PT26H3M4.567S", 3600000: "PT1H", -1500: "PT-1.5S", -500: "PT-0.5S"}
    assert java_texts("INTERVAL DAY TO SECOND", list(texts)) == list(texts.values())
    months = {0: "P0D", 14: "P1Y2M", 12: "P1Y", 1: "P1M", -14: "P-1Y-2M"}
    assert java_texts("INTERVAL YEAR TO MONTH", list(months)) == list(months.values())


def test_maps_in_the_order_of_java_s_hash_map() -> None:
    keys = ["k", "b", "a"]
    assert [keys[i] for i in hash_map_order(keys)] == ["a", "b", "k"]
    many = [f"key{i}" for i in range(13)]
    assert sorted(hash_map_order(many)) == list(range(13))
    assert hash_map_order(many) != hash_map_order(many[:12])[:12]
    assert [(3, 17, 1)[i] for i in hash_map_order([3, 17, 1])] == [17, 1, 3]


RAW = {
    "FLOAT": st.floats(width=32), "DOUBLE": st.floats(),
    "DECIMAL(10,2)": st.decimals(-(10**8) + 1, 10**8 - 1, places=2),
    "DECIMAL(38,18)": st.decimals(-(10**19), 10**19, places=18) | st.sampled_from(
        [Decimal("1E-18"), Decimal("1E-6"), Decimal("9.99E-7"), Decimal(100)]
    ),
    "DECIMAL(38,0)": st.decimals(-(10**37), 10**37, places=0) | st.sampled_from([Decimal(0), Decimal(10)]),
    "DATE": st.integers(-800_000, 3_000_000), "TIME(3)": st.integers(0, 86_399_999).map(lambda ms: ms * 10**6),
    "TIMESTAMP(3)": st.integers(-(10**14), 10**15), "TIMESTAMP(6)": st.integers(-(10**16), 10**16),
    "TIMESTAMP(9)": st.integers(-(2**62), 2**62) | st.sampled_from([0, 10**9, 60 * 10**9, 10**6, 10**3, 1]),
    "TIMESTAMP_LTZ(3)": st.integers(-(10**14), 10**14), "BOOLEAN": st.booleans(), "BYTES": st.binary(max_size=3),
    "INT": st.integers(-(2**31), 2**31 - 1), "INTERVAL YEAR TO MONTH": st.integers(-30, 30),
}  # fmt: skip


@given(st.sampled_from(sorted(RAW)), st.data())
def test_columns_read_as_their_values(name: str, data: st.DataObject) -> None:
    """The texts of a whole column, and those of the files, are those of its values one by one."""
    ((_, declared),) = fields(f"a {name}")
    values = data.draw(st.lists(RAW[name] | st.none(), max_size=6))
    series = build_series("v", values, declared)
    raw, found = series.cast(raw_dtype(declared)).to_list(), codec(declared)
    expected = [None if v is None else value_text(declared, v) for v in raw]
    assert column_of(series, found.java(pl.col("v"))) == expected
    for standard, decimals in (("SQL", "scientific"), ("ISO-8601", "plain")):
        style = FieldStyle(standard=standard, decimals=decimals)
        assert column_of(series, found.field(pl.col("v"), style)) == [
            None if v is None else scalar_field(v, declared, standard, decimals == "scientific") for v in raw
        ]
    inner = pl.Series("v", [values], dtype=pl.List(raw_dtype(declared))).cast(pl.List(declared.polars()))
    texts = ", ".join("null" if text is None else text for text in expected)
    ((_, of),) = fields(f"a ARRAY<{name}>")
    assert column_of(inner, codec(of).java(pl.col("v"))) == [f"[{texts}]"]
