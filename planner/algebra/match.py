"""MATCH_RECOGNIZE in the relational algebra.

Source: Calcite's ``Match`` and Flink's ``StreamPhysicalMatch``; ``MatchSpec``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace

from stateplan.common.errors import Place
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.functions.rex import Call, Rex
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.relations import Field, Order, Single
from stateplan.planner.expressions.ops import walk

NamedExprs = tuple[tuple[str, Rex], ...]


@dataclass(frozen=True)
class Match(Single):
    """MATCH_RECOGNIZE: emits one row for each match of ``pattern`` in the rows of a partition. The row has the columns
    ``partition``, and then the measures.

    ``defines`` has the conditions of variables, in the order of DEFINE. ``after`` says where the next match begins.
    ``interval`` is the longest duration of a match (WITHIN). Expressions refer to columns by pattern references.
    """

    pattern: Rex
    defines: NamedExprs
    measures: NamedExprs
    after: Rex
    partition: tuple[int, ...]
    order: Order
    interval: Rex | None = None
    place: Place | None = field(default=None, compare=False, repr=False)
    hint: InputHint | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        below = self.input.fields
        return (*(below[k] for k in self.partition), *((n, _type(e)) for n, e in self.measures))

    def mapped(self, change: Callable[[Rex], Rex]) -> Match:
        """It, with its conditions and measures changed."""
        return replace(
            self,
            defines=tuple((n, change(e)) for n, e in self.defines),
            measures=tuple((n, change(e)) for n, e in self.measures),
        )


def _type(rex: Rex) -> LogicalType:
    """The type of a measure: nullable where it has a mean, which its expression does not say."""
    has_mean = any(isinstance(e, Call) and e.name == "SUM" and not e.type.nullable for e in walk(rex))
    return rex.type.as_nullable() if has_mean else rex.type
