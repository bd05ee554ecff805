"""Checks of the texts inside typed literals: ``DATE '2024-02-30'`` is wrong before anything runs."""

from __future__ import annotations

import datetime
import re

from stateplan.common.errors import Place, SqlError

_DATE = r"(?P<y>\d{1,4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})"
_TIME = r"(?P<h>\d{1,2}):(?P<mi>\d{1,2}):(?P<s>\d{1,2})(?:\.(?P<f>\d{1,9})0*)?"
_FORMS = {
    "DATE": (re.compile(_DATE), "yyyy-MM-dd"),
    "TIME": (re.compile(_TIME), "HH:mm:ss, with up to nine digits of a second after a point"),
    "TIMESTAMP": (
        re.compile(rf"{_DATE}(?: {_TIME})?"),
        "yyyy-MM-dd HH:mm:ss, with up to nine digits of a second after a point",
    ),
}

# What the text of an interval looks like, from its first to its last unit.
_UNITS = ("DAY", "HOUR", "MINUTE", "SECOND")
_PART = {"DAY": r"\d+", "HOUR": r"\d+", "MINUTE": r"\d+", "SECOND": r"\d+(?:\.\d{1,9})?"}
_JOIN = {"HOUR": " ", "MINUTE": ":", "SECOND": ":"}


def check_temporal(kind: str, text: str, place: Place) -> str:
    """The text of a DATE, TIME or TIMESTAMP literal with all its digits: ``2024-1-2`` is ``2024-01-02``.

    Raises:
        SqlError: SQL006, when the text is not a literal's of this kind.
    """
    form, expected = _FORMS[kind]
    match = form.fullmatch(text.strip())
    if match:
        fields = match.groupdict()
        try:
            parts = []
            if kind != "TIME":
                parts.append(str(datetime.date(int(fields["y"]), int(fields["m"]), int(fields["d"]))))
            if kind != "DATE":
                clock = datetime.time(int(fields["h"] or 0), int(fields["mi"] or 0), int(fields["s"] or 0))
                parts.append(str(clock) + (f".{fields['f']}" if fields["f"] else ""))
            return " ".join(parts)
        except ValueError:
            pass
    raise SqlError("SQL006", text=text, kind=f"a {kind}", place=place, expected=expected)


def check_interval(text: str, qualifier: str, place: Place) -> None:
    """Raises SqlError SQL006 when ``text`` does not fit the unit(s) of an INTERVAL literal."""
    first, _, last = re.sub(r"\(\d+\)", "", qualifier).partition(" TO ")
    if (first, last) == ("YEAR", "MONTH"):
        form, expected = r"\d+-\d+", "years-months, such as '1-6'"
    elif not last:
        form = _PART.get(first, r"\d+")
        expected = "a number of seconds" if first == "SECOND" else "a whole number"
    else:
        form, expected = _PART[first] if first != "SECOND" else "", "a text such as "
        example = "1"
        for unit in _UNITS[_UNITS.index(first) + 1 : _UNITS.index(last) + 1]:
            form += _JOIN[unit] + _PART[unit]
            example += _JOIN[unit] + "02"
        expected += f"'{example}'"
    if not re.fullmatch(rf"\s*[+-]?{form}\s*", text):
        raise SqlError("SQL006", text=text, kind=f"an interval of {qualifier}", place=place, expected=expected)


_NUMBER_AND_UNIT = re.compile(r"\s*([+-]?\d+)\s*(year|quarter|month|week|day|hour|minute|second)s?\s*", re.IGNORECASE)


def unit_within(text: str) -> str | None:
    """The hint for an INTERVAL literal whose unit is in its text, as in PostgreSQL: ``INTERVAL '1 day'``."""
    match = _NUMBER_AND_UNIT.fullmatch(text)
    return f"write INTERVAL '{match[1]}' {match[2].upper()}" if match else None
