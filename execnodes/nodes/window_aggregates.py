"""GROUP BY window_start, window_end: in one phase, or local and global; and GROUP BY TUMBLE, HOP or SESSION."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import model_validator

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode, updating
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import FieldRef, Ref
from stateplan.execnodes.model import AbsentMeans, Flag, Index, RowTypeField
from stateplan.execnodes.node_text import call_texts, joined_names, names_text
from stateplan.execnodes.nodes.base import ExecNode, TimeBoundNode, field_types
from stateplan.execnodes.nodes.phased_aggregates import check_arguments
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.specs import AggCall
from stateplan.execnodes.windows import (
    GroupWindow,
    NamedWindowProperty,
    Windowing,
    WindowSpec,
    group_windowing,
    property_type,
    window_length,
    window_text,
)

WINDOW_STATE = "window-aggs"


NeedRetraction = Annotated[Flag | None, AbsentMeans(False)]


class WindowedAggregate(ExecNode):
    """What all of them have in common."""

    EMITS: ClassVar[ChangelogMode | None] = INSERT_ONLY

    grouping: Annotated[tuple[Index, ...], Ref()]
    agg_calls: Annotated[tuple[AggCall, ...], Ref()]

    def _groups_text(self, window: WindowSpec, inputs: Sequence[LogicalType]) -> str:
        """The keys and windows, in words."""
        keys, text = names_text(self.grouping, joined_names(inputs)), window_text(window)
        return f"each {keys} in {text}" if keys else text

    def _output_types(
        self, inputs: Sequence[LogicalType], properties: Sequence[NamedWindowProperty]
    ) -> Sequence[LogicalType]:
        """The types of the keys, calls and window properties."""
        types = field_types(inputs[0])
        return (*(types[k] for k in self.grouping), *(c.type for c in self.agg_calls), *map(property_type, properties))


class _Windowed(WindowedAggregate):
    """What the nodes have in common whose rows find their windows in several ways."""

    windowing: Annotated[Windowing, Ref()]

    def _windows_text(self, inputs: Sequence[LogicalType]) -> str:
        return self._groups_text(self.windowing.window, inputs)


class _Emitting(_Windowed, TimeBoundNode):
    """What those that emit windows have in common."""

    DROPS_LATE_ROWS: ClassVar[bool] = True
    CLOSES_WINDOWS: ClassVar[bool] = True
    EMITS_IN_ORDER: ClassVar[bool] = True

    named_window_properties: tuple[NamedWindowProperty, ...]
    need_retraction: NeedRetraction = None

    def retention(self, index: int) -> int:
        return window_length(self.windowing.window)

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        return self._output_types(inputs, self.named_window_properties)


@exec_node("local-window-aggregate")
class LocalWindowAggregate(_Windowed):
    """Aggregates the rows of each key and slice of windows within a micro-batch, in front of the shuffle.

    .. code-block:: sql

        INSERT INTO totals SELECT window_start, product, SUM(amount)
        FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR))
        GROUP BY window_start, window_end, product
    """

    NEEDS_UPDATE_BEFORE: ClassVar[bool | None] = True

    need_retraction: NeedRetraction = None

    def takes(self, position: int) -> ChangelogMode | None:
        return None if self.need_retraction else INSERT_ONLY

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        calls = call_texts(self.agg_calls, joined_names(inputs))
        return f"computes {calls} of {self._windows_text(inputs)} within a micro-batch"


@exec_node("global-window-aggregate", states=(WINDOW_STATE,))
class GlobalWindowAggregate(_Emitting):
    """Merges partial results of each key and window, and emits a window when the watermark has reached its end.

    .. code-block:: sql

        INSERT INTO totals SELECT window_start, product, SUM(amount)
        FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR))
        GROUP BY window_start, window_end, product
    """

    agg_calls: tuple[AggCall, ...]
    local_agg_input_row_type: RowTypeField

    @classmethod
    def layout(cls) -> tuple[tuple[str, str, bool, Any], ...]:
        """As :meth:`ExecNode.layout`; Flink writes the row of the local phase behind the input properties."""
        fields = list(super().layout())
        row = next(f for f in fields if f[0] == "local_agg_input_row_type")
        fields.remove(row)
        place = next(i for i, f in enumerate(fields) if f[0] == "input_properties")
        return (*fields[: place + 1], row, *fields[place + 1 :])

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_arguments(self.title, self.agg_calls, self.local_agg_input_row_type, "aggCalls")
        return self

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        names = [f.name for f in self.local_agg_input_row_type.fields]
        return f"emits {call_texts(self.agg_calls, names)} of {self._windows_text(inputs)}, from partial results"


@exec_node("window-aggregate", states=(WINDOW_STATE,))
class WindowAggregate(_Emitting):
    """Aggregates the rows of each key and window, and emits a window when the watermark has reached its end; one of
    processing time when the clock has.

    .. code-block:: sql

        SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE';
        INSERT INTO totals SELECT window_start, product, SUM(amount)
        FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR))
        GROUP BY window_start, window_end, product
    """

    NEEDS_UPDATE_BEFORE: ClassVar[bool | None] = True

    def takes(self, position: int) -> ChangelogMode | None:
        return None if self.need_retraction else INSERT_ONLY

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        return f"emits {call_texts(self.agg_calls, joined_names(inputs))} of {self._windows_text(inputs)}"


@exec_node("group-window-aggregate", states=(WINDOW_STATE,))
class GroupWindowAggregate(WindowedAggregate, TimeBoundNode):
    """Aggregates the rows of each key and window of ``GROUP BY TUMBLE(...)``, HOP or SESSION, and emits a window when
    the watermark has reached its end; one of processing time when the clock has. As options of the session say, it
    emits windows before their end too, and late ones again.

    .. code-block:: sql

        INSERT INTO totals SELECT TUMBLE_START(ts, INTERVAL '1' HOUR), product, SUM(amount)
        FROM orders GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), product
    """

    EMITS: ClassVar[ChangelogMode | None] = None
    NEEDS_UPDATE_BEFORE: ClassVar[bool | None] = True
    DROPS_LATE_ROWS: ClassVar[bool] = True
    CLOSES_WINDOWS: ClassVar[bool] = True
    EMITS_IN_ORDER: ClassVar[bool] = True

    window: Annotated[GroupWindow, Ref()]
    named_window_properties: tuple[NamedWindowProperty, ...]
    need_retraction: NeedRetraction = None

    def retention(self, index: int) -> int:
        return 0 if self.window.spec is None else window_length(self.window.spec)

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        if any(p.property.kind in ("Rowtime", "Proctime") for p in self.named_window_properties):
            return None  # Flink gives these other NULL constraints than those of window functions
        return self._output_types(inputs, self.named_window_properties)

    def takes(self, position: int) -> ChangelogMode | None:
        return None if self.need_retraction else INSERT_ONLY

    def field_refs(self) -> Iterator[FieldRef]:
        """As of any node. Windows by the clock read no time: Flink keeps the position that it had in an input that is
        often gone from the plan, which may be that of another field, or of none."""
        refs = super().field_refs()
        yield from (r for r in refs if not self.by_clock or r.pointer != "/window/timeField/fieldIndex")

    @property
    def by_clock(self) -> bool:
        """Whether the windows are of processing time."""
        return self.window.time_field.field_type.kind == "PROCTIME"

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        updates = self.emit.startswith("early") or (bool(self.emit) and not self.by_clock)
        return updating(update_before, deletes=bool(self.need_retraction)) if updates else INSERT_ONLY

    @property
    def emit(self) -> str:
        """When windows are emitted besides at their end, as :attr:`Emission.text`. Flink writes it into the description
        alone."""
        return self.description.partition(", emit=[")[2].partition("]")[0]

    def meaning(self) -> dict[str, Any]:
        """As of any node, with when windows are emitted."""
        return super().meaning() | ({"emit": self.emit} if self.emit else {})

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        windowing = group_windowing(self.window, self.grouping)
        groups = "windows" if windowing is None else self._groups_text(windowing.window, inputs)
        return f"emits {call_texts(self.agg_calls, joined_names(inputs))} of {groups}"
