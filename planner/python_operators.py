"""Which operators of the physical plan call functions written in Python."""

from __future__ import annotations

from stateplan.execnodes.rex import Call
from stateplan.planner.algebra.relations import Aggregate, Calc, Rel
from stateplan.planner.algebra.table_functions import FunctionCorrelate


def is_python(rel: Rel) -> bool:
    """Whether it is one of Flink's Python operators."""
    if isinstance(rel, Aggregate):
        return any(c.is_user_defined for c in rel.calls)
    if isinstance(rel, FunctionCorrelate):
        return rel.call.internal_name is None
    return isinstance(rel, Calc) and rel.python


def is_asynchronous(rel: Rel) -> bool:
    """Whether it is a Python operator that awaits an asynchronous function."""
    calls = [e.function for e in rel.exprs if isinstance(e, Call)] if isinstance(rel, Calc) and rel.python else []
    return any(f is not None and f.asynchronous is not None for f in calls)
