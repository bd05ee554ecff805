"""Each version of each node keeps reading the plans that were frozen for it.

A frozen plan is never made again for an old version: it stands for the plan files that users have.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.registry import node_classes
from tests.execnodes.node_plans import FROZEN, text, without_empty

PLANS = sorted(FROZEN.glob("*/*.json"))


def test_every_registered_node_has_a_frozen_plan() -> None:
    wanted = {f"{name}_{version}" for name, version in node_classes()}
    present = {path.parent.name for path in PLANS}
    assert wanted - present == set(), "freeze a plan under tests/frozen/<node>_<version>/"
    assert present - wanted == set(), "plans of nodes that are not registered"


@pytest.mark.parametrize("path", PLANS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_frozen_plan_loads_and_is_rebuilt(path: Path) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    graph = ExecGraph.from_json(data)
    assert path.parent.name in {node.type for node in graph.nodes}
    assert text(without_empty(graph.to_json())) == text(without_empty(data))
    if not path.parent.name.endswith(("scan_1", "sink_1")):
        assert text(graph.to_json()) == text(data)


def test_plans_without_state_fall_back_to_the_option() -> None:
    path = FROZEN / "stream-exec-sink_1" / "retract-without-state.json"
    graph = ExecGraph.from_json(json.loads(path.read_text(encoding="utf-8")))
    (node,) = [node for node in graph.nodes if node.title == "group-aggregate"]
    assert node.states == ()
    assert node.ttls() == (0,)
    assert node.ttls({"table.exec.state.ttl": "36 h"}) == (129_600_000,)
