"""Facts of a plan: kept on its sink, read back, refused when they make no sense."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stateplan.common.errors import PlanError
from stateplan.plans.document import PlanDocument
from stateplan.plans.jackson import dumps
from stateplan.plans.plan_metadata import (
    KEY,
    PlanFacts,
    normalize_sql,
    same_sql,
    schema_hash,
    sql_hash,
)
from tests.plans.conftest import DATA

SQL = "INSERT INTO s\n  SELECT /*+ STATE_TTL('a'='1d') */ `x y`, 'it''s -- no comment' FROM a; -- that is all\n"


def strip_facts(data: dict[str, Any]) -> dict[str, Any]:
    """The parsed JSON of a plan without our additions: what Flink would have written."""
    return {**data, "nodes": [{k: v for k, v in node.items() if k != KEY} for node in data["nodes"]]}


def ours(name: str = "two_sinks", sql: str | None = SQL) -> PlanDocument:
    graph = PlanDocument.load(str(DATA / name / "plan.json")).graph
    return PlanDocument.from_graph(graph, PlanFacts.of(sql) if sql else None)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("SELECT a FROM t", "  SELECT\n\ta  FROM t ;;\n", True),
        ("SELECT a FROM t", "SELECT a /* why */ FROM t -- because", True),
        ("SELECT a+b FROM t", "SELECT a + b FROM t", True),
        ("SELECT 'a  b' FROM t", "SELECT 'a b' FROM t", False),
        ("SELECT '--' FROM t", "SELECT '' FROM t", False),
        ("SELECT `a  b` FROM t", "SELECT `a b` FROM t", False),
        ("SELECT 'it''s' FROM t", "SELECT 'it' 's' FROM t", False),
        ("SELECT a < = b FROM t", "SELECT a <= b FROM t", False),
        ("SELECT /*+ STATE_TTL('a'='1d') */ a FROM t", "SELECT /*+ STATE_TTL('a'='2d') */ a FROM t", False),
        ("SELECT /*+ STATE_TTL('a'='1d') */ a FROM t", "SELECT a FROM t", False),
        ("SELECT ab FROM t", "SELECT a b FROM t", False),
        ("SELECT a FROM t", "select a from t", False),
    ],
)
def test_sql_is_compared_without_blanks_and_comments(one: str, other: str, same: bool) -> None:
    assert same_sql(one, other) is same
    assert (sql_hash(one) == sql_hash(other)) is same


def test_normalizing_is_stable() -> None:
    assert normalize_sql(normalize_sql(SQL)) == normalize_sql(SQL)
    assert normalize_sql("SELECT 'unclosed") == "SELECT ' unclosed"
    assert normalize_sql("; ;") == ""


def test_facts_stand_on_the_first_sink_and_uids_on_every_node() -> None:
    document = ours()
    nodes = json.loads(document.text)["nodes"]
    assert [list(n["stateplan"]) for n in nodes if "sink" in n["type"]] == [
        ["uid", "formatVersion", "sql", "sqlHash", "schemaHashes"],
        ["uid"],
    ]
    assert {n["id"]: n["stateplan"]["uid"] for n in nodes} == document.uids
    assert document.recorded_sql == SQL
    assert document.facts.sql_hash == sql_hash("/* same */" + SQL)
    assert document.facts and document.facts.schema_hashes["`default_catalog`.`default_database`.`src`"]
    assert "`c`.`d`.`nope`" not in document.facts.schema_hashes
    assert document.warnings == ()


def test_a_plan_without_known_sql_is_ours_too() -> None:
    document = ours(sql=None)
    assert document.written_by == "stateplan"
    assert document.recorded_sql is None
    assert document.facts.format_version == 1


def test_flinks_plan_has_no_facts() -> None:
    document = PlanDocument.load(str(DATA / "join" / "plan.json"))
    assert document.facts is None
    assert document.recorded_sql is None
    assert document.facts is None


def test_without_our_additions_it_is_flinks_plan() -> None:
    original = (DATA / "two_sinks" / "plan.json").read_text()
    assert dumps(strip_facts(json.loads(ours().text))) == original


def test_compiling_again_replaces_the_facts() -> None:
    again = PlanDocument.from_graph(ours().graph, PlanFacts.of("INSERT INTO t SELECT 1"))
    assert again.recorded_sql == "INSERT INTO t SELECT 1"
    assert again.text.count('"sql"') == 1


def test_edited_sql_is_a_warning() -> None:
    text = ours().text.replace("FROM a;", "FROM b;")
    warnings = PlanDocument.parse(text, "p.json").warnings
    assert [w.message for w in warnings] == ["the recorded SQL was edited; it does not match its hash"]
    assert warnings[0].place.pointer.endswith("/stateplan/sql")


@pytest.mark.parametrize(
    ("facts", "code", "part"),
    [
        ({"formatVersion": 2}, "PLAN080", "later stateplan"),
        ({"formatVersion": 10**30}, "PLAN080", "later stateplan"),
        ({"formatVersion": "1"}, "PLAN081", 'is "1"'),
        ({"formatVersion": True}, "PLAN081", "is true"),
        ({"sql": "SELECT 1"}, "PLAN081", "is missing"),
        ({"formatVersion": 1, "sql": 5}, "PLAN081", "a text"),
        ({"formatVersion": 1, "schemaHashes": []}, "PLAN081", "an object"),
        ({"formatVersion": 1, "schemaHashes": {"a/b": 1}}, "PLAN081", "/schemaHashes/a~1b"),
        ({"formatVersion": 1, "uid": 5}, "PLAN081", "a text"),
        ({"formatVersion": 1, "suppress": ["TTL001"]}, "PLAN081", "an object"),
        ({"formatVersion": 1, "suppress": {"TTL001": 5}}, "PLAN081", "/suppress/TTL001"),
        ({"formatVersion": 1, "sqlHahs": "x"}, "PLAN082", "did you mean 'sqlHash'"),
    ],
)
def test_bad_facts(facts: dict[str, Any], code: str, part: str) -> None:
    plan = json.loads((DATA / "join" / "plan.json").read_text())
    plan["nodes"][6]["stateplan"] = facts
    with pytest.raises(PlanError) as caught:
        PlanDocument.parse(dumps(plan), "p.json")
    assert caught.value.code == code
    assert part in str(caught.value)
    assert caught.value.place.line is not None


def test_a_suppression_does_not_make_a_plan_ours() -> None:
    plan = json.loads((DATA / "join" / "plan.json").read_text())
    for node in plan["nodes"]:
        node["stateplan"] = {"suppress": {"TTL001": "known"}}
    document = PlanDocument.parse(dumps(plan))
    assert (document.written_by, document.facts) == ("Flink", None)
    assert document.graph.nodes[6].stateplan == {"suppress": {"TTL001": "known"}}


def test_facts_stand_on_sinks_only() -> None:
    plan = json.loads(ours("join").text)
    plan["nodes"][0]["stateplan"]["sql"] = "x"
    with pytest.raises(PlanError) as caught:
        PlanDocument.parse(dumps(plan))
    assert (caught.value.code, caught.value.expected) == ("PLAN082", "one of uid, compiledTtl, suppress, lateRows")


def test_schema_hashes_ignore_comments_and_names_of_keys() -> None:
    schema = {"columns": [{"name": "a", "dataType": "INT"}], "primaryKey": {"name": "PK_a", "columns": ["a"]}}
    told = {
        "columns": [{"name": "a", "dataType": "INT", "comment": "x"}],
        "primaryKey": {"name": "k", "columns": ["a"]},
    }
    assert schema_hash(schema) == schema_hash(told)
    assert schema_hash(schema) != schema_hash({"columns": [{"name": "a", "dataType": "BIGINT"}]})
    assert schema_hash(schema) != schema_hash({"columns": schema["columns"]})


@pytest.mark.parametrize("entry", [{"ttl": "x", "from": "hint"}, {"ttl": "1 h"}, None, "1 h"])
def test_bad_additions_to_a_plan_of_flink(entry: object) -> None:
    plan = json.loads((DATA / "join" / "plan.json").read_text())
    plan["nodes"][4]["stateplan"] = {"compiledTtl": [entry]}
    with pytest.raises(PlanError) as caught:
        PlanDocument.parse(dumps(plan), "p.json")
    assert caught.value.code in ("PLAN053", "PLAN081")
    assert caught.value.place is not None
    assert caught.value.place.line is not None


@pytest.mark.parametrize("column", ["odrer_id", ""])
def test_a_primary_key_is_of_columns(column: str) -> None:
    plan = json.loads((DATA / "join" / "plan.json").read_text())
    schema = plan["nodes"][6]["dynamicTableSink"]["table"]["resolvedTable"]["schema"]
    schema["primaryKey"] = {"name": "PK", "type": "PRIMARY_KEY", "columns": [column]}
    with pytest.raises(PlanError) as caught:
        PlanDocument.parse(dumps(plan), "p.json")
    assert caught.value.code == "PLAN074"
    pointer = "/nodes/6/dynamicTableSink/table/resolvedTable/schema/primaryKey/columns/0"
    assert caught.value.place is not None
    assert caught.value.place.pointer == pointer
    assert caught.value.hint == ("did you mean 'order_id'?" if column else None)
