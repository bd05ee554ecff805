"""GROUP BY without windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

from pydantic import model_validator

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode, updating
from stateplan.common.errors import PlanError
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import COSMETIC, Flag, Index, custom_error
from stateplan.execnodes.node_text import call_texts, groups_text, joined_names
from stateplan.execnodes.nodes.base import ExecNode, StatefulNode, StateList, field_types
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.specs import AggCall

_STATES = ("groupAggregateState",)


def check_flags(title: str, calls: Sequence[AggCall], flags: Sequence[bool], names: tuple[str, str]) -> None:
    """Whether there is a flag for each call; ``names`` are the keys of both. Raises PydanticCustomError PLAN044."""
    if len(calls) != len(flags):
        raise custom_error(
            PlanError("PLAN044.counts", title=title, counts=f"{len(calls)} {names[0]} and {len(flags)} {names[1]}"),
            f"/{names[1]}",
        )


class Aggregation(ExecNode):
    """What aggregates by group have in common, in one phase or in several."""

    grouping: Annotated[tuple[Index, ...], Ref()]
    agg_calls: Annotated[tuple[AggCall, ...], Ref()]
    agg_call_need_retractions: tuple[Flag, ...]

    @model_validator(mode="after")
    def _flag_per_call(self) -> Self:
        check_flags(self.title, self.agg_calls, self.agg_call_need_retractions, ("aggCalls", "aggCallNeedRetractions"))
        return self

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType | None] | None:
        types = field_types(inputs[0])
        return (*(types[key] for key in self.grouping), *(call.type for call in self.agg_calls))


class Grouping(Aggregation, StatefulNode):
    """What aggregates in one phase have in common."""

    NEEDS_UPDATE_BEFORE: ClassVar[bool | None] = True
    COUNTS_ROWS: ClassVar[bool] = True
    RESTARTS: ClassVar[bool] = True

    generate_update_before: Annotated[Flag, COSMETIC]
    need_retraction: Flag

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        return updating(self.generate_update_before, deletes=self.need_retraction)

    def takes(self, position: int) -> ChangelogMode | None:
        return None if self.need_retraction else INSERT_ONLY

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        names = joined_names(inputs)
        return f"keeps {call_texts(self.agg_calls, names)} of {groups_text(self.grouping, names)}"


@exec_node("group-aggregate")
class GroupAggregate(Grouping):
    """Aggregates the rows of each group and emits the group's new result whenever it changes.

    .. code-block:: sql

        INSERT INTO totals SELECT product, COUNT(*), SUM(amount) FROM orders GROUP BY product
    """

    STATE_NAMES: ClassVar[tuple[str, ...]] = _STATES

    state: StateList = ()


@exec_node("python-group-aggregate")
class PythonGroupAggregate(Grouping):
    """Aggregates the rows of each group with at least one function written in Python.

    Flink writes no ``state`` for it: its TTL is that of the session.

    .. code-block:: sql

        CREATE FUNCTION median AS 'shop.median' LANGUAGE PYTHON;
        INSERT INTO prices SELECT product, median(price) FROM orders GROUP BY product
    """

    @property
    def state_names(self) -> tuple[str, ...]:
        return _STATES
