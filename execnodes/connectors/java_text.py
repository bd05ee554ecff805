"""Values as Java's ``toString`` writes them: what Flink's print connector and its text formats show."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from stateplan.execnodes.types import LogicalType
from stateplan.execnodes.values.floats import double_text, float_text, floats_text

if TYPE_CHECKING:
    import polars as pl

_NANOS_PER = {"ms": 10**6, "us": 10**3, "ns": 1}
_DAY = 86400 * 10**9
_FIRST_DAY, _LAST_DAY = -719162, 2932896


def decimal_text(value: Decimal) -> str:
    """``BigDecimal.toString``: plain, or scientific when the number has more than six zeros after the point."""
    return str(value)


def date_text(days: int) -> str:
    """``LocalDate.toString`` of days since 1970-01-01."""
    days += 719468
    era, of_era = divmod(days, 146097)
    of_cycle = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * of_cycle + of_cycle // 4 - of_cycle // 100)
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + (3 if shifted < 10 else -9)
    year = of_cycle + era * 400 + (month <= 2)
    text = f"{year:04d}" if 0 <= year <= 9999 else f"+{year}" if year > 9999 else f"-{-year:04d}"
    return f"{text}-{month:02d}-{day:02d}"


def _fraction(nanos: int) -> str:
    if nanos == 0:
        return ""
    if nanos % 10**6 == 0:
        return f".{nanos // 10**6:03d}"
    if nanos % 10**3 == 0:
        return f".{nanos // 10**3:06d}"
    return f".{nanos:09d}"


def time_text(nanos: int, seconds: bool = False) -> str:
    """``LocalTime.toString`` of nanoseconds of the day; seconds are left out when there are none, unless asked for."""
    rest, fraction = divmod(nanos, 10**9)
    minutes, second = divmod(rest, 60)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{text}:{second:02d}{_fraction(fraction)}" if second or fraction or seconds else text


def timestamp_text(count: int, unit: str, zoned: bool) -> str:
    """``LocalDateTime.toString``, or ``Instant.toString`` when ``zoned``, of a count of units since 1970."""
    days, nanos = divmod(count * _NANOS_PER[unit], _DAY)
    return f"{date_text(days)}T{time_text(nanos, seconds=zoned)}{'Z' if zoned else ''}"


def duration_text(millis: int) -> str:
    """``Duration.toString``: PT26H3M4.567S."""
    if millis == 0:
        return "PT0S"
    seconds = -(-millis // 1000) if millis < 0 else millis // 1000
    rest = abs(millis) % 1000
    sign = -1 if seconds < 0 else 1
    hours, minutes, secs = abs(seconds) // 3600 * sign, abs(seconds) // 60 % 60 * sign, abs(seconds) % 60 * sign
    text = "PT" + (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    if secs == 0 and rest == 0 and text != "PT":
        return text
    shown = f"-{secs}" if millis < 0 and secs == 0 and rest else str(secs)
    return text + shown + (f".{rest:03d}".rstrip("0") if rest else "") + "S"


def period_text(months: int) -> str:
    """``Period.toString`` of months: P1Y2M."""
    if months == 0:
        return "P0D"
    sign = -1 if months < 0 else 1
    years, rest = abs(months) // 12 * sign, abs(months) % 12 * sign
    return "P" + (f"{years}Y" if years else "") + (f"{rest}M" if rest else "")


def _java_hash(value: Any) -> int | None:
    """``hashCode`` as an unsigned 32-bit number; None for what is not worked out here."""
    if value is None:
        return 0
    if isinstance(value, bool):
        return 1231 if value else 1237
    if isinstance(value, int):
        bits = value & (1 << 64) - 1
        return (bits ^ bits >> 32) & 0xFFFFFFFF if not -(1 << 31) <= value < 1 << 31 else value & 0xFFFFFFFF
    if isinstance(value, str):
        result = 0
        data = value.encode("utf-16-le", "surrogatepass")
        for low, high in zip(data[::2], data[1::2], strict=True):
            result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
        return result
    return None


def hash_map_order(keys: list[Any], long_keys: bool = False) -> list[int]:
    """Positions of ``keys`` in the order in which a ``java.util.HashMap`` filled in this order gives them.

    Args:
        keys: text, whole numbers or truth values; other keys keep their order.
        long_keys: whether whole numbers are 64-bit ones (negative ones hash differently).
    """
    hashes = []
    for key in keys:
        code = _java_hash(key)
        if code is None:
            return list(range(len(keys)))
        if long_keys and isinstance(key, int) and key < 0:
            bits = key & (1 << 64) - 1
            code = (bits ^ bits >> 32) & 0xFFFFFFFF
        hashes.append(code ^ code >> 16)
    size = 16
    while len(keys) > size * 3 // 4:
        size *= 2
    return sorted(range(len(keys)), key=lambda i: hashes[i] & (size - 1))


def _byte_list(value: bytes) -> str:
    return "[" + ", ".join(str(b - 256 if b > 127 else b) for b in value) + "]"


def value_text(declared: LogicalType, value: Any) -> str:
    """The text of one raw value (see :mod:`execnodes.connectors.formats.values`); ``null`` for None.

    Rows are ``+I[a, b]``, lists and bytes ``[a, b]``, maps ``{k=v}`` in the order of Java's HashMap.
    """
    if value is None:
        return "null"
    root = declared.root
    simple: dict[str, Callable[[Any], str]] = {
        "BOOLEAN": lambda v: "true" if v else "false",
        "FLOAT": float_text,
        "DOUBLE": double_text,
        "DECIMAL": decimal_text,
        "BINARY": _byte_list,
        "VARBINARY": _byte_list,
        "INTERVAL_YEAR_MONTH": period_text,
        "INTERVAL_DAY_TIME": duration_text,
        "DATE": date_text,
        "TIME_WITHOUT_TIME_ZONE": time_text,
    }
    if root in simple:
        return simple[root](value)
    if declared.is_timestamp:
        return timestamp_text(value, declared.time_unit(), root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE")
    if root == "ARRAY":
        return "[" + ", ".join(value_text(declared.children[0], v) for v in value) + "]"
    if root in ("MAP", "MULTISET"):
        key_type = declared.children[0]
        value_type = declared.children[1] if root == "MAP" else LogicalType("INTEGER")
        order = hash_map_order([e["key"] for e in value], key_type.root == "BIGINT")
        return (
            "{"
            + ", ".join(
                f"{value_text(key_type, value[i]['key'])}={value_text(value_type, value[i]['value'])}" for i in order
            )
            + "}"
        )
    if root == "ROW":
        return "+I[" + ", ".join(value_text(f.type, value[f.name]) for f in declared.fields) + "]"
    return str(value)


def in_four_digit_years(series: pl.Series) -> bool:
    """Whether all dates or timestamps of a column have years from 1 to 9999."""
    counts = series.to_physical()
    low, high = counts.min(), counts.max()
    unit = getattr(series.dtype, "time_unit", None)
    per_day = _DAY // _NANOS_PER[unit] if unit else 1
    if not isinstance(low, int) or not isinstance(high, int):
        return True
    return low // per_day >= _FIRST_DAY and high // per_day <= _LAST_DAY


def patched(series: pl.Series, easy: pl.Expr, text: pl.Expr, convert: Callable[[Any], str]) -> pl.Series:
    """Texts of a column: by the expression ``text`` where ``easy``, one by one elsewhere; NULL stays NULL.

    Both expressions refer to the column as ``v``.
    """
    import polars as pl

    out = series.to_frame("v").select(
        pl.when(easy).then(text).alias("text"), (~easy & pl.col("v").is_not_null()).fill_null(False).alias("hard")
    )
    if not out["hard"].any():
        return out["text"]
    where = out["hard"].arg_true()
    return out["text"].scatter(where, [convert(v) for v in series.gather(where).to_list()])


def _timestamps_text(series: pl.Series, unit: str, zoned: bool) -> pl.Series:
    import polars as pl

    naive = series.dt.replace_time_zone(None) if zoned else series
    per_second = 10**9 // _NANOS_PER[unit]
    count, fraction = naive.to_physical(), pl.col("f")
    digits = len(str(per_second)) - 1
    text = fraction.cast(pl.String).str.zfill(digits)
    shown: pl.Expr = pl.lit(".") + text
    for kept in range(digits - 3, 0, -3):
        short = fraction % 10 ** (digits - kept) == 0
        shown = pl.when(short).then(pl.lit(".") + text.str.head(kept)).otherwise(shown)
    seconds = pl.col("t").dt.to_string(":%S") + pl.when(fraction == 0).then(pl.lit("")).otherwise(shown)
    if not zoned:
        seconds = pl.when(pl.col("n") % (60 * per_second) == 0).then(pl.lit("")).otherwise(seconds)
    frame = pl.DataFrame({"t": naive, "n": count, "f": count % per_second})
    return frame.select(pl.col("t").dt.to_string("%Y-%m-%dT%H:%M") + seconds + pl.lit("Z" if zoned else "")).to_series()


def column_text(series: pl.Series, declared: LogicalType) -> pl.Series:
    """The texts of a column, NULL staying NULL; as :func:`value_text`, by vectors where the text is simple."""
    import polars as pl

    from stateplan.execnodes.connectors.formats.values import raw_dtype

    root = declared.root
    if declared.is_string:
        return series
    if declared.is_integer or root == "BOOLEAN":
        return series.cast(pl.String)
    if root in ("FLOAT", "DOUBLE"):
        return floats_text(series)
    if root == "DECIMAL":
        easy = pl.lit((declared.scale or 0) <= 6) | (pl.col("v").abs() >= pl.lit("0.000001").cast(series.dtype))
        return patched(series, easy, pl.col("v").cast(pl.String), decimal_text)
    if root == "DATE" and in_four_digit_years(series):
        return series.dt.to_string("%Y-%m-%d")
    if declared.is_timestamp and in_four_digit_years(series):
        return _timestamps_text(series, declared.time_unit(), root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE")
    raw = series.cast(raw_dtype(declared)).to_list()
    return pl.Series(series.name, [None if v is None else value_text(declared, v) for v in raw], dtype=pl.String)
