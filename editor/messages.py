"""Findings, lenses and the others in the words of the protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from lsprotocol import types as lsp
from pygls import uris

from stateplan.editor.findings import Finding, Fix, Hover, Lens, Symbol, Target
from stateplan.editor.positions import LineMap, Span

_SYMBOLS = {
    "table": lsp.SymbolKind.Class,
    "view": lsp.SymbolKind.Interface,
    "function": lsp.SymbolKind.Function,
    "catalog": lsp.SymbolKind.Module,
    "query": lsp.SymbolKind.Event,
    "column": lsp.SymbolKind.Field,
    "operator": lsp.SymbolKind.Object,
    "state": lsp.SymbolKind.Property,
    "test": lsp.SymbolKind.Method,
}


def position(lines: LineMap, offset: int) -> lsp.Position:
    """A character as a line and a code unit."""
    return lsp.Position(*lines.position(offset))


def span_range(lines: LineMap, span: Span) -> lsp.Range:
    """A span as a range."""
    return lsp.Range(position(lines, span.start), position(lines, span.end))


def as_diagnostics(findings: Iterable[Finding], lines: LineMap, uri: str, docs: str) -> list[lsp.Diagnostic]:
    """Findings as diagnostics; ``docs`` is the URL of the documentation, or empty."""
    return [
        lsp.Diagnostic(
            span_range(lines, finding.span),
            finding.message,
            severity=lsp.DiagnosticSeverity(int(finding.level)),
            code=finding.code or None,
            code_description=_description(finding.code, docs),
            source="stateplan",
            related_information=[
                lsp.DiagnosticRelatedInformation(
                    as_location(Target(other.span, other.file), lines, uri, LineMap), other.message
                )
                for other in finding.other_places
            ]
            or None,
        )
        for finding in findings
    ]


def _description(code: str, docs: str) -> lsp.CodeDescription | None:
    if not code or not docs:
        return None
    page = "plans/lint.md" if code.startswith(("TTL", "PLN")) else "operate/errors.md"
    return lsp.CodeDescription(f"{docs.rstrip('/')}/{page}#{code.lower()}")


def as_location(target: Target, lines: LineMap, uri: str, lines_of: Callable[[str], LineMap]) -> lsp.Location:
    """A place, of this document or of a file. In a module of Python, the span is the number of a line."""
    if target.file is None:
        return lsp.Location(uri, span_range(lines, target.span))
    own_uri = uris.from_fs_path(target.file) or target.file
    if target.file.endswith(".py"):
        at = lsp.Position(target.span.start, 0)
        return lsp.Location(own_uri, lsp.Range(at, at))
    try:
        with Path(target.file).open(encoding="utf-8", newline="") as file:
            text = file.read()
    except (OSError, ValueError):
        text = ""
    return lsp.Location(own_uri, span_range(lines_of(text), target.span))


def as_locations(
    targets: Iterable[Target], lines: LineMap, uri: str, lines_of: Callable[[str], LineMap]
) -> list[lsp.Location]:
    """Places as locations."""
    return [as_location(target, lines, uri, lines_of) for target in targets]


def as_hover(hover: Hover | None, lines: LineMap) -> lsp.Hover | None:
    """A hover text."""
    if hover is None:
        return None
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, hover.text), span_range(lines, hover.span))


def as_lenses(lenses: Iterable[Lens], lines: LineMap, uri: str) -> list[lsp.CodeLens]:
    """Lenses, whose command gets the document first."""
    return [
        lsp.CodeLens(
            span_range(lines, Span(lens.span.start, lens.span.start)),
            lsp.Command(lens.title, lens.command, arguments=[uri, *lens.arguments]),
        )
        for lens in lenses
    ]


def as_symbols(symbols: Iterable[Symbol], lines: LineMap) -> list[lsp.DocumentSymbol]:
    """The outline."""
    return [
        lsp.DocumentSymbol(
            symbol.name or "?",
            _SYMBOLS[symbol.kind],
            span_range(lines, symbol.span),
            span_range(lines, symbol.name_span),
            detail=symbol.detail or None,
            children=as_symbols(symbol.children, lines) or None,
        )
        for symbol in symbols
    ]


def as_completions(span: Span, candidates: Sequence[str], lines: LineMap) -> lsp.CompletionList:
    """Candidates, in their order, each in place of the span."""
    from stateplan.common.readable import without_markup
    from stateplan.common.settings import OPTIONS
    from stateplan.planner.dialect.keywords import KEYWORDS

    items = []
    for number, candidate in enumerate(candidates):
        option = OPTIONS.get(candidate)
        kind = lsp.CompletionItemKind.Keyword if candidate in KEYWORDS else lsp.CompletionItemKind.Field
        items.append(
            lsp.CompletionItem(
                candidate,
                kind=lsp.CompletionItemKind.Property if option is not None else kind,
                documentation=None if option is None else without_markup(option.description),
                sort_text=f"{number:04}",
                text_edit=lsp.TextEdit(span_range(lines, span), candidate),
            )
        )
    return lsp.CompletionList(is_incomplete=True, items=items)


def as_actions(
    findings: Iterable[Finding], at: lsp.Range, lines: LineMap, document: lsp.OptionalVersionedTextDocumentIdentifier,
    docs: str,
) -> list[lsp.CodeAction]:  # fmt: skip
    """The quick fixes of findings that a range touches."""
    start = lines.offset(at.start.line, at.start.character)
    end = lines.offset(at.end.line, at.end.character)
    actions = []
    for finding in findings:
        if finding.span.start > end or finding.span.end < start:
            continue
        diagnostics = as_diagnostics([finding], lines, document.uri, docs)
        actions += [_action(fix, diagnostics, lines, document) for fix in finding.fixes]
    return actions


def _action(
    fix: Fix,
    diagnostics: list[lsp.Diagnostic],
    lines: LineMap,
    document: lsp.OptionalVersionedTextDocumentIdentifier,
) -> lsp.CodeAction:
    edits: list[lsp.TextEdit | lsp.AnnotatedTextEdit | lsp.SnippetTextEdit] = [
        lsp.TextEdit(span_range(lines, edit.span), edit.text) for edit in fix.edits
    ]
    return lsp.CodeAction(
        fix.title,
        kind=lsp.CodeActionKind.QuickFix,
        diagnostics=diagnostics,
        is_preferred=fix.preferred or None,
        edit=lsp.WorkspaceEdit(document_changes=[lsp.TextDocumentEdit(document, edits)]),
    )
