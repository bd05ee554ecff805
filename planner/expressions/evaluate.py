"""Evaluating constant expressions with the functions of the runtime."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from stateplan.execnodes.errors import StateplanError
from stateplan.execnodes.rex import Literal, Rex
from stateplan.planner.expressions.approximate import Approximate

_ZONE = ContextVar("zone", default="UTC")


@contextmanager
def session_time_zone(zone: str) -> Iterator[None]:
    """Constants are evaluated as in a session with the time zone ``zone`` for as long as this lasts."""
    token = _ZONE.set(zone)
    try:
        yield
    finally:
        _ZONE.reset(token)


def current_time_zone() -> str:
    """The time zone in which constants are evaluated."""
    return _ZONE.get()


def evaluate_constant(rex: Rex) -> Literal | None:
    """The constant that ``rex`` is; None where it fails, cannot be run here, or is of a type without constants."""
    from stateplan.execnodes.runtime.transforms.calc import evaluate
    from stateplan.execnodes.values.codecs import codec

    found = codec(rex.type)
    if not found.atomic:
        return None
    try:
        value = evaluate(rex, time_zone=_ZONE.get())
    except StateplanError:
        return None
    if value is None:
        return Literal(rex.type.as_nullable(), None)
    shown = Approximate.exact(value) if rex.type.root in ("FLOAT", "DOUBLE") else found.literal(value)
    return Literal(rex.type.not_null(), shown)
