"""GROUP BY window_start, window_end: in one phase, or local and global; and GROUP BY TUMBLE, HOP or SESSION."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import model_validator

from stateplan.execnodes.changelog import INSERT_ONLY, ChangelogMode, updating
from stateplan.execnodes.emission import ALLOW_LATENESS, Emission
from stateplan.execnodes.errors import OptionError
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import AbsentMeans, Flag, Index, RowTypeField
from stateplan.execnodes.node_text import call_texts, joined_names, names_text
from stateplan.execnodes.nodes.base import ExecNode, Stateful, Stateless, TimeBoundNode, field_types
from stateplan.execnodes.nodes.phased_aggregates import check_arguments
from stateplan.execnodes.nodes.window_table_function import sessions_of, slicing_of
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.specs import AggCall
from stateplan.execnodes.types import BIGINT, LogicalType, RowField
from stateplan.execnodes.windows import (
    GroupWindow,
    NamedWindowProperty,
    SessionWindow,
    SliceAttached,
    TimeAttribute,
    WindowAttached,
    Windowing,
    WindowSpec,
    group_windowing,
    property_type,
    window_length,
    window_text,
)

if TYPE_CHECKING:
    from stateplan.execnodes.runtime.kernel import Transform
    from stateplan.execnodes.runtime.kernels.common.partials import Partials
    from stateplan.execnodes.runtime.kernels.window_aggregate import Property
    from stateplan.execnodes.runtime.kernels.window_slices import SliceTransform

_STATE = "window-aggs"


NeedRetraction = Annotated[Flag | None, AbsentMeans(False)]


class _OfWindows(ExecNode):
    """What all of them have in common."""

    EMITS: ClassVar[ChangelogMode | None] = INSERT_ONLY

    grouping: Annotated[tuple[Index, ...], Ref()]
    agg_calls: Annotated[tuple[AggCall, ...], Ref()]

    def _sliced(self, windowing: Any, row: LogicalType, session: Mapping[str, str]) -> SliceTransform:
        """What gives rows the end of their slice."""
        from stateplan.execnodes.runtime.kernels.window_slices import SliceTransform

        if isinstance(windowing, SliceAttached):
            raise self.not_supported("a local phase of partial results")
        time = windowing.window_end if isinstance(windowing, WindowAttached) else _time_of(windowing)
        return SliceTransform(slicing_of(self, windowing, session, by_clock=True), time, len(row.fields))

    def _keyed(self, window: WindowSpec, inputs: Sequence[LogicalType]) -> str:
        """The keys and windows, in words."""
        keys, text = names_text(self.grouping, joined_names(inputs)), window_text(window)
        return f"each {keys} in {text}" if keys else text

    def _properties(self, named: Sequence[NamedWindowProperty]) -> tuple[Property, ...]:
        return tuple((p.property.kind, property_type(p).polars()) for p in named)

    def _output_types(
        self, inputs: Sequence[LogicalType], named: Sequence[NamedWindowProperty]
    ) -> Sequence[LogicalType]:
        """The types of keys, calls and what is told of the window."""
        types = field_types(inputs[0])
        return (*(types[k] for k in self.grouping), *(c.type for c in self.agg_calls), *map(property_type, named))

    def _in_one_phase(
        self,
        windowing: TimeAttribute | WindowAttached | SliceAttached,
        named: Sequence[NamedWindowProperty],
        retraction: bool,
        row: LogicalType,
        session: Mapping[str, str],
        in_order: bool = False,
    ) -> Stateful:
        """The aggregate of whole rows.

        Args:
            windowing: how rows find their windows.
            named: what the last fields of the output say of the window.
            retraction: whether rows may be retracted.
            row: type of the input.
            session: options.
            in_order: whether hopping windows are put together from their first slice on.
        """
        from stateplan.execnodes.runtime.kernels.common.net import state_columns
        from stateplan.execnodes.runtime.kernels.group_aggregate import GroupAggregateKernel
        from stateplan.execnodes.runtime.kernels.phased_aggregates import GlobalGroupAggregateKernel
        from stateplan.execnodes.runtime.kernels.window_aggregate import WindowAggregateKernel

        if isinstance(windowing.window, SessionWindow):
            return self._in_sessions(windowing, windowing.window, named, retraction, row, session)
        calls, timed = self.agg_calls, windowing.is_rowtime
        sliced = self._sliced(windowing, row, session)
        properties = self._properties(named)
        if sliced.slicing.shares:
            types = field_types(row)
            partials = _partials(row, [types[k] for k in self.grouping], calls, retraction)
            merged = GlobalGroupAggregateKernel(partials)
            merging = WindowAggregateKernel(merged, sliced.slicing, properties, timed, in_order)
            before = _before(sliced, partials, self.grouping)
            return Stateful(merging, (partials.kernel.grouping[:-1],), before, (partials.whole_schema(),))
        whole = LogicalType("ROW", fields=(*row.fields, RowField("slice_end", BIGINT.not_null())))
        flags = (retraction,) * len(calls)
        inner = GroupAggregateKernel(whole, (*self.grouping, sliced.width), calls, flags, False, retraction, _STATE)
        kernel = WindowAggregateKernel(inner, sliced.slicing, properties, timed)
        return Stateful(kernel, (self.grouping,), (sliced,), (state_columns(whole),))

    def _in_sessions(
        self,
        windowing: TimeAttribute | WindowAttached | SliceAttached,
        window: SessionWindow,
        named: Sequence[NamedWindowProperty],
        retraction: bool,
        row: LogicalType,
        session: Mapping[str, str],
    ) -> Stateful:
        from stateplan.execnodes.runtime.kernels.common.net import state_columns
        from stateplan.execnodes.runtime.kernels.phased_aggregates import GlobalGroupAggregateKernel
        from stateplan.execnodes.runtime.kernels.session_aggregate import SessionAggregateKernel

        if isinstance(windowing, SliceAttached):
            raise self.not_supported("a SESSION window in two phases")
        if set(window.partition_key_indices) != set(self.grouping):
            raise self.not_supported("a SESSION window whose PARTITION BY is not the key of its aggregate")
        types = field_types(row)
        partials = _partials(row, [types[k] for k in self.grouping], self.agg_calls, retraction)
        sessions, timed, whole = sessions_of(self, windowing, window, self.grouping, partials.keys, row, session)
        inner = GlobalGroupAggregateKernel(partials)
        kernel = SessionAggregateKernel(sessions, windowing.is_rowtime, inner, self._properties(named))
        return Stateful(kernel, (self.grouping,), (timed,), (state_columns(whole),))


class _Windowed(_OfWindows):
    """What the nodes have in common whose rows find their windows in several ways."""

    windowing: Annotated[Windowing, Ref()]

    def _whose(self, inputs: Sequence[LogicalType]) -> str:
        return self._keyed(self.windowing.window, inputs)


def _time_of(windowing: TimeAttribute) -> int | None:
    """The field that is the time of a row; None for processing time."""
    return windowing.time_attribute_index if windowing.is_rowtime else None


def _partials(row: LogicalType, keys: Sequence[LogicalType], calls: tuple[AggCall, ...], retraction: bool) -> Partials:
    """Partial results by keys and slice."""
    from stateplan.execnodes.runtime.kernels.common.partials import Partials

    flags = (retraction,) * len(calls)
    return Partials.of(row, [*keys, BIGINT.not_null()], calls, flags, retraction, state_name=_STATE)


def _before(sliced: SliceTransform, partials: Partials, grouping: tuple[int, ...]) -> tuple[Transform, ...]:
    """From rows to partial results."""
    from stateplan.execnodes.runtime.kernels.common.partials import LocalTransform

    return (sliced, LocalTransform(partials, (*grouping, sliced.width)))


class _Emitting(_Windowed, TimeBoundNode):
    """What those that emit windows have in common."""

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

    def translate(self, inputs: Sequence[LogicalType], session: Mapping[str, str]) -> Stateless:
        types = field_types(inputs[0])
        partials = _partials(inputs[0], [types[k] for k in self.grouping], self.agg_calls, bool(self.need_retraction))
        return Stateless(_before(self._sliced(self.windowing, inputs[0], session), partials, self.grouping))

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        return (
            f"computes {call_texts(self.agg_calls, joined_names(inputs))} of {self._whose(inputs)} within a micro-batch"
        )


@exec_node("global-window-aggregate", states=(_STATE,))
class GlobalWindowAggregate(_Emitting):
    """Merges partial results of each key and window, and emits a window when the watermark has come to its end.

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

    def translate(self, inputs: Sequence[LogicalType], session: Mapping[str, str]) -> Stateful:
        from stateplan.execnodes.runtime.kernels.phased_aggregates import GlobalGroupAggregateKernel
        from stateplan.execnodes.runtime.kernels.window_aggregate import WindowAggregateKernel

        types = field_types(inputs[0])
        keys = [types[k] for k in self.grouping]
        partials = _partials(self.local_agg_input_row_type, keys, self.agg_calls, bool(self.need_retraction))
        kernel = WindowAggregateKernel(
            GlobalGroupAggregateKernel(partials),
            slicing_of(self, self.windowing, session, by_clock=True),
            self._properties(self.named_window_properties),
            self.windowing.is_rowtime,
        )
        return Stateful(kernel, (partials.kernel.grouping[:-1],), schemas=(partials.whole_schema(),))

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        names = [f.name for f in self.local_agg_input_row_type.fields]
        return f"emits {call_texts(self.agg_calls, names)} of {self._whose(inputs)}, from partial results"


