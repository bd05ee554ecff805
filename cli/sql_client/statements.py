"""Where statements begin and end in a text, without understanding them: any gateway may speak another dialect."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from stateplan.common.errors import Place, SqlError, StateplanError
from stateplan.common.lazy_dataclass import dataclass

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+)
  | (?P<comment>--[^\n]* | //[^\n]* | /\*.*?\*/)
  | (?P<text>'(?:[^']|'')*' | `(?:[^`]|``)*`)
  | (?P<open>['`] | /\*)                     # begins something that does not end
  | (?P<word>\w+)
  | (?P<other>.)
""",
    re.S | re.X,
)
_LINE = re.compile(r"![^\n]*")


@dataclass(frozen=True)
class Piece:
    """One statement of a script.

    Attributes:
        text: without the semicolon, and without comments around it.
        source: the whole script.
        start: where it begins in the script.
        is_ended: whether a semicolon ends it; a line that begins with ``!`` ends itself.
        file: the script's name, for messages.
    """

    text: str
    source: str
    start: int
    is_ended: bool
    file: str | None = None

    @property
    def line(self) -> int:
        """The line of the script that it begins on, from 1."""
        return self.source.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        """Its first column on that line, from 1."""
        return self.start - self.source.rfind("\n", 0, self.start)

    def at_script(self, error: StateplanError) -> StateplanError:
        """``error``, whose place in the statement becomes the place in the script."""
        place = error.place
        if place is None:
            if self.file is not None:
                error.place = Place(file=self.file, line=self.line)
        elif place.file is None and place.line is not None and place.source in (None, self.text, self.text + ";"):
            column = place.column
            if column is not None and place.line == 1:
                column += self.column - 1
            error.place = replace(
                place, file=self.file, line=place.line + self.line - 1, column=column, source=self.source
            )
        return error


def pieces(source: str, file: str | None = None) -> Iterator[Piece]:
    """The statements of a script, in their order; blanks and comments between them are none.

    A semicolon inside a text, a comment or a ``STATEMENT SET BEGIN ... END`` does not end a statement.
    """
    position = 0
    while position < len(source):
        token = _TOKEN.match(source, position)
        assert token is not None
        if token["blank"] or token["comment"] or token["other"] == ";":
            position = token.end()
            continue
        line = _LINE.match(source, position)
        if line is not None:
            yield Piece(line.group().rstrip(), source, position, True, file)
            position = line.end()
            continue
        end, last, is_ended = _end(source, position)
        yield Piece(source[position:last], source, position, is_ended, file)
        position = end


def _end(source: str, start: int) -> tuple[int, int, bool]:
    """Where the statement that begins at ``start`` is over; the end of its last token; whether a semicolon ends it."""
    words = ["", "", ""]
    inside = False
    last = start
    for token in _TOKEN.finditer(source, start):
        if token["open"]:
            return len(source), len(source.rstrip()), False
        word = (token["word"] or token["text"] or token["other"] or "").upper()
        if not word:
            continue
        if word == ";" and not inside:
            return token.end(), last, True
        last = token.end()
        words = [*words[1:], word]
        if words == ["STATEMENT", "SET", "BEGIN"]:
            inside = True
        elif inside and words[1:] == [";", "END"]:
            inside = False
    return len(source), last, False


def is_complete(text: str) -> bool:
    """Whether ``text`` holds a statement, and its last one has ended."""
    statements = list(pieces(text))
    return bool(statements) and statements[-1].is_ended


def read_text(path: str, place: Place | None = None) -> str:
    """The text of a script; ``-`` is standard input.

    Raises:
        SqlError: SQL401, when it cannot be read.
    """
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as cause:
        reason = cause.strerror if isinstance(cause, OSError) else "it is not UTF-8 text"
        raise SqlError("SQL401", reason=reason, what="the script", place=place or Place(file=path)) from cause
