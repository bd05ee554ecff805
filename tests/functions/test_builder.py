"""What the planner builds: names, implicit casts, constants, errors. Expected forms are what Flink 2.3 wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from stateplan.common.errors import Place, SqlError
from stateplan.common.types import parse_type
from stateplan.functions.arithmetic import datetime_difference
from stateplan.functions.builder import make_call, make_in
from stateplan.functions.casting import cast_rex
from stateplan.functions.literals import (
    binary_literal,
    boolean_literal,
    date_literal,
    interval_literal,
    interval_type,
    null_literal,
    number_literal,
    string_literal,
    time_literal,
    timestamp_literal,
    trim_flag,
    unit_literal,
)
from stateplan.functions.render import RENDERERS
from stateplan.functions.render.base import USER_DEFINED
from stateplan.functions.rex import LEGACY_CAST, Call, InputRef, Literal, Rex
from stateplan.functions.table import find_scalar, functions, names
from tests.functions.answers import FIELDS

PLACE = Place(line=1, column=8, length=5, source="SELECT UPERR(x)")
BY_NAME = {name: InputRef(t, i) for i, (name, t) in enumerate(FIELDS)}


def ref(name: str) -> InputRef:
    return BY_NAME[name]


def n(text: str) -> Literal:
    return number_literal(text)


def show(rex: Rex) -> str:
    """``CAST(i):BIGINT``: a short form with types on calls and constants."""
    if isinstance(rex, InputRef):
        return FIELDS[rex.index][0]
    if isinstance(rex, Literal):
        return f"{json.dumps(rex.value)}:{rex.type}"
    assert isinstance(rex, Call)
    return f"{rex.name}({', '.join(show(o) for o in rex.operands)}):{rex.type}"


@pytest.mark.parametrize(
    ("text", "value", "type_"),
    [
        ("1", 1, "INT NOT NULL"),
        ("-1", -1, "INT NOT NULL"),
        ("2147483647", 2147483647, "INT NOT NULL"),
        ("2147483648", 2147483648, "BIGINT NOT NULL"),
        ("1.50", "1.50", "DECIMAL(3, 2) NOT NULL"),
        ("0.1", "0.1", "DECIMAL(2, 1) NOT NULL"),
        (".5", "0.5", "DECIMAL(1, 1) NOT NULL"),
        ("5.", 5, "INT NOT NULL"),
        ("00.50", "0.50", "DECIMAL(4, 2) NOT NULL"),
        ("1e0", "1", "DOUBLE NOT NULL"),
        ("1.5e3", "1.5E+3", "DOUBLE NOT NULL"),
        ("1e10", "1E+10", "DOUBLE NOT NULL"),
    ],
)
def test_number(text: str, value: Any, type_: str) -> None:
    literal = number_literal(text)
    assert (literal.value, str(literal.type)) == (value, type_)


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "0." + "1" * 39])
def test_number_out_of_range(text: str) -> None:
    with pytest.raises(SqlError) as caught:
        number_literal(text, PLACE)
    assert caught.value.code == "SQL205" and caught.value.place == PLACE


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        (string_literal("it's"), '"it\'s":CHAR(4) NOT NULL'),
        (string_literal("😀"), '"\\ud83d\\ude00":CHAR(2) NOT NULL'),
        (boolean_literal(True), "true:BOOLEAN NOT NULL"),
        (null_literal(), "null:NULL"),
        (null_literal(parse_type("INT NOT NULL")), "null:INT"),
        (binary_literal("0aFF"), '"Cv8=":BINARY(2) NOT NULL'),
        (date_literal("2024-2-9"), '"2024-02-09":DATE NOT NULL'),
        (time_literal("10:00:00.5"), '"10:00:00.5":TIME(1) NOT NULL'),
        (timestamp_literal("2024-01-01 00:00:00.50"), '"2024-01-01 00:00:00.5":TIMESTAMP(2) NOT NULL'),
        (timestamp_literal("2024-01-01 00:00:00"), '"2024-01-01 00:00:00":TIMESTAMP(0) NOT NULL'),
        (interval_literal("3", "DAY"), '"259200000":INTERVAL DAY(2) NOT NULL'),
        (interval_literal("1 02", "DAY", "HOUR"), '"93600000":INTERVAL DAY(2) TO HOUR NOT NULL'),
        (interval_literal("1:30:05", "HOUR", "SECOND"), '"5405000":INTERVAL HOUR TO SECOND(6) NOT NULL'),
        (interval_literal("1.5", "SECOND"), '"1500":INTERVAL SECOND(6) NOT NULL'),
        (interval_literal("1.5", "SECOND", None, 2, 3), '"1500":INTERVAL SECOND(3) NOT NULL'),
        (interval_literal("100", "DAY", None, 3), '"8640000000":INTERVAL DAY(3) NOT NULL'),
        (interval_literal("-1", "DAY"), '"-86400000":INTERVAL DAY(2) NOT NULL'),
        (interval_literal("1-2", "YEAR", "MONTH"), '"14":INTERVAL YEAR(2) TO MONTH NOT NULL'),
        (interval_literal("3", "WEEK"), '"1814400000":INTERVAL DAY(2) NOT NULL'),
        (interval_literal("1", "QUARTER"), '"3":INTERVAL MONTH NOT NULL'),
    ],
)
def test_constant(literal: Literal, expected: str) -> None:
    assert show(literal) == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: date_literal("2023-02-29", PLACE),
        lambda: date_literal("yesterday", PLACE),
        lambda: time_literal("25:00:00", PLACE),
        lambda: timestamp_literal("2024-01-01", PLACE),
        lambda: interval_literal("x", "DAY", place=PLACE),
        lambda: interval_literal("1", "MILLISECOND", place=PLACE),
        lambda: interval_literal("1-2", "MONTH", "YEAR", place=PLACE),
        lambda: binary_literal("0", PLACE),
        lambda: unit_literal("FORTNIGHT", PLACE),
    ],
)
def test_bad_constant(make: Any) -> None:
    with pytest.raises(SqlError) as caught:
        make()
    assert caught.value.code == "SQL206" and caught.value.place == PLACE and caught.value.expected


INT_MAX = "VARCHAR(2147483647)"


@pytest.mark.parametrize(
    ("rex", "expected"),
    [
        # comparison: = casts both sides, < only between families
        (lambda: make_call("=", [ref("i"), ref("l")]), "=(CAST(i):BIGINT, l):BOOLEAN"),
        (lambda: make_call("<", [ref("i"), ref("l")]), "<(i, l):BOOLEAN"),
        (lambda: make_call("=", [ref("l"), n("1")]), "=(l, 1:BIGINT NOT NULL):BOOLEAN"),
        (lambda: make_call("=", [ref("ti"), n("1")]), "=(CAST(ti):INT, 1:INT NOT NULL):BOOLEAN"),
        (lambda: make_call("=", [ref("d"), n("1")]), '=(d, "1":DOUBLE NOT NULL):BOOLEAN'),
        (
            lambda: make_call("=", [ref("dc"), n("1")]),
            '=(CAST(dc):DECIMAL(12, 2), "1":DECIMAL(12, 2) NOT NULL):BOOLEAN',
        ),
        (
            lambda: make_call("=", [ref("i"), n("3.0")]),
            '=(CAST(i):DECIMAL(11, 1), "3.0":DECIMAL(11, 1) NOT NULL):BOOLEAN',
        ),
        (lambda: make_call("=", [ref("f"), ref("d")]), "=(f, CAST(d):FLOAT):BOOLEAN"),
        (lambda: make_call("=", [ref("s"), string_literal("a")]), f'=(s, "a":{INT_MAX} NOT NULL):BOOLEAN'),
        (
            lambda: make_call("=", [ref("ch"), string_literal("ab")]),
            '=(CAST(ch):VARCHAR(5), "ab":VARCHAR(5) NOT NULL):BOOLEAN',
        ),
        (
            lambda: make_call("=", [ref("dt"), string_literal("2024-02-29")]),
            '=(dt, "2024-02-29":CHAR(10) NOT NULL):BOOLEAN',
        ),
        (
            lambda: make_call(">", [ref("dt"), string_literal("2000-01-01")]),
            '>(dt, "2000-01-01":DATE NOT NULL):BOOLEAN',
        ),
        (
            lambda: make_call(">", [ref("i"), string_literal("1")]),
            '>(CAST(i):BIGINT, CAST("1":CHAR(1) NOT NULL):BIGINT NOT NULL):BOOLEAN',
        ),
        (lambda: make_call("=", [ref("i"), null_literal()]), "=(i, null:INT):BOOLEAN"),
        (
            lambda: make_call("BETWEEN", [ref("i"), n("1"), ref("l")]),
            "AND(>=(i, 1:INT NOT NULL):BOOLEAN, <=(i, l):BOOLEAN):BOOLEAN",
        ),
        (
            lambda: make_call("NOT LIKE", [ref("s"), string_literal("a%")]),
            'NOT(LIKE(s, "a%":CHAR(2) NOT NULL):BOOLEAN):BOOLEAN',
        ),
        (
            lambda: make_call("IS DISTINCT FROM", [ref("i"), ref("l")]),
            "AND(OR(IS NOT NULL(i):BOOLEAN NOT NULL, IS NOT NULL(l):BOOLEAN NOT NULL):BOOLEAN NOT NULL, "
            "IS NOT TRUE(=(i, l):BOOLEAN):BOOLEAN NOT NULL):BOOLEAN NOT NULL",
        ),
        (
            lambda: make_call("IS NOT DISTINCT FROM", [ref("i"), n("0")]),
            "IS TRUE(=(i, 0:INT NOT NULL):BOOLEAN):BOOLEAN NOT NULL",
        ),
        (lambda: make_call("AND", [make_call("AND", [ref("b"), ref("bn")]), ref("b")]), "AND(b, bn, b):BOOLEAN"),
        (
            lambda: make_in(ref("i"), [n("3"), ref("l")]),
            "OR(=(i, 3:INT NOT NULL):BOOLEAN, =(i, CAST(l):INT):BOOLEAN):BOOLEAN",
        ),
        (
            lambda: make_in(ref("i"), [n("3"), null_literal()], negated=True),
            "AND(<>(i, 3:INT NOT NULL):BOOLEAN, null:BOOLEAN):BOOLEAN",
        ),
        (lambda: make_in(ref("s"), [string_literal("a")]), '=(s, "a":CHAR(1) NOT NULL):BOOLEAN'),
        # values
        (
            lambda: make_call("CASE", [make_call(">", [ref("i"), n("1")]), n("1"), ref("l")]),
            "CASE(>(i, 1:INT NOT NULL):BOOLEAN, 1:BIGINT NOT NULL, l):BIGINT",
        ),
        (
            lambda: make_call("CASE", [ref("b"), string_literal("a"), null_literal()]),
            'CASE(b, "a":CHAR(1) NOT NULL, null:CHAR(1)):CHAR(1)',
        ),
        (
            lambda: make_call("CASE", [ref("b"), string_literal("a"), string_literal("bcd")]),
            'CASE(b, "a":VARCHAR(3) NOT NULL, "bcd":VARCHAR(3) NOT NULL):VARCHAR(3) NOT NULL',
        ),
        (
            lambda: make_call("COALESCE", [ref("i"), ref("l"), n("0")]),
            "COALESCE(CAST(i):BIGINT, l, 0:BIGINT NOT NULL):BIGINT NOT NULL",
        ),
        (
            lambda: make_call("COALESCE", [ref("s"), string_literal("none")]),
            f'COALESCE(s, "none":CHAR(4) NOT NULL):{INT_MAX} NOT NULL',
        ),
        (
            lambda: make_call("COALESCE", [ref("dc"), n("0")]),
            'COALESCE(CAST(dc):DECIMAL(12, 2), "0":DECIMAL(12, 2) NOT NULL):DECIMAL(12, 2) NOT NULL',
        ),
        (
            lambda: make_call("NULLIF", [ref("inn"), n("0")]),
            "CASE(=(inn, 0:INT NOT NULL):BOOLEAN NOT NULL, null:INT, inn):INT",
        ),
        (lambda: make_call("IF", [ref("b"), ref("ts3"), ref("ts6")]), "IF(b, ts3, ts6):TIMESTAMP(3)"),
        (lambda: make_call("SQRT", [ref("i")]), 'POWER(i, "0.5":DECIMAL(2, 1) NOT NULL):DOUBLE'),
        (lambda: make_call("%", [ref("l"), n("7")]), "MOD(l, 7:INT NOT NULL):INT"),
        (lambda: make_call("NEGATE", [ref("i")]), "-(i):INT"),
        (lambda: make_call("||", [ref("vc"), string_literal("x")]), '||(vc, "x":CHAR(1) NOT NULL):VARCHAR(11)'),
        (
            lambda: make_call("TRIM", [trim_flag("BOTH"), string_literal(" "), ref("s")]),
            f'TRIM("BOTH":SYMBOL NOT NULL, " ":CHAR(1) NOT NULL, s):{INT_MAX}',
        ),
        (lambda: make_call("YEAR", [ref("dt")]), 'EXTRACT("YEAR":SYMBOL NOT NULL, dt):BIGINT'),
        (
            lambda: make_call("+", [interval_literal("1", "DAY"), ref("ts3")]),
            '+(ts3, "86400000":INTERVAL DAY(2) NOT NULL):TIMESTAMP(3)',
        ),
        (
            lambda: make_call("+", [interval_literal("1", "DAY"), interval_literal("1", "HOUR")]),
            '+("86400000":INTERVAL DAY(2) NOT NULL, "3600000":INTERVAL HOUR NOT NULL):INTERVAL DAY(2) TO HOUR NOT NULL',
        ),
        (
            lambda: make_call("TIMESTAMPADD", [unit_literal("HOUR"), n("1"), ref("dt")]),
            '+(dt, "3600000":INTERVAL HOUR NOT NULL):TIMESTAMP(6)',
        ),
        (
            lambda: make_call("TIMESTAMPDIFF", [unit_literal("DAY"), ref("ts3"), ref("ts6")]),
            "CAST(/INT(REINTERPRET(-(ts6, ts3):INTERVAL DAY(2)):BIGINT, 86400000:INT NOT NULL):BIGINT):INT",
        ),
        (
            lambda: datetime_difference(ref("ts3"), ref("ts6"), interval_type("DAY", "SECOND")),
            "-(ts3, ts6):INTERVAL DAY(2) TO SECOND(6)",
        ),
        (lambda: make_call("ARRAY_CONTAINS", [ref("arr"), null_literal()]), "ARRAY_CONTAINS(arr, null:INT):BOOLEAN"),
        (lambda: make_call("ARRAY", [ref("i"), ref("l")]), "ARRAY(CAST(i):BIGINT, l):ARRAY<BIGINT> NOT NULL"),
        (lambda: make_call("CURRENT_TIMESTAMP", []), "CURRENT_TIMESTAMP():TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL"),
        # casts
        (lambda: cast_rex(ref("i"), parse_type("INT NOT NULL")), "i"),
        (lambda: cast_rex(ref("i"), parse_type("BIGINT NOT NULL")), "CAST(i):BIGINT"),
        (lambda: cast_rex(ref("inn"), parse_type("BIGINT")), "CAST(inn):BIGINT NOT NULL"),
        (lambda: cast_rex(ref("inn"), parse_type("BIGINT"), try_cast=True), "TRY_CAST(inn):BIGINT"),
        (lambda: cast_rex(n("1"), parse_type("DECIMAL(10, 2)")), '"1":DECIMAL(10, 2) NOT NULL'),
        (lambda: cast_rex(string_literal("abcdef"), parse_type("VARCHAR(3)")), '"abc":VARCHAR(3) NOT NULL'),
        (lambda: cast_rex(null_literal(), parse_type("INT")), "null:INT"),
        (lambda: cast_rex(ref("i"), parse_type("BOOLEAN")), "<>(i, 0:INT NOT NULL):BOOLEAN"),
        (
            lambda: cast_rex(ref("b"), parse_type("INT")),
            "CASE(IS NOT NULL(b):BOOLEAN NOT NULL, CASE(b, 1:INT NOT NULL, 0:INT NOT NULL):INT NOT NULL, null:INT):INT",
        ),
        (lambda: cast_rex(ref("bn"), parse_type("INT")), "CASE(bn, 1:INT NOT NULL, 0:INT NOT NULL):INT NOT NULL"),
    ],
)
def test_form(rex: Any, expected: str) -> None:
    assert show(rex()) == expected


def test_syntax_of_calls() -> None:
    assert make_call("UPPER", [ref("s")]).to_json() == {
        "kind": "CALL",
        "internalName": "$UPPER$1",
        "operands": [{"kind": "INPUT_REF", "inputIndex": 11, "type": "VARCHAR(2147483647)"}],
        "type": "VARCHAR(2147483647)",
    }
    syntaxes = {
        name: (c.syntax, c.internal_name)
        for name, c in {
            "+": make_call("+", [ref("i"), n("1")]),
            "at": make_call("+", [ref("ts3"), interval_literal("1", "DAY")]),
            "-": make_call("NEGATE", [ref("i")]),
            "not": make_call("NOT", [ref("b")]),
            "null": make_call("IS NULL", [ref("b")]),
            "like": make_call("LIKE", [ref("s"), ref("s")]),
            "now": make_call("CURRENT_DATE", []),
            "translate": make_call("TRANSLATE", [ref("s"), ref("s"), ref("s")]),
        }.items()
        if isinstance(c, Call)
    }
    assert syntaxes == {
        "+": ("BINARY", "$+$1"),
        "at": ("SPECIAL", "$+$1"),
        "-": ("PREFIX", "$-$1"),
        "not": ("PREFIX", "$NOT$1"),
        "null": ("POSTFIX", "$IS NULL$1"),
        "like": ("SPECIAL", "$LIKE$1"),
        "now": ("FUNCTION_ID", "$CURRENT_DATE$1"),
        "translate": (None, "$TRANSLATE3$1"),
    }


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: make_call("UPERR", [ref("s")], PLACE), "SQL200"),
        (lambda: make_call("CLASSIFIER", [], PLACE), "SQL201"),
        (lambda: make_call("UPPER", [], PLACE), "SQL202"),
        (lambda: make_call("UPPER", [ref("s"), ref("s")], PLACE), "SQL202"),
        (lambda: make_call("CASE", [ref("b"), n("1")], PLACE), "SQL202"),
        (lambda: make_call("MAP", [ref("s"), n("1"), ref("s")], PLACE), "SQL202"),
        (lambda: make_call("UPPER", [ref("i")], PLACE), "SQL203"),
        (lambda: make_call("UPPER", [null_literal()], PLACE), "SQL203"),
        (lambda: make_call("+", [ref("s"), n("1")], PLACE), "SQL203"),
        (lambda: make_call("+", [ref("ts3"), n("1")], PLACE), "SQL203"),
        (lambda: make_call("-", [ref("ts3"), ref("ts6")], PLACE), "SQL203"),
        (lambda: make_call("=", [ref("i"), string_literal("1")], PLACE), "SQL203"),
        (lambda: make_call("=", [ref("b"), string_literal("true")], PLACE), "SQL203"),
        (lambda: make_call("<", [ref("dt"), ref("ts3")], PLACE), "SQL203"),
        (lambda: make_call("AND", [ref("b"), ref("i")], PLACE), "SQL203"),
        (lambda: make_call("CASE", [ref("b"), ref("dt"), ref("ts3")], PLACE), "SQL203"),
        (lambda: make_call("CASE", [ref("i"), ref("dt"), ref("dt")], PLACE), "SQL203"),
        (lambda: make_call("COALESCE", [ref("i"), ref("s")], PLACE), "SQL203"),
        (lambda: make_call("ARRAY", [ref("i"), ref("s")], PLACE), "SQL203"),
        (lambda: make_call("ITEM", [ref("arr"), n("0")], PLACE), "SQL203"),
        (lambda: make_call("TIMESTAMPADD", [unit_literal("EPOCH"), n("1"), ref("ts3")], PLACE), "SQL203"),
        (lambda: make_call("TIMESTAMPDIFF", [unit_literal("DAY"), ref("lz"), ref("ts3")], PLACE), "SQL203"),
        (lambda: make_in(ref("i"), [string_literal("1")], PLACE), "SQL203"),
        (lambda: cast_rex(ref("i"), parse_type("DATE"), PLACE), "SQL204"),
        (lambda: cast_rex(ref("ts3"), parse_type("BIGINT"), PLACE), "SQL204"),
        (lambda: cast_rex(ref("rw"), parse_type("ROW<a INT>"), PLACE), "SQL204"),
    ],
)
def test_error(make: Any, code: str) -> None:
    with pytest.raises(SqlError) as caught:
        make()
    assert caught.value.code == code
    assert caught.value.place == PLACE


def test_unknown_function_names_the_nearest() -> None:
    with pytest.raises(SqlError, match="UPERR") as caught:
        make_call("uperr", [ref("s")])
    assert caught.value.hint and "'UPPER'" in caught.value.hint


def test_every_supported_function_is_rendered() -> None:
    table = [f for f in functions() if f.supported and f.rewrite is None]
    assert {f.plan_name for f in table} <= set(RENDERERS)
    assert set(RENDERERS) - {f.plan_name for f in functions()} == {"SEARCH", LEGACY_CAST, USER_DEFINED}
    assert all(f.reason for f in functions() if not f.supported)


def test_every_supported_function_has_cases() -> None:
    """In a golden file, in the corpus or in a test of this folder."""
    folder = Path(__file__).parent
    texts = (path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.suffix in (".txt", ".py"))
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    table = [f for f in functions() if f.supported and f.name.isidentifier()]
    missing = [f.name for f in table if not words & {f.name, f.plan_name, *f.aliases}]
    assert not missing, f"add calls of {missing} to tests/functions/corpus/templates.txt, and ask Flink"


def test_table_is_broad() -> None:
    assert len([f for f in functions() if f.supported]) > 200
    assert find_scalar("charactER_length") is find_scalar("CHAR_LENGTH")
    assert "UPPER" in names() and "CEILING" in names()
