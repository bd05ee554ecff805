"""Every plan is Flink's: scripts that Flink 2.3 compiled, and the plans it made of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.planner_query.conftest import compiled, plain, script_of
from tests.support.cases import IN_SCOPE, Case

GOLDEN = Path(__file__).parent / "golden"


def check(script: str, plan: str) -> None:
    got = plain(compiled(script))
    expected = json.loads(plan)
    descriptions = [node["description"] for node in expected["nodes"]]
    assert [node["description"] for node in got["nodes"]] == descriptions
    for ours, theirs in zip(got["nodes"], expected["nodes"], strict=True):
        assert list(ours) == list(theirs)
        assert ours == theirs
    assert got == expected


@pytest.mark.parametrize("name", sorted(p.name for p in GOLDEN.iterdir() if p.is_dir()))
def test_plan_equals_flinks(name: str) -> None:
    folder = GOLDEN / name
    check(script_of(folder), (folder / "plan.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", IN_SCOPE)
def test_case_equals_flinks(name: str, shared: Path) -> None:
    case = Case(shared / "cases" / name)
    check(case.text("script.sql"), case.text("plan.json"))
