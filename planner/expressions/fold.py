"""Constant folding: casts of constants, and calls of deterministic functions over constants."""

from __future__ import annotations

from decimal import Decimal

from stateplan.common.errors import StateplanError
from stateplan.common.types import LogicalType
from stateplan.functions.casting import fold_cast, in_legacy_casts, legacy_cast
from stateplan.functions.rex import Literal, Rex, with_new_calls
from stateplan.functions.typerules import same_type
from stateplan.planner.expressions.approximate import Approximate
from stateplan.planner.expressions.ops import call, has_user_call


def is_zoned(source: LogicalType, target: LogicalType) -> bool:
    """Whether a cast depends on the session's time zone."""
    return "TIMESTAMP_WITH_LOCAL_TIME_ZONE" in (source.root, target.root)


def cast_literal(literal: Literal, target: LogicalType) -> Rex:
    """``CAST(literal AS target)`` as a constant where Flink makes one; the constant is NOT NULL unless it is NULL."""
    if literal.value is None and literal.sarg is None:
        return Literal(target.as_nullable(), None)
    if same_type(literal.type, target):
        return Literal(target.not_null(), literal.value, literal.symbol, literal.sarg)
    if is_zoned(literal.type, target):
        return call("CAST", (literal,), target)
    if target.root in ("DOUBLE", "FLOAT") and literal.type.is_numeric:
        return Literal(target.not_null(), literal.value if isinstance(literal.value, str) else str(literal.value))
    if target.root == "DECIMAL" and isinstance(literal.value, Approximate) and _fits(literal.value, target):
        return Literal(target.not_null(), literal.value)
    constant = fold_cast(literal, target)
    return call("CAST", (literal,), target) if constant is None else constant


def _fits(text: str, target: LogicalType) -> bool:
    """Whether a DECIMAL type holds the number without loss."""
    _, digits, exponent = Decimal(text).as_tuple()
    scale = target.scale or 0
    return (
        isinstance(exponent, int) and -exponent <= scale and len(digits) + exponent <= (target.precision or 10) - scale
    )


def evaluate(rex: Rex, time_zone: str) -> Literal | None:
    """The constant that ``rex``, which holds no references, is; None if it is left to be computed.

    Args:
        time_zone: the time zone of the session.
    """
    if isinstance(rex, Literal):
        return rex
    if has_user_call(rex):
        return None
    return evaluate_constant(rex, time_zone)


def evaluate_constant(rex: Rex, time_zone: str) -> Literal | None:
    """The constant that ``rex`` is; None if it fails, cannot be run here, or is of a type without constants."""
    from stateplan.common.values.codecs import codec
    from stateplan.functions.program import evaluate

    value_codec = codec(rex.type)
    if not value_codec.atomic:
        return None
    try:
        value = evaluate(rex, time_zone=time_zone)
    except (StateplanError, ValueError, OverflowError):  # Python has no dates after the year 9999
        return None
    if value is None:
        return Literal(rex.type.as_nullable(), None)
    if in_legacy_casts() and evaluate(with_new_calls(rex, legacy_cast), time_zone=time_zone) != value:
        return None
    literal_text = Approximate.exact(value) if rex.type.root in ("FLOAT", "DOUBLE") else value_codec.literal(value)
    return Literal(rex.type.not_null(), literal_text)
