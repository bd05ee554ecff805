"""What ``plan show`` says of a plan."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stateplan.common.changelog import RowKind
from stateplan.execnodes.changelog_modes import changelog_modes
from stateplan.plans.document import PlanDocument
from stateplan.plans.show import narrow_view, show, to_json, to_text
from tests.plans.conftest import DATA

_FLINK = {"I": RowKind.INSERT, "UB": RowKind.UPDATE_BEFORE, "UA": RowKind.UPDATE_AFTER, "D": RowKind.DELETE}


def load(name: str) -> PlanDocument:
    return PlanDocument.load(str(DATA / name / "plan.json"))


def test_changes_are_those_flink_infers(shared: Path) -> None:
    """Compared wherever the physical plan of EXPLAIN has the shape of the plan file."""
    compared = 0
    for case in sorted(shared.glob("cases/*")):
        sections = re.split(r"^== (.*) ==$", (case / "explain.txt").read_text(), flags=re.M)
        physical = next(s for s in sections if "changelogMode=" in s).split("\n\n")[0].strip().splitlines()
        graph = PlanDocument.load(str(case / "plan.json")).graph
        if len(graph.sinks) > 1 or len(physical) != len(graph.nodes):
            continue
        order, stack = [], [graph.sinks[0]]
        while stack:
            order.append(stack.pop())
            stack.extend(reversed(graph.inputs(order[-1])))
        modes = changelog_modes(graph)
        for node, line in zip(order, physical, strict=True):
            merged = any(n.title == "incremental-group-aggregate" for n in graph.nodes[: graph.position(node)])
            if merged:  # Flink inferred -D of two aggregations that it then made one, which only ever counts up
                continue
            if modes[node.id] is not None and node.title != "sink":
                expected = {_FLINK[k] for k in re.search(r"changelogMode=\[([A-Z,]*)\]", line).group(1).split(",")}
                assert modes[node.id] == expected, (case.name, line)
                compared += 1
    assert compared > 100


def test_every_plan_is_shown_within_100_columns(flink_plan: Path) -> None:
    document = PlanDocument.load(str(flink_plan))
    document.file = "plan.json"
    text = to_text(show(document))
    long = [line for line in text.splitlines() if len(line) > 100 and " " in line.strip()]
    assert not long
    for node in document.graph.nodes:
        assert f"[{node.id}] {node.title}  ({node.type}, uid " in text
        for name in node.state_names:
            assert name in text


def test_text() -> None:
    document = load("join")
    document.set_ttl(5, "leftState", "7 d").set_ttl(5, 1, 0)
    document.file = "p.json"
    lines = to_text(show(document)).splitlines()
    assert lines[0] == "p.json: written by Flink 2.3, 7 operators, 1 with state"
    at = next(i for i, line in enumerate(lines) if line.startswith("[5] join"))
    assert lines[at + 1 : at + 6] == [
        "    joins left and right on left.k = right.k and (product <> t)",
        "    inputs 2, 4; keys k = k; emits +I",
        "    state 0  leftState   ttl 7 d        from the plan",
        "    state 1  rightState  never expires  from the plan",
        "",
    ]


@pytest.mark.parametrize(
    ("configuration", "session", "expected"),
    [
        ("", {}, "never expires  no TTL given anywhere"),
        ("", {"table.exec.state.ttl": "36 h"}, "ttl 36 h  from the session option table.exec.state.ttl"),
        (
            '"configuration" : { "table.exec.state.ttl" : "90 min" },',
            {"table.exec.state.ttl": "36 h"},
            "ttl 90 min  from the node configuration",
        ),
    ],
)
def test_where_a_ttl_comes_from(join_text: str, configuration: str, session: dict[str, str], expected: str) -> None:
    start = join_text.index('    "state" : [')
    end = join_text.index('    "inputProperties"', start)
    text = (join_text[:start] + join_text[end:]).replace('"joinSpec"', configuration + '"joinSpec"')
    assert f"state 0  leftState   {expected}" in to_text(show(PlanDocument.parse(text), session))


def test_what_else_a_state_entry_says_is_shown(join_text: str) -> None:
    text = join_text.replace('"name" : "leftState"', '"name" : "leftState", "updateType" : "OnReadAndWrite"')
    assert "OnReadAndWrite" in to_text(show(PlanDocument.parse(text)))


def test_json() -> None:
    view = json.loads(json.dumps(to_json(show(load("dedup")))))
    operator = next(o for o in view["operators"] if o["type"] == "stream-exec-deduplicate_1")
    assert operator["keys"] == [["order_id"]]
    assert operator["changelogMode"] == ["+I"]
    assert operator["state"][0] == {
        "id": operator["id"],
        "operator": "deduplicate",
        "uid": operator["uid"],
        "index": 0,
        "name": "deduplicateState",
        "ttl": "1 h",
        "ttlMillis": 3_600_000,
        "source": "plan",
    }


def test_warnings_are_shown_with_their_place(join_text: str) -> None:
    text = join_text.replace('"joinSpec" : {', '"joinSpek" : 1,\n    "joinSpec" : {')
    shown = to_text(show(PlanDocument.parse(text, "p.json")))
    assert "warning: unknown key 'joinSpek' (p.json, line 87, column 5" in shown
    assert "did you mean\n'joinSpec'" in shown


def compiled(join_text: str, *entries: str) -> str:
    """The plan with what the compiler wrote as the TTL of the join's states, and why, as stateplan keeps it."""
    ours = ", ".join(f'{{ "ttl" : "1 h", "from" : "{origin}" }}' for origin in entries)
    at = join_text.index('"type" : "stream-exec-join_1"')
    end = join_text.index('"description" : ', at)
    return join_text[:end] + f'"stateplan" : {{ "compiledTtl" : [ {ours} ] }},\n    ' + join_text[end:]


