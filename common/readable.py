"""Numbers, sizes, times and tables as people read them: the only place that words them."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime

NULL = "<NULL>"
MAX_WIDTH = 100
"""Columns of results are not wider than this; longer values end in ``...``."""

_CONTROL = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_SPANS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def hex_id(job_id: str) -> str:
    """A job's id as Flink writes one, 32 hexadecimal digits: Spark's is a UUID with dashes."""
    return job_id.replace("-", "").lower()


def without_links(markdown: str) -> str:
    """A text of the documentation for other places: of a link, only what it shows."""
    return _LINK.sub(r"\1", markdown)


def without_markup(markdown: str) -> str:
    """A text of the documentation for a terminal: without links and backquotes."""
    return without_links(markdown).replace("`", "")


def shorten(text: str, most: int = 60) -> str:
    """A text for a message, of at most this number of characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


def amount(number: int, noun: str, plural: str | None = None) -> str:
    """``1 row``, ``2 rows``; ``plural`` where it is not the noun and an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def bytes_text(count: float) -> str:
    """``1.5 KiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or abs(size) >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def took(ms: float) -> str:
    """``350 ms``, ``1.5 s``."""
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def roughly(seconds: float) -> str:
    """``20 s``, ``3 min``, ``2 h``: as exact as a guess is."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 90 * 60 else f"{round(seconds / 3600)} h"


def ago(now: int, instant: int | None) -> str:
    """How long before ``now`` (ms) that was: ``2.5 h``, ``0 s``; ``-`` for never, ``in 3 s`` for later."""
    if instant is None:
        return "-"
    ms = abs(now - instant)
    size, unit = next(((s, u) for s, u in _SPANS if ms >= s), (1, "ms"))
    text = f"{ms / size:.1f}".removesuffix(".0") if ms else "0"
    return f"{'in ' if instant > now else ''}{text} {unit if ms else 's'}"


def instant_text(ms: int, pattern: str = "%Y-%m-%d %H:%M:%S") -> str | None:
    """An instant (ms since 1970) in UTC; None if no calendar has it."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime(pattern)
    except (ValueError, OverflowError, OSError):
        return None


def in_columns(rows: Sequence[Sequence[str]], indent: str = "", left: int | None = None) -> str:
    """``rows`` in columns two blanks apart, a line each, no blanks at the ends.

    Args:
        rows: their cells.
        indent: in front of each line.
        left: this number of columns are flush left, the others right; all are left by default.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    out = []
    for row in rows:
        cells = [
            cell.ljust(width) if left is None or i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        out.append(f"{indent}{'  '.join(cells).rstrip()}\n")
    return "".join(out)


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


def fitted(text: str, width: int) -> str:
    """``text`` flush right in this number of columns of a terminal; what is too long ends in ``...``."""
    if display_width(text) > width:
        head = ""
        for c in text:
            if display_width(head + c) > width - 3:
                break
            head += c
        text = head + "..."
    return " " * (width - display_width(text)) + text


def render(columns: Sequence[str], rows: Sequence[Sequence[object]], max_width: int = MAX_WIDTH) -> str:
    """The table and the line that counts its rows; ``Empty set`` for no rows. A column that is alone is not cut: it may
    be a path that is needed as a whole."""
    if not rows:
        return "Empty set\n"
    cells = [[cell(v) for v in row] for row in rows]
    most = max_width if len(columns) > 1 else sys.maxsize
    widths = [min(most, max(display_width(t) for t in column)) for column in zip(columns, *cells, strict=True)]
    rule = "+" + "".join("-" * (w + 2) + "+" for w in widths)

    def line(texts: Sequence[str]) -> str:
        return "|" + "".join(f" {fitted(t, w)} |" for t, w in zip(texts, widths, strict=True))

    return "\n".join([rule, line(columns), rule, *map(line, cells), rule, f"{amount(len(rows), 'row')} in set"]) + "\n"
