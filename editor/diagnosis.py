"""From errors, findings of lint and notes to what an editor underlines, with the fixes that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from stateplan.common.errors import Place, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.editor.findings import Edit, Finding, Fix, Level, OtherPlace
from stateplan.editor.positions import LineMap, Span
from stateplan.editor.scratch import NOT_CHECKED
from stateplan.plans.lint.engine import Finding as LintFinding
from stateplan.plans.lint.rule import Severity

_MISSPELT = re.compile(r"'([^']+)' before it: did you mean '([^']+)'")
_NEAREST = re.compile(r"did you mean (.+)\?")
_BACKQUOTES = re.compile(r"put it in backquotes: (`.+`)")
_ELSEWHERE = re.compile(r"there is a '([^']+)'")
_NAME = re.compile(r"[\w.$-]+|'[^'\n]*'|(?:`[^`\n]*`\.?|\w+\.)*`[^`\n]*`")

LEVELS = {Severity.WARNING: Level.WARNING, Severity.ADVICE: Level.INFORMATION}


@dataclass(frozen=True)
class Diagnosis:
    """A finding in a statement, wherever in its script that is.

    Attributes:
        source: the text of the statement that it is in.
        finding: the finding, with spans in that text.
        origin: the text of the statement that led to it, and what it says of it, where that is another one.
    """

    source: str
    finding: Finding
    origin: tuple[str, Span, str] | None = None


def of_error(error: StateplanError, text: str) -> Diagnosis:
    """The diagnosis of an error of the statement ``text``."""
    data = error.to_dict()
    code, level = error.code, Level.ERROR
    message = str(data["message"])
    if code in NOT_CHECKED:
        reason = NOT_CHECKED[code]
        message = f"not checked here: {reason}" if reason else message
        code, level = "EDIT001", Level.INFORMATION
    source, span = _place_in(error.place, text)
    message = "\n".join([message, *_details(data, level)])
    fixes = tuple(_fixes(error.hint or "", error.message, source, span)) if level == Level.ERROR else ()
    finding = Finding(span, level, code, message, fixes)
    if source == text:
        return Diagnosis(source, finding)
    return Diagnosis(source, finding, (text, first_line(text), f"the statement that needs it reports {code}"))


def _details(data: Mapping[str, Any], level: Level) -> Iterator[str]:
    if level == Level.ERROR:
        if data["expected"]:
            yield f"expected: {data['expected']}"
        if data["hint"]:
            yield f"hint: {data['hint']}"


def _place_in(place: Place | None, text: str) -> tuple[str, Span]:
    """The text that a place is in, and the span."""
    if place is None or place.line is None:
        return text, first_line(text)
    source = text if place.source is None else place.source
    if place.pointer is not None:  # in JSON, each of the line breaks ends a line
        start = LineMap(source).line(place.line - 1).start + (place.column or 1) - 1
        return source, _not_empty(source, Span(start, min(start + place.length, len(source))))
    return source, _not_empty(source, LineMap(source).place(place.line, place.column or 1, place.length))


def _not_empty(text: str, span: Span) -> Span:
    """The span, or the character around it where it has none."""
    if span.end > span.start:
        return span
    return Span(span.start, span.start + 1) if span.start < len(text) else Span(max(0, span.start - 1), span.start)


def first_line(text: str) -> Span:
    """The first line of a statement."""
    return Span(0, len(LineMap(text).text[: LineMap(text).line(0).end].rstrip()))


def _fixes(hint: str, message: str, source: str, span: Span) -> Iterator[Fix]:
    """What the hint of an error names."""
    misspelt = _MISSPELT.search(hint)
    if misspelt is not None:
        start = source.rfind(misspelt[1], 0, span.start)
        if start >= 0:
            edit = Edit(Span(start, start + len(misspelt[1])), misspelt[2])
            yield Fix(f"Change '{misspelt[1]}' to '{misspelt[2]}'", (edit,), preferred=True)
        return
    own_text = source[span.start : span.end]
    backquotes = _BACKQUOTES.search(hint)
    if backquotes is not None:
        yield Fix(f"Write {backquotes[1]}", (Edit(span, backquotes[1]),), preferred=True)
        return
    elsewhere, near = _ELSEWHERE.search(hint), _NEAREST.search(hint)
    if elsewhere is not None and _NAME.fullmatch(own_text):
        yield Fix(f"Change to '{elsewhere[1]}'", (Edit(span, elsewhere[1]),), preferred=True)
        return
    name_span = _name_in(own_text, message)
    if near is not None and name_span is not None:
        names = re.findall(r"'([^']+)'", near[1])
        for name in names:
            edit = Edit(name_span.moved_by(span.start), name)
            yield Fix(f"Change to '{name}'", (edit,), preferred=len(names) == 1)


def _name_in(text: str, message: str) -> Span | None:
    """The part of an underlined text that a similar name takes the place of: what is in its quotes or behind its last
    dot; in a longer text, the name that the message is about."""
    if _NAME.fullmatch(text) is None:
        names = [name for name in re.findall(r"'([^']+)'", message) if text.count(name) == 1]
        return Span(text.index(names[0]), text.index(names[0]) + len(names[0])) if names else None
    if text[0] == "'":
        return Span(1, len(text) - 1)
    if text[-1] == "`":
        return Span(text.rfind("`", 0, -1), len(text))
    return Span(0 if "-" in text else text.rfind(".") + 1, len(text))


def of_lint(finding: LintFinding, source: str, span: Span, fixes: tuple[Fix, ...] = ()) -> Diagnosis:
    """The diagnosis of a finding of lint at a place of a statement."""
    message = f"{finding.message}\nhint: {finding.hint}"
    return Diagnosis(source, Finding(span, LEVELS[finding.severity], finding.code, message, fixes))


def of_note(note: str, text: str) -> Diagnosis:
    """The diagnosis of a note on a statement."""
    return Diagnosis(text, Finding(first_line(text), Level.INFORMATION, "", note))


def finding_in_script(diagnosis: Diagnosis, starts: Mapping[str, int]) -> Finding | None:
    """The finding in the script; None where the script has no such statement.

    Args:
        diagnosis: of a statement.
        starts: where the statements of the script begin, by their text.
    """
    start = starts.get(diagnosis.source)
    finding = diagnosis.finding
    if start is None:
        if diagnosis.origin is None:
            return None
        source, span, _ = diagnosis.origin
        return replace(finding, span=span.moved_by(starts.get(source, 0)), fixes=())
    other_places = finding.other_places
    if diagnosis.origin is not None and diagnosis.origin[0] in starts:
        source, span, words = diagnosis.origin
        other_places = (*other_places, OtherPlace(span.moved_by(starts[source]), words))
    return replace(
        finding, span=finding.span.moved_by(start), fixes=move_fixes(finding.fixes, start), other_places=other_places
    )


def move_fixes(fixes: tuple[Fix, ...], by: int) -> tuple[Fix, ...]:
    """The fixes in a text that has ``by`` characters more in front."""
    return tuple(
        replace(fix, edits=tuple(Edit(edit.span.moved_by(by), edit.text) for edit in fix.edits)) for fix in fixes
    )
