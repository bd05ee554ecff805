"""How the parser says what is wrong: the token, what was expected in its place, the nearest keyword.

Codes of the parser:

========  ==================================================================================
SQL001    a token that cannot stand there, or a text that ends too early
SQL002    a statement that does not begin with a known keyword
SQL003    text, name or comment without its end; a character that SQL has no use for
SQL004    SQL that Flink has and stateplan does not (what, and where)
SQL005    a type that does not exist, or a length, precision or scale out of range
SQL006    a literal whose text does not fit its type
SQL007    a statement that cannot stand at this place (COMPILE PLAN FOR SELECT)
SQL008    a reserved word used as a name without backquotes
SQL009    SQL nested too deeply
========  ==================================================================================
"""

from __future__ import annotations

from sqlglot.tokenizer_core import Token

from stateplan.common.errors import Place, SqlError
from stateplan.common.readable import shorten


def place_at(source: str, start: int, end: int, file: str | None = None) -> Place:
    """The place of ``source[start:end]``; where it spans lines, only its first line counts."""
    start = max(0, min(start, len(source)))
    line = source.count("\n", 0, start) + 1
    begin = source.rfind("\n", 0, start) + 1
    stop = source.find("\n", start)
    stop = len(source) if stop < 0 else stop
    return Place(file=file, line=line, column=start - begin + 1, length=max(1, min(end, stop) - start), source=source)


def place_of_token(token: Token, source: str) -> Place:
    """The position of one token in ``source``, for an error message."""
    return place_at(source, token.start, token.end + 1)


def end_place(source: str, token: Token | None) -> Place:
    """The position just after ``token``; without a token, just after the last character of the text."""
    end = token.end + 1 if token is not None else len(source.rstrip())
    return place_at(source, end, end + 1)


def token_text(token: Token, source: str) -> str:
    """The token as it was written, cut to 60 characters."""
    text = source[token.start : token.end + 1] or token.text
    text = " ".join(text.split())
    return shorten(text)


def unsupported(syntax: str, place: Place | None, hint: str | None = None) -> SqlError:
    """SQL004."""
    return SqlError("SQL004", what=syntax, place=place, hint=hint)


def too_deep(file: str | None = None) -> SqlError:
    """SQL009, without a place: the text is deeper than anything that walks its tree can go."""
    return SqlError("SQL009", place=Place(file=file))
