"""GROUP BY without windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import model_validator

from stateplan.execnodes.changelog import INSERT_ONLY, ChangelogMode, updating
from stateplan.execnodes.errors import PlanError
from stateplan.execnodes.model import Flag, Index, custom_error
from stateplan.execnodes.nodes.base import FieldRef, StatefulNode, StateList, field_types
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.specs import AggCall
from stateplan.execnodes.support import agg_text, joined_names, names_text
from stateplan.execnodes.types import LogicalType

if TYPE_CHECKING:
    from stateplan.execnodes.runtime.kernel import Stateful

_STATES = ("groupAggregateState",)


class Grouping(StatefulNode):
    """What aggregates by group have in common."""

    COSMETIC: ClassVar[frozenset[str]] = frozenset({"generate_update_before"})

    grouping: tuple[Index, ...]
    agg_calls: tuple[AggCall, ...]
    agg_call_need_retractions: tuple[Flag, ...]
    generate_update_before: Flag
    need_retraction: Flag

    @model_validator(mode="after")
    def _flag_per_call(self) -> Self:
        if len(self.agg_calls) != len(self.agg_call_need_retractions):
            raise custom_error(
                PlanError(
                    "PLAN044.flag_per_call",
                    title=self.title,
                    count=len(self.agg_calls),
                    count_2=len(self.agg_call_need_retractions),
                ),
                "/aggCallNeedRetractions",
            )
        return self

    def field_refs(self) -> Iterator[FieldRef]:
        yield from super().field_refs()
        yield from (FieldRef(f"/grouping/{k}", key) for k, key in enumerate(self.grouping))
        for position, call in enumerate(self.agg_calls):
            pointer = f"/aggCalls/{position}"
            yield from (FieldRef(f"{pointer}/argList/{k}", index) for k, index in enumerate(call.arg_list))
            if call.filter_arg >= 0:
                yield FieldRef(f"{pointer}/filterArg", call.filter_arg)

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        types = field_types(inputs[0])
        return (*(types[key] for key in self.grouping), *(call.type for call in self.agg_calls))

    def meaning(self) -> dict[str, Any]:
        out = super().meaning()
        for call in out["aggCalls"]:
            del call["name"]
        return out

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        return updating(self.generate_update_before, deletes=self.need_retraction)

    def needs_update_before(self, position: int, update_before: bool) -> bool:
        return True

    def takes(self, position: int) -> ChangelogMode | None:
        return None if self.need_retraction else INSERT_ONLY

    def translate(self, inputs: Sequence[LogicalType], session: Mapping[str, str]) -> Stateful:
        from stateplan.execnodes.runtime.kernel import Stateful
        from stateplan.execnodes.runtime.kernels.group_aggregate import GroupAggregateKernel

        kernel = GroupAggregateKernel(
            inputs[0],
            self.grouping,
            self.agg_calls,
            self.agg_call_need_retractions,
            self.generate_update_before,
            self.need_retraction,
            lists_expire=self.ttl_configs(session)[0].is_plain,
        )
        return Stateful(kernel, (self.grouping,))

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        names = joined_names(inputs)
        calls = ", ".join(agg_text(call, names) for call in self.agg_calls) or "the distinct values"
        keys = names_text(self.grouping, names)
        return f"keeps {calls} of " + (f"each {keys}" if keys else "all rows")


@exec_node
class GroupAggregate(Grouping):
    """Aggregates the rows of each group and emits the group's new result whenever it changes.

    .. code-block:: sql

        INSERT INTO totals SELECT product, COUNT(*), SUM(amount) FROM orders GROUP BY product
    """

    NAME: ClassVar[str] = "stream-exec-group-aggregate"
    VERSION: ClassVar[int] = 1
    STATE_NAMES: ClassVar[tuple[str, ...]] = _STATES

    state: StateList = ()


@exec_node
class PythonGroupAggregate(Grouping):
    """Aggregates the rows of each group with at least one function written in Python.

    Flink writes no ``state`` for it: its TTL is that of the session.

    .. code-block:: sql

        CREATE FUNCTION median AS 'shop.median' LANGUAGE PYTHON;
        INSERT INTO prices SELECT product, median(price) FROM orders GROUP BY product
    """

    NAME: ClassVar[str] = "stream-exec-python-group-aggregate"
    VERSION: ClassVar[int] = 1

    @property
    def state_names(self) -> tuple[str, ...]:
        return _STATES
