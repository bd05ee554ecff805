"""Joins with the version of a row that held at a given time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from stateplan.common.changelog import ChangelogMode
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import Flag
from stateplan.execnodes.node_text import field_names, join_terms, names_text
from stateplan.execnodes.nodes.base import StatefulNode, StateList, field_types
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.specs import JoinSpec


@exec_node("temporal-join", inputs=2, states=("leftState", "rightState"))
class TemporalJoin(StatefulNode):
    """Joins each row with the version of a row of another table that held at its time.

    Flink's plans have no ``state`` for this node; Flink passes over the one written here.

    .. code-block:: sql

        INSERT INTO converted SELECT o.id, o.amount * r.rate AS amount
        FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF o.order_time AS r ON o.currency = r.currency
    """

    STORES_FIELDS: ClassVar[bool] = True

    join_spec: Annotated[JoinSpec, Ref()]
    is_temporal_function_join: Flag
    left_time_attribute_index: Annotated[int, Ref(0)]
    right_time_attribute_index: Annotated[int, Ref(1)]
    state: StateList = ()

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        left, right = map(field_types, inputs)
        return (*left, *right)

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        return inputs[0]

    def needs_update_before(self, position: int, update_before: bool) -> bool:
        return update_before and position == 0

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        spec = self.join_spec
        conditions = join_terms(spec, inputs)
        word = "left outer joins" if spec.join_type == "LEFT" else "joins"
        at = names_text([self.left_time_attribute_index], field_names(inputs[0]) if inputs else ())
        return f"{word} left with the version of right that held at left.{at}, on {' and '.join(conditions)}"
