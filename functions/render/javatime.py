"""Java's date patterns (``DateTimeFormatter``, ``SimpleDateFormat``): formatting with Polars, parsing text."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import polars as pl

from stateplan.common.errors import RunError
from stateplan.functions.render.javaletters import is_written, written
from stateplan.functions.render.rowwise import rowwise


@dataclass(frozen=True)
class Token:
    """``count`` times the pattern letter ``letter``, or literal ``text`` where the letter is empty. ``[`` and ``]`` as
    letters are around what may be left out."""

    letter: str
    count: int
    text: str = ""


def tokens(pattern: str, sections: bool = False) -> list[Token]:
    """A pattern taken apart.

    Args:
        pattern: of Java.
        sections: whether brackets are around what may be left out, as in a ``DateTimeFormatter``; for a
            ``SimpleDateFormat`` they are text.

    Raises:
        RunError: RUN303, a quote that is not closed; RUN305, a bracket that is not opened.
    """
    out: list[Token] = []
    i = depth = 0
    while i < len(pattern):
        c = pattern[i]
        if c == "'":
            if pattern[i : i + 2] == "''":
                out.append(Token("", 0, "'"))
                i += 2
                continue
            end = i + 1
            while True:
                end = pattern.find("'", end)
                if end < 0:
                    raise RunError("RUN303.date_pattern", pattern=pattern, what="a quote that is not closed")
                if pattern[end : end + 2] != "''":
                    break
                end += 2
            out.append(Token("", 0, pattern[i + 1 : end].replace("''", "'")))
            i = end + 1
        elif sections and c in "[]":
            depth += 1 if c == "[" else -1
            if depth < 0:
                raise _unknown(pattern, c)
            out.append(Token(c, 0))
            i += 1
        elif sections and c in "{}#":
            raise _unknown(pattern, c)
        elif c.isascii() and c.isalpha():
            count = len(pattern[i:]) - len(pattern[i:].lstrip(c))
            if sections and c == "S" and count > _MOST_FRACTION:
                raise RunError(
                    "RUN305",
                    pattern=pattern,
                    what=f"{count} letters S next to each other",
                    expected="up to 9 letters S",
                )
            out.append(Token(c, count))
            i += count
        else:
            out.append(Token("", 0, c))
            i += 1
    return [*out, *[Token("]", 0)] * depth]


_CHRONO: dict[str, tuple[str, ...]] = {
    "M": ("%-m", "%m", "%b", "%B"),
    "L": ("%-m", "%m", "%b", "%B"),
    "d": ("%-d", "%d"),
    "H": ("%-H", "%H"),
    "h": ("%-I", "%I"),
    "m": ("%-M", "%M"),
    "s": ("%-S", "%S"),
    "D": ("%-j", "%j", "%j"),
    "a": ("%p",),
    "E": ("%a", "%a", "%a", "%A"),
}
"""Pattern letter to chrono's format by count."""


_MOST_FRACTION = 9
_JAVA_LETTERS = frozenset("GuyDMLdQqYwWEecFaBhKkHmsSAnNVvzOXxZp")
NOT_A_PATTERN = "RUN305"
"""Code of the error for a letter that no Java pattern has."""


def _unknown(pattern: str, letter: str) -> RunError:
    known = "".join(sorted(set(_CHRONO) | set("yuSQGYwWecFKkAnNqL")))
    if letter not in _JAVA_LETTERS:
        return RunError(NOT_A_PATTERN, pattern=pattern, what=f"the letter {letter!r}", known=known)
    return RunError(
        "RUN303.date_pattern", pattern=pattern, known=known, what=f"the letter {letter!r}, which is not supported"
    )


@lru_cache(maxsize=256)
def _parts(pattern: str, sections: bool) -> tuple[Token | str, ...]:
    """Runs that chrono can write as one format, and single tokens that it cannot."""
    out: list[Token | str] = []
    for token in tokens(pattern, sections):
        if token.letter in ("[", "]"):
            continue
        if not token.letter:
            piece: str | None = token.text.replace("%", "%%")
        elif token.count <= len(_CHRONO.get(token.letter, ())):
            piece = _CHRONO[token.letter][token.count - 1]
        elif token.letter in "yu" and token.count == 2:
            piece = "%y"
        elif (
            token.letter in "yuS" or (token.letter == "Q" and token.count <= 3) or is_written(token.letter, token.count)
        ):
            piece = None
        else:
            raise _unknown(pattern, token.letter)
        if piece is None:
            out.append(token)
        elif out and isinstance(out[-1], str):
            out[-1] += piece
        else:
            out.append(piece)
    return tuple(out)


_LISTED = "DATE_FORMAT, TO_DATE, TO_TIMESTAMP, UNIX_TIMESTAMP"


def _nanos_of_second(e: pl.Expr, below: pl.Expr | None) -> pl.Expr:
    nanos = e.dt.nanosecond().cast(pl.Int64)
    return nanos if below is None else nanos + below


