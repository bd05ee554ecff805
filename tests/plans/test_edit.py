"""Edits of several TTLs: all or none, only what is touched, and the diff that they make."""

from __future__ import annotations

import json
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import PlanError
from stateplan.common.ttl import format_ttl
from stateplan.execnodes.node_ttls import ttl_home
from stateplan.plans import storage
from stateplan.plans.document import PlanDocument
from stateplan.plans.edit import plan_edit, set_ttls, to_json, to_text, write_edited
from stateplan.plans.selector_text import parse_assignment
from stateplan.plans.states import state_views
from stateplan.plans.text_splices import Splice, apply_splices, unified_diff
from tests.plans.conftest import DATA
from tests.plans.unified_diffs import patched


def edited(document: PlanDocument, *assignments: str, session: dict[str, str] | None = None) -> str:
    edit = plan_edit(document, [parse_assignment(text) for text in assignments], session)
    edit.apply()
    return to_text(edit)


def test_one_side_of_a_join(join_text: str) -> None:
    document = PlanDocument.parse(join_text, "plan.json")
    edit = plan_edit(document, [parse_assignment("join.right=1 d")])
    assert document.text == join_text
    diff = edit.diff()
    assert [line for line in diff.splitlines() if re.match(r"[-+] ", line)] == [
        '-      "ttl" : "1 h",',
        '+      "ttl" : "1 d",',
    ]
    assert diff.startswith("--- plan.json\n+++ plan.json\n@@ ")
    assert edit.apply() is document
    assert patched(join_text, diff) == document.text
    assert document.graph.node(5).ttls() == (3_600_000, 86_400_000)
    assert to_text(edit) == "join[5].right  rightState  1 h -> 1 d\n"
    assert [(c["state"], c["old"], c["newMillis"], c["changed"]) for c in to_json(edit)] == [
        ("join[5].right", "1 h", 86_400_000, True)
    ]


def test_every_state_of_flinks_plans(flink_plan: Path) -> None:
    document = PlanDocument.load(str(flink_plan))
    before, views = document.text, state_views(document.graph, document.uids)
    if all(view.source == "time" for view in views):
        return
    listed = all(document.graph.node(view.node_id).states for view in views)
    edit = plan_edit(document, [parse_assignment("*=123 min")])
    assert patched(before, edit.diff()) == edit.apply().text
    assert [view.ttl for view in state_views(document.graph, document.uids)] == [123 * 60_000] * len(views)
    if listed:
        olds = {f'"{format_ttl(view.ttl)}"' for view in views}
        assert {s.new for s in edit.splices} == {'"123 min"'}
        assert {before[s.start : s.end] for s in edit.splices} == olds
    unchanged = plan_edit(document, [parse_assignment("*=7380 s")])
    assert unchanged.splices == ()
    assert unchanged.diff() == ""
    assert all(change.text == "123 min, unchanged" for change in unchanged.changes)


@pytest.mark.parametrize(
    ("assignments", "code"),
    [
        (["join.left=2 h", "join.right=2 h", "join.middle=2 h"], "PLAN101"),
        (["join.left=2 h", "5.0=3 h"], "PLAN106"),
        (["join.*=2 h", "5.0=3 h"], "PLAN106"),
    ],
)
def test_all_or_none(join_text: str, assignments: list[str], code: str) -> None:
    document = PlanDocument.parse(join_text)
    with pytest.raises(PlanError) as caught:
        edited(document, *assignments)
    assert caught.value.code == code
    assert document.text == join_text


def test_the_same_twice_is_no_conflict(join_text: str) -> None:
    document = PlanDocument.parse(join_text)
    assert edited(document, "join.left=2 h", "5.0=120 min").splitlines() == ["join[5].left  leftState  1 h -> 2 h"]


def test_what_the_plan_does_not_say_is_written_for_the_whole_operator(join_text: str) -> None:
    bare = re.sub(r'    "state" : \[.*?\],\n', "", join_text, flags=re.S)
    document = PlanDocument.parse(bare)
    edit = plan_edit(document, [parse_assignment("join.left=2 h")], {"table.exec.state.ttl": "1 h"})
    so_far = "now stored in the plan (before: from the session option table.exec.state.ttl)"
    assert to_text(edit).splitlines() == [
        f"join[5].left   leftState   1 h -> 2 h, {so_far}",
        f"join[5].right  rightState  1 h, {so_far}",
    ]
    assert edit.apply().text == join_text.replace('"1 h"', '"2 h"', 1)


