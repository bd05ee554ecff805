"""DECIMAL arithmetic on unscaled 128-bit integers, with Java's HALF_UP rounding and Flink's NULL on overflow."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal

import polars as pl

from stateplan.common.types import LogicalType
from stateplan.common.values.floats import double_text
from stateplan.functions.render.rowwise import rowwise
from stateplan.functions.typerules import as_decimal

_I128 = pl.Int128()


def _lit(value: int) -> pl.Expr:
    return pl.lit(value, dtype=_I128)


def scale_of(t: LogicalType) -> int:
    return as_decimal(t)[1]


def unscaled(e: pl.Expr, t: LogicalType) -> pl.Expr:
    """The unscaled value (Int128) of a DECIMAL or integer expression."""
    return e.to_physical().cast(_I128) if t.root == "DECIMAL" else e.cast(_I128)


def from_unscaled(e: pl.Expr, t: LogicalType, *, certain: bool = False) -> pl.Expr:
    """The DECIMAL of type ``t`` with this unscaled value; NULL if it has too many digits, unless ``certain``."""
    precision, scale = as_decimal(t)
    if not certain:
        limit = 10**precision
        e = pl.when((e < _lit(limit)) & (e > _lit(-limit))).then(e)
    return e.reinterpret(dtype=pl.Decimal(precision, scale))


def _half_up(e: pl.Expr, digits: int) -> pl.Expr:
    """``e`` divided by 10**digits, halves away from zero."""
    if digits > 38:
        return e * _lit(0)
    half = _lit(5 * 10 ** (digits - 1))
    return pl.when(e < 0).then(e - half).otherwise(e + half).truncdiv(_lit(10**digits))


def rescale(e: pl.Expr, source: int, target: int) -> pl.Expr:
    """Unscaled values of scale ``source`` at scale ``target``, HALF_UP; NULL where 38 digits do not hold them."""
    if target == source:
        return e
    if target < source:
        return _half_up(e, source - target)
    grow = target - source
    if grow > 38:
        return pl.when(e == 0).then(e)
    limit = 10 ** (38 - grow)
    return pl.when((e < _lit(limit)) & (e > _lit(-limit))).then(e) * _lit(10**grow)


def to_decimal(e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    """A DECIMAL or integer as DECIMAL ``target``: HALF_UP, NULL on overflow."""
    (p1, s1), (p2, s2) = as_decimal(source), as_decimal(target)
    if (p1, s1) == (p2, s2) and source.root == "DECIMAL":
        return e
    certain = s2 >= s1 and p2 - s2 >= p1 - s1
    if certain and p1 + (s2 - s1) <= 38:
        grown = unscaled(e, source) * _lit(10 ** (s2 - s1)) if s2 > s1 else unscaled(e, source)
        return from_unscaled(grown, target, certain=True)
    return from_unscaled(rescale(unscaled(e, source), s1, s2), target)


def _exact(function: Callable[[int, int], int | None], a: pl.Expr, b: pl.Expr, limit: int) -> pl.Expr:
    """``function`` of two unscaled values per row with unlimited integers; NULL if the result reaches ``limit``."""

    def one(x: int, y: int) -> int | None:
        value = function(x, y)
        return None if value is None or abs(value) >= limit else value

    return rowwise(one, [a, b], _I128, "DECIMAL")


def _divide_half_up(a: int, b: int) -> int:
    quotient, rest = divmod(abs(a), abs(b))
    quotient += 2 * rest >= abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def add(a: pl.Expr, ta: LogicalType, b: pl.Expr, tb: LogicalType, result: LogicalType, *, sign: int = 1) -> pl.Expr:
    """a + b, or a - b for ``sign`` -1."""
    (p1, s1), (p2, s2) = as_decimal(ta), as_decimal(tb)
    precision, target = as_decimal(result)
    scale = max(s1, s2)
    x, y = unscaled(a, ta), unscaled(b, tb)
    if max(p1 - s1, p2 - s2) + scale + 1 <= 38:
        x = x * _lit(10 ** (scale - s1)) if scale > s1 else x
        y = y * _lit(10 ** (scale - s2)) if scale > s2 else y
        return from_unscaled(x + y if sign > 0 else x - y, result, certain=True)
    f1, f2, drop = 10 ** (scale - s1), sign * 10 ** (scale - s2), 10 ** (scale - target)
    total = _exact(lambda m, n: _divide_half_up(m * f1 + n * f2, drop), x, y, 10**precision)
    return from_unscaled(total, result, certain=True)


def multiply(a: pl.Expr, ta: LogicalType, b: pl.Expr, tb: LogicalType, result: LogicalType) -> pl.Expr:
    """a * b at the result's scale, HALF_UP; NULL on overflow."""
    (p1, s1), (p2, s2) = as_decimal(ta), as_decimal(tb)
    precision, scale = as_decimal(result)
    x, y = unscaled(a, ta), unscaled(b, tb)
    if p1 + p2 <= 38:
        product = x * y
        return from_unscaled(rescale(product, s1 + s2, scale), result, certain=s1 + s2 == scale)
    drop = 10 ** (s1 + s2 - scale)
    return from_unscaled(_exact(lambda m, n: _divide_half_up(m * n, drop), x, y, 10**precision), result, certain=True)


