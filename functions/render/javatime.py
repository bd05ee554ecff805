"""Java's date patterns (``DateTimeFormatter``, ``SimpleDateFormat``): formatting with Polars, parsing text."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from functools import lru_cache, partial

import polars as pl

from stateplan.common.errors import RunError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.values.fields import days_since_epoch
from stateplan.common.zone import is_abbreviation, zone_id
from stateplan.common.zonenames import name_at, offset_at
from stateplan.functions.render.javaletters import (
    NUMBERS_OF_DATE,
    PERIODS,
    day_of,
    first_week,
    is_written,
    letter_text,
    month_names,
    named_days,
    period,
)
from stateplan.functions.render.rowwise import rowwise


@dataclass(frozen=True)
class Token:
    """``count`` times the pattern letter ``letter``, or literal ``text`` where the letter is empty. ``[`` and ``]`` as
    letters are around what may be omitted."""

    letter: str
    count: int
    text: str = ""


@dataclass(frozen=True)
class PaddedPart:
    """A token, or a format of chrono, with blanks before it up to a width."""

    width: int
    part: Token | str


def tokens(pattern: str, sections: bool = False) -> list[Token]:
    """A parsed pattern.

    Args:
        pattern: of Java.
        sections: whether brackets are around what may be omitted, as in a ``DateTimeFormatter``; for a
            ``SimpleDateFormat`` they are text.

    Raises:
        RunError: RUN305, a quote that is not closed, a bracket that is not opened, or a padding of nothing.
    """
    out: list[Token] = []
    i = depth = 0
    while i < len(pattern):
        c = pattern[i]
        if c == "'":
            text, i = _quotation(pattern, i)
            out.append(Token("", 0, text))
        elif sections and c in "[]":
            depth += 1 if c == "[" else -1
            if depth < 0:
                raise _unknown_letter(pattern, c)
            out.append(Token(c, 0))
            i += 1
        elif sections and c in "{}#":
            raise _unknown_letter(pattern, c)
        elif c.isascii() and c.isalpha():
            count = len(pattern[i:]) - len(pattern[i:].lstrip(c))
            i += count
            if sections:
                _check_letters(pattern, c, count, pattern[i : i + 1])
            out.append(Token(c, count))
        else:
            out.append(Token("", 0, c))
            i += 1
    return [*out, *[Token("]", 0)] * depth]


def _quotation(pattern: str, start: int) -> tuple[str, int]:
    """The text in quotes that begins at ``start``, and the position after it. Raises RunError RUN305."""
    if pattern[start : start + 2] == "''":
        return "'", start + 2
    end = pattern.find("'", start + 1)
    while pattern[end : end + 2] == "''":
        end = pattern.find("'", end + 2)
    if end < 0:
        problem, expected = "a quote that is not closed", "two quotes for one in the text"
        raise RunError("RUN305", pattern=pattern, what=problem, expected=expected)
    return pattern[start + 1 : end].replace("''", "'"), end + 1


def _check_letters(pattern: str, letter: str, count: int, following: str) -> None:
    """Raises RunError RUN305 for too many digits of a second, and for a padding of nothing."""
    if letter == "S" and count > _MOST_FRACTION:
        problem = f"{count} letters S next to each other"
        raise RunError("RUN305", pattern=pattern, what=problem, expected="up to 9 letters S")
    if letter == "p" and not following.isalpha():
        raise _unknown_letter(pattern, letter, bad=True)


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
_JAVA_LETTERS = frozenset("GuyDMLdQqYwWEecFaBhKkHmsSAnNVvzOXxZpg")
NOT_A_PATTERN = "RUN305"
"""Code of the error for a letter that no Java pattern has."""


def _unknown_letter(pattern: str, letter: str, *, bad: bool = False) -> RunError:
    known_letters = "".join(sorted(set(_CHRONO) | set("yuSQGYwWecFKkAnNqLgBp")))
    if bad or letter not in _JAVA_LETTERS:
        return RunError(NOT_A_PATTERN, pattern=pattern, what=f"the letter {letter!r}", known=known_letters)
    return RunError(
        "RUN303.date_pattern",
        pattern=pattern,
        known=known_letters,
        what=f"the letter {letter!r}, which is not supported",
    )


_NUMBERS = frozenset("wWDdFukHKhms")
"""Letters of numbers that a ``SimpleDateFormat`` pads with zeros to any width."""
_SIMPLE = frozenset("GyYMLwWDdFEuaHkKhmsSzZX")
"""Letters of a ``SimpleDateFormat``."""


def check_simple(pattern: str, token: Token) -> None:
    """Raises RunError RUN305 for a token that no ``SimpleDateFormat`` has."""
    if token.letter and (token.letter not in _SIMPLE or (token.letter == "X" and token.count > 3)):
        raise _unknown_letter(pattern, token.letter, bad=True)


def _simple(pattern: str, token: Token) -> Token:
    """A letter of a ``SimpleDateFormat``, as often as a ``DateTimeFormatter`` has it for the same. Raises RunError
    RUN305."""
    letter, count = token.letter, token.count
    check_simple(pattern, token)
    if letter == "E":
        return Token(letter, 4 if count >= 4 else 3)
    return Token(letter, min(count, {"M": 4, "L": 4, "a": 1, "G": 1}.get(letter, count)))


@lru_cache(maxsize=256)
def _parts(pattern: str, sections: bool) -> tuple[Token | str | PaddedPart, ...]:
    """Runs that chrono can write as one format, and single tokens that it cannot."""
    out: list[Token | str | PaddedPart] = []
    width = 0
    for token in tokens(pattern, sections):
        if token.letter in ("[", "]"):
            continue
        if token.letter == "p" and sections:
            width = token.count
            continue
        if token.letter and not sections:
            token = _simple(pattern, token)
        if not token.letter:
            piece: str | None = token.text.replace("%", "%%")
        elif not sections and (token.letter in "zZX" or (token.letter in _NUMBERS and token.count > 1)):
            piece = None
        elif token.count <= len(_CHRONO.get(token.letter, ())):
            piece = _CHRONO[token.letter][token.count - 1]
        elif (
            token.letter in "yuS" or (token.letter == "Q" and token.count <= 3) or is_written(token.letter, token.count)
        ):
            piece = None
        else:
            raise _unknown_letter(pattern, token.letter)
        if width:
            out.append(PaddedPart(width, piece if piece is not None else token))
            width = 0
        elif piece is None:
            out.append(token)
        elif out and isinstance(out[-1], str):
            out[-1] += piece
        else:
            out.append(piece)
    return tuple(out)


_ROWWISE_GROUP = "DATE_FORMAT, TO_DATE, TO_TIMESTAMP, UNIX_TIMESTAMP"


def _nanos_of_second(e: pl.Expr, below: pl.Expr | None) -> pl.Expr:
    nanos = e.dt.nanosecond().cast(pl.Int64)
    return nanos if below is None else nanos + below


def _nanos_of_day(e: pl.Expr, below: pl.Expr | None) -> pl.Expr:
    seconds = (e.dt.hour().cast(pl.Int64) * 60 + e.dt.minute().cast(pl.Int64)) * 60 + e.dt.second().cast(pl.Int64)
    return seconds * 10**9 + _nanos_of_second(e, below)


@dataclass(frozen=True)
class ZonedMoment:
    """An instant, in milliseconds since the epoch, and the zone in which a ``SimpleDateFormat`` writes it."""

    instant: pl.Expr
    zone: str

    def text(self, letter: str, count: int) -> pl.Expr:
        """The name (``z``) or the offset (``Z``, ``X``) of the zone at the instant."""
        seconds = self.instant // 1000
        if letter == "z":
            name = partial(name_at, self.zone, is_long=count >= 4)
            return rowwise(name, [seconds], pl.String, _ROWWISE_GROUP)
        return rowwise(partial(_offset_text, self.zone, letter, count), [seconds], pl.String, _ROWWISE_GROUP)


def _offset_text(zone: str, letter: str, count: int, seconds: int) -> str:
    offset = sum(offset_at(zone, seconds))
    if letter == "X" and not offset:
        return "Z"
    hours, minutes = divmod(abs(offset) // 60, 60)
    sign = "-" if offset <= -60 or (letter == "X" and offset < 0) else "+"
    if letter == "X" and count == 1:
        return f"{sign}{hours:02d}"
    return f"{sign}{hours:02d}{':' if letter == 'X' and count == 3 else ''}{minutes:02d}"


@dataclass(frozen=True)
class _Moment:
    """What is written: a Datetime without zone, nanoseconds below its own, and cycles of 400 years that it is moved
    by."""

    e: pl.Expr
    below: pl.Expr | None
    cycles: pl.Expr | None
    sections: bool
    zone: ZonedMoment | None

    def year(self) -> pl.Expr:
        year = self.e.dt.year()
        return year if self.cycles is None else year.cast(pl.Int64) + self.cycles * 400

    def day(self) -> pl.Expr:
        day = self.e.dt.date().to_physical()
        return day if self.cycles is None else day.cast(pl.Int64) + self.cycles * 146_097

    def text(self, part: Token | str | PaddedPart) -> pl.Expr:
        if isinstance(part, PaddedPart):
            return self.text(part.part).str.pad_start(part.width)
        return self.e.dt.to_string(part) if isinstance(part, str) else self._single(part)

    def _single(self, token: Token) -> pl.Expr:
        letter, count = token.letter, token.count
        if not self.sections and letter in "zZX":
            assert self.zone is not None
            return self.zone.text(letter, count)
        if letter in _NUMBERS and count > 1 and not self.sections:
            single = _CHRONO.get(letter, ("",))[0] or Token(letter, 1)
            return self.text(single).str.zfill(count)
        if letter == "F" and not self.sections:
            return ((self.e.dt.day() - 1) // 7 + 1).cast(pl.String)
        if letter == "u" and not self.sections:
            return self.e.dt.weekday().cast(pl.String)
        if is_written(letter, count):
            operands = [self.day(), _nanos_of_day(self.e, self.below)]
            text = rowwise(partial(letter_text, letter, count), operands, pl.String, _ROWWISE_GROUP)
            return text if self.sections else text.str.strip_prefix("+")
        if letter == "S" and not self.sections:
            return self.e.dt.millisecond().cast(pl.String).str.zfill(count)
        if letter == "S":
            nanos = _nanos_of_second(self.e, self.below).cast(pl.String).str.zfill(9)
            return nanos.str.head(count) if count <= 9 else nanos.str.pad_end(count, "0")
        if letter == "Q":
            quarter = self.e.dt.quarter().cast(pl.String)
            return quarter.str.zfill(count) if count <= 2 else pl.format("Q{}", quarter)
        return self._year(letter, count)

    def _year(self, letter: str, count: int) -> pl.Expr:
        year = self.year()
        if letter == "y":  # of its era
            year = pl.when(year <= 0).then(1 - year).otherwise(year)
        if count == 2:
            return (year.abs() % 100).cast(pl.String).str.zfill(2)
        plus = year >= 10**count if self.sections and count >= 4 else pl.lit(False)
        sign = pl.when(year < 0).then(pl.lit("-")).when(plus).then(pl.lit("+")).otherwise(pl.lit(""))
        return pl.concat_str(sign, year.abs().cast(pl.String).str.zfill(count))


def format_moment(
    e: pl.Expr,
    pattern: str,
    below: pl.Expr | None = None,
    cycles: pl.Expr | None = None,
    *,
    sections: bool = False,
    zone: ZonedMoment | None = None,
) -> pl.Expr:
    """A Datetime without zone, written by a constant Java pattern.

    Args:
        e: the Datetime.
        pattern: a Java pattern.
        below: nanoseconds to add, below those of ``e``.
        cycles: how many times 400 years to add, for years that Polars does not have.
        sections: whether the pattern is of a ``DateTimeFormatter``, as in :func:`tokens`, and not of a
            ``SimpleDateFormat``.
        zone: what a ``SimpleDateFormat`` writes for a zone.

    Raises:
        RunError: RUN303, for a letter that is not supported; RUN305, for what is not a pattern.
    """
    moment = _Moment(e, below, cycles, sections, zone)
    parts = [moment.text(part) for part in _parts(pattern, sections)]
    if not parts:
        return pl.when(e.is_not_null()).then(pl.lit(""))
    return parts[0] if len(parts) == 1 else pl.concat_str(parts)


_NUMERIC = set("yuMdHhmsSDYQqwWecFKkAnNg")


_MOST = {**dict.fromkeys("GMLQqEecBXxZ", 5), **dict.fromkeys("dHhKkmsw", 2), "D": 3, "W": 1, "F": 1, "a": 1, "z": 4}
"""Most times that a letter of a ``DateTimeFormatter`` may be repeated."""
_START = {"y": 1970, "M": 1, "d": 1, "H": 0, "m": 0, "s": 0, "S": 0}
_SAME_FIELD = {"u": "y", "L": "M", "q": "Q", "c": "e"}
_OFFSETS = {
    "X": ("Z|[+-]{h}(?:{m})?", "Z|[+-]{h}{m}", "Z|[+-]{h}:{m}", "Z|[+-]{h}{m}(?:{m})?", "Z|[+-]{h}:{m}(?::{m})?"),
    "x": ("[+-]{h}(?:{m})?", "[+-]{h}{m}", "[+-]{h}:{m}", "[+-]{h}{m}(?:{m})?", "[+-]{h}:{m}(?::{m})?"),
    "Z": (*["[+-]{h}{m}"] * 3, "GMT(?:[+-]{h}:{m}(?::{m})?)?", "Z|[+-]{h}:{m}(?::{m})?"),
    "O": ("GMT(?:[+-]{h1}(?::{m}(?::{m})?)?)?", "", "", "GMT(?:[+-]{h}:{m}(?::{m})?)?"),
}
"""Letter of an offset to what matches it, by count. What it says is dropped, as a TIMESTAMP has no zone."""


_WORDS = {
    "G": "(Anno Domini|Before Christ|AD|BC)",
    "B": "(midnight|noon|at night|in the (?:morning|afternoon|evening))",
    "V": "([+-][0-9:]+|[A-Za-z][A-Za-z0-9~/._+-]+)",
    "z": "([A-Za-z][A-Za-z0-9~/._+-]+)",
}
"""Letter of a text, to what matches it."""


def _known_zone(text: str) -> int:
    """0 for a zone that Java knows; a TIMESTAMP has none. Raises KeyError for others."""
    if zone_id(text) is None and not is_abbreviation(text):
        raise KeyError(text)
    return 0


def _offset(letter: str, count: int) -> str | None:
    forms = _OFFSETS.get(letter, ())
    form = forms[count - 1] if count <= len(forms) else ""
    if not form:
        return None
    for name, digits in (("{h1}", r"(?:1[0-8]|\d)"), ("{h}", r"(?:0\d|1[0-8])"), ("{m}", r"[0-5]\d")):
        form = form.replace(name, digits)
    return f"(?:{form})"


Field = tuple[str, Callable[[str], int]]
"""A letter, and how the text of its field is read; raises KeyError or ValueError."""


def _reads(token: Token) -> Callable[[str], int]:
    if token.letter == "a":
        return lambda text: {"am": 0, "pm": 12}[text.lower()]
    if token.letter == "E" or (token.letter in "ec" and token.count >= 3):
        days = named_days()
        return lambda text: days[text.lower()]
    if token.letter == "G":
        return lambda text: {"AD": 1, "BC": 0, "Anno Domini": 1, "Before Christ": 0}[text]
    if token.letter == "B":
        return lambda text: PERIODS[text]
    if token.letter in "Vz":
        return _known_zone
    if token.letter in "ML" and token.count >= 3:
        months = month_names()
        return lambda text: months[text.lower()]
    if token.letter == "S":
        return lambda text: int(text.ljust(9, "0")[:9])
    if token.letter in "yu" and token.count == 2:
        return lambda text: int(text) + (2000 if len(text) == 2 else 0)
    return int


@lru_cache(maxsize=256)
def _reader(pattern: str) -> tuple[re.Pattern[str], tuple[Field, ...]]:
    """A regular expression with one group per pattern letter run, and what each group means."""
    parts = tokens(pattern, sections=True)
    regex, fields = "", []
    for i, token in enumerate(parts):
        if token.letter in ("[", "]"):
            regex += "(?:" if token.letter == "[" else ")?"
            continue
        if not token.letter:
            regex += re.escape(token.text)
            continue
        if token.letter == "p":
            regex += rf"(?=[\s\S]{{{token.count}}}) *"
            continue
        if token.count > _MOST.get(token.letter, 19) or (token.letter == "V" and token.count != 2):
            raise _unknown_letter(pattern, token.letter, bad=True)
        offset = _offset(token.letter, token.count)
        if offset is not None:
            regex += offset
            continue
        adjacent = i + 1 < len(parts) and parts[i + 1].letter in _NUMERIC
        fields.append((_SAME_FIELD.get(token.letter, token.letter), _reads(token)))
        if token.letter in _WORDS:
            regex += _WORDS[token.letter]
        elif (token.letter in "MLec" and token.count >= 3) or token.letter in ("a", "E"):
            regex += r"([A-Za-z]+)"
        elif token.letter not in _NUMERIC:
            raise _unknown_letter(pattern, token.letter, bad=True)
        elif adjacent or token.count > 1 or token.letter == "S":
            regex += rf"(\d{{{token.count}}})"
        else:
            regex += r"(\d{1,19})"
    return re.compile(regex + r"\Z", re.ASCII), tuple(fields)


_FIXED_WIDTH = {
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
def quick_form(pattern: str, *, sections: bool) -> tuple[str, str] | None:
    """A regular expression and a chrono format for patterns of fixed-width numbers that hold year, month and day;
    None for others. ``sections`` is that of :func:`tokens`."""
    regex = form = ""
    letters = set()
    if "[" in pattern or "]" in pattern or pattern.count("'") % 2:
        return None
    for token in tokens(pattern):
        if not token.letter:
            regex += re.escape(token.text)
            form += token.text.replace("%", "%%")
            continue
        number_format = _FIXED_WIDTH.get((token.letter, token.count))
        if number_format is None or token.letter in letters or (token.letter == "u" and not sections):
            return None
        letters.add(token.letter)
        form += number_format[0]
        regex += ("[0-5]" if token.letter == "s" else "") + f"[0-9]{{{number_format[1]}}}"
    hours = letters & {"H", "m"}
    is_complete = {"M", "d"} <= letters and letters & {"y", "u"} and len(hours) != 1 and ("s" not in letters or hours)
    return (f"^{regex}$", form) if is_complete else None


def _fields(text: str, pattern: str) -> dict[str, int] | None:
    """Pattern letters and what they stand for; None where the text does not fit."""
    regex, order = _reader(pattern)
    match = regex.match(text)
    if match is None:
        return None
    fields = _START.copy()
    try:
        for (letter, read), value in zip(order, match.groups(), strict=True):
            if value is not None:
                fields[letter] = read(value)
    except (KeyError, ValueError):
        return None
    return fields


def _clock(fields: dict[str, int]) -> bool:
    """Puts hour, minute, second and fraction in place of other letters that name them; whether these are in range."""
    for letter, first, last in (("h", 1, 12), ("K", 0, 11), ("k", 1, 24)):
        if letter in fields and not first <= fields[letter] <= last:
            return False
    if "k" in fields:
        fields["H"] = fields["k"] % 24
    if "B" in fields and ("h" in fields or "K" in fields):
        minute = fields.get("h", fields.get("K", 0)) % 12 * 60 + fields["m"]
        fields["a"] = 12 * (period(minute) != fields["B"])
        if period(minute + fields["a"] * 60) != fields["B"]:
            return False
    if "a" in fields and ("h" in fields or "K" in fields):
        fields["H"] = fields.get("h", fields.get("K", 0)) % 12 + fields["a"]
    nanos = fields.get("N", fields["A"] * 10**6 if "A" in fields else None)
    if nanos is not None:
        if nanos >= 86_400 * 10**9:
            return False
        fields["H"], rest = divmod(nanos, 3600 * 10**9)
        fields["m"], rest = divmod(rest, 60 * 10**9)
        fields["s"], fields["S"] = divmod(rest, 10**9)
    fields["S"] = fields.get("n", fields["S"])
    return fields["H"] <= 23 and fields["m"] <= 59 and fields["s"] <= 59 and fields["S"] < 10**9


def _date(fields: dict[str, int], letters: frozenset[str]) -> int | None:
    """Days since the epoch of the date that the fields name, of which those in ``letters`` are in the text; None if it
    is none, or they contradict each other."""
    if "G" in letters and not fields["G"]:
        fields["y"] = 1 - fields["y"]
    year, month, last = fields["y"], fields["M"], fields["d"]
    has_full_date = {"y", "M", "d"} <= letters
    if "g" in letters:
        number = fields["g"] - 40_587
    elif {"y", "D"} <= letters:
        number = days_since_epoch(year, 1, 1) + fields["D"] - 1
        if not 1 <= fields["D"] <= 366 or day_of(number).year != year:
            return None
    elif {"Y", "w"} <= letters and letters & {"E", "e"} and not has_full_date:
        of_week = fields["e"] - 1 if "e" in letters else (fields["E"] + 1) % 7
        number = first_week(fields["Y"]) + fields["w"] * 7 - 7 + of_week
    elif not 1 <= month <= 12 or not 1 <= last <= 31:
        return None
    else:
        in_month = calendar.monthrange(year % 400 + 2000, month)[1]
        number = days_since_epoch(year, month, min(last, in_month))
        if not has_full_date:
            return number
    day = day_of(number)
    return number if all(NUMBERS_OF_DATE[x](day) == fields[x] for x in letters & NUMBERS_OF_DATE.keys()) else None


def parse_strict(text: str, pattern: str) -> int | None:
    """Nanoseconds since the epoch of a wall clock text, as ``DateTimeFormatter`` reads it: the whole text, each field
    in its width and range; fields that the pattern lacks are those of 1970-01-01 00:00:00. None where it does not
    fit."""
    fields = _fields(text, pattern)
    if fields is None:
        return None
    letters = frozenset(letter for letter, _ in _reader(pattern)[1] if letter in fields)
    whole_days = 0
    if fields["H"] == 24 and not (fields["m"] or fields["s"] or fields["S"]):
        fields["H"], whole_days = 0, int({"y", "M", "d"} <= letters)
    if not _clock(fields):
        return None
    number = _date(fields, letters)
    if number is None or not _YEARS[0] <= number + whole_days <= _YEARS[1]:
        return None
    seconds = (number + whole_days) * 86_400 + fields["H"] * 3600 + fields["m"] * 60 + fields["s"]
    return seconds * 10**9 + fields["S"]


_YEARS = days_since_epoch(1, 1, 1), days_since_epoch(9999, 12, 31)


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
"""What ``String.trim`` removes."""
