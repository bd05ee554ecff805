"""Which operators of the physical plan call functions written in Python."""

from __future__ import annotations

from planner.algebra import Aggregate, Calc, Rel
from planner.table_functions import FunctionCorrelate

__all__ = ["is_python"]


def is_python(rel: Rel) -> bool:
    """Whether it is one of Flink's Python operators."""
    if isinstance(rel, Aggregate):
        return any(c.is_user_defined for c in rel.calls)
    if isinstance(rel, FunctionCorrelate):
        return rel.call.internal_name is None
    return isinstance(rel, Calc) and rel.python