def divide(a: pl.Expr, ta: LogicalType, b: pl.Expr, tb: LogicalType, result: LogicalType) -> pl.Expr:
    """a / b at the result's scale, HALF_UP; NULL on overflow and for b = 0."""
    (p1, s1), (p2, s2) = as_decimal(ta), as_decimal(tb)
    precision, scale = as_decimal(result)
    grow = scale - s1 + s2
    x, y = unscaled(a, ta), unscaled(b, tb)
    if grow >= 0 and p1 + grow <= 37 and p2 <= 37:
        top = x * _lit(10**grow)
        quotient = top.truncdiv(y)
        rest = (top - quotient * y).abs()
        towards = pl.when((top < 0) == (y < 0)).then(_lit(1)).otherwise(_lit(-1))
        half_up = pl.when(rest * _lit(2) >= y.abs()).then(quotient + towards).otherwise(quotient)
        return from_unscaled(half_up, result)
    up, down = 10 ** max(grow, 0), 10 ** max(-grow, 0)

    def one(m: int, n: int) -> int | None:
        return None if n == 0 else _divide_half_up(m * up, n * down)

    return from_unscaled(_exact(one, x, y, 10**precision), result, certain=True)


def modulo(a: pl.Expr, ta: LogicalType, b: pl.Expr, tb: LogicalType, result: LogicalType) -> pl.Expr:
    """The rest of a / b with the sign of a; NULL for b = 0."""
    s1, s2 = scale_of(ta), scale_of(tb)
    precision, target = as_decimal(result)
    scale = max(s1, s2)
    f1, f2 = 10 ** (scale - s1), 10 ** (scale - s2)
    x, y = unscaled(a, ta), unscaled(b, tb)
    if max(as_decimal(ta)[0] + scale - s1, as_decimal(tb)[0] + scale - s2) <= 38:
        x, y = x * _lit(f1), y * _lit(f2)
        return from_unscaled(rescale(x - x.truncdiv(y) * y, scale, target), result)

    def one(m: int, n: int) -> int | None:
        if n == 0:
            return None
        rest = abs(m * f1) % abs(n * f2)
        return _divide_half_up(rest if m >= 0 else -rest, 10 ** (scale - target))

    return from_unscaled(_exact(one, x, y, 10**precision), result, certain=True)


def whole_number(e: pl.Expr, t: LogicalType, mode: str) -> pl.Expr:
    """The unscaled value at scale 0: ``mode`` is ``down`` (to zero), ``floor`` or ``ceil``."""
    scale = scale_of(t)
    value = unscaled(e, t)
    if scale == 0:
        return value
    step = _lit(10**scale)
    down = value.truncdiv(step)
    if mode == "down":
        return down
    exact = down * step
    if mode == "floor":
        return pl.when(value < exact).then(down - 1).otherwise(down)
    return pl.when(value > exact).then(down + 1).otherwise(down)


def scaled_half_up(x: pl.Expr, places: int) -> tuple[pl.Expr, pl.Expr]:
    """|x| * 10**places as a whole number (in a DOUBLE), halves up, and whether that is unsure: too large, or so close
    to a half that the decimal form of x has to decide."""
    scaled = x.abs() * pl.lit(float(10**places))
    lower = scaled.floor()
    fraction = scaled - lower
    unsure = ((fraction - 0.5).abs() <= scaled * 1e-12 + 1e-9) | ~(scaled < 1e15)
    return pl.when(fraction > 0.5).then(lower + 1).otherwise(lower), unsure


def double_to_decimal(e: pl.Expr, t: LogicalType) -> pl.Expr:
    """A DOUBLE as DECIMAL through its text (Java's ``BigDecimal.valueOf``), HALF_UP; NULL on overflow,
    for NaN and the infinities."""
    precision, scale = as_decimal(t)
    context = Context(prec=400, rounding=ROUND_HALF_UP)
    limit = 10**precision
    unit = Decimal(1).scaleb(-scale)

    def one(x: float) -> int | None:
        if not math.isfinite(x):
            return None
        value = int(Decimal(double_text(x)).quantize(unit, context=context).scaleb(scale, context=context))
        return None if abs(value) >= limit else value

    def slow(x: pl.Expr) -> pl.Expr:
        return rowwise(one, [x], _I128, "ROUND, TRUNCATE, CAST(double AS DECIMAL)")

    if scale > 15:
        return from_unscaled(slow(e), t, certain=True)
    size, unsure = scaled_half_up(e, scale)
    quick = pl.when(~unsure).then(pl.when(e < 0).then(-size).otherwise(size)).cast(_I128, strict=False)
    return from_unscaled(pl.when(unsure).then(slow(pl.when(unsure).then(e))).otherwise(quick), t)
