"""What a rebase did, for people, for reviews and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stateplan.common.errors import Place
from stateplan.plans.rebase import Edit, Rebase, Status

_SAYS: Mapping[Status, str] = {
    "conflict": "in conflict",
    "lost": "lost",
    "carried": "carried over",
    "already": "already there",
}
"""The statuses in the order in which they are shown, those that need a hand first."""


_ORIGINS = {"hint": "a hint", "function": "the function", "option": "an option", "default": "no option"}


def summary(rebase: Rebase) -> str:
    """``3 edits: 1 in conflict, 2 carried over``."""
    counts = [(len(rebase.having(status)), says) for status, says in _SAYS.items()]
    total = len(rebase.edits)
    counts_text = ", ".join(f"{count} {says}" for count, says in counts if count)
    return f"{total or 'no'} {'edit' if total == 1 else 'edits'}" + (f": {counts_text}" if counts_text else "")


def _sorted(rebase: Rebase) -> list[Edit]:
    order = list(_SAYS)
    return sorted(rebase.edits, key=lambda edit: order.index(edit.status))


def _place(place: Place) -> str:
    return f"{place.file or 'edited plan'}:{place.line}:{place.column}"


def _place_json(place: Place | None) -> dict[str, Any] | None:
    keys = ("file", "line", "column", "pointer")
    return None if place is None else {key: value for key, value in vars(place).items() if key in keys}


def _edit_text(edit: Edit) -> str:
    return f"{edit.base} -> {edit.ours}"


def _new_text(edit: Edit) -> str:
    """What the new plan says about it."""
    if edit.counterpart is None:
        return edit.reason
    match_text = {"meaning": ", found by what it does", "keys": ", found by its tables and keys"}.get(edit.by or "", "")
    if edit.status == "lost":
        return edit.reason
    origin = f" from {_ORIGINS[edit.origin]}" if edit.origin in _ORIGINS else ""
    has = f", which has {edit.theirs}{origin}" if edit.status == "conflict" else ""
    place_text = f" ({_place(edit.theirs_place)})" if edit.theirs_place and edit.theirs_place.file else ""
    return f"{edit.counterpart} of the new plan{place_text}{has}{match_text}" + (
        f"; {edit.reason}" if edit.reason else ""
    )


def to_text(rebase: Rebase) -> str:
    """The edits by what became of them, each with its place in the edited plan."""
    lines = [summary(rebase)]
    for edit in _sorted(rebase):
        lines += [
            "",
            f"{_SAYS[edit.status]}: {edit.operator} {edit.field}: {_edit_text(edit)}",
            f"  {_place(edit.place)}",
        ]
        lines.append(f"  {_new_text(edit)}")
    lines += ["", *rebase.notes] if rebase.notes else []
    return "\n".join(lines) + "\n"


def to_markdown(rebase: Rebase) -> str:
    """The edits as a table, for a review."""
    lines = [f"**{summary(rebase)}**"]
    if rebase.edits:
        lines += ["", "| | operator | what | edit | new plan |", "| --- | --- | --- | --- | --- |"]
    for edit in _sorted(rebase):
        cells = (_SAYS[edit.status], edit.operator, edit.field, _edit_text(edit), _new_text(edit))
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    lines += ["", *rebase.notes] if rebase.notes else []
    return "\n".join(lines) + "\n"


def to_json(rebase: Rebase) -> dict[str, Any]:
    """The same as JSON-ready data."""
    return {
        "conflicts": len(rebase.conflicts),
        "edits": [
            {
                "status": edit.status,
                "operator": edit.operator,
                "field": edit.field,
                "base": edit.base,
                "ours": edit.ours,
                "theirs": edit.theirs,
                "place": _place_json(edit.place),
                "theirsPlace": _place_json(edit.theirs_place),
                "counterpart": edit.counterpart,
                "by": edit.by,
                "theirsFrom": edit.origin,
                "reason": edit.reason or None,
            }
            for edit in rebase.edits
        ],
        "notes": list(rebase.notes),
    }
