"""What became of tests, for people, for programs and as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from stateplan.common.readable import amount
from stateplan.testing.checks import Verdict, difference_lines
from stateplan.testing.play import Outcome
from stateplan.testing.suite import FileOutcome, Report


def file_text(result: FileOutcome) -> str:
    """A line for a file whose tests pass; what is wrong otherwise."""
    failed = [o for o in result.outcomes if not o.holds and o.skip_reason is None]
    skips = sum(o.skip_reason is not None for o in result.outcomes)
    good = len(result.outcomes) - len(failed) - skips
    if result.error is not None:
        return f"{result.file}: error\n{result.error}"
    parts = [f"{good} passed"] if good or not result.outcomes else []
    parts += [f"{len(failed)} failed"] if failed else []
    parts += [f"{skips} skipped"] if skips else []
    lines = [f"{result.file}: {', '.join(parts)}"]
    lines += [f"  skipped: {o.case.title}: {o.skip_reason}" for o in result.outcomes if o.skip_reason is not None]
    for outcome in failed:
        lines += ["", *outcome_lines(outcome)]
    return "\n".join([*lines, ""] if failed else lines)


def outcome_lines(outcome: Outcome) -> Iterator[str]:
    """What is wrong with a test."""
    yield f"FAILED {outcome.case.title}"
    for verdict in outcome.failures:
        yield from verdict_lines(outcome, verdict)
    if outcome.error is not None:
        yield from (f"  {line}" for line in str(outcome.error).splitlines())


def verdict_lines(outcome: Outcome, verdict: Verdict) -> Iterator[str]:
    """An expectation that does not hold: where it is, the rows that differ, and what is known of the reason."""
    yield f"  {outcome.case.file}:{verdict.expect.line}: {verdict.expect.text}: {verdict.message}"
    if verdict.difference is not None:
        yield from (f"    {line}" for line in difference_lines(verdict.difference))
    yield from (f"    {line}" for line in verdict.why)


def summary(report: Report) -> str:
    """The last line."""
    tests = len(report.outcomes)
    good = sum(o.holds for o in report.outcomes)
    parts = [f"{good} passed"]
    parts += [f"{report.failed} failed"] if report.failed else []
    parts += [f"{report.skip_count} skipped"] if report.skip_count else []
    files, count = amount(len(report.files), "file"), amount(tests, "test")
    return f"{files}, {count}: {', '.join(parts)} in {report.seconds:.1f} s"


def file_json(result: FileOutcome) -> dict[str, Any]:
    """The same for programs."""
    data: dict[str, Any] = {"file": result.file, "tests": [_outcome_json(o) for o in result.outcomes]}
    if result.error is not None:
        data["error"] = result.error.to_dict()
    return data


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    failures = [
        {
            "line": verdict.expect.line,
            "expected": verdict.expect.text,
            "message": verdict.message,
            "difference": [] if verdict.difference is None else difference_lines(verdict.difference),
            "why": verdict.why,
        }
        for verdict in outcome.failures
    ]
    return {
        "title": outcome.case.title,
        "line": outcome.case.line,
        "outcome": "skipped" if outcome.skip_reason is not None else "passed" if outcome.holds else "failed",
        "seconds": round(outcome.seconds, 4),
        "failures": failures,
        **({} if outcome.error is None else {"error": outcome.error.to_dict()}),
        **({} if outcome.skip_reason is None else {"skipped": outcome.skip_reason}),
    }


_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(report: Report) -> str:
    """JUnit XML: a test suite for each file."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites tests="{len(report.outcomes)}" failures="{report.failed}" skipped="{report.skip_count}" '
        f'time="{report.seconds:.3f}">',
    ]
    for result in report.files:
        failed = sum(not o.holds and o.skip_reason is None for o in result.outcomes)
        skips = sum(o.skip_reason is not None for o in result.outcomes)
        seconds = sum(o.seconds for o in result.outcomes)
        errors = int(result.error is not None)
        lines.append(
            f'  <testsuite name={_attribute(result.file)} tests="{len(result.outcomes) + errors}" '
            f'failures="{failed}" errors="{errors}" skipped="{skips}" time="{seconds:.3f}">'
        )
        if result.error is not None:
            lines.append(f"    <testcase classname={_attribute(result.file)} name={_attribute('the file')}>")
            lines.append(f"      <error message={_attribute(result.error.message)}>{_text(str(result.error))}</error>")
            lines.append("    </testcase>")
        lines += [line for outcome in result.outcomes for line in _case_lines(outcome)]
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


def _case_lines(outcome: Outcome) -> Iterator[str]:
    case = outcome.case
    head = (
        f"    <testcase classname={_attribute(case.file)} name={_attribute(case.title)} file={_attribute(case.file)} "
        f'line="{case.line}" time="{outcome.seconds:.3f}"'
    )
    if outcome.holds:
        yield f"{head}/>"
        return
    yield f"{head}>"
    if outcome.skip_reason is not None:
        yield f"      <skipped message={_attribute(outcome.skip_reason)}/>"
    else:
        text = "\n".join(outcome_lines(outcome))
        first = outcome.error.message if outcome.error is not None else outcome.failures[0].message
        yield f"      <failure message={_attribute(first)}>{_text(text)}</failure>"
    yield "    </testcase>"


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("?", text))


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("?", text))
