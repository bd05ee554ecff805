"""Aggregates in two phases as what they are in one, and GROUP BY TUMBLE as what it is with a window function: their
state is the same, under another name.

So a plan is compared with one that was compiled with or without mini-batch, with another strategy for phases, or from
other SQL for the same windows.
"""

from __future__ import annotations

from collections.abc import Iterator

from stateplan.common.types import LogicalType, RowField
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.calc import Calc
from stateplan.execnodes.nodes.exchange import Exchange
from stateplan.execnodes.nodes.group_aggregate import GroupAggregate
from stateplan.execnodes.nodes.phased_aggregates import GlobalGroupAggregate, LocalGroupAggregate
from stateplan.execnodes.nodes.window_aggregates import (
    GlobalWindowAggregate,
    GroupWindowAggregate,
    LocalWindowAggregate,
    WindowAggregate,
)
from stateplan.execnodes.windows import SessionWindow, Windowing, group_windowing
from stateplan.functions.rex import InputRef


def in_one_phase(graph: ExecGraph) -> ExecGraph:
    """A plan whose aggregates in two phases are in one: a projection that adds the key to the row, which is how the
    state of a global phase numbers it, and an aggregate by these fields. Ids stay. GROUP BY TUMBLE or HOP becomes an
    aggregate of the windows of a function."""
    nodes = [new for node in graph.nodes if isinstance(node, _GLOBAL_PHASES) for new in _parts(graph, node)]
    nodes += [new for node in graph.nodes if isinstance(node, GroupWindowAggregate) for new in _windows(node)]
    return graph.replace(nodes) if nodes else graph


def _windows(node: GroupWindowAggregate) -> Iterator[WindowAggregate]:
    """What takes the place of GROUP BY TUMBLE or HOP by event time; nothing for windows of another kind, or that are
    emitted more than once."""
    windowing = group_windowing(node.window, node.grouping)
    if windowing is None or not windowing.is_rowtime or isinstance(windowing.window, SessionWindow) or node.emit:
        return
    yield _window_aggregate(node, node.grouping, windowing)


_GLOBAL_PHASES = GlobalGroupAggregate, GlobalWindowAggregate


def _parts(graph: ExecGraph, node: GlobalGroupAggregate | GlobalWindowAggregate) -> Iterator[ExecNode]:
    """What takes the place of a global phase, its exchange and its local phase; nothing where other operators are
    between them, as with a split DISTINCT."""
    (exchange,) = graph.inputs(node)
    if not isinstance(exchange, Exchange) or len(graph.consumers(exchange)) > 1:
        return
    (local,) = graph.inputs(exchange)
    if len(graph.consumers(local)) > 1:
        return
    (row,) = graph.input_types(local)
    if isinstance(node, GlobalWindowAggregate) and isinstance(local, LocalWindowAggregate):
        yield Calc(
            id=local.id,
            type="stream-exec-calc_1",
            input_properties=local.input_properties,
            output_type=row,
            projection=tuple(InputRef(field.type, i) for i, field in enumerate(row.fields)),
        )
        yield exchange.replace(output_type=row)
        yield _window_aggregate(node, local.grouping, local.windowing)
    if isinstance(node, GlobalGroupAggregate) and isinstance(local, LocalGroupAggregate):
        yield from _group_aggregate(node, exchange, local, row)


def _window_aggregate(
    node: GlobalWindowAggregate | GroupWindowAggregate, grouping: tuple[int, ...], windowing: Windowing
) -> WindowAggregate:
    """The aggregate of windows that takes the place of another one."""
    return WindowAggregate(
        id=node.id,
        type="stream-exec-window-aggregate_1",
        configuration=node.configuration,
        input_properties=node.input_properties,
        output_type=node.output_type,
        grouping=grouping,
        agg_calls=node.agg_calls,
        windowing=windowing,
        named_window_properties=node.named_window_properties,
        need_retraction=node.need_retraction,
        state=node.state,
    )


def _group_aggregate(
    node: GlobalGroupAggregate, exchange: Exchange, local: LocalGroupAggregate, row: LogicalType
) -> Iterator[ExecNode]:
    """What takes the place of both phases and the exchange, over rows of the type ``row``."""
    keys = [row.fields[key].type for key in local.grouping]
    width = len(row.fields)
    keyed_row = LogicalType("ROW", fields=(*row.fields, *(RowField(f"key{i}", t) for i, t in enumerate(keys))))
    projection = (*range(width), *local.grouping)
    yield Calc(
        id=local.id,
        type="stream-exec-calc_1",
        input_properties=local.input_properties,
        output_type=keyed_row,
        projection=tuple(InputRef(keyed_row.fields[i].type, field) for i, field in enumerate(projection)),
    )
    yield exchange.replace(output_type=keyed_row)
    yield GroupAggregate(
        id=node.id,
        type="stream-exec-group-aggregate_1",
        configuration=node.configuration,
        input_properties=node.input_properties,
        output_type=node.output_type,
        grouping=tuple(range(width, width + len(keys))),
        agg_calls=node.agg_calls,
        agg_call_need_retractions=node.agg_call_need_retractions,
        generate_update_before=node.generate_update_before,
        need_retraction=node.need_retraction,
        state=tuple(state.model_copy(update={"name": GroupAggregate.STATE_NAMES[0]}) for state in node.state),
    )
