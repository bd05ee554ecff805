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


# fmt: off
SCHEMES: dict[str, dict[_TokenType, str]] = {
    "DEFAULT": {
        Keyword: "bold ansiblue", String: "ansigreen", Name.Variable: "ansicyan", Number: "ansimagenta",
        Comment: "italic ansibrightblack", Comment.Special: "ansiyellow", Name.Function: "ansicyan",
    },
    "DARK": {
        Keyword: "bold #6fa8ff", String: "#8fce6f", Name.Variable: "#d7ba7d", Number: "#c39ac9",
        Comment: "italic #8a8a8a", Comment.Special: "#e0c040", Name.Function: "#6fd0d0",
    },
    "LIGHT": {
        Keyword: "bold #0033a0", String: "#1b6e1b", Name.Variable: "#8a4b00", Number: "#7a1fa2",
        Comment: "italic #6b6b6b", Comment.Special: "#8a6d00", Name.Function: "#00626e",
    },
    "CHESTER": {
        Keyword: "bold #0063b2", String: "#00b16a", Name.Variable: "#4ab3b3", Number: "#ff8040",
        Comment: "italic #8e8e8e", Comment.Special: "#e8b13a", Name.Function: "#0098d8",
    },
    "VS2010": {
        Keyword: "bold #5a9bd6", String: "#d69b7f", Name.Variable: "#a8c3de", Number: "#b6cea9",
        Comment: "italic #5ba85b", Comment.Special: "#c8c85a", Name.Function: "#dcdcab",
    },
    "SOLARIZED": {
        Keyword: "bold #268bd2", String: "#2aa198", Name.Variable: "#b58900", Number: "#d33682",
        Comment: "italic #93a1a1", Comment.Special: "#cb4b16", Name.Function: "#859900",
    },
    "OBSIDIAN": {
        Keyword: "bold #94c86f", String: "#eb7a15", Name.Variable: "#a183bd", Number: "#ffcf28",
        Comment: "italic #7d8b90", Comment.Special: "#d06f6f", Name.Function: "#678eb2",
    },
    "GESHI": {
        Keyword: "bold #99427a", String: "#e05050", Name.Variable: "#3f3ff0", Number: "#cc60cc",
        Comment: "italic #808080", Comment.Special: "#b06000", Name.Function: "#4070b0",
    },
}
# fmt: on
"""The names of Flink's ``sql-client.display.color-schema``, with colours of our own. DEFAULT are those of the
terminal."""