@exec_node("window-aggregate", states=(_STATE,))
class WindowAggregate(_Emitting):
    """Aggregates the rows of each key and window, and emits a window when the watermark has come to its end; one of
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

    def translate(self, inputs: Sequence[LogicalType], session: Mapping[str, str]) -> Stateful:
        retraction = bool(self.need_retraction)
        return self._in_one_phase(self.windowing, self.named_window_properties, retraction, inputs[0], session)

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        return f"emits {call_texts(self.agg_calls, joined_names(inputs))} of {self._whose(inputs)}"


@exec_node("group-window-aggregate", states=(_STATE,))
class GroupWindowAggregate(_OfWindows, TimeBoundNode):
    """Aggregates the rows of each key and window of ``GROUP BY TUMBLE(...)``, HOP or SESSION, and emits a window when
    the watermark has come to its end; one of processing time when the clock has. As options of the session say, it
    emits windows before their end too, and late ones again.

    .. code-block:: sql

        INSERT INTO totals SELECT TUMBLE_START(ts, INTERVAL '1' HOUR), product, SUM(amount)
        FROM orders GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), product
    """

    EMITS: ClassVar[ChangelogMode | None] = None
    NEEDS_UPDATE_BEFORE: ClassVar[bool | None] = True

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

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        by_clock = self.window.time_field.field_type.kind == "PROCTIME"
        updates = self._emit.startswith("early") or (bool(self._emit) and not by_clock)
        return updating(update_before, deletes=bool(self.need_retraction)) if updates else INSERT_ONLY

    @property
    def _emit(self) -> str:
        """When windows are emitted besides at their end, as :attr:`Emission.text`. Flink writes it into the description
        alone."""
        return self.description.partition(", emit=[")[2].partition("]")[0]

    def meaning(self) -> dict[str, Any]:
        """As of any node, with when windows are emitted."""
        return super().meaning() | ({"emit": self._emit} if self._emit else {})

    def translate(self, inputs: Sequence[LogicalType], session: Mapping[str, str]) -> Stateful:
        windowing = group_windowing(self.window, self.grouping)
        if windowing is None:
            raise self.not_supported("a window of a number of rows")
        window = windowing.window
        retraction = bool(self.need_retraction)
        emission = Emission.of(session, windowing.is_rowtime)
        asked = "" if emission is None else emission.text
        if asked != self._emit:
            planned, said = (f"'{text}'" if text else "at their end only" for text in (self._emit, asked))
            raise OptionError("OPT006", planned=planned, asked=said)
        if emission is not None and emission.updates:
            if isinstance(window, SessionWindow):
                raise self.not_supported("a SESSION window that is emitted early or late")
            if emission.never_late:
                raise self.not_supported(f"late results of windows that are not kept, without '{ALLOW_LATENESS}'")
            return self._emitted(windowing, emission, retraction, inputs[0], session)
        return self._in_one_phase(windowing, self.named_window_properties, retraction, inputs[0], session, True)

    def _emitted(
        self,
        windowing: TimeAttribute,
        emission: Emission,
        retraction: bool,
        row: LogicalType,
        session: Mapping[str, str],
    ) -> Stateful:
        """The aggregate of windows that are emitted more than once."""
        from stateplan.execnodes.runtime.kernels.common.net import state_columns
        from stateplan.execnodes.runtime.kernels.group_aggregate import GroupAggregateKernel
        from stateplan.execnodes.runtime.kernels.window_emission import WindowEmissionKernel

        sliced = self._sliced(windowing, row, session)
        whole = LogicalType("ROW", fields=(*row.fields, RowField("slice_end", BIGINT.not_null())))
        flags = (retraction,) * len(self.agg_calls)
        keys = (*self.grouping, sliced.width)
        inner = GroupAggregateKernel(whole, keys, self.agg_calls, flags, False, retraction, _STATE)
        properties = self._properties(self.named_window_properties)
        kernel = WindowEmissionKernel(inner, sliced.slicing, properties, emission)
        return Stateful(kernel, (self.grouping,), (sliced,), (state_columns(whole),))

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        windowing = group_windowing(self.window, self.grouping)
        whose = "windows" if windowing is None else self._keyed(windowing.window, inputs)
        return f"emits {call_texts(self.agg_calls, joined_names(inputs))} of {whose}"
