"""How mathematical functions run."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from functools import partial

import numpy as np
import polars as pl

from stateplan.common.types import DOUBLE, LogicalType
from stateplan.common.values.floats import double_text
from stateplan.functions.render import decimals
from stateplan.functions.render.base import (
    Render,
    Renderer,
    exact_quotient,
    renders,
    renders_all,
    renders_by_values,
)
from stateplan.functions.render.casts import number
from stateplan.functions.render.moments import round_moment
from stateplan.functions.render.rowwise import rowwise
from stateplan.functions.rex import Call, Literal
from stateplan.functions.typerules import as_decimal


def _doubles(r: Renderer, call: Call) -> list[pl.Expr]:
    return [number(r, o, DOUBLE) for o in call.operands]


_OF_DOUBLES: dict[str, Callable[..., pl.Expr]] = {
    "LN": lambda x: _log(x),
    "LOG10": lambda x: pl.when(x >= 0).then(_log10(x)).otherwise(_nan_or_null(x)),
    "LOG2": lambda x: exact_quotient(_log(x), pl.lit(math.log(2))),
    "EXP": lambda x: x.exp(),
    "SIN": lambda x: x.sin(),
    "COS": lambda x: x.cos(),
    "TAN": lambda x: x.tan(),
    "COT": lambda x: pl.lit(1.0) / x.tan(),
    "ASIN": lambda x: x.arcsin(),
    "ACOS": lambda x: x.arccos(),
    "ATAN": lambda x: x.arctan(),
    "SINH": lambda x: x.sinh(),
    "COSH": lambda x: x.cosh(),
    "TANH": lambda x: x.tanh(),
    "DEGREES": lambda x: x * pl.lit(180.0 / math.pi),
    "RADIANS": lambda x: x * pl.lit(math.pi / 180.0),
    "LOG": lambda x, y=None: _log(x) if y is None else exact_quotient(_log(y), _log(x)),
    "ATAN2": pl.arctan2,
}


def _nan_or_null(x: pl.Expr) -> pl.Expr:
    return pl.when(x.is_not_null()).then(pl.lit(math.nan))


def _log10(x: pl.Expr) -> pl.Expr:
    """The logarithm of C's library, which is exact for powers of ten as Java's is; Polars divides two logarithms."""

    def run(series: pl.Series) -> pl.Series:
        with np.errstate(all="ignore"):
            return pl.Series(np.log10(series.to_numpy()), dtype=pl.Float64)

    return x.map_batches(run, return_dtype=pl.Float64, is_elementwise=True)


def _log(x: pl.Expr) -> pl.Expr:
    return pl.when(x >= 0).then(x.log()).otherwise(_nan_or_null(x))


def _of_doubles(function: Callable[..., pl.Expr]) -> Render:
    return lambda r, call: function(*_doubles(r, call))


renders_all({name: _of_doubles(function) for name, function in _OF_DOUBLES.items()})


@renders("POWER")
def power(r: Renderer, call: Call) -> pl.Expr:
    x, y = _doubles(r, call)
    exponent = call.operands[1]
    if isinstance(exponent, Literal) and str(exponent.value) == "0.5":
        root = pl.when(x == 0).then(pl.lit(0.0)).otherwise(x.sqrt())  # of -0.0, too
        return pl.when(x == -math.inf).then(pl.lit(math.inf)).otherwise(root)  # as Math.pow
    undefined = (y.is_nan() & (x == 1.0)) | ((x.abs() == 1.0) & y.is_infinite())
    return pl.when(undefined).then(pl.lit(math.nan)).otherwise(x.pow(y))


renders_by_values({"PI": lambda: pl.lit(math.pi), "E": lambda: pl.lit(math.e), "BIN": lambda n: _digits(n, "08b")})


@renders("ABS")
def absolute(r: Renderer, call: Call) -> pl.Expr:
    value = r.expr(call.operands[0])
    if call.type.root == "DECIMAL":
        return decimals.from_unscaled(decimals.unscaled(value, call.type).abs(), call.type, certain=True)
    return value.abs()


@renders("SIGN")
def sign(r: Renderer, call: Call) -> pl.Expr:
    value = r.expr(call.operands[0])
    if call.type.root == "DECIMAL":
        one = pl.lit(10 ** as_decimal(call.type)[1], dtype=pl.Int128)
        return decimals.from_unscaled(decimals.unscaled(value, call.type).sign() * one, call.type)
    return value.sign()


def _round_to_whole(r: Renderer, call: Call, mode: str) -> pl.Expr:
    if len(call.operands) == 2:
        return round_moment(r, call, mode)
    value, t = r.expr(call.operands[0]), call.operands[0].type
    if t.root == "DECIMAL":
        return decimals.from_unscaled(decimals.whole_number(value, t, mode), call.type)
    if t.is_integer:
        return value
    return value.floor() if mode == "floor" else value.ceil()


renders_all({name: partial(_round_to_whole, mode=name.lower()) for name in ("FLOOR", "CEIL")})


def _places(call: Call) -> int | None:
    if len(call.operands) == 1:
        return 0
    operand = call.operands[1]
    return operand.value if isinstance(operand, Literal) and isinstance(operand.value, int) else None


_CONTEXT = Context(prec=400)
_ROWWISE_GROUP = "ROUND, TRUNCATE, CAST(double AS DECIMAL)"


def _round_double(x: float, places: int, mode: str) -> float:
    if math.isnan(x) or math.isinf(x):
        return x
    value = Decimal(double_text(x))
    if places >= -int(value.as_tuple().exponent):
        return x
    return float(value.quantize(Decimal(1).scaleb(-places), rounding=mode, context=_CONTEXT))


def _rounded_double(x: pl.Expr, places: int, mode: str) -> pl.Expr:
    """ROUND or TRUNCATE of a DOUBLE as decimal (``BigDecimal.valueOf``). Only values near the point of decision are
    looked at one by one."""
    if not 0 <= places <= 15:
        return rowwise(lambda v: _round_double(v, places, mode), [x], pl.Float64, _ROWWISE_GROUP)
    unit = pl.lit(float(10**places))
    if mode == ROUND_HALF_UP:
        result, unsure = decimals.scaled_half_up(x, places)
    else:
        scaled = x.abs() * unit
        result = scaled.floor()
        fraction, slack = scaled - result, scaled * 1e-12 + 1e-9
        unsure = (fraction <= slack) | (fraction >= pl.lit(1.0) - slack) | ~(scaled < 1e15)
    exact = rowwise(lambda v: _round_double(v, places, mode), [pl.when(unsure).then(x)], pl.Float64, _ROWWISE_GROUP)
    quick = pl.when(x < 0).then(-exact_quotient(result, unit)).otherwise(exact_quotient(result, unit))
    return pl.when(unsure).then(exact).otherwise(quick)


def _round_integer(e: pl.Expr, t: LogicalType, places: int, mode: str) -> pl.Expr:
    if places >= 0:
        return e
    wide = e.cast(pl.Int128)
    if -places > 20:
        return (wide * 0).cast(t.polars())
    step = pl.lit(10**-places, dtype=pl.Int128)
    if mode == ROUND_HALF_UP:
        half = pl.lit(5 * 10 ** (-places - 1), dtype=pl.Int128)
        wide = pl.when(wide < 0).then(wide - half).otherwise(wide + half)
    return (wide.truncdiv(step) * step).cast(t.polars(), wrap_numerical=True)


def _round_decimal(e: pl.Expr, source: LogicalType, result: LogicalType, places: int, mode: str) -> pl.Expr:
    _, scale = as_decimal(source)
    value = decimals.unscaled(e, source)
    drop = scale - places
    if drop > 0:
        if mode == ROUND_HALF_UP:
            value = decimals.rescale(value, drop, 0)
        else:
            value = value.truncdiv(pl.lit(10 ** min(drop, 38), dtype=pl.Int128))
        value = decimals.rescale(value, min(places, scale), as_decimal(result)[1])
    else:
        value = decimals.rescale(value, scale, as_decimal(result)[1])
    return decimals.from_unscaled(value, result)


def _round(r: Renderer, call: Call, mode: str) -> pl.Expr:
    t = call.operands[0].type
    value = r.expr(call.operands[0])
    places = _places(call)
    if places is None:
        return _round_by_column(r, call, value, mode)
    if t.root == "DECIMAL":
        return _round_decimal(value, t, call.type, places, mode)
    if t.is_integer:
        return _round_integer(value, t, places, mode)
    return _rounded_double(value.cast(pl.Float64), places, mode).cast(call.type.polars())


def _round_by_column(r: Renderer, call: Call, value: pl.Expr, mode: str) -> pl.Expr:
    """The number of places differs by row: each value through its decimal form."""
    t = call.operands[0].type
    digits = r.expr(call.operands[1])
    precision, scale = as_decimal(call.type) if t.root == "DECIMAL" else (0, 0)

    def one(x: Decimal | int | float, places: int) -> Decimal | int | float:
        if isinstance(x, float):
            return _round_double(x, places, mode)
        exact = Decimal(x)
        quantized = exact.quantize(Decimal(1).scaleb(-max(min(places, 40), -40)), rounding=mode, context=_CONTEXT)
        return int(quantized if isinstance(x, int) else quantized.scaleb(scale, context=_CONTEXT))

    if t.root != "DECIMAL":
        return rowwise(one, [value, digits], call.type.polars(), _ROWWISE_GROUP)

    def unscaled(x: Decimal, places: int) -> Decimal | int | float | None:
        decimal = one(x, places)
        return decimal if abs(decimal) < 10**precision else None

    return decimals.from_unscaled(
        rowwise(unscaled, [value, digits], pl.Int128(), _ROWWISE_GROUP), call.type, certain=True
    )


renders_all({"ROUND": partial(_round, mode=ROUND_HALF_UP), "TRUNCATE": partial(_round, mode=ROUND_DOWN)})


def _digits(value: pl.Expr, form: str) -> pl.Expr:
    """A whole number, as 64 bits without sign, in the digits of ``form``: ``08b`` or ``02X`` for each byte."""
    bits, texts = value.cast(pl.Int64).reinterpret(signed=False), [format(i, form) for i in range(256)]
    in_order = [bits // 256**i % 256 for i in range(7, -1, -1)]
    digit_texts = [byte.replace_strict(list(range(256)), texts, return_dtype=pl.String) for byte in in_order]
    text = pl.concat_str(digit_texts).str.strip_chars_start("0")
    return pl.when(value == 0).then(pl.lit("0")).otherwise(text)


@renders("HEX")
def hexadecimal(r: Renderer, call: Call) -> pl.Expr:
    value = r.expr(call.operands[0])
    if call.operands[0].type.is_string:
        return value.cast(pl.Binary).bin.encode("hex").str.to_uppercase()
    return _digits(value, "02X")


@renders("UNHEX")
def unhex(r: Renderer, call: Call) -> pl.Expr:
    """Pairs of hex digits; of an odd number, the first one stands for a zero byte, as in Flink."""
    text = r.expr(call.operands[0])
    pairs = pl.when(text.str.len_chars() % 2 == 1).then(pl.concat_str(pl.lit("00"), text.str.slice(1))).otherwise(text)
    return pl.when(text.str.contains("^[0-9a-fA-F]*$")).then(pairs).str.decode("hex", strict=False)
