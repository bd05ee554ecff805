"""The tokens of a script with the comments around them, and the parentheses that they stand in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TypeAlias

from sqlglot.tokenizer_core import Token

from stateplan.common.lazy_dataclass import dataclass
from stateplan.planner.dialect.keywords import RESERVED
from stateplan.planner.dialect.tokenizer import scan

_COMMENT = re.compile(r"--[^\n]*|//[^\n]*|/\*.*?\*/", re.S)
_OPEN = {"(": ")", "[": "]", "/*+": "*/", "CASE": "END"}
_WORD = re.compile(r"[A-Za-z_$][\w$]*")


@dataclass
class Lexeme:
    """A token.

    Attributes:
        text: as it is written; words that SQL reserves are in capital letters.
        follows_blank: whether there is a blank in front of it.
        above: the comments on lines of their own in front of it.
        inside: the comments in front of it on its line.
        behind: the comments behind it on its line.
    """

    text: str
    follows_blank: bool = True
    above: list[str] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)

    @property
    def is_word(self) -> bool:
        """Whether it is a name or a keyword without quotes."""
        return _WORD.fullmatch(self.text) is not None

    @property
    def is_keyword(self) -> bool:
        """Whether SQL reserves it."""
        return self.text in RESERVED

    @property
    def word(self) -> str:
        """The word in capital letters; empty for another token."""
        return self.text.upper() if self.is_word else ""

    @property
    def breaks_line(self) -> bool:
        """Whether a comment behind it ends the line."""
        return any(not comment.startswith("/*") or "\n" in comment for comment in self.behind)


@dataclass
class Group:
    """What stands between parentheses, brackets, the signs of a hint, or CASE and END.

    Attributes:
        first, last: the tokens around it.
        parts: what is between them.
    """

    first: Lexeme
    parts: list[Part]
    last: Lexeme


Part: TypeAlias = Lexeme | Group


def lexemes(source: str) -> list[tuple[Lexeme, int, int]]:
    """The tokens of a script, each with its first character and the one behind its last.

    Raises:
        SqlError: SQL003, something has no end.
    """
    tokens = scan(source)
    out: list[tuple[Lexeme, int, int]] = []
    for place, token in enumerate(tokens):
        end_before = tokens[place - 1].end + 1 if place else 0
        text = source[token.start : token.end + 1]
        lexeme = Lexeme(_spelling(text, tokens, place), token.start > end_before or not place)
        if place:
            _attach(source[end_before : token.start], out[-1][0], lexeme)
            if text in (",", ";") and not lexeme.above:
                lexeme.behind, out[-1][0].behind = out[-1][0].behind, []  # the comma is in front of the comment
        out.append((lexeme, token.start, token.end + 1))
    return out


def _spelling(text: str, tokens: Sequence[Token], place: int) -> str:
    """A token, in capital letters if SQL reserves it. A part of a path is a name."""
    neighbours = [tokens[i].text for i in (place - 1, place + 1) if 0 <= i < len(tokens)]
    is_name = "." in neighbours or not _WORD.fullmatch(text)
    return text if is_name or text.upper() not in RESERVED else text.upper()


def _attach(gap: str, before: Lexeme, after: Lexeme) -> None:
    """Gives the comments between two tokens to them."""
    has_line_break = False
    position = 0
    for match in _COMMENT.finditer(gap):
        has_line_break = has_line_break or "\n" in gap[position : match.start()]
        position = match.end()
        text = match.group().rstrip()
        if not has_line_break:
            before.behind.append(text)
            has_line_break = not text.startswith("/*")
        elif text.startswith("/*") and "\n" not in gap[position:].split("--")[0] and "\n" not in text:
            after.inside.append(text)
        else:
            after.above.append(text)


def comments(source: str) -> list[str]:
    """All comments of a script, in order."""
    out, position = list[str](), 0
    for token in scan(source):
        out += _COMMENT.findall(source[position : token.start])
        position = token.end + 1
    return [comment.rstrip() for comment in [*out, *_COMMENT.findall(source[position:])]]


def parts(tokens: Sequence[Lexeme]) -> list[Part]:
    """Tokens with groups in place of those between parentheses; a parenthesis without a partner is a token."""
    stack: list[tuple[Lexeme, list[Part]]] = []
    current: list[Part] = []
    for token in tokens:
        key = token.word or token.text
        if key in _OPEN:
            stack.append((token, current))
            current = []
        elif stack and key == _OPEN[stack[-1][0].word or stack[-1][0].text]:
            first, outer = stack.pop()
            outer.append(Group(first, current, token))
            current = outer
        else:
            current.append(token)
    for first, outer in reversed(stack):
        current = [*outer, first, *current]
    return current


def tokens_of(items: Sequence[Part]) -> Iterator[Lexeme]:
    """The tokens of parts, in order."""
    for item in items:
        if isinstance(item, Group):
            yield item.first
            yield from tokens_of(item.parts)
            yield item.last
        else:
            yield item
