"""How date and time functions and the clock run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import polars as pl

from stateplan.common.errors import DataError, RunError
from stateplan.common.types import BIGINT, LogicalType
from stateplan.common.values.clocks import are_within, units_per_day
from stateplan.common.values.nanoseconds import PER_SECOND, below_micros, coarse, count_in, is_fine, of_count
from stateplan.common.zone import java_time_zone, zone_id
from stateplan.functions.render import javatime
from stateplan.functions.render.base import Renderer, constant, constant_text, renders, renders_all
from stateplan.functions.render.casts import to_number
from stateplan.functions.render.moments import (
    DAY,
    from_local_millis,
    local_millis,
    per_milli,
    to_local,
    to_utc,
)
from stateplan.functions.render.parsing import parse_date, read_timestamp, usual_timestamp
from stateplan.functions.render.rowwise import rowwise, shielded, side_by_side
from stateplan.functions.render.simpledates import names_zone, read_wall_clock
from stateplan.functions.rex import Call, Literal, Rex
from stateplan.functions.typerules import timestamp


def _lit(value: int) -> pl.Expr:
    return pl.lit(value, dtype=pl.Int64)


def _rem(e: pl.Expr, by: int) -> pl.Expr:
    return e - e.truncdiv(_lit(by)) * by


_DAY_TIME = {
    "DAY": (DAY, 2**62),
    "HOUR": (3_600_000, DAY),
    "MINUTE": (60_000, 3_600_000),
    "SECOND": (1000, 60_000),
    "MILLISECOND": (1, 1000),
}


def _clock_part(millis: pl.Expr, unit: str) -> pl.Expr:
    size, within = _DAY_TIME[unit]
    return _rem(millis, within).truncdiv(_lit(size))


_CALENDAR: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "YEAR": lambda d: d.dt.year(),
    "QUARTER": lambda d: d.dt.quarter(),
    "MONTH": lambda d: d.dt.month(),
    "WEEK": lambda d: d.dt.week(),
    "DAY": lambda d: d.dt.day(),
    "DOY": lambda d: d.dt.ordinal_day(),
    "DOW": lambda d: d.dt.weekday().cast(pl.Int64) % 7 + 1,
    "ISODOW": lambda d: d.dt.weekday(),
    "ISOYEAR": lambda d: d.dt.iso_year(),
    "DECADE": lambda d: d.dt.year() // 10,
    "CENTURY": lambda d: (d.dt.year() - 1) // 100 + 1,
    "MILLENNIUM": lambda d: (d.dt.year() - 1) // 1000 + 1,
}

_FINE = {"MICROSECOND": 10**6, "NANOSECOND": 10**9}


def _below_second(e: pl.Expr, t: LogicalType, per_second: int) -> pl.Expr:
    """The fraction of a second of a timestamp in units of a microsecond or a nanosecond; negative before 1970."""
    have = PER_SECOND[t.time_unit()]
    count = count_in(e, t, t.time_unit())
    if have > per_second:
        count, have = count // (have // per_second), per_second
    dtype = pl.Int128() if is_fine(t) else pl.Int64()
    rest = (count - count.truncdiv(pl.lit(have, dtype=dtype)) * have).cast(pl.Int64)
    return rest * (per_second // have)


def _interval_part(e: pl.Expr, t: LogicalType, unit: str) -> pl.Expr | None:
    if t.root == "INTERVAL_YEAR_MONTH":
        months = e.cast(pl.Int64)
        month = _rem(months, 12)
        return {"YEAR": months.truncdiv(_lit(12)), "MONTH": month, "QUARTER": month.truncdiv(_lit(3)) + 1}.get(unit)
    return _clock_part(e.to_physical(), unit) if unit in _DAY_TIME else None


@renders("EXTRACT")
def extract(r: Renderer, call: Call) -> pl.Expr:
    flag, operand = call.operands
    unit = str(flag.value) if isinstance(flag, Literal) else ""
    e, t = r.expr(operand), operand.type
    result: pl.Expr | None = None
    if t.root.startswith("INTERVAL"):
        result = _interval_part(e, t, unit)
    elif unit in _FINE and t.is_timestamp:
        result = _below_second(e, t, _FINE[unit])
    elif unit == "EPOCH" and t.root != "TIME_WITHOUT_TIME_ZONE":
        result = local_millis(r, e, t).truncdiv(_lit(1000))
    elif unit in _DAY_TIME and unit != "DAY":
        result = _clock_part(local_millis(r, e, t), unit)
    elif unit in _CALENDAR:
        day = local_millis(r, e, t).truncdiv(_lit(DAY)).cast(pl.Int32).cast(pl.Date)
        result = _CALENDAR[unit](day)
    if result is None:
        raise RunError("RUN301", what=f"EXTRACT of {unit} from {t.summary()}")
    return result.cast(pl.Int64)


_DEFAULT = "yyyy-MM-dd HH:mm:ss"
_ROWWISE_GROUP = "DATE_FORMAT, TO_DATE, TO_TIMESTAMP, UNIX_TIMESTAMP"


_CYCLE_DAYS = 146_097
_FIRST_DAY, _LAST_DAY = -90_000_000, 90_000_000
"""Days between which Polars writes dates. 400 years later the calendar is the same."""


def _within_polars(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame, with moments ``m`` in years that Polars does not have moved by ``c`` times 400 years."""
    moments = frame["m"]
    if are_within(moments, _FIRST_DAY, _LAST_DAY):
        return frame
    count, per_day = pl.col("m").to_physical(), units_per_day(moments)
    cycles = count // (_CYCLE_DAYS * per_day)
    near_moments = (count - cycles * (_CYCLE_DAYS * per_day)).cast(moments.dtype)
    return frame.with_columns(near_moments.alias("m"), cycles.alias("c"))


