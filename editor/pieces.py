"""Cuts a script into statements that can be checked one by one, also where some of them are broken.

A statement that cannot be read hides no other one: the next begins behind the next semicolon, or where a line begins
with the first word of a statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from sqlglot.tokenizer_core import Token

from stateplan.common.errors import SqlError, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.editor.positions import LineMap, Span
from stateplan.planner.dialect.errors import place_at
from stateplan.planner.dialect.tokenizer import scan
from stateplan.session.script import ScriptStatement, read_script

_DELIMITED_TEXT = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|`(?:[^`]|``)*`|/\*|['`]", re.S)
_ENDS = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\n]|'')*'?|`[^`\n]*`?|;", re.S)
"""What a semicolon may be in, and semicolons. A text that lacks its end ends with its line."""

_MOST_ATTEMPTS = 8
_MOST_ENDINGS = 20

_FIRST_WORDS = frozenset(
    ("ALTER", "BEGIN", "COMPILE", "CREATE", "DESCRIBE", "DROP", "EXECUTE", "EXPLAIN", "INSERT", "SHOW", "USE", "SET")
)
"""Where a line begins with one of them, a broken statement ends in front of it."""


@dataclass(frozen=True)
class Piece:
    """A statement, or what is in its place.

    Attributes:
        text: from its first to its last token.
        start: its first character in the script.
        statement: what was read, with positions in ``text``; None if it cannot be read.
        error: why it cannot be read, or what is wrong behind it; with a place in ``text``.
    """

    text: str
    start: int
    statement: ScriptStatement | None
    error: StateplanError | None = None

    @property
    def span(self) -> Span:
        """Its characters in the script."""
        return Span(self.start, self.start + len(self.text))


class Cutter:
    """Cuts the versions of a script, and reads only the statements that the version before did not have.

    Args:
        check: called now and then; it raises what ends the work.
    """

    def __init__(self, check: Callable[[], None] = lambda: None) -> None:
        self.check = check
        self._pieces: dict[str, list[Piece]] = {}

    def cut(self, text: str) -> list[Piece]:
        """The statements of a script."""
        tokens, lexical_errors = _tokens(text)
        pieces: list[Piece] = []
        chunks: dict[str, list[Piece]] = {}
        for chunk in _chunks(tokens):
            self.check()
            start = chunk[0].start
            own = text[start : chunk[-1].end + 1]
            if own not in chunks:
                of_before = self._pieces.get(own)
                read_pieces = list(_read(text, chunk)) if of_before is None else None
                chunks[own] = of_before or [replace(p, start=p.start - start) for p in read_pieces or ()]
            pieces += [replace(piece, start=piece.start + start) for piece in chunks[own]]
        self._pieces = chunks
        return _with_errors(pieces, lexical_errors)


def _with_errors(pieces: list[Piece], lexical_errors: Iterable[tuple[int, SqlError]]) -> list[Piece]:
    for offset, error in lexical_errors:
        pieces = _with_error(pieces, offset, error)
    return pieces


def _tokens(text: str) -> tuple[list[Token], list[tuple[int, SqlError]]]:
    """The tokens of a script. A text, name or comment without its end ends with its line; the errors say where."""
    errors: list[tuple[int, SqlError]] = []
    while True:
        try:
            return scan(text), errors
        except SqlError as error:
            opener = _unended(text) if len(errors) < _MOST_ENDINGS else None
            if opener is None:
                return [], [*errors, (0, error)]
            errors.append((opener, SqlError.with_text(error.code, error.message, expected=error.expected)))
            text = _without_line(text, opener)
        except RecursionError:
            return [], errors


def _unended(text: str) -> int | None:
    """Where the text, name or comment begins that lacks its end: one that spans lines, if without it the rest can be
    read, else the last one."""
    attempts = 0
    last = None
    for match in _DELIMITED_TEXT.finditer(text):
        text_part = match.group()
        if text_part in ("'", "`", "/*"):
            last = match.start()
        elif text_part[0] in "'`" and "\n" in text_part and attempts < _MOST_ATTEMPTS:
            attempts += 1
            try:
                scan(_without_line(text, match.start()))
            except (SqlError, RecursionError):
                continue
            return match.start()
    return last


def _without_line(text: str, start: int) -> str:
    """The text with blanks from ``start`` to the end of the line, but for a semicolon there."""
    end = text.find("\n", start)
    end = len(text) if end < 0 else end
    tail = ";" if text[start:end].rstrip().endswith(";") and end > start + 1 else ""
    return text[:start] + (" " * (end - start - len(tail))) + tail + text[end:]


def _with_error(pieces: list[Piece], offset: int, error: SqlError) -> list[Piece]:
    """The pieces, of which the last one that begins before ``offset`` has the error."""
    at = next((i for i in range(len(pieces) - 1, -1, -1) if pieces[i].start <= offset), None)
    if at is None:
        return [Piece("", offset, None, error), *pieces]
    piece = pieces[at]
    length = max(1, len(piece.text) - (offset - piece.start)) if offset < piece.span.end else 1
    text = piece.text if offset < piece.span.end else piece.text + " " * (offset - piece.span.end + 1)
    error.place = place_at(text, offset - piece.start, offset - piece.start + length)
    return [*pieces[:at], replace(piece, text=text, statement=None, error=error), *pieces[at + 1 :]]


def _chunks(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """The tokens of each statement; a statement set with its INSERTs is one."""
    begin, in_set = 0, False
    for i, token in enumerate(tokens):
        if token.text == ";" and not in_set:
            if i > begin:
                yield tokens[begin:i]
            begin = i + 1
        elif not in_set and _words(tokens[max(begin, i - 2) : i + 1]) == ["STATEMENT", "SET", "BEGIN"]:
            in_set = True
        elif in_set and _words([token]) == ["END"] and tokens[i - 1].text in (";", "BEGIN", "begin"):
            in_set = False
    if begin < len(tokens):
        yield tokens[begin:]


def _words(tokens: Sequence[Token]) -> list[str]:
    return [token.text.upper() for token in tokens]


def _read(text: str, tokens: Sequence[Token]) -> Iterator[Piece]:
    """The statement of these tokens; where it cannot be read, the statements that it may consist of."""
    start, end = tokens[0].start, tokens[-1].end + 1
    own = text[start:end]
    try:
        (statement,) = read_script(own)
        yield Piece(own, start, statement)
        return
    except (StateplanError, ValueError) as error:
        parts = list(_parts(text, tokens))
        if len(parts) < 2:
            yield Piece(own, start, None, error if isinstance(error, StateplanError) else None)
            return
        first_error = error if isinstance(error, StateplanError) else None
    pieces = [piece for part in parts for piece in _read(text, part)]
    if first_error is not None and all(piece.error is None for piece in pieces):
        pieces[0] = _behind(pieces, text, start, own, first_error)
    yield from pieces


def _behind(pieces: Sequence[Piece], text: str, start: int, own: str, error: StateplanError) -> Piece:
    """The first piece with an error that is behind it: a semicolon is missing there."""
    place = error.place
    span = LineMap(own).place(place.line or 1, place.column or 1, place.length) if place else Span(0, 1)
    first = pieces[0]
    longer = text[first.start : max(first.span.end, start + span.end)]
    error.place = place_at(longer, span.start, span.end)
    return replace(
        first, error=SqlError.with_text(error.code, error.message, place=error.place, expected=error.expected)
    )


def _parts(text: str, tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """The tokens of a broken statement, cut where another one may begin."""
    semicolons = [i for i, token in enumerate(tokens) if token.text == ";"]
    begin = 0
    if semicolons:  # a statement set
        opening = next((i for i, token in enumerate(tokens) if token.text.upper() == "BEGIN"), 0)
        begin = opening + 1
        for i in semicolons:
            if i > begin:
                yield tokens[begin:i]
            begin = i + 1
        if begin < len(tokens) and _words(tokens[begin:]) != ["END"]:
            yield tokens[begin:]
        return
    for i, token in enumerate(tokens):
        begins_line = token.start == 0 or text[token.start - 1] in "\r\n"
        if i > begin and begins_line and token.text.upper() in _FIRST_WORDS:
            yield tokens[begin:i]
            begin = i
    yield tokens[begin:]


def statement_around(text: str, offset: int) -> Span:
    """The statement that a cursor is in, as far as semicolons say, also where it cannot be read."""
    start, end = 0, len(text)
    for match in _ENDS.finditer(text):
        if match.group() != ";":
            continue
        if match.start() >= offset:
            end = match.start()
            break
        start = match.end()
    return Span(start, end)
