"""Restart verdicts: each kind of change alone, on plans that Flink compiled."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from stateplan.common.types import type_from_json
from stateplan.plans.diff import PlanDiff, compare
from stateplan.plans.diff_report import to_json, to_markdown, to_text
from stateplan.plans.document import PlanDocument
from stateplan.plans.jackson import dumps
from stateplan.session.environment import TableEnvironment
from tests.execnodes.node_plans import frozen
from tests.plans.conftest import DATA

Plan = dict[str, Any]
Edit = Callable[[Plan], object]


def load(name: str) -> Plan:
    return json.loads((DATA / name / "plan.json").read_text())


def changed(name: str, edit: Edit | None = None, before: Edit | None = None) -> PlanDiff:
    old, new = load(name), load(name)
    for plan, change in ((old, before), (new, before), (new, edit)):
        if change:
            change(plan)
    return compare(PlanDocument.parse(dumps(old)), PlanDocument.parse(dumps(new)))


def node(plan: Plan, kind: str) -> Plan:
    return next(n for n in plan["nodes"] if n["type"].startswith(f"stream-exec-{kind}_"))


def last(plan: Plan, kind: str) -> Plan:
    return [n for n in plan["nodes"] if n["type"].startswith(f"stream-exec-{kind}_")][-1]


def options(n: Plan) -> Plan:
    return n.get("scanTableSource", n.get("dynamicTableSink"))["table"]["resolvedTable"]["options"]


def put(get: Callable[[Plan], Plan], **values: Any) -> Edit:
    return lambda plan: get(plan).update(values)


def option(kind: str, key: str, value: str) -> Edit:
    return lambda plan: options(node(plan, kind)).__setitem__(key, value)


def renumber(plan: Plan) -> None:
    for n in plan["nodes"]:
        n["id"] += 100
    for e in plan["edges"]:
        e["source"] += 100
        e["target"] += 100


def rename_output(plan: Plan) -> None:
    for n in plan["nodes"]:
        if "scanTableSource" not in n:
            n["outputType"] = json.loads(json.dumps(n["outputType"]).replace("product_id", "p"))


def add_column(plan: Plan) -> None:
    schema = node(plan, "table-source-scan")["scanTableSource"]["table"]["resolvedTable"]["schema"]
    schema["columns"].append({"name": "unused", "dataType": "INT"})


def new_ttl_in_configuration(plan: Plan) -> None:
    node(plan, "deduplicate")["state"] = None
    node(plan, "deduplicate")["configuration"]["table.exec.state.ttl"] = "2 d"


def sink_option_and_ttl(plan: Plan) -> None:
    option("sink", "x", "y")(plan)
    node(plan, "deduplicate")["state"][0]["ttl"] = "7 d"


def insert_calc(plan: Plan, before: Plan) -> None:
    """Puts a filter in front of a node."""
    edge = next(e for e in plan["edges"] if e["target"] == before["id"])
    source = next(n for n in plan["nodes"] if n["id"] == edge["source"])
    fields = type_from_json(source["outputType"]).fields
    refs = [{"kind": "INPUT_REF", "inputIndex": i, "type": f.type.to_json()} for i, f in enumerate(fields)]
    condition = {"kind": "CALL", "internalName": "$IS NOT NULL$1", "operands": [refs[0]], "type": "BOOLEAN NOT NULL"}
    new = json.loads(json.dumps(node(plan, "calc")))
    new |= {"id": 99, "outputType": source["outputType"], "projection": refs, "condition": condition}
    plan["nodes"].append(new)
    plan["edges"].append({**edge, "target": 99})
    edge["source"] = 99


IDENTICAL: dict[str, tuple[str, Edit | None]] = {
    "nothing": ("dedup", None),
    "description": ("dedup", put(lambda p: node(p, "deduplicate"), description="x")),
    "ids": ("dedup", renumber),
    "a field's name": ("dedup", rename_output),
    "an aggregate's name": ("dedup", lambda p: node(p, "group-aggregate")["aggCalls"][0].update(name="n")),
    "a comment": (
        "dedup",
        lambda p: node(p, "table-source-scan")["scanTableSource"]["table"]["resolvedTable"].update(comment="orders"),
    ),
    "version of source": ("dedup", put(lambda p: node(p, "table-source-scan"), type="stream-exec-table-source-scan_1")),
    "version of Flink": ("dedup", lambda p: p.update(flinkVersion="2.2")),
    "order of edges": ("dedup", lambda p: p["edges"].reverse()),
}

TTL_ONLY: dict[str, tuple[str, Edit]] = {
    "one": ("join", lambda p: node(p, "join")["state"][1].update(ttl="7 d")),
    "never": ("dedup", lambda p: node(p, "deduplicate")["state"][0].update(ttl="0 ms")),
    "entry removed": ("dedup", lambda p: node(p, "deduplicate").pop("state")),
    "by configuration": ("dedup", new_ttl_in_configuration),
    "what refreshes": ("dedup", lambda p: node(p, "deduplicate")["state"][0].update(updateType="OnReadAndWrite")),
}

STATELESS: dict[str, tuple[str, Edit]] = {
    "sink option": ("dedup", option("sink", "print-identifier", "x")),
    "sink table": ("dedup", lambda p: node(p, "sink")["dynamicTableSink"]["table"].update(identifier="`a`.`b`.`c`")),
    "sink enforcer": (
        "dedup",
        lambda p: node(p, "sink")["configuration"].update({"table.exec.sink.not-null-enforcer": "DROP"}),
    ),
    "mini-batch": (
        "dedup",
        lambda p: node(p, "group-aggregate")["configuration"].update({"table.exec.mini-batch.size": "7"}),
    ),
    "monitor interval": ("dedup", option("table-source-scan", "source.monitor-interval", "10 s")),
    "begin of the history": ("dedup", option("table-source-scan", "backfill.from", "2026-01-31")),
    "skip bad rows": ("dedup", option("table-source-scan", "json.ignore-parse-errors", "true")),
    "calc behind": (
        "dedup",
        lambda p: last(p, "calc")["projection"].__setitem__(0, {"kind": "LITERAL", "value": 5, "type": "BIGINT"}),
    ),
    "filter behind": ("dedup", lambda p: insert_calc(p, node(p, "sink"))),
    "and a ttl": ("dedup", sink_option_and_ttl),
    "unread column": ("dedup", add_column),
    "sends -U": ("dedup", put(lambda p: node(p, "group-aggregate"), generateUpdateBefore=False)),
    "option of a calc that computes nothing": (
        "dedup",
        put(lambda p: node(p, "calc"), configuration={"table.local-time-zone": "UTC"}),
    ),
    "name of the table": (
        "dedup",
        lambda p: node(p, "table-source-scan")["scanTableSource"]["table"].update(identifier="`c`.`d`.`e`"),
    ),
}

TRUE = {"kind": "LITERAL", "value": True, "type": "BOOLEAN NOT NULL"}

RESET: dict[str, tuple[str, Edit, str]] = {
    "dedup key": (
        "dedup",
        put(lambda p: node(p, "deduplicate"), uniqueKeys=[1]),
        "deduplicate[4]: uniqueKeys[0]: 0 -> 1",
    ),
    "keep last": (
        "dedup",
        put(lambda p: node(p, "deduplicate"), keepLastRow=True),
        "deduplicate[4]: keepLastRow: false -> true",
    ),
    "aggregate": (
        "dedup",
        lambda p: node(p, "group-aggregate")["aggCalls"][2].update(internalName="$MAX$1"),
        "group-aggregate[7]: MAX(num) would not have seen the earlier rows",
    ),
    "join type": (
        "join",
        lambda p: node(p, "join")["joinSpec"].update(joinType="LEFT"),
        "join[5]: rows that have expired after 1 h may have matched",
    ),
    "calc in front": (
        "dedup",
        put(lambda p: node(p, "calc"), condition=TRUE),
        "group-aggregate[7]: its input changed: calc[2] condition: null -> TRUE",
    ),
    "far in front": (
        "dedup",
        put(lambda p: node(p, "calc"), condition=TRUE),
        "group-aggregate[7]: its input changed: calc[2] condition: null -> TRUE",
    ),
    "new in front": (
        "dedup",
        lambda p: insert_calc(p, node(p, "exchange")),
        "group-aggregate[7]: its input changed: calc[99] is new",
    ),
    "option of a calc that computes": (
        "dedup",
        lambda p: (
            node(p, "calc").update(configuration={"table.local-time-zone": "UTC"}),
            node(p, "calc")["projection"].__setitem__(0, {"kind": "LITERAL", "value": 5, "type": "BIGINT"}),
        ),
        "deduplicate[4]: its input changed: calc[2]",
    ),
    "path": ("dedup", option("table-source-scan", "path", "/other"), "option path: ${DIR}/orders.json -> /other"),
    "path, no state": ("limit", option("table-source-scan", "path", "/other"), "option path"),
    "column read": (
        "dedup",
        lambda p: node(p, "table-source-scan").update(
            outputType=node(p, "table-source-scan")["outputType"].replace("product_id", "p")
        ),
        "output names",
    ),
    "type in front": (
        "join",
        lambda p: node(p, "table-source-scan").update(
            outputType="ROW<`order_id` BIGINT, `k` BIGINT NOT NULL, `product` VARCHAR(2147483647)>"
        ),
        "output types[1]",
    ),
    "materializer": (
        "sink_materializer",
        put(lambda p: node(p, "sink"), inputUpsertKey=[0, 1]),
        "sink[3]: inputUpsertKey",
    ),
}

UNKNOWN: dict[str, tuple[str, Edit, str]] = {
    "state name": (
        "join",
        lambda p: node(p, "join")["state"][0].update(name="other"),
        "leftState name: leftState -> other",
    ),
    "clock": (
        "join",
        lambda p: node(p, "join")["state"][0].update(timeCharacteristic="EventTime"),
        "leftState timeCharacteristic: null -> EventTime",
    ),
    "how the table is read": (
        "dedup",
        lambda p: node(p, "table-source-scan")["scanTableSource"]["table"].pop("resolvedTable"),
        "the new plan does not contain the options",
    ),
    "a key nobody knows": (
        "dedup",
        put(lambda p: node(p, "group-aggregate"), stateLayout="columnar"),
        "stateLayout: nothing -> columnar",
    ),
}


@pytest.mark.parametrize("what", IDENTICAL)
def test_identical(what: str) -> None:
    diff = changed(*IDENTICAL[what])
    assert (diff.verdict, diff.may_restart, diff.all_reasons) == ("identical", True, ()), to_text(diff)


@pytest.mark.parametrize("what", TTL_ONLY)
def test_ttl_only(what: str) -> None:
    diff = changed(*TTL_ONLY[what])
    assert (diff.verdict, diff.may_restart, diff.all_reasons) == ("ttl-only", True, ()), to_text(diff)
    assert len(diff.ttl_changes) >= 1


@pytest.mark.parametrize("what", STATELESS)
def test_stateless(what: str) -> None:
    diff = changed(*STATELESS[what])
    assert (diff.verdict, diff.may_restart, diff.all_reasons) == ("stateless", True, ()), to_text(diff)


def read_once(plan: Plan) -> None:
    """Reads all tables by a connector that does not read them again."""
    for n in plan["nodes"]:
        if "scanTableSource" in n:
            options(n)["connector"] = "jdbc"


@pytest.mark.parametrize("what", RESET)
def test_reset(what: str) -> None:
    name, edit, reason = RESET[what]
    is_other_data = what.startswith("path")
    diff = changed(name, edit, before=None if is_other_data else read_once)
    assert (diff.verdict, diff.may_restart) == ("derive" if is_other_data else "reset", False), to_text(diff)
    assert any(reason in r for r in diff.all_reasons), to_text(diff)
    assert all(len(r) < 600 for r in diff.all_reasons)
    if not is_other_data:
        assert any("cannot be read again" in r for r in diff.all_reasons)


def test_a_join_with_another_condition_takes_over_the_kept_rows() -> None:
    diff = changed("join", lambda p: node(p, "join")["joinSpec"].update(nonEquiCondition=None), before=read_once)
    assert (diff.verdict, diff.may_restart) == ("derive", False), to_text(diff)
    assert diff.all_reasons == ("join[5]: the rows that it has kept pass through the new join",)


@pytest.mark.parametrize("what", [what for what in RESET if not what.startswith("path")])
def test_state_of_tables_that_can_be_read_again_is_made_from_history(what: str) -> None:
    name, edit, reason = RESET[what]
    diff = changed(name, edit)
    assert (diff.verdict, diff.may_restart) == ("backfill", False), to_text(diff)
    assert any(reason in r for r in diff.all_reasons), to_text(diff)


@pytest.mark.parametrize("what", UNKNOWN)
def test_unknown(what: str) -> None:
    name, edit, reason = UNKNOWN[what]
    diff = changed(name, edit)
    assert (diff.verdict, diff.may_restart) == ("unknown", False), to_text(diff)
    assert any(reason in r for r in diff.all_reasons), to_text(diff)


def test_the_uid_in_the_file_is_not_believed() -> None:
    def record(plan: Plan) -> None:
        for n in plan["nodes"]:
            n["stateplan"] = {"uid": f"u{n['id']}", **({"formatVersion": 1} if "sink" in n["type"] else {})}

    diff = changed("dedup", put(lambda p: node(p, "deduplicate"), keepLastRow=True), before=record)
    assert diff.verdict == "backfill"
    assert changed("dedup", before=record).verdict == "identical"


def test_a_sink_less_is_stateless_and_a_state_less_is_not() -> None:
    def drop(*kept_sinks: int) -> Edit:
        def edit(plan: Plan) -> None:
            keep = set(kept_sinks)
            for e in reversed(plan["edges"]):
                if e["target"] in keep:
                    keep.add(e["source"])
            for _ in plan["edges"]:
                keep |= {e["source"] for e in plan["edges"] if e["target"] in keep}
            plan["nodes"] = [n for n in plan["nodes"] if n["id"] in keep]
            plan["edges"] = [e for e in plan["edges"] if e["target"] in keep]

        return edit

    diff = changed("two_sinks", drop(10))
    assert diff.verdict == "stateless"
    assert [str(o.old) for o in diff.operators if o.new is None] == ["calc[4]", "sink[5]"]
    diff = changed("two_sinks", drop(5))
    assert diff.verdict == "derive"
    assert "group-aggregate[8]: it was removed; its state is deleted" in diff.all_reasons
    back = compare(*(PlanDocument.parse(dumps(p)) for p in (_edited("two_sinks", drop(5)), load("two_sinks"))))
    assert "group-aggregate[8]: it is new, and has not seen the rows read so far" in back.all_reasons[0]


def _edited(name: str, edit: Edit) -> Plan:
    plan = load(name)
    edit(plan)
    return plan


def test_the_order_of_operators_does_not_matter() -> None:
    def swap(plan: Plan) -> None:
        nodes = plan["nodes"]
        nodes[0], nodes[2] = nodes[2], nodes[0]

    assert changed("join", swap).verdict == "identical"


def test_every_plan_is_identical_with_itself_and_its_json_form(flink_plan) -> None:
    document = PlanDocument.load(str(flink_plan))
    diff = compare(document, PlanDocument.parse(dumps(document.graph.to_json())))
    assert diff.verdict == "identical"
    assert not any(o.changes for o in diff.operators)


def test_text_and_json() -> None:
    diff = changed("join", lambda p: node(p, "join")["state"][1].update(ttl="7 d"))
    assert to_text(diff) == (
        "ttl-only: only TTLs changed; existing state uses the new ones, and expired rows stay expired\n\n"
        "join[5]  ttl-only\n  rightState: ttl 1 h -> ttl 7 d\n\n"
        "1 ttl-only, 6 identical\n"
    )
    data = json.loads(json.dumps(to_json(diff)))
    assert data["mayRestart"] is True
    assert data["operators"][4]["changes"][0]["field"] == "rightState"
    diff = changed("dedup", put(lambda p: node(p, "calc"), condition=TRUE))
    assert to_text(diff).splitlines()[:5] == [
        "backfill: some state must be made from the history of its inputs; none is lost",
        "",
        "group-aggregate[7]  backfill",
        "  its input changed: calc[2] condition: null -> TRUE",
        "",
    ]
    assert to_text(diff).splitlines()[-1] == "1 backfill, 1 derive, 1 stateless, 6 identical"


def test_long_values_are_cut_around_what_differs() -> None:
    names = [f"a_column_with_a_long_name_{i}" for i in range(20)]
    flags = [", ".join(names), ", ".join([*names[:10], "here", *names[11:]])]
    (was, now) = (put(lambda p: options(node(p, "table-source-scan")), **{"json.note": text}) for text in flags)
    shown = to_text(changed("join", now, before=was))
    line = next(line for line in shown.splitlines() if "json.note" in line)
    assert "a_column_with_a_long_name_10" in line
    assert "here" in line
    assert line.count("...") == 4


def test_a_column_less_is_shown_alone_and_expressions_of_one_text_with_their_types() -> None:
    def plan(columns: str) -> PlanDocument:
        environment = TableEnvironment.create()
        environment.execute_sql(f"CREATE TABLE t ({columns}) WITH ('connector'='datagen')")
        environment.execute_sql("CREATE TABLE s (k INT, n DOUBLE) WITH ('connector'='print')")
        return environment.compile_plan_sql("INSERT INTO s SELECT k, SUM(v) FROM t GROUP BY k").document

    shown = to_text(compare(plan("k INT, v INT"), plan("a STRING, k INT, v BIGINT, w AS v * 2"))).splitlines()
    assert "  table columns: v INT -> a VARCHAR(2147483647), v BIGINT, w AS `v` * 2" in shown
    assert "  aggCalls[0]: SUM(v) (INT) -> SUM(v) (BIGINT)" in shown


def test_fields_that_only_move_do_not_hide_the_reason() -> None:
    def plan(where: str) -> PlanDocument:
        environment = TableEnvironment.create()
        options = "'connector'='filesystem', 'path'='/t', 'format'='json'"
        environment.execute_sql(f"CREATE TABLE t (a INT, k INT, v INT, b INT) WITH ({options})")
        environment.execute_sql("CREATE TABLE s (k INT, n INT) WITH ('connector'='print')")
        return environment.compile_plan_sql(f"INSERT INTO s SELECT k, SUM(v) FROM t {where} GROUP BY k").document

    shown = to_text(compare(plan("WHERE k > 0"), plan("WHERE k > 0 AND a > 0"))).splitlines()
    assert "  its input changed: calc[2] condition: (k > 0) -> ((k > 0) AND (a > 0))" in shown
    changes = [line.partition(": ")[2].split(" -> ") for line in shown]
    assert [change for change in changes if len(change) == 2 and change[0] == change[1]] == []


def test_markdown() -> None:
    def edit(plan: Plan) -> None:
        node(plan, "join")["state"][1].update(ttl="7 d")
        node(plan, "join")["joinSpec"].update(joinType="LEFT")

    text = to_markdown(changed("join", edit), "a|b", "c")
    assert text.startswith(
        "### Plan diff: `backfill`\n\n"
        "a&#124;b → c: some state must be made from the history of its inputs; none is lost.\n\n"
        "| operator | state | why and what |\n| --- | --- | --- |\n"
        "| `join[5]` | **backfill** | rows that have expired after 1 h may have matched<br>"
        "joinSpec.joinType: INNER -&#62; LEFT<br>rightState: ttl 1 h -&#62; ttl 7 d |\n"
    )
    assert text.endswith("\n\n1 backfill, 6 identical.\n")


def test_a_window_of_two_phases_that_something_is_between() -> None:
    """A union of the partial results with themselves, which no planner writes."""
    plan = frozen("stream-exec-global-window-aggregate_1", "retract")
    merged = PlanDocument.parse(dumps(plan))
    union = {
        **next(n for n in plan["nodes"] if n["type"] == "stream-exec-exchange_1"),
        "id": 99,
        "type": "stream-exec-union_1",
        "description": "Union",
    }
    union["inputProperties"] = 2 * union["inputProperties"]
    plan["nodes"].insert(4, union)
    out = next(edge for edge in plan["edges"] if edge["source"] == 4)
    plan["edges"] += [{**out, "target": 99}, {**out, "target": 99}]
    out["source"] = 99
    twice = PlanDocument.parse(dumps(plan))
    assert compare(twice, twice).may_restart
    assert not compare(merged, twice).may_restart
