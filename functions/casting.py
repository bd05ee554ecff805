"""CAST as the planner builds it, and the folding of casts of constants."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal

from stateplan.common.errors import Place, SqlError
from stateplan.common.types import BOOLEAN, MAX_LENGTH, LogicalType
from stateplan.functions.literals import date_literal, null_literal, time_literal, timestamp_literal
from stateplan.functions.rex import LEGACY_CAST, Call, Literal, Rex
from stateplan.functions.typerules import castable, family, same_type

_is_legacy: ContextVar[bool] = ContextVar("legacy casts", default=False)

_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}


def raw_cast(rex: Rex, target: LogicalType, *, try_cast: bool = False) -> Call:
    """The CALL of CAST or TRY_CAST without any simplification."""
    name = "TRY_CAST" if try_cast else "CAST"
    return Call(target.as_nullable(try_cast or rex.type.nullable), (rex,), f"${name}$1", "SPECIAL")


@contextmanager
def legacy_casts(is_legacy: bool) -> Iterator[None]:
    """Within, constants are only folded if ``table.exec.legacy-cast-behaviour`` does not change them."""
    token = _is_legacy.set(is_legacy)
    try:
        yield
    finally:
        _is_legacy.reset(token)


def in_legacy_casts() -> bool:
    """Whether this is within :func:`legacy_casts`."""
    return _is_legacy.get()


def legacy_cast(call: Call) -> Call:
    """A CAST or TRY_CAST that returns NULL for a text that it cannot cast, does not cut a text that is too long, and
    writes BOOLEANs and rows as before Flink 1.15. Any other call as it is."""
    is_cast = call.name in ("CAST", "TRY_CAST") and len(call.operands) == 1
    differs = is_cast and _differs(call.operands[0].type, call.type)
    return replace(call, internal_name=f"${LEGACY_CAST}$1") if differs else call


def _differs(source: LogicalType, target: LogicalType) -> bool:
    """Whether a cast, or that of a part, can fail because of a text, cut one, or write it in another way."""
    if source.root == "NULL" or same_type(source, target):
        return False
    if family(target) in ("CHARACTER", "BINARY"):
        return source.root == "BOOLEAN" or bool(source.children or source.fields) or (target.length or 1) < MAX_LENGTH
    if source.is_string:
        return True
    if source.root == target.root == "ROW":
        return any(_differs(f.type, g.type) for f, g in zip(source.fields, target.fields, strict=True))
    return source.root == target.root and any(map(_differs, source.children, target.children))


def cast_rex(rex: Rex, target: LogicalType, place: Place | None = None, *, try_cast: bool = False) -> Rex:
    """CAST (or TRY_CAST) of ``rex`` to ``target``; ``target``'s own nullability is ignored.

    Nothing is cast to a processing time, whose value is always the clock. Flink casts columns to it, and not constant
    texts. ``rex`` itself when its type is ``target`` apart from nullability; a constant where Flink folds one; a CASE
    for BOOLEAN to an exact number and ``<> 0`` for the reverse, as Flink writes them.

    Raises:
        SqlError: SQL204, for types that cannot be cast.
    """
    source = rex.type
    is_text = isinstance(rex, Literal) and source.is_string and rex.value is not None
    if source.kind is None and (target.kind == "PROCTIME" or is_text):
        target = replace(target, kind=None)
    if same_type(source, target) and (not try_cast or source.nullable):
        return rex
    if not castable(source, target):
        raise SqlError("SQL204", source=source, target=target, place=place, hint=_HINTS.get((source.root, target.root)))
    if isinstance(rex, Literal) and (not try_cast or rex.value is None):
        constant = fold_cast(rex, target)
        if constant is not None:
            return constant
    if not try_cast and source.root == "BOOLEAN" and (target.root in _INTEGER_BITS or target.root == "DECIMAL"):
        return _boolean_to_exact(rex, target)
    if not try_cast and target.root == "BOOLEAN" and (source.root in _INTEGER_BITS or source.root == "DECIMAL"):
        zero = Literal(source.not_null(), 0 if source.root in _INTEGER_BITS else "0")
        return Call(BOOLEAN.as_nullable(source.nullable), (rex, zero), "$<>$1", "BINARY")
    return raw_cast(rex, target, try_cast=try_cast)


_HINTS = {
    ("INTEGER", "TIMESTAMP_WITHOUT_TIME_ZONE"): "use TO_TIMESTAMP(FROM_UNIXTIME(seconds))",
    ("BIGINT", "TIMESTAMP_WITHOUT_TIME_ZONE"): "use TO_TIMESTAMP(FROM_UNIXTIME(seconds))",
    ("BIGINT", "TIMESTAMP_WITH_LOCAL_TIME_ZONE"): "use TO_TIMESTAMP_LTZ(epoch, 0 or 3)",
    ("TIMESTAMP_WITHOUT_TIME_ZONE", "BIGINT"): "use UNIX_TIMESTAMP(CAST(timestamp AS STRING))",
}


def _case(operands: tuple[Rex, ...], t: LogicalType) -> Call:
    return Call(t, operands, "$CASE$1", "SPECIAL")


def _boolean_to_exact(rex: Rex, target: LogicalType) -> Rex:
    values: tuple[object, object] = ("1", "0") if target.root == "DECIMAL" else (1, 0)
    one, zero = (Literal(target.not_null(), v) for v in values)
    inner = _case((rex, one, zero), target.not_null())
    if not rex.type.nullable:
        return inner
    is_not_null = Call(BOOLEAN.not_null(), (rex,), "$IS NOT NULL$1", "POSTFIX")
    return _case((is_not_null, inner, null_literal(target)), target.as_nullable())


def fold_cast(literal: Literal, target: LogicalType) -> Literal | None:
    """The constant that CAST(literal AS target) is, or None if it is left to be computed."""
    if literal.symbol is not None or literal.sarg is not None:
        return None
    if literal.value is None:
        return null_literal(target)
    folder = _FOLDERS.get(target.root)
    return None if folder is None else folder(literal, target.not_null())


def _number(literal: Literal, *, exact: bool = True) -> Decimal | None:
    is_number = literal.type.root in _INTEGER_BITS or literal.type.root in ("DECIMAL", *(() if exact else ("DOUBLE",)))
    return Decimal(str(literal.value)) if is_number else None


def _to_integer(literal: Literal, target: LogicalType) -> Literal | None:
    value = _number(literal)
    if value is None:
        return None
    whole_number = int(value.to_integral_value(ROUND_DOWN))
    limit = 1 << (_INTEGER_BITS[target.root] - 1)
    return Literal(target, whole_number) if -limit <= whole_number < limit else None


def _to_decimal(literal: Literal, target: LogicalType) -> Literal | None:
    value = _number(literal)
    if value is None:
        return None
    precision, scale = target.precision or 10, target.scale or 0
    if value.copy_abs().quantize(Decimal(1).scaleb(-scale), context=_WIDE) >= Decimal(10) ** (precision - scale):
        return None
    return Literal(target, format(value, "f"))


def _to_double(literal: Literal, target: LogicalType) -> Literal | None:
    value = _number(literal, exact=False)
    return None if value is None else Literal(target, str(value))


def _to_character(literal: Literal, target: LogicalType) -> Literal | None:
    if not literal.type.is_string:
        return None
    text, length = str(literal.value), target.length or 1
    if len(text) > length and in_legacy_casts():
        return None
    text = text[:length]
    return Literal(target, text.ljust(length) if target.root == "CHAR" else text)


def _read(literal: Literal, form: str, read: Callable[[str], Literal]) -> str | None:
    """The constant that a text of this form is; None for another form, or for no value."""
    text = str(literal.value)
    if not literal.type.is_string or not re.fullmatch(form, text):
        return None
    try:
        return str(read(text).value)
    except SqlError:
        return None


def _to_date(literal: Literal, target: LogicalType) -> Literal | None:
    text = _read(literal, r"\d{4}-\d\d-\d\d", date_literal)
    return None if text is None else Literal(target, text)


def _to_time(literal: Literal, target: LogicalType) -> Literal | None:
    text = _read(literal, r"\d\d:\d\d:\d\d", time_literal)
    return None if text is None else Literal(target, text)


def _to_timestamp(literal: Literal, target: LogicalType) -> Literal | None:
    text = _read(literal, r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,9})?", timestamp_literal)
    if literal.type.root == "TIMESTAMP_WITHOUT_TIME_ZONE":
        text = str(literal.value)
    fits = text is not None and len(text.partition(".")[2]) <= (target.precision or 0)
    return Literal(target, text) if fits else None


def _to_boolean(literal: Literal, target: LogicalType) -> Literal | None:
    value = _number(literal)
    return None if value is None else Literal(target, value != 0)


_WIDE = Context(prec=120, rounding=ROUND_HALF_UP)

_FOLDERS: dict[str, Callable[[Literal, LogicalType], Literal | None]] = {
    **dict.fromkeys(_INTEGER_BITS, _to_integer),
    "DECIMAL": _to_decimal,
    "DOUBLE": _to_double,
    "CHAR": _to_character,
    "VARCHAR": _to_character,
    "DATE": _to_date,
    "TIME_WITHOUT_TIME_ZONE": _to_time,
    "TIMESTAMP_WITHOUT_TIME_ZONE": _to_timestamp,
    "BOOLEAN": _to_boolean,
}