def _nanos_of_day(e: pl.Expr, below: pl.Expr | None) -> pl.Expr:
    seconds = (e.dt.hour().cast(pl.Int64) * 60 + e.dt.minute().cast(pl.Int64)) * 60 + e.dt.second().cast(pl.Int64)
    return seconds * 10**9 + _nanos_of_second(e, below)


def _single(e: pl.Expr, below: pl.Expr | None, token: Token) -> pl.Expr:
    if is_written(token.letter, token.count):
        day = e.dt.date().to_physical()
        return rowwise(partial(written, token.letter, token.count), [day, _nanos_of_day(e, below)], pl.String, _LISTED)
    if token.letter == "S":
        nanos = _nanos_of_second(e, below).cast(pl.String).str.zfill(9)
        return nanos.str.head(token.count) if token.count <= 9 else nanos.str.pad_end(token.count, "0")
    if token.letter == "Q":
        quarter = e.dt.quarter().cast(pl.String)
        return quarter.str.zfill(token.count) if token.count <= 2 else pl.format("Q{}", quarter)
    year = e.dt.year()
    if token.letter == "y":  # of its era
        year = pl.when(year <= 0).then(1 - year).otherwise(year)
    return year.cast(pl.String).str.zfill(token.count)


def format_moment(e: pl.Expr, pattern: str, below: pl.Expr | None = None, *, sections: bool = False) -> pl.Expr:
    """A Datetime without zone, written by a constant Java pattern.

    Args:
        e: the Datetime.
        pattern: a Java pattern.
        below: nanoseconds to add, below those of ``e``.
        sections: see :func:`tokens`.

    Raises:
        RunError: RUN303, for a letter that is not supported.
    """
    parts = [e.dt.to_string(p) if isinstance(p, str) else _single(e, below, p) for p in _parts(pattern, sections)]
    if not parts:
        return pl.when(e.is_not_null()).then(pl.lit(""))
    return parts[0] if len(parts) == 1 else pl.concat_str(parts)


_MONTHS = {name.lower(): i for i, name in enumerate(calendar.month_name) if name}
_SHORT = {name.lower(): i for i, name in enumerate(calendar.month_abbr) if name}
_NUMERIC = set("yuMdHhmsSD")


_START = {"y": 1970, "M": 1, "d": 1, "H": 0, "m": 0, "s": 0, "S": 0}
_SAME_FIELD = {"u": "y", "L": "M", "h": "H"}

Field = tuple[str, Callable[[str], int]]
"""A letter, and how the text of its field is read; raises KeyError or ValueError."""


def _reads(token: Token, lenient: bool) -> Callable[[str], int]:
    if token.letter == "a":
        return lambda text: {"am": 0, "pm": 12}[text.lower()]
    if token.letter == "E":
        return len
    if token.letter in "ML" and token.count >= 3:
        return lambda text: (_SHORT | _MONTHS)[text.lower()]
    if token.letter == "S":
        return lambda text: int(text) * 10**6 if lenient else int(text.ljust(9, "0")[:9])
    if token.letter in "yu" and token.count == 2:
        return lambda text: int(text) + (2000 if len(text) == 2 else 0)
    return int


def _within(count: int) -> str:
    """What matches a number with blanks and a sign before it in at most so many characters."""
    numbers = []
    for blanks in range(count):
        left = count - blanks
        signed = rf"-\d{{1,{left - 1}}}|" if left > 1 else ""
        numbers.append(rf"[ \t]{{{blanks}}}(?:{signed}\d{{1,{left}}})")
    return "|".join(numbers)


@lru_cache(maxsize=256)
def _reader(pattern: str, lenient: bool) -> tuple[re.Pattern[str], tuple[Field, ...], bool]:
    """A regular expression with one group per pattern letter run, what each group gives, and whether there is a half
    of a day."""
    found = tokens(pattern, sections=not lenient)
    regex, fields = "", []
    for i, token in enumerate(found):
        if token.letter in ("[", "]"):
            regex += "(?:" if token.letter == "[" else ")?"
            continue
        if not token.letter:
            regex += re.escape(token.text)
            continue
        adjacent = i + 1 < len(found) and found[i + 1].letter in _NUMERIC
        fields.append((_SAME_FIELD.get(token.letter, token.letter), _reads(token, lenient)))
        if (token.letter in "ML" and token.count >= 3) or token.letter in ("a", "E"):
            regex += r"([A-Za-z]+)"
        elif token.letter not in _NUMERIC:
            raise _unknown(pattern, token.letter)
        elif lenient and not adjacent:
            regex += r"[ \t]*(-?\d+)"
        elif lenient:  # so many characters, of which the first ones are a number
            regex += rf"(?=[\s\S]{{{token.count}}})((?>{_within(token.count)}))"
        elif adjacent or (not lenient and token.count > 1) or (token.letter == "S" and not lenient):
            regex += rf"(\d{{{token.count}}})"
        else:
            regex += r"(\d{1,19})"
    halved = any(token.letter in ("a", "h") for token in found)
    return re.compile(regex + ("" if lenient else r"\Z"), re.ASCII), tuple(fields), halved


