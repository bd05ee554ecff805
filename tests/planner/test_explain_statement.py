"""EXPLAIN of statements with details, against what Flink 2.3 printed for the same scripts."""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.planner.dialect import nodes
from stateplan.session.environment import ExplainDetail, TableEnvironment
from stateplan.session.script import ScriptStatement, read_script
from tests.planner.conftest import TABLES, numbered
from tests.support.cases import IN_SCOPE, SESSION, Case

_SECTIONS = re.compile(
    r"== Abstract Syntax Tree ==\n(.*?)\n"
    r"(== Optimized Physical Plan.*? ==\n.*?)\n"
    r"== Optimized Execution Plan ==\n(.*)",
    re.S,
)

NOT_OURS = {"from_changelog_retract": "Flink has no advice on a process table function: the statement fails there"}


def explained(script: str, *details: str) -> str:
    env = TableEnvironment.create(SESSION)
    *before, last = read_script(script)
    for statement in before:
        env.execute_statement(statement)
    node = nodes.Explain(this=last.node, details=list(details))
    return str(env.execute_statement(ScriptStatement(node, last.text, last.source)).rows[0][0])


def one(statement: str, *details: str) -> str:
    return explained(f"{TABLES}{statement}", *details)


@pytest.mark.parametrize("name", [n for n in IN_SCOPE if n not in NOT_OURS])
def test_the_physical_plan_with_changes_and_advice_is_flinks(name: str, shared: Path) -> None:
    case = Case(shared / "cases" / name)
    theirs = _SECTIONS.search(case.text("explain.txt"))
    ours = _SECTIONS.search(explained(case.text("script.sql"), "CHANGELOG_MODE", "PLAN_ADVICE"))
    assert theirs is not None
    assert ours is not None
    assert numbered(ours[1]) == numbered(theirs[1])
    assert ours[2] == theirs[2]
    assert ours[3].partition("\n== State ==")[0].rstrip() == theirs[3].rstrip()


def physical_plan(text: str) -> str:
    """What EXPLAIN prints from the physical plan on."""
    before, title, rest = text.partition("== Optimized Physical Plan")
    assert before.startswith("== Abstract Syntax Tree ==\nLogical")
    return title + rest


def test_without_details_there_are_the_sections_of_flink_and_the_state() -> None:
    text = one("INSERT INTO snk SELECT a, COUNT(*) FROM t GROUP BY a")
    titles = ["Abstract Syntax Tree", "Optimized Physical Plan", "Optimized Execution Plan", "State"]
    assert re.findall(r"^== (.*) ==$", text, re.M) == titles
    assert "changelogMode" not in text and "advice" not in text


def test_no_section_tells_a_secret() -> None:
    hint = "/*+ OPTIONS('username' = 'u', 'password' = 'secret-1') */"
    text = one(f"SELECT b FROM upserted {hint} WHERE CAST(b AS STRING) <> 'postgres://u:secret-2@h/d'")
    assert "secret-" not in text
    assert text.count("OPTIONS") == 3


def test_changes_alone() -> None:
    """As Flink printed it for the same statement and the same kinds of tables."""
    text = one("INSERT INTO snk SELECT cdc.id, u.x FROM cdc JOIN u ON cdc.id = u.a AND u.x > 3", "CHANGELOG_MODE")
    text = physical_plan(text)
    lines = text.splitlines()
    assert lines[0] == "== Optimized Physical Plan =="
    assert lines[1].endswith(", changelogMode=[NONE])")
    assert "where=[=(id, a)]" in text
    assert "where=[>(x, 3)]" in text or "filter=[>(x, 3)]" in text
    assert "where=[(id = a)]" in text.partition("== Optimized Execution Plan ==")[2]
    assert "advice" not in text.lower()


def test_a_query_has_no_sink() -> None:
    text = physical_plan(one("SELECT a, COUNT(*) FROM t GROUP BY a", "CHANGELOG_MODE", "PLAN_ADVICE"))
    assert text.startswith("== Optimized Physical Plan With Advice ==\nGroupAggregate(advice=[1], groupBy=[a], ")
    assert "Sink(" not in text
    assert text.count("\n== ") == 2


@pytest.mark.parametrize(
    ("query", "modes"),
    [
        ("SELECT a, COUNT(*) FROM t GROUP BY a", ["I,UA", "I"]),
        (
            "SELECT a, MAX(c) FROM (SELECT a, b, COUNT(*) AS c FROM t GROUP BY a, b) GROUP BY a",
            ["I,UA,D", "I,UB,UA", "I"],
        ),
        (
            "SELECT t.a, x.c FROM t LEFT JOIN (SELECT a, COUNT(*) AS c FROM t GROUP BY a) x ON t.a = x.a",
            ["I,UA,D", "I", "I,UA", "I"],
        ),
        (
            "SELECT a, b FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) n FROM t) WHERE n <= 2",
            ["I,UA,D", "I"],
        ),
    ],
)
def test_nobody_asks_a_query_for_the_rows_before_updates(query: str, modes: list[str]) -> None:
    """As Flink 2.3 printed them, from the top, each once for operators that have the same."""
    physical = one(query, "CHANGELOG_MODE").partition("\n== Optimized Execution Plan ==")[0]
    found = re.findall(r"changelogMode=\[([^\]]*)\]", physical)
    assert [mode for mode, _ in groupby(found)] == modes


