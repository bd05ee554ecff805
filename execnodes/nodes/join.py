"""Regular joins of two streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from stateplan.common.changelog import ChangelogMode, union_mode, updating
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import NULL_IS_EMPTY, Index
from stateplan.execnodes.node_text import join_terms
from stateplan.execnodes.nodes.base import StatefulNode, StateList, field_types
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.specs import JoinSpec

UpsertKeys = Annotated[tuple[tuple[Index, ...], ...], NULL_IS_EMPTY]

_WORDS = {
    "INNER": "joins",
    "LEFT": "left outer joins",
    "RIGHT": "right outer joins",
    "FULL": "full outer joins",
    "SEMI": "keeps left rows that have a match, joining",
    "ANTI": "keeps left rows without a match, joining",
}


@exec_node("join", inputs=2, states=("leftState", "rightState"))
class Join(StatefulNode):
    """Joins two streams on equal keys and any further condition, keeping the rows of both sides.

    .. code-block:: sql

        INSERT INTO shipped SELECT o.id, l.target FROM orders AS o JOIN logistics AS l ON o.id = l.order_id
    """

    STORES_FIELDS: ClassVar[bool] = True

    join_spec: Annotated[JoinSpec, Ref()]
    left_upsert_keys: Annotated[UpsertKeys, Ref(0)] = ()
    right_upsert_keys: Annotated[UpsertKeys, Ref(1)] = ()
    state: StateList = ()

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        left, right = map(field_types, inputs)
        return left if self.join_spec.join_type in ("SEMI", "ANTI") else (*left, *right)

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        if self.join_spec.join_type in ("INNER", "SEMI"):
            return union_mode(inputs)
        return updating(update_before)

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        spec = self.join_spec
        conditions = join_terms(spec, inputs)
        return f"{_WORDS[spec.join_type]} left and right" + (
            f" on {' and '.join(conditions)}" if conditions else ", every row with every row"
        )
