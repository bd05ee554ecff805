"""Evaluating constant expressions with the functions of the runtime."""

from __future__ import annotations

from stateplan.execnodes.errors import StateplanError
from stateplan.execnodes.rex import Literal, Rex
from stateplan.planner.expressions.approximate import Approximate


def evaluate_constant(rex: Rex, time_zone: str) -> Literal | None:
    """The constant that ``rex`` is; None where it fails, cannot be run here, or is of a type without constants."""
    from stateplan.execnodes.runtime.transforms.calc import evaluate
    from stateplan.execnodes.values.codecs import codec

    found = codec(rex.type)
    if not found.atomic:
        return None
    try:
        value = evaluate(rex, time_zone=time_zone)
    except StateplanError:
        return None
    if value is None:
        return Literal(rex.type.as_nullable(), None)
    shown = Approximate.exact(value) if rex.type.root in ("FLOAT", "DOUBLE") else found.literal(value)
    return Literal(rex.type.not_null(), shown)
