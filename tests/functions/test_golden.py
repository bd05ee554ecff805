"""Every function against what Flink 2.3 itself answered: types from the type rules, values from running the plan's
row expression."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from stateplan.common.errors import StateplanError
from stateplan.common.types import LogicalType, parse_type
from stateplan.common.values.codecs import codec
from stateplan.common.values.nanoseconds import is_fine
from stateplan.functions.builder import make_call
from stateplan.functions.rex import Call, Rex
from stateplan.functions.table import functions
from stateplan.runtime.transforms.calc import CalcTransform
from tests.functions.answers import Golden, cases, frame

RANDOM = ("RAND", "RAND_INTEGER", "UUID")
NOT_COMPARED = tuple(f"{name}(" for name in (*RANDOM, *(f.name for f in functions() if not f.supported)))

DIGITS = "prints digits below the declared precision"
RANGE = "years that Python has no dates for"
NULLS = "fails on NULL in a nullable column"
SURROGATES = "takes a character outside of the basic plane apart"
OTHER = "refused by the planner here"
DIFFERENT = {
    "CAST(ts6 AS TIMESTAMP(4))": DIGITS,
    "CAST(ts9 AS TIMESTAMP(6))": DIGITS,
    "ts3 - INTERVAL '1' MONTH * inn": RANGE,
    "INTERVAL '1' DAY * inn": RANGE,
    "TIMESTAMPADD(DAY, i, ts3)": RANGE,
    "TIMESTAMPADD(MONTH, inn, ts3)": RANGE,
    "TO_DATE(snn, 'yyyy')": "gives a date of the year 1705471 for what is no date",
    **dict.fromkeys(
        ("TO_TIMESTAMP(s, vc)",),
        "pattern letter not supported here",
    ),
    "DATE_FORMAT('2024-01-01 10:11:12.123456789', 'SSSSSS n')": "refuses the letter n, but for a text only",
    "HASH_CODE(ts3)": "not supported here",
    "HASH_CODE(tm)": "not supported here",
    "b = 'true'": OTHER,
    "TIMESTAMPDIFF(HOUR, lz, ts3)": OTHER,
    "TIMESTAMPDIFF(SECOND, ts3, CURRENT_TIMESTAMP)": OTHER,
    "ROUND(dcn, inn)": "reads the unscaled value in another scale",
    "ROUND(dc, i)": "fails for a large number of places",
    "SPLIT(s, '')": SURROGATES,
    "JSON_QUOTE(s)": SURROGATES,
    "GREATEST(dc, 3)": NULLS,
    "TRUNCATE(d)": NULLS,
    "TRUNCATE(d, 1)": NULLS,
    "TRUNCATE(f, 1)": NULLS,
    "CEIL(tm TO HOUR)": "fails for 24:00, which is 00:00 here",
    "REPEAT(snn, inn)": "fails for a negative number of times, which is none here",
    "TO_TIMESTAMP_LTZ('2024-02-29 10:11')": "fails for what is no timestamp, which is NULL here",
    "TO_TIMESTAMP_LTZ('2024-02-29T10:11:12Z')": "fails for what is no timestamp, which is NULL here",
    **dict.fromkeys(
        (
            """JSON_VALUE('{"a": "1"}', '$.a' RETURNING INTEGER)""",
            """JSON_VALUE('{"a": "x"}', '$.a' RETURNING INTEGER)""",
            """JSON_VALUE('{"a": "true"}', '$.a' RETURNING BOOLEAN)""",
            """JSON_VALUE('{"a": 5}', '$.a' RETURNING DOUBLE)""",
            """JSON_VALUE('{"a": 5.7}', '$.a' RETURNING INTEGER)""",
        ),
        "fails with a ClassCastException, which is a conversion here",
    ),
}
"""Expressions on which Flink answers otherwise, and what it does."""


def _comparable(case: Golden) -> bool:
    return case.rex is not None and case.expression not in DIFFERENT and not case.expression.startswith(NOT_COMPARED)


RUN = [c for c in cases() if _comparable(c) and c.error is None and not c.is_filter]
FILTERS = [c for c in cases() if _comparable(c) and c.error is None and c.is_filter and c.values != ("?",)]
FAILS = [c for c in cases() if _comparable(c) and c.error is not None]


def _java(t: LogicalType, value: Any) -> Any:
    """A value as the oracle printed it (Java's external classes), for comparison with the file."""
    if value is None:
        return "null"
    if t.root in ("ARRAY", "MULTISET"):
        return "[" + ", ".join(_java(t.children[0], v) for v in value) + "]"
    if t.root == "MAP":
        # Flink's answers are maps of Java, in which the later entry of a key replaces the earlier one.
        entries = sorted({_java(t.children[0], e["key"]): _java(t.children[1], e["value"]) for e in value}.items())
        return "{" + ", ".join(f"{k}={v}" for k, v in entries) + "}"
    if t.root == "ROW":
        return "(" + ", ".join(_java(f.type, value[f.name]) for f in t.fields) + ")"
    if t.is_string:
        return json.dumps(value, ensure_ascii=True)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dt.time):
        return _short(value.isoformat("microseconds"))
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat("T", "microseconds")
        if value.tzinfo is None:
            return _short(text)
        main, fraction = text[:19], text[20:].rstrip("0")
        return main + (f".{fraction.ljust(-(-len(fraction) // 3) * 3, '0')}" if fraction else "") + "Z"
    if isinstance(value, dt.timedelta):
        return value
    return str(value)