_FIXED = {
    ("y", 4): ("%Y", 4),
    ("u", 4): ("%Y", 4),
    ("M", 2): ("%m", 2),
    ("d", 2): ("%d", 2),
    ("H", 2): ("%H", 2),
    ("m", 2): ("%M", 2),
    ("s", 2): ("%S", 1),  # 60, which Rust takes, is none
    ("S", 3): ("%3f", 3),
}


@lru_cache(maxsize=256)
def quick_form(pattern: str) -> tuple[str, str] | None:
    """A regular expression and a chrono format for patterns of fixed-width numbers that hold year, month and day;
    None for others."""
    regex = form = ""
    seen = set()
    if "[" in pattern or "]" in pattern:
        return None
    for token in tokens(pattern):
        if not token.letter:
            regex += re.escape(token.text)
            form += token.text.replace("%", "%%")
            continue
        known = _FIXED.get((token.letter, token.count))
        if known is None or token.letter in seen:
            return None
        seen.add(token.letter)
        form += known[0]
        regex += ("[0-5]" if token.letter == "s" else "") + f"[0-9]{{{known[1]}}}"
    return (f"^{regex}$", form) if {"M", "d"} <= seen and seen & {"y", "u"} else None


def _fields(text: str, pattern: str, lenient: bool) -> dict[str, int] | None:
    """Pattern letters and what they stand for; None where the text does not fit."""
    regex, order, halved = _reader(pattern, lenient)
    match = regex.match(text)
    if match is None or (lenient and not match.end()):
        return None
    fields = _START.copy()
    try:
        for (letter, read), value in zip(order, match.groups(), strict=True):
            if value is not None:
                fields[letter] = read(value)
    except (KeyError, ValueError):
        return None
    if halved:
        fields["H"] = fields["H"] % 12 + fields.get("a", 0)
    return fields


_EPOCH_DAY = dt.date(1970, 1, 1)


def parse_strict(text: str, pattern: str) -> int | None:
    """Nanoseconds since the epoch of a wall clock text, as ``DateTimeFormatter`` reads it: the whole text, each field
    in its width and range; fields that the pattern lacks are those of 1970-01-01 00:00:00. None where it does not
    fit."""
    fields = _fields(text, pattern, False)
    if fields is None:
        return None
    year, month, last = fields["y"], fields["M"], fields["d"]
    whole_days = 0
    if fields["H"] == 24 and not (fields["m"] or fields["s"] or fields["S"]):
        given = {letter for letter, _ in _reader(pattern, False)[1]}
        fields["H"], whole_days = 0, int({"y", "M", "d"} <= given)
    try:
        day = dt.date(year, month, min(last, calendar.monthrange(year, month)[1]) if 1 <= last <= 31 else 0)
        if "D" in fields:
            day = dt.date(year, 1, 1) + dt.timedelta(days=fields["D"] - 1)
        dt.time(fields["H"], fields["m"], fields["s"])
    except ValueError:
        return None
    return _seconds((day - _EPOCH_DAY).days + whole_days, fields) * 10**9 + fields["S"]


_JDBC = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?: (-?\d+):(-?\d+):(-?\d+)(?:\.(\d{1,9}))?)?", re.ASCII)


def read_jdbc(text: str) -> int | None:
    """Nanoseconds since the epoch of ``2024-1-31`` or ``2024-1-31 1:2:3.5``, as ``java.sql.Date`` and
    ``java.sql.Timestamp`` read it: the day after 30 February is 2 March. None for another form."""
    match = _JDBC.fullmatch(text.strip(_JAVA_BLANKS))
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(g or 0) for g in match.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= 31 and max(abs(hour), abs(minute), abs(second)) < 2**31):
        return None
    days = days_since_epoch(year, month, 1) + day - 1
    return (days * 86_400 + hour * 3600 + minute * 60 + second) * 10**9 + int((match[7] or "").ljust(9, "0"))


_JAVA_BLANKS = "".join(map(chr, range(33)))
"""What ``String.trim`` takes away."""


def days_since_epoch(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 in the Gregorian calendar, for any year."""
    shifted = year - (month <= 2)
    in_cycle = shifted % 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return shifted // 400 * 146_097 + in_cycle * 365 + in_cycle // 4 - in_cycle // 100 + of_year - 719_468


def _seconds(day: int, fields: dict[str, int]) -> int:
    return day * 86_400 + fields["H"] * 3600 + fields["m"] * 60 + fields["s"]


_MOST_DAYS = 90_000_000
"""About the days that Polars writes."""


def parse_lenient(text: str, pattern: str) -> int | None:
    """Milliseconds since the epoch of a wall clock text, as ``SimpleDateFormat`` reads it: a prefix of the text, fields
    of any width, and values out of range carried over."""
    fields = _fields(text, pattern, True)
    if fields is None:
        return None
    month = fields["y"] * 12 + fields["M"] - 1
    day = days_since_epoch(month // 12, month % 12 + 1, 1) + fields["d"] - 1
    if "D" in fields:
        day = days_since_epoch(fields["y"], 1, 1) + fields["D"] - 1
    if abs(day) > _MOST_DAYS:
        return None
    return _seconds(day, fields) * 1000 + fields["S"] // 10**6
