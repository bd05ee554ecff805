"""The two examples of FLIP-292 through the session: compiled, looked at, edited, explained. Nothing is run."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from stateplan.common.errors import StateplanError
from stateplan.execnodes.graph import ExecGraph
from stateplan.plans.document import PlanDocument
from stateplan.session.environment import TableEnvironment
from stateplan.session.restore import restore
from stateplan.session.results import ResultKind
from stateplan.session.script import read_script

TABLES = """
SET 'table.exec.state.ttl' = '1 d';
CREATE TABLE orders (order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT, arrived AS PROCTIME())
  WITH ('connector' = 'filesystem', 'path' = '/data/orders', 'format' = 'json');
CREATE TABLE logistics (order_id BIGINT, target STRING)
  WITH ('connector' = 'filesystem', 'path' = '/data/logistics', 'format' = 'json');
CREATE TABLE product_stats (product_id BIGINT, buyers BIGINT, orders BIGINT, items INT) WITH ('connector' = 'print');
CREATE TABLE tracking (order_id BIGINT, num INT, target STRING) WITH ('connector' = 'print');
CREATE VIEW deduplicated AS
  SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY arrived ASC) AS n FROM orders) WHERE n = 1;
"""
STATS = """INSERT INTO product_stats
SELECT product_id, COUNT(DISTINCT user_id), COUNT(order_id), SUM(num) FROM deduplicated GROUP BY product_id"""
TRACKING = """INSERT INTO tracking SELECT /*+ STATE_TTL('o' = '7 d', 'l' = '12 h') */ o.order_id, o.num, l.target
FROM orders AS o JOIN logistics AS l ON o.order_id = l.order_id"""


@pytest.fixture
def env() -> TableEnvironment:
    env = TableEnvironment.create()
    for statement in read_script(TABLES):
        env.execute_statement(statement)
    return env


def states(document: PlanDocument) -> dict[str, str]:
    """State name to TTL, over all operators."""
    nodes = json.loads(document.text)["nodes"]
    return {state["name"]: state["ttl"] for node in nodes for state in node.get("state", ())}


def types(document: PlanDocument) -> list[str]:
    return [node.type.removeprefix("stream-exec-") for node in document.graph.nodes]


def test_example_1_has_two_operators_with_a_ttl_each(env: TableEnvironment, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    assert env.execute_sql(f"COMPILE PLAN '{file}' FOR {STATS};").kind is ResultKind.SUCCESS
    document = PlanDocument.load(str(file))
    assert types(document) == [
        "table-source-scan_2",
        "calc_1",
        "exchange_1",
        "deduplicate_1",
        "calc_1",
        "exchange_1",
        "group-aggregate_1",
        "sink_2",
    ]
    assert states(document) == {"deduplicateState": "1 d", "groupAggregateState": "1 d"}
    assert document.facts is not None
    assert document.facts.sql == STATS
    assert set(document.facts.schema_hashes) == {
        f"`default_catalog`.`default_database`.`{name}`" for name in ("orders", "product_stats")
    }


def test_the_edited_plan_is_explained_and_fits_the_session(env: TableEnvironment, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    env.execute_sql(f"COMPILE PLAN '{file}' FOR {STATS}")
    file.write_text(file.read_text().replace('"1 d"', '"1 h"', 1))
    document = PlanDocument.load(str(file))
    assert states(document) == {"deduplicateState": "1 h", "groupAggregateState": "1 d"}
    [(text,)] = env.execute_sql(f"EXPLAIN PLAN '{file}'").rows
    assert "Deduplicate(" in str(text)
    assert "deduplicateState" in str(text)
    restored = restore(document, env.catalog, env.get_config().to_dict())
    assert restored.graph == document.graph
    assert restored.notes == ()


def test_example_2_takes_a_ttl_for_each_side_from_its_hint(env: TableEnvironment) -> None:
    document = env.compile_plan_sql(TRACKING).document
    assert states(document) == {"leftState": "7 d", "rightState": "12 h"}
    assert "join_1" in types(document)


def test_both_examples_as_one_plan(env: TableEnvironment) -> None:
    plan = env.create_statement_set().add_insert_sql(STATS).add_insert_sql(TRACKING).compile_plan()
    assert types(plan.document).count("sink_2") == 2
    assert len(states(plan.document)) == 4
    assert plan.explain().count("\nSink(") == 2


def test_compiling_twice_gives_the_same_bytes(env: TableEnvironment) -> None:
    assert env.compile_plan_sql(STATS).as_json_string() == env.compile_plan_sql(STATS).as_json_string()


def test_explaining_a_query_shows_no_sink(env: TableEnvironment) -> None:
    text = env.explain_sql("SELECT order_id, num FROM deduplicated WHERE num > 1")
    assert "\n\n== Optimized Execution Plan ==\nCalc(" in text
    assert "Sink" not in text
    assert "deduplicateState" in text
    assert env.list_tables() == ["deduplicated", "logistics", "orders", "product_stats", "tracking"]


def test_a_changed_table_is_named(env: TableEnvironment, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    env.execute_sql(f"COMPILE PLAN '{file}' FOR {STATS}")
    env.execute_sql("DROP TABLE orders")
    env.execute_sql(
        "CREATE TABLE orders (order_id BIGINT, user_id STRING, product_id BIGINT, num INT, "
        "arrived AS PROCTIME()) WITH ('connector' = 'filesystem', 'path' = '/data/orders', 'format' = 'json')"
    )
    with pytest.raises(StateplanError) as raised:
        env.execute_sql(f"EXECUTE PLAN '{file}'")
    assert str(raised.value).startswith(
        "[CAT053] the table 'default_catalog.default_database.orders' has changed since the plan was compiled: "
        "column 'user_id' was BIGINT, is STRING\n"
        f"  --> {file}, line 8, column 24"
    )


def test_an_options_hint_of_a_temporary_table_reaches_the_job(
    env: TableEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    env.execute_sql(
        "CREATE TEMPORARY TABLE recent (a INT) WITH ('connector' = 'filesystem', 'path' = '/a', 'format' = 'json')"
    )
    env.execute_sql("CREATE TABLE `out` (a INT) WITH ('connector' = 'print')")
    seen: list[str] = []

    def start(document: PlanDocument, graph: ExecGraph, *rest: object) -> SimpleNamespace:
        seen.append(json.dumps(graph.to_json()))
        return SimpleNamespace(job_id="1", when_over=lambda call: None)

    monkeypatch.setattr(env.session.starter, "_start", start)
    env.execute_sql("INSERT INTO `out` SELECT a FROM recent /*+ OPTIONS('path' = '/b') */")
    assert '"path": "/b"' in seen[0]
    assert '"/b"' not in env.compile_plan_sql("INSERT INTO `out` SELECT a FROM recent").as_json_string()


def test_errors_in_a_query_point_into_the_script(env: TableEnvironment) -> None:
    script = "SET 'pipeline.name' = 'x';\n\nINSERT INTO tracking\nSELECT order_id, nun, 'x'\nFROM orders;"
    with pytest.raises(StateplanError) as raised:
        for statement in read_script(script, "job.sql"):
            env.execute_statement(statement)
    assert "  --> job.sql, line 4, column 18\n  SELECT order_id, nun, 'x'\n                   ^^^\n" in str(
        raised.value
    )
    assert "did you mean 'num'?" in str(raised.value)
