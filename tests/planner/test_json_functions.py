"""JSON functions from SQL: the row expressions and descriptions that Flink 2.3 writes, and the values that it answers.

The values are those of Flink's ``JsonFunctionsITCase`` or follow its ``SqlJsonUtils``.
"""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from stateplan.common.errors import DataError, SqlError
from stateplan.common.types import STRING, parse_type
from stateplan.functions.rex import Call, Rex
from stateplan.planner.binding.expressions import bind_expression
from stateplan.planner.dialect import parse_expression
from stateplan.runtime.transforms.calc import CalcTransform
from tests.functions.answers import FIELDS, Golden, cases
from tests.planner.conftest import compiled

NAMES = ("JSON_", "IS JSON", "IS NOT JSON")


def _written(case: Golden) -> bool:
    return any(n in case.expression for n in NAMES) and isinstance(case.rex, Call) and case.rex.name.startswith(NAMES)


@pytest.mark.parametrize("case", [c for c in cases() if _written(c)], ids=str)
def test_the_expression_is_what_flink_writes(case: Golden) -> None:
    assert case.rex is not None
    bound = bind_expression(parse_expression(case.expression), FIELDS, case.expression)
    assert bound.to_json() == case.rex.to_json()


TABLE = """
CREATE TABLE t (a INT, b BIGINT, j STRING, d DOUBLE)
  WITH ('connector' = 'filesystem', 'path' = '/data/t', 'format' = 'json');
"""
QUERY_NULLS = "SqlJsonQueryEmptyOrErrorBehavior[NULL], SqlJsonQueryEmptyOrErrorBehavior[NULL]"


@pytest.mark.parametrize(
    ("call", "sink", "described", "written"),
    [
        ("j IS JSON", "BOOLEAN", "IS JSON VALUE(j)", "BOOLEAN NOT NULL"),
        ("j IS JSON VALUE", "BOOLEAN", "IS JSON VALUE(j)", "BOOLEAN NOT NULL"),
        ("j IS NOT JSON SCALAR", "BOOLEAN", "IS NOT JSON SCALAR(j)", "BOOLEAN NOT NULL"),
        ("NOT j IS JSON OBJECT", "BOOLEAN", "NOT(IS JSON OBJECT(j))", "BOOLEAN NOT NULL"),
        ("JSON_EXISTS(j, '$.a' UNKNOWN ON ERROR)", "BOOLEAN", "JSON_EXISTS(j, '$.a', UNKNOWN)", "BOOLEAN"),
        (
            "JSON_VALUE(j, '$.a' RETURNING DOUBLE DEFAULT 0 ON EMPTY ERROR ON ERROR)",
            "DOUBLE",
            "JSON_VALUE(j, '$.a', DEFAULT, 0, ON EMPTY, ERROR, ON ERROR)",
            "DOUBLE",
        ),
        (
            "JSON_QUERY(j, '$.a' RETURNING ARRAY<STRING> WITH CONDITIONAL ARRAY WRAPPER)",
            "ARRAY<STRING>",
            f"JSON_QUERY(j, '$.a', WITH_CONDITIONAL_ARRAY, {QUERY_NULLS})",
            "ARRAY<VARCHAR(2147483647)>",
        ),
        (
            "JSON_QUERY(j, '$.a' WITH ARRAY WRAPPER ERROR ON ERROR EMPTY ARRAY ON EMPTY)",
            "STRING",
            "JSON_QUERY(j, '$.a', WITH_UNCONDITIONAL_ARRAY, SqlJsonQueryEmptyOrErrorBehavior[EMPTY_ARRAY], "
            "SqlJsonQueryEmptyOrErrorBehavior[ERROR])",
            "VARCHAR(2147483647)",
        ),
        (
            "JSON_OBJECT(KEY 'k' VALUE b, 'n' VALUE JSON_ARRAY(a, d NULL ON NULL) ABSENT ON NULL)",
            "STRING",
            "JSON_OBJECT(ABSENT_ON_NULL, 'k', b, 'n', JSON_ARRAY(NULL_ON_NULL, a, d))",
            "VARCHAR(2147483647) NOT NULL",
        ),
    ],
)
def test_the_plan_says_it_as_flink_does(call: str, sink: str, described: str, written: str) -> None:
    script = (
        f"{TABLE}CREATE TABLE snk (r {sink}) WITH ('connector' = 'print');INSERT INTO snk SELECT {call} AS r FROM t;"
    )
    calc = compiled(script)["nodes"][1]
    assert calc["description"] == f"Calc(select=[{described} AS r])"
    assert calc["projection"][0]["type"] == written


