"""A review as one comment in Markdown, for GitHub and GitLab: first what has to be decided, then details that fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import amount
from stateplan.plans.diff_report import operator_rows
from stateplan.plans.document import ttl_text
from stateplan.plans.lint import Finding, Severity
from stateplan.review.comparison import QueryChange
from stateplan.review.drawing import drawing, to_mermaid
from stateplan.review.escaping import code, fenced, plain
from stateplan.review.figures import Amount
from stateplan.review.review import Review
from stateplan.review.words import FATE_WORDS, STEPS, amount_words, cost_words, headline, query_words
from stateplan.testing.reporting import outcome_lines

LIMIT = 65_000
"""The most characters of a comment. GitHub accepts 65,536."""

_SQL_NOTE = "the recorded SQL"
"""Begins a note of a comparison that says nothing to who sees the change of the SQL."""

_USUAL = "default_catalog.default_database."

_ROWS = 50
"""So many queries are in the table."""

_NO_BREAK = "\u00a0"

_ROOM = 400
"""Characters of the sentence about what is omitted."""

_FAILURES = 5
"""So many tests that fail are shown in full."""


def marker(name: str = "") -> str:
    """The hidden first line, by which a comment is found again."""
    kind = "".join(sign for sign in name if sign.isalnum() or sign in "._-")
    return f"<!-- stateplan review{f' {kind}' if kind else ''} -->"


@dataclass(frozen=True)
class _Section:
    """A part of a comment.

    Attributes:
        text: its Markdown.
        kind: what it is, for the sentence that says that it is omitted; empty for what is always there.
    """

    text: str
    kind: str = ""


_OMITTED_FIRST = (
    "drawings",
    "old lint findings",
    "plan details",
    "failing tests",
    "queries that keep their state",
    "queries that lose state",
)


def to_markdown(review: Review, name: str = "", limit: int = LIMIT) -> str:
    """The comment.

    Args:
        review: the review.
        name: distinguishes the comments of several reviews of one change.
        limit: the most characters. Whole sections are omitted, drawings first, and a sentence says so.
    """
    sections = list(_sections(review, name))
    omissions = dict[str, int]()
    length = sum(len(section.text) + 2 for section in sections) - 1
    candidates = [section for section in sections if section.kind]
    candidates.sort(key=lambda section: (_OMITTED_FIRST.index(section.kind), -len(section.text)))
    hidden_ids = set[int]()
    for section in candidates:
        if length + (_ROOM if omissions else 0) <= limit:
            break
        hidden_ids.add(id(section))
        length -= len(section.text) + 2
        omissions[section.kind] = omissions.get(section.kind, 0) + 1
    return _text([section for section in sections if id(section) not in hidden_ids], omissions)


def _text(sections: Sequence[_Section], omissions: dict[str, int]) -> str:
    parts = [section.text for section in sections]
    if omissions:
        kinds = ", ".join(f"{number} of the {kind}" for kind, number in omissions.items())
        parts.append(f"_Omitted, as a comment has a limit: {kinds}. `stateplan review --format json` has everything._")
    return "\n\n".join(parts) + "\n"


def _sections(review: Review, name: str) -> Iterator[_Section]:
    title = f"{plain(name)}: " if name else ""
    yield _Section(f"{marker(name)}\n### {title}{_arrow(plain(headline(review)))}")
    queries = sorted(review.queries, key=lambda query: (query.status != "broken", not query.loses_state))
    if len(queries) > 1:
        yield _Section(_overview(queries))
    for query in queries:
        if query.status != "deleted" or query.states or len(queries) == 1:
            yield from _query(query, len(queries) > 1)
    yield from _tests(review)
    for note in review.notes:
        yield _Section(f"> {plain(note)}")
    same = f" {amount(review.unchanged, 'other query is', 'other queries are')} the same." if review.unchanged else ""
    has_no_sizes = any(query.status == "changed" and query.states and query.figures is None for query in review.queries)
    hint = " `--checkpoint` and `--figures` add the size of state." if has_no_sizes else ""
    yield _Section(f"<sub>By `stateplan review`{_between(review)}.{same}{hint}</sub>")


def _between(review: Review) -> str:
    return f", {plain(review.old)} → {plain(review.new)}" if review.old else ""


def _overview(queries: Sequence[QueryChange]) -> str:
    rows = [["query", "state", "TTLs", "lint", "size of state"]]
    for query in queries[:_ROWS]:
        ttls = sum(state.changes_ttl for state in query.states)
        finding = len(query.lint.new)
        rows.append(
            [
                code(query.name),
                _state_cell(query),
                f"{ttls} changed" if ttls else "",
                f"**{finding} new**" if finding else "",
                _arrow(plain(cost_words(query) or "")),
            ]
        )
    columns = [column for column in range(5) if column < 2 or any(row[column] for row in rows[1:])]
    more = f"\n\n{len(queries) - _ROWS} more queries." if len(queries) > _ROWS else ""
    return _table([[row[column] for column in columns] for row in rows]) + more


def _state_cell(query: QueryChange) -> str:
    if query.status == "changed":
        text = plain(query_words(query))
        return f"**{text}**" if query.loses_state else text
    return {"created": "new query", "deleted": "query deleted", "broken": "**does not compile**"}.get(query.status, "")


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *others = rows
    lines = [head, ["---"] * len(head), *others]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _short(text: str) -> str:
    """A text of a comparison, without the names of the catalog and database that need not be written."""
    return _arrow(plain(text.replace(_USUAL, "").replace("`default_catalog`.`default_database`.", "")))


def _arrow(text: str) -> str:
    return text.replace("-&#62;", "→")


# ---- a query ---------------------------------------------------------------------------------------------------


def _query(query: QueryChange, has_title: bool) -> Iterator[_Section]:
    advice = " ".join(_advice(query))
    lines = (
        [f"#### {code(query.name)}: {_state_cell(query)}", advice] if has_title else [f"{code(query.name)}: {advice}"]
    )
    if not has_title and not advice:
        lines = [f"{code(query.name)}: {_state_cell(query)}."]
    if query.status == "broken":
        assert query.new is not None and query.new.error is not None
        lines = lines[:1] if has_title else [f"{code(query.name)} does not compile."]
        yield _Section("\n\n".join([*lines, fenced(str(query.new.error), "text")]), _OMITTED_FIRST[5])
        return
    if (states := _states(query)) is not None:
        lines.append(states)
    lines += _figures_note(query)
    if query.lint.new:
        lines.append("\n".join(f"- {_finding(finding)}" for finding in query.lint.new))
    if query.lint.former:
        former = ", ".join(dict.fromkeys(code(f"{f.code} {f.operator}") for f in query.lint.former))
        lines.append(f"Lint no longer finds {former}.")
    if query.lint.suppressed:
        names = ", ".join(code(f"{f.code} {f.operator}") for f in query.lint.suppressed)
        lines.append(f"The plan now suppresses {names}.")
    yield _Section("\n\n".join(filter(None, lines)), _OMITTED_FIRST[5 if query.loses_state else 4])
    yield from _foldable(query)


def _advice(query: QueryChange) -> Iterator[str]:
    """What to do with the checkpoint of a job that runs the old plan."""
    if query.status == "changed" and query.states:
        yield STEPS[query.fate]
    elif query.old is not None and query.old.error is not None:
        yield f"the old query does not compile ({code(query.old.error.code)}), so there is nothing to compare."


def _states(query: QueryChange) -> str | None:
    """The states that a reviewer has to look at, in a table: those that are not kept as they are, those whose TTL or
    size changes."""
    has_sizes = query.figures is not None
    rows_to_show = [s for s in query.states if s.fate != "kept" or s.changes_ttl or (has_sizes and s.before != s.after)]
    if not rows_to_show:
        return None
    rows = [["state", "TTL", "what becomes of it", *(["before", "after"] if has_sizes else [])]]
    for state in rows_to_show:
        before = None if state.old is None else ttl_text(state.old.ttl)
        after = None if state.new is None else ttl_text(state.new.ttl)
        ttl = f"{before} → **{after}**" if state.changes_ttl else after or before or ""
        fate = FATE_WORDS[state.fate]
        fate = f"**{fate}**" if state.fate in ("lost", "unknown", "empty") else fate
        if state.expires_rows and state.fate in ("kept", "rewritten"):
            fate += "; older rows expire at once"
        cells = [code(state.selector), ttl.replace(" ", _NO_BREAK), fate]
        if has_sizes:
            cells += [_size(state.before) if state.old else "", _size(state.after) if state.new else ""]
        rows.append(cells)
    return "\n\n".join([_table(rows), *_reasons(query)])


def _size(figure: Amount | None) -> str:
    """Rows and bytes, each of which stays on a line."""
    return ", ".join(part.replace(" ", _NO_BREAK) for part in amount_words(figure).split(", "))


def _reasons(query: QueryChange) -> Iterator[str]:
    """Why state is not kept as it is, an item for each operator: what differs, and what stands in the way. All reasons
    are in the details of the plan. Removed operators need none."""
    items = []
    for operator in () if query.diff is None else query.diff.operators:
        if operator.stateful and not operator.harmless and operator.new is not None and operator.reasons:
            first = next((reason for reason in operator.reasons if reason.startswith("its ")), operator.reasons[0])
            reasons = dict.fromkeys((first, operator.reasons[-1]))
            items.append(f"- {code(operator.title)}: {'; '.join(map(_short, reasons))}")
    if items:
        yield "\n".join(items)


def _figures_note(query: QueryChange) -> Iterator[str]:
    """Where figures are from, and what they leave open."""
    if query.figures is None or not query.states:
        return
    parts = [f"Sizes are from {code(query.figures.source)}"]
    if query.figures.is_stored:
        parts[0] += ", as stored: expired rows count until they are removed"
    ranges = [s.after for s in query.states if s.after is not None and s.after.rows != s.after.most_rows]
    if ranges:
        parts.append("A range is what the new TTL keeps of rows that arrive evenly: fewer if keys appear again")
    if any(s.after is None or s.after.bytes is None for s in query.states if s.new is not None and s.old is not None):
        parts.append(f"{code('stateplan plan try PLAN --checkpoint')} measures what is unknown, on a copy of the job")
    yield f"<sub>{'. '.join(parts)}.</sub>"


def _finding(finding: Finding) -> str:
    mark = ":warning: " if finding.severity is Severity.WARNING else ""
    return f"{mark}{code(finding.code)} {plain(finding.message)}; {plain(finding.hint)}."


def _foldable(query: QueryChange) -> Iterator[_Section]:
    part = drawing(query)
    if part is not None:
        text = to_mermaid(part)
        more = f"\n\n{amount(part.omissions, 'operator')} without changes not drawn." if part.omissions else ""
        yield _Section(_details("What changed, as a drawing", fenced(text, "mermaid") + more), "drawings")
    if query.diff is not None and query.status == "changed":
        rows = [[f"`{title}`", verdict, "<br>".join(map(_short, lines))] for title, verdict, lines in _plan_rows(query)]
        if rows:
            table = _table([["operator", "verdict", "why and what"], *rows])
            notes = "".join(f"\n- {_short(note)}" for note in query.diff.notes if not note.startswith(_SQL_NOTE))
            count = amount(len(rows), "operator")
            yield _Section(_details(f"Plan: {count} changed", table + (f"\n{notes}" if notes else "")), "plan details")
    if query.lint.old:
        items = "\n".join(f"- {_finding(finding)}" for finding in query.lint.old)
        title = f"Lint: {amount(len(query.lint.old), 'finding')} as before"
        yield _Section(_details(title, items), "old lint findings")


def _plan_rows(query: QueryChange) -> Iterator[tuple[str, str, Sequence[str]]]:
    assert query.diff is not None
    return operator_rows(query.diff)


def _details(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


# ---- tests -----------------------------------------------------------------------------------------------------


def _tests(review: Review) -> Iterator[_Section]:
    if review.tests is None:
        return
    report = review.tests.report
    good = sum(outcome.holds for outcome in report.outcomes)
    parts = [f"{good} passed"]
    parts += [f"**{report.failed} failed**"] if report.failed else []
    yield _Section(f"**Tests:** {', '.join(parts)}.")
    failing = [o for o in report.outcomes if not o.holds and o.skip_reason is None]
    texts = [f"{f.file}\n{f.error}" for f in report.files if f.error is not None]
    texts += ["\n".join([f"{o.case.file}:", *outcome_lines(o)]) for o in failing]
    for text in texts[:_FAILURES]:
        yield _Section(fenced(text, "text"), "failing tests")
    if len(texts) > _FAILURES:
        yield _Section(f"{len(texts) - _FAILURES} more tests fail.")
    if review.tests.former:
        titles = [f"- {code(o.case.file)}: {plain(o.case.title)}" for o in review.tests.former]
        number = amount(len(titles), "test")
        intro = f"The change edits tests. {number} of {review.tests.former_count} would fail as they were before:"
        yield _Section("\n".join([intro, "", *titles]))
