"""Selectors: each state has names of its own; what is wrong or not clear is said with what could have been meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stateplan.common.errors import PlanError
from stateplan.plans.aliases import aliases
from stateplan.plans.document import PlanDocument
from stateplan.plans.plan_metadata import PlanFacts
from stateplan.plans.selector_text import parse_assignment, parse_selector
from stateplan.plans.selectors import Selectors, select_states
from stateplan.plans.states import state_views
from tests.plans.conftest import DATA


def plan(name: str) -> PlanDocument:
    return PlanDocument.load(str(DATA / name / "plan.json"))


def picked(document: PlanDocument, selector: str) -> list[str]:
    return [f"{v.node_id} {v.name}" for v in select_states(document, selector)]


def refused(document: PlanDocument, selector: str) -> PlanError:
    with pytest.raises(PlanError) as caught:
        select_states(document, selector)
    assert caught.value.expected
    assert caught.value.place is not None
    return caught.value


def test_every_state_of_flinks_plans_has_selectors(flink_plan: Path) -> None:
    document = PlanDocument.load(str(flink_plan))
    selectors = Selectors(document)
    views = state_views(document.graph, document.uids)
    assert selectors.views == views
    for view in views:
        assert selectors.select(selectors.name_alone(view)) == (view,)
        assert selectors.select(selectors.by_id(view)) == (view,)
        assert selectors.select(f"{view.node_id}.{view.index}") == (view,)
        assert selectors.select(f"{view.uid}.{view.index}") == (view,)
        assert selectors.select(f"{view.operator}[{view.uid[:8]}].{view.index}") == (view,)
    lasting = tuple(view for view in views if view.source != "time")
    if lasting:
        assert selectors.select("*") == selectors.select("*.*") == lasting


JOIN = [
    ("join.left", ["5 leftState"]),
    ("JOIN . Right", ["5 rightState"]),
    ("5.1", ["5 rightState"]),
    ("join.right_state", ["5 rightState"]),
    ("StreamExecJoin.0", ["5 leftState"]),
    ("leftState", ["5 leftState"]),
    ("join.*", ["5 leftState", "5 rightState"]),
    ("join[L*R].left", ["5 leftState"]),
    ("join[l × r].left", ["5 leftState"]),
    ("join.R", ["5 rightState"]),
    ("join.`R`", ["5 rightState"]),
    ("join[default_catalog.default_database.`R`].left", ["5 leftState"]),
]


@pytest.fixture
def renamed(join_text: str) -> PlanDocument:
    """The join's plan with its tables called L and R."""
    left, right = re.findall(r"`\.`default_database`\.`(\w+)`", join_text)[:2]
    return PlanDocument.parse(join_text.replace(f".`{left}`", ".`L`").replace(f".`{right}`", ".`R`"))


@pytest.mark.parametrize(("selector", "states"), JOIN)
def test_the_states_of_a_join(renamed: PlanDocument, selector: str, states: list[str]) -> None:
    assert picked(renamed, selector) == states


@pytest.mark.parametrize(
    ("selector", "code", "parts"),
    [
        ("join", "PLAN103", ["matches 2 states", "join.left", "join.right", "'join.*' for all of them"]),
        ("join[R*L].left", "PLAN101", ["in this order", "join.left", "did you mean 'join[L*R]'?"]),
        ("join.rihgt", "PLAN101", ["no state 'rihgt'", "did you mean 'right'?"]),
        ("jion.right", "PLAN101", ["called 'jion'", "did you mean 'join'?"]),
        ("jion[L].right", "PLAN101", ["type 'jion'", "did you mean 'join'?"]),
        ("join.2", "PLAN101", ["no state '2'"]),
        ("join[6].left", "PLAN101", ["the node 6 is a calc"]),
        ("join[X].left", "PLAN101", ["no join of the plan reads 'X'"]),
        ("99", "PLAN101", ["called '99'"]),
        ("calc", "PLAN104", ["the calc 6 keeps no state with a TTL of its own", "join.left"]),
        ("7", "PLAN104", ["the sink 7"]),
        ("", "PLAN100", ["ends too early"]),
        ("join.", "PLAN100", ["ends too early"]),
        ("join[", "PLAN100", ["an id, a uid or a table"]),
        ("join[L", "PLAN100", ["']'"]),
        ("join[L+R]", "PLAN100", ["'+R]' is not allowed here"]),
        ("join.left.left", "PLAN100", ["'.left' is not allowed here", "the end"]),
        ("join left", "PLAN100", ["'left' is not allowed here"]),
        ("`join", "PLAN100", ["is not allowed here"]),
    ],
)
def test_refused(renamed: PlanDocument, selector: str, code: str, parts: list[str]) -> None:
    error = refused(renamed, selector)
    assert error.code == code
    for part in parts:
        assert part in str(error)


