"""Operators of OVER."""

from __future__ import annotations

from typing import Any

from stateplan.common.changelog import column
from stateplan.execnodes.nodes.base import not_supported
from stateplan.execnodes.nodes.over_aggregate import OverGroup, OverNode, PythonOverAggregate
from stateplan.functions.program import evaluate
from stateplan.runtime.kernels.common.over_frames import Frame
from stateplan.runtime.kernels.over_aggregate import ProctimeOverKernel, RowtimeOverKernel
from stateplan.runtime.kernels.over_non_time import NonTimeOverKernel
from stateplan.runtime.operators.base import Options, Rows, Stateful, operator_of


@operator_of.register
def over(node: OverNode, inputs: Rows, session: Options) -> Stateful:
    spec = node.over_spec
    if len(spec.groups) != 1:
        raise not_supported(node, "OVER with different windows")
    (group,) = spec.groups
    if len(group.order_by.fields) != 1 or not group.order_by.fields[0].is_ascending:
        raise not_supported(node, "OVER in another order than one field, ascending")
    order = group.order_by.fields[0]
    kind = inputs[0].fields[order.index].type.kind
    frame = _frame(node, group)
    keys = spec.partition.fields
    types = tuple(c.type for c in spec.constants)
    kernel_arguments = (inputs[0], keys, group.agg_calls, frame, _constants(node, len(inputs[0].fields)), types)
    if kind is not None:
        by_time = (
            RowtimeOverKernel(*kernel_arguments, order.index)
            if kind == "ROWTIME"
            else ProctimeOverKernel(*kernel_arguments)
        )
        return Stateful(by_time, (keys,))
    if frame.bounded:
        raise not_supported(node, "an OVER frame with a bound in the order of a field that is not a time attribute")
    if any(call.function == "LAG" for call in group.agg_calls):
        raise not_supported(node, "LAG in the order of a field that is not a time attribute")
    return Stateful(NonTimeOverKernel(*kernel_arguments, order.index, order.null_is_last), (keys,))


def _frame(node: OverNode, group: OverGroup) -> Frame:
    lower = group.lower_bound
    if group.upper_bound.kind != "CURRENT_ROW" or lower.is_following or lower.kind == "UNBOUNDED_FOLLOWING":
        raise not_supported(node, "an OVER frame with rows after the current one")
    if lower.kind == "UNBOUNDED_PRECEDING":
        return Frame(group.is_rows)
    preceding = node.preceding(group)
    if preceding is None or preceding < 0:
        raise not_supported(node, "an OVER frame with a bound that is not a constant")
    return Frame(group.is_rows, preceding)


def _constants(node: OverNode, width: int) -> dict[str, Any]:
    """The constants that are arguments, by column."""
    spec = node.over_spec
    constant_fields = {a for group in spec.groups for call in group.agg_calls for a in call.arg_list if a >= width}
    return {column(a): evaluate(spec.constants[a - width]) for a in sorted(constant_fields)}


@operator_of.register
def python_over_aggregate(node: PythonOverAggregate, inputs: Rows, session: Options) -> Stateful:
    for group in node.over_spec.groups:
        if group.lower_bound.kind == "UNBOUNDED_PRECEDING" or node.time_kind is None:
            raise not_supported(node, "a Python function over a frame without a bound, or not in the order of time")
        for call in group.agg_calls:
            if call.distinct or (call.user_function is not None and call.user_function.vector == "general"):
                raise not_supported(node, "OVER with DISTINCT or with a function of Python that takes row by row")
    return over(node, inputs, session)
