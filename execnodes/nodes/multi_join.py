"""Regular joins of several streams on one common key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Self

from pydantic import model_validator

from stateplan.common.changelog import ChangelogMode, union_mode, updating
from stateplan.common.errors import PlanError
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import ALL_INPUTS, EACH, FieldRef, Ref
from stateplan.execnodes.model import ALWAYS, Index, PlanModel, RexField, custom_error
from stateplan.execnodes.node_text import joined_names
from stateplan.execnodes.nodes.base import StatefulNode, StateList, field_types
from stateplan.execnodes.registry import exec_node
from stateplan.functions.rex_text import rex_text

_WORDS = {"INNER": "joins", "LEFT": "left outer joins"}


class JoinAttribute(PlanModel):
    """Two fields that a join condition wants to be equal; the left one is -1, -1 for a field of the first input."""

    left_input_id: Annotated[int, ALWAYS]
    left_field_index: Annotated[int, ALWAYS]
    right_input_id: Annotated[Index, ALWAYS]
    right_field_index: Annotated[Index, ALWAYS]


@exec_node("multi-join", inputs=None, states=("input-state-*",))
class MultiJoin(StatefulNode):
    """Joins several streams, which all have one common key, keeping the rows of each and no results in between.

    .. code-block:: sql

        SET 'table.optimizer.multi-join.enabled' = 'true';
        INSERT INTO snk SELECT o.id, p.sum, s.target
        FROM orders o JOIN payments p ON o.id = p.order_id LEFT JOIN shipments s ON o.id = s.order_id

    Attributes:
        join_types: per input, how it is joined with what comes before; of the first one it says nothing.
        join_conditions: per input, over the fields of all inputs up to it.
        multi_join_condition: all of them together.
        join_attribute_map: per input (as text), the pairs of fields its equi-join has.
        input_unique_keys: per input, its unique keys.
    """

    join_types: tuple[Literal["INNER", "LEFT"], ...]
    join_conditions: Annotated[tuple[RexField | None, ...], Ref(ALL_INPUTS)]
    multi_join_condition: Annotated[RexField | None, Ref(ALL_INPUTS)] = None
    join_attribute_map: dict[str, tuple[JoinAttribute, ...]] = {}  # noqa: RUF012 - pydantic copies it
    input_unique_keys: Annotated[tuple[tuple[tuple[Index, ...], ...] | None, ...], Ref(EACH)]
    state: StateList = ()

    @property
    def state_names(self) -> tuple[str, ...]:
        return tuple(f"input-state-{i}" for i in range(len(self.join_types)))

    @property
    def input_count(self) -> int | None:
        return len(self.join_types)

    @model_validator(mode="after")
    def _one_of_each_per_input(self) -> Self:
        input_count = len(self.join_types)
        for key, count in (
            ("joinConditions", len(self.join_conditions)),
            ("inputUniqueKeys", len(self.input_unique_keys)),
            ("inputProperties", len(self.input_properties)),
        ):
            if count != input_count:
                raise custom_error(
                    PlanError(
                        "PLAN044.counts", title="multi-join", counts=f"{input_count} joinTypes and {count} {key}"
                    ),
                    f"/{key}",
                )
        return self

    def field_refs(self) -> Iterator[FieldRef]:
        yield from super().field_refs()
        for name, pairs in self.join_attribute_map.items():
            for n, pair in enumerate(pairs):
                pointer = f"/joinAttributeMap/{name}/{n}"
                yield FieldRef(f"{pointer}/rightFieldIndex", pair.right_field_index, pair.right_input_id)
                if pair.left_input_id >= 0:
                    yield FieldRef(f"{pointer}/leftFieldIndex", pair.left_field_index, pair.left_input_id)

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        return tuple(t for row in inputs for t in field_types(row))

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        return updating(update_before) if "LEFT" in self.join_types else union_mode(inputs)

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        names = joined_names(inputs)
        text = f"joins {len(self.join_types)} inputs"
        conditions = list(zip(self.join_types, self.join_conditions, strict=True))[1:]
        parts = [
            f"{_WORDS[kind]} input {i}" + (f" on {rex_text(on, names)}" if on is not None else "")
            for i, (kind, on) in enumerate(conditions, 1)
        ]
        return f"{text}: " + ", then ".join(parts)
