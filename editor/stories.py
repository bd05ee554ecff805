"""What an editor shows of a test file of ``stateplan test``: its SQL, and its directives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from stateplan.common.errors import Place, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.roots import holding
from stateplan.editor.diagnosis import of_error
from stateplan.editor.findings import Finding, Symbol
from stateplan.editor.positions import LineMap, Span
from stateplan.editor.scratch import is_below
from stateplan.editor.scripts import ScriptReader, ScriptReading, Settings, unique
from stateplan.plans.selectors import Selectors
from stateplan.session.script import Insert, Inserts
from stateplan.testing.blocks import is_table_row
from stateplan.testing.reader import read_story
from stateplan.testing.schedule import output_named, table_named
from stateplan.testing.story import Case, Expect, GivenRows, SetTtl, Sql, Story, UsePlan
from stateplan.testing.story_plan import StoryPlan

_MOST_ERRORS = 20
_ROWS = ("table", "changelog", "rows")


@dataclass(frozen=True)
class StoryReading:
    """A test file that was read.

    Attributes:
        findings: all findings.
        readings: its SQL: that of all tests, and that of tests with SQL of their own.
        symbols: its tests.
    """

    findings: tuple[Finding, ...]
    readings: tuple[ScriptReading, ...]
    symbols: tuple[Symbol, ...]


class StoryReader:
    """Reads the versions of a test file."""

    def __init__(self) -> None:
        self._scripts = ScriptReader()

    def read(self, text: str, file: str, settings: Settings) -> StoryReading:
        """Reads a version. It raises what ``settings.check`` raises."""
        lines = LineMap(text)
        story, errors = _story(text, file, settings)
        findings = [_finding(error, text, lines) for error in errors]
        settings = replace(settings, of_tests=True)
        by_sql: dict[tuple[Sql, ...], list[Case]] = {}
        for case in story.cases:
            by_sql.setdefault(case.sql, []).append(case)
        readings = []
        for sql, cases in by_sql.items():
            own = [part for part in sql if part.file == file]
            included = "\n;\n".join(part.text for part in sql if part.file != file)
            before = "\n;\n".join(filter(None, (settings.before, included)))
            sql_text = _only(text, lines, own)
            (script,) = self._scripts.read_all([sql_text], replace(settings, before=before))
            readings.append(script)
            expected_codes = set.intersection(*(_expected_errors(case) for case in cases))
            findings += [f for f in script.findings() if f.code not in expected_codes]
            if not any(f.level == 1 for f in findings):
                with holding(settings.roots):
                    findings += _check_directives(cases, script, text, lines)
        symbols = tuple(
            Symbol(case.title, "test", lines.line(case.line - 1), lines.line(case.line - 1)) for case in story.cases
        )
        return StoryReading(tuple(unique(findings)), tuple(readings), symbols)


def _story(text: str, file: str, settings: Settings) -> tuple[Story, list[StateplanError]]:
    """The tests that can be read, and what is wrong with the others' directives."""
    roots = settings.roots

    def read_text(path: Path) -> str:
        if not is_below(path, roots):
            raise OSError("it is outside of the workspace")
        return path.read_text("utf-8")

    errors: list[StateplanError] = []
    remaining = text.split("\n")
    while True:
        try:
            return read_story("\n".join(remaining), file, read_text), errors
        except StateplanError as error:
            errors.append(error)
            line = error.place.line if error.place is not None else None
            if line is None or len(errors) >= _MOST_ERRORS or not remaining[line - 1].strip():
                return Story(file, text), errors
            _blank_directive(remaining, line - 1)


def _blank_directive(lines: list[str], at: int) -> None:
    """Takes a directive and its rows out of the lines of a file; ``at`` is one of them. A test keeps its beginning."""
    first = last = at
    while first > 0 and _is_row(lines[first]):
        first -= 1
    while last + 1 < len(lines) and _is_row(lines[last + 1]):
        last += 1
    is_title = lines[first].startswith("-- test:")
    lines[first : last + 1] = [""] * (last + 1 - first)
    if is_title:
        lines[first] = f"-- test: line {first + 1}"


