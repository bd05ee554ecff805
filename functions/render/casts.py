"""How CAST and TRY_CAST run: Flink's cast rules over Polars expressions.

A cast is a table entry by (source family, target family). What cannot be cast on a row returns NULL; for CAST from a
character string that is an error, recorded as a check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl
from polars.datatypes import DataTypeClass

from stateplan.common.errors import RunError
from stateplan.common.types import INT, MAX_LENGTH, LogicalType
from stateplan.common.values.codecs import codec
from stateplan.common.values.nanoseconds import count_in, has_fine, rescaled
from stateplan.functions.render import decimals
from stateplan.functions.render.base import Renderer, constant, exact_quotient
from stateplan.functions.render.moments import (
    DAY,
    floor_div,
    from_local_millis,
    local_millis,
    per_milli,
    sub_millis,
)
from stateplan.functions.render.parsing import (
    parse_boolean,
    parse_date,
    parse_decimal,
    parse_double,
    parse_integer,
    parse_time,
    parse_timestamp,
)
from stateplan.functions.rex import LEGACY_CAST, Call, Literal, Rex
from stateplan.functions.typerules import as_decimal, family, same_type

_APPROXIMATE = ("FLOAT", "DOUBLE")
_EXACT_SCALE = 22
"""10**22 is the largest power of ten that a DOUBLE holds exactly."""


def _decimal_to_double(e: pl.Expr, t: LogicalType) -> pl.Expr:
    precision, scale = as_decimal(t)
    if precision <= 15 and scale <= _EXACT_SCALE:
        return exact_quotient(decimals.unscaled(e, t).cast(pl.Float64), pl.lit(float(10**scale)))
    return e.cast(pl.String).cast(pl.Float64)


def to_number(e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    """A number as another numeric type: integers wrap around, doubles truncate and saturate as in Java, DECIMAL rounds
    HALF_UP and is NULL if it overflows."""
    if target.root == "DECIMAL":
        if source.root in _APPROXIMATE:
            return decimals.double_to_decimal(e.cast(pl.Float64), target)
        return decimals.to_decimal(e, source, target)
    if source.root == target.root:
        return e
    if source.root == "DECIMAL":
        if target.is_integer:
            return decimals.whole_number(e, source, "down").cast(target.polars(), wrap_numerical=True)
        return _decimal_to_double(e, source).cast(target.polars())
    if source.root in _APPROXIMATE and target.root in ("TINYINT", "SMALLINT"):
        e = e.cast(pl.Int32, wrap_numerical=True)
    return e.cast(target.polars(), wrap_numerical=target.is_integer)


def number(r: Renderer, rex: Rex, target: LogicalType) -> pl.Expr:
    """A numeric operand as ``target``; a constant becomes one of that type."""
    if isinstance(rex, Literal) and target.root in _APPROXIMATE and rex.value is not None:
        return r.literal(target, float(constant(rex)))
    return to_number(r.expr(rex), rex.type, target)


def convert(e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    """An implicit conversion that cannot fail: between numbers, lengths, precisions; the parts of nested types."""
    if same_type(source, target):
        return e
    if source.root == "NULL":
        return e.cast(target.polars())
    if family(source) == family(target) == "NUMERIC":
        return to_number(e, source, target)
    if source.is_timestamp and target.is_timestamp and source.root == target.root:
        return rescaled(e, source, target)
    if has_fine(source) or has_fine(target):
        return _parts_converted(e, source, target)
    return by_position(e, source.polars(), target.polars())


def _parts_converted(e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    """An array, map or row whose parts are converted one by one."""
    if source.root == target.root == "ROW":
        fields = [
            convert(e.struct.field(f.name), f.type, g.type).alias(g.name)
            for f, g in zip(source.fields, target.fields, strict=True)
        ]
        return pl.when(e.is_not_null()).then(pl.struct(fields))
    if source.root == target.root == "ARRAY":
        return e.list.eval(convert(pl.element(), source.children[0], target.children[0]))
    if source.root == target.root and source.root in ("MAP", "MULTISET"):
        kinds = [(*t.children, INT)[:2] for t in (source, target)]
        parts = [
            convert(pl.element().struct.field(name), s, t).alias(name)
            for name, s, t in zip(("key", "value"), *kinds, strict=True)
        ]
        return e.list.eval(pl.struct(parts))
    return by_position(e, source.polars(), target.polars())


def by_position(e: pl.Expr, source: pl.DataType, target: pl.DataType) -> pl.Expr:
    """A value as another Polars type, the fields of rows by their position: Polars itself takes them by name."""
    if source == target:
        return e
    if isinstance(source, pl.Struct) and isinstance(target, pl.Struct):
        fields = [
            by_position(e.struct.field(g.name), _instance(g.dtype), _instance(w.dtype)).alias(w.name)
            for g, w in zip(source.fields, target.fields, strict=True)
        ]
        return pl.when(e.is_not_null()).then(pl.struct(fields))
    if isinstance(source, pl.List) and isinstance(target, pl.List):
        return e.list.eval(by_position(pl.element(), _instance(source.inner), _instance(target.inner)))
    return e.cast(target)


def _instance(dtype: pl.DataType | DataTypeClass) -> pl.DataType:
    return dtype if isinstance(dtype, pl.DataType) else dtype()


Cast = Callable[[Renderer, pl.Expr, LogicalType, LogicalType], pl.Expr]


def fit(r: Renderer, e: pl.Expr, t: LogicalType, *, most: int | None = None) -> pl.Expr:
    """Text cut to the length of CHAR or VARCHAR ``t``, and filled up with blanks for CHAR. ``most`` is a length that
    the text is known not to exceed."""
    if r.legacy_casts:
        return e
    length = t.length or 1
    if length < MAX_LENGTH and (most is None or most > length):
        e = e.str.head(length)
    return e.str.pad_end(length) if t.root == "CHAR" else e


def _any_to_text(r: Renderer, e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    text = codec(source).legacy if r.legacy_casts else codec(source).sql
    return fit(r, text(e, r.time_zone), target)


def _text_to_number(r: Renderer, e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    if target.root == "DECIMAL":
        return parse_decimal(e, target)
    if target.root in _APPROXIMATE:
        return parse_double(e).cast(target.polars())
    return parse_integer(e, target)


def _bytes_to_bytes(r: Renderer, e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    length = target.length or 1
    if r.legacy_casts or (source.root == target.root == "VARBINARY" and (source.length or 1) <= length):
        return e
    cut = e.bin.head(length)
    if target.root == "VARBINARY":
        return cut
    return cut.bin.encode("hex").str.pad_end(2 * length, "0").str.decode("hex")


def _text_to_bytes(r: Renderer, e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    wide = LogicalType("VARBINARY", length=2**31 - 1)
    return _bytes_to_bytes(r, e.cast(pl.Binary), wide, target)


def _moment_to_date(r: Renderer, e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    if source.root == "TIMESTAMP_WITHOUT_TIME_ZONE":
        # As in Flink: days before 1970 are truncated, not floored.
        return count_in(e, source, "ms").truncdiv(pl.lit(DAY, dtype=pl.Int64)).cast(pl.Int32).cast(pl.Date)
    return from_local_millis(r, local_millis(r, e, source), target)


def _at_precision(millis: pl.Expr, precision: int) -> pl.Expr:
    step = pl.lit(10 ** (3 - precision), dtype=pl.Int64)
    return millis.truncdiv(step) * step


def _moment_to_time(r: Renderer, e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    millis = local_millis(r, e, source)
    if source.root == "TIMESTAMP_WITHOUT_TIME_ZONE":
        millis = millis - millis.truncdiv(pl.lit(DAY, dtype=pl.Int64)) * DAY
    else:
        millis = millis % pl.lit(DAY, dtype=pl.Int64)
    if (target.precision or 0) < 3:
        millis = _at_precision(millis, target.precision or 0)
    return from_local_millis(r, millis, target)


def _time_to_time(r: Renderer, e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    return e if (target.precision or 0) >= (source.precision or 0) else _moment_to_time(r, e, source, target)


def _to_moment(r: Renderer, e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    """DATE, TIME or a timestamp as a timestamp; digits below the target's precision are cut off."""
    finer = source.is_timestamp and source.root == target.root and (source.precision or 0) <= (target.precision or 0)
    if finer:
        return rescaled(e, source, target)
    precision = target.precision if target.precision is not None else 6
    millis = local_millis(r, e, source)
    if precision < 3:
        millis = _at_precision(millis, precision)
    rest = sub_millis(e, source) if source.is_timestamp and precision > 3 else None
    if rest is not None:
        have, want = per_milli(source), per_milli(target)
        rest = rest * (want // have) if want >= have else floor_div(rest, have // want)
        below = 10 ** max((6 if want == 1000 else 9) - precision, 0)
        rest = floor_div(rest, below) * below if below > 1 else rest
    return from_local_millis(r, millis, target, rest)


def _list_to_list(r: Renderer, e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    element = cast_value(r, pl.element(), source.children[0], target.children[0])
    return e.list.eval(element)


def _map_to_map(r: Renderer, e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    entry = pl.element()
    key, value = (
        cast_value(r, entry.struct.field(n), s, t)
        for n, s, t in zip(("key", "value"), source.children, target.children, strict=True)
    )
    return e.list.eval(pl.struct(key=key, value=value))


def _row_to_row(r: Renderer, e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    fields = [
        cast_value(r, e.struct.field(f.name), f.type, g.type).alias(g.name)
        for f, g in zip(source.fields, target.fields, strict=True)
    ]
    return pl.when(e.is_not_null()).then(pl.struct(fields))


_MOMENTS = ("DATE", "TIME", "TIMESTAMP")
_SAME = ("BOOLEAN", "DATE", "INTERVAL_DAY_TIME", "INTERVAL_YEAR_MONTH")
_CASTS: dict[tuple[str, str], Cast] = {
    ("NUMERIC", "NUMERIC"): lambda r, e, source, target: to_number(e, source, target),
    ("NUMERIC", "BOOLEAN"): lambda r, e, source, target: e.to_physical() != 0,
    ("BOOLEAN", "NUMERIC"): lambda r, e, source, target: to_number(e.cast(pl.Int32), INT, target),
    ("CHARACTER", "CHARACTER"): lambda r, e, source, target: fit(r, e, target, most=source.length),
    ("CHARACTER", "NUMERIC"): _text_to_number,
    ("CHARACTER", "BOOLEAN"): lambda r, e, source, target: parse_boolean(e),
    ("CHARACTER", "DATE"): lambda r, e, source, target: parse_date(e),
    ("CHARACTER", "TIME"): lambda r, e, source, target: parse_time(e, target),
    ("CHARACTER", "TIMESTAMP"): lambda r, e, source, target: parse_timestamp(r, e, target),
    ("CHARACTER", "BINARY"): _text_to_bytes,
    ("BINARY", "BINARY"): _bytes_to_bytes,
    ("TIMESTAMP", "DATE"): _moment_to_date,
    ("TIMESTAMP", "TIME"): _moment_to_time,
    ("TIME", "TIME"): _time_to_time,
    **{(source, "TIMESTAMP"): _to_moment for source in _MOMENTS},
    **{(root, root): lambda r, e, source, target: e for root in _SAME},
    ("ARRAY", "ARRAY"): _list_to_list,
    ("MULTISET", "MULTISET"): _list_to_list,
    ("MAP", "MAP"): _map_to_map,
    ("ROW", "ROW"): _row_to_row,
}


def cast_value(r: Renderer, e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    """TRY_CAST: NULL if the value cannot be cast.

    Raises:
        RunError: RUN302, for a pair of types without a cast.
    """
    if source.root == "NULL":
        return e.cast(target.polars())
    cast = _CASTS.get((family(source), family(target)))
    if cast is None and target.is_string:
        cast = _any_to_text
    if cast is None:
        raise RunError("RUN302", source=source.summary(), target=target.summary())
    return cast(r, e, source, target)


def _can_fail(source: LogicalType, target: LogicalType) -> bool:
    return source.is_string and family(target) not in ("CHARACTER", "BINARY")


def _fails_to_cast(r: Renderer, e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr | None:
    """Whether a value, or a part of it, cannot be cast: a text, or NaN and the infinities to DECIMAL. None if that
    cannot be."""
    if _can_fail(source, target):
        return cast_value(r, e, source, target).is_null() & e.is_not_null()
    if source.root in _APPROXIMATE and target.root == "DECIMAL":
        return ~e.is_finite()
    if source.root != target.root:
        return None
    if source.root in ("ARRAY", "MULTISET"):
        inner = _fails_to_cast(r, pl.element(), source.children[0], target.children[0])
    elif source.root == "MAP":
        inner = _any_fails_to_cast(
            r, pl.element(), [*zip(("key", "value"), source.children, target.children, strict=True)]
        )
    elif source.root == "ROW":
        pairs = zip(source.fields, target.fields, strict=True)
        return _any_fails_to_cast(r, e, [(f.name, f.type, g.type) for f, g in pairs])
    else:
        return None
    return None if inner is None else e.list.eval(inner).list.any()


def _any_fails_to_cast(
    r: Renderer, e: pl.Expr, fields: Sequence[tuple[str, LogicalType, LogicalType]]
) -> pl.Expr | None:
    parts = [_fails_to_cast(r, e.struct.field(name), source, target) for name, source, target in fields]
    conditions = [part for part in parts if part is not None]
    return pl.any_horizontal(conditions) if conditions else None


def cast_or_fail(r: Renderer, e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    """CAST: like :func:`cast_value`, but text that cannot be cast fails the job."""
    result = cast_value(r, e, source, target)
    problem = f"{{}} is not a valid {target.as_nullable().summary()}"
    if _can_fail(source, target):
        return r.strict(result, "CAST", problem, e)
    fails = _fails_to_cast(r, e, source, target)
    if fails is not None:
        r.fail_where(fails, "CAST", problem, e)
    return result


def cast_call(r: Renderer, call: Call) -> pl.Expr:
    """A CAST or TRY_CAST call. An inner CAST of a NOT NULL value to a nullable type is free."""
    operand = call.operands[0]
    e = r.expr(operand)
    if same_type(operand.type, call.type):
        return e
    if call.name == LEGACY_CAST:
        r.legacy_casts = True
        try:
            return _cast_or_null(r, e, operand.type, call.type)
        finally:
            r.legacy_casts = False
    if call.name == "TRY_CAST":
        return _cast_or_null(r, e, operand.type, call.type)
    return cast_or_fail(r, e, operand.type, call.type)


def _cast_or_null(r: Renderer, e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    """As :func:`cast_value`. Arrays, maps and rows are NULL if one of their parts cannot be cast."""
    check_count = len(r.checks)
    result = cast_value(r, e, source, target)
    fails = None if source.is_string else _fails_to_cast(r, e, source, target)
    del r.checks[check_count:]
    return result if fails is None else pl.when(~fails).then(result)
