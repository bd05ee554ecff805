"""Operators of joins."""

from __future__ import annotations

from typing import Any

from stateplan.common.types import with_a_field
from stateplan.common.zone import local_time_zone
from stateplan.execnodes.nodes.base import not_supported, out_of_order, upserts
from stateplan.execnodes.nodes.interval_join import IntervalJoin
from stateplan.execnodes.nodes.join import Join
from stateplan.execnodes.nodes.lookup_join import LookupJoin
from stateplan.execnodes.nodes.multi_join import MultiJoin
from stateplan.execnodes.nodes.temporal_join import TemporalJoin
from stateplan.execnodes.nodes.window_join import WindowJoin
from stateplan.execnodes.windows import WindowAttached
from stateplan.functions.rex import shift
from stateplan.runtime.kernels.interval_join import IntervalJoinKernel
from stateplan.runtime.kernels.join import JoinKernel
from stateplan.runtime.kernels.lookup_join import LookupJoinKernel
from stateplan.runtime.kernels.multi_join import MultiJoinKernel
from stateplan.runtime.kernels.temporal_join import ProcessingTimeJoinKernel, TemporalJoinKernel
from stateplan.runtime.kernels.window_join import WindowJoinKernel
from stateplan.runtime.lookup import LookupTransform, lookup_table
from stateplan.runtime.operators.base import Options, Rows, Stateful, Stateless, operator_of
from stateplan.runtime.operators.windowing import slicing_of


@operator_of.register
def join(node: Join, inputs: Rows, session: Options) -> Stateful:
    left, right = map(with_a_field, inputs)
    spec = node.join_spec
    if spec.non_equi_condition is not None and not inputs[0].fields:
        spec = spec.model_copy(update={"non_equi_condition": shift(spec.non_equi_condition, 1)})
    left_ttl, right_ttl = node.ttls(session)
    kernel = JoinKernel(
        left,
        right,
        spec,
        node.left_upsert_keys,
        node.right_upsert_keys,
        time_zone=local_time_zone(session),
        watched=(left_ttl > 0, right_ttl > 0),
        upserts=(upserts(node, 0), upserts(node, 1)),
    )
    return Stateful(kernel, (node.join_spec.left_keys, node.join_spec.right_keys))


@operator_of.register
def interval_join(node: IntervalJoin, inputs: Rows, session: Options) -> Stateful:
    spec, bounds = node.interval_join_spec.join_spec, node.interval_join_spec.window_bounds
    if spec.join_type in ("SEMI", "ANTI"):
        raise not_supported(node, f"an interval join of type {spec.join_type}")
    kernel = IntervalJoinKernel(
        inputs[0],
        inputs[1],
        spec,
        bounds.is_event_time,
        bounds.left_lower_bound,
        bounds.left_upper_bound,
        bounds.left_time_index,
        bounds.right_time_index,
        time_zone=local_time_zone(session),
    )
    return Stateful(kernel, (spec.left_keys, spec.right_keys))


@operator_of.register
def lookup_join(node: LookupJoin, inputs: Rows, session: Options) -> Stateless | Stateful:
    transform = LookupTransform(
        lookup_table(node.temporal_table.lookup_table_source, session, node.retry_options),
        inputs[0],
        node.temporal_table.output_type,
        node.found_type,
        {int(field): key for field, key in node.lookup_keys.items()},
        node.join_type == "LEFT",
        node.projection_on_temporal_table,
        node.filter_on_temporal_table,
        node.pre_filter_condition,
        node.join_condition,
        local_time_zone(session),
        upserts(node, 0) and not node.require_upsert_materialize,
    )
    if not node.require_upsert_materialize:
        return Stateless((transform,))
    key = node.input_upsert_key or tuple(range(len(inputs[0].fields)))
    return Stateful(LookupJoinKernel(inputs[0], node.found_type, key, transform), (key,))


@operator_of.register
def multi_join(node: MultiJoin, inputs: Rows, session: Options) -> Stateful:
    keys = tuple(p.required_distribution.keys for p in node.input_properties)
    pairs = tuple(
        tuple(
            (p.left_input_id, p.left_field_index, p.right_field_index)
            for p in node.join_attribute_map.get(str(i), ())
            if p.left_input_id >= 0
        )
        for i in range(len(inputs))
    )
    kernel = MultiJoinKernel(
        tuple(inputs),
        node.join_types,
        node.join_conditions,
        pairs,
        keys,
        tuple(k or () for k in node.input_unique_keys),
        local_time_zone(session),
        out_of_order(node),
    )
    return Stateful(kernel, keys)


@operator_of.register
def temporal_join(node: TemporalJoin, inputs: Rows, session: Options) -> Stateful:
    spec = node.join_spec
    keys = (spec.left_keys, spec.right_keys)
    join_options: dict[str, Any] = {"time_zone": local_time_zone(session), "upserts": upserts(node, 0)}
    if node.right_time_attribute_index < 0 or inputs[0].fields[node.left_time_attribute_index].type.kind == "PROCTIME":
        return Stateful(ProcessingTimeJoinKernel(inputs[0], inputs[1], spec, **join_options), keys)
    times = (node.left_time_attribute_index, node.right_time_attribute_index)
    return Stateful(TemporalJoinKernel(inputs[0], inputs[1], spec, *times, **join_options), keys)


@operator_of.register
def window_join(node: WindowJoin, inputs: Rows, session: Options) -> Stateful:
    spec, left, right = node.join_spec, node.left_windowing, node.right_windowing
    if not isinstance(left, WindowAttached) or not isinstance(right, WindowAttached):
        raise not_supported(node, "a window join of rows that are in no windows yet")
    kernel = WindowJoinKernel(
        inputs[0],
        inputs[1],
        spec,
        (left.window_end, right.window_end),
        slicing_of(node, left, session),
        time_zone=local_time_zone(session),
    )
    return Stateful(kernel, (spec.left_keys, spec.right_keys))
