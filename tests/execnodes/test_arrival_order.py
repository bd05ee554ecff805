"""By which fields the changes of an operator are in order, where Flink's plans say so and where they do not."""

from __future__ import annotations

import json

import pytest

from stateplan.common.changelog import updating
from stateplan.execnodes.arrival_order import inputs_out_of_order, is_in_order
from stateplan.execnodes.changelog_modes import changelog_modes
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.join import Join
from stateplan.execnodes.nodes.multi_join import MultiJoin
from stateplan.session.environment import TableEnvironment
from tests.execnodes.node_plans import FROZEN
from tests.support.golden import golden_cases

TABLES = """CREATE TABLE d (id INT, k INT, v BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH
  ('connector'='filesystem', 'path'='d.json', 'format'='debezium-json');
CREATE TABLE e (id INT, k INT, v BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH
  ('connector'='filesystem', 'path'='e.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE n (k INT, name STRING) WITH ('connector'='filesystem', 'path'='n.json', 'format'='json')"""


def graph_of(query: str) -> ExecGraph:
    environment = TableEnvironment.create()
    for statement in TABLES.split(";\n"):
        environment.execute_sql(statement)
    environment.execute_sql("CREATE TABLE o (a INT, b INT) WITH ('connector'='print')")
    return environment.compile_plan_sql(f"INSERT INTO o {query}").document.graph


ANTI = "NOT EXISTS (SELECT 1 FROM n WHERE n.k = d.k)"
TOP = "SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS r FROM d"


@pytest.mark.parametrize(
    ("query", "key", "is_ordered"),
    [
        ("SELECT id, k FROM d", {0}, True),
        ("SELECT id + 1, k FROM d", {0}, True),
        (f"SELECT id, k + 1 FROM d WHERE {ANTI}", {0, 1}, False),
        ("SELECT k, CAST(MAX(id) AS INT) + 1 FROM d GROUP BY k", {0, 1}, True),
        ("SELECT k + 1, CAST(MAX(id) AS INT) FROM d GROUP BY k", {0}, False),
        ("SELECT id, k FROM e", {0}, True),
        ("SELECT k, id FROM e WHERE v > 1", {0}, False),
        (f"SELECT id, k FROM d WHERE {ANTI}", {0}, False),
        (f"SELECT id, k FROM d WHERE {ANTI}", {0, 1}, True),
        ("SELECT k, 1 FROM n WHERE NOT EXISTS (SELECT 1 FROM d WHERE n.k = d.k)", {0}, True),
        ("SELECT k, CAST(MAX(id) AS INT) FROM d GROUP BY k", {0}, True),
        ("SELECT k, CAST(MAX(id) AS INT) FROM d GROUP BY k", {1}, False),
        (f"SELECT id, k FROM ({TOP}) WHERE r < 3", {0}, False),
        (f"SELECT id, k FROM ({TOP}) WHERE r < 3", {0, 1}, True),
        (f"SELECT id, k FROM ({TOP}) WHERE r = 1", {1}, True),
        (f"SELECT CAST(r AS INT), k FROM ({TOP}) WHERE r < 3", {0, 1}, True),
        ("SELECT id, k FROM d LIMIT 3", {0}, True),
        ("SELECT d.id, e.id FROM d JOIN e ON d.k = e.k", {0, 1}, False),
        ("SELECT d.id, e.k FROM d JOIN e ON d.id = e.id", {0}, True),
        ("SELECT d.id, e.k FROM d LEFT JOIN e ON d.k = e.id", {0}, False),
        ("SELECT d.id, d.k FROM d LEFT JOIN e ON d.k = e.id", {0, 1}, True),
        ("SELECT id, k FROM d UNION ALL SELECT id, k FROM e", {0}, False),
    ],
)
def test_which_fields_keep_the_order(query: str, key: set[int], is_ordered: bool) -> None:
    graph = graph_of(query)
    (sink,) = graph.sinks
    (source,) = graph.inputs(sink)
    assert is_in_order(graph, source, frozenset(key), changelog_modes(graph)) == is_ordered


def check_joins(plan: str) -> int:
    """How many upsert keys the joins of a plan have, all of which are in order."""
    graph = ExecGraph.from_json(json.loads(plan))
    modes = changelog_modes(graph)
    count = 0
    for node in graph.nodes:
        if isinstance(node, Join):
            keys = (node.left_upsert_keys, node.right_upsert_keys)
            own = (node.join_spec.left_keys, node.join_spec.right_keys)
            for source, upsert_keys, join_keys in zip(graph.inputs(node), keys, own, strict=True):
                for key in upsert_keys:
                    assert is_in_order(graph, source, frozenset(key).union(join_keys), modes)
                    count += 1
    return count


def test_the_upsert_keys_of_flinks_joins_keep_it() -> None:
    frozen_plans = [path.read_text(encoding="utf-8") for path in sorted(FROZEN.glob("*/*.json"))]
    assert sum(map(check_joins, frozen_plans)) > 5
    assert sum(check_joins(case.plan) for case in golden_cases() if '"stream-exec-join_1"' in case.plan) > 500


MULTI = "SELECT /*+ MULTI_JOIN(x, e, n) */ x.id, x.k FROM {} AS x JOIN e ON x.id = e.id JOIN n ON x.id = n.k"


@pytest.mark.parametrize(
    ("input_", "key", "unordered"),
    [
        ("d", (0,), set()),
        (f"(SELECT * FROM d WHERE {ANTI})", (0,), {0}),
        (f"(SELECT * FROM d WHERE {ANTI})", (0, 1), set()),
        (f"(SELECT * FROM d WHERE {ANTI})", None, set()),
        ("(SELECT id, k FROM e WHERE NOT EXISTS (SELECT 1 FROM n WHERE n.k = e.k))", (0,), {0}),
    ],
)
def test_inputs_of_multi_joins(input_: str, key: tuple[int, ...] | None, unordered: set[int]) -> None:
    graph = graph_of(MULTI.format(input_))
    (join,) = (node for node in graph.nodes if isinstance(node, MultiJoin))
    keys = (() if key is None else (key,), *join.input_unique_keys[1:])
    edited = join.model_copy(update={"input_unique_keys": keys})
    assert inputs_out_of_order(graph, edited, changelog_modes(graph)) == unordered


def test_an_input_without_old_rows_is_left_as_it_is() -> None:
    """What updates without -U is known by its keys alone."""
    graph = graph_of(MULTI.format(f"(SELECT * FROM d WHERE {ANTI})"))
    (join,) = (node for node in graph.nodes if isinstance(node, MultiJoin))
    edited = join.model_copy(update={"input_unique_keys": (((0,),), *join.input_unique_keys[1:])})
    source = graph.inputs(join)[0]
    modes = changelog_modes(graph)
    upserts = updating(update_before=False)
    assert inputs_out_of_order(graph, edited, modes) == {0}
    assert inputs_out_of_order(graph, edited, {**modes, source.id: upserts}) == frozenset()
    assert inputs_out_of_order(graph, edited, {**modes, source.id: None}) == frozenset()
