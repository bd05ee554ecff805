"""The JSON that filters of JSON paths may write: quotes may be single ones, or be omitted."""

from __future__ import annotations

import re
from typing import Any

from stateplan.functions.render.jsonpath.cursor import InvalidPathError, unescaped

_TOKEN = re.compile(
    r"""\s*(?:([\[\]{}:,])|'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\[\]{}:,'"\s](?:[^\[\]{}:,]*[^\[\]{}:,\s])?))\s*""",
    re.S,
)
_WORDS = {"true": True, "false": False, "null": None}
_INTEGER = re.compile(r"-?\d+")
_FLOAT = re.compile(r"-?\d*(\.\d*)?([eE][-+]?\d+)?")


def lenient_json(text: str) -> Any:
    """The value; fractions are floats.

    Raises:
        InvalidPathError: a bracket is missing.
    """
    value, rest = _value(_tokens(text))
    if rest:
        raise InvalidPathError(f"{text} is no JSON")
    return value


def _tokens(text: str) -> list[tuple[str, Any]]:
    out: list[tuple[str, Any]] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise InvalidPathError(f"{text} is no JSON")
        sign, single, double, word = match.groups()
        quoted_text = single if single is not None else double
        out.append((sign, None) if sign else ("", unescaped(quoted_text) if quoted_text is not None else _word(word)))
        place = match.end()
    return out


def _word(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) and any(c.isdigit() for c in text) else text


def _value(tokens: list[tuple[str, Any]]) -> tuple[Any, list[tuple[str, Any]]]:
    if not tokens:
        raise InvalidPathError("JSON ends too early")
    (sign, value), *rest = tokens
    if sign == "":
        return value, rest
    if sign not in "[{":
        raise InvalidPathError(f"{sign} begins no value")
    closing = "]" if sign == "[" else "}"
    pairs: list[tuple[Any, Any]] = []
    while rest and rest[0][0] != closing:
        if rest[0][0] == ",":
            rest = rest[1:]
            continue
        key = None
        if sign == "{":
            if len(rest) < 2 or rest[0][0] or rest[1][0] != ":":
                raise InvalidPathError("a key is missing")
            key, rest = str(rest[0][1]), rest[2:]
        inner, rest = _value(rest)
        pairs.append((key, inner))
    if not rest:
        raise InvalidPathError(f"{closing} is missing")
    return (dict(pairs) if sign == "{" else [v for _, v in pairs]), rest[1:]
