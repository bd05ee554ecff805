"""The graph: order, neighbours, equality."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest

from stateplan.common.errors import PlanError
from stateplan.common.types import BIGINT, STRING, row_type
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.calc import Calc
from stateplan.execnodes.nodes.exchange import Exchange
from stateplan.execnodes.specs import InputProperty, hash_distribution
from stateplan.functions.rex import InputRef
from tests.execnodes.node_plans import frozen, join_plan


def test_neighbours_are_in_edge_order() -> None:
    graph = ExecGraph.from_json(join_plan())
    assert [node.id for node in graph.inputs(5)] == [2, 4]
    assert [node.id for node in graph.consumers(graph.node(5))] == [6]
    assert [len(row.fields) for row in graph.input_types(5)] == [1, 2]
    assert [node.id for node in graph.sinks] == [7]
    turned = ExecGraph("2.3", graph.nodes, graph.edges[::-1])
    assert [node.id for node in turned.inputs(5)] == [4, 2]


def test_a_node_may_feed_another_twice() -> None:
    plan = frozen("stream-exec-union_1", "union-all")
    union = next(n["id"] for n in plan["nodes"] if n["type"] == "stream-exec-union_1")
    for edge in plan["edges"]:
        if edge["target"] == union:
            edge["source"] = 1
    plan["nodes"] = [n for n in plan["nodes"] if n["id"] == 1 or n["id"] >= union]
    plan["edges"] = [e for e in plan["edges"] if e["target"] >= union]
    graph = ExecGraph.from_json(plan)
    assert [node.id for node in graph.inputs(union)] == [1, 1]
    assert [node.id for node in graph.consumers(1)] == [union, union]


def test_nodes_are_sorted_and_written_back_as_listed() -> None:
    plan = join_plan()
    shuffled = {**plan, "nodes": plan["nodes"][:]}
    random.Random(7).shuffle(shuffled["nodes"])
    graph = ExecGraph.from_json(shuffled)
    place = {node.id: i for i, node in enumerate(graph.nodes)}
    assert all(place[source] < place[target] for source, target in graph.edges)
    assert json.dumps(graph.to_json()) == json.dumps(shuffled)
    assert graph.pointer(5) == f"/nodes/{[n['id'] for n in shuffled['nodes']].index(5)}"
    assert [n.id for n in ExecGraph.from_json(plan).nodes] == [1, 2, 3, 4, 5, 6, 7]


def test_a_missing_node_is_an_error() -> None:
    with pytest.raises(PlanError, match="no node 99") as caught:
        ExecGraph.from_json(join_plan()).node(99)
    assert caught.value.expected == "one of 1, 2, 3, 4, 5, 6, 7"


def test_equality_is_that_of_the_json() -> None:
    graph = ExecGraph.from_json(join_plan())
    assert graph == ExecGraph.from_json(join_plan())
    renamed = graph.replace([graph.node(5).replace(description="other")])
    assert renamed != graph
    assert renamed.node(5).description == "other"
    assert renamed.node(6) is graph.node(6)


def test_nodes_can_be_made_in_code() -> None:
    row = row_type([("id", BIGINT), ("name", STRING)])
    calc = Calc(
        id=3,
        projection=(InputRef(BIGINT, 0),),
        input_properties=(InputProperty(),),
        output_type=row_type([("id", BIGINT)]),
        description="Calc(select=[id])",
    )
    assert list(calc.to_json()) == [
        "id", "type", "projection", "condition", "inputProperties", "outputType", "description",
    ]  # fmt: skip
    assert (calc.type, calc.to_json()["condition"]) == ("stream-exec-calc_1", None)
    exchange = Exchange(id=2, input_properties=(hash_distribution((1,)),), output_type=row)
    assert exchange.to_json()["inputProperties"][0] == {
        "requiredDistribution": {"type": "HASH", "keys": [1]},
        "damBehavior": "PIPELINED",
        "priority": 0,
    }
    single = Exchange(id=2, input_properties=(hash_distribution(()),), output_type=row)
    assert single.to_json()["inputProperties"][0]["requiredDistribution"] == {"type": "SINGLETON"}
    with pytest.raises(ValueError, match="frozen"):
        setattr(calc, "id", 4)  # noqa: B010 - an assignment does not type-check


def test_loading_takes_time_in_proportion_to_the_plan() -> None:
    plan = join_plan()
    nodes, edges = [], []
    for copy in range(72):
        for node in plan["nodes"]:
            renamed = node["outputType"].replace("name", f"name{copy}")
            nodes.append({**node, "id": node["id"] + 7 * copy, "outputType": renamed})
        edges += [{**e, "source": e["source"] + 7 * copy, "target": e["target"] + 7 * copy} for e in plan["edges"]]

    def cost(data: dict[str, Any]) -> float:
        before = time.process_time()
        for _ in range(504 // len(data["nodes"])):
            ExecGraph.from_json(data)
        return time.process_time() - before

    large = {"flinkVersion": "2.3", "nodes": nodes, "edges": edges}
    assert len(ExecGraph.from_json(large).nodes) == 504
    assert min(cost(large) for _ in range(3)) < 3 * min(cost(plan) for _ in range(3))
