"""Colours for SQL while it is typed: the words of our own dialect, as pygments tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, Punctuation, String, Text, _TokenType

from stateplan.cli.sql_client.commands import COMMANDS
from stateplan.planner.dialect.grammar import words
from stateplan.planner.dialect.keywords import RESERVED

_KEYWORDS = RESERVED | frozenset(words())
_COMMANDS = frozenset(command.word for command in COMMANDS)


def _word(lexer: RegexLexer, match: re.Match[str]) -> Iterator[tuple[int, _TokenType, str]]:
    text = match.group()
    upper = text.upper()
    if upper in _KEYWORDS or (upper in _COMMANDS and not lexer.text[: match.start()].rpartition(";")[2].strip()):
        kind = Keyword
    elif lexer.text[match.end() : match.end() + 1] == "(":
        kind = Name.Function
    else:
        kind = Name
    yield match.start(), kind, text


class FlinkLexer(RegexLexer):  # type: ignore[misc] # a base without types
    """Tokens of Flink SQL, whole or not: a text without its end is a text up to the end."""

    name = "Flink SQL"
    flags = re.S

    tokens: ClassVar[dict[str, Any]] = {
        "root": [
            (r"\s+", Text),
            (r"--[^\n]*|//[^\n]*", Comment.Single),
            (r"/\*\+.*?(\*/|\Z)", Comment.Special),
            (r"/\*.*?(\*/|\Z)", Comment.Multiline),
            (r"'(?:[^']|'')*('|\Z)", String.Single),
            (r"`(?:[^`]|``)*(`|\Z)", Name.Variable),
            (r"\d+(\.\d*)?([eE][+-]?\d+)?", Number),
            (r"\w+", _word),
            (r".", Punctuation),
        ]
    }

    def get_tokens_unprocessed(self, text: str, stack: Any = ("root",)) -> Iterator[tuple[int, _TokenType, str]]:
        self.text = text
        yield from super().get_tokens_unprocessed(text, stack)


_STYLES: dict[_TokenType, str] = {
    **dict.fromkeys((Keyword, String, Name.Variable, Number, Comment, Comment.Special, Name.Function), ""),
    Keyword: "bold",
    Comment: "italic",
}
_SCHEMES = {
    "DEFAULT": "ansiblue ansigreen ansicyan ansimagenta ansibrightblack ansiyellow ansicyan",
    "DARK": "#6fa8ff #8fce6f #d7ba7d #c39ac9 #8a8a8a #e0c040 #6fd0d0",
    "LIGHT": "#0033a0 #1b6e1b #8a4b00 #7a1fa2 #6b6b6b #8a6d00 #00626e",
    "CHESTER": "#0063b2 #00b16a #4ab3b3 #ff8040 #8e8e8e #e8b13a #0098d8",
    "VS2010": "#5a9bd6 #d69b7f #a8c3de #b6cea9 #5ba85b #c8c85a #dcdcab",
    "SOLARIZED": "#268bd2 #2aa198 #b58900 #d33682 #93a1a1 #cb4b16 #859900",
    "OBSIDIAN": "#94c86f #eb7a15 #a183bd #ffcf28 #7d8b90 #d06f6f #678eb2",
    "GESHI": "#99427a #e05050 #3f3ff0 #cc60cc #808080 #b06000 #4070b0",
}

SCHEMES: dict[str, dict[_TokenType, str]] = {
    name: {
        token: f"{style} {colour}".lstrip()
        for (token, style), colour in zip(_STYLES.items(), colours.split(), strict=True)
    }
    for name, colours in _SCHEMES.items()
}
"""The names of Flink's ``sql-client.display.color-schema``, with colours of our own. DEFAULT are those of the
terminal."""
