"""Findings as text, and as what other programs read: JSON, GitHub's workflow commands, SARIF 2.1.0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from stateplan.common.errors import Place
from stateplan.common.readable import amount
from stateplan.common.sarif import sarif_log, sarif_result, sarif_rule
from stateplan.plans.document import PlanDocument
from stateplan.plans.lint.engine import AppliedFix, Finding, Report
from stateplan.plans.lint.rule import Severity
from stateplan.plans.lint.rules import all_rules
from stateplan.plans.text_splices import unified_diff


def to_text(reports: Iterable[Report], show_fixes: Sequence[tuple[str, AppliedFix]] = ()) -> str:
    """A block per finding: place, code and message, the line with the value underlined, what to do; then the count."""
    blocks = [_block(f) for report in reports for f in report.findings]
    blocks += [f"{file}: {fix}\n" for file, fix in show_fixes]
    return "\n".join(blocks)


def _block(finding: Finding) -> str:
    mark = "" if finding.severity is Severity.WARNING else f" ({finding.severity.value})"
    fixable = " [fixable]" if finding.fixable else ""
    lines = [f"{_place_text(finding.place)}: {finding.code}{mark}{fixable} {finding.message}"]
    excerpt = finding.place.excerpt()
    if excerpt:
        lines.append(excerpt)
    lines.append(f"  hint: {finding.hint}")
    return "\n".join(lines) + "\n"


def _place_text(place: Place) -> str:
    return ":".join(str(part) for part in (place.file or "plan", place.line, place.column) if part is not None)


def summary(reports: Sequence[Report], fix_count: int = 0) -> str:
    """``3 warnings and 1 advice in 2 plans, 2 of them fixable with --fix; 1 suppressed``."""
    findings = [f for report in reports for f in report.findings]
    plans = amount(len(reports), "plan")
    advices = sum(1 for f in findings if f.severity is Severity.ADVICE)
    warnings = len(findings) - advices
    parts = [amount(warnings, "warning")] if warnings else []
    parts += [f"{advices} advice"] if advices else []
    text = " and ".join(parts) + f" in {plans}" if parts else f"nothing found in {plans}"
    fixable = sum(1 for f in findings if f.fixable)
    if fixable:
        text += f", {fixable} fixable with --fix"
    if fix_count:
        text += f"; {fix_count} fixed"
    suppressed = sum(len(report.suppressed) for report in reports)
    return text + (f"; {suppressed} suppressed" if suppressed else "")


def to_json(reports: Iterable[Report], fixes: Sequence[tuple[str, AppliedFix]] = ()) -> dict[str, Any]:
    """JSON-ready data of everything."""
    return {
        "findings": [f.to_json() for report in reports for f in report.findings],
        "suppressed": [{**f.to_json(), "reason": why} for report in reports for f, why in report.suppressed],
        "fixed": [{"file": file, **fix.to_json()} for file, fix in fixes],
    }


def to_github(reports: Iterable[Report]) -> str:
    """A workflow command per finding, which GitHub shows beside the line."""
    return "".join(_command(f) for report in reports for f in report.findings)


def _command(finding: Finding) -> str:
    place = finding.place
    level = "warning" if finding.severity is Severity.WARNING else "notice"
    properties = {
        "file": place.file or "",
        "line": str(place.line or 1),
        "col": str(place.column or 1),
        "endColumn": str((place.column or 1) + place.length),
        "title": f"{finding.code} {finding.rule}",
    }
    text = ",".join(f"{key}={_escaped(value, ',:')}" for key, value in properties.items())
    return f"::{level} {text}::{_escaped(f'{finding.message}; {finding.hint}')}\n"


def _escaped(text: str, other_characters: str = "") -> str:
    for char in "%\r\n" + other_characters:
        text = text.replace(char, f"%{ord(char):02X}")
    return text


def to_sarif(reports: Iterable[Report], version: str) -> dict[str, Any]:
    """A SARIF log with one run, suppressed findings included."""
    findings = [(f, None) for report in reports for f in report.findings]
    accepted = [(f, why) for report in reports for f, why in report.suppressed]
    rules = [sarif_rule(code, rule.NAME, rule.summary(), _level(rule.SEVERITY)) for code, rule in all_rules().items()]
    return sarif_log(version, rules, (_result(f, why) for f, why in (*findings, *accepted)))


def _level(severity: Severity) -> str:
    return "warning" if severity is Severity.WARNING else "note"


def _result(finding: Finding, reason: str | None) -> dict[str, Any]:
    identity = {"operatorState/v1": f"{finding.code}:{finding.uid}:{finding.state}"}
    text = f"{finding.message}; {finding.hint}."
    result = sarif_result(finding.code, _level(finding.severity), text, finding.place, identity)
    result["locations"][0]["logicalLocations"] = [{"fullyQualifiedName": finding.operator, "kind": "operator"}]
    if reason is not None:
        result["suppressions"] = [{"kind": "inSource", "justification": reason}]
    return result


def changed_lines(old_plan: PlanDocument, new_plan: PlanDocument, name: str) -> str:
    """The change of a plan as a unified diff."""
    return unified_diff(old_plan.text, new_plan.text, name, f"{name} (fixed)", 2)
