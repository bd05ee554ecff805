"""The JSON Schema: it takes every plan Flink wrote, and refuses what loading refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from execnodes.errors import StateplanError
from execnodes.flink import FLINK_NODES
from execnodes.registry import registered
from execnodes.ttl import parse_ttl
from plans.document import PlanDocument
from plans.facts import PlanFacts
from plans.schema import plan_schema, schema_errors
from tests.plans.conftest import DATA
from tests.plans.test_document import BAD_TTLS, LOAD_ERRORS, edited


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
    names |= {cls.type_name() for cls in registered().values()}
    assert set(plan_schema()["$defs"]["Node"]["properties"]["type"]["enum"]) == names
    for name in names:
        assert plan_schema()["$defs"][name]["properties"]["type"] == {"const": name}
        assert plan_schema()["$defs"][name]["description"]
