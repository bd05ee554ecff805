"""Every plan that Flink made loads, and is written again as Flink wrote it, key order included."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from stateplan.execnodes.flink import FLINK_NODES
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import TimeBoundNode, own_fields
from stateplan.execnodes.nodes.opaque import OpaqueNode
from stateplan.execnodes.registry import node_classes
from tests.execnodes.node_plans import text, without_empty


def golden(shared: Path) -> list[Path]:
    found = sorted(shared.glob("cases/*/plan.json"))
    assert len(found) > 20
    return found


def restored(shared: Path) -> list[Path]:
    found = sorted(shared.glob("plans/*/*.json"))
    assert len(found) > 100
    return found


def test_plans_of_this_version_are_rebuilt_exactly(shared: Path) -> None:
    for path in golden(shared):
        data = json.loads(path.read_text())
        graph = ExecGraph.from_json(data, strict_unknown=True)
        assert text(graph.to_json()) == text(data), path


def test_plans_of_older_versions_are_rebuilt_in_this_versions_layout(shared: Path) -> None:
    for path in restored(shared):
        data = json.loads(path.read_text())
        graph = ExecGraph.from_json(data, strict_unknown=True)
        assert text(without_empty(graph.to_json())) == text(without_empty(data)), path


def test_every_node_can_be_described(shared: Path) -> None:
    for path in golden(shared) + restored(shared):
        graph = ExecGraph.from_json(json.loads(path.read_text()))
        for node in graph.nodes:
            assert graph.describe(node), path
            assert not isinstance(node, OpaqueNode) or "not supported yet" in graph.describe(node)


def test_state_names_are_those_flink_writes(shared: Path) -> None:
    seen: Counter[str] = Counter()
    for path in golden(shared) + restored(shared):
        graph = ExecGraph.from_json(json.loads(path.read_text()))
        for node in graph.nodes:
            names = tuple(entry.name for entry in node.states)
            assert names in ((), node.state_names), (path, node.type)
            seen[node.name] += bool(names)
    stateful = {name for name, count in seen.items() if count}
    assert stateful <= {name for (name, _), cls in node_classes().items() if cls.STATE_NAMES}
    assert len(stateful) > 8


OWN_NODES = {"stream-exec-group-table-aggregate"}
"""Nodes that Flink does not write to plans."""

OWN_STATES = ("stream-exec-multi-join", "stream-exec-process-table-function", "stream-exec-temporal-join")
"""Nodes whose states are not, or not all, named in Flink's metadata."""


def test_the_table_of_nodes_is_complete(shared: Path) -> None:
    facts = json.loads((shared / "execnodes-2.3.0.json").read_text())
    of_flink = {m["name"] for entry in facts for m in entry["metadata"]}
    here = set(FLINK_NODES) | {name for name, _ in node_classes()}
    assert of_flink - here == set(), "add these nodes to FLINK_NODES in execnodes/flink.py"
    assert here - of_flink == OWN_NODES, "nodes that Flink does not have belong in OWN_NODES"
    common = {"id", "type", "configuration", "inputProperties", "outputType", "description", "state"}
    for entry in facts:
        name = entry["metadata"][0]["name"]
        keys = {p.split(":")[0] for p in entry["jsonCreator"]} | set(entry["jsonProperties"])
        versions = {m["version"] for m in entry["metadata"]}
        if name in FLINK_NODES:
            row = FLINK_NODES[name]
            assert (set(row.versions), set(row.fields)) == (versions, keys - common), name
            assert entry["stateNames"] == []
            continue
        classes = {version: cls for (n, version), cls in node_classes().items() if n == name}
        assert set(classes) == versions, name
        for cls in classes.values():
            own = {key for attribute, key, _, _ in cls.layout() if attribute in own_fields(cls)}
            assert own - {"state"} == keys - common, name
            assert ("state" in own) == bool(cls.STATE_NAMES), name
            ours_alone = name in OWN_STATES or issubclass(cls, TimeBoundNode)
            assert list(cls.STATE_NAMES) == entry["stateNames"] or (ours_alone and not entry["stateNames"]), name
