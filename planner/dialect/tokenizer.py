"""Words and signs of Flink SQL (Calcite's lexer in its backquote, JAVA form)."""

from __future__ import annotations

import re
from typing import ClassVar

from sqlglot import tokens
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from execnodes.errors import Place, SqlError
from planner.dialect.errors import place_at, place_of_token

__all__ = ["HINT_END", "FlinkTokenizer", "scan"]

#: Closes a hint. Calcite's lexer, too, knows ``*/`` as a sign of its own outside comments.
HINT_END = TokenType.BLOCK_END


class FlinkTokenizer(tokens.Tokenizer):
    """Backquotes quote names; text is in single quotes, doubled to stand for themselves; no backslash escapes.

    Words are all ``VAR``, keywords too: the parser goes by their text, and so can say that a word is reserved.
    Hints are not comments: ``/*+`` is a token, the words inside are tokens with their places, and ``*/`` ends it.
    """

    IDENTIFIERS = ["`"]
    QUOTES = ["'"]
    STRING_ESCAPES = ["'"]
    UNICODE_STRINGS = [("U&'", "'"), ("u&'", "'")]
    HEX_STRINGS = [("X'", "'"), ("x'", "'")]
    COMMENTS = ["--", "//", ("/*", "*/")]
    NESTED_COMMENTS = False
    HINT_START = "\0"
    COMMANDS: ClassVar[set[TokenType]] = set()

    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        **{sign: tokens.Tokenizer.KEYWORDS[sign] for sign in ("||", ">=", "<=", "<>", "!=", "=>", "->")},
        "/*+": TokenType.HINT,
        "*/": HINT_END,
    }


FlinkTokenizer._COMMENTS = {"--": None, "//": None, "/*": "*/"}

_WORDS = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER, TokenType.HEX_STRING,
                    TokenType.UNICODE_STRING})
_SIGNS = frozenset("( ) [ ] , . ; : = <> < <= > >= + - * / % || => -> /*+ */".split())

_REASONS = {
    '"': ("double quotes quote nothing in Flink SQL", "backquotes around a name, single quotes around a text"),
    "!=": ("'!=' is not an operator of Flink SQL", "<>"),
}

# From the start of anything that has an end to that end; None is the end of the text.
_ENDED = re.compile(r"--[^\n\r]*|//[^\n\r]*|/\*(?!\+)(?:(?!\*/).)*\*/|'(?:[^']|'')*'|`(?:[^`]|``)*`|[^-/'`]+|/\*\+|.", re.S)
_OPENERS = {"'": ("a text has no end", "a closing '; inside a text, a ' is written twice"),
            "`": ("a name has no end", "a closing `"),
            "/*": ("a comment has no end", "*/")}


def scan(text: str, file: str | None = None) -> list[Token]:
    """The tokens of a whole script; positions are offsets into ``text``.

    Raises:
        SqlError: SQL003, for a text, name or comment without its end and for a character SQL has no use for.
    """
    try:
        found = FlinkTokenizer(dialect="flink").tokenize(text)
    except TokenError:
        raise _unended(text, file) from None
    for token in found:
        if token.token_type in _WORDS or token.text in _SIGNS:
            continue
        place = place_of_token(token, text)
        written = text[token.start:token.end + 1]
        what, expected = _REASONS.get(written, (f"unexpected character '{written:.10}'", None))
        raise SqlError("SQL003", what, place=_in_file(place, file), expected=expected)
    return found


def _unended(text: str, file: str | None) -> SqlError:
    for match in _ENDED.finditer(text):
        piece = match.group()
        opener = "/*" if text.startswith("/*", match.start()) and piece == "/" else piece
        if opener in _OPENERS:
            what, expected = _OPENERS[opener]
            start = match.start()
            line_end = text.find("\n", start)
            place = place_at(text, start, len(text) if line_end < 0 else line_end, file)
            return SqlError("SQL003", what, place=place, expected=expected)
    return SqlError("SQL003", "the text cannot be read as SQL", place=Place(file=file))


def _in_file(place: Place, file: str | None) -> Place:
    return Place(file=file, line=place.line, column=place.column, length=place.length, source=place.source)
