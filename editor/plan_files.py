"""What an editor shows of a plan file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property

from stateplan.common.errors import PlanError, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.editor.checkpoints import Checkpoints, cost_line
from stateplan.editor.diagnosis import LEVELS, move_fixes, of_error
from stateplan.editor.findings import Edit, Finding, Fix, Hover, Insight, Lens, Level, Symbol, Target
from stateplan.editor.positions import LineMap, Span
from stateplan.plans.document import PlanDocument
from stateplan.plans.explain import explain, to_text
from stateplan.plans.jsontext import split_pointer
from stateplan.plans.lint import lint
from stateplan.plans.lint.engine import Finding as LintFinding
from stateplan.plans.lint.rule import SetTtl
from stateplan.plans.lint.rules import all_rules
from stateplan.plans.lint.suppress import suppress
from stateplan.plans.schema_words import WORDS
from stateplan.plans.selectors import Selectors
from stateplan.plans.show import show
from stateplan.plans.show import to_text as shown_text
from stateplan.plans.states import StateView
from stateplan.plans.text_splices import Splice

SHOW_STATE = "stateplan.showPlan"

_NODE = re.compile(r"/nodes/(\d+)")
_STATE = re.compile(r"/nodes/(\d+)/state/(\d+)")
_EDGE = re.compile(r"/edges/\d+/(source|target)")


def is_plan(text: str, name: str) -> bool:
    """Whether a JSON file is a plan, by its name or by what it has."""
    is_named = name == "plan.json" or name.endswith((".plan.json", "_plan.json"))
    return is_named or ('"flinkVersion"' in text[:20_000] and '"nodes"' in text[:20_000])


@dataclass(frozen=True)
class PlanInsight(Insight):
    """A plan file that can be read.

    Attributes:
        document: the plan.
        text: the text of the file.
        options: the options of the session.
    """

    document: PlanDocument | None = None
    text: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _spans(self) -> list[tuple[str, Span, Span | None]]:
        """Pointer, value and key of everything in the file."""
        assert self.document is not None
        shift = len(self.text) - len(self.document.text)
        out = []
        for pointer, location in self.document.source.locations.items():
            key = None if location.key is None else Span(*location.key).moved_by(shift)
            out.append((pointer, Span(*location.value).moved_by(shift), key))
        return out

    def _at(self, offset: int) -> tuple[str, Span]:
        """The innermost value, or key, at an offset."""
        best: tuple[int, str, Span] | None = None
        for pointer, value, key in self._spans:
            for span in (value, key):
                if span is not None and span.touches(offset):
                    size = span.end - span.start
                    if best is None or size < best[0]:
                        best = size, pointer, span
        return ("", Span(offset, offset)) if best is None else best[1:]

    def hover(self, offset: int) -> Hover | None:
        if self.document is None:
            return None
        pointer, span = self._at(offset)
        parts = []
        state, node = _STATE.match(pointer), _NODE.match(pointer)
        if state is not None:
            view = self._state(int(state[1]), int(state[2]))
            if view is not None:
                selector = Selectors(self.document, self.options).name_alone(view)
                parts.append(f"`{selector}`: state {view.index}, `{view.name}`, {view.ttl_text} ({view.source_text})")
        if node is not None:
            view_of_plan = show(self.document, self.options)
            node_id = self.document.graph.nodes[int(node[1])].id
            operators = tuple(o for o in view_of_plan.operators if o.id == node_id)
            lines = shown_text(replace(view_of_plan, operators=operators, warnings=())).splitlines()[2:]
            parts.append("```text\n" + "\n".join(lines) + "\n```")
        steps = split_pointer(pointer)
        word = WORDS.get(steps[-1]) if steps else None
        parts += [word] if word else []
        return Hover(span, "\n\n".join(parts)) if parts else None

    def _state(self, position: int, index: int) -> StateView | None:
        assert self.document is not None
        node = self.document.graph.nodes[position]
        views = Selectors(self.document, self.options).views
        return next((view for view in views if view.node_id == node.id and view.index == index), None)

    def definitions(self, offset: int) -> tuple[Target, ...]:
        """The operator that an edge, or an input, refers to."""
        if self.document is None:
            return ()
        pointer, span = self._at(offset)
        if _EDGE.fullmatch(pointer) is None:
            return ()
        try:
            node_id = json.loads(self.text[span.start : span.end])
        except ValueError:
            return ()
        graph = self.document.graph
        for node in graph.nodes:
            if node.id == node_id:
                key = f"{graph.pointer(node)}/id"
                return tuple(Target(value) for pointer, value, _ in self._spans if pointer == key)
        return ()


def read_plan(text: str, options: Mapping[str, str], checkpoints: Checkpoints, check: Callable[[], None]) -> Insight:
    """What there is to see of a plan file. It raises what ``check`` raises."""
    try:
        document = PlanDocument.parse(text)
    except StateplanError as error:
        return Insight(findings=(_error_finding(error, text),))
    check()
    plan_file = _PlanFile(document, text, options)
    try:
        return PlanInsight(
            tuple(plan_file.findings()),
            tuple(plan_file.lenses(checkpoints)),
            tuple(plan_file.symbols()),
            {"": to_text(explain(document, options))},
            document,
            text,
            options,
        )
    except StateplanError as error:  # an option is no duration
        return PlanInsight((_error_finding(error, text),), document=document, text=text, options=options)


def _error_finding(error: StateplanError, text: str) -> Finding:
    """The finding of an error; its place does not count a byte order mark."""
    source = error.place.source if error.place is not None and error.place.source is not None else text
    shift = len(text) - len(source)
    finding = of_error(error, source).finding
    return replace(finding, span=finding.span.moved_by(shift), fixes=move_fixes(finding.fixes, shift))


class _PlanFile:
    """A plan file, and where things are in it."""

    def __init__(self, document: PlanDocument, text: str, options: Mapping[str, str]) -> None:
        self.document, self.text, self.options = document, text, options
        self.shift = len(text) - len(document.text)

    def _span(self, pointer: str, on_key: bool = False) -> Span:
        place = self.document.place(pointer, on_key)
        lines = LineMap(self.document.text)
        start = lines.line((place.line or 1) - 1).start + (place.column or 1) - 1
        return Span(start, start + max(place.length, 1)).moved_by(self.shift)

    def _span_at(self, line: int | None, column: int | None, length: int) -> Span:
        start = LineMap(self.document.text).line((line or 1) - 1).start + (column or 1) - 1
        return Span(start, start + max(length, 1)).moved_by(self.shift)

    def findings(self) -> Iterator[Finding]:
        """Warnings and findings of lint."""
        for warning in self.document.warnings:
            place = warning.place
            message = warning.message + (f"\nhint: {warning.hint}" if warning.hint else "")
            yield Finding(self._span_at(place.line, place.column, place.length), Level.WARNING, "", message)
        for finding in lint(self.document, self.options).findings:
            place = finding.place
            span = self._span_at(place.line, place.column, place.length)
            message = f"{finding.message}\nhint: {finding.hint}"
            yield Finding(span, LEVELS[finding.severity], finding.code, message, tuple(self._fixes(finding)))

    def _fixes(self, finding: LintFinding) -> Iterator[Fix]:
        edit = finding.edit
        if isinstance(edit, SetTtl):
            splices = self.document.ttl_splices([(edit.node_id, edit.state, edit.ttl)], self.options)
            title = f"{finding.code}: {finding.hint.partition(',')[0]}"
            yield Fix(title, self._edits(splices), preferred=True)
        if all_rules()[finding.code].SUPPRESSIBLE:
            try:
                new = suppress(self.document, finding.node_id, finding.code, "say why this is accepted")
            except PlanError:
                return
            yield Fix(f"Suppress {finding.code} at {finding.operator}", (self._change(new.text),))

    def _edits(self, splices: tuple[Splice, ...]) -> tuple[Edit, ...]:
        return tuple(Edit(Span(s.start, s.end).moved_by(self.shift), s.new) for s in splices)

    def _change(self, new: str) -> Edit:
        """The one change between this text and a new one."""
        old = self.document.text
        start = 0
        while start < min(len(old), len(new)) and old[start] == new[start]:
            start += 1
        end = 0
        while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
            end += 1
        return Edit(Span(start, len(old) - end).moved_by(self.shift), new[start : len(new) - end])

    def lenses(self, checkpoints: Checkpoints) -> Iterator[Lens]:
        """What each TTL costs, above its state."""
        selectors = Selectors(self.document, self.options)
        records = checkpoints.of(self.document) if selectors.views else None
        positions = {node.id: i for i, node in enumerate(self.document.graph.nodes)}
        for view in selectors.views:
            pointer = f"/nodes/{positions[view.node_id]}/state/{view.index}"
            if self.document.source.location(pointer) is None:
                pointer = f"/nodes/{positions[view.node_id]}/type"
            yield Lens(self._span(pointer), cost_line(selectors.name_alone(view), view, records), SHOW_STATE, ("",))

    def symbols(self) -> Iterator[Symbol]:
        """The operators, with their states."""
        selectors = Selectors(self.document, self.options)
        for i, node in enumerate(self.document.graph.nodes):
            location = self.document.source.location(f"/nodes/{i}")
            if location is None:
                continue
            node_span = Span(*location.value).moved_by(self.shift)
            children = []
            for view in selectors.views:
                state = self.document.source.location(f"/nodes/{i}/state/{view.index}")
                if view.node_id == node.id and state is not None:
                    span = Span(*state.value).moved_by(self.shift)
                    name = selectors.name_alone(view)
                    children.append(Symbol(name, "state", span, Span(span.start, span.start + 1), view.ttl_text))
            name_span = self._span(f"/nodes/{i}/type")
            yield Symbol(node.label, "operator", node_span, name_span, node.type, tuple(children))
