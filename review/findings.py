"""What a reviewer should look at, each at its place: what SARIF has, and what ``--fail-on`` chooses from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal

from stateplan.common.errors import Place, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.plans.lint import Finding, Severity
from stateplan.review.comparison import QueryChange
from stateplan.testing.play import Outcome
from stateplan.testing.suite import FileOutcome

Policy = Literal["lost-state", "shorter-ttl", "lint", "tests", "errors"]
Level = Literal["error", "warning", "note"]

POLICIES: tuple[Policy, ...] = ("lost-state", "shorter-ttl", "lint", "tests", "errors")
"""What a review can fail on: state that is lost, or may be; shorter TTLs, with which rows expire at once; new warnings
of lint; tests that fail; queries that do not compile."""


@dataclass(frozen=True)
class ReviewFinding:
    """What a reviewer should look at.

    Attributes:
        policy: what ``--fail-on`` calls it.
        code: of the error or of the lint rule.
        text: what is wrong, and what to do.
        place: where.
        level: as SARIF has it.
        query: the query that it is about; empty for a test.
        state: the operator and the state that it is about; empty if it is about none.
    """

    policy: Policy
    code: str
    text: str
    place: Place
    level: Level
    query: str
    state: str = ""

    @staticmethod
    def of(error: StateplanError, policy: Policy, level: Level, query: str) -> ReviewFinding:
        """An error."""
        data = error.to_dict()
        parts = [data["message"], *(f"{key}: {data[key]}" for key in ("expected", "hint") if data[key])]
        return ReviewFinding(policy, error.code, "; ".join(map(str, parts)), error.place or Place(), level, query)


def findings_of(query: QueryChange) -> Iterator[ReviewFinding]:
    """What is to be said of a query."""
    if query.new is not None and query.new.error is not None:
        yield ReviewFinding.of(query.new.error, "errors", "error", query.name)
        return
    place = query.new.place if query.new is not None else Place()
    for code, fate in (("REV010", "lost"), ("REV011", "unknown")):
        names = [state.selector for state in query.states if state.fate == fate]
        if names:
            error = StateplanError(code, query=query.name, operators=names, place=place)
            yield ReviewFinding.of(error, "lost-state", "warning", query.name)
    for finding in query.lint.shortened:
        yield _of_lint(finding, "shorter-ttl", query, place)
    for finding in query.lint.new:
        yield _of_lint(finding, "lint", query, place)


def _of_lint(finding: Finding, policy: Policy, query: QueryChange, place: Place) -> ReviewFinding:
    """A finding of lint. That of a compiled script is at the statement."""
    own = finding.place if finding.place.file is not None else replace(place, pointer=None)
    level: Level = "warning" if finding.severity is Severity.WARNING else "note"
    text = f"{finding.message}; {finding.hint}"
    return ReviewFinding(policy, finding.code, text, own, level, query.name, f"{finding.uid}:{finding.state}")


def findings_of_tests(files: Iterable[FileOutcome]) -> Iterator[ReviewFinding]:
    """The tests that fail, and the files that cannot be read."""
    for file in files:
        if file.error is not None:
            yield ReviewFinding.of(file.error, "tests", "error", "")
        for outcome in file.outcomes:
            if not outcome.holds and outcome.skip_reason is None:
                error = StateplanError("REV012", title=outcome.case.title, place=_place(outcome))
                yield ReviewFinding.of(error, "tests", "error", "")


def _place(outcome: Outcome) -> Place:
    """The expectation that does not hold, or the test."""
    failures = outcome.failures
    return replace(outcome.case.place(failures[0].expect.line if failures else None), column=1)
