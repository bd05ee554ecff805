"""Edits carried over to a plan of newer SQL: what is found, where it goes, what conflicts and what is lost."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.common.errors import PlanError
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.plans.document import PlanDocument
from stateplan.plans.jackson import dumps
from stateplan.plans.rebase import Edit, Rebase, Side, rebase
from stateplan.plans.rebase.report import summary, to_json, to_markdown, to_text
from stateplan.session.environment import TableEnvironment
from tests.support.wide_plans import wide_plan

TABLES = (
    "CREATE TABLE orders (id BIGINT, product STRING, amount BIGINT) "
    "WITH ('connector' = 'filesystem', 'path' = '/data/orders', 'format' = 'json')",
    "CREATE TABLE logistics (order_id BIGINT, state STRING) "
    "WITH ('connector' = 'filesystem', 'path' = '/data/logistics', 'format' = 'json')",
    "CREATE TABLE refunds (order_id BIGINT, reason STRING) "
    "WITH ('connector' = 'filesystem', 'path' = '/data/refunds', 'format' = 'json')",
    "CREATE TABLE totals (product STRING, total BIGINT) WITH ('connector' = 'print')",
    "CREATE TABLE counts (product STRING, total BIGINT) WITH ('connector' = 'print')",
)
JOIN = "INSERT INTO totals SELECT product, SUM(amount) FROM orders JOIN logistics ON id = order_id GROUP BY product"
NARROWER = JOIN.replace(" GROUP BY", " WHERE state <> 'lost' GROUP BY")
WIDER = JOIN.replace("SUM(amount)", "SUM(amount) + COUNT(*)")


def compiled(sql: str, options: Mapping[str, str] | None = None) -> PlanDocument:
    session = TableEnvironment.create(dict(options or {}))
    for statement in TABLES:
        session.execute_sql(statement)
    return PlanDocument.parse(session.compile_plan_sql(sql).as_json_string())


def the(document: PlanDocument, title: str, nth: int = 0) -> ExecNode:
    return [n for n in document.graph.nodes if n.title == title][nth]


def with_ttls(document: PlanDocument, *ttls: tuple[str, int, str]) -> PlanDocument:
    edited = PlanDocument.parse(document.text, "edited.json")
    for title, index, ttl in ttls:
        edited.set_ttl(the(edited, title).id, index, ttl)
    return edited


def replaced(document: PlanDocument, old: str, new: str, count: int = 1) -> PlanDocument:
    assert document.text.count(old) >= count
    return PlanDocument.parse(document.text.replace(old, new, count), "edited.json")


def only(done: Rebase) -> Edit:
    (edit,) = done.edits
    return edit


def ttls(document: PlanDocument, title: str) -> list[str]:
    return [json.loads(dumps(s.to_json()))["ttl"] for s in the(document, title).states]


def test_nothing_edited_is_the_new_plan_byte_for_byte() -> None:
    base, theirs = compiled(JOIN), compiled(WIDER)
    done = rebase(base, base, theirs)
    assert done.edits == ()
    assert done.document.text == theirs.text
    assert to_text(done) == "no edits\n"


def test_a_ttl_of_an_operator_that_did_not_change() -> None:
    base, theirs = compiled(JOIN), compiled(WIDER)
    done = rebase(base, with_ttls(base, ("join", 1, "1 d")), theirs)
    edit = only(done)
    assert (edit.status, edit.by, edit.field, edit.base, edit.ours) == ("carried", "uid", "rightState", "0 ms", "1 d")
    assert ttls(done.document, "join") == ["0 ms", "1 d"]
    assert (edit.place.file, edit.place.pointer) == ("edited.json", "/nodes/4/state/1/ttl")


def test_an_option_of_an_operator_without_state_may_be_any_text() -> None:
    base = compiled(JOIN)
    data = json.loads(base.text)
    place = base.graph.pointer(the(base, "calc")).split("/")[2]
    data["nodes"][int(place)]["configuration"] = {"table.exec.state.ttl": "-1"}
    done = rebase(base, PlanDocument.parse(dumps(data), "edited.json"), base)
    assert [(edit.status, edit.ours) for edit in done.edits] == [("carried", "-1")]


def test_nothing_but_the_edited_value_differs_from_what_was_compiled() -> None:
    base, theirs = compiled(JOIN), compiled(NARROWER)
    done = rebase(base, with_ttls(base, ("join", 1, "1 d")), theirs)
    lines = [(a, b) for a, b in zip(theirs.text.split("\n"), done.document.text.split("\n"), strict=True) if a != b]
    assert lines == [('      "ttl" : "0 ms",', '      "ttl" : "1 d",')]


def test_an_operator_behind_a_change_is_known_by_what_it_does() -> None:
    base, theirs = compiled(JOIN), compiled(NARROWER)
    done = rebase(base, with_ttls(base, ("join", 0, "1 d"), ("group-aggregate", 0, "2 h")), theirs)
    assert [(e.status, e.by) for e in done.edits] == [("carried", "meaning"), ("carried", "meaning")]
    assert ttls(done.document, "join") == ["1 d", "0 ms"]
    assert ttls(done.document, "group-aggregate") == ["2 h"]


def test_an_operator_that_changed_is_known_by_its_keys_and_tables() -> None:
    base, theirs = compiled(JOIN), compiled(WIDER)
    edit = only(rebase(base, with_ttls(base, ("group-aggregate", 0, "2 h")), theirs))
    assert (edit.status, edit.by) == ("carried", "keys")


def test_sides_of_a_join_that_are_exchanged_are_not_confused() -> None:
    base = compiled(JOIN)
    theirs = compiled(JOIN.replace("orders JOIN logistics", "logistics JOIN orders"))
    edit = only(rebase(base, with_ttls(base, ("join", 1, "1 d")), theirs))
    assert edit.status == "lost"
    assert edit.reason == "several operators join of the new plan match: 5"


def test_an_operator_that_is_gone_loses_its_edits() -> None:
    base, theirs = compiled(JOIN), compiled("INSERT INTO totals SELECT product, amount FROM orders")
    done = rebase(base, with_ttls(base, ("join", 1, "1 d")), theirs)
    assert only(done).status == "lost"
    assert only(done).reason == "the new plan has no matching join"
    assert done.document.text == theirs.text


def test_another_table_is_another_join() -> None:
    base = compiled(JOIN)
    theirs = compiled(JOIN.replace("logistics", "refunds"))
    assert only(rebase(base, with_ttls(base, ("join", 0, "1 d")), theirs)).status == "lost"


TWICE = (
    "STATEMENT SET BEGIN INSERT INTO totals SELECT product, COUNT(*) FROM orders GROUP BY product; "
    "INSERT INTO counts SELECT product, COUNT(*) FROM orders GROUP BY product; END"
)
APART = {"table.optimizer.reuse-sub-plan-enabled": "false"}


def test_twins_keep_their_edits_while_there_are_as_many_of_them() -> None:
    base = compiled(TWICE, APART)
    assert len([n for n in base.graph.nodes if n.title == "group-aggregate"]) == 2
    done = rebase(base, with_ttls(base, ("group-aggregate", 0, "2 h")), compiled(TWICE, APART))
    assert only(done).by == "uid"
    assert sorted(s.ttl for n in done.document.graph.nodes for s in n.states) == [0, 7_200_000]


def test_of_twins_one_of_which_is_gone_nobody_knows_which_is_left() -> None:
    base = compiled(TWICE, APART)
    theirs = compiled("INSERT INTO totals SELECT product, COUNT(*) FROM orders GROUP BY product", APART)
    edit = only(rebase(base, with_ttls(base, ("group-aggregate", 0, "2 h")), theirs))
    assert edit.status == "lost"
    assert edit.reason.startswith("several operators group-aggregate")


# conflicts


@pytest.mark.parametrize(
    ("conflict", "status", "right"),
    [(None, "conflict", "3 h"), ("ours", "carried", "1 d"), ("theirs", "already", "3 h")],
)
def test_a_ttl_that_the_new_sql_changed_too(conflict: Side | None, status: str, right: str) -> None:
    base = compiled(JOIN, {"table.exec.state.ttl": "2 h"})
    theirs = compiled(JOIN.replace("SELECT", "SELECT /*+ STATE_TTL('logistics' = '3h') */"), {})
    theirs = with_ttls(theirs, ("join", 0, "2 h"), ("group-aggregate", 0, "2 h"))
    done = rebase(base, with_ttls(base, ("join", 1, "1 d")), theirs, conflict)
    assert only(done).status == status
    assert (only(done).base, only(done).ours, only(done).theirs) == ("2 h", "1 d", "3 h")
    assert ttls(done.document, "join") == ["2 h", right]


def test_a_value_that_the_new_sql_has_already() -> None:
    base = compiled(JOIN)
    theirs = compiled(JOIN.replace("SELECT", "SELECT /*+ STATE_TTL('logistics' = '24 h') */"))
    done = rebase(base, with_ttls(base, ("join", 1, "1440 min")), theirs)
    assert only(done).status == "already"
    assert done.document.text == theirs.text


# other edits


def test_an_option_of_a_table() -> None:
    base, theirs = compiled(JOIN), compiled(WIDER)
    done = rebase(base, replaced(base, '"/data/orders"', '"/mnt/orders"'), theirs)
    assert (only(done).field, only(done).status) == ("option path", "carried")
    assert done.document.text == theirs.text.replace('"/data/orders"', '"/mnt/orders"')


def test_an_option_that_was_added_and_one_that_was_removed() -> None:
    base, theirs = compiled(JOIN), compiled(WIDER)
    added = replaced(base, '"path" : "/data/orders"', '"path" : "/data/orders",\n "source.monitor-interval" : "1 s"')
    done = rebase(base, added, theirs)
    assert (only(done).base, only(done).ours) == ("nothing", "1 s")
    back = rebase(added, base, done.document)
    assert (only(back).base, only(back).ours, only(back).status) == ("1 s", "nothing", "carried")
    assert json.loads(back.document.text) == json.loads(theirs.text)


def test_configuration_of_an_operator() -> None:
    base, theirs = compiled(JOIN), compiled(WIDER)
    edited = replaced(base, '"table.exec.mini-batch.enabled" : "false"', '"table.exec.mini-batch.enabled" : "true"')
    done = rebase(base, edited, theirs)
    assert only(done).field == "configuration table.exec.mini-batch.enabled"
    assert (the(done.document, "group-aggregate").configuration or {})["table.exec.mini-batch.enabled"] == "true"


def test_configuration_where_there_was_none() -> None:
    base, theirs = compiled(JOIN), compiled(WIDER)
    edited = json.loads(base.text)
    edited["nodes"][4]["configuration"] = {"a": "1", "b": "2"}
    done = rebase(base, PlanDocument.parse(dumps(edited)), theirs)
    assert [e.field for e in done.edits] == ["configuration a", "configuration b"]
    assert the(done.document, "join").configuration == {"a": "1", "b": "2"}


def test_how_a_state_is_updated() -> None:
    base, theirs = compiled(JOIN), compiled(WIDER)
    edited = replaced(base, '"name" : "rightState"', '"name" : "rightState", "updateType" : "OnReadAndWrite"')
    done = rebase(base, edited, theirs)
    assert (only(done).field, only(done).ours) == ("rightState updateType", "OnReadAndWrite")
    assert the(done.document, "join").states[1].update_type == "OnReadAndWrite"


@pytest.mark.parametrize("with_base", [True, False])
def test_a_suppressed_lint_rule(with_base: bool) -> None:
    base, theirs = compiled(JOIN), compiled(NARROWER)
    uid = base.uids[the(base, "join").id]
    edited = replaced(base, f'"uid" : "{uid}"', f'"uid" : "{uid}",\n      "suppress" : {{ "TTL001" : "agreed" }}')
    done = rebase(base if with_base else None, edited, theirs)
    assert (only(done).field, only(done).ours, only(done).status) == ("suppression of TTL001", "agreed", "carried")
    join = the(done.document, "join")
    assert (join.stateplan or {})["suppress"] == {"TTL001": "agreed"}
    assert (join.stateplan or {})["uid"] == theirs.uids[join.id]


def test_state_entries_in_another_order_and_ttls_in_other_words_are_no_edit() -> None:
    base = with_ttls(compiled(JOIN), ("join", 0, "1 h"))
    data = json.loads(base.text)
    data["nodes"][4]["state"].reverse()
    data["nodes"][4]["state"][1]["ttl"] = "60 min"
    edited = PlanDocument.parse(dumps(data), "edited.json")
    assert rebase(base, edited, compiled(WIDER)).edits == ()
    edited.set_ttl(5, 1, "1 d")
    done = rebase(base, edited, base)
    assert only(done).place.pointer == "/nodes/4/state/0/ttl"
    assert ttls(done.document, "join") == ["1 h", "1 d"]


def test_a_description_is_an_edit_too() -> None:
    base, theirs = compiled(JOIN), compiled(WIDER)
    done = rebase(base, replaced(base, "Exchange(distribution=[hash[id]])", "by order"), theirs)
    assert (only(done).field, only(done).status) == ("description", "carried")


def test_state_entries_added_to_a_plan_from_before_there_were_any() -> None:
    data = json.loads(compiled(JOIN).text)
    for node in data["nodes"]:
        node.pop("stateplan")
        node.pop("state", None)
    base = PlanDocument.parse(dumps({**data, "flinkVersion": "1.17"}))
    edited = with_ttls(base, ("join", 1, "1 d"))
    done = rebase(base, edited, compiled(WIDER))
    assert [(e.field, e.status) for e in done.edits] == [("rightState", "carried")]
    assert ttls(done.document, "join") == ["0 ms", "1 d"]
    assert ttls(rebase(base, edited, base).document, "join") == ["0 ms", "1 d"]


def test_operators_added_or_removed_by_hand_are_told() -> None:
    base, theirs = compiled(JOIN), compiled(WIDER)
    data = json.loads(base.text)
    scan, exchange = data["nodes"][0], data["nodes"][1]
    assert exchange["type"] == "stream-exec-exchange_1"
    projection = [
        {"kind": "INPUT_REF", "inputIndex": i, "type": t}
        for i, t in enumerate(("BIGINT", "VARCHAR(2147483647)", "BIGINT"))
    ]
    calc = {"id": 99, "type": "stream-exec-calc_1", "projection": projection, "condition": None}
    rest = {"outputType": scan["outputType"], "description": "mine"}
    data["nodes"].insert(1, calc | {"inputProperties": exchange["inputProperties"]} | rest)
    data["nodes"][1]["inputProperties"][0]["requiredDistribution"] = {"type": "UNKNOWN"}
    for edge in data["edges"]:
        if edge["source"] == scan["id"]:
            edge["source"] = 99
    data["edges"].append({**data["edges"][0], "source": scan["id"], "target": 99})
    edited = PlanDocument.parse(dumps(data), "edited.json")
    added = [e for e in rebase(base, edited, theirs).edits if e.field == "the operator"]
    assert [(e.status, e.operator, e.reason) for e in added] == [("lost", "99 (calc)", "it was added by hand")]
    removed = [e for e in rebase(edited, base, theirs).edits if e.field == "the operator"]
    assert [(e.operator, e.reason) for e in removed] == [("99 (calc)", "it was removed by hand")]


# without the plan as it was compiled


def test_what_was_compiled_is_in_the_plan_itself() -> None:
    options = {"table.exec.state.ttl": "2 h"}
    edited = with_ttls(compiled(JOIN, options), ("join", 1, "1 d"))
    done = rebase(None, edited, compiled(NARROWER, options))
    assert (only(done).base, only(done).ours, only(done).status) == ("2 h", "1 d", "carried")
    assert done.notes == ("without --base, only edits of states and suppressions are known",)


def test_a_plan_that_does_not_say_what_was_compiled_needs_its_base() -> None:
    data = json.loads(compiled(JOIN).text)
    for node in data["nodes"]:
        node.pop("stateplan")
    with pytest.raises(PlanError) as caught:
        rebase(None, PlanDocument.parse(dumps(data)), compiled(WIDER))
    assert caught.value.code == "PLAN151"


def test_a_base_that_has_nothing_to_do_with_the_edited_plan() -> None:
    other = compiled("INSERT INTO counts SELECT reason, order_id FROM refunds")
    with pytest.raises(PlanError) as caught:
        rebase(other, compiled(JOIN), compiled(WIDER))
    assert caught.value.code == "PLAN150"


def test_an_edit_that_makes_the_new_plan_invalid_is_told() -> None:
    base = compiled("INSERT INTO counts SELECT reason, COUNT(*) FROM refunds GROUP BY reason")
    edited = replaced(base, '"inputUpsertKey" : [ 0 ]', '"inputUpsertKey" : [ 1 ]')
    assert only(rebase(base, edited, base)).status == "carried"
    data = json.loads(compiled("INSERT INTO counts SELECT reason, COUNT(*) FROM refunds GROUP BY reason").text)
    sink, aggregate = data["nodes"][-1], data["nodes"][-2]
    for node in (sink, aggregate):
        node["outputType"] = "ROW<`reason` VARCHAR(2147483647)>"
    aggregate |= {"aggCalls": [], "aggCallNeedRetractions": []}
    with pytest.raises(PlanError) as caught:
        rebase(base, edited, PlanDocument.parse(dumps(data)))
    assert caught.value.code == "PLAN152"
    assert "refers to field 1" in caught.value.message


# any edits


EDITS = st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["1 h", "90 min", "2 d", "0 ms"])), max_size=12)


@given(EDITS)
@settings(max_examples=30, deadline=None)
def test_over_the_same_plan_the_edited_one_comes_back(edits: list[tuple[int, str]]) -> None:
    base, ours = PlanDocument.parse(wide_plan(60)), PlanDocument.parse(wide_plan(60))
    slots = [(node.id, index) for node in base.graph.nodes for index in range(len(node.states))]
    wanted = {slots[number % len(slots)]: ttl for number, ttl in edits}
    ours.set_ttls([(node, index, ttl) for (node, index), ttl in wanted.items()])
    done = rebase(base, ours, PlanDocument.parse(base.text))
    assert done.document.text == ours.text
    assert {edit.status for edit in done.edits} <= {"carried"}
    again = rebase(base, ours, PlanDocument.parse(ours.text))
    assert {edit.status for edit in again.edits} <= {"already"}
    assert again.document.text == ours.text
    assert rebase(None, ours, PlanDocument.parse(base.text)).document.text == ours.text


# reports


def test_reports() -> None:
    base = compiled(JOIN)
    theirs = with_ttls(compiled(NARROWER), ("group-aggregate", 0, "3 h"))
    edited = with_ttls(base, ("join", 1, "1 d"), ("group-aggregate", 0, "2 h"))
    done = rebase(base, edited, theirs)
    assert summary(done) == "2 edits: 1 in conflict, 1 carried over"
    line = {e.operator: e.place.line for e in done.edits}
    there = {e.operator: e.theirs_place.line for e in done.edits if e.theirs_place}
    assert to_text(done) == (
        "2 edits: 1 in conflict, 1 carried over\n\n"
        "in conflict: 8 (group-aggregate) groupAggregateState: 0 ms -> 2 h\n"
        f"  edited.json:{line['8 (group-aggregate)']}:15\n"
        f"  9 (group-aggregate) of the new plan (edited.json:{there['8 (group-aggregate)']}:15), which has 3 h, "
        "found by what it does\n\n"
        "carried over: 5 (join) rightState: 0 ms -> 1 d\n"
        f"  edited.json:{line['5 (join)']}:15\n"
        f"  6 (join) of the new plan (edited.json:{there['5 (join)']}:15), found by what it does\n"
    )
    assert "| in conflict | 8 (group-aggregate) | groupAggregateState | 0 ms -> 2 h |" in to_markdown(done)
    told = to_json(done)
    assert (told["conflicts"], len(told["edits"])) == (1, 2)
    assert told["edits"][0]["place"]["pointer"] == "/nodes/4/state/1/ttl"
    assert told["edits"][0]["theirsPlace"]["pointer"] == "/nodes/5/state/1/ttl"
