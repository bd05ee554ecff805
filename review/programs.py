"""A review for programs: JSON and SARIF."""

from __future__ import annotations

from typing import Any

from stateplan.common.errors.catalogue import entry_of
from stateplan.common.release import installed_version
from stateplan.common.sarif import sarif_log, sarif_result, sarif_rule
from stateplan.common.ttl import format_ttl
from stateplan.plans.diff_report import to_json as diff_json
from stateplan.plans.lint import Finding, Severity
from stateplan.plans.lint.rules import all_rules
from stateplan.plans.states import StateView
from stateplan.review.comparison import QueryChange, StateChange
from stateplan.review.findings import ReviewFinding
from stateplan.review.review import Review
from stateplan.review.words import headline, total
from stateplan.testing.reporting import file_json

VERSION = 1
"""Of the JSON. Keys are only added within a version."""


def to_json(review: Review) -> dict[str, Any]:
    """JSON-ready data. The page on reviews lists the keys."""
    tests = review.tests
    return {
        "version": VERSION,
        "summary": headline(review),
        "old": review.old or None,
        "new": review.new or None,
        "queries": [_query(query) for query in review.queries],
        "unchanged": review.unchanged,
        "tests": None
        if tests is None
        else {
            "passed": sum(outcome.holds for outcome in tests.report.outcomes),
            "failed": tests.report.failed,
            "files": [file_json(file) for file in tests.report.files],
            "former": {
                "tests": tests.former_count,
                "failing": [{"file": o.case.file, "title": o.case.title} for o in tests.former],
            },
        },
        "findings": [_finding(finding) for finding in review.findings()],
        "notes": list(review.notes),
    }


def _query(query: QueryChange) -> dict[str, Any]:
    before, after = total(query.states, "before"), total(query.states, "after")
    old_error = query.old and query.old.error
    new_error = query.new and query.new.error
    return {
        "name": query.name,
        "status": query.status,
        "fate": query.fate if query.status == "changed" else None,
        "errors": {"old": old_error and old_error.to_dict(), "new": new_error and new_error.to_dict()},
        "diff": None if query.diff is None else diff_json(query.diff),
        "states": [_state(state) for state in query.states],
        "figures": None
        if query.figures is None
        else {
            "source": query.figures.source,
            "stored": query.figures.is_stored,
            "before": before and before.to_json(),
            "after": after and after.to_json(),
        },
        "lint": {
            "new": _lint(query.lint.new),
            "gone": _lint(query.lint.former),
            "same": _lint(query.lint.old),
            "suppressed": _lint(query.lint.suppressed),
        },
    }


def _lint(findings: tuple[Finding, ...]) -> list[dict[str, Any]]:
    return [finding.to_json() for finding in findings]


def _state(state: StateChange) -> dict[str, Any]:
    return {
        "selector": state.selector,
        "fate": state.fate,
        "ttl": {"from": _ttl(state.old), "to": _ttl(state.new)},
        "before": state.before and state.before.to_json(),
        "after": state.after and state.after.to_json(),
    }


def _ttl(view: StateView | None) -> str | None:
    return None if view is None else format_ttl(view.ttl)


def _finding(finding: ReviewFinding) -> dict[str, Any]:
    place = finding.place
    return {
        "policy": finding.policy,
        "code": finding.code,
        "level": finding.level,
        "text": finding.text,
        "query": finding.query or None,
        "file": place.file,
        "line": place.line,
        "column": place.column,
    }


def to_sarif(review: Review) -> dict[str, Any]:
    """A SARIF log with the findings."""
    findings = list(review.findings())
    codes = dict.fromkeys(finding.code for finding in findings)
    return sarif_log(installed_version(), map(_rule, codes), map(_result, findings))


def _rule(code: str) -> dict[str, Any]:
    rule = all_rules().get(code)
    if rule is not None:
        level = "warning" if rule.SEVERITY is Severity.WARNING else "note"
        return sarif_rule(code, rule.NAME, rule.summary(), level)
    title = str(entry_of(code)["title"])
    words = "".join(word.capitalize() for word in title.split())
    return sarif_rule(code, words, title, "warning" if code in ("REV010", "REV011") else "error")


def _result(finding: ReviewFinding) -> dict[str, Any]:
    identity = {"review/v1": ":".join((finding.code, finding.query, finding.state))}
    return sarif_result(finding.code, finding.level, finding.text, finding.place, identity)
