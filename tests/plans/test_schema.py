"""The JSON Schema: it takes every plan Flink wrote, and refuses what loading refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from stateplan.common.errors import StateplanError
from stateplan.common.ttl import parse_ttl
from stateplan.execnodes.flink import FLINK_NODES
from stateplan.execnodes.registry import node_classes
from stateplan.plans.document import PlanDocument
from stateplan.plans.jsontext import join_pointer
from stateplan.plans.plan_metadata import PlanFacts
from stateplan.plans.schema import plan_schema
from stateplan.plans.schema_words import WORDS
from tests.plans.conftest import DATA
from tests.plans.invalid_documents import BAD_TTLS, LOAD_ERRORS, edited


class SchemaError(NamedTuple):
    """A place where JSON does not fit the schema."""

    pointer: str
    message: str


def schema_errors(data: Any) -> tuple[SchemaError, ...]:
    """Where the JSON of a plan does not fit the schema, in the order of the document; empty when it fits."""
    found: Iterable[Any] = map(_innermost, Draft202012Validator(plan_schema()).iter_errors(data))
    errors = [SchemaError(join_pointer(list(error.absolute_path)), error.message[:300]) for error in found]
    return tuple(sorted(errors))


def _innermost(error: Any) -> Any:
    """Of a value that fits none of several forms, what is wrong with it in the form it comes closest to."""
    while error.context:
        error = max(error.context, key=lambda inner: len(inner.absolute_path))
    return error


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(plan_schema())
    text = json.dumps(plan_schema())
    assert text.count('"description"') > 100
    assert "code-block" not in text


def test_flinks_plans_fit(flink_plan: Path) -> None:
    text = flink_plan.read_text()
    assert schema_errors(json.loads(text)) == ()
    ours = PlanDocument.from_graph(PlanDocument.parse(text).graph, PlanFacts.of("INSERT INTO s SELECT 1"))
    assert schema_errors(json.loads(ours.text)) == ()


def test_older_plans_fit(shared: Path) -> None:
    for plan in sorted(shared.glob("plans/*/*.json")):
        assert schema_errors(json.loads(plan.read_text())) == (), plan.name


BETWEEN_NODES = {
    "edge to nowhere",
    "node removed",
    "duplicate id",
    "edge dropped",
    "cycle",
    "field out of range",
    "bad type",
}
"""What only loading can see."""


@pytest.mark.parametrize("case", sorted(LOAD_ERRORS.keys() - BETWEEN_NODES))
def test_what_does_not_load_does_not_fit(case: str) -> None:
    assert schema_errors(json.loads(edited(LOAD_ERRORS[case][0])))


@pytest.mark.parametrize("ttl", [t[0] for t in BAD_TTLS if t[1] != "PLAN056"])
def test_bad_ttls_do_not_fit(ttl: str) -> None:
    errors = schema_errors(with_ttl(json.loads(ttl)))
    assert [e.pointer for e in errors] == ["/nodes/4/state/0/ttl"]


def with_ttl(ttl: Any) -> Any:
    plan = json.loads((DATA / "join" / "plan.json").read_text())
    plan["nodes"][4]["state"][0]["ttl"] = ttl
    return plan


_TTL = Draft202012Validator({"$ref": "#/$defs/TTL", "$defs": plan_schema()["$defs"]})


@given(st.text("0123456789 dhmsDMPTinueµ.+-", max_size=12) | st.from_regex(r"[0-9]{1,6} ?[a-zµ]{0,6}", fullmatch=True))
@example("P")
@example("PT")
@example("1 minutes")
@example("3 MILLIS")
@settings(max_examples=300, deadline=2000)
def test_the_pattern_takes_every_ttl_and_little_else(text: str) -> None:
    try:
        parse_ttl(text)
        valid = True
    except StateplanError:
        valid = False
    fits = _TTL.is_valid(text)
    assert fits or not valid, text
    if fits and not valid:
        assert any(c in text.upper() for c in "P") or len(text) > 10, text


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        (lambda n: n["state"].append({"index": 2, "ttl": "1 h", "name": "x"}), "/nodes/4/state"),
        (lambda n: n["state"].pop(), "/nodes/4/state"),
        (lambda n: n["state"][1].update(index=2), "/nodes/4/state/1/index"),
        (lambda n: n["state"][1].update(updateType="Never"), "/nodes/4/state/1/updateType"),
        (lambda n: n.update(stateplan={"uuid": "x"}), "/nodes/4/stateplan"),
        (
            lambda n: n["joinSpec"]["nonEquiCondition"]["operands"][0].pop("inputIndex"),
            "/nodes/4/joinSpec/nonEquiCondition/operands/0",
        ),
    ],
)
def test_findings_have_their_place(change: Any, pointer: str) -> None:
    plan = json.loads((DATA / "join" / "plan.json").read_text())
    change(plan["nodes"][4])
    assert pointer in [e.pointer for e in schema_errors(plan)]


@pytest.mark.parametrize("state", [None, []])
def test_no_state_entries_fit(state: Any) -> None:
    plan = json.loads((DATA / "join" / "plan.json").read_text())
    plan["nodes"][4]["state"] = state
    assert schema_errors(plan) == ()


def test_every_node_type_is_a_branch() -> None:
    names = {f"{node.name}_{v}" for node in FLINK_NODES.values() for v in node.versions}
    names |= {cls.type_name() for cls in node_classes().values()}
    assert set(plan_schema()["$defs"]["Node"]["properties"]["type"]["enum"]) == names
    for name in names:
        branch = plan_schema()["$defs"][name]
        assert branch["description"]
        assert branch["properties"]["type"] == {"const": name, "description": branch["description"]}


def described() -> list[tuple[str, bool]]:
    """Every key of a plan that the schema has, and whether it says what the key means."""
    found: list[tuple[str, bool]] = []
    for name, definition in plan_schema()["$defs"].items():
        for key, part in definition.get("properties", {}).items():
            reference = part.get("$ref", "").rpartition("/")[2]
            words = part.get("description") or plan_schema()["$defs"].get(reference, {}).get("description")
            found.append((f"{name}/{key}", bool(words)))
    return found


EDITED = {"id", "type", "configuration", "state", "description", "stateplan", "index", "ttl", "name", "options"}


def test_keys_that_people_edit_are_explained() -> None:
    words = described()
    assert [path for path, there in words if not there and path.rpartition("/")[2] in EDITED] == []
    assert [key for key, part in plan_schema()["properties"].items() if "description" not in part] == []
    assert sum(there for _, there in words) > 0.95 * len(words)
    assert set(WORDS) <= {path.rpartition("/")[2] for path, _ in words}


def test_an_editor_can_offer_the_states_of_an_operator() -> None:
    state = plan_schema()["$defs"]["stream-exec-join_1"]["properties"]["state"]
    assert state["items"]["properties"]["name"]["examples"] == ["leftState", "rightState"]
    assert "0 leftState, 1 rightState" in state["items"]["properties"]["index"]["description"]
    (snippet,) = state["defaultSnippets"]
    filled = json.loads(re.sub(r"\$\{\d+:(.*?)\}", r"\1", json.dumps(snippet["body"])))
    plan = json.loads((DATA / "join" / "plan.json").read_text())
    plan["nodes"][4]["state"] = filled
    assert schema_errors(plan) == ()
    assert PlanDocument.parse(json.dumps(plan)).graph.node(5).ttls() == (3_600_000, 3_600_000)


def test_the_ttls_that_an_editor_offers_are_ttls() -> None:
    ttl = plan_schema()["$defs"]["TTL"]
    assert [parse_ttl(text) for text in ttl["examples"]] == [parse_ttl(s["body"]) for s in ttl["defaultSnippets"]]
    assert all(word in ttl["patternErrorMessage"] for word in ('"36 h"', '"90 min"', '"0 ms"'))


@pytest.mark.parametrize(
    ("old", "new", "pointer"),
    [
        ('"ttl" : "1 h"', '"tll" : "1 h"', "/nodes/4/state/0"),
        ('"stream-exec-join_1"', '"stream-exec-joins_1"', "/nodes/4/type"),
        ('"joinType" : "INNER"', '"joinType" : "OUTER"', "/nodes/4/joinSpec/joinType"),
        ('"joinSpec"', '"joinspec"', "/nodes/4"),
        ('"flinkVersion" : "2.3"', '"flinkVersion" : 2.3', "/flinkVersion"),
        ('"edges"', '"edge"', ""),
        ('"id" : 5', '"id" : "5"', "/nodes/4/id"),
        ('"source" : 1', '"source" : "1"', "/edges/0/source"),
        (
            '"type" : "stream-exec-join_1"',
            '"type" : "stream-exec-join_1", "configuration" : {"table.exec.state.ttl" : "soon"}',
            "/nodes/4/configuration/table.exec.state.ttl",
        ),
    ],
)
def test_typical_mistakes_have_their_place(join_text: str, old: str, new: str, pointer: str) -> None:
    assert old in join_text
    found = schema_errors(json.loads(join_text.replace(old, new, 1)))
    assert {error.pointer for error in found} == {pointer}
