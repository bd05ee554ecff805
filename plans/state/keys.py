"""The values by which rows of state are looked for, read as values of their columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from stateplan.common.errors import CheckpointError, OptionError, nearest
from stateplan.common.values.nanoseconds import of_text
from stateplan.runtime.inspect.inspection import TableState
from stateplan.runtime.inspect.state_rows import RowFilter

_WORDS = {"true": True, "false": False}
_TEXT_LITERAL = re.compile(r"'(?:[^']|'')*'")


def parse_keys(texts: Sequence[str], columns: Sequence[str]) -> dict[str, str]:
    """``order_id=5`` as name and text of the value.

    Args:
        texts: one or more such texts.
        columns: names that there are: one of them may have a ``=`` in it.

    Raises:
        OptionError: OPT404, for what is not a name and a value.
    """
    text_by_name: dict[str, str] = {}
    for text in texts:
        column = next((c for c in sorted(columns, key=len, reverse=True) if text.startswith(f"{c}=")), None)
        name, equals, value = (column, "=", text[len(column) + 1 :]) if column is not None else text.partition("=")
        if not equals or not name.strip():
            raise OptionError("OPT404", text=text)
        text_by_name[name.strip()] = value.strip()
    return text_by_name


def row_filters(table: TableState, keys: Mapping[str, object]) -> tuple[RowFilter, ...]:
    """What rows of a table have to pass.

    Args:
        keys: values by name of the column; a text is read as a value of the column's type, ``NULL`` as NULL, and what
            is in single quotes as the text inside.

    Raises:
        CheckpointError: CKPT048, no such column; CKPT049, not a value of its type.
    """
    return tuple(_filter(table, name, value) for name, value in keys.items())


def _filter(table: TableState, name: str, value: object) -> RowFilter:
    by_label = {label: column for column, label in table.labels.items()}
    by_lower_label = {label.lower(): column for label, column in by_label.items()}
    column = by_label.get(name) or by_lower_label.get(name.lower())
    if column is None:
        raise CheckpointError("CKPT048", name=name, by_label=", ".join(by_label), hint=nearest(name, by_label))
    return RowFilter(column, _value(name, value, table.table.schema[column]))


def _value(name: str, value: object, dtype: pl.DataType) -> Any:
    is_quoted = isinstance(value, str) and _TEXT_LITERAL.fullmatch(value)
    if is_quoted:
        value = str(value)[1:-1].replace("''", "'")
    elif isinstance(value, str) and value.upper() == "NULL":
        return None
    if value is None:
        return None
    try:
        key_value = _read(value, dtype) if isinstance(value, str) else pl.Series([value]).cast(dtype).item()
    except (ValueError, OverflowError, TypeError, pl.exceptions.PolarsError):
        key_value = None
    if key_value is None:
        raise CheckpointError("CKPT049", value=str(value), name=name, words=_words(dtype))
    return key_value


def _read(text: str, dtype: pl.DataType) -> Any:
    """The value that ``text`` stands for; None if it is none."""
    if isinstance(dtype, pl.String):
        return text
    if isinstance(dtype, pl.Binary):
        return bytes.fromhex(text.removeprefix("0x").removeprefix("x"))
    if isinstance(dtype, pl.Boolean):
        return _WORDS.get(text.lower())
    if isinstance(dtype, pl.Datetime):
        moments = pl.Series([text]).str.to_datetime(time_unit=dtype.time_unit, strict=True)
        zone = moments.dtype.time_zone  # type: ignore[attr-defined] # a Datetime
        if dtype.time_zone is not None:
            moments = moments.dt.replace_time_zone("UTC") if zone is None else moments.dt.convert_time_zone("UTC")
        return moments.cast(dtype).item()
    if dtype == pl.Int128:  # a TIMESTAMP of nanoseconds
        column = pl.Series("x", [text.replace("T", " ")])
        micros = pl.col("x").str.to_datetime(time_unit="us", strict=True)
        return column.to_frame().select(of_text(micros, pl.col("x"))).item()
    if isinstance(dtype, pl.Date):
        return pl.Series([text]).str.to_date(strict=True).item()
    if isinstance(dtype, pl.Time):
        return pl.Series([text]).str.to_time("%H:%M:%S%.f", strict=True).item()
    if dtype.is_integer():
        return pl.Series([int(text)], dtype=dtype).item()
    if dtype.is_float():
        return float(text)
    return pl.Series([text]).cast(dtype).item()


def _words(dtype: pl.DataType) -> str:
    """The type as SQL calls it."""
    names = {
        "Int8": "TINYINT",
        "Int16": "SMALLINT",
        "Int32": "INT",
        "Int64": "BIGINT",
        "Float32": "FLOAT",
        "Float64": "DOUBLE",
        "String": "STRING",
        "Binary": "BYTES, in hexadecimal digits",
        "Boolean": "BOOLEAN",
        "Date": "DATE, such as 2026-01-31",
        "Time": "TIME, such as 08:05:00",
        **dict.fromkeys(("Datetime", "Int128"), "TIMESTAMP, such as 2026-01-31 08:05:00"),
    }
    if isinstance(dtype, pl.Decimal):
        return f"DECIMAL({dtype.precision}, {dtype.scale})"
    return names.get(str(dtype.base_type()), str(dtype))
