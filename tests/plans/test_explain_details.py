"""Explain details on plans, against what EXPLAIN of Flink prints for the statements they were compiled from."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stateplan.common.errors import PlanError
from stateplan.plans.document import PlanDocument
from stateplan.plans.explain import explain, node_line, to_json, to_text
from stateplan.plans.job_graph import job_graph
from tests.plans.conftest import DATA


def load(name: str) -> PlanDocument:
    return PlanDocument.load(str(DATA / name / "plan.json"))


def test_changes_stand_behind_each_operator() -> None:
    lines = to_text(explain(load("group_agg"), None, ["changelog_mode"])).splitlines()
    assert lines[0] == "== Optimized Execution Plan =="
    assert lines[1].startswith("Sink(") and lines[1].endswith(", changelogMode=[NONE])")
    aggregate = next(line for line in lines if "GroupAggregate(" in line)
    assert re.search(r", changelogMode=\[I,UB,UA(,D)?\]\)$", aggregate)
    assert next(line for line in lines if "TableSourceScan(" in line).endswith("])")


def test_shared_operators_have_details_once() -> None:
    text = to_text(explain(load("reuse_selfjoin"), None, ["CHANGELOG_MODE"]))
    assert re.search(r"changelogMode=\[I\]\)\(reuse_id=\[1\]\)$", text, flags=re.M)
    assert re.search(r" Reused\(reference_id=\[1\]\)$", text, flags=re.M)


def test_advice_is_flinks(shared: Path) -> None:
    """The words of advice, and which operators it is about, in every case of Flink's; what lint has to say
    comes after it."""
    compared = 0
    for case in sorted(shared.glob("cases/*")):
        theirs = (case / "explain.txt").read_text()
        if "Plan With Advice ==" not in theirs or "[WARNING]" in theirs:
            continue
        advice = theirs.partition("Plan With Advice ==")[2].partition("== Optimized Execution Plan ==")[0]
        options = dict(re.findall(r"^SET '([^']*)' = '([^']*)'", (case / "script.sql").read_text(), flags=re.M))
        ours = to_text(explain(PlanDocument.load(str(case / "plan.json")), options, ["plan_advice"]))
        words = re.findall(r"^advice.*", advice, flags=re.M)
        assert re.findall(r"^advice\[\d+\]: \[ADVICE\].*", ours, flags=re.M) == words
        assert ("GroupAggregate(advice=[1" in ours) == ("GroupAggregate(advice=[1]" in advice), case.name
        compared += 1
    assert compared > 30


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        (
            {},
            "'table.exec.mini-batch.enabled' to 'true', 'table.exec.mini-batch.allow-latency' to a positive long "
            "value, 'table.exec.mini-batch.size' to a positive long value",
        ),
        (
            {"table.exec.mini-batch.allow-latency": "1 s", "table.optimizer.agg-phase-strategy": "one_phase"},
            "'table.exec.mini-batch.enabled' to 'true', 'table.exec.mini-batch.size' to a positive long value, "
            "'table.optimizer.agg-phase-strategy' to 'AUTO'",
        ),
    ],
)
def test_advice_names_what_is_missing(options: dict[str, str], missing: str) -> None:
    text = to_text(explain(load("group_agg"), options, ["plan_advice"]))
    assert (
        f"\nadvice[1]: [ADVICE] You might want to enable local-global two-phase optimization by configuring "
        f"({missing}).\n" in text
    )


def test_no_advice() -> None:
    assert "\n\nNo available advice...\n\n== State ==\n" in to_text(explain(load("join"), None, ["plan_advice"]))


def test_what_lint_finds_is_advice() -> None:
    """Two aggregates, the second of which forgets before the first one takes back."""
    text = to_text(explain(load("two_sinks").set_ttl(8, 0, "1 min"), None, ["plan_advice"]))
    assert re.search(r"^advice\[2\]: \[[A-Z]+\] TTL001 .*\.$", text, flags=re.M)
    assert "GroupAggregate(advice=[1, 2], groupBy=[s]" in text
    assert "GroupAggregate(advice=[1], groupBy=[g]" in text


def test_the_job_graph_leaves_out_how_operators_are_connected() -> None:
    job = job_graph(load("join").graph, {"parallelism.default": "3"})
    assert [(n["id"], n["type"], n["pact"]) for n in job["nodes"]] == [
        (1, "Source: Orders[1]", "Data Source"),
        (3, "Source: Lg[3]", "Data Source"),
        (5, "Join[5]", "Operator"),
        (6, "Calc[6]", "Operator"),
        (7, "Sink: snk[7]", "Data Sink"),
    ]
    join = job["nodes"][2]
    assert join["predecessors"] == [
        {"id": 1, "ship_strategy": "HASH", "side": "second"},
        {"id": 3, "ship_strategy": "HASH", "side": "second"},
    ]
    assert join["contents"].startswith("[5]:Join(joinType=[InnerJoin], ")
    assert {n["parallelism"] for n in job["nodes"]} == {3}
    assert "predecessors" not in job["nodes"][0]


def test_unions_are_no_operators_of_a_job() -> None:
    job = job_graph(load("union").graph)
    assert not [n for n in job["nodes"] if n["type"].startswith("Union")]
    ids = {n["id"] for n in job["nodes"]}
    befores = [[p["id"] for p in n.get("predecessors", [])] for n in job["nodes"]]
    assert all(before in ids for each in befores for before in each)
    assert any(len(each) > 1 for each in befores)


def test_the_job_graph_is_printed_as_flink_prints_json() -> None:
    text = to_text(explain(load("limit"), None, ["json_execution_plan"]))
    section = text.partition("\n== Physical Execution Plan ==\n")[2].partition("\n\n== State ==")[0]
    assert section.startswith('{\n  "nodes" : [ {\n    "id" : 1,\n    "type" : "Source: ')
    assert json.loads(section) == job_graph(load("limit").graph)


def test_json_has_the_details() -> None:
    every = ["changelog_mode", "plan_advice", "json_execution_plan"]
    data = json.loads(json.dumps(to_json(explain(load("group_agg"), None, every))))
    operators = data["trees"][0]
    assert operators[0]["changelogMode"] == ["NONE"]
    assert [a["level"] for a in data["advice"]] == ["ADVICE"]
    about = {o["id"]: o["description"] for o in operators}
    assert all(about[i].startswith("GroupAggregate(") for i in data["advice"][0]["nodes"])
    assert {n["id"] for n in data["executionPlan"]["nodes"]} <= set(about)


def test_every_plan_takes_all_details(flink_plan: Path) -> None:
    every = ["CHANGELOG-MODE", "Plan_Advice", "json_execution_plan"]
    text = to_text(explain(PlanDocument.load(str(flink_plan)), None, every))
    plain = to_text(explain(PlanDocument.load(str(flink_plan))))
    bare = re.sub(r"\(changelogMode=\[[A-Z,]*\]\)|, changelogMode=\[[A-Z,]*\]|advice=\[[\d, ]+\], ", "", text)
    tree = bare.replace(" With Advice", "").partition("\n\nadvice[")[0].partition("\n\nNo available")[0]
    assert tree == plain.partition("\n\n== State ==")[0]


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("changelog_modes", "PLAN180", "did you mean 'CHANGELOG_MODE'"),
        ("x" * 5000, "PLAN180", "one of CHANGELOG_MODE, PLAN_ADVICE, JSON_EXECUTION_PLAN"),
        ("estimated_cost", "PLAN181", "statistics"),
    ],
)
def test_details_that_there_are_not(name: str, code: str, words: str) -> None:
    with pytest.raises(PlanError) as caught:
        explain(load("limit"), None, [name])
    assert caught.value.code == code
    assert words in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_what_details_add_to_a_line() -> None:
    assert node_line("Calc(select=[f(a)])", [2], "[I]") == "Calc(advice=[2], select=[f(a)], changelogMode=[I])"
    assert node_line("DropUpdateBefore", [], "[I,UA]") == "DropUpdateBefore(changelogMode=[I,UA])"
    assert node_line("Calc(select=[a])", [], None) == "Calc(select=[a])"
