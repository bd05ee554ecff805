"""Joins with table functions in the relational algebra: ``FROM t, LATERAL TABLE(f(t.x))``.

Source: Flink's ``LogicalCorrelate`` over a table function scan, and ``FlinkLogicalCorrelate``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from execnodes.errors import Place
from execnodes.rex import Call
from planner.algebra import Field, Single, unique_names

__all__ = ["FunctionCorrelate"]


@dataclass(frozen=True)
class FunctionCorrelate(Single):
    """Each row with the rows that ``call``, over its fields, gives for it; LEFT with NULLs where there are none."""

    call: Call
    join_type: str
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        given = [(f.name, f.type) for f in self.call.type.fields]
        if self.join_type == "LEFT":
            given = [(n, t.as_nullable()) for n, t in given]
        whole = [*self.input.fields, *given]
        names = unique_names([n for n, _ in whole])
        return tuple((n, t) for n, (_, t) in zip(names, whole, strict=True))
