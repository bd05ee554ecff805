"""MATCH_RECOGNIZE: patterns in the rows of a partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import ALWAYS, Flag, PlanModel, RexField, Text
from stateplan.execnodes.node_text import joined_names, names_text
from stateplan.execnodes.nodes.base import InsertOnlyNode, field_types, not_supported
from stateplan.execnodes.ranking import PartitionSpec, SortSpec, order_text
from stateplan.execnodes.registry import exec_node
from stateplan.functions.rex import Call, Literal, Rex


class MatchSpec(PlanModel):
    """What is matched: the pattern, conditions by variable, measures by name, and where the next match begins.

    ``interval`` is how long a match lasts at most, ``all_rows`` and ``subsets`` are of SQL that Flink does not run.
    """

    pattern: RexField
    pattern_definitions: Annotated[dict[Text, RexField], Ref()]
    measures: Annotated[dict[Text, RexField], Ref()]
    after: RexField
    subsets: dict[Text, tuple[Text, ...]]
    all_rows: Flag
    partition: Annotated[PartitionSpec, Ref()]
    order_by: Annotated[SortSpec, Ref()]
    interval: Annotated[RexField | None, ALWAYS] = None


@exec_node("match", states=("matchState",))
class Match(InsertOnlyNode):
    """Emits one row for each match of a pattern in the rows of a partition, which are put in the order of time.

    A match that has begun is kept until it ends, or WITHIN is over, or its TTL ends.

    .. code-block:: sql

        INSERT INTO falls SELECT * FROM prices MATCH_RECOGNIZE (
          PARTITION BY product ORDER BY told_at
          MEASURES FIRST(DOWN.price) AS top, LAST(DOWN.price) AS bottom
          AFTER MATCH SKIP PAST LAST ROW PATTERN (DOWN{2,} UP)
          DEFINE DOWN AS DOWN.price < LAST(DOWN.price, 1) OR LAST(DOWN.price, 1) IS NULL,
                 UP AS UP.price > LAST(DOWN.price)) AS m
    """

    DROPS_LATE_ROWS: ClassVar[bool] = True
    EMITS_IN_ORDER: ClassVar[bool] = True

    match_spec: Annotated[MatchSpec, Ref()]

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType | None] | None:
        row, keys = field_types(inputs[0]), self.match_spec.partition.fields
        measures = self.match_spec.measures
        measure_fields = self.output_type.fields[len(keys) :]
        return (
            *(row[k] for k in keys),
            *(measures[f.name].type if f.name in measures else None for f in measure_fields),
        )

    def retention(self, index: int) -> int:
        return self.within(self.match_spec.interval)

    def within(self, rex: Rex | None) -> int:
        """How long a match lasts at most, ms; 0 for any time."""
        if rex is None:
            return 0
        text = str(rex.value) if isinstance(rex, Literal) and rex.type.root == "INTERVAL_DAY_TIME" else ""
        if not text.isdecimal():
            raise not_supported(self, "WITHIN anything but an interval of days or smaller units")
        return int(text)

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        spec, names = self.match_spec, joined_names(inputs)
        keys = names_text(spec.partition.fields, names)
        of = f", of each {keys}" if keys else ""
        return (
            f"emits a row for each match of {_text(spec.pattern)} in the rows by {order_text(spec.order_by, names)}{of}"
        )


def _text(rex: Rex) -> str:
    """A pattern as SQL writes it."""
    if not isinstance(rex, Call):
        return str(rex.value) if isinstance(rex, Literal) else "?"
    if rex.name != "PATTERN_QUANTIFIER" or len(rex.operands) != 4:
        return " ".join(map(_text, rex.operands))
    low, high, reluctant = (o.value if isinstance(o, Literal) else None for o in rex.operands[1:])
    quantifiers: dict[Any, str] = {(0, -1): "*", (1, -1): "+", (0, 1): "?"}
    text = quantifiers.get((low, high)) or (f"{{{low}}}" if low == high else f"{{{low},{'' if high == -1 else high}}}")
    return f"{_text(rex.operands[0])}{text}{'?' if reluctant else ''}"
