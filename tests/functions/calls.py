"""Calls of every function of the table, with columns in every argument: made from the table, so that a new function is
among them by itself."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import polars as pl

from stateplan.common.types import parse_type
from stateplan.common.values.codecs import codec
from stateplan.functions.rex import InputRef, Rex
from stateplan.functions.table import ScalarFunction, accepts, functions
from stateplan.planner.binding.expressions import ExpressionBinder
from stateplan.planner.binding.scope import Scope
from stateplan.planner.dialect import parse_expression
from stateplan.planner.expressions.simplify import Simplifier

COLUMNS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "s": ("STRING", ("abc", "", "%", "é😀", "2024-02-29")),
    "vc": ("VARCHAR(5)", ("b", " a ", "[", "$.a", "UTC")),
    "ch": ("CHAR(3)", ("b  ", "   ", "1  ", "{  ", "\\  ")),
    "ti": ("TINYINT", (1, -128, 127, 0, 2)),
    "si": ("SMALLINT", (2, -32768, 32767, 0, 1)),
    "i": ("INT", (3, -(2**31), 1000, 0, 1)),
    "l": ("BIGINT", (4, -(2**63), 1000, 0, 1)),
    "f": ("FLOAT", (1.5, -1.5, 0.0, 3e38, -0.0)),
    "d": ("DOUBLE", (2.5, -2.5, 0.0, 1e308, -0.0)),
    "dc": ("DECIMAL(10, 2)", tuple(map(Decimal, ("2.55", "-99999999.99", "99999999.99", "0.00", "0.01")))),
    "b": ("BOOLEAN", (True, False, None, True, False)),
    "y": ("BYTES", (b"a", b"", b"\xff", b"\0", b"\xc3")),
    "bf": ("BINARY(2)", (b"ab", b"\0\0", b"\xff\xff", b"\0\xff", b"\xc3(")),
    "dt": ("DATE", (dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31))),
    "tm": ("TIME(0)", (dt.time(10, 20, 30), dt.time(0), dt.time(23, 59, 59))),
    "t3": ("TIMESTAMP(3)", (dt.datetime(2024, 2, 29, 10, 20, 30, 123000), dt.datetime(1, 1, 1))),
    "t9": ("TIMESTAMP(9)", (dt.datetime(9999, 12, 31, 23, 59, 59), dt.datetime(2024, 2, 29))),
    "lz": ("TIMESTAMP_LTZ(3)", (dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, tzinfo=dt.UTC))),
    "lz9": ("TIMESTAMP_LTZ(9)", (dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(1, 1, 1, tzinfo=dt.UTC))),
    "iv": ("INTERVAL DAY TO SECOND(3)", (dt.timedelta(1), -dt.timedelta(0, 1))),
    "im": ("INTERVAL YEAR TO MONTH", (1, -12)),
    "an": ("ARRAY<INT>", ([3, 1], [None], [])),
    "ars": ("ARRAY<STRING>", (["a", "b"], [""], [])),
    "mp": ("MAP<STRING, INT>", ({"a": 1}, {"": None}, {})),
    "rw": ("ROW<x INT, y STRING>", ((1, "a"), (None, ""))),
}
"""Columns of the table ``t``: their type, and their values from its first row on; the rest is NULL."""

_TYPES = {name: parse_type(sql) for name, (sql, _) in COLUMNS.items()}
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND")
_FINE = ("MICROSECOND", "NANOSECOND", "EPOCH", "DOW", "ISODOW", "DOY", "ISOYEAR", "DECADE", "CENTURY", "MILLENNIUM")
_BETWEEN = ("BETWEEN", "BETWEEN SYMMETRIC", "NOT BETWEEN", "NOT BETWEEN SYMMETRIC")

_FORMS: dict[str, tuple[str, ...]] = {
    **{name: (f"{{0}} {name} {{1}} AND {{2}}",) for name in _BETWEEN},
    **{
        name: (f"{{0}} {name} {{1}}", f"{{0}} {name} {{1}} ESCAPE {{2}}")
        for name in ("LIKE", "NOT LIKE", "SIMILAR TO", "NOT SIMILAR TO")
    },
    **{
        name: (f"{{0}} {name} {{1}}",)
        for name in ("IS DISTINCT FROM", "IS NOT DISTINCT FROM", "*", "+", "-", "<>", "=")
    },
    **{name: (f"{{0}} {name} {{1}}",) for name in ("<", "<=", ">", ">=")},
    **{name: (f"{name}({{0}})", *(f"{name}({{0}} TO {unit})" for unit in _UNITS)) for name in ("CEIL", "FLOOR")},
    "ARRAY": ("ARRAY[{0}]", "ARRAY[{0}, {1}]"),
    "MAP": ("MAP[{0}, {1}]", "MAP[{0}, {1}, {0}, {1}]"),
    "ROW": ("ROW({0})", "ROW({0}, {1})"),
    "CASE": ("CASE WHEN {0} THEN {1} ELSE {2} END", "CASE {1} WHEN {2} THEN {0} END"),
    "ITEM": ("{0}[{1}]",),
    "CAST": tuple(f"CAST({{0}} AS {sql})" for sql, _ in COLUMNS.values()),
    "TRY_CAST": tuple(f"TRY_CAST({{0}} AS {sql})" for sql, _ in COLUMNS.values()),
    "EXTRACT": tuple(f"EXTRACT({unit} FROM {{1}})" for unit in (*_UNITS, *_FINE)),
    "TIMESTAMPADD": tuple(f"TIMESTAMPADD({unit}, {{1}}, {{2}})" for unit in _UNITS),
    "TIMESTAMPDIFF": tuple(f"TIMESTAMPDIFF({unit}, {{1}}, {{2}})" for unit in _UNITS),
    "TRIM": ("TRIM({2})", *(f"TRIM({side} {{1}} FROM {{2}})" for side in ("BOTH", "LEADING", "TRAILING"))),
    "POSITION": ("POSITION({0} IN {1})",),
    "OVERLAY": ("OVERLAY({0} PLACING {1} FROM {2})", "OVERLAY({0} PLACING {1} FROM {2} FOR {3})"),
    "OVERLAPS": ("({0}, {1}) OVERLAPS ({2}, {3})",),
    "NEGATE": ("-{0}",),
    "UNARY +": ("+{0}",),
    "JSON_EXISTS": ("JSON_EXISTS({0}, {1})", "JSON_EXISTS({0}, {1} ERROR ON ERROR)"),
    "JSON_VALUE": (
        "JSON_VALUE({0}, {1})",
        "JSON_VALUE({0}, {1} RETURNING INT)",
        "JSON_VALUE({0}, {1} DEFAULT {2} ON EMPTY)",
        "JSON_VALUE({0}, {1} DEFAULT {2} ON ERROR)",
    ),
    "JSON_QUERY": ("JSON_QUERY({0}, {1})", "JSON_QUERY({0}, {1} WITH CONDITIONAL ARRAY WRAPPER NULL ON EMPTY)"),
    "JSON_OBJECT": ("JSON_OBJECT('k' VALUE {0})", "JSON_OBJECT(KEY {0} VALUE {1} ABSENT ON NULL)"),
    "JSON": ("JSON_OBJECT('k' VALUE JSON({0}))", "JSON_ARRAY(JSON({0}), {0})"),
    "JSON_ARRAY": ("JSON_ARRAY({0}, {0})", "JSON_ARRAY({0} NULL ON NULL)"),
    "%": ("{0} % {1}",),
}
"""The SQL of calls that are not written as ``NAME(a, b)``; the numbers are those of the arguments in the table."""

_MOVED = [(moment, step) for moment in ("dt", "tm", "t3", "t9", "lz", "lz9") for step in ("iv", "im")]
_PAIRS: dict[str, list[tuple[str, str]]] = {"+": [*_MOVED, *((b, a) for a, b in _MOVED)], "-": _MOVED}
"""Arguments of different types that go together."""

INTERNAL = ("/INT", "REINTERPRET", "PROCTIME_MATERIALIZE", "SOURCE_WATERMARK", "CURRENT_WATERMARK")
"""Functions that no SQL calls, or that ask for a time attribute."""


def frame() -> pl.DataFrame:
    """The rows of ``t``, with the columns ``c0, c1, ...``."""
    most = max(len(values) for _, values in COLUMNS.values()) + 1
    series = []
    for i, (name, (_, values)) in enumerate(COLUMNS.items()):
        t = _TYPES[name]
        cells = [codec(t).encode(v) for v in (*values, *[None] * (most - len(values)))]
        series.append(pl.Series(f"c{i}", cells, dtype=t.polars()))
    return pl.DataFrame(series)


def bound(sql: str) -> Rex:
    """The row expression of a call over ``t``, as the planner has it. Raises SqlError."""
    scope = Scope.of_fields(sql, list(_TYPES.items()))
    return Simplifier(time_zone="UTC").simplify(ExpressionBinder(scope, "SELECT").bind(parse_expression(sql)))


def _choices(wanted: str) -> list[str]:
    return [name for name, t in _TYPES.items() if accepts(wanted, InputRef(t, 0))]


def _forms(function: ScalarFunction) -> Iterator[str]:
    """The SQL of calls, with numbers in place of arguments."""
    if function.name in _FORMS:
        yield from _FORMS[function.name]
        return
    name, most = function.name, len(function.takes)
    if function.syntax == "FUNCTION_ID":
        yield name
    elif function.syntax == "BINARY":
        yield f"{{0}} {name} {{1}}"
    elif function.syntax == "POSTFIX":
        yield f"{{0}} {name}"
    elif function.syntax == "PREFIX":
        yield f"{name} {{0}}"
    else:
        for count in range(most - function.optional, most + 1 + function.variadic):
            yield f"{name}({', '.join(f'{{{i}}}' for i in range(count))})"


def calls() -> Iterator[tuple[str, str]]:
    """Function and the SQL of a call, once with each column that an argument takes."""
    for function in functions():
        if not function.supported or function.name in INTERNAL:
            continue
        seen = set()
        for form in _forms(function):
            holes = [int(found) + 1 for found in re.findall(r"{(\d)}", form)]
            takes = [function.takes[min(i, len(function.takes) - 1)] for i in range(max(holes, default=0))]
            options = [_choices(wanted) for wanted in takes]
            first = [o[0] if o else "" for o in options]
            given = [first]
            given += [[*first[:i], name, *first[i + 1 :]] for i, names in enumerate(options) for name in names]
            given += [list(pair) for pair in _PAIRS.get(function.name, ())]
            common = set.intersection(*(set(o) for o in options if o)) if any(options) else set()
            given += [[name if o else "" for o in options] for name in sorted(common)]
            for names in given:
                text = form.format(*(f"`{n}`" for n in names))
                if text not in seen:
                    seen.add(text)
                    yield function.name, text