CONFIGURATIONS = [
    ("", ""),
    ('"configuration" : null,', ""),
    ('"configuration" : { },', ""),
    (
        '"configuration" : {\n      "table.exec.mini-batch.size" : "-1"\n    },',
        '"table.exec.mini-batch.size" : "-1",\n      ',
    ),
    ('"configuration" : {\n      "table.exec.state.ttl" : "3 h"\n    },', ""),
]


@pytest.mark.parametrize(("configuration", "rest"), CONFIGURATIONS)
def test_an_operator_without_a_list_of_states(configuration: str, rest: str) -> None:
    """Flink gives OVER no such list: its TTL is an option of the node, which Flink reads as well."""
    text = (DATA / "over" / "plan.json").read_text()
    kind = '    "type" : "stream-exec-over-aggregate_1",\n'
    before = text.replace(kind, f"{kind}    {configuration}\n" if configuration else kind)
    document = PlanDocument.parse(before)
    edit = plan_edit(document, [parse_assignment("over-aggregate=90 min")])
    new = '    "configuration" : {\n      %s"table.exec.state.ttl" : "90 min"\n    },\n' % rest  # noqa: UP031 - braces
    assert edit.apply().text == text.replace(kind, kind + new)
    assert (
        patched(before, plan_edit(PlanDocument.parse(before), [parse_assignment("4=90 min")]).diff()) == document.text
    )
    assert [view.ttl for view in state_views(document.graph, document.uids)] == [5_400_000]
    assert plan_edit(document, [parse_assignment("overState=90 min")]).splices == ()


def test_an_operator_whose_frame_says_how_long() -> None:
    text = (DATA / "over" / "plan.json").read_text()
    document = PlanDocument.parse(text.replace('"isRows" : true', '"isRows" : false'))
    assert ttl_home(document.graph.node(4)) == "state", "Flink has no TTL there, so it would read none either"
    document.set_ttl(4, 0, "1 s")
    assert [(entry.name, entry.ttl) for entry in document.graph.node(4).states] == [("overState", 1000)]


def test_sides_by_name_with_one_call(join_text: str) -> None:
    document = PlanDocument.parse(join_text)
    changes = set_ttls(document, {"join.left": "never", "join.right": timedelta(hours=2)})
    assert [change.text for change in changes] == ["1 h -> never", "1 h -> 2 h"]
    assert document.graph.node(5).ttls() == (0, 7_200_000)


@pytest.mark.parametrize(
    ("ttl", "code", "part"),
    [
        (3600, "PLAN050", 'write "3600 s" for seconds, "3600 ms" for milliseconds'),
        (True, "PLAN050", "a state TTL is true"),
        (1.5, "PLAN050", "a state TTL is 1.5"),
        (timedelta(hours=-1), "PLAN054", "negative"),
        (timedelta(microseconds=10), "PLAN072", "less than a millisecond"),
    ],
)
def test_a_ttl_from_code_has_a_unit(join_text: str, ttl: Any, code: str, part: str) -> None:
    document = PlanDocument.parse(join_text)
    with pytest.raises(PlanError) as caught:
        set_ttls(document, {"join.left": ttl})
    assert caught.value.code == code
    assert part in str(caught.value)
    assert document.text == join_text


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_the_file_keeps_its_form(tmp_path: Path, join_text: str, newline: str, bom: bytes) -> None:
    data = bom + join_text.replace("\n", newline).encode()
    file, link = tmp_path / "plan.json", tmp_path / "link.json"
    file.write_bytes(data)
    file.chmod(0o640)
    link.symlink_to(file)
    edit = plan_edit(PlanDocument.load(str(link)), [parse_assignment("join.left=2 h")])
    write_edited(edit)
    assert file.read_bytes() == data.replace(b'"1 h"', b'"2 h"', 1)
    assert file.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link.json", "plan.json"]


