"""Plans that Flink cannot make, as they were decided here: scripts, and the plans they compile to.

``python -m scripts.own_plans`` writes the plan of a new script.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.planner.conftest import script_of
from tests.planner.plan_comparison import check

OWN = Path(__file__).parent / "own_plans"


@pytest.mark.parametrize("name", sorted(p.name for p in OWN.iterdir() if p.is_dir()))
def test_plan_stays(name: str) -> None:
    folder = OWN / name
    check(script_of(folder), (folder / "plan.json").read_text(encoding="utf-8"))