def test_a_plan_without_state() -> None:
    text = (DATA / "sink_materializer" / "plan.json").read_text()
    text = text.replace('"requireUpsertMaterialize" : true', '"requireUpsertMaterialize" : false')
    for selector in ("sink", "*", "deduplicate"):
        assert "no operator of this one has any" in str(refused(PlanDocument.parse(text), selector))


def test_operators_next_to_a_table_come_before_those_behind_others() -> None:
    document = plan("reuse_nested")
    assert picked(document, "group-aggregate[src]") == ["4 groupAggregateState"]
    assert picked(document, "group-aggregate[*]") == ["4 groupAggregateState", "7 groupAggregateState"]
    error = refused(document, "group-aggregate")
    assert error.code == "PLAN102"
    assert "group-aggregate[src]  group-aggregate 4" in str(error)
    assert "group-aggregate[7]    group-aggregate 7" in str(error)
    assert error.hint == "'group-aggregate[*]' for all of them"


def test_the_same_table_on_both_sides() -> None:
    error = refused(plan("reuse_selfjoin"), "join.src")
    assert error.code == "PLAN103"
    assert "join.left" in str(error)
    assert "join.right" in str(error)


def test_a_sink_by_its_table() -> None:
    document = plan("sink_materializer")
    table = re.findall(r"`default_database`\.`(\w+)`", document.text)[-1]
    for selector in ("sink", f"sink[{table}]", f"sink[{table.upper()}]", "3", "sinkMaterializeState", table):
        assert picked(document, selector) == ["3 sinkMaterializeState"]


def test_a_state_whose_name_somebody_changed(join_text: str) -> None:
    document = PlanDocument.parse(join_text.replace('"leftState"', '"orders to come"'))
    for selector in ("join.left", "join.leftState", "5.0"):
        assert picked(document, selector) == ["5 orders to come"]


def test_the_uid_in_the_file_counts_too(join_text: str) -> None:
    ours = PlanDocument.from_graph(PlanDocument.parse(join_text).graph, PlanFacts())
    recorded = ours.uids[5]
    other = PlanDocument.parse(ours.text.replace(recorded, "feedc0ffee00"))
    assert picked(other, "feedc0.left") == picked(other, f"uid:{recorded}.left") == ["5 leftState"]