def _formatted(
    r: Renderer,
    moment: pl.Expr,
    pattern: Rex | None,
    below: pl.Expr | None = None,
    *,
    sections: bool = False,
    zoned: javatime.ZonedMoment | None = None,
) -> pl.Expr:
    """A Datetime without zone, and nanoseconds below it, as text, by a pattern that may differ by row; ``sections`` and
    ``zoned`` are for :func:`javatime.format_moment`."""
    constant_pattern = _DEFAULT if pattern is None else constant_text(pattern)
    if zoned is None:
        zoned = javatime.ZonedMoment(moment.cast(pl.Datetime("ms")).to_physical(), "UTC")
    if constant_pattern is not None:
        javatime.format_moment(moment, constant_pattern, sections=sections, zone=zoned)
    operands = {"m": moment, **({} if below is None else {"n": below}), **({} if sections else {"i": zoned.instant})}
    if constant_pattern is None:
        assert pattern is not None
        operands["p"] = r.expr(pattern)

    @shielded
    def run(series: Sequence[pl.Series]) -> pl.Series:
        frame = _within_polars(side_by_side(series, tuple(operands)))
        rest = pl.col("n") if below is not None else None
        cycles = pl.col("c") if "c" in frame.columns else None

        def formatted(text: str) -> pl.Expr:
            zone = None if sections else javatime.ZonedMoment(pl.col("i"), zoned.zone)
            return javatime.format_moment(pl.col("m"), text, rest, cycles, sections=sections, zone=zone)

        if constant_pattern is not None:
            return frame.select(formatted(constant_pattern).alias("x")).to_series()
        out = pl.lit(None, dtype=pl.String)
        for text in frame.filter(pl.col("m").is_not_null())["p"].drop_nulls().unique().to_list():
            out = pl.when(pl.col("p") == text).then(formatted(text)).otherwise(out)
        return frame.select(out.alias("x")).to_series()

    return pl.map_batches(list(operands.values()), run, return_dtype=pl.String, is_elementwise=True)


