"""State TTLs: how long state lives and how its age is counted (FLIP-25), and Flink's duration text, read and written.

Grammar and rounding follow ``TimeUtils.parseDuration`` and ``TimeUtils.formatWithHighestUnit`` of Flink
2.3, as ``StateMetadata`` uses them: whole numbers of one unit, or an ISO-8601 duration; less than a
millisecond is truncated, and 0 means that state never expires."""

from __future__ import annotations

import difflib
import json
import re
from enum import StrEnum
from fractions import Fraction
from typing import Any

from stateplan.common.errors import PlanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import shorten

NEVER = 0
"""The TTL of state that never expires."""

MAX_TTL = 2**63 - 1
"""The longest TTL, in milliseconds."""


def outlives(one: int, other: int) -> bool:
    """Whether a TTL is longer than another."""
    return one != other and (one == NEVER or (other != NEVER and one > other))


class UpdateType(StrEnum):
    """Which accesses refresh the TTL of state. Source: ``StateTtlConfig.UpdateType``."""

    ON_CREATE_AND_WRITE = "OnCreateAndWrite"
    ON_READ_AND_WRITE = "OnReadAndWrite"


class StateVisibility(StrEnum):
    """Whether state that has expired, and is still there, is found. Source: ``StateTtlConfig.StateVisibility``."""

    NEVER_RETURN_EXPIRED = "NeverReturnExpired"
    RETURN_EXPIRED_IF_NOT_CLEANED_UP = "ReturnExpiredIfNotCleanedUp"


class TtlTimeCharacteristic(StrEnum):
    """The clock by which state ages. Source: ``StateTtlConfig.TtlTimeCharacteristic``, and FLIP-25 for event time."""

    PROCESSING_TIME = "ProcessingTime"
    EVENT_TIME = "EventTime"


@dataclass(frozen=True)
class TtlConfig:
    """How long one state of an operator lives, and how its age is counted. Source: FLIP-25, ``StateTtlConfig``.

    Attributes:
        ttl: milliseconds; 0 is never.
        update_type: what sets the time of access: writing, or reading too.
        visibility: whether expired rows are found until they are removed.
        time_characteristic: whether times of access are those of micro-batches, or of the rows' time attribute.
    """

    ttl: int = NEVER
    update_type: UpdateType = UpdateType.ON_CREATE_AND_WRITE
    visibility: StateVisibility = StateVisibility.NEVER_RETURN_EXPIRED
    time_characteristic: TtlTimeCharacteristic = TtlTimeCharacteristic.PROCESSING_TIME

    @property
    def is_plain(self) -> bool:
        """Whether all but the TTL is at its default, as it always is in Flink SQL."""
        return self == TtlConfig(self.ttl)

    @property
    def reads_refresh(self) -> bool:
        """Whether reads refresh the row."""
        return self.ttl > NEVER and self.update_type is UpdateType.ON_READ_AND_WRITE

    @property
    def finds_expired(self) -> bool:
        """Whether expired rows are found until they are removed."""
        return self.ttl > NEVER and self.visibility is StateVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP

    @property
    def by_event_time(self) -> bool:
        """Whether times of access are event times, also while state never expires: it may get a TTL."""
        return self.time_characteristic is TtlTimeCharacteristic.EVENT_TIME


_NS_PER_MS = 1_000_000

_UNITS: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    ("days", 86_400_000 * _NS_PER_MS, ("d", "day", "days")),
    ("hours", 3_600_000 * _NS_PER_MS, ("h", "hour", "hours")),
    ("minutes", 60_000 * _NS_PER_MS, ("min", "m", "minute", "minutes")),
    ("seconds", 1_000 * _NS_PER_MS, ("s", "sec", "secs", "second", "seconds")),
    ("milliseconds", _NS_PER_MS, ("ms", "milli", "millis", "millisecond", "milliseconds")),
    ("microseconds", 1_000, ("µs", "micro", "micros", "microsecond", "microseconds")),
    ("nanoseconds", 1, ("ns", "nano", "nanos", "nanosecond", "nanoseconds")),
)
_LABELS = {label: ns for _, ns, labels in _UNITS for label in labels}

_FOREIGN = {
    label: days
    for labels, days in (
        (("w", "week", "weeks"), 7),
        (("month", "months", "mon"), 30),
        (("y", "yr", "year", "years"), 365),
    )
    for label in labels
}
"""Units people write that Flink does not know, in days."""

TTL_FORM = (
    'a whole number and a unit such as "7 d", "90 min", "1500 ms", an ISO-8601 duration such as "PT1H", '
    'or "0 ms" for never'
)

_ISO = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_TERM = re.compile(r"(\d[\d_]*(?:\.\d+)?)\s*([^\W\d_]+)\s*")

_NEVER_WORDS = ("never", "none", "infinite", "infinity", "forever", "unlimited", "off", "disabled")

_JAVA_BLANK = "".join(chr(c) for c in range(0x21))
_MAX_DIGITS = 40


