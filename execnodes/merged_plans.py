"""Several plans as one, in which operators that do the same run once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from stateplan.common.errors import OptionError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.sink import Sink


@dataclass(frozen=True)
class MergedPlan:
    """Several plans as one.

    Attributes:
        graph: the one.
        places: per plan, the id in ``graph`` of each of its nodes.
    """

    graph: ExecGraph
    places: Sequence[Mapping[int, int]]


def merge_graphs(graphs: Sequence[ExecGraph]) -> MergedPlan:
    """One graph that does what all of them do, each operator once for all in which it works alike. Nodes of one graph
    stay apart."""
    nodes: list[ExecNode] = []
    edges: list[tuple[int, int]] = []
    ids_by_key: dict[tuple[object, ...], list[int]] = {}
    places: list[dict[int, int]] = []
    for number, graph in enumerate(graphs):
        place: dict[int, int] = {}
        for node in graph.nodes:
            inputs = tuple(place[source.id] for source in graph.inputs(node))
            sink_number = number if isinstance(node, Sink) else None
            unnumbered = node.replace(id=0, stateplan=None).to_json()
            ids = ids_by_key.setdefault((json.dumps(unnumbered, sort_keys=True), inputs, sink_number), [])
            node_id = next((number for number in ids if number not in place.values()), None)
            if node_id is None:
                node_id = len(nodes) + 1
                ids.append(node_id)
                nodes.append(node.replace(id=node_id, stateplan=None))
                edges += [(source, node_id) for source in inputs]
            place[node.id] = node_id
        places.append(place)
    return MergedPlan(ExecGraph(graphs[0].flink_version, nodes, edges), places)


def require_keys(graph: ExecGraph) -> None:
    """Raises OptionError OPT169, when a sink gets updates and nothing distinguishes its rows."""
    for node in graph.sinks:
        if isinstance(node, Sink) and node.gets_upserts and not node.row_key:
            raise OptionError("OPT169.no_primary_key", name=node.dynamic_table_sink.table.summary)