def test_a_file_that_changed_in_between_is_left_alone(tmp_path: Path, join_text: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(join_text)
    edit = plan_edit(PlanDocument.load(str(file)), [parse_assignment("join.left=2 h")])
    file.write_text(join_text + " ")
    with pytest.raises(PlanError) as caught:
        write_edited(edit)
    assert caught.value.code == "PLAN107"
    assert file.read_text() == join_text + " "


def test_a_url(join_text: str) -> None:
    url = "memory://edits/plan.json"
    storage.write_bytes(url, join_text.encode())
    write_edited(plan_edit(PlanDocument.load(url), [parse_assignment("join.left=2 h")]))
    assert storage.read_bytes(url).decode() == join_text.replace('"1 h"', '"2 h"', 1)


def test_two_plans_in_one_line(join_text: str) -> None:
    flat = " ".join(line.strip() for line in join_text.splitlines())
    document = PlanDocument.parse(flat)
    diff = plan_edit(document, [parse_assignment("join.left=2 h")]).diff()
    assert diff.count("\\ No newline at end of file") == 2
    assert patched(flat, diff) == flat.replace('"1 h"', '"2 h"', 1)


@st.composite
def spliced(draw: st.DrawFn) -> tuple[str, list[Splice]]:
    text = draw(st.lists(st.sampled_from(["a", "b\r", "", "é", "x x"]), max_size=30).map("\n".join))
    text += draw(st.sampled_from(["", "\n"]))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    news = st.sampled_from(["", "n", "n\n", "\nn", "a", "\n\n"])
    pairs = zip(cuts[::2], cuts[1::2], strict=False)
    return text, [Splice(start, end, draw(news)) for start, end in pairs]


@given(spliced())
def test_a_diff_leads_from_the_old_text_to_the_new_one(case: tuple[str, list[Splice]]) -> None:
    text, splices = case
    assert patched(text, unified_diff(text, apply_splices(text, splices), "old", "new")) == apply_splices(text, splices)


@pytest.mark.parametrize("name", ["join", "two_sinks", "sink_materializer"])
def test_what_was_compiled_stays_recorded(name: str) -> None:
    document = PlanDocument.load(str(DATA / name / "plan.json"))
    before = [node.stateplan for node in document.graph.nodes]
    edited(document, "*=5 h")
    assert [node.stateplan for node in document.graph.nodes] == before


@st.composite
def laid_out(draw: st.DrawFn) -> str:
    """The join's plan with its keys in any order, in any layout that JSON allows."""

    def shuffled(value: Any) -> Any:
        if isinstance(value, list):
            return [shuffled(part) for part in value]
        if not isinstance(value, dict):
            return value
        return {key: shuffled(value[key]) for key in draw(st.permutations(sorted(value)))}

    plan = json.loads((DATA / "join" / "plan.json").read_text())
    plan["nodes"][4] = shuffled(plan["nodes"][4])
    if draw(st.booleans()):
        plan["nodes"][4]["state"].reverse()
    indent = draw(st.sampled_from([None, 0, 1, 4, "\t"]))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : "), (",  ", ":\t")]))
    text = json.dumps(plan, indent=indent, separators=separators)
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n", "\r", "\n\n  "])))


@given(laid_out(), st.integers(1, 10**12))
def test_whatever_the_layout_one_value_changes(text: str, ms: int) -> None:
    document = PlanDocument.parse(text)
    edit = plan_edit(document, [parse_assignment(f"join.right={ms} ms")])
    new = edit.apply().text
    if ms != 3_600_000:
        (splice,) = edit.splices
        assert text[splice.start : splice.end] == '"1 h"'
        assert new == text[: splice.start] + f'"{format_ttl(ms)}"' + text[splice.end :]
    assert document.graph.node(5).ttls() == (3_600_000, ms)
    assert patched(text, edit.diff()) == new


@given(laid_out(), st.sampled_from([("join.left", (7_200_000, 0)), ("join.*", (7_200_000, 7_200_000))]))
def test_whatever_the_layout_a_list_of_states_is_put_in(text: str, case: tuple[str, tuple[int, int]]) -> None:
    plan = json.loads(text)
    del plan["nodes"][4]["state"]
    blank = text[1 : len(text) - len(text[1:].lstrip())]
    bare = json.dumps(plan, indent=1 if "\n" in blank else None)
    document = PlanDocument.parse(bare)
    edit = plan_edit(document, [parse_assignment(f"{case[0]}=2 h")])
    new = json.loads(edit.apply().text)
    assert document.graph.node(5).ttls() == case[1]
    del new["nodes"][4]["state"]
    assert new == plan
    assert patched(bare, edit.diff()) == document.text
