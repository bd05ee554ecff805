"""Words and signs of Flink SQL (Calcite's lexer in its backquote, JAVA form)."""

from __future__ import annotations

import re
from typing import ClassVar

from sqlglot import tokens
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from stateplan.common.errors import Place, SqlError
from stateplan.planner.dialect.errors import place_at

#: Closes a hint. Calcite's lexer, too, knows ``*/`` as a sign of its own outside comments.
HINT_END = TokenType.BLOCK_END


_CHARACTER_SETS = [
    spelling
    for name in ("UTF-16LE", "UTF-16", "UTF16", "UTF-8", "UTF8", "ISO-8859-1", "US-ASCII")
    for spelling in (name, name.lower())
]
"""Calcite writes texts with their character set: ``_UTF-16LE'text'``, or another one. Texts are Unicode here anyway."""


class FlinkTokenizer(tokens.Tokenizer):
    """Backquotes quote names; text is in single quotes, doubled to stand for themselves; no backslash
    escapes.

    Words are all ``VAR``, keywords too: the parser goes by their text, and so can say that a word is
    reserved. Hints are not comments: ``/*+`` is a token, the words inside are tokens with their places, and
    ``*/`` ends it.
    """

    IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`"]
    QUOTES: ClassVar[list[str | tuple[str, str]]] = ["'", *((f"_{name}'", "'") for name in _CHARACTER_SETS)]
    STRING_ESCAPES: ClassVar[list[str]] = ["'"]
    UNICODE_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("U&'", "'"), ("u&'", "'")]
    HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("X'", "'"), ("x'", "'")]
    COMMENTS: ClassVar[list[str | tuple[str, str]]] = ["--", "//", ("/*", "*/")]
    NESTED_COMMENTS = False
    HINT_START = "\0"
    COMMANDS: ClassVar[set[TokenType]] = set()

    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        **{sign: tokens.Tokenizer.KEYWORDS[sign] for sign in ("||", ">=", "<=", "<>", "!=", "=>", "->")},
        "/*+": TokenType.HINT,
        "*/": HINT_END,
    }


# sqlglot adds Jinja's comments to those of every dialect.
setattr(FlinkTokenizer, "_COMMENTS", {"--": None, "//": None, "/*": "*/"})  # noqa: B010

# From the start of anything that has an end to that end; None is the end of the text.
_PIECES = re.compile(
    r"--[^\n\r]*|//[^\n\r]*|/\*(?!\+)(?:(?!\*/).)*\*/|'(?:[^']|'')*'|`(?:[^`]|``)*`|[^-/'`]+|/\*\+|.", re.S
)
_OPENERS = {
    "'": ("a text has no end", "a closing '; inside a text, a ' is written twice"),
    "`": ("a name has no end", "a closing `"),
    "/*": ("a comment has no end", "*/"),
}


def scan(text: str, file: str | None = None) -> list[Token]:
    """The tokens of a whole script; positions are offsets into ``text``.

    Raises:
        SqlError: SQL003, for a text, name or comment without its end.
    """
    try:
        return FlinkTokenizer(dialect="flink").tokenize(text)
    except TokenError:
        raise _unended(text, file) from None


def _unended(text: str, file: str | None) -> SqlError:
    for match in _PIECES.finditer(text):
        piece = match.group()
        opener = "/*" if text.startswith("/*", match.start()) and piece == "/" else piece
        if opener in _OPENERS:
            problem, expected = _OPENERS[opener]
            start = match.start()
            line_end = text.find("\n", start)
            place = place_at(text, start, len(text) if line_end < 0 else line_end, file)
            return SqlError("SQL003", problem=problem, place=place, expected=expected)
    return SqlError("SQL003", problem="the text cannot be read as SQL", place=Place(file=file))