def test_who_said_a_ttl_when_it_was_compiled(join_text: str) -> None:
    text = to_text(show(PlanDocument.parse(compiled(join_text, "hint", "option"))))
    assert "state 0  leftState   ttl 1 h  from the STATE_TTL hint" in text
    assert "state 1  rightState  ttl 1 h  from the option table.exec.state.ttl" in text


def test_an_edited_ttl_says_what_was_compiled(join_text: str) -> None:
    document = PlanDocument.parse(compiled(join_text, "hint", "default")).set_ttl(5, 0, "2 d").set_ttl(5, 1, "0 ms")
    view = show(document)
    text = to_text(view)
    assert "leftState   ttl 2 d        edited in the plan, compiled as ttl 1 h from the STATE_TTL hint" in text
    assert "rightState  never expires  edited in the plan, compiled as ttl 1 h\n" in text
    state = to_json(view)["operators"][4]["state"][0]
    assert (state["source"], state["compiled"]) == ("plan", {"ttl": "1 h", "from": "hint"})


def test_a_view_narrowed() -> None:
    view = show(load("join"))
    assert [o.id for o in narrow_view(view, stateful=True).operators] == [5]
    assert [o.id for o in narrow_view(view, match="exchange K").operators] == [2, 4]
    assert [o.id for o in narrow_view(view, match="[5]").operators] == [5]
    assert [o.id for o in narrow_view(view, match="leftstate").operators] == [5]
    assert narrow_view(view, match=" ") == view
    assert to_text(narrow_view(view, stateful=True), of=7).splitlines()[0].endswith("1 of 7 operators, 1 with state")


def test_what_a_sink_gets_tells_what_stands_in_front_of_it(join_text: str) -> None:
    """Of a source whose connector is not known nothing can be told, but the sink has recorded what it gets."""
    text = join_text.replace('"connector" : "filesystem"', '"connector" : "values"')
    assert text != join_text
    changes = {o.name: o.changes_text for o in show(PlanDocument.parse(text)).operators}
    assert (changes["sink"], changes["calc"]) == ("+I", "+I")
