"""Results as tables in the style of Flink's SQL client: columns as wide as their content, values to the right."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

NULL = "<NULL>"
MAX_WIDTH = 100
"""Columns are not wider than this; longer values end in ``...``."""

_CONTROL = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def cell(value: object) -> str:
    """A value as text on one line."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    text = str(value)
    if text.isprintable():
        return text
    return "".join(_CONTROL.get(c, c if c.isprintable() else f"\\u{ord(c):04x}") for c in text)


def display_width(text: str) -> int:
    """Columns of a terminal that ``text`` takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _fitted(text: str, width: int) -> str:
    if display_width(text) > width:
        kept = ""
        for c in text:
            if display_width(kept + c) > width - 3:
                break
            kept += c
        text = kept + "..."
    return " " * (width - display_width(text)) + text


def render(columns: Sequence[str], rows: Sequence[Sequence[object]], max_width: int = MAX_WIDTH) -> str:
    """The table and the line that counts its rows; ``Empty set`` for no rows."""
    if not rows:
        return "Empty set\n"
    cells = [[cell(v) for v in row] for row in rows]
    widths = [min(max_width, max(display_width(t) for t in column)) for column in zip(columns, *cells, strict=True)]
    rule = "+" + "".join("-" * (w + 2) + "+" for w in widths)

    def line(texts: Sequence[str]) -> str:
        return "|" + "".join(f" {_fitted(t, w)} |" for t, w in zip(texts, widths, strict=True))

    counted = "1 row in set" if len(rows) == 1 else f"{len(rows)} rows in set"
    return "\n".join([rule, line(columns), rule, *map(line, cells), rule, counted]) + "\n"
