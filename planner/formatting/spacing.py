"""Which tokens have a blank in front of them where they follow others on a line."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.planner.formatting.lexemes import Lexeme

_SPACED = frozenset({"=", "<>", "!=", "<=", ">=", "||", "=>", "->", "*/"})
_BINARY = frozenset({"+", "-", "*", "/", "%", "<", ">"})
_NO_BLANK_BEFORE = frozenset({",", ";", ")", "]", "."})
_NO_BLANK_BEHIND = frozenset({"(", "[", "."})
_BLANK_BEHIND = frozenset(
    {"AND", "AS", "BY", "FROM", "IN", "NOT", "ON", "OR", "OVER", "USING", "VALUES", "WHERE", "WITH"}
)
_TYPES = frozenset({"ARRAY", "MAP", "MULTISET", "RAW", "ROW"})


def set_blanks(tokens: Sequence[Lexeme]) -> None:
    """Says of each token of a statement whether a blank is in front of it. Where it does not matter, it stays as it is
    written: in calls and in front of signs."""
    as_written = [token.follows_blank for token in tokens]
    types = 0
    for place, token in enumerate(tokens[1:], 1):
        before = tokens[place - 1]
        opens_type = token.text == "<" and before.word in _TYPES
        closes_type = types > 0 and token.text == ">"
        if opens_type or closes_type or (types and before.text == "<"):
            token.follows_blank = False
        else:
            token.follows_blank = _has_blank(tokens, place, as_written)
        types += opens_type - closes_type
    for place, token in enumerate(tokens):
        if token.inside or (place and tokens[place - 1].behind):
            token.follows_blank = True


def _has_blank(tokens: Sequence[Lexeme], place: int, as_written: Sequence[bool]) -> bool:
    before, token = tokens[place - 1], tokens[place]
    if before.text in _NO_BLANK_BEHIND or token.text in _NO_BLANK_BEFORE:
        return False
    if before.text in ("/*+", ",") or before.text in _SPACED or token.text in _SPACED:
        return True
    if before.word in _BLANK_BEHIND and before.is_keyword and token.text == "(":
        return True
    for sign in (place, place - 1):
        if 0 < sign < len(tokens) - 1 and tokens[sign].text in _BINARY:
            has_operands = _ends_operand(tokens[sign - 1]) and _begins_operand(tokens[sign + 1])
            if has_operands and as_written[sign] == as_written[sign + 1]:
                return True
    return as_written[place]


def _ends_operand(token: Lexeme) -> bool:
    return token.text in (")", "]") or (_begins_operand(token) and not token.is_keyword and token.text != "(")


def _begins_operand(token: Lexeme) -> bool:
    return token.text == "(" or token.is_word or token.text[:1].isdigit() or token.text[:1] in ("'", "`")
