"""Java regular expressions, LIKE and SIMILAR TO patterns, for Polars (Rust) and for Python."""

from __future__ import annotations

import re
from functools import lru_cache


class PatternError(ValueError):
    """A text is not a valid regular expression."""


_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_", "s": r" \t\n\x0B\f\r"}
_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7F",
    "Alpha": "A-Za-z",
    "Digit": "0-9",
    "Alnum": "A-Za-z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "XDigit": "0-9A-Fa-f",
    "Space": r" \t\n\x0B\f\r",
    "Blank": r" \t",
}
_POSIX_NAME = re.compile(r"\{(\w+)\}")


def _translated(pattern: str, boundary: str) -> str:
    """Java's shorthand classes are ASCII: written out. ``\\Q...\\E`` is resolved."""
    out: list[str] = []
    depth = i = 0
    while i < len(pattern):
        c = pattern[i]
        if c != "\\":
            depth += (c == "[") - (c == "]" and depth > 0)
            out.append(c)
            i += 1
            continue
        if i + 1 >= len(pattern):
            raise PatternError("the pattern ends with a backslash")
        letter = pattern[i + 1]
        i += 2
        if letter == "Q":
            end = pattern.find("\\E", i)
            end = len(pattern) if end < 0 else end
            out.append(re.escape(pattern[i:end]))
            i = end + 2
        elif letter.lower() in _CLASSES and letter.islower():
            out.append(_CLASSES[letter] if depth else f"[{_CLASSES[letter]}]")
        elif letter.lower() in _CLASSES and not depth:
            out.append(f"[^{_CLASSES[letter.lower()]}]")
        elif letter in "pP" and (match := _POSIX_NAME.match(pattern, i)) and match[1] in _POSIX:
            inner = _POSIX[match[1]]
            out.append(inner if depth and letter == "p" else f"[{'^' * (letter == 'P')}{inner}]")
            i = match.end()
        elif letter in "bB" and not depth:
            out.append(boundary.format(letter))
        elif letter == "Z":
            out.append(r"(?:\n?\z)" if boundary.startswith("(?-u") else r"\n?\Z")
        else:
            out.append("\\" + letter)
    return "".join(out)


@lru_cache(maxsize=1024)
def rust_regex(pattern: str) -> str | None:
    """The pattern for Polars, or None where Rust's syntax has no equal (look-around, back references)."""
    import polars as pl

    try:
        text = _translated(pattern, r"(?-u:\{})")
        pl.select(pl.lit("").str.contains(text))
    except (PatternError, pl.exceptions.PolarsError):
        return None
    return text


@lru_cache(maxsize=1024)
def python_regex(pattern: str) -> re.Pattern[str] | None:
    """The pattern for Python, or None if it is not a pattern."""
    try:
        return re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", _translated(pattern, r"(?a:\{})").replace(r"\z", r"\Z")))
    except (re.error, PatternError, OverflowError):
        return None


def like_regex(pattern: str, escape: str | None = None) -> str:
    """A LIKE pattern as a regular expression for the whole text. Without ESCAPE no character escapes.

    Raises:
        PatternError: the escape character is followed by something else than ``%``, ``_`` or itself.
    """
    out: list[str] = []
    i = 0
    while i < len(pattern):
        c = pattern[i]
        if escape and c == escape:
            i += 1
            if i >= len(pattern) or pattern[i] not in ("%", "_", escape):
                raise PatternError(f"the escape character {escape!r} must stand before %, _ or itself")
            out.append(re.escape(pattern[i]))
        else:
            out.append(".*" if c == "%" else "." if c == "_" else re.escape(c))
        i += 1
    return "(?s)^(?:" + "".join(out) + r")\z"


_CLASS_NAME = re.compile(r"\[:(\w+):\]")
_SIMILAR = {
    "ALPHA": "A-Za-z",
    "UPPER": "A-Z",
    "LOWER": "a-z",
    "DIGIT": "0-9",
    "ALNUM": "A-Za-z0-9",
    "SPACE": " ",
    "WHITESPACE": r" \t\n\x0B\f\r",
}
"""The classes that SIMILAR TO names, such as ``[[:ALPHA:]]``."""
_OPERATORS = set("|*+?{}()-,")


def similar_regex(pattern: str, escape: str | None = None) -> str:
    """A SIMILAR TO pattern as a regular expression for the whole text. Raises PatternError."""
    out: list[str] = []
    i, inside = 0, False
    while i < len(pattern):
        c = pattern[i]
        if escape and c == escape:
            i += 1
            if i >= len(pattern):
                raise PatternError("the pattern ends with the escape character")
            out.append(re.escape(pattern[i]))
        elif inside and (class_name := _CLASS_NAME.match(pattern, i)) is not None and class_name[1].upper() in _SIMILAR:
            out.append(_SIMILAR[class_name[1].upper()])
            i = class_name.end() - 1
        elif inside:
            inside = c != "]"
            out.append("\\\\" if c == "\\" else c)
        elif c == "[":
            inside = True
            out.append(c)
        elif c in ("%", "_"):
            out.append(".*" if c == "%" else ".")
        else:
            out.append(c if c in _OPERATORS else re.escape(c))
        i += 1
    if inside:
        raise PatternError("a [ is not closed")
    return "(?s)^(?:" + "".join(out) + r")\z"
