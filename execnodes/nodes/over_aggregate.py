"""OVER: aggregates of the rows before each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode, updating
from stateplan.common.errors import PlanError
from stateplan.common.ttl import outlives
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import FieldRef, Ref
from stateplan.execnodes.model import ALWAYS, COSMETIC, AbsentMeans, Flag, Index, PlanModel, RexField, custom_error
from stateplan.execnodes.node_text import agg_text, joined_names, names_text
from stateplan.execnodes.nodes.base import STATE_TTL, TIMED_STATE_TTL, TimeBoundNode, field_types
from stateplan.execnodes.ranking import PartitionSpec, SortSpec, order_text
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.specs import AggCall
from stateplan.functions.rex import InputRef, Rex
from stateplan.functions.rex import Literal as Constant
from stateplan.functions.rex_text import rex_text


def range_ttl(preceding: int) -> int:
    """How long the rows of a RANGE frame by processing time are kept, ms: until no later frame can reach them."""
    return preceding * 5 // 2 + 2


class Bound(PlanModel):
    """One end of a frame; ``offset`` is a constant of the spec, as a field behind those of the input."""

    kind: Literal["UNBOUNDED_PRECEDING", "UNBOUNDED_FOLLOWING", "CURRENT_ROW", "BOUNDED_WINDOW"]
    is_preceding: Flag | None = None
    is_following: Flag | None = None
    offset: RexField | None = None


class OverGroup(PlanModel):
    """The calls over one frame; ``is_rows`` says that it counts rows, else it goes by the order."""

    order_by: Annotated[SortSpec, Ref()]
    is_rows: Flag
    lower_bound: Bound
    upper_bound: Bound
    agg_calls: tuple[AggCall, ...]


class OverSpec(PlanModel):
    """Frames over the rows of a partition. A field behind the first ``original_input_fields`` is a constant."""

    partition: Annotated[PartitionSpec, Ref()]
    groups: Annotated[tuple[OverGroup, ...], Ref()]
    constants: Annotated[tuple[RexField, ...], ALWAYS] = ()
    original_input_fields: Index

    @model_validator(mode="after")
    def _constants_are_there(self) -> Self:
        count = self.original_input_fields + len(self.constants)
        for position, group in enumerate(self.groups):
            pointer = f"/groups/{position}"
            indexes = [
                (f"{pointer}/aggCalls/{i}/argList/{k}", a)
                for i, call in enumerate(group.agg_calls)
                for k, a in enumerate(call.arg_list)
            ]
            offset = group.lower_bound.offset
            if isinstance(offset, InputRef):
                indexes.append((f"{pointer}/lowerBound/offset/inputIndex", offset.index))
            for place, index in indexes:
                if index >= count:
                    raise custom_error(
                        PlanError("PLAN044.no_constant", index=index, node=self, bound=count),
                        place,
                    )
        return self

    def constant(self, rex: Rex | None) -> Rex | None:
        """The constant that ``rex`` refers to."""
        if isinstance(rex, InputRef) and rex.index >= self.original_input_fields:
            return self.constants[rex.index - self.original_input_fields]
        return rex


class OverNode(TimeBoundNode):
    """What the operators of OVER windows share.

    In the order of a time attribute they take and emit insertions alone. In the order of another field they take any
    changes, and update the rows that come behind those that change. Flink writes no ``state`` for them: their TTL is
    that of the session. A RANGE frame with a bound drops its rows by time; a ``state`` that is written for it may drop
    them earlier.
    """

    RESTARTS: ClassVar[bool] = True
    DROPS_LATE_ROWS: ClassVar[bool] = True
    EMITS_IN_ORDER: ClassVar[bool] = True

    over_spec: Annotated[OverSpec, Ref()]

    @property
    def _bounded_range(self) -> OverGroup | None:
        """The group of calls, when its frame is a RANGE with a bound: that says how long rows are kept."""
        group = self.over_spec.groups[0] if self.over_spec.groups else None
        return None if group is None or group.is_rows or group.lower_bound.kind != "BOUNDED_WINDOW" else group

    @property
    def ttl_option(self) -> str:
        return STATE_TTL if self._bounded_range is None else TIMED_STATE_TTL

    def ttls(self, session: Mapping[str, str] | None = None) -> tuple[int, ...]:
        """As of any node; of a RANGE frame of processing time with a bound not more than what the bound makes of it."""
        ttls, group = super().ttls(session), self._bounded_range
        if group is None:
            return ttls
        if self.time_kind != "PROCTIME":
            return ttls
        frame_ttl = range_ttl(self.preceding(group) or 0)
        return (frame_ttl if outlives(ttls[0], frame_ttl) else ttls[0],)

    def retention(self, index: int) -> int:
        return 0 if self._bounded_range is None else self.preceding(self._bounded_range) or 0

    @property
    def time_kind(self) -> str | None:
        """Which time attribute orders the rows; None for another field."""
        group = self.over_spec.groups[0] if self.over_spec.groups else None
        (order,) = (group.order_by.fields[:1] if group else ()) or (None,)
        fields = self.output_type.fields
        return fields[order.index].type.kind if order is not None and order.index < len(fields) else None

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        return updating(True) if self.time_kind is None else INSERT_ONLY

    def needs_update_before(self, position: int, update_before: bool) -> bool:
        return self.time_kind is None

    def takes(self, position: int) -> ChangelogMode | None:
        return None if self.time_kind is None else INSERT_ONLY

    def field_refs(self) -> Iterator[FieldRef]:
        yield from super().field_refs()
        for position, group in enumerate(self.over_spec.groups):
            for i, call in enumerate(group.agg_calls):
                for k, index in enumerate(call.arg_list):
                    if index < self.over_spec.original_input_fields:
                        yield FieldRef(f"/overSpec/groups/{position}/aggCalls/{i}/argList/{k}", index)

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        calls = (call for group in self.over_spec.groups for call in group.agg_calls)
        return (*field_types(inputs[0]), *(call.type for call in calls))

    def preceding(self, group: OverGroup) -> int | None:
        """How many rows before the current one, or milliseconds, the frame begins; None if that is not a constant."""
        if group.lower_bound.kind == "CURRENT_ROW":
            return 0
        offset = self.over_spec.constant(group.lower_bound.offset)
        text = str(offset.value) if isinstance(offset, Constant) else ""
        return int(text) if text.lstrip("-").isdecimal() else None

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        spec = self.over_spec
        names = joined_names(inputs)
        all_names = [*names, *(rex_text(c, names) for c in spec.constants)] if names else names
        parts = []
        for group in spec.groups:
            calls = ", ".join(agg_text(call, all_names) for call in group.agg_calls)
            parts.append(
                f"{calls} over {self._frame_text(group)}, by {order_text(group.order_by, names) or 'no order'}"
            )
        keys = names_text(spec.partition.fields, names)
        return f"adds {' and '.join(parts)}" + (f", of each {keys}" if keys else "")

    def _frame_text(self, group: OverGroup) -> str:
        lower, upper = group.lower_bound, group.upper_bound
        if upper.kind != "CURRENT_ROW":
            return "rows before and after"
        if lower.kind != "BOUNDED_WINDOW":
            return "the rows so far" if lower.kind != "CURRENT_ROW" else "the row itself"
        offset = self.over_spec.constant(lower.offset)
        offset_text = rex_text(offset, ()) if offset is not None else "?"
        return f"the {offset_text} rows before and itself" if group.is_rows else f"the rows of the last {offset_text}"


@exec_node("over-aggregate", states=("overState",))
class OverAggregate(OverNode):
    """Emits each row with aggregates of the rows before it in its partition.

    .. code-block:: sql

        INSERT INTO totals SELECT id, SUM(amount) OVER (
          PARTITION BY product ORDER BY ordered_at ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) FROM orders
    """

    STORES_FIELDS: ClassVar[bool] = True
    WRITTEN_LAST: ClassVar[tuple[str, ...]] = ("unbounded_over_version",)

    unbounded_over_version: Annotated[int | None, Field(strict=True), COSMETIC, AbsentMeans(1)] = None


@exec_node("python-over-aggregate", states=("overState",))
class PythonOverAggregate(OverNode):
    """Emits each row with what functions written in Python make of the columns of the rows before it.

    The functions are on pandas or Arrow, the order is a time attribute, and the frame has a bound.

    .. code-block:: sql

        CREATE FUNCTION median AS 'shop.median' LANGUAGE PYTHON;
        INSERT INTO prices SELECT id, median(price) OVER (
          PARTITION BY product ORDER BY ordered_at ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) FROM orders
    """
