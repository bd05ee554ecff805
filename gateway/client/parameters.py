"""Values in place of the ``?`` of a statement.

A gateway takes no values beside a statement, so they are written into it as literals. A ``?`` counts where the lexer of
the dialect sees one: outside of strings, quoted names, comments and hints.

    >>> Template("SELECT '?', ? FROM t WHERE a = ? -- really?").bind(["it's", None])
    "SELECT '?', 'it''s' FROM t WHERE a = NULL -- really?"

Source: PEP 249, paramstyle qmark.

Codes: DATA350, SQL003, SQL401, SQL410.
"""

from __future__ import annotations

import datetime as dt
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfoNotFoundError

from sqlglot.tokenizer_core import Token, TokenType

from stateplan.common.errors import DataError, SqlError
from stateplan.common.zone import session_zone, tz_of
from stateplan.planner.dialect.tokenizer import HINT_END, scan

ROWS = 500
"""Of an INSERT that is run for many rows, so many go into one statement."""

LENGTH = 200_000
"""A statement with more characters than this takes no further row."""

ACCEPTED_TYPES = "None, bool, int, float, Decimal, str, bytes, date, time, datetime or timedelta"

_BIGINT = 2**63
_DIGITS = 38
_MAX_DAYS = 999_999
_LAST_LTZ = 253_402_300_799_000
"""Milliseconds. TO_TIMESTAMP_LTZ returns NULL beyond. Source: Flink's ``DateTimeUtils.MAX_EPOCH_MILLS``."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_BEFORE = frozenset(" \t\r\n(,")
_BEHIND = frozenset(" \t\r\n),;")

Zone = Callable[[], str | None]
"""Returns ``table.local-time-zone`` of the session; None if it is not known."""


def _no_zone() -> str | None:
    return None


class Template:
    """A statement with ``?`` in it.

    Args:
        statement: its text.
        zone: asked only for a datetime with a zone and more digits than milliseconds.

    Attributes:
        count: how many ``?`` it has.

    Raises:
        SqlError: SQL003, a text, name or comment has no end; SQL401, it cannot be UTF-8.
    """

    def __init__(self, statement: str, zone: Zone = _no_zone) -> None:
        require_text(statement)
        tokens = scan(statement)
        places = _placeholders(tokens)
        self._zone = zone
        self.count = len(places)
        starts = [0, *(at + 1 for at in places)]
        self._texts = [statement[a:b] for a, b in zip(starts, [*places, len(statement)], strict=True)]
        self._row = _values_row(tokens, places)
        if self._row is not None:
            begin, end = self._row
            self._head, self._tail = statement[:begin], statement[end:]
            self._texts = [self._texts[0][begin:], *self._texts[1:]]
            self._texts[-1] = self._texts[-1][: len(self._texts[-1]) - len(self._tail)]

    def bind(self, parameters: Sequence[Any]) -> str:
        """The statement with these values.

        Raises:
            SqlError: SQL410, they are too many or too few, or one is of another class.
            DataError: DATA350, one has no literal.
        """
        text = self._bound(self._literals(parameters))
        return text if self._row is None else f"{self._head}{text}{self._tail}"

    def bind_all(self, rows: Sequence[Sequence[Any]]) -> Iterator[str]:
        """Statements that are together what the statement is for each of the rows.

        ``INSERT INTO t VALUES (?, ?)`` becomes one statement for up to :data:`ROWS` rows, as long as the values of a
        column have one class, so that SQL does not have to find a common type. Other statements come once per row.

        Raises:
            SqlError, DataError: as :meth:`bind`, before the first statement.
        """
        literals = [self._literals(row) for row in rows]
        if self._row is None:
            yield from map(self._bound, literals)
            return
        group: list[str] = []
        kinds: list[object] = []
        size = 0
        for row, texts in zip(rows, literals, strict=True):
            own = [_kind(value) for value in row]
            common_kinds = _merge_kinds(kinds, own) if group else own
            if common_kinds is None or len(group) == ROWS or size > LENGTH:
                yield self._head + ", ".join(group) + self._tail
                group, size, common_kinds = [], 0, own
            kinds = common_kinds
            group.append(self._bound(texts))
            size += len(group[-1])
        if group:
            yield self._head + ", ".join(group) + self._tail

    def _literals(self, parameters: Sequence[Any]) -> list[str]:
        if isinstance(parameters, (str, bytes, Mapping)) or not isinstance(parameters, Sequence):
            raise SqlError("SQL410.value_class", kind=type(parameters).__name__, what="the values of the parameters")
        if len(parameters) != self.count:
            raise SqlError("SQL410", wanted=self.count, given=len(parameters))
        return [literal(value, self._zone) for value in parameters]

    def _bound(self, literals: Sequence[str]) -> str:
        """Blanks keep a literal apart from its neighbours: ``a-?`` with -1 must not become a comment."""
        out = [self._texts[0]]
        last = self._texts[0][-1:]
        for text, behind in zip(literals, self._texts[1:], strict=True):
            out.append(text if not last or last in _BEFORE else f" {text}")
            out.append(f" {behind}" if behind and behind[0] not in _BEHIND else behind)
            last = (text + behind)[-1]
        return "".join(out)


def _kind(value: object) -> object:
    """What the values of a column have to have in common to be in one VALUES; None for NULL, which fits all.

    SQL finds a common type for the values. It would round a DECIMAL of many digits, and take a TIMESTAMP for the clock
    of the session's zone.
    """
    if value is None:
        return None
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        half = _DIGITS // 2
        return Decimal if len(digits) + exponent <= half and -exponent <= half else (len(digits), exponent)
    if isinstance(value, dt.datetime):
        return dt.datetime, value.utcoffset() is None
    return type(value)


def _merge_kinds(kinds: Sequence[object], row: Sequence[object]) -> list[object] | None:
    """The kinds of the columns with one more row; None if that does not fit."""
    if any(a != b for a, b in zip(kinds, row, strict=True) if a is not None and b is not None):
        return None
    return [b if a is None else a for a, b in zip(kinds, row, strict=True)]


def _placeholders(tokens: Sequence[Token]) -> list[int]:
    """Where the ``?`` are."""
    places, hint = [], False
    for token in tokens:
        if token.token_type is TokenType.HINT:
            hint = True
        elif token.token_type is HINT_END:
            hint = False
        elif token.token_type is TokenType.PLACEHOLDER and not hint:
            places.append(token.start)
    return places


_QUERIES = frozenset({"SELECT", "WITH", "TABLE", "OVERWRITE"})


def _values_row(tokens: Sequence[Token], places: Sequence[int]) -> tuple[int, int] | None:
    """Start and end of the one row of ``INSERT INTO t VALUES (...)``, when all ``?`` are in it; None for all other
    statements."""
    words = [t.text.upper() if t.token_type is TokenType.VAR else "" for t in tokens]
    if words[:2] != ["INSERT", "INTO"] or "VALUES" not in words:
        return None
    values = words.index("VALUES")
    if _QUERIES & set(words[:values]) or values + 1 == len(tokens):
        return None
    depth = 0
    for at in range(values + 1, len(tokens)):
        kind = tokens[at].token_type
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if depth == 0:
            break
    begin, end = tokens[values + 1], tokens[at]
    behind = [t for t in tokens[at + 1 :] if t.token_type is not TokenType.SEMICOLON]
    alone = not behind or behind[0].text.upper() == "ON"
    within = all(begin.start < place < end.start for place in places)
    return (begin.start, end.start + 1) if depth == 0 and end is not begin and alone and within and places else None


# literals


def require_text(text: str) -> None:
    """Raises SqlError SQL401 for a text that is none: half a surrogate pair."""
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise SqlError("SQL401", what="the statement", reason="it is not UTF-8 text") from None


def literal(value: object, zone: Zone = _no_zone) -> str:
    """A value as SQL, of the type that Flink has for it.

    ========== ==============================================================================================
    None       NULL, which gets its type from its surroundings
    bool, int  BOOLEAN; INT or BIGINT, or DECIMAL where that is too small (38 digits)
    float      DOUBLE, with all its bits; nan and infinities have no literal
    Decimal    DECIMAL of its own precision and scale
    str, bytes CHAR, BINARY
    date, time DATE, TIME (of which Flink keeps milliseconds)
    datetime   TIMESTAMP; with a zone, TIMESTAMP_LTZ in milliseconds, or in microseconds if the session's zone is known
    timedelta  INTERVAL DAY TO SECOND, in milliseconds
    ========== ==============================================================================================

    Raises:
        SqlError: SQL410, the value is of another class.
        DataError: DATA350, it cannot be written.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, numbers.Integral):
        return _integer_text(int(value))
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
        return _double(float(value))
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"x'{bytes(value).hex()}'"
    if isinstance(value, (dt.date, dt.time, dt.timedelta)):
        if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
            raise DataError("DATA350", value=value, why="has nanoseconds, which Python's classes do not have")
        try:
            return _temporal(value, zone)
        except (ValueError, TypeError, OverflowError) as cause:  # NaT of pandas
            raise DataError("DATA350", value=value, why="is no point in time") from cause
    raise SqlError(
        "SQL410.value_class", kind=type(value).__name__, what="a value of a parameter", expected=ACCEPTED_TYPES
    )


