"""Operators of windows: their rows, and their aggregates in one phase or in two."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.common.changelog import columns
from stateplan.common.errors import OptionError
from stateplan.common.types import BIGINT, LogicalType, RowField
from stateplan.execnodes.emission import ALLOW_LATENESS, Emission
from stateplan.execnodes.nodes.base import field_types, not_supported
from stateplan.execnodes.nodes.window_aggregates import (
    WINDOW_STATE,
    GlobalWindowAggregate,
    GroupWindowAggregate,
    LocalWindowAggregate,
    WindowAggregate,
    WindowedAggregate,
)
from stateplan.execnodes.nodes.window_table_function import WindowTableFunction
from stateplan.execnodes.specs import AggCall
from stateplan.execnodes.windows import (
    NamedWindowProperty,
    SessionWindow,
    SliceAttached,
    TimeAttribute,
    WindowAttached,
    group_windowing,
    property_type,
)
from stateplan.runtime.kernel import Transform
from stateplan.runtime.kernels.common.key_ids import state_columns
from stateplan.runtime.kernels.common.partials import LocalTransform, Partials
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from stateplan.runtime.kernels.phased_aggregates import GlobalGroupAggregateKernel
from stateplan.runtime.kernels.session_aggregate import SessionAggregateKernel
from stateplan.runtime.kernels.session_rows import SessionRowsKernel
from stateplan.runtime.kernels.window_aggregate import Property, WindowAggregateKernel
from stateplan.runtime.kernels.window_emission import WindowEmissionKernel
from stateplan.runtime.kernels.window_slices import SliceTransform, WindowTableFunctionTransform
from stateplan.runtime.operators.base import Options, Rows, Stateful, Stateless, operator_of
from stateplan.runtime.operators.windowing import sessions_of, slicing_of


@operator_of.register
def window_table_function(node: WindowTableFunction, inputs: Rows, session: Options) -> Stateless | Stateful:
    windowing = node.windowing
    if not isinstance(windowing, TimeAttribute):
        raise not_supported(node, "a window function of rows that already are in windows")
    if node.session_window is not None:
        return _rows_in_sessions(node, windowing, node.session_window, inputs[0], session)
    slicing = slicing_of(node, windowing, session)
    last = windowing.time_attribute_type.polars()
    width = len(inputs[0].fields)
    return Stateless((WindowTableFunctionTransform(slicing, windowing.time_attribute_index, width, last),))


def _rows_in_sessions(
    node: WindowTableFunction, windowing: TimeAttribute, window: SessionWindow, row: LogicalType, session: Options
) -> Stateful:
    keys = window.partition_key_indices
    sessions, time_transform, fields = sessions_of(
        node, windowing, window, keys, (*columns(keys), "@start"), row, session
    )
    kernel = SessionRowsKernel(sessions, windowing.is_rowtime, row, windowing.time_attribute_type.polars())
    return Stateful(kernel, (keys,), (time_transform,), (state_columns(fields),))


def _sliced(
    node: WindowedAggregate,
    windowing: TimeAttribute | WindowAttached | SliceAttached,
    row: LogicalType,
    session: Options,
) -> SliceTransform:
    """What gives rows the end of their slice."""
    if isinstance(windowing, SliceAttached):
        raise not_supported(node, "a local phase of partial results")
    time = windowing.window_end if isinstance(windowing, WindowAttached) else _time_of(windowing)
    return SliceTransform(slicing_of(node, windowing, session, by_clock=True), time, len(row.fields))


def _properties(window_properties: Sequence[NamedWindowProperty]) -> tuple[Property, ...]:
    return tuple((p.property.kind, property_type(p).polars()) for p in window_properties)


def _in_one_phase(
    node: WindowedAggregate,
    windowing: TimeAttribute | WindowAttached | SliceAttached,
    window_properties: Sequence[NamedWindowProperty],
    retraction: bool,
    row: LogicalType,
    session: Options,
    in_order: bool = False,
) -> Stateful:
    """The aggregate of whole rows.

    Args:
        windowing: how rows find their windows.
        window_properties: what the last fields of the output say of the window.
        retraction: whether rows may be retracted.
        row: type of the input.
        session: options.
        in_order: whether hopping windows are put together from their first slice on.
    """
    if isinstance(windowing.window, SessionWindow):
        return _in_sessions(node, windowing, windowing.window, window_properties, retraction, row, session)
    calls, is_rowtime = node.agg_calls, windowing.is_rowtime
    slice_transform = _sliced(node, windowing, row, session)
    properties = _properties(window_properties)
    if slice_transform.slicing.shares:
        types = field_types(row)
        partials = _partials(row, [types[k] for k in node.grouping], calls, retraction)
        global_kernel = GlobalGroupAggregateKernel(partials)
        merging = WindowAggregateKernel(global_kernel, slice_transform.slicing, properties, is_rowtime, in_order)
        before = _before(slice_transform, partials, node.grouping)
        return Stateful(merging, (partials.kernel.grouping[:-1],), before, (partials.whole_schema(),))
    row_with_slice = LogicalType("ROW", fields=(*row.fields, RowField("slice_end", BIGINT.not_null())))
    flags = (retraction,) * len(calls)
    inner = GroupAggregateKernel(
        row_with_slice, (*node.grouping, slice_transform.width), calls, flags, False, retraction, WINDOW_STATE
    )
    kernel = WindowAggregateKernel(inner, slice_transform.slicing, properties, is_rowtime)
    return Stateful(kernel, (node.grouping,), (slice_transform,), (state_columns(row_with_slice),))


def _in_sessions(
    node: WindowedAggregate,
    windowing: TimeAttribute | WindowAttached | SliceAttached,
    window: SessionWindow,
    window_properties: Sequence[NamedWindowProperty],
    retraction: bool,
    row: LogicalType,
    session: Options,
) -> Stateful:
    if isinstance(windowing, SliceAttached):
        raise not_supported(node, "a SESSION window in two phases")
    if set(window.partition_key_indices) != set(node.grouping):
        raise not_supported(node, "a SESSION window whose PARTITION BY is not the key of its aggregate")
    types = field_types(row)
    partials = _partials(row, [types[k] for k in node.grouping], node.agg_calls, retraction)
    sessions, time_transform, fields = sessions_of(node, windowing, window, node.grouping, partials.keys, row, session)
    inner = GlobalGroupAggregateKernel(partials)
    kernel = SessionAggregateKernel(sessions, windowing.is_rowtime, inner, _properties(window_properties))
    return Stateful(kernel, (node.grouping,), (time_transform,), (state_columns(fields),))


def _time_of(windowing: TimeAttribute) -> int | None:
    """The field that is the time of a row; None for processing time."""
    return windowing.time_attribute_index if windowing.is_rowtime else None


def _partials(row: LogicalType, keys: Sequence[LogicalType], calls: tuple[AggCall, ...], retraction: bool) -> Partials:
    """Partial results by keys and slice."""
    flags = (retraction,) * len(calls)
    return Partials.of(row, [*keys, BIGINT.not_null()], calls, flags, retraction, state_name=WINDOW_STATE)


def _before(slice_transform: SliceTransform, partials: Partials, grouping: tuple[int, ...]) -> tuple[Transform, ...]:
    """From rows to partial results."""
    return (slice_transform, LocalTransform(partials, (*grouping, slice_transform.width)))


@operator_of.register
def local_window_aggregate(node: LocalWindowAggregate, inputs: Rows, session: Options) -> Stateless:
    types = field_types(inputs[0])
    partials = _partials(inputs[0], [types[k] for k in node.grouping], node.agg_calls, bool(node.need_retraction))
    return Stateless(_before(_sliced(node, node.windowing, inputs[0], session), partials, node.grouping))


@operator_of.register
def global_window_aggregate(node: GlobalWindowAggregate, inputs: Rows, session: Options) -> Stateful:
    types = field_types(inputs[0])
    keys = [types[k] for k in node.grouping]
    partials = _partials(node.local_agg_input_row_type, keys, node.agg_calls, bool(node.need_retraction))
    kernel = WindowAggregateKernel(
        GlobalGroupAggregateKernel(partials),
        slicing_of(node, node.windowing, session, by_clock=True),
        _properties(node.named_window_properties),
        node.windowing.is_rowtime,
    )
    return Stateful(kernel, (partials.kernel.grouping[:-1],), schemas=(partials.whole_schema(),))


@operator_of.register
def window_aggregate(node: WindowAggregate, inputs: Rows, session: Options) -> Stateful:
    retraction = bool(node.need_retraction)
    return _in_one_phase(node, node.windowing, node.named_window_properties, retraction, inputs[0], session)


@operator_of.register
def group_window_aggregate(node: GroupWindowAggregate, inputs: Rows, session: Options) -> Stateful:
    windowing = group_windowing(node.window, node.grouping)
    if windowing is None:
        raise not_supported(node, "a window of a number of rows")
    window = windowing.window
    retraction = bool(node.need_retraction)
    emission = Emission.of(session, windowing.is_rowtime)
    session_emit = "" if emission is None else emission.text
    if session_emit != node.emit:
        plan_text, session_text = (f"'{text}'" if text else "at their end only" for text in (node.emit, session_emit))
        raise OptionError("OPT006", planned=plan_text, asked=session_text)
    if emission is not None and emission.updates:
        if isinstance(window, SessionWindow):
            raise not_supported(node, "a SESSION window that is emitted early or late")
        if emission.never_late:
            raise not_supported(node, f"late results of windows that are not kept, without '{ALLOW_LATENESS}'")
        return _with_emission(node, windowing, emission, retraction, inputs[0], session)
    return _in_one_phase(node, windowing, node.named_window_properties, retraction, inputs[0], session, True)


def _with_emission(
    node: GroupWindowAggregate,
    windowing: TimeAttribute,
    emission: Emission,
    retraction: bool,
    row: LogicalType,
    session: Options,
) -> Stateful:
    """The aggregate of windows that are emitted more than once."""
    slice_transform = _sliced(node, windowing, row, session)
    row_with_slice = LogicalType("ROW", fields=(*row.fields, RowField("slice_end", BIGINT.not_null())))
    flags = (retraction,) * len(node.agg_calls)
    keys = (*node.grouping, slice_transform.width)
    inner = GroupAggregateKernel(row_with_slice, keys, node.agg_calls, flags, False, retraction, WINDOW_STATE)
    properties = _properties(node.named_window_properties)
    kernel = WindowEmissionKernel(inner, slice_transform.slicing, properties, emission)
    return Stateful(kernel, (node.grouping,), (slice_transform,), (state_columns(row_with_slice),))