def test_several_sinks() -> None:
    script = (
        "STATEMENT SET BEGIN INSERT INTO snk SELECT a, COUNT(*) FROM t GROUP BY a; "
        "INSERT INTO keyed SELECT a, MAX(b) FROM t GROUP BY a; END"
    )
    text = one(script, "PLAN_ADVICE")
    assert text.count("LogicalSink(") == 2
    physical = physical_plan(text).partition("\n== Optimized Execution Plan ==")[0]
    assert physical.count("Sink(") == 2
    assert physical.count("GroupAggregate(advice=[1], ") == 2
    assert physical.count("advice[1]: ") == 1


def test_advice_goes_once_it_is_followed() -> None:
    on = (
        "SET 'table.exec.mini-batch.enabled' = 'true'; SET 'table.exec.mini-batch.allow-latency' = '1 s';"
        "SET 'table.exec.mini-batch.size' = '100';"
    )
    query = "INSERT INTO snk SELECT a, COUNT(*) FROM t GROUP BY a"
    followed = one(f"{on}{query}", "PLAN_ADVICE")
    assert "\n\nNo available advice...\n\n" in followed
    assert "LocalGroupAggregate(" in followed
    halfway = one(f"{on}SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE';{query}", "PLAN_ADVICE")
    assert (
        "\nadvice[1]: [ADVICE] You might want to enable local-global two-phase optimization by configuring "
        "('table.optimizer.agg-phase-strategy' to 'AUTO').\n" in halfway
    )


def test_functions_that_do_not_merge_get_no_advice() -> None:
    text = one("SELECT a, FIRST_VALUE(b) FROM t GROUP BY a", "PLAN_ADVICE")
    assert "No available advice..." in text


def test_the_job_of_a_statement() -> None:
    text = one("INSERT INTO snk SELECT a, COUNT(*) FROM t GROUP BY a", "JSON_EXECUTION_PLAN")
    job = json.loads(text.partition("== Physical Execution Plan ==\n")[2].partition("\n\n== State ==")[0])
    assert [n["type"].partition("[")[0] for n in job["nodes"]] == ["Source: t", "GroupAggregate", "Sink: snk"]


def test_hints_on_state_are_shown() -> None:
    text = one("INSERT INTO snk SELECT /*+ STATE_TTL('t' = '1 d') */ a, COUNT(*) FROM t GROUP BY a", "CHANGELOG_MODE")
    assert ", changelogMode=[I,UB,UA], stateTtlHints=[[[STATE_TTL options:[1 d]]]])\n" in text
    assert "groupAggregateState  ttl 1 d  (STATE_TTL hint)" in text


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("EXPLAIN ESTIMATED_COST SELECT a FROM t", "PLAN181"),
        ("EXPLAIN CHANGELOG_MODE, CHANGELOG_MODE SELECT a FROM t", "SQL001"),
        ("EXPLAIN CHANGELOG_MODE, SELECT a FROM t", "SQL001"),
        ("EXPLAIN CHANGELOG_MODE PLAN FOR SELECT a FROM t", "SQL001"),
        ("EXPLAIN CHANGELOG_MODE PLAN p", "SQL001"),
        ("EXPLAIN CHANGELOG_MODE PLAN 'no-such-plan.json'", "PLAN001"),
    ],
)
def test_what_cannot_be_explained(statement: str, code: str) -> None:
    env = TableEnvironment.create(SESSION)
    for before in read_script(TABLES):
        env.execute_statement(before)
    with pytest.raises(StateplanError) as caught:
        env.execute_sql(statement)
    assert caught.value.code == code
    assert caught.value.place is not None


def test_plans_take_details_too(tmp_path: Path) -> None:
    env = TableEnvironment.create(SESSION)
    for before in read_script(TABLES):
        env.execute_statement(before)
    insert = "INSERT INTO snk SELECT a, COUNT(*) FROM t GROUP BY a"
    file = tmp_path / "plan.json"
    env.execute_sql(f"COMPILE PLAN '{file}' FOR {insert}")
    [(text,)] = env.execute_sql(f"EXPLAIN CHANGELOG_MODE, PLAN_ADVICE PLAN '{file}'").rows
    plan = env.compile_plan_sql(insert)
    assert text == plan.explain(ExplainDetail.CHANGELOG_MODE, "plan_advice")
    assert "== Optimized Execution Plan With Advice ==" in str(text)
    assert "changelogMode=[I,UB,UA]" in str(text)
    assert plan.explain(format="mermaid").startswith("flowchart TD")
    assert env.explain_sql(insert, ExplainDetail.JSON_EXECUTION_PLAN).count("== Physical Execution Plan ==") == 1
    both = env.create_statement_set().add_insert_sql(insert).explain("changelog_mode")
    assert physical_plan(both).startswith("== Optimized Physical Plan ==")
