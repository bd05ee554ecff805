"""Trials of TTLs: tables from changes, what differs between them, what is told; and plans merged into one."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stateplan.execnodes.merged_plans import merge_graphs
from stateplan.plans.document import PlanDocument
from stateplan.plans.selector_text import parse_assignment
from stateplan.plans.trial import Outcome, Point, Rows, Trial, Variant, blamed, compare_rows, table_rows
from stateplan.plans.trial_view import to_html, to_json, to_text
from stateplan.session.environment import TableEnvironment
from stateplan.session.trial import _with_ttls


def row(**values: Any) -> str:
    return json.dumps(values)


def variant(text: str) -> Variant:
    return Variant(text, tuple(parse_assignment(part.strip()) for part in text.split(",")))


def write(folder: Path, number: int, *changes: tuple[str, dict[str, Any]]) -> None:
    events = [
        {"before": r, "after": None, "op": "d"} if s == "-" else {"before": None, "after": r, "op": "c"}
        for s, r in changes
    ]
    (folder / f"part-0123456789ab-0123456789ab-{number}-0.json").write_text(
        "".join(json.dumps(e) + "\n" for e in events)
    )


def test_changes_make_a_table(tmp_path: Path) -> None:
    write(tmp_path, 2, ("+", {"k": 1, "v": 5}), ("+", {"k": 1, "v": 5}), ("+", {"k": 2, "v": 6}))
    write(tmp_path, 10, ("-", {"k": 1, "v": 5}), ("+", {"k": 2, "v": 7}), ("-", {"k": 2, "v": 6}))
    (tmp_path / "_SUCCESS").write_text("not a row")
    assert table_rows(tmp_path, (), upserts=False).counts == {row(k=1, v=5): 1, row(k=2, v=7): 1}
    assert table_rows(tmp_path / "none", (), upserts=False).counts == {}


def test_upserts_make_a_table_in_the_order_of_micro_batches(tmp_path: Path) -> None:
    write(tmp_path, 10, ("+", {"k": 1, "v": 3}), ("-", {"k": 2, "v": 6}))
    write(tmp_path, 2, ("+", {"k": 1, "v": 2}), ("+", {"k": 2, "v": 6}))
    assert table_rows(tmp_path, ("k",), upserts=True).counts == {row(k=1, v=3): 1}


def test_what_differs() -> None:
    right = Rows(Counter({row(k=1, v=1): 1, row(k=2, v=2): 1, row(k=3, v=3): 1}), ("k",))
    found = Rows(Counter({row(k=1, v=1): 1, row(k=2, v=9): 1, row(k=4, v=4): 1}), ("k",))
    assert compare_rows(right, found) == (
        {row(k=3, v=3): 1},
        {row(k=4, v=4): 1},
        ((row(k=2, v=2), row(k=2, v=9)),),
    )
    assert compare_rows(Rows(right.counts), Rows(found.counts)) == (
        {row(k=2, v=2): 1, row(k=3, v=3): 1},
        {row(k=2, v=9): 1, row(k=4, v=4): 1},
        (),
    )
    assert compare_rows(right, right) == ({}, {}, ())


@pytest.fixture
def trial() -> Trial:
    def outcome(found: Variant, counts: dict[str, int], rows: int) -> Outcome:
        return Outcome(
            found, {"s": Rows(Counter(counts), ("k",))}, (Point(0, 2 * rows, 2048, 100), Point(1000, rows, 1024, 50))
        )

    variants = [Variant("the plan"), variant("join.left=1 h"), variant("join.left=2 h, join.right=1 d")]
    alone = blamed(variants)
    assert [v.label for v in alone] == ["join.left", "join.right"]
    right = {row(k=1): 1, row(k=2): 1}
    return Trial(
        (outcome(variants[0], right, 9), outcome(variants[1], {row(k=1): 1}, 5), outcome(variants[2], {}, 3)),
        (outcome(alone[0], {row(k=2): 1}, 4), outcome(alone[1], right, 8)),
        1000,
        2.0,
        True,
    )


def test_the_states_to_blame(trial: Trial) -> None:
    assert [[d.total for d in of] for of in trial.differences] == [[], [1], [2]]
    assert trial.differences[1][0].blame == {"join.left": 1}
    assert trial.differences[2][0].blame == {"join.left": 1}


def test_a_trial_is_told(trial: Trial) -> None:
    text = to_text(trial)
    assert "3 variants over 1,000 rows in 2.0 s, 500 rows/s; the others are compared with 'the plan'" in text
    assert 'join.left=1 h, s: 1 row of 2 differ, because of the TTL of join.left\n  missing  {"k": 2}' in text
    assert "join.left=2 h, join.right=1 d, s: 2 rows of 2 differ; join.left alone makes 1" in text
    assert "replay" not in text
    data = to_json(trial)["variants"][1]
    assert (data["ttls"], data["stateRows"], data["mostStateRows"], data["writtenBytes"]) == (
        {"join.left": 3_600_000},
        5,
        10,
        150,
    )
    assert data["sinks"][0]["examples"]["missing"] == [{"k": 2}]
    page = to_html(trial)
    assert "<svg" in page and "<script" not in page and "&quot;k&quot;: 2" in page


# ---- one plan of several ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plan() -> PlanDocument:
    env = TableEnvironment.create()
    env.execute_sql(
        "CREATE TABLE a (k INT, v INT, pt AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '9')"
    )
    env.execute_sql("CREATE TABLE b (k INT, w INT) WITH ('connector' = 'datagen', 'number-of-rows' = '9')")
    env.execute_sql("CREATE TABLE s (k INT, v INT, w INT) WITH ('connector' = 'blackhole')")
    first = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY k, v ORDER BY pt) AS n FROM a)"
    query = f"SELECT x.k, x.v, b.w FROM (SELECT k, v FROM {first} WHERE n = 1) AS x JOIN b ON x.k = b.k"
    return PlanDocument.parse(env.compile_plan_sql(f"INSERT INTO s {query}").as_json_string())


@pytest.mark.parametrize(
    ("texts", "more"),
    [
        (["join.right=1 h"], {"join": 1, "calc": 0, "sink": 1}),
        (["join.right=0 ms"], {"sink": 1}),
        (["deduplicate=1 h"], {"deduplicate": 1, "join": 1, "sink": 1}),
        (["join.left=1 h", "join.left=1 h, join.right=2 h"], {"join": 2, "sink": 2}),
    ],
)
def test_variants_share_what_they_have_in_common(plan: PlanDocument, texts: list[str], more: dict[str, int]) -> None:
    graphs = [_with_ttls(plan, variant(text).assignments).graph for text in ["join.left=0 ms", *texts]]
    merged = merge_graphs(graphs)
    before, after = (Counter(n.title for n in g.nodes) for g in (plan.graph, merged.graph))
    grown = {title: after[title] - before[title] for title in after}
    assert {t: n for t, n in grown.items() if t in ("table-source-scan", "join", "deduplicate", "sink")} == {
        "table-source-scan": 0,
        "join": more.get("join", 0),
        "deduplicate": more.get("deduplicate", 0),
        "sink": more["sink"],
    }
    for graph, place in zip(graphs, merged.places, strict=True):
        for node in graph.nodes:
            copy = merged.graph.node(place[node.id])
            assert copy.states == node.states and copy.title == node.title
            assert [place[i.id] for i in graph.inputs(node)] == [i.id for i in merged.graph.inputs(copy)]


def test_plans_share_operators_whatever_their_ids_are() -> None:
    env = TableEnvironment.create()
    for name in ("t", "u"):
        env.execute_sql(f"CREATE TABLE {name} (k INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')")
    for name in ("a", "b"):
        env.execute_sql(f"CREATE TABLE {name} (k INT, n BIGINT) WITH ('connector' = 'blackhole')")
    one = "INSERT INTO a SELECT k, COUNT(*) FROM t GROUP BY k"
    both = f"EXECUTE STATEMENT SET BEGIN INSERT INTO b SELECT k, COUNT(*) FROM u GROUP BY k; {one}; END"
    graphs = [PlanDocument.parse(env.compile_plan_sql(sql).as_json_string()).graph for sql in (one, both)]
    merged = merge_graphs(graphs)
    first, second = merged.places
    assert [node.id for node in graphs[0].nodes] != sorted(n for n, place in second.items() if place in first.values())
    assert len(set(first.values()) & set(second.values())) == len(graphs[0].nodes) - 1, "all but the sink"
    assert len(set(second.values())) == len(graphs[1].nodes), "nodes of one plan stay apart"
    for graph, place in zip(graphs, merged.places, strict=True):
        for node in graph.nodes:
            sources = [place[source.id] for source in graph.inputs(node)]
            assert [source.id for source in merged.graph.inputs(merged.graph.node(place[node.id]))] == sources