def _integer_text(value: int) -> str:
    if abs(value) < _BIGINT:
        return str(value)
    if value == -_BIGINT:  # the literal has no sign, and BIGINT no number of this size
        return f"CAST('{value}' AS BIGINT)"
    if abs(value) >= 10**_DIGITS:
        raise DataError("DATA350", value=f"of {value.bit_length()} bits", why=f"has more than {_DIGITS} digits")
    return f"CAST('{value}' AS DECIMAL({len(str(abs(value)))}, 0))"


def _double(value: float) -> str:
    """A cast of text: Flink rounds literals of DOUBLE, and has no -0.0 among them."""
    if value - value != 0:
        raise DataError("DATA350", value=value, why="is no number that SQL has")
    return f"CAST('{value!r}' AS DOUBLE)"


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise DataError("DATA350", value=value, why="is no number that SQL has")
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale)
    if precision > _DIGITS:
        raise DataError("DATA350", value=value, why=f"has more than {_DIGITS} digits")
    return f"CAST('{value:f}' AS DECIMAL({precision}, {scale}))"


def _text(value: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise DataError("DATA350", value=ascii(value), why="cannot be written as UTF-8") from None
    return "'" + str.replace(value, "'", "''") + "'"


def _temporal(value: dt.date | dt.time | dt.timedelta, zone: Zone) -> str:
    if isinstance(value, dt.timedelta):
        return _interval(dt.timedelta(value.days, value.seconds, value.microseconds))
    if isinstance(value, dt.time):
        if value.tzinfo is not None:
            raise DataError("DATA350", value=value, why="has a time zone, which TIME has not")
        return f"TIME '{dt.time(value.hour, value.minute, value.second, value.microsecond)}'"
    if not isinstance(value, dt.datetime):
        return f"DATE '{dt.date(value.year, value.month, value.day)}'"
    clock = (value.hour, value.minute, value.second, value.microsecond)
    plain = dt.datetime(value.year, value.month, value.day, *clock, tzinfo=value.tzinfo, fold=value.fold)
    return f"TIMESTAMP '{plain}'" if plain.utcoffset() is None else _instant(plain, zone)


def _interval(value: dt.timedelta) -> str:
    if value.microseconds % 1000:
        raise DataError("DATA350", value=value, why="has microseconds, and an interval milliseconds")
    size = abs(value)
    if size.days > _MAX_DAYS:
        raise DataError("DATA350", value=value, why=f"has more than {_MAX_DAYS} days")
    clock = dt.datetime.min + dt.timedelta(0, size.seconds, size.microseconds)
    text = f"{'-' if value.days < 0 else ''}{size.days} {clock:%H:%M:%S}.{clock.microsecond // 1000:03}"
    return f"INTERVAL '{text}' DAY(6) TO SECOND(3)"


def _instant(value: dt.datetime, zone: Zone) -> str:
    """Milliseconds since 1970 where that is exact; else the clock of the session's zone, which alone a cast reads."""
    since = value - _EPOCH
    millis, micros = since // dt.timedelta(milliseconds=1), since.microseconds % 1000
    if millis > _LAST_LTZ:
        raise DataError("DATA350", value=value, why="is later than TIMESTAMP_LTZ can be")
    if not micros:
        return f"TO_TIMESTAMP_LTZ({_integer_text(millis)}, 3)"
    name = zone()
    if name is None:
        raise DataError("DATA350", value=value, why="has microseconds, and the time zone of the session is not known")
    try:
        clock = value.astimezone(tz_of(session_zone(name) or name))
    except (ZoneInfoNotFoundError, ValueError, OverflowError) as cause:
        raise DataError(
            "DATA350", value=value, why="has microseconds, and the time zone of the session is not known"
        ) from cause
    if clock.replace(fold=0).utcoffset() != clock.replace(fold=1).utcoffset():
        raise DataError("DATA350", value=value, why=f"has a clock time that comes twice in {name}, and microseconds")
    return f"CAST(TIMESTAMP '{clock.replace(tzinfo=None)}' AS TIMESTAMP_LTZ(6))"