def _answer(expression: str, *rows: str | None) -> list[Any]:
    """What an expression over the columns ``j`` (the rows) and ``k`` (each row's number as text) answers."""
    rex: Rex = bind_expression(parse_expression(expression), [("j", STRING), ("k", STRING)], expression)
    numbers = [str(i) for i in range(len(rows))]
    frame = pl.DataFrame({"c0": rows, "c1": numbers}, schema={"c0": pl.String, "c1": pl.String})
    out: list[Any] = CalcTransform((rex,), None)(frame, 0)["c0"].to_list()
    return out


ITEMS = '{"items": [{"itemId":1234, "count":10}, null, {"itemId":4567, "count":11}]}'
KINDS = '{"a1": [], "o1": {}, "s1": "Test", "n1": 1}'
TEXT = '{ "a": "[1,2]", "b": [1,2]}'


@pytest.mark.parametrize(
    ("call", "text", "expected"),
    [
        # wrappers
        ("JSON_QUERY(j, '$.a1' WITHOUT WRAPPER)", KINDS, "[]"),
        ("JSON_QUERY(j, '$.a1' WITH CONDITIONAL WRAPPER)", KINDS, "[]"),
        ("JSON_QUERY(j, '$.o1' WITH CONDITIONAL WRAPPER)", KINDS, "[{}]"),
        ("JSON_QUERY(j, '$.a1' WITH UNCONDITIONAL WRAPPER)", KINDS, "[[]]"),
        ("JSON_QUERY(j, '$.n1' WITH CONDITIONAL WRAPPER)", KINDS, "[1]"),
        ("JSON_QUERY(j, '$.s1' WITH CONDITIONAL WRAPPER)", KINDS, '["Test"]'),
        ("JSON_QUERY(j, '$.a' WITH WRAPPER EMPTY OBJECT ON EMPTY)", '{"a": null}', None),
        # empty and error
        ("JSON_QUERY(j, 'lax $.err' NULL ON EMPTY)", KINDS, None),
        ("JSON_QUERY(j, 'lax $.err' EMPTY ARRAY ON EMPTY)", KINDS, "[]"),
        ("JSON_QUERY(j, 'lax $.err' EMPTY OBJECT ON EMPTY)", KINDS, "{}"),
        ("JSON_QUERY(j, 'lax $.s1' EMPTY ARRAY ON EMPTY EMPTY OBJECT ON ERROR)", KINDS, "[]"),
        ("JSON_QUERY(j, 'strict $.err' NULL ON ERROR)", KINDS, None),
        ("JSON_QUERY(j, 'strict $.err' EMPTY ARRAY ON ERROR)", KINDS, "[]"),
        ("JSON_QUERY(j, 'strict $.err' EMPTY OBJECT ON ERROR)", KINDS, "{}"),
        ("JSON_QUERY(j, '$.s1' EMPTY ARRAY ON EMPTY EMPTY OBJECT ON ERROR)", KINDS, "{}"),
        ("JSON_QUERY(j, 'lax $' EMPTY ARRAY ON EMPTY EMPTY OBJECT ON ERROR)", "null", "{}"),
        ("JSON_QUERY(j, 'lax $' EMPTY ARRAY ON EMPTY EMPTY OBJECT ON ERROR)", "no JSON", "[]"),
        # keys in order, digits as they are
        ("JSON_QUERY(j, '$')", '{"b": 1.50, "a": [1e10, "ä"]}', '{"a":[1E+10,"ä"],"b":1.50}'),
        ("JSON_QUERY(j, '$.a[*].b[*]')", '{"a": [{"b": [1, 2]}, {}, {"b": [3]}]}', "[1,2,3]"),
        ("JSON_QUERY(j, 'lax $.zz[*]')", KINDS, "[]"),
        # arrays
        ("JSON_QUERY(j, '$.b' RETURNING ARRAY<STRING>)", TEXT, ["1", "2"]),
        ("JSON_QUERY(j, '$.b' RETURNING ARRAY<STRING> WITH CONDITIONAL WRAPPER)", TEXT, ["1", "2"]),
        ("JSON_QUERY(j, '$.a' RETURNING ARRAY<STRING>)", TEXT, None),
        ("JSON_QUERY(j, '$.a' RETURNING ARRAY<STRING> WITH CONDITIONAL WRAPPER)", TEXT, ["[1,2]"]),
        ("JSON_QUERY(j, '$.a' RETURNING ARRAY<STRING> WITHOUT WRAPPER EMPTY ARRAY ON ERROR)", TEXT, []),
        ("JSON_QUERY(j, '$' RETURNING ARRAY<STRING> EMPTY ARRAY ON ERROR)", TEXT, []),
        (
            "JSON_QUERY(j, 'lax $.a[*].c' RETURNING ARRAY<STRING> ERROR ON ERROR ERROR ON EMPTY)",
            '{"a":[{"c":null},{"c":"c2"}]}',
            [None, "c2"],
        ),
        (
            "JSON_QUERY(j, '$.items' RETURNING ARRAY<STRING>)",
            ITEMS,
            ['{"count":10,"itemId":1234}', None, '{"count":11,"itemId":4567}'],
        ),
        ("JSON_QUERY(j, '$' RETURNING ARRAY<STRING>)", "[true, 1.50, [null]]", ["true", "1.50", "[null]"]),
        # scalars
        ("JSON_VALUE(j, '$.n1')", KINDS, "1"),
        ("JSON_VALUE(j, '$.a')", '{"a": 1.50}', "1.50"),
        ("JSON_VALUE(j, '$.n1' RETURNING DOUBLE)", KINDS, 1.0),
        ("JSON_VALUE(j, 'lax $.a1' DEFAULT 'empty' ON EMPTY DEFAULT 'error' ON ERROR)", KINDS, "empty"),
        ("JSON_VALUE(j, '$.a1' DEFAULT 'empty' ON EMPTY DEFAULT 'error' ON ERROR)", KINDS, "error"),
        ("JSON_VALUE(j, 'lax $.zz' DEFAULT 'error' ON ERROR DEFAULT 'empty' ON EMPTY)", KINDS, "empty"),
        ("JSON_VALUE(j, 'lax $.zz' RETURNING DOUBLE DEFAULT 0 ON EMPTY)", KINDS, 0.0),
        ("JSON_VALUE(j, '$.zz' RETURNING INT DEFAULT 1 + 1 ON ERROR)", KINDS, 2),
        ("JSON_VALUE(j, '$.zz' DEFAULT k ON ERROR)", KINDS, "0"),
        ("JSON_VALUE(j, '$.n1' DEFAULT NULLIF(k, '0') ON ERROR)", KINDS, None),
        ("JSON_VALUE(j, '$.a' RETURNING INT)", '{"a": 1e999999999}', None),
        ("JSON_VALUE(j, '$.a' RETURNING INT DEFAULT -1 ON ERROR)", '{"a": 2147483648}', -1),
        ("JSON_VALUE(j, '$.a' RETURNING INT)", '{"a": -2147483648}', -2147483648),
        ("JSON_EXISTS(j, '$.a1')", KINDS, True),
        ("JSON_EXISTS(j, 'strict $.zz' UNKNOWN ON ERROR)", KINDS, None),
        ("JSON_EXISTS(j, 'lax $.zz' TRUE ON ERROR)", KINDS, False),
        ("JSON_EXISTS(j, 'lax $' TRUE ON ERROR)", "null", True),
        ("j IS JSON", "null", True),
        ("j IS JSON SCALAR", "1", True),
        ("j IS NOT JSON ARRAY", "{}", True),
        ("j IS JSON", "{", False),
        ("NOT j IS JSON", "{", True),
        ("j IS JSON", None, False),
        # objects
        ("JSON_OBJECT('k' VALUE 1, 'c' VALUE j)", "x", '{"c":"x","k":1}'),
        ("JSON_OBJECT('b', 1, 'a' : TRUE)", "x", '{"a":true,"b":1}'),
        ("JSON_OBJECT('k' VALUE j, 'a' VALUE NULLIF(j, 'x') ABSENT ON NULL)", "x", '{"k":"x"}'),
        ("JSON_OBJECT('a' VALUE NULL)", "x", '{"a":null}'),
        ("JSON_OBJECT('a' VALUE 1, 'a' VALUE 2)", "x", '{"a":2}'),
        ("JSON_OBJECT('a' VALUE 1, 'a' VALUE NULLIF(j, 'x') ABSENT ON NULL)", "x", '{"a":1}'),
        ("JSON_OBJECT(COALESCE(j, '') VALUE 1, 'a' VALUE 2)", "x", '{"a":2,"x":1}'),
        ("JSON_OBJECT('a' VALUE JSON_QUERY(j, '$.b' RETURNING ARRAY<STRING>))", TEXT, '{"a":["1","2"]}'),
        ("JSON_OBJECT('a' VALUE JSON_OBJECT('b' VALUE JSON_ARRAY(1, k)))", "x", '{"a":{"b":[1,"0"]}}'),
        ("JSON_OBJECT('r' VALUE CAST(ROW(1, 2) AS ROW<b INT, a INT>))", "x", '{"r":{"a":2,"b":1}}'),
    ],
)  # fmt: skip
def test_value(call: str, text: str | None, expected: object) -> None:
    assert _answer(call, text) == [expected]


