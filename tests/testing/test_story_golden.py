"""Golden cases of Flink as test files: the tables that Flink's jobs left are those of the engine of this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.testing.reporting import file_text
from stateplan.testing.suite import Selection, run_file
from tests.support.cases import Case
from tests.testing.golden_stories import CASES, FOLDER, story_of

FILES = sorted(FOLDER.glob("*.sql"))


def test_there_are_enough() -> None:
    assert len(FILES) >= 40


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_the_tables_are_those_of_flink(file: Path) -> None:
    result = run_file(str(file), Selection())
    assert result.error is None and all(outcome.holds for outcome in result.outcomes), file_text(result)


@pytest.mark.skipif(not CASES.is_dir(), reason="needs the reference material")
@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_the_file_has_the_rows_of_the_case(file: Path) -> None:
    assert file.read_text() == story_of(Case(CASES / file.stem))
