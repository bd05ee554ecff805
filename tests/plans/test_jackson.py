"""The writer against Flink's own plans and Java's number text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.common.errors import PlanError
from stateplan.plans.jackson import dumps
from stateplan.plans.jsontext import loads


def test_flinks_plans_are_written_back_byte_for_byte(flink_plan: Path) -> None:
    text = flink_plan.read_bytes().decode()
    assert dumps(loads(text)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "{ }"),
        ([], "[ ]"),
        ([[]], "[ [ ] ]"),
        ({"a": {}}, '{\n  "a" : { }\n}'),
        ([1, "x", None], '[ 1, "x", null ]'),
        ({"a": [{"b": True}, {"c": []}]}, '{\n  "a" : [ {\n    "b" : true\n  }, {\n    "c" : [ ]\n  } ]\n}'),
        ([[{"a": 1}]], '[ [ {\n  "a" : 1\n} ] ]'),
        (
            'a"b\\c/d\b\t\n\f\r\x00\x1f\x7fé\u2028\U0001f600',
            '"a\\"b\\\\c/d\\b\\t\\n\\f\\r\\u0000\\u001F\x7fé\u2028\U0001f600"',
        ),
        (12345678901234567890, "12345678901234567890"),
        (False, "false"),
    ],
)
def test_layout_and_escapes(value: object, text: str) -> None:
    assert dumps(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-2.5, "-2.5"),
        (100.0, "100.0"),
        (0.1, "0.1"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1e10, "1.0E10"),
        (1e-5, "1.0E-5"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.012, "0.012"),
        (1.5e22, "1.5E22"),
    ],
)
def test_doubles_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert dumps(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=200, deadline=2000)
def test_doubles_keep_their_value(value: float) -> None:
    assert float(dumps(value)) == value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [{"a": float("-inf")}]])
def test_numbers_json_does_not_have_are_refused(value: object) -> None:
    with pytest.raises(PlanError) as caught:
        dumps(value)
    assert caught.value.code == "PLAN014"


def test_deep_values_need_no_recursion() -> None:
    value: object = 1
    for _ in range(2_000):
        value = [{"a": value}]
    assert dumps(value).count("[ {") == 2_000


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=12,
    )
)
@settings(max_examples=100, deadline=2000)
def test_written_values_read_back(value: object) -> None:
    assert json.loads(dumps(value)) == value