@pytest.mark.parametrize(
    "call",
    [
        "JSON_VALUE(j, 'lax $.zz' ERROR ON EMPTY)",
        "JSON_VALUE(j, 'strict $.zz' ERROR ON ERROR)",
        "JSON_QUERY(j, 'lax $.zz' ERROR ON EMPTY)",
        "JSON_QUERY(j, 'strict $.zz' ERROR ON ERROR)",
        "JSON_QUERY(j, '$.a' RETURNING ARRAY<STRING> WITHOUT WRAPPER ERROR ON ERROR)",
        "JSON_EXISTS(j, 'strict $.zz' ERROR ON ERROR)",
    ],
)
def test_what_is_an_error_fails_the_job(call: str) -> None:
    with pytest.raises(DataError) as caught:
        _answer(call, TEXT)
    assert caught.value.code == "DATA302"


@pytest.mark.parametrize(
    ("call", "code", "where", "message"),
    [
        ("JSON_VALUE(j, '$.a' RETURNING DATE)", "SQL203", "RETURNING DATE", "cannot return DATE"),
        ("JSON_VALUE(j, '$.a' RETURNING INT DEFAULT 'x' ON EMPTY)", "SQL203", "'x'", "the DEFAULT of JSON_VALUE"),
        ("JSON_QUERY(j, '$.a' RETURNING INT)", "SQL203", "RETURNING INT", "cannot return INT"),
        ("JSON_QUERY(j, '$.a' RETURNING ARRAY<INT>)", "SQL203", "RETURNING ARRAY<INT>", "cannot return ARRAY<INT>"),
        ("JSON_QUERY(j, '$.a' RETURNING ARRAY<STRING> EMPTY OBJECT ON EMPTY)", "SQL203", "EMPTY OBJECT ON EMPTY",
         "EMPTY OBJECT cannot return ARRAY<"),
        ("JSON_OBJECT(1 VALUE 2)", "SQL203", "1", "a key of JSON_OBJECT has the type INT"),
        ("JSON_OBJECT(j VALUE 2)", "SQL203", "j", "a key of JSON_OBJECT can be NULL"),
        ("1 IS JSON", "SQL203", "1 IS JSON", "argument 1 is INT"),
        ("JSON_EXISTS(1, '$.a')", "SQL203", "JSON_EXISTS", "argument 1 is INT"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call: str, code: str, where: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        _answer(call, "{}")
    place = caught.value.place
    assert place is not None
    assert place.column is not None
    assert (caught.value.code, call[place.column - 1 :][: place.length]) == (code, where)
    assert message in caught.value.message
    assert caught.value.expected


def test_a_default_of_a_plan_that_does_not_fit_is_an_error() -> None:
    bound = bind_expression(parse_expression("JSON_VALUE(j, '$.a' DEFAULT 'x' ON ERROR)"), [("j", STRING)], "")
    assert isinstance(bound, Call)
    call = Call(parse_type("INT"), bound.operands, bound.internal_name)
    with pytest.raises(DataError, match="the DEFAULT of JSON_VALUE is no INT"):
        CalcTransform((call,), None)(pl.DataFrame({"c0": ["{}"]}), 0)
