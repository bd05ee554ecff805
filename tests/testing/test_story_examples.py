"""The test files of the examples pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.testing.reader import find_files
from stateplan.testing.reporting import file_text
from stateplan.testing.suite import Selection, run_file

ROOT = Path(__file__).resolve().parents[2]
FILES = find_files([str(ROOT / "examples")])


@pytest.mark.parametrize("file", FILES, ids=[Path(file).stem for file in FILES])
def test_an_example_passes(file: str) -> None:
    result = run_file(file, Selection())
    assert result.error is None and result.outcomes
    assert all(outcome.holds for outcome in result.outcomes), file_text(result)


ACCEPTANCE = find_files([str(ROOT / "tests" / "testing" / "acceptance")])


@pytest.mark.parametrize("file", ACCEPTANCE, ids=[Path(file).stem for file in ACCEPTANCE])
def test_an_acceptance_scenario_of_flip_292_passes(file: str) -> None:
    result = run_file(file, Selection())
    assert result.error is None and result.outcomes
    assert all(outcome.holds for outcome in result.outcomes), file_text(result)
