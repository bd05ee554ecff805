"""A comparison of two plans for people and for programs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stateplan.plans.changes import Change, legible
from stateplan.plans.diff import OperatorDiff, PlanDiff
from stateplan.plans.verdicts import VERDICTS, Verdict, severity

SAYS: Mapping[Verdict, str] = {
    "identical": "the plans are equivalent",
    "ttl-only": "only TTLs changed; existing state uses the new ones, and expired rows stay expired",
    "stateless": "no existing state depends on the changes",
    "rewrite": "some state must be rewritten before use; none is lost",
    "derive": "some state must be computed for a new checkpoint; none is lost",
    "backfill": "some state must be made from the history of its inputs; none is lost",
    "reset": "some operators lose their state and start empty",
    "unknown": "the compatibility of some state is unknown",
}

EXIT_CODES: Mapping[Verdict, int] = {
    "identical": 0,
    "ttl-only": 10,
    "stateless": 11,
    "rewrite": 12,
    "derive": 12,
    "backfill": 12,
    "reset": 13,
    "unknown": 14,
}
"""What ``plan diff --exit-code`` ends with: the worse, the larger. Below 10 are the codes that all commands share."""


def _operators_to_show(diff: PlanDiff) -> Iterator[OperatorDiff]:
    """The operators worth a word: first those whose state is hurt, the worst first."""
    operators = [o for o in diff.operators if o.verdict != "identical" or o.changes]
    hurt = sorted((o for o in operators if not o.harmless), key=lambda o: -severity(o.verdict))
    yield from hurt
    yield from (o for o in operators if o.harmless)


def _place(operator: OperatorDiff) -> str:
    return " (new)" if operator.old is None else " (gone)" if operator.new is None else ""


def _details(operator: OperatorDiff) -> list[str]:
    """The reasons, and the changes that they do not mention; what only follows from others is omitted."""
    reasons_text = " ".join(operator.reasons)
    changes = own_changes(operator) or operator.changes[:1]
    return [*operator.reasons, *(str(c) for c in legible(changes) if str(c) not in reasons_text)]


_FOLLOWS = re.compile(r"/description|/outputType/.*|.*/(producedType|consumedType)|/inputProperties/.*")


def operator_rows(diff: PlanDiff) -> Iterator[tuple[str, Verdict, Sequence[str]]]:
    """The operators that differ in more than what follows from others, the worst first: what each is called, the
    verdict on its state, and what differs. Operators without state need no reasons."""
    for operator in _operators_to_show(diff):
        if own_changes(operator) or not operator.harmless or None in (operator.old, operator.new):
            lines = _details(operator if operator.stateful else replace(operator, reasons=()))
            yield operator.title + _place(operator), operator.verdict, lines


def own_changes(operator: OperatorDiff) -> Sequence[Change]:
    """The changes of an operator that do not only follow from those of others."""
    return [change for change in operator.changes if not _FOLLOWS.fullmatch(change.pointer)]


def counts(diff: PlanDiff) -> dict[str, int]:
    """How many operators have each verdict, from the worst to harmless."""
    numbers = Counter(o.verdict for o in diff.operators)
    return {verdict: numbers[verdict] for verdict in reversed(VERDICTS) if numbers[verdict]}


def to_text(diff: PlanDiff) -> str:
    """The comparison as text: the verdict, then what differs."""
    lines = [f"{diff.verdict}: {SAYS[diff.verdict]}"]
    for operator in _operators_to_show(diff):
        lines += ["", f"{operator.title}{_place(operator)}  {operator.verdict}"]
        lines += [f"  {line}" for line in _details(operator)]
    if diff.notes:
        lines += ["", *diff.notes]
    if len(diff.operators) > 1 and diff.verdict != "identical":
        lines += ["", ", ".join(f"{n} {verdict}" for verdict, n in counts(diff).items())]
    return "\n".join(lines) + "\n"


def to_markdown(diff: PlanDiff, old: str = "old", new: str = "new") -> str:
    """The comparison as Markdown for a pull request: the verdict, and a table of the operators that changed.

    Args:
        diff: the comparison.
        old, new: what the plans are called.
    """
    lines = [f"### Plan diff: `{diff.verdict}`", "", f"{_cell(old)} → {_cell(new)}: {SAYS[diff.verdict]}."]
    rows = list(_operators_to_show(diff))
    if rows:
        lines += ["", "| operator | state | why and what |", "| --- | --- | --- |"]
        for operator in rows:
            verdict = f"**{operator.verdict}**" if not operator.harmless else operator.verdict
            details = "<br>".join(_cell(line) for line in _details(operator))
            lines.append(f"| `{operator.title}`{_place(operator)} | {verdict} | {details} |")
    if diff.notes:
        lines += ["", *(f"- {_cell(note)}" for note in diff.notes)]
    lines += ["", ", ".join(f"{n} {verdict}" for verdict, n in counts(diff).items()) + "."]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Text that is in a cell as it is: Markdown and HTML mean nothing in it."""
    return text.translate(_SIGNS)


_SIGNS = {ord(sign): f"&#{ord(sign)};" for sign in "&\\`*_[]<>|#~"} | {ord("\n"): " "}


def to_json(diff: PlanDiff) -> dict[str, Any]:
    """The comparison as JSON-ready data."""
    return {
        "verdict": diff.verdict,
        "mayRestart": diff.may_restart,
        "counts": counts(diff),
        "notes": list(diff.notes),
        "operators": [
            {
                "verdict": o.verdict,
                "old": o.old and vars(o.old),
                "new": o.new and vars(o.new),
                "stateful": o.stateful,
                "reasons": list(o.reasons),
                "changes": [vars(c) for c in o.changes],
            }
            for o in diff.operators
        ],
    }
