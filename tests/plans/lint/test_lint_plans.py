"""Lint over plans of Flink: no false alarms, no finding that a fix raises, and quick."""

from __future__ import annotations

import copy
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.execnodes.node_ttls import ttl_home
from stateplan.plans.document import PlanDocument
from stateplan.plans.explain import explain, to_text
from stateplan.plans.lint import advice, fix, lint
from tests.conftest import shared_folder
from tests.plans.lint.lint_cases import all_cases, edited
from tests.support.golden import golden_cases

ROOT = Path(__file__).resolve().parents[3]
TTLS = ("0 ms", "1 min", "1 h", "1 d", "7 d")

TRUE_ALARMS = {"join_inner_hint_ttl-plan": [("TTL002", "rightState")]}
"""Plan to what lint rightly says of it. In this one both tables are updated, and the hints give one side less time."""


def plan_name(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def all_plans() -> list[Path]:
    shared = shared_folder()
    return sorted([*shared.glob("plans/*/*.json"), *shared.glob("cases/*/plan.json")]) if shared else []


@pytest.mark.parametrize("path", all_plans(), ids=plan_name)
def test_there_are_no_false_alarms_on_plans_of_flink(path: Path) -> None:
    document = PlanDocument.load(str(path))
    findings = lint(document).findings
    found = [(f.code, f.state_name) for f in findings]
    remedy = "make the rule more precise, or list findings that are right in TRUE_ALARMS of this file"
    assert found == TRUE_ALARMS.get(plan_name(path), []), remedy
    fixed, _ = fix(document)
    assert [f for f in lint(fixed).findings if f.fixable] == []
    assert (fixed.text != document.text) is any(f.fixable for f in findings)


def test_what_lint_says_of_plans_that_flink_compiled_here() -> None:
    """Each finding in ``judged.txt`` was looked at: the SQL asks for what lint says, mostly in a STATE_TTL hint."""
    judged = (Path(__file__).parent / "judged.txt").read_text().splitlines()
    found = []
    golden = {case.name: case for case in golden_cases()}
    for name in dict.fromkeys(line.split("  ", 1)[1] for line in judged):
        text = golden[name].plan if name in golden else (ROOT / "tests" / name).read_text()
        for f in lint(PlanDocument.parse(text, name)).findings:
            found.append(" ".join(filter(None, (f.code, f.operator, f.state_name))) + f"  {name}")
    assert found == judged, "look at each finding that is new or gone, and change judged.txt where lint is right"


def stateful_plans() -> list[PlanDocument]:
    return [rule.compiled(name) for rule in all_cases().values() for name in rule.data["plans"]]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_fix_raises_no_other_finding(seed: int) -> None:
    chance = random.Random(seed)
    document = copy.copy(chance.choice(stateful_plans()))
    for node in document.graph.nodes:
        for index in range(len(node.state_names) if ttl_home(node) else 0):
            document.set_ttl(node.id, index, chance.choice(TTLS))
    before = {(f.code, f.node_id, f.state) for f in lint(document).findings}
    fixed, applied = fix(document)
    after = lint(fixed).findings
    assert {(f.code, f.node_id, f.state) for f in after} <= before
    assert fix(fixed) == (fixed, ()) or fix(fixed)[0].text == fixed.text
    assert bool(applied) == (fixed.text != document.text)
    apart = [re.sub(r'ttl" : "[^"]*"', "", plan.text) for plan in (document, fixed)]
    assert apart[0] == apart[1]


def test_a_ttl_that_a_hint_says_is_not_fixed_in_the_plan() -> None:
    rule = all_cases()["TTL009"]
    plan = rule.data["plans"]["hinted"]["sql"].replace("'json');", "'debezium-json');", 1).replace("'7 d'", "'1 h'")
    from tests.plans.lint.lint_cases import compiled

    document = edited(compiled(plan), {"join.rightState": "1 d"})
    (finding,) = lint(document).findings
    assert (finding.code, finding.fixable) == ("TTL002", False)
    assert finding.hint == 'set its TTL to "1 d", in the STATE_TTL hint of the SQL'
    assert fix(document)[0].text == document.text


def test_findings_are_advice_of_explain() -> None:
    document = edited(all_cases()["TTL001"].compiled("totals"), {"deduplicate": "7 d", "group-aggregate": "1 h"})
    (one,) = advice(document)
    assert str(one).startswith("[WARNING] TTL001 groupAggregateState of group-aggregate[7] expires after 1 h")
    assert f": {one}\n" in to_text(explain(document, None, ["PLAN_ADVICE"]))