def _is_row(line: str) -> bool:
    body = line[2:].strip()
    return line.startswith("--") and (is_table_row(line[2:].rstrip("\r")) or body[:1] in ("|", "{"))


def _only(text: str, lines: LineMap, own: Sequence[Sql]) -> str:
    """The text of the file with blanks in place of what is not SQL of a test."""
    numbers = {i for part in own for i, line in enumerate(part.text.split("\n")) if line.strip()}
    out = []
    for i, line in enumerate(text.split("\n")):
        blank = " " * (len(line) - line.endswith("\r")) + "\r" * line.endswith("\r")
        out.append(line if i in numbers else blank)
    return "\n".join(out)


def _expected_errors(case: Case) -> set[str]:
    return {expect.name for expect in case.expectations() if expect.subject == "error"}


def _finding(error: StateplanError, text: str, lines: LineMap) -> Finding:
    """The finding of a directive: all of its line is underlined."""
    finding = of_error(error, text).finding
    line = error.place.line if error.place is not None and error.place.line is not None else 1
    starts = [0]
    for part in text.split("\n"):
        starts.append(starts[-1] + len(part) + 1)
    start = starts[min(line, len(starts) - 1) - 1]
    own = text[start:].partition("\n")[0].rstrip()
    return replace(finding, span=Span(start, start + max(len(own), 1)), fixes=())


def _check_directives(cases: Sequence[Case], script: ScriptReading, text: str, lines: LineMap) -> Iterator[Finding]:
    """What is wrong with the tables, columns, values and states that directives name."""
    plan = _plan(script)
    if plan is None:
        return
    inputs, outputs = plan.inputs(), plan.outputs()
    selectors = Selectors(plan.document, plan.options)
    for case in cases:
        if any(isinstance(step, UsePlan) for step in case.steps) or _expected_errors(case):
            continue
        for step in case.steps:
            try:
                if isinstance(step, GivenRows):
                    name = table_named(step.table, inputs, case, step.line, "read")
                    _check_rows(step, inputs[name].fields, case, name)
                elif isinstance(step, Expect) and step.subject in _ROWS:
                    name = output_named(step, outputs, case)
                    _check_rows(step, outputs[name].fields, case, name)
                elif isinstance(step, SetTtl) or (isinstance(step, Expect) and step.subject == "state"):
                    selectors.select(step.selector if isinstance(step, SetTtl) else step.name)
            except StateplanError as error:
                if error.place is None or error.place.file != case.file:
                    error.place = Place(file=case.file, line=step.line)
                yield _finding(error, text, lines)


def _check_rows(step: GivenRows | Expect, fields: object, case: Case, table: str) -> None:
    """Raises StateplanError TEST002. VALUES are not evaluated here."""
    from stateplan.testing.rows import Fields

    assert isinstance(fields, Fields)
    block = step.block
    if block is None or block.form == "values" or not block.rows:
        return
    encoded = fields.json_lines(block, case.file, table)
    fields.only(block.columns).checked_frame(encoded, [row.line for row in block.rows], case.file)


def _plan(script: ScriptReading) -> StoryPlan | None:
    """The plan of the query of a test."""
    compiled = [outcome.compiled for outcome in script.outcomes if outcome.compiled is not None]
    if not compiled:
        return None
    options: Mapping[str, str] = compiled[0].options
    if len(compiled) == 1:
        return StoryPlan(compiled[0].document, compiled[0].plan.compilation.graph, options)
    inserts = [
        insert
        for piece, outcome in zip(script.pieces, script.outcomes, strict=True)
        if outcome.compiled is not None and piece.statement is not None
        for insert in _inserts(piece.statement.node, piece.text)
    ]
    try:
        plan = script.scratch.session.compiler.inserts(Inserts.of_all(inserts))
    except StateplanError:
        return None
    from stateplan.plans.document import PlanDocument

    return StoryPlan(PlanDocument.from_graph(plan.graph), plan.graph, options)


def _inserts(node: object, source: str) -> Sequence[Insert]:
    try:
        return Inserts.of(node, source).inserts  # type: ignore[arg-type] # a query is refused
    except StateplanError:
        return ()
