"""What a uid depends on, and what it survives."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from stateplan.execnodes.fingerprint import assign_uids, fingerprints, uids
from stateplan.execnodes.graph import ExecGraph
from stateplan.session.environment import TableEnvironment
from tests.execnodes.node_plans import aggregate_plan, edited, frozen, join_plan

Plan = dict[str, Any]


def by_id(plan: Plan) -> dict[int, str]:
    return uids(ExecGraph.from_json(plan))


def of_type(plan: Plan, title: str) -> list[str]:
    graph = ExecGraph.from_json(plan)
    names = uids(graph)
    return [names[node.id] for node in graph.nodes if node.title == title]


def renumbered(plan: Plan) -> Plan:
    out = copy.deepcopy(plan)
    for node in out["nodes"]:
        node["id"] += 100
    for edge in out["edges"]:
        edge["source"], edge["target"] = edge["source"] + 100, edge["target"] + 100
    return out


def shuffled(plan: Plan) -> Plan:
    out = copy.deepcopy(plan)
    random.Random(3).shuffle(out["nodes"])
    return out


def test_uids_are_short_and_distinct() -> None:
    names = by_id(join_plan())
    assert len(set(names.values())) == len(names)
    assert all(len(uid) == 12 and int(uid, 16) >= 0 for uid in names.values())


def test_uids_do_not_change_between_releases() -> None:
    """A change here separates every checkpoint from its state: say so in the changelog, and migrate."""
    assert by_id(join_plan()) == EXPECTED


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/nodes/4/state/0/ttl", "1 h"),
        ("/nodes/4/state", []),
        ("/nodes/4/description", "something else"),
        ("/nodes/4/configuration", {"table.exec.state.ttl": "5 d"}),
        ("/nodes/4/stateplan", {"uid": "x"}),
        ("/nodes/0/scanTableSource/table/resolvedTable/options/path", "/elsewhere"),
        ("/nodes/0/scanTableSource/table/resolvedTable/comment", "new"),
        (
            "/nodes/0/scanTableSource/table/resolvedTable/schema/columns/-",
            {"name": "late", "dataType": "INT"},
        ),
        ("/nodes/0/type", "stream-exec-table-source-scan_1"),
        ("/nodes/6/type", "stream-exec-sink_1"),
        ("/flinkVersion", "2.2"),
    ],
)
def test_what_does_not_matter(pointer: str, value: Any) -> None:
    assert by_id(edited(join_plan(), pointer, value)) == by_id(join_plan())


@pytest.mark.parametrize("change", [renumbered, shuffled])
def test_numbers_and_order_do_not_matter(change: Callable[[Plan], Plan]) -> None:
    assert sorted(by_id(change(join_plan())).values()) == sorted(by_id(join_plan()).values())


def test_names_of_fields_do_not_matter() -> None:
    plan = join_plan()
    for position in (4, 5):
        plan["nodes"][position]["outputType"] = plan["nodes"][position]["outputType"].replace("name", "renamed")
    assert by_id(plan) == by_id(join_plan())


@pytest.mark.parametrize(
    ("pointer", "value", "changed"),
    [
        ("/nodes/4/joinSpec/joinType", "LEFT", {5, 6, 7}),
        ("/nodes/4/joinSpec/filterNulls", [False], {5, 6, 7}),
        ("/nodes/4/rightUpsertKeys", [], {5, 6, 7}),
        ("/nodes/3/inputProperties/0/requiredDistribution/keys", [1], {4, 5, 6, 7}),
        ("/nodes/0/scanTableSource/table/identifier", "`a`.`b`.`c`", {1, 2, 5, 6, 7}),
        ("/nodes/5/projection/0/inputIndex", 1, {6, 7}),
        ("/nodes/6/dynamicTableSink/table/identifier", "`a`.`b`.`c`", {7}),
    ],
)
def test_what_matters(pointer: str, value: Any, changed: set[int]) -> None:
    before, after = by_id(join_plan()), by_id(edited(join_plan(), pointer, value))
    assert {i for i in before if before[i] != after[i]} == changed


@pytest.mark.parametrize(
    ("pointer", "value", "same"),
    [
        ("/nodes/2/aggCalls/0/name", "other", True),
        ("/nodes/2/generateUpdateBefore", True, True),
        ("/nodes/2/aggCalls/0/distinct", True, False),
        ("/nodes/2/aggCalls/0/filterArg", 0, False),
        ("/nodes/2/needRetraction", False, False),
        ("/nodes/2/aggCallNeedRetractions", [False, False], False),
    ],
)
def test_aggregates(pointer: str, value: Any, same: bool) -> None:
    before = of_type(aggregate_plan(), "group-aggregate")
    assert (of_type(edited(aggregate_plan(), pointer, value), "group-aggregate") == before) is same


def test_sides_of_a_join_matter_and_inputs_of_a_union_do_not() -> None:
    graph = ExecGraph.from_json(join_plan())
    turned_join = ExecGraph("2.3", graph.nodes, graph.edges[::-1])
    assert fingerprints(turned_join)[5] != fingerprints(graph)[5]
    union = frozen("stream-exec-union_1", "union-all")
    turned = {**union, "edges": union["edges"][::-1]}
    assert of_type(turned, "union") == of_type(union, "union")


def doubled() -> Plan:
    """The same query into two tables, each with its own operators."""
    plan, second = join_plan(), renumbered(join_plan())
    second["nodes"][6]["dynamicTableSink"]["table"]["identifier"] = "`a`.`b`.`other`"
    return {**plan, "nodes": plan["nodes"] + second["nodes"], "edges": plan["edges"] + second["edges"]}


def test_twins_are_told_apart_by_what_reads_them() -> None:
    plan = doubled()
    graph = ExecGraph.from_json(plan)
    prints, names = fingerprints(graph), uids(graph)
    assert prints[5] == prints[105]
    assert {names[5], names[105]} == {prints[5], f"{prints[5]}-2"}
    assert len(set(names.values())) == len(graph.nodes)
    assert uids(ExecGraph.from_json(shuffled(plan))) == names
    turned = {**plan, "nodes": plan["nodes"][7:] + plan["nodes"][:7]}
    assert uids(ExecGraph.from_json(turned)) == names


def test_twins_that_mean_the_same_in_every_way_go_by_order() -> None:
    plan = doubled()
    plan["nodes"][13]["dynamicTableSink"] = plan["nodes"][6]["dynamicTableSink"]
    names = by_id(plan)
    assert [names[7], names[107]] == [names[7], f"{names[7]}-2"]


def test_uids_are_written_into_the_plan() -> None:
    plan = edited(join_plan(), "/nodes/6/stateplan", {"sql": "SELECT 1", "uid": "old"})
    graph = assign_uids(ExecGraph.from_json(plan))
    names = by_id(join_plan())
    assert {node.id: (node.stateplan or {})["uid"] for node in graph.nodes} == names
    assert graph.node(7).to_json()["stateplan"] == {"sql": "SELECT 1", "uid": names[7]}
    assert list(graph.node(5).to_json())[-1] == "stateplan"
    assert assign_uids(graph) == graph


EXPECTED = {
    1: "8fbeca14991a",
    2: "711042022db8",
    3: "c4305bc8bd21",
    4: "dfba536cca1f",
    5: "72349633a4a3",
    6: "08e5751030f0",
    7: "13852bfecbb3",
}


def test_the_number_of_an_outer_row_means_nothing() -> None:
    """Flink counts references over all statements of a session, so it is another one after other statements."""
    tables = "CREATE TABLE t (k INT, xs ARRAY<INT>) WITH ('connector' = 'datagen')"
    query = "SELECT x, COUNT(*) FROM t CROSS JOIN UNNEST(t.xs) AS u (x) GROUP BY x"
    plans = []
    for before in ([], ["CREATE VIEW v AS SELECT x FROM t CROSS JOIN UNNEST(t.xs) AS u (x)"]):
        env = TableEnvironment.create()
        for statement in [tables, "CREATE TABLE s (x INT, n BIGINT) WITH ('connector' = 'print')", *before]:
            env.execute_sql(statement)
        plans.append(json.loads(env.compile_plan_sql(f"INSERT INTO s {query}").as_json_string()))
    assert ["$cor0" in json.dumps(plan) for plan in plans] == [True, False]
    assert by_id(plans[0]) == by_id(plans[1])
