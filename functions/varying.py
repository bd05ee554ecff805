"""Calls whose values are not the same whenever they are computed for the same row."""

from __future__ import annotations

from collections.abc import Iterator

from stateplan.functions.rex import Call, Rex
from stateplan.functions.table import non_deterministic

_VARYING = non_deterministic() - {"UNIX_TIMESTAMP"} | {"PROCTIME_MATERIALIZE"}
"""UNIX_TIMESTAMP varies only without operands. The other one is what the planner writes around processing time."""


def varies(call: Call) -> bool:
    """Whether a call itself varies, whatever its operands do."""
    if call.name in _VARYING or (call.name == "UNIX_TIMESTAMP" and not call.operands):
        return True
    return call.function is not None and not call.function.deterministic


def varying_calls(rex: Rex) -> Iterator[Call]:
    """The innermost varying calls of an expression."""
    inside = [call for operand in rex.children for call in varying_calls(operand)]
    yield from inside
    if isinstance(rex, Call) and not inside and varies(rex):
        yield rex
