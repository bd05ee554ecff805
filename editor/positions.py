"""Positions of an editor: lines and code units, and the offsets of characters that the rest of stateplan counts.

Lines end with LF, CRLF or CR, and with nothing else that Python takes for the end of a line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple

_NEWLINE = re.compile(r"\r\n|\r|\n")

_UNITS: Mapping[str, Callable[[str], int]] = {
    "utf-8": lambda text: len(text.encode("utf-8", "surrogatepass")),
    "utf-16": lambda text: len(text) if text.isascii() else len(text) + sum(c > "\uffff" for c in text),
    "utf-32": len,
}
"""How many code units a text has, by the name of an encoding."""


class Span(NamedTuple):
    """Characters ``start`` to ``end`` (exclusive) of a text, counted from 0."""

    start: int
    end: int

    def moved_by(self, by: int) -> Span:
        """The span of the same characters in a text that has ``by`` characters more in front."""
        return Span(self.start + by, self.end + by)

    def touches(self, offset: int) -> bool:
        """Whether a cursor at ``offset`` is in it or at its end."""
        return self.start <= offset <= self.end


class LineMap:
    """The lines of a text.

    Args:
        text: the text.
        encoding: what the editor counts: ``utf-8``, ``utf-16`` or ``utf-32`` code units.
    """

    def __init__(self, text: str, encoding: str = "utf-16") -> None:
        self.text = text
        self._units = _UNITS[encoding]

    @cached_property
    def _lines(self) -> tuple[list[int], list[int]]:
        """Where lines begin, and where they end without their line break."""
        breaks = [match.span() for match in _NEWLINE.finditer(self.text)]
        return [0, *(end for _, end in breaks)], [*(start for start, _ in breaks), len(self.text)]

    @property
    def count(self) -> int:
        """The number of lines."""
        return len(self._lines[0])

    def line(self, number: int) -> Span:
        """The characters of a line, from 0, without its line break; of the last one if there are not as many."""
        starts, ends = self._lines
        number = min(max(number, 0), len(starts) - 1)
        return Span(starts[number], ends[number])

    def position(self, offset: int) -> tuple[int, int]:
        """Line and code unit, from 0, of a character."""
        offset = min(max(offset, 0), len(self.text))
        number = bisect_right(self._lines[0], offset) - 1
        start, end = self.line(number)
        return number, self._units(self.text[start : min(offset, end)])

    def offset(self, line: int, unit: int) -> int:
        """The character at a line and code unit, from 0. One behind the end of its line is that end, and one within a
        character is its beginning."""
        if line >= self.count:
            return len(self.text)
        start, end = self.line(line)
        text = self.text[start:end]
        if text.isascii():
            return start + min(max(unit, 0), len(text))
        units = 0
        for i, character in enumerate(text):
            units += self._units(character)
            if units > unit:
                return start + i
        return end

    def place(self, line: int, column: int, length: int) -> Span:
        """The span of an error: line and column from 1, in characters of lines that only LF ends."""
        start = 0
        for _ in range(line - 1):
            at = self.text.find("\n", start)
            if at < 0:
                break
            start = at + 1
        start = min(start + column - 1, len(self.text))
        return Span(start, min(start + max(length, 0), len(self.text)))
