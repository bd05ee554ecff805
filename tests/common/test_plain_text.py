"""Values out of the text that CAST writes: what comes back is what went in."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from stateplan.common.types import parse_type
from stateplan.common.values.codecs import codec
from stateplan.common.values.nanoseconds import is_fine
from stateplan.common.values.plain_text import reader
from stateplan.functions.values import python_values

ZONE = "Europe/Berlin"
DAY = dt.datetime(2020, 7, 1, 5, 6, 7, 8)

CASES: list[tuple[str, list[Any]]] = [
    ("BOOLEAN", [True, False]),
    ("TINYINT", [-128]),
    ("BIGINT", [2**63 - 1]),
    ("DOUBLE", [1e10, float("inf"), -0.1, 1e-320]),
    ("FLOAT", [1.5]),
    ("DECIMAL(38, 18)", [Decimal("1.5"), -(Decimal(10) ** -18)]),
    ("STRING", ["a'b", "NULL", " "]),
    ("BYTES", [b"ab", b""]),
    ("DATE", [dt.date(20, 1, 1)]),
    ("TIME(0)", [dt.time(1, 2, 3)]),
    ("TIME(3)", [dt.time(1, 2, 3, 4000)]),
    ("TIMESTAMP(0)", [DAY.replace(microsecond=0)]),
    ("TIMESTAMP(1)", [DAY.replace(microsecond=100_000)]),
    ("TIMESTAMP(9)", [DAY]),
    ("TIMESTAMP_LTZ(6)", [DAY.replace(tzinfo=dt.UTC)]),
    ("INTERVAL DAY TO SECOND(3)", [dt.timedelta(1, 5, 6000), -dt.timedelta(1, 5, 6000), dt.timedelta(0)]),
    ("INTERVAL YEAR TO MONTH", [3, -14]),
    ("ARRAY<INT>", [[1, None], []]),
    (
        "MAP<INT, ARRAY<ROW<a DOUBLE, b TIMESTAMP(3)>>>",
        [[{"key": 1, "value": [{"a": 1.5, "b": DAY.replace(microsecond=0)}, None]}, {"key": 2, "value": None}], []],
    ),
    ("MULTISET<INT>", [[{"key": 1, "value": 2}]]),
    ("ROW<a ROW<b INT>, c MAP<INT, INT>>", [{"a": {"b": 1}, "c": []}, {"a": None, "c": [{"key": 1, "value": 1}]}]),
]


@pytest.mark.parametrize(("sql", "values"), CASES, ids=[case[0] for case in CASES])
def test_what_cast_writes_is_read(sql: str, values: list[Any]) -> None:
    kind = parse_type(sql)
    given = [codec(kind).encode(v) for v in values] if is_fine(kind) else values
    column = pl.Series("x", given, dtype=kind.polars())
    texts = column.to_frame().select(codec(kind).sql(pl.col("x"), ZONE).alias("x"))["x"].to_list()
    found, wanted = [reader(kind, ZONE)(text) for text in texts], python_values(column, kind)
    assert found == wanted
    assert list(map(type, found)) == list(map(type, wanted))


def test_bytes_as_clients_print_them() -> None:
    assert reader(parse_type("BYTES"))("x'00ff'") == b"\x00\xff"


def test_a_point_in_time_of_a_job_list() -> None:
    """SHOW JOBS writes a ``T``."""
    found = reader(parse_type("TIMESTAMP_LTZ(6)"), ZONE)("2026-11-23T04:09:59.479")
    assert found.isoformat() == "2026-11-23T04:09:59.479000+01:00"


@pytest.mark.parametrize("sql", ["ARRAY<STRING>", "ROW<a INT, b BYTES>", "MAP<CHAR(1), INT>"])
def test_a_list_of_texts_stays_a_text(sql: str) -> None:
    """``[a, b]`` may be one text or two."""
    assert reader(parse_type(sql))("[a, b]") == "[a, b]"


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("BOOLEAN", "yes"),
        ("INT", "1.5"),
        ("DECIMAL(3, 1)", "x"),
        ("DATE", "+12345-01-01"),
        ("INTERVAL DAY TO SECOND(3)", "1"),
        ("INTERVAL YEAR TO MONTH", "1"),
        ("ARRAY<INT>", "1"),
        ("MAP<INT, INT>", "{1}"),
        ("ROW<a INT>", "(1, 2)"),
    ],
)
def test_what_is_none_is_an_error(sql: str, text: str) -> None:
    with pytest.raises(ValueError):
        reader(parse_type(sql))(text)
