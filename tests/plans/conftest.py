"""Plans that Flink 2.3 compiled: the few kept here, and all of the reference material where it is at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import shared_folder

DATA = Path(__file__).parent / "data"


def flink_plans() -> list[Path]:
    """Every plan.json of Flink 2.3, each with an explain.txt beside it."""
    shared = shared_folder()
    found = sorted(DATA.glob("*/plan.json"))
    return found + (sorted(shared.glob("cases/*/plan.json")) if shared else [])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test that asks for ``flink_plan`` once per plan."""
    if "flink_plan" in metafunc.fixturenames:
        plans = flink_plans()
        metafunc.parametrize("flink_plan", plans, ids=[f"{p.parts[-3]}-{p.parent.name}" for p in plans])


@pytest.fixture
def join_text() -> str:
    """A plan with an inner join: nodes 1 to 7, the join is node 5 with 1 h on both sides."""
    return (DATA / "join" / "plan.json").read_bytes().decode()
