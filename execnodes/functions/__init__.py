"""The function table: every scalar and aggregate function of Flink SQL, its plan identity, type rule and rendering.

What the planner uses (all of it importable from here, none of it imports polars until a function is rendered):

Building row expressions
    ``make_call(name, operands, place=None) -> Rex``
        The call of a function or operator by its SQL name (any case): ``"+"``, ``"||"``, ``"AND"``, ``"IS NOT NULL"``,
        ``"NOT LIKE"``, ``"BETWEEN"``, ``"CASE"``, ``"COALESCE"``, ``"UPPER"``, ... Checks operand count and types,
        inserts the CASTs that Flink inserts, infers the result type. Raises SqlError at ``place``: SQL200 (unknown
        function, nearest name), SQL201 (declared but not supported yet), SQL202 (operand count), SQL203 (operand
        types).
        CASE takes (condition, value)... and the ELSE value last, always (a missing ELSE is ``null_literal()``); the
        simple form ``CASE x WHEN a`` is the planner's rewrite to ``x = a``. ``BETWEEN`` takes (value, low, high),
        ``IN`` is :func:`make_in`, ``NOT`` one operand. n-ary AND / OR may be given flat or nested: they are flattened.
        Unit arguments (EXTRACT, FLOOR TO, TIMESTAMPADD, TIMESTAMPDIFF) are ``unit_literal("DAY")``, TRIM's first
        operand is ``trim_flag("BOTH")``.
    ``cast_rex(rex, target, place=None, *, try_cast=False) -> Rex``
        CAST or TRY_CAST; no call when the type is the same apart from nullability, a folded literal where Flink folds.
        ``target``'s own nullability is ignored. Raises SqlError SQL204 for a pair of types that cannot be cast.
    ``make_in(value, items, place=None, *, negated=False) -> Rex``
    ``coerce_operands(name, operands) -> list[Rex]``
        The operands with the CASTs :func:`make_call` would insert.
    ``least_restrictive(types) -> LogicalType | None``
        The type that CASE, UNION, comparisons and IN give to operands of these types; None where there is none.

Constants, typed as Flink types them
    ``string_literal("abc")`` CHAR(3) NOT NULL, ``number_literal("1")`` INT / BIGINT / DECIMAL(p, 0) NOT NULL,
    ``number_literal("1.50")`` DECIMAL(3, 2) NOT NULL, ``number_literal("1e0")`` DOUBLE NOT NULL,
    ``boolean_literal(True)``, ``null_literal(type=NULL)``, ``binary_literal("0aff")`` BINARY(2) NOT NULL,
    ``date_literal("2024-01-31")``, ``time_literal("10:00:00")``, ``timestamp_literal("2024-01-31 10:00:00.5")``,
    ``interval_literal("1 02", "DAY", "HOUR", precision=None)``, ``unit_literal("DAY")``, ``trim_flag("BOTH")``.

Looking up
    ``find_scalar(name) -> ScalarFunction | None`` (``.infer(types) -> LogicalType``, ``.supported``, ``.reason``),
    ``names() -> list[str]``, ``functions() -> list[ScalarFunction]`` (the support matrix),
    ``find_aggregate(name) -> AggregateFunction | None`` (``.infer(types, place, grouped=, filtered=)``),
    ``is_aggregate(name) -> bool``, ``aggregates()``.
"""

from __future__ import annotations

from stateplan.execnodes.functions import (  # noqa: F401  the rows of the table
    arithmetic,
    collection,
    comparison,
    conditional,
    json,
    mathematical,
    temporal,
    text,
    unsupported,
)
from stateplan.execnodes.functions.aggregates import (
    AggregateFunction,
    aggregate_names,
    aggregates,
    find_aggregate,
    is_aggregate,
)
from stateplan.execnodes.functions.arithmetic import datetime_difference
from stateplan.execnodes.functions.builder import coerce_operands, make_call, make_in
from stateplan.execnodes.functions.casting import cast_rex
from stateplan.execnodes.functions.json import json_value
from stateplan.execnodes.functions.literals import (
    binary_literal,
    boolean_literal,
    date_literal,
    interval_literal,
    interval_type,
    null_literal,
    number_literal,
    string_literal,
    symbol,
    time_literal,
    timestamp_literal,
    trim_flag,
    unit_literal,
)
from stateplan.execnodes.functions.table import ScalarFunction, find_scalar, functions, names
from stateplan.execnodes.functions.typerules import castable, common_type, is_implicit, least_restrictive

__all__ = [
    "AggregateFunction",
    "ScalarFunction",
    "aggregate_names",
    "aggregates",
    "binary_literal",
    "boolean_literal",
    "cast_rex",
    "castable",
    "coerce_operands",
    "common_type",
    "date_literal",
    "datetime_difference",
    "find_aggregate",
    "find_scalar",
    "functions",
    "interval_literal",
    "interval_type",
    "is_aggregate",
    "is_implicit",
    "json_value",
    "least_restrictive",
    "make_call",
    "make_in",
    "names",
    "null_literal",
    "number_literal",
    "string_literal",
    "symbol",
    "time_literal",
    "timestamp_literal",
    "trim_flag",
    "unit_literal",
]
