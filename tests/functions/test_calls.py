"""Every function with columns in every argument: what compiles runs, and what does not is refused with a code."""

from __future__ import annotations

import datetime as dt

import pytest

from stateplan.common.errors import DataError, SqlError, StateplanError
from stateplan.functions.table import functions
from stateplan.runtime.transforms.calc import CalcTransform
from tests.functions.calls import INTERNAL, bound, calls, frame

_PARTS = 10

_OF_VALUES = {
    "RUN303": ("unknown character set", "is not a time zone"),
    "RUN305": ("is not a date pattern",),
}
"""Codes of errors that a value of a row can have, beside those of DataError; and what their texts say then."""


def _fault(sql: str) -> str | None:
    """What is wrong with a call: anything but rows of its type, an error of a value, or a refusal by the planner."""
    try:
        rex = bound(sql)
    except SqlError:
        return None
    try:
        out = CalcTransform((rex,), None, "UTC")(frame(), 1_700_000_000_000)
    except StateplanError as error:
        said = _OF_VALUES.get(error.code, ())
        return None if isinstance(error, DataError) or any(text in str(error) for text in said) else str(error)
    found, wanted = out.schema["c0"], rex.type.polars()
    return None if found == wanted else f"has the type {found}, and not {wanted}"


@pytest.mark.parametrize("part", [0, *(pytest.param(i, marks=pytest.mark.long) for i in range(1, _PARTS))])
def test_what_compiles_runs(part: int) -> None:
    wrong = {sql: fault for _, sql in list(calls())[part::_PARTS] if (fault := _fault(sql)) is not None}
    assert wrong == {}


def test_each_function_is_called() -> None:
    called = {name for name, _ in calls()}
    assert called == {f.name for f in functions() if f.supported} - set(INTERNAL)


@pytest.mark.parametrize(
    "sql",
    [
        *("FLOOR(i TO YEAR)", "CEIL(dt)", "FLOOR(t3)", "FLOOR(t3 TO NANOSECOND)", "ARRAY_JOIN(an, s)", "y || s"),
        *("EXTRACT(WEEK FROM im)", "EXTRACT(YEAR FROM iv)", "EXTRACT(MICROSECOND FROM dt)", "EXTRACT(EPOCH FROM tm)"),
        *("YEAR(tm)", "TO_TIMESTAMP_LTZ(i, s)", "TO_TIMESTAMP_LTZ(s, i)", "TO_TIMESTAMP_LTZ(i, i, s)"),
    ],
)
def test_what_flink_refuses_is_refused_by_the_planner(sql: str) -> None:
    with pytest.raises(SqlError, match=r"SQL20[23]"):
        bound(sql)


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("ARRAY[an, an]", [[[3, 1], [3, 1]], [[None], [None]], [[], []]]),
        ("ARRAY_APPEND(ARRAY[an], an)", [[[3, 1], [3, 1]], [[None], [None]], [[], []]]),
        ("tm + im", [dt.time(10, 20, 30), dt.time(0), None]),
        ("TRY_CAST(an AS STRING)", ["[3, 1]", "[NULL]", "[]"]),
        ("SPLIT_INDEX(s, i * 1000, 0)", [None, None, None]),
    ],
)
def test_values_that_were_errors(sql: str, rows: list[object]) -> None:
    out = CalcTransform((bound(sql),), None, "UTC")(frame(), 0)
    assert out["c0"].to_list()[: len(rows)] == rows
