"""Operators without state: projections, filters, table functions, and nodes that change no row."""

from __future__ import annotations

from stateplan.common.errors import PlanError
from stateplan.common.zone import local_time_zone
from stateplan.execnodes.flink import FLINK_NODES
from stateplan.execnodes.node_text import joined_names
from stateplan.execnodes.nodes.base import not_supported
from stateplan.execnodes.nodes.calc import Calc
from stateplan.execnodes.nodes.correlate import Correlate, PythonCorrelate
from stateplan.execnodes.nodes.drop_update_before import DropUpdateBefore
from stateplan.execnodes.nodes.exchange import Exchange
from stateplan.execnodes.nodes.expand import Expand
from stateplan.execnodes.nodes.mini_batch_assigner import MiniBatchAssigner
from stateplan.execnodes.nodes.opaque import OpaqueNode
from stateplan.execnodes.nodes.python_calc import AsyncCalc, PythonAsyncCalc, PythonCalc
from stateplan.execnodes.nodes.union import Union
from stateplan.execnodes.nodes.values import Values
from stateplan.execnodes.nodes.watermark_assigner import WatermarkAssigner
from stateplan.functions.asynchronous import limits_of, with_limits
from stateplan.functions.rex import TRUE, Call
from stateplan.runtime.kernels.changelog_functions import DropUpdateBeforeTransform
from stateplan.runtime.operators.base import Options, Rows, Stateful, Stateless, operator_of
from stateplan.runtime.transforms.calc import CalcTransform, ExpandTransform, WatermarkTransform
from stateplan.runtime.transforms.field_names import field_names
from stateplan.runtime.transforms.table_functions import (
    REPLICATE_ROWS,
    UNNEST,
    CorrelateTransform,
    over_input,
)


@operator_of.register
def changes_no_row(node: Exchange | MiniBatchAssigner | Values, inputs: Rows, session: Options) -> Stateless:
    return Stateless()


@operator_of.register
def calc(node: Calc, inputs: Rows, session: Options) -> Stateless:
    projection = node.projection or (TRUE,)
    return Stateless(
        (CalcTransform(projection, node.condition, local_time_zone(session), node.label, joined_names(inputs)),)
    )


@operator_of.register
def function_calc(node: PythonCalc | AsyncCalc | PythonAsyncCalc, inputs: Rows, session: Options) -> Stateless:
    limits = limits_of({**session, **(node.configuration or {})})
    projection = tuple(with_limits(rex, limits) for rex in node.projection)
    return Stateless((CalcTransform(projection, None, local_time_zone(session), node.label, joined_names(inputs)),))


@operator_of.register
def correlate(node: Correlate | PythonCorrelate, inputs: Rows, session: Options) -> Stateless:
    call = over_input(node.function_call, inputs[0])
    if not isinstance(call, Call) or not (call.is_user_defined or call.name in (*UNNEST, REPLICATE_ROWS)):
        name = call.name if isinstance(call, Call) else type(call).__name__
        raise not_supported(node, f"the table function {name}")
    if call.type.root != "ROW" or not call.type.fields:
        raise PlanError("PLAN044")
    condition = node.condition if isinstance(node, Correlate) else None
    zone = local_time_zone(session)
    return Stateless((CorrelateTransform(inputs[0], call, node.join_type, condition, zone, node.label),))


@operator_of.register
def drop_update_before(node: DropUpdateBefore, inputs: Rows, session: Options) -> Stateless:
    return Stateless((DropUpdateBeforeTransform(),))


@operator_of.register
def expand(node: Expand, inputs: Rows, session: Options) -> Stateless:
    return Stateless((ExpandTransform.of(node.projects, local_time_zone(session)),))


@operator_of.register
def union(node: Union, inputs: Rows, session: Options) -> Stateless:
    output_types = [f.type for f in node.output_type.fields]
    renaming = (field_names([f.type for f in input_type.fields], output_types) for input_type in inputs)
    return Stateless(next(filter(None, renaming), ()))


@operator_of.register
def watermark_assigner(node: WatermarkAssigner, inputs: Rows, session: Options) -> Stateless:
    name = inputs[0].fields[node.rowtime_field_index].name
    zone = local_time_zone(session)
    return Stateless((WatermarkTransform(node.watermark_expr, node.rowtime_field_index, name, zone),))


@operator_of.register
def opaque_node(node: OpaqueNode, inputs: Rows, session: Options) -> Stateless | Stateful:
    raise not_supported(node, f"{node.title} ({FLINK_NODES[node.name].about})")
