"""Every plan is Flink's: scripts that Flink 2.3 compiled, and the plans it made of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.planner.plan_comparison import check
from tests.support.cases import IN_SCOPE, Case
from tests.support.golden import FOLDER, GoldenCase, golden_cases, plans, tree_of

LEFT_OUT = {"process_tables": {"state"}, "interval_join": {"state"}, "decorrelated_keys": {"leftUpsertKeys"}}
"""What is not compared, by subject. Flink gives a hint on an interval join, and the states of process table functions,
no place. Where a join has several keys, Flink writes them in another order each time."""

AS_FLINK = ("as_flink", "window_rank")
"""Subjects whose plans in Flink have faults that are corrected here."""


@pytest.mark.parametrize("case", golden_cases(), ids=lambda case: case.name)
def test_plan_equals_flinks(case: GoldenCase) -> None:
    faults = "SET 'table.optimizer.flink-faults' = 'as-flink';\n" if case.subject in AS_FLINK else ""
    check(faults + case.script, case.plan, LEFT_OUT.get(case.subject, ()))


def test_the_files_are_whole() -> None:
    """No case is lost or without its plan, and the trees that people read are those of the plans."""
    cases = golden_cases()
    assert {path.stem for path in FOLDER.glob("*.plans")} == {path.stem for path in FOLDER.glob("*.txt")}
    assert [name for name, count in Counter(case.name for case in cases).items() if count > 1] == []
    for subject in {case.subject for case in cases}:
        assert set(plans(subject)) == {case.title for case in cases if case.subject == subject}
    assert [case.name for case in cases if tree_of(json.loads(case.plan)) != case.tree] == []


@pytest.mark.parametrize("name", IN_SCOPE)
def test_case_equals_flinks(name: str, shared: Path) -> None:
    case = Case(shared / "cases" / name)
    check(case.text("script.sql"), case.text("plan.json"))
