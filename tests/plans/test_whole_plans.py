"""Every plan that Flink made goes through everything: read, written, shown, explained, linted, compared, edited."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from stateplan.common.ttl import format_ttl
from stateplan.execnodes.node_ttls import ttl_home
from stateplan.plans.document import PlanDocument
from tests.plans.damage import Original, originals
from tests.support.long_runs import LONG
from tests.support.plan_checks import check, run_command

PLANS = [plan for plan in originals() if not plan.name.startswith("own_plans")]


def some_plans() -> list[Original]:
    """All in a long run, else the first three plans with each operator."""
    counts: Counter[str] = Counter()
    chosen = []
    for plan in PLANS:
        types = {node["type"] for node in json.loads(plan.text)["nodes"]}
        if LONG or min(counts[node_type] for node_type in types) < 3:
            chosen.append(plan)
            counts.update(types)
    return chosen


@pytest.fixture(params=PLANS, ids=[plan.name for plan in PLANS])
def plan(request: pytest.FixtureRequest) -> Original:
    found: Original = request.param
    return found


@pytest.mark.parametrize("plan", some_plans(), ids=lambda plan: plan.name, indirect=True)
def test_every_command_takes_it(plan: Original) -> None:
    outcome = check(plan.text.encode(), plan.text, commands=True)
    assert outcome.failure is None, outcome.failure
    assert outcome.code is None, outcome.error
    allowed = {"execute", "migrate"}  # a table that only a catalog knows, an operator that does not run here
    refused = {command: text for command, text in outcome.errors.items() if command not in allowed}
    if not any(ttl_home(node) for node in PlanDocument.parse(plan.text).graph.nodes):
        refused.pop("set-ttl", None)
    assert not refused


def test_it_is_written_as_it_was_read(plan: Original, tmp_path: Path) -> None:
    target = tmp_path / "copy.json"
    PlanDocument.parse(plan.text).write(str(target))
    assert target.read_bytes() == plan.text.encode()


def test_it_is_identical_to_itself(plan: Original, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(plan.text, newline="")
    code, out, _ = run_command("diff", str(file), str(file), "--format", "json", "--exit-code")
    assert code == 0
    assert json.loads(out)["verdict"] == "identical"


def test_a_ttl_set_and_set_back_leaves_the_same_bytes(plan: Original) -> None:
    document = PlanDocument.parse(plan.text)
    for node in document.graph.nodes:
        for state in node.states if ttl_home(node) == "state" else ():
            document.set_ttl(node.id, state.index, "1234 ms")
            assert document.text != plan.text
            document.set_ttl(node.id, state.index, format_ttl(state.ttl))
            assert document.text == plan.text


def test_all_of_flinks_plans_are_among_them(shared: Path) -> None:
    names = [plan.name for plan in PLANS]
    assert len([name for name in names if name.startswith("plans/stream-exec-")]) >= 135
    assert {f"cases/{path.parent.name}/plan.json" for path in shared.glob("cases/*/plan.json")} <= set(names)
