"""Every lint rule: its cases, its fixes, and a run in which ignoring it gives a wrong result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stateplan.plans.document import PlanDocument
from stateplan.plans.lint import Rule, all_rules, choose, fix, lint
from stateplan.plans.lint.subject import Subject
from stateplan.runtime.metrics.state_uses import StateUses
from tests.plans.lint.lint_cases import (
    Example,
    RuleCases,
    all_cases,
    edited,
    observed,
    state_place,
    subject,
    without_ttls,
)


def parameters(kind: str) -> list[Any]:
    return [
        pytest.param(rule, case, id=f"{code}: {case['name']}")
        for code, rule in all_cases().items()
        for case in rule.cases(kind)
    ]


def against(rule: RuleCases, case: dict[str, Any]) -> PlanDocument | None:
    return edited(rule.compiled(case["plan"]), case["against"]) if "against" in case else None


def test_every_rule_has_cases_and_nothing_else_has() -> None:
    rules = all_rules()
    assert set(rules) - set(all_cases()) == set(), "write tests/plans/lint/cases/<CODE>.yml"
    assert list(all_cases()) == list(rules)
    for code, cases in all_cases().items():
        kinds = ["pass", "fail", *(["fix"] if rules[code].FIXABLE else [])]
        lacking = [kind for kind in kinds if not cases.cases(kind)]
        assert not lacking, f"{code}.yml has no cases of {lacking}"
        assert rules[code].FIXABLE or not cases.cases("fix"), f"{code} has cases of fixes, and is not fixable"
        assert cases.example["why"], code
    assert all(code == rule.CODE for code, rule in rules.items())
    assert list(rules) == sorted(rules)
    assert {type(rule) for rule in rules.values()} == set(Rule.__subclasses__())


def test_every_rule_is_documented() -> None:
    for rule in all_rules().values():
        paragraphs = (rule.__doc__ or "").split("\n\n")
        starts = [p.strip().split(":")[0] for p in paragraphs[1:]]
        wanted = ["Anti-pattern", "Why", "Best practice", "Source"]
        assert starts == wanted, f"the docstring of {rule.CODE} has a first line, and a paragraph for each of {wanted}"
        assert rule.summary().endswith(".")


@pytest.mark.parametrize(("rule", "case"), parameters("pass"))
def test_passes(rule: RuleCases, case: dict[str, Any]) -> None:
    report = lint(
        subject(rule, case),
        case.get("session"),
        against=against(rule, case),
        observed=observed(rule.compiled(case["plan"]), case),
        rules=None if case.get("all-rules") else choose([rule.code]),
    )
    assert [(f.code, f.message) for f in report.findings] == []


@pytest.mark.parametrize(("rule", "case"), parameters("fail"))
def test_fails(rule: RuleCases, case: dict[str, Any]) -> None:
    document = subject(rule, case)
    report = lint(document, case.get("session"), against=against(rule, case), observed=observed(document, case))
    found = [f for f in report.findings if f.code == rule.code]
    assert [f.message for f in found] == [wanted["message"] for wanted in case["finds"]]
    for finding, wanted in zip(found, case["finds"], strict=True):
        node, _, state = wanted["at"].partition(".")
        assert finding.operator.split("[")[0] == node.split("#")[0]
        assert finding.state_name == (state or None), "'at' is operator.state, or operator for no state"
        place = finding.place
        line = document.text.splitlines()[place.line - 1]  # type: ignore[operator]
        assert line[place.column - 1 :][: place.length] == wanted["underlined"]  # type: ignore[operator]
        assert finding.hint
        assert finding.fixable is wanted.get("fixable", all_rules()[rule.code].FIXABLE)


@pytest.mark.parametrize(("rule", "case"), parameters("fix"))
def test_fixes(rule: RuleCases, case: dict[str, Any]) -> None:
    document, session = subject(rule, case), case.get("session")
    before = {(f.code, f.node_id, f.state) for f in lint(document, session).findings}
    assert rule.code in {code for code, _, _ in before}
    fixed, applied = fix(document, session)
    assert rule.code in {a.code for a in applied}
    after = lint(fixed, session).findings
    assert {(f.code, f.node_id, f.state) for f in after} <= before, "a fix must not raise another finding"
    assert [f for f in after if f.fixable] == []
    ttls = {(s.node.id, s.index): s.ttl for s in Subject(fixed, session).all_states()}
    wanted = edited(fixed, case.get("ttls") or {})
    assert ttls == {(s.node.id, s.index): s.ttl for s in Subject(wanted, session).all_states()}
    if "ttls" in case:
        named = {state_place(fixed, place) for place in case["ttls"]}
        kept = {(s.node.id, s.index): s.ttl for s in Subject(document, session).all_states()}
        assert {place: ttl for place, ttl in ttls.items() if place not in named}.items() <= kept.items()
    for wanted_text in case.get("without") or ():
        assert wanted_text in document.text
        assert wanted_text not in fixed.text


@pytest.mark.parametrize("rule", [pytest.param(rule, id=code) for code, rule in all_cases().items()])
def test_ignoring_it_gives_a_wrong_result_and_the_repair_the_right_one(rule: RuleCases, tmp_path: Path) -> None:
    example = Example(rule, tmp_path)
    data, session = example.data, example.data.get("session")
    assert data["wrong"] != data["right"]
    odd, before = example.odd(), example.against()
    used = observed(odd, data)
    assert rule.code in codes(odd, session, before, used)
    good = example.repaired(odd)
    assert rule.code not in codes(good, session, before, used)
    if "then" in data:
        assert codes(edited(odd, data["then"]), session) == set(), "what comes later is not seen"
        assert example.result(edited(odd, data["then"])) == data["wrong"]
        good = fix(edited(good, data["then"]))[0]
    else:
        assert example.result(odd) == data["wrong"]
    assert example.result(good) == data["right"]
    if data.get("truth", "never") == "never":
        assert example.result(without_ttls(odd)) == data["right"]


def codes(
    document: PlanDocument,
    session: dict[str, str] | None,
    before: PlanDocument | None = None,
    used: StateUses | None = None,
) -> set[str]:
    return {f.code for f in lint(document, session, against=before, observed=used).findings}
