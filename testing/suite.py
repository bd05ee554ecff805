"""All tests of some files: which of them run, in how many processes, and what became of them."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import field

from stateplan.common.errors import Place, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.testing.explaining import explain
from stateplan.testing.play import Outcome, run_case
from stateplan.testing.reader import read_story
from stateplan.testing.story import Case, Story

RunCase = Callable[[Case, Mapping[str, str]], Outcome]
"""Runs a test on some engine."""


@dataclass
class FileOutcome:
    """What became of the tests of a file.

    Attributes:
        file: its path.
        outcomes: of its tests.
        error: why it could not be read.
    """

    file: str
    outcomes: list[Outcome] = field(default_factory=list)
    error: StateplanError | None = None


@dataclass
class Report:
    """What became of all tests.

    Attributes:
        files: by file.
        seconds: the seconds that it took.
    """

    files: list[FileOutcome]
    seconds: float

    @property
    def outcomes(self) -> list[Outcome]:
        """Of all tests."""
        return [outcome for file in self.files for outcome in file.outcomes]

    @property
    def failed(self) -> int:
        """Tests that failed, and files that cannot be read."""
        tests = sum(not o.holds and o.skip_reason is None for o in self.outcomes)
        return tests + sum(file.error is not None for file in self.files)

    @property
    def skip_count(self) -> int:
        """Tests that an engine cannot run."""
        return sum(o.skip_reason is not None for o in self.outcomes)


@dataclass(frozen=True)
class Selection:
    """Which tests run, and how.

    Attributes:
        options: of the session.
        words: only tests with this text in the file or the title; empty for all.
        run: runs a test.
        explains: whether failures are looked into.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    words: str = ""
    run: RunCase = run_case
    explains: bool = True

    def cases(self, story: Story) -> list[Case]:
        """The tests of a file that run."""
        return [case for case in story.cases if self.words.lower() in case.name.lower()]


def load(file: str) -> Story:
    """A test file. Raises StateplanError."""
    try:
        with open(file, encoding="utf-8", newline="") as stream:
            return read_story(stream.read(), file)
    except (OSError, ValueError) as cause:
        raise StateplanError("TEST006", path=file, why=f"cannot be read: {cause}", place=Place(file=file)) from None


def run_file(file: str, selection: Selection) -> FileOutcome:
    """Runs the tests of a file."""
    result = FileOutcome(file)
    try:
        story = load(file)
    except StateplanError as error:
        result.error = error
        return result
    for case in selection.cases(story):
        outcome = selection.run(case, selection.options)
        if selection.explains and outcome.failures:
            explain(outcome, selection.options)
        result.outcomes.append(outcome)
    return result


def run_files(files: Sequence[str], selection: Selection, processes: int = 1) -> Iterator[FileOutcome]:
    """Runs the tests of files, in their order; several files at a time with ``processes``."""
    if processes <= 1 or len(files) <= 1:
        yield from (run_file(file, selection) for file in files)
        return
    # A process with threads must not be forked, and Polars has some.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(files)), mp_context=context) as pool:
        yield from pool.map(run_file, files, [selection] * len(files))


def run_suite(
    files: Sequence[str],
    selection: Selection,
    processes: int = 1,
    tell: Callable[[FileOutcome], None] = lambda outcome: None,
) -> Report:
    """Runs the tests of files; ``tell`` gets what became of each file."""
    began = time.perf_counter()
    results = []
    for result in run_files(files, selection, processes):
        tell(result)
        results.append(result)
    return Report(results, time.perf_counter() - began)
