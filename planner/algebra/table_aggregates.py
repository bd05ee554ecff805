"""Table aggregates in the relational algebra: ``FROM f(TABLE t PARTITION BY k, DESCRIPTOR(x))``.

Source: Flink's ``LogicalTableAggregate`` and ``StreamPhysicalGroupTableAggregate``, which only its Table API reaches
(``flatAggregate``); FLIP-440 for functions over tables with set semantics.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stateplan.execnodes.errors import Place
from stateplan.planner.algebra.relations import AggCall, Field, Single, unique_names


@dataclass(frozen=True)
class TableAggregate(Single):
    """The rows that ``call``, whose type is their ROW, gives for each group: the fields ``group``, then its fields."""

    group: tuple[int, ...]
    call: AggCall
    ttl: int | None = None
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        whole = [*(self.input.fields[g] for g in self.group), *((f.name, f.type) for f in self.call.type.fields)]
        names = unique_names([n for n, _ in whole])
        return tuple((n, t) for n, (_, t) in zip(names, whole, strict=True))
