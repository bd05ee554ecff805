"""The reader of Oracle GoldenGate's change events: the JSON reader over (before, after, op_type)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from stateplan.execnodes.connectors.formats import ogg_json
from stateplan.execnodes.connectors.formats.base import Fields, check_types
from stateplan.execnodes.connectors.formats.before_after import Envelope
from stateplan.execnodes.connectors.formats.changes import EventMetadata, Events
from stateplan.execnodes.connectors.formats.json_decode import LineDecoder
from stateplan.execnodes.connectors.formats.json_rows import BadEvent
from stateplan.execnodes.connectors.options import OptionValues
from stateplan.execnodes.types import STRING, LogicalType, row_type

_EVENT = Envelope(
    op="op_type",
    names={"I": "INSERT", "U": "UPDATE", "D": "DELETE"},
    update="U",
    delete="D",
    expected='{"before": {..} or null, "after": {..} or null, "op_type": "I", "U" or "D"}',
    replica="the whole row before the change (in PostgreSQL: ALTER TABLE ... REPLICA IDENTITY FULL)",
)


def _check_frame(df: pl.DataFrame) -> bool:
    return _EVENT.frame(df)


def _check_row(row: list[Any]) -> BadEvent | None:
    return _EVENT.row(row)


def _changes(df: pl.DataFrame, width: int) -> tuple[pl.DataFrame, pl.Series]:
    return _EVENT.changes(df)


def _lines(options: Mapping[str, str], fields: Fields, extra: Fields) -> LineDecoder:
    values = OptionValues.read(ogg_json.FORMAT.options, options, "ogg-json.")
    check_types(fields, ogg_json.FORMAT)
    row = row_type(list(fields))
    return LineDecoder(
        [("before", row), ("after", row), ("op_type", STRING), *extra],
        "ogg-json",
        values["timestamp-format.standard"],
        False,
        values["ignore-parse-errors"],
        tree=True,
        check_frame=_check_frame,
        check_row=_check_row,
    )


def _op_time(series: pl.Series) -> pl.Series:
    """Times such as ``2020-05-13 15:40:06.123456``, cut to milliseconds as Flink does, taken as UTC."""
    return _blank(series).dt.truncate("1ms")


def _current_time(series: pl.Series) -> pl.Series:
    """Times such as ``2020-05-13T15:40:06.123456``, cut to milliseconds as Flink does, or with a blank for the T."""
    iso = series.str.contains(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$")
    cut = _blank(series.str.replace("T", " ", literal=True)).dt.truncate("1ms")
    return pl.select(pl.when(iso).then(cut).otherwise(_blank(series))).to_series()


def _blank(series: pl.Series) -> pl.Series:
    """Dates, and dates and times with a blank between; NULL for anything else."""
    full = series.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", time_zone="UTC", strict=False)
    date = series.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us", "UTC"))
    return full.fill_null(date)


EVENTS = Events(
    _lines,
    _changes,
    {
        "table": EventMetadata("table", STRING),
        "primary-keys": EventMetadata("primary_keys", LogicalType("ARRAY", children=(STRING,))),
        "ingestion-timestamp": EventMetadata("current_ts", STRING, _current_time),
        "event-timestamp": EventMetadata("op_ts", STRING, _op_time),
    },
)
