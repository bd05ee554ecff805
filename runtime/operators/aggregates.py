"""Operators of GROUP BY, in one phase or in several."""

from __future__ import annotations

from collections.abc import Callable

from stateplan.common.types import LogicalType, row_type
from stateplan.execnodes.node_ttls import ttl_configs
from stateplan.execnodes.nodes.base import field_types
from stateplan.execnodes.nodes.group_aggregate import Grouping
from stateplan.execnodes.nodes.group_table_aggregate import GroupTableAggregate
from stateplan.execnodes.nodes.phased_aggregates import (
    GlobalGroupAggregate,
    IncrementalGroupAggregate,
    LocalGroupAggregate,
)
from stateplan.runtime.kernels.common.partials import LocalTransform, Partials
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from stateplan.runtime.kernels.group_table_aggregate import GroupTableAggregateKernel
from stateplan.runtime.kernels.phased_aggregates import (
    GlobalGroupAggregateKernel,
    IncrementalGroupAggregateKernel,
    final_call,
)
from stateplan.runtime.operators.base import Options, Rows, Stateful, Stateless, operator_of


@operator_of.register
def group_aggregate(node: Grouping, inputs: Rows, session: Options) -> Stateful:
    return _in_one_phase(GroupAggregateKernel, node, inputs[0], session)


@operator_of.register
def group_table_aggregate(node: GroupTableAggregate, inputs: Rows, session: Options) -> Stateful:
    return _in_one_phase(GroupTableAggregateKernel, node, inputs[0], session)


def _in_one_phase(
    kernel: Callable[..., GroupAggregateKernel], node: Grouping, row: LogicalType, session: Options
) -> Stateful:
    group_kernel = kernel(
        row,
        node.grouping,
        node.agg_calls,
        node.agg_call_need_retractions,
        node.generate_update_before,
        node.need_retraction,
        lists_expire=ttl_configs(node, session)[0].is_plain,
    )
    return Stateful(group_kernel, (node.grouping,))


@operator_of.register
def local_group_aggregate(node: LocalGroupAggregate, inputs: Rows, session: Options) -> Stateless:
    types = field_types(inputs[0])
    partials = Partials.of(
        inputs[0],
        [types[k] for k in node.grouping],
        node.agg_calls,
        node.agg_call_need_retractions,
        node.need_retraction,
    )
    return Stateless((LocalTransform(partials, node.grouping),))


@operator_of.register
def global_group_aggregate(node: GlobalGroupAggregate, inputs: Rows, session: Options) -> Stateful:
    types = field_types(inputs[0])
    partials = Partials.of(
        node.local_agg_input_row_type,
        [types[k] for k in node.grouping],
        node.agg_calls,
        node.agg_call_need_retractions,
        node.need_retraction,
        node.generate_update_before,
        node.STATE_NAMES[0],
        ttl_configs(node, session)[0].is_plain,
    )
    schema = partials.whole_schema()
    return Stateful(GlobalGroupAggregateKernel(partials), (partials.kernel.grouping,), schemas=(schema,))


@operator_of.register
def incremental_group_aggregate(node: IncrementalGroupAggregate, inputs: Rows, session: Options) -> Stateful:
    types = field_types(inputs[0])
    calls, flags = node.partial_original_agg_calls, node.partial_agg_call_need_retractions
    keys = [types[k] for k in node.partial_agg_grouping]
    partials = Partials.of(
        node.partial_local_agg_input_row_type,
        keys,
        calls,
        flags,
        node.partial_agg_need_retraction,
        state_name=node.STATE_NAMES[0],
        lists_expire=ttl_configs(node, session)[0].is_plain,
    )
    row = row_type([(f"f{i}", t) for i, t in enumerate([*keys, *(c.type for c in calls)])])
    final = Partials.of(
        row,
        [types[k] for k in node.final_agg_grouping],
        tuple(final_call(c, len(keys) + i) for i, c in enumerate(calls)),
        flags,
        node.partial_agg_need_retraction,
    )
    final_keys = tuple(node.partial_agg_grouping.index(k) for k in node.final_agg_grouping)
    kernel = IncrementalGroupAggregateKernel(partials, final, final_keys)
    return Stateful(kernel, (partials.kernel.grouping,), schemas=(partials.whole_schema(),))
