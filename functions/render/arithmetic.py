"""How arithmetic runs: numbers as Java computes them, dates and times with intervals."""

from __future__ import annotations

import polars as pl

from stateplan.common.errors import RunError
from stateplan.common.types import LogicalType
from stateplan.functions.render import decimals
from stateplan.functions.render.base import Renderer, exact_quotient, renders
from stateplan.functions.render.casts import number, to_number
from stateplan.functions.render.moments import difference, shift
from stateplan.functions.rex import Call, input_refs
from stateplan.functions.typerules import family

_APPROXIMATE = ("FLOAT", "DOUBLE")


def _is_decimal(call: Call) -> bool:
    return call.type.root == "DECIMAL"


def _numbers(r: Renderer, call: Call) -> list[pl.Expr]:
    return [number(r, o, call.type) for o in call.operands]


def _fail_on_zero(r: Renderer, call: Call, a: pl.Expr, b: pl.Expr) -> None:
    r.fail_where(a.is_not_null() & (b == 0), call.name, "division by zero of {}", a, b)


@renders("+")
def plus(r: Renderer, call: Call) -> pl.Expr:
    a, b = call.operands
    if family(a.type) == family(b.type) == "NUMERIC":
        if _is_decimal(call):
            return decimals.add(r.expr(a), a.type, r.expr(b), b.type, call.type)
        x, y = _numbers(r, call)
        return x + y
    if a.type.root.startswith("INTERVAL"):
        return r.expr(a) + r.expr(b)
    return shift(r, call, 1)


@renders("-")
def minus(r: Renderer, call: Call) -> pl.Expr:
    if len(call.operands) == 1:
        return _negate(r, call)
    a, b = call.operands[:2]
    if family(a.type) == family(b.type) == "NUMERIC":
        if _is_decimal(call):
            return decimals.add(r.expr(a), a.type, r.expr(b), b.type, call.type, sign=-1)
        x, y = _numbers(r, call)
        if call.type.root in _APPROXIMATE and not any(True for _ in input_refs(a)):
            # Polars computes 0.0 - y as -y, which is -0.0 for 0.0.
            return pl.when((x == 0) & (y == 0)).then(x.abs()).otherwise(x - y)
        return x - y
    if a.type.root.startswith("INTERVAL"):
        return r.expr(a) - r.expr(b)
    if b.type.root.startswith("INTERVAL"):
        return shift(r, call, -1)
    return difference(r, call)


def _negate(r: Renderer, call: Call) -> pl.Expr:
    value = r.expr(call.operands[0])
    if _is_decimal(call):
        zero = pl.lit(0, dtype=pl.Int128)
        return decimals.from_unscaled(zero - decimals.unscaled(value, call.operands[0].type), call.type, certain=True)
    return -value


@renders("*")
def times(r: Renderer, call: Call) -> pl.Expr:
    a, b = call.operands
    if a.type.root == "INTERVAL_DAY_TIME":
        count = to_number(r.expr(b), b.type, LogicalType("BIGINT"))
        return (r.expr(a).to_physical() * count).cast(pl.Duration("ms"))
    if a.type.root == "INTERVAL_YEAR_MONTH":
        return (r.expr(a) * to_number(r.expr(b), b.type, LogicalType("INTEGER"))).cast(pl.Int32)
    if _is_decimal(call):
        return decimals.multiply(r.expr(a), a.type, r.expr(b), b.type, call.type)
    x, y = _numbers(r, call)
    return x * y


@renders("/", "/INT")
def divide(r: Renderer, call: Call) -> pl.Expr:
    if call.type.root in _APPROXIMATE:
        return exact_quotient(*_numbers(r, call)).cast(call.type.polars())
    a, b = call.operands
    x, y = r.expr(a), r.expr(b)
    if _is_decimal(call):
        _fail_on_zero(r, call, x, y)
        return decimals.divide(x, a.type, y, b.type, call.type)
    if not call.type.is_integer:
        raise RunError("RUN301", what=f"a division of type {call.type.summary()}")
    _fail_on_zero(r, call, x, y)
    p, q = (to_number(e, o.type, call.type) for e, o in zip((x, y), call.operands, strict=True))
    return p.truncdiv(q)


@renders("MOD")
def modulo(r: Renderer, call: Call) -> pl.Expr:
    a, b = call.operands
    x, y = r.expr(a), r.expr(b)
    _fail_on_zero(r, call, x, y)
    if _is_decimal(call) or "DECIMAL" in (a.type.root, b.type.root):
        return decimals.modulo(x, a.type, y, b.type, call.type)
    wide = LogicalType("BIGINT")
    p, q = to_number(x, a.type, wide), to_number(y, b.type, wide)
    return (p - p.truncdiv(q) * q).cast(call.type.polars(), wrap_numerical=True)


@renders("REINTERPRET")
def reinterpret(r: Renderer, call: Call) -> pl.Expr:
    return r.expr(call.operands[0]).to_physical().cast(call.type.polars())
