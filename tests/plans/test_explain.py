"""EXPLAIN against Flink's own, and the state section below it."""

from __future__ import annotations

from pathlib import Path

from stateplan.plans.document import PlanDocument
from stateplan.plans.explain import explain, to_json, to_text
from tests.plans.conftest import DATA


def test_the_tree_is_flinks(flink_plan: Path) -> None:
    expected = (flink_plan.parent / "explain.txt").read_text()
    expected = expected[expected.index("== Optimized Execution Plan ==") :].rstrip("\n")
    shown = to_text(explain(PlanDocument.load(str(flink_plan)))).partition("\n== State ==")[0]
    assert shown.rstrip("\n") == expected


def states_of(name: str, session: dict[str, str] | None = None) -> str:
    text = to_text(explain(PlanDocument.load(str(DATA / name / "plan.json")), session))
    return text.partition("== State ==\n")[2]


def test_states_are_listed_below_the_tree() -> None:
    assert states_of("join") == "join[5]  leftState   ttl 1 h\njoin[5]  rightState  ttl 1 h\n"
    assert states_of("two_sinks").splitlines() == [
        "group-aggregate[3]  groupAggregateState  ttl 1 h",
        "group-aggregate[8]  groupAggregateState  ttl 1 h",
    ]


def test_a_plan_without_state_says_so() -> None:
    document = PlanDocument.load(str(DATA / "union" / "plan.json"))
    text = to_text(explain(document))
    assert ("no operator keeps state" in text) == (not any(n.state_names for n in document.graph.nodes))


def test_who_says_the_ttl_is_told_where_it_is_not_the_plan(join_text: str) -> None:
    start, end = (
        join_text.index('    "state" : ['),
        join_text.index('    "inputProperties"', join_text.index('"state" : [')),
    )
    bare = join_text[:start] + join_text[end:]
    session = {"table.exec.state.ttl": "2 d"}
    assert "leftState   never expires  (no TTL given anywhere)" in to_text(explain(PlanDocument.parse(bare)))
    assert "leftState   ttl 2 d  (session option table.exec.state.ttl)" in to_text(
        explain(PlanDocument.parse(bare), session)
    )
    assert "leftState   ttl 1 h\n" in to_text(explain(PlanDocument.parse(join_text), session))
    configured = bare.replace('"joinSpec"', '"configuration" : { "table.exec.state.ttl" : "3 d" },\n    "joinSpec"')
    assert "ttl 3 d  (node configuration)" in to_text(explain(PlanDocument.parse(configured), session))


def test_json_form() -> None:
    shown = to_json(explain(PlanDocument.load(str(DATA / "reuse_selfjoin" / "plan.json"))))
    text = str(shown)
    assert "'reuse_id': 1" in text
    assert "'reference_id': 1" in text
    assert {"id", "operator", "uid", "index", "name", "ttl", "ttlMillis", "source"} == set(shown["states"][0])
