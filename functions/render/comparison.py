"""How comparisons and three-valued logic run."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from functools import partial, reduce
from operator import and_, or_
from typing import Any

import polars as pl

from stateplan.common.errors import PlanError
from stateplan.common.types import DOUBLE, FLOAT, LogicalType
from stateplan.common.values.codecs import plan_value
from stateplan.common.values.nanoseconds import PER_SECOND, rescaled
from stateplan.functions.render import decimals
from stateplan.functions.render.base import Renderer, renders, renders_all, renders_by_values
from stateplan.functions.render.casts import cast_or_fail, convert, number
from stateplan.functions.render.rowwise import rowwise
from stateplan.functions.rex import Call, Literal, Rex
from stateplan.functions.typerules import as_decimal, family, timestamp_ltz

_APPROXIMATE = ("FLOAT", "DOUBLE")


def _numeric_sides(a: pl.Expr, ta: LogicalType, b: pl.Expr, tb: LogicalType) -> tuple[pl.Expr, pl.Expr, bool]:
    """Both sides as numbers of one type, and whether NaN has to be looked after."""
    roots = {ta.root, tb.root}
    if roots & set(_APPROXIMATE):
        target = FLOAT if roots <= {"FLOAT", "TINYINT", "SMALLINT", "INTEGER", "BIGINT"} else DOUBLE
        return convert(a, ta, target), convert(b, tb, target), True
    if "DECIMAL" not in roots:
        return a, b, False
    (p1, s1), (p2, s2) = as_decimal(ta), as_decimal(tb)
    scale = max(s1, s2)
    x, y = decimals.unscaled(a, ta), decimals.unscaled(b, tb)
    if max(p1 + scale - s1, p2 + scale - s2) <= 38:
        x, y = (e * pl.lit(10 ** (scale - s), dtype=pl.Int128) if scale > s else e for e, s in ((x, s1), (y, s2)))
        return x, y, False
    sign = rowwise(lambda m, n: _sign(m * 10 ** (scale - s1) - n * 10 ** (scale - s2)), [x, y], pl.Int8, "DECIMAL")
    return sign, pl.lit(0, dtype=pl.Int8), False


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


def _sides(r: Renderer, a: Rex, b: Rex) -> tuple[pl.Expr, pl.Expr, bool]:
    roots = {a.type.root, b.type.root}
    if roots & set(_APPROXIMATE) and "DECIMAL" in roots:
        return number(r, a, DOUBLE), number(r, b, DOUBLE), True
    return _typed_sides(r, r.expr(a), a.type, r.expr(b), b.type)


def _typed_sides(
    r: Renderer, a: pl.Expr, ta: LogicalType, b: pl.Expr, tb: LogicalType
) -> tuple[pl.Expr, pl.Expr, bool]:
    if ta.root == "NULL" or tb.root == "NULL":
        return a, b, False
    fa, fb = family(ta), family(tb)
    if fa == fb == "NUMERIC":
        return _numeric_sides(a, ta, b, tb)
    if fa == "CHARACTER" and fb != "CHARACTER":
        return cast_or_fail(r, a, ta, tb), b, False
    if fb == "CHARACTER" and fa != "CHARACTER":
        return a, cast_or_fail(r, b, tb, ta), False
    if fa == fb == "TIMESTAMP":
        if ta.root != tb.root:
            zoned = timestamp_ltz(max(ta.precision or 0, tb.precision or 0))
            a, b = cast_or_fail(r, a, ta, zoned), cast_or_fail(r, b, tb, zoned)
            return a, b, False
        wide = max((ta, tb), key=lambda t: PER_SECOND[t.time_unit()])
        return rescaled(a, ta, wide), rescaled(b, tb, wide), False
    return a, b, False


def compare(name: str, a: pl.Expr, b: pl.Expr, *, floating: bool) -> pl.Expr:
    """``a <name> b`` with NULL if a side is; ``floating`` for sides that may be NaN, which equals nothing."""
    plain = {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[name]
    if not floating:
        return plain
    unordered = a.is_nan() | b.is_nan()
    return pl.when(unordered & plain.is_not_null()).then(pl.lit(name == "<>")).otherwise(plain)


def _comparison(r: Renderer, call: Call, name: str) -> pl.Expr:
    a, b, floating = _sides(r, *call.operands)
    return compare(name, a, b, floating=floating)


renders_all({name: partial(_comparison, name=name) for name in ("=", "<>", "<", "<=", ">", ">=")})


def _junction(r: Renderer, call: Call, stop: bool) -> pl.Expr:
    """AND or OR of operands, each of which only counts for errors where none before it is ``stop``."""
    out: list[pl.Expr] = []
    with ExitStack() as stack:
        for operand in call.operands:
            e = r.expr(operand)
            out.append(e)
            stack.enter_context(r.guard((~e if stop else e).fill_null(True)))
    return reduce(or_ if stop else and_, out)


renders_all({"AND": partial(_junction, stop=False), "OR": partial(_junction, stop=True)})
renders_by_values(
    {
        "NOT": lambda e: ~e,
        "IS NULL": lambda e: e.is_null(),
        "IS NOT NULL": lambda e: e.is_not_null(),
        "IS TRUE": lambda e: e.fill_null(False),
        "IS NOT TRUE": lambda e: ~e.fill_null(False),
        "IS FALSE": lambda e: ~e.fill_null(True),
        "IS NOT FALSE": lambda e: e.fill_null(True),
    }
)


@renders("IS NOT DISTINCT FROM")
def is_not_distinct(r: Renderer, call: Call) -> pl.Expr:
    """As multi-joins have it in their conditions; elsewhere it is written with OR."""
    left, right = call.operands
    a, b, floating = _sides(r, left, right)
    equal = compare("=", a, b, floating=floating).fill_null(False)
    return equal | (r.expr(left).is_null() & r.expr(right).is_null())


@renders("SEARCH")
def search(r: Renderer, call: Call) -> pl.Expr:
    """A value in a set of ranges (Calcite's ``Sarg``)."""
    operand, literal = call.operands
    if not isinstance(literal, Literal) or not isinstance(literal.sarg, dict):
        raise PlanError("PLAN079")
    value = r.expr(operand)
    result = _ranges(r, value, operand.type, literal)
    null_as = literal.sarg.get("nullAs", "UNKNOWN")
    result = pl.when(value.is_not_null()).then(result)
    return result if null_as == "UNKNOWN" else result.fill_null(null_as == "TRUE")


def _ranges(r: Renderer, value: pl.Expr, t: LogicalType, literal: Literal) -> pl.Expr:
    ranges = [(x.get("lower"), x.get("upper")) for x in literal.sarg.get("ranges", [])]
    points = [lo["value"] for lo, hi in ranges if lo and hi and lo == hi and lo.get("boundType") == "CLOSED"]
    if ranges and len(points) == len(ranges):
        return _among(r, value, t, literal.type, points)
    holes = _holes(ranges)
    if holes is not None:
        return ~_among(r, value, t, literal.type, holes)
    parts = []
    for bounds in ranges:
        sides = [
            _against(r, f"{sign}{'=' * (bound.get('boundType') == 'CLOSED')}", value, t, literal.type, bound["value"])
            for bound, sign in zip(bounds, "><", strict=True)
            if bound
        ]
        parts.append(reduce(and_, sides) if sides else pl.lit(True))
    return reduce(or_, parts) if parts else pl.lit(False)


def _holes(ranges: list[tuple[Any, Any]]) -> list[Any] | None:
    """The points omitted, where the ranges are all values but these; else None."""
    if len(ranges) < 2 or ranges[0][0] or ranges[-1][1]:
        return None
    out = []
    for (_, upper), (lower, _) in itertools.pairwise(ranges):
        if not upper or not lower or upper != lower or upper.get("boundType") != "OPEN":
            return None
        out.append(upper["value"])
    return out


def _against(r: Renderer, name: str, value: pl.Expr, t: LogicalType, bound_type: LogicalType, bound: Any) -> pl.Expr:
    if t.root in _APPROXIMATE and family(bound_type) == "NUMERIC":
        wide = FLOAT if t.root == bound_type.root == "FLOAT" else DOUBLE
        constant = r.literal(wide, float(plan_value(bound_type, bound)))
        return compare(name, *_numeric_sides(value, t, constant, wide)[:2], floating=True)
    constant = r.literal(bound_type, plan_value(bound_type, bound))
    a, b, floating = _typed_sides(r, value, t, constant, bound_type)
    return compare(name, a, b, floating=floating)


def _among(r: Renderer, value: pl.Expr, t: LogicalType, point_type: LogicalType, points: list[Any]) -> pl.Expr:
    same = family(t) == "CHARACTER" or (t.is_integer and point_type.is_integer) or t.root == point_type.root == "DATE"
    if same and len(points) > 3:
        values = [plan_value(point_type, p) for p in points]
        wide = pl.Int64() if t.is_integer else t.polars()
        return value.cast(wide).is_in(pl.lit(pl.Series(values, dtype=wide)).implode())
    return reduce(or_, (_against(r, "=", value, t, point_type, point) for point in points))