def parse_ttl(value: Any) -> int:
    """Milliseconds of a TTL as a plan or an option gives it.

    Args:
        value: text in Flink's duration grammar, or a whole JSON number of milliseconds.

    Raises:
        PlanError: PLAN050 (not a text or whole number), PLAN051 (null), PLAN052 (blank), PLAN053 (not a
            duration), PLAN054 (negative), PLAN055 (unknown unit), PLAN056 (more than 2^63 - 1 ms).
    """
    if isinstance(value, str):
        return _parse_text(value)
    if value is None:
        raise PlanError("PLAN051", expected=TTL_FORM)
    if isinstance(value, int) and not isinstance(value, bool):
        return _bounded(value * _NS_PER_MS, f"{value if abs(value) < 10**40 else 'a longer number'}")
    raise PlanError("PLAN050", dumps=json.dumps(value, default=str)[:60], expected=TTL_FORM)


def format_ttl(ms: int) -> str:
    """``ms`` in the largest unit that divides it: 5400000 is ``90 min``, 0 is ``0 ms``.

    Raises:
        PlanError: PLAN054 or PLAN056, when ``ms`` is not in 0 to 2^63 - 1.
    """
    _bounded(ms * _NS_PER_MS, str(ms))
    ns = ms * _NS_PER_MS
    for _, size, labels in _UNITS:
        if ns and ns % size == 0:
            return f"{ns // size} {labels[0]}"
    return "0 ms"


def _parse_text(text: str) -> int:
    ttl_text = text.strip(_JAVA_BLANK)
    if not ttl_text:
        raise PlanError("PLAN052", expected=TTL_FORM)
    match = re.match(r"[0-9]*", ttl_text)
    digits = match.group() if match else ""
    if not digits:
        return _parse_iso(ttl_text)
    label = ttl_text[len(digits) :].strip(_JAVA_BLANK).lower()
    size = _LABELS.get(label) if label else _NS_PER_MS
    if size is None:
        problem = f"the unit {shorten(label)!r} of the TTL {shorten(ttl_text)!r} is not known"
        if not label.replace("µ", "u").isalpha():
            problem = f"the TTL {shorten(ttl_text)!r} is not a whole number of one unit"
        raise PlanError(
            "PLAN055",
            problem=problem,
            units=", ".join(labels[0] for _, _, labels in _UNITS),
            hint=_unit_hint(ttl_text, label),
        )
    if len(digits.lstrip("0")) > _MAX_DIGITS:
        raise _overflow(ttl_text)
    return _bounded(int(digits.lstrip("0") or "0") * size, ttl_text)


def _parse_iso(ttl_text: str) -> int:
    match = _ISO.fullmatch(ttl_text)
    parts = match.groups() if match else ()
    if not parts or parts[2] in ("T", "t") or all(parts[i] is None for i in (1, 3, 4, 5)):
        code = "PLAN054" if re.match(r"-\s*[0-9]", ttl_text) else "PLAN053"
        raise PlanError(code, text=shorten(ttl_text), expected=TTL_FORM, hint=_no_duration_hint(ttl_text))
    if len(ttl_text) > 4 * _MAX_DIGITS:
        raise _overflow(ttl_text)
    sign, days, _, hours, minutes, seconds, fraction = parts
    ns = sum(int(n or 0) * size for n, (_, size, _) in zip((days, hours, minutes, seconds), _UNITS, strict=False))
    if fraction:
        ns += int(fraction.ljust(9, "0")) * (-1 if (seconds or "").startswith("-") else 1)
    return _bounded(-ns if sign == "-" else ns, ttl_text)


def _bounded(ns: int, text: str) -> int:
    if ns < 0:
        raise PlanError("PLAN054", text=shorten(text), expected=TTL_FORM)
    ms = ns // _NS_PER_MS
    if ms > MAX_TTL:
        raise _overflow(text)
    return ms


def _overflow(text: str) -> PlanError:
    return PlanError("PLAN056", text=shorten(text), max_ttl=MAX_TTL)


def _no_duration_hint(ttl_text: str) -> str | None:
    if re.match(r"\+\s*[0-9]", ttl_text):
        return f"write it without the sign: {shorten(ttl_text[1:].strip())!r}"
    return 'write "0 ms" for state that never expires' if ttl_text.lower() in _NEVER_WORDS else None


def _unit_hint(ttl_text: str, label: str) -> str | None:
    """What the writer most likely meant: a length Flink can say, else the nearest unit."""
    if label in ("us", "\u03bcs"):
        return "did you mean 'µs' or 'micros'?"
    total, pos = Fraction(0), 0
    lower_text = ttl_text.lower().replace("µ", "u")
    if len(ttl_text) <= _MAX_DIGITS:
        for term in _TERM.finditer(lower_text):
            size = _LABELS.get(term.group(2)) or _FOREIGN.get(term.group(2), 0) * _UNITS[0][1]
            if term.start() != pos or not size:
                break
            total, pos = total + Fraction(term.group(1).replace("_", "")) * size, term.end()
    if pos == len(lower_text) and total and total.denominator == 1 and total % _NS_PER_MS == 0:
        ms = int(total) // _NS_PER_MS
        if ms <= MAX_TTL:
            return f"write {format_ttl(ms)!r}"
    close = difflib.get_close_matches(label, _LABELS, n=1, cutoff=0.75)
    return f"did you mean '{close[0]}'?" if close else None