def test_aliases_are_those_of_the_recorded_sql(renamed: PlanDocument) -> None:
    sql = "INSERT INTO snk SELECT * FROM L AS orders JOIN (SELECT * FROM R) freight ON orders.k = freight.k"
    ours = PlanDocument.from_graph(renamed.graph, PlanFacts.of(sql))
    assert picked(ours, "join[orders*freight].left") == ["5 leftState"]
    assert picked(ours, "join.FREIGHT") == ["5 rightState"]
    assert refused(renamed, "join.freight").code == "PLAN101"


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT * FROM a AS x, b y", {"x": [{"a"}], "y": [{"b"}]}),
        ("SELECT x AS y, COUNT(*) AS n FROM a WHERE a.b IN (1, 2)", {}),
        ("SELECT * FROM c.d.`my a` AS `x``y`", {"x`y": [{"my a"}]}),
        ("SELECT * FROM a JOIN b AS x ON a.i = x.i LEFT JOIN c z ON TRUE", {"x": [{"b"}], "z": [{"c"}]}),
        ("WITH w AS (SELECT * FROM a JOIN b ON 1 = 1) SELECT * FROM w AS v", {"w": [{"a", "b"}], "v": [{"a", "b"}]}),
        ("SELECT * FROM (SELECT * FROM a) AS x -- JOIN c AS d\n", {"x": [{"a"}]}),
        ("SELECT '... FROM a AS b' FROM c /* FROM a AS b */ AS d", {"d": [{"c"}]}),
        ("SELECT * FROM a AS o JOIN r FOR SYSTEM_TIME AS OF o.t AS v ON o.k = v.k", {"o": [{"a"}], "v": [{"r"}]}),
        ("SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(t), INTERVAL '1' DAY)) AS w", {"w": [{"bid"}]}),
        ("SELECT /*+ STATE_TTL('x' = '1 d') */ * FROM a /*+ OPTIONS('k' = 'v') */ AS x", {"x": [{"a"}]}),
        ("SELECT * FROM a x UNION ALL SELECT * FROM b x", {"x": [{"a"}, {"b"}]}),
        ("))) FROM", {}),
        ("", {}),
    ],
)
def test_aliases_of_sql(sql: str, found: dict[str, list[set[str]]]) -> None:
    assert {name: sorted(map(sorted, sets)) for name, sets in aliases(sql).items()} == {
        name: sorted(map(sorted, sets)) for name, sets in found.items()
    }


def test_a_join_of_many_inputs(shared: Path) -> None:
    document = PlanDocument.load(str(shared / "cases" / "multi_join" / "plan.json"))
    for selector in ("multi-join[a*b*c].1", "multi-join.b", "multi-join[c].1", "b.1", "inputState1"):
        assert picked(document, selector) == ["7 input-state-1"]
    for selector in ("multi-join[a*b].1", "multi-join[a*c*b].1", "multi-join[" + "*".join("abc" * 300) + "].1"):
        assert refused(document, selector).code == "PLAN101"
    assert "did you mean 'multi-join[a*b*c]'?" in str(refused(document, "multi-join[c*b*a].0"))


_PIECES = st.sampled_from(
    ["join", "5", "left", ".", "[", "]", "*", "`", " ", "×", "src", "L", "=", "-", "é", "0", "\0"]
)


@given(st.lists(_PIECES, max_size=9).map("".join))
@example("join[5].`left`")
@example("999999999999999999999999")
def test_any_text_is_a_selector_or_a_coded_error(text: str) -> None:
    document = plan("join")
    try:
        found = select_states(document, text)
    except PlanError as error:
        assert error.code in {"PLAN100", "PLAN101", "PLAN102", "PLAN103", "PLAN104"}
        assert str(error)
    else:
        assert set(found) <= set(state_views(document.graph, document.uids))
        assert len(found) == 1 or "*" in text


def test_assignments() -> None:
    assignment = parse_assignment(" join[a*b].right = 1 d ")
    assert assignment.ttl == 86_400_000
    assert assignment.selector.brackets == parse_selector("[a*b]").brackets
    assert parse_assignment("5.0=NEVER").ttl == parse_assignment("5.0=0").ttl == 0
    assert parse_assignment("`a=b`.0=1 s").selector.operator == parse_selector("`a=b`").operator


@pytest.mark.parametrize(
    ("text", "code", "mark"),
    [
        ("join.left", "PLAN105", None),
        ("=1 d", "PLAN105", None),
        ("join.left=", "PLAN052", "^"),
        ("join.left= 1 week", "PLAN055", "           ^^^^^^"),
        ("join.left=-1 h", "PLAN054", "          ^^^^"),
        ("join.left=1 ns", "PLAN072", "          ^^^^"),
        ("join..left=1 h", "PLAN100", "     ^^^^^"),
    ],
)
def test_what_is_not_an_assignment(text: str, code: str, mark: str | None) -> None:
    with pytest.raises(PlanError) as caught:
        parse_assignment(text)
    assert caught.value.code == code
    if mark:
        assert mark in str(caught.value)
