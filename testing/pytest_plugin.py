"""A pytest plugin: ``pytest`` collects test files of queries as ``stateplan test`` does, each test as an item.

It is loaded by each run of pytest, so it imports the rest when there is a file with tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stateplan.testing.story import Case


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collects ``.sql`` files that have a line ``-- test:``."""
    if file_path.suffix != ".sql":
        return None
    from stateplan.testing.reader import has_tests

    if not has_tests(file_path):
        return None
    collector: pytest.Collector = StoryFile.from_parent(parent, path=file_path)
    return collector


class StoryFile(pytest.File):
    """A test file."""

    def collect(self) -> Iterator[pytest.Item]:
        """Its tests. Raises CollectError for a file that cannot be read."""
        from stateplan.common.errors import StateplanError
        from stateplan.testing.suite import load

        try:
            story = load(str(self.path))
        except StateplanError as error:
            raise self.CollectError(str(error)) from None
        for case in story.cases:
            yield StoryItem.from_parent(self, name=case.title, case=case)


class StoryItem(pytest.Item):
    """A test of a test file."""

    def __init__(self, *, case: Case, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.case = case

    def runtest(self) -> None:
        """Runs it in this process."""
        from stateplan.testing.explaining import explain
        from stateplan.testing.play import run_case

        outcome = run_case(self.case, {})
        if outcome.failures:
            explain(outcome, {})
        if not outcome.holds:
            from stateplan.testing.reporting import outcome_lines

            raise StoryFailure("\n".join(outcome_lines(outcome)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What is wrong, without a traceback."""
        if isinstance(excinfo.value, StoryFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the test is."""
        return self.path, self.case.line - 1, self.case.title


class StoryFailure(Exception):  # noqa: N818 - a test that fails is no error of the program
    """A test that does not hold."""
