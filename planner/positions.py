"""Where a syntax node is in the text it came from, and the error for SQL that cannot be planned there.

The dialect marks every node with ``meta["start"]`` and ``meta["end"]``: offsets of its first and last character in
the whole script. A call is marked with its name only, so that an unknown function is underlined, not its arguments.
A node that was built and not read has no mark of its own; then the marks below it count, then those above it.
"""

from __future__ import annotations

from sqlglot import exp

from stateplan.common.errors import Place, SqlError
from stateplan.planner.dialect.errors import place_at


def span_of(node: exp.Expr) -> tuple[int, int] | None:
    """Offsets of the first character and behind the last one; None for a node without any mark around it."""
    own = _mark(node)
    if own is not None:
        return own
    below = [mark for child in node.walk() if (mark := _mark(child)) is not None]
    if below:
        return min(start for start, _ in below), max(end for _, end in below)
    parent = node.parent
    while parent is not None:
        if (mark := _mark(parent)) is not None:
            return mark
        parent = parent.parent
    return None


def _mark(node: exp.Expr) -> tuple[int, int] | None:
    start, end = node.meta.get("start"), node.meta.get("end")
    return (start, end + 1) if isinstance(start, int) and isinstance(end, int) else None


def place_of(node: exp.Expr, source: str, file: str | None = None) -> Place:
    """The place of ``node`` in ``source``, the whole text it was read from; only the file where it has no mark."""
    span = span_of(node)
    return Place(file=file) if span is None else place_at(source, *span, file)


def text_of(node: exp.Expr, source: str) -> str:
    """What was written for ``node``; nothing if it has no mark."""
    span = span_of(node)
    return source[slice(*span)] if span else ""


def bare(node: exp.Expr) -> exp.Expr:
    """``node`` without parentheses. A query keeps those that make it one."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def not_supported(syntax: str, place: Place | None, hint: str | None = None) -> SqlError:
    """SQL150: ``syntax`` is SQL that Flink plans and stateplan does not yet."""
    return SqlError("SQL150", what=syntax, place=place, hint=hint)
