"""How wide texts are, and how they are cut and wrapped: the drawing is made without the fonts it is shown in."""

from __future__ import annotations

import unicodedata

_EMS = {
    **dict.fromkeys("ijl|'", 0.3),
    **dict.fromkeys(' .,:;!ft()[]/\\-r`"', 0.41),
    **dict.fromkeys("WM@%m", 1.0),
    **dict.fromkeys("=<>+~w#…", 0.84),
    **dict.fromkeys("GHNOQDUC&", 0.78),
}
"""Widths of letters in the widest of the usual fonts without serifs, in ems."""


_NOTHING = 1e-6
"""What sums of widths may be off by."""


def text_width(text: str, size: float) -> float:
    """About how wide ``text`` is; rather more than less."""
    ems = 0.0
    for c in text:
        wide = not c.isascii() and unicodedata.east_asian_width(c) in "WF"
        ems += 1.05 if wide else _EMS.get(c) or (0.7 if c.isupper() else 0.64 if c.isascii() else 0.9)
    return ems * size


def cut_text(text: str, width: float, size: float) -> str:
    """``text``, or as much of it as fits into ``width``."""
    if text_width(text, size) <= width + _NOTHING:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if text_width(text[:middle] + "…", size) <= width else (low, middle - 1)
    return text[:low].rstrip() + "…"


def wrap_text(text: str, room: float, size: float, max_lines: int) -> list[str]:
    """``text`` in at most ``max_lines`` lines; what does not fit is cut off, long words too."""
    lines: list[str] = []
    words = text.split()
    while words and len(lines) < max_lines:
        if len(lines) == max_lines - 1:
            return [*lines, cut_text(" ".join(words), room, size)]
        line = words.pop(0)
        while words and text_width(f"{line} {words[0]}", size) <= room:
            line += f" {words.pop(0)}"
        lines.append(cut_text(line, room, size))
    return lines