@renders("DATE_FORMAT")
def date_format(r: Renderer, call: Call) -> pl.Expr:
    value, pattern = call.operands
    e, t = r.expr(value), value.type
    if t.is_string:
        fast, rest = usual_timestamp(e, "ms")
        whole_millis = (fast.to_physical() // _lit(1000) * 1000).cast(pl.Datetime("ms"))
        slow = rowwise(lambda text: _simple_wall_clock(text, _DEFAULT), [rest], pl.Int64, _ROWWISE_GROUP)
        e = pl.coalesce(whole_millis, slow.cast(pl.Datetime("ms")))
    below = below_micros(e) if is_fine(t) else None
    if t.is_timestamp:
        e = coarse(e, t)
    if t.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
        e = to_local(e, r.time_zone)
    return _formatted(r, e, pattern, below, sections=t.is_timestamp)


def _by_pattern(text: str, pattern: str) -> int | None:
    """Epoch milliseconds by the pattern, else by the form of a JDBC timestamp or date; NULL by what is not a
    pattern."""
    try:
        moment = javatime.parse_strict(text, pattern)
    except RunError as error:
        if error.code != javatime.NOT_A_PATTERN:
            raise
        return None
    moment = javatime.read_jdbc(text) if moment is None else moment
    return None if moment is None else moment // 10**6


def _by_any_pattern(r: Renderer, call: Call) -> pl.Expr:
    """TO_TIMESTAMP of (text, pattern)."""

    def read(*operands: pl.Expr) -> pl.Expr:
        return _from_millis(rowwise(_by_pattern, operands, pl.Int64, _ROWWISE_GROUP))

    return _by_quick_form(r, call, read, sections=True)


def _by_quick_form(r: Renderer, call: Call, read: Callable[..., pl.Expr], *, sections: bool) -> pl.Expr:
    """A Datetime by the pattern that may follow a text: common patterns by Polars, and by ``read`` what is left.
    ``sections`` is for :func:`javatime.tokens`."""
    text, pattern_operand = r.expr(call.operands[0]), call.operands[1] if len(call.operands) > 1 else None
    pattern = _DEFAULT if pattern_operand is None else constant_text(pattern_operand)
    pattern_expr = pl.lit(_DEFAULT) if pattern_operand is None else r.expr(pattern_operand)
    quick = javatime.quick_form(pattern, sections=sections) if pattern is not None else None
    if quick is None:
        return read(text, pattern_expr)
    regex, form = quick
    fast = pl.when(text.str.contains(regex)).then(text).str.to_datetime(form, time_unit="ms", strict=False)
    return pl.coalesce(fast, read(pl.when(fast.is_null()).then(text), pattern_expr))


def _from_millis(e: pl.Expr) -> pl.Expr:
    return e.cast(pl.Datetime("ms"))


@renders("TO_TIMESTAMP")
def _wall_clock(r: Renderer, call: Call) -> pl.Expr:
    if len(call.operands) > 1:
        return _by_any_pattern(r, call)
    fast, rest = usual_timestamp(r.expr(call.operands[0]), "ms")

    def one(text: str) -> int | None:
        nanos = read_timestamp(text)
        return None if nanos is None else nanos // 10**6

    return pl.coalesce(fast, _from_millis(rowwise(one, [rest], pl.Int64, _ROWWISE_GROUP)))


def _simple_wall_clock(text: str, pattern: str) -> int | None:
    clock = read_wall_clock(text, pattern)
    return None if clock is None else clock.millis


def _simple(r: Renderer, call: Call) -> pl.Expr:
    """Epoch milliseconds of a wall clock text by the pattern that may follow it, as ``SimpleDateFormat`` reads it; the
    pattern has no zone."""

    def read(*operands: pl.Expr) -> pl.Expr:
        return rowwise(_simple_wall_clock, operands, pl.Int64, _ROWWISE_GROUP).cast(pl.Datetime("ms"))

    return _by_quick_form(r, call, read, sections=False).to_physical()


def _simple_instant(r: Renderer, call: Call, zone: str) -> pl.Expr:
    """Epoch milliseconds of the instant that a text says, in ``zone`` if the text says none."""
    pattern = constant_text(call.operands[1]) if len(call.operands) > 1 else _DEFAULT
    if pattern is not None and not names_zone(pattern):
        wall_clock = _simple(r, call)
        return to_utc(wall_clock.cast(pl.Datetime("ms")), zone, twice="latest").to_physical()

    def read(text: str, pattern: str) -> int | None:
        clock = read_wall_clock(text, pattern, zone)
        return None if clock is None else clock.instant(zone)

    return rowwise(read, [r.expr(operand) for operand in call.operands], pl.Int64, _ROWWISE_GROUP)


@renders("TO_DATE")
def to_date(r: Renderer, call: Call) -> pl.Expr:
    if len(call.operands) == 1:
        return parse_date(r.expr(call.operands[0]))
    return (_simple_instant(r, call, "UTC") // _lit(DAY)).cast(pl.Int32).cast(pl.Date)


_EPOCH_MIN, _EPOCH_MAX = -62_167_219_200_000, 253_402_300_799_999


@renders("TO_TIMESTAMP_LTZ")
def to_timestamp_ltz(r: Renderer, call: Call) -> pl.Expr:
    value, *rest = call.operands
    e = r.expr(value)
    if value.type.is_string:
        return _ltz_from_text(r, call)
    constant_precision = constant(rest[0]) if rest and isinstance(rest[0], Literal) else None if rest else 3
    if constant_precision is not None:
        return _instant(e, value.type, int(constant_precision), call.type)
    digits = r.expr(rest[0])
    problem = "{} is not a precision: 0 for seconds, 3 for milliseconds, up to 18"
    r.fail_where(~digits.is_between(0, 18) & e.is_not_null(), "TO_TIMESTAMP_LTZ", problem, digits)
    out = pl.lit(None, dtype=call.type.polars())
    for number in range(19):
        out = pl.when(digits == number).then(_instant(e, value.type, number, call.type)).otherwise(out)
    return out


def _instant(e: pl.Expr, t: LogicalType, digits: int, target: LogicalType) -> pl.Expr:
    """A number of seconds with this number of digits below as a point in time; NULL beyond the years 0 to 9999. A FLOAT
    or DOUBLE is rounded down to the digits of the result."""
    units_per_second = PER_SECOND[target.time_unit()]
    if t.root in ("FLOAT", "DOUBLE"):
        kept_digits = max(digits, 3)
        e = e.cast(pl.Float64) * 10 ** (kept_digits - digits)
        e = pl.when(e.is_nan()).then(0.0).when(e.abs() < 2.0**63).then(e if kept_digits >= 9 else e.floor())
        e = e.cast(pl.Int64)
    else:
        kept_digits, e = digits, to_number(e, t, BIGINT)
    first, end = _EPOCH_MIN // 1000 * 10**kept_digits, (_EPOCH_MAX + 1) // 1000 * 10**kept_digits
    inside = pl.when((e >= first) & (e < end)).then(e)
    if 10**kept_digits > units_per_second:
        return of_count(inside // (10**kept_digits // units_per_second), target)
    return of_count(
        (inside.cast(pl.Int128) if is_fine(target) else inside) * (units_per_second // 10**kept_digits), target
    )


def _ltz_from_text(r: Renderer, call: Call) -> pl.Expr:
    moment = _wall_clock(r, call)
    if len(call.operands) < 3:
        return to_utc(moment, "UTC")
    if (constant_zone := constant_text(call.operands[2])) is not None:
        return to_utc(moment, _zone(constant_zone))

    @shielded
    def run(series: Sequence[pl.Series]) -> pl.Series:
        frame = side_by_side(series, ("m", "z"))
        out = pl.lit(None, dtype=pl.Datetime("ms", "UTC"))
        for name in frame.filter(pl.col("m").is_not_null())["z"].drop_nulls().unique().to_list():
            if (zone_name := zone_id(name)) is not None:
                out = pl.when(pl.col("z") == name).then(to_utc(pl.col("m"), zone_name)).otherwise(out)
        return frame.select(out.alias("x")).to_series()

    zone = r.expr(call.operands[2])
    return pl.map_batches([moment, zone], run, return_dtype=pl.Datetime("ms", "UTC"), is_elementwise=True)


def _zone(name: str) -> str:
    """The zone with this name, as ``java.time.ZoneId.of`` finds it. Raises DataError DATA301."""
    zone = zone_id(name)
    if zone is None:
        raise DataError("DATA301", name="TO_TIMESTAMP_LTZ", problem=f"{name!r:.60} is not a time zone")
    return zone


@renders("FROM_UNIXTIME")
def from_unixtime(r: Renderer, call: Call) -> pl.Expr:
    seconds = r.expr(call.operands[0]).cast(pl.Int64)
    instant = (seconds * 1000).cast(pl.Datetime("ms", "UTC"))
    local = to_local(instant, r.time_zone)
    zoned = javatime.ZonedMoment(seconds * 1000, r.time_zone)
    return _formatted(r, local, call.operands[1] if len(call.operands) == 2 else None, zoned=zoned)


@renders("UNIX_TIMESTAMP")
def unix_timestamp(r: Renderer, call: Call) -> pl.Expr:
    if not call.operands:
        return r.now() // _lit(1000)
    text = r.expr(call.operands[0])
    seconds = _simple_instant(r, call, r.time_zone) // _lit(1000)
    return pl.when(text.is_not_null()).then(seconds.fill_null(-(2**63)))


@renders("CONVERT_TZ")
def convert_tz(r: Renderer, call: Call) -> pl.Expr:
    text, source, target = call.operands
    local = _simple(r, replace(call, operands=(text,))) // _lit(1000) * 1000
    operands = [local.cast(pl.Datetime("ms")), r.expr(source), r.expr(target)]

    @shielded
    def run(series: Sequence[pl.Series]) -> pl.Series:
        frame = side_by_side(series, ("m", "from", "to"))
        out = pl.lit(None, dtype=pl.Datetime("ms"))
        for zones in frame.filter(pl.col("m").is_not_null()).select("from", "to").drop_nulls().unique().rows():
            start, end = (java_time_zone(name) for name in zones)
            converted_moment = to_local(to_utc(pl.col("m"), start, twice="latest"), end)
            same = (pl.col("from") == zones[0]) & (pl.col("to") == zones[1])
            out = pl.when(same).then(converted_moment).otherwise(out)
        return frame.select(out.alias("x")).to_series()

    zoned = pl.map_batches(operands, run, return_dtype=pl.Datetime("ms"), is_elementwise=True)
    return _formatted(r, zoned, None)


def _now(r: Renderer) -> pl.Expr:
    return r.now().cast(pl.Datetime("ms", "UTC"))


def _local_now(r: Renderer) -> pl.Expr:
    return to_local(_now(r), r.time_zone)


def _current_time(r: Renderer, call: Call) -> pl.Expr:
    return from_local_millis(r, _local_now(r).to_physical() // _lit(per_milli(timestamp(3))), call.type)


def _source_watermark(r: Renderer, call: Call) -> pl.Expr:
    raise RunError("RUN303.no_source_watermark")


_INSTANTS = ("CURRENT_TIMESTAMP", "NOW", "CURRENT_ROW_TIMESTAMP", "PROCTIME", "PROCTIME_MATERIALIZE")
renders_all(
    {
        **dict.fromkeys(_INSTANTS, lambda r, call: _now(r)),
        **dict.fromkeys(("CURRENT_TIME", "LOCALTIME"), _current_time),
        "CURRENT_DATE": lambda r, call: _local_now(r).dt.date(),
        "CURRENT_WATERMARK": lambda r, call: r.watermark().cast(pl.Datetime("ms")).cast(call.type.polars()),
        "LOCALTIMESTAMP": lambda r, call: _local_now(r),
        "SOURCE_WATERMARK": _source_watermark,
    }
)