def _short(text: str) -> str:
    """Java leaves out seconds that are 0 and writes fractions in groups of three digits."""
    main, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    if fraction:
        return f"{main}.{fraction.ljust(-(-len(fraction) // 3) * 3, '0')}"
    return main[:-3] if main.endswith(":00") else main


def _same(t: LogicalType, expected: str, value: Any) -> bool:
    if t.root in ("FLOAT", "DOUBLE"):
        if expected == "null" or value is None:
            return expected == "null" and value is None
        wanted = float(expected.replace("Infinity", "inf"))
        if math.isnan(wanted) or math.isnan(value):
            return math.isnan(wanted) and math.isnan(value)
        return math.isclose(wanted, value, rel_tol=1e-6 if t.root == "FLOAT" else 4e-15, abs_tol=0.0)
    if t.root == "INTERVAL_DAY_TIME":
        return _duration(expected) == value
    if t.root == "INTERVAL_YEAR_MONTH":
        return expected.replace("P0D", "P0M") == ("null" if value is None else f"P{value}M")
    if is_fine(t) and value is not None:
        return bool(expected == value)
    return expected == _java(t, value)


def _duration(text: str) -> dt.timedelta | None:
    if text == "null":
        return None
    units, seconds, number = {"H": 3600, "M": 60, "S": 1}, Decimal(0), ""
    for c in text[2:]:
        if c in units:
            seconds += Decimal(number) * units[c]
            number = ""
        else:
            number += c
    return dt.timedelta(microseconds=int(seconds * 10**6))


def _values(case: Golden) -> list[Any]:
    assert case.rex is not None
    out = CalcTransform((case.rex,), None, case.time_zone)(frame(), 1_700_000_000_123)
    assert out.schema["c0"] == case.rex.type.polars()
    series = out["c0"]
    if is_fine(case.rex.type):
        series = out.select(codec(case.rex.type).java(pl.col("c0"))).to_series()
    return series.to_list()


@pytest.mark.parametrize("case", RUN, ids=str)
def test_value(case: Golden) -> None:
    values = _values(case)
    assert case.rex is not None and case.type is not None
    if case.values == ("?",):
        return
    t = case.rex.type
    wrong = [
        (i + 1, want, got)
        for i, (want, got) in enumerate(zip(case.values, values, strict=True))
        if not _same(t, want, got)
    ]
    assert not wrong, f"{case.expression}: (row, Flink, here) {wrong}"


@pytest.mark.parametrize("case", FILTERS, ids=str)
def test_filter(case: Golden) -> None:
    from stateplan.functions.rex import InputRef

    transform = CalcTransform((InputRef(parse_type("INT NOT NULL"), 0),), case.rex)
    assert [str(v) for v in transform(frame(), 0)["c0"].to_list()] == list(case.values)


@pytest.mark.parametrize("case", FAILS, ids=str)
def test_failure(case: Golden) -> None:
    with pytest.raises(StateplanError):
        _values(case)


def _calls(rex: Rex) -> list[Call]:
    found = [rex] if isinstance(rex, Call) else []
    for child in rex.children:
        found += _calls(child)
    return found


_CHOSEN_BY_CALLER = {"CAST", "TRY_CAST", "REINTERPRET", "SEARCH", "JSON_VALUE"}
"""Calls whose type is an argument of its own."""


_REBUILT = {"+", "-", "*", "=", "<>", "<", "<=", ">", ">=", "AND", "OR", "CASE", "JSON_OBJECT", "JSON_ARRAY"}
"""Functions that are built by more than a type rule."""


@pytest.mark.parametrize("case", [*RUN, *FILTERS], ids=str)
def test_type(case: Golden) -> None:
    assert case.rex is not None
    for call in _calls(case.rex):
        if call.name in _CHOSEN_BY_CALLER or call.internal_name is None:
            continue
        made = [f for f in functions() if f.plan_name == call.name and f.rewrite is None]
        rows = [f for f in made if f.supported and f.syntax == call.syntax]
        if rows:
            assert str(call.type) in {str(f.returns(call.operands)) for f in rows}, call.name
        elif call.name in _REBUILT and not _is_timestamp_arithmetic(call):
            made = make_call(call.name, call.operands)
            assert str(made.type) == str(call.type), call.name


def _is_timestamp_arithmetic(call: Call) -> bool:
    """Differences, whose interval SQL says, and TIMESTAMPADD, whose result type is its own."""
    return call.syntax == "SPECIAL" and call.name in ("+", "-")
