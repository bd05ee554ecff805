"""The reader of Canal's change events: the JSON reader over (data, old, type)."""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

from stateplan.execnodes.connectors.formats import canal_json
from stateplan.execnodes.connectors.formats.base import Fields, check_types
from stateplan.execnodes.connectors.formats.changes import EventMetadata, Events
from stateplan.execnodes.connectors.formats.json_decode import LineDecoder
from stateplan.execnodes.connectors.formats.partial_old import DataOld
from stateplan.execnodes.connectors.options import OptionValues
from stateplan.execnodes.types import BIGINT, INT, STRING, LogicalType, row_type


def _event(names: tuple[str, ...], values: OptionValues | None = None) -> DataOld:
    filters = {}
    for name in ("database", "table"):
        pattern = None if values is None else values[f"{name}.include"]
        if pattern is not None:
            filters[name] = re.compile(pattern)
    return DataOld(
        names,
        insert="INSERT",
        update="UPDATE",
        delete="DELETE",
        ignored=("CREATE",),
        listed=True,
        expected='{"data": [{..}], "old": [{..}] or null, "type": "INSERT", "UPDATE" or "DELETE"}',
        filters=filters,
    )


def _changes(df: pl.DataFrame, width: int) -> tuple[pl.DataFrame, pl.Series]:
    return _event(()).changes(df)


def _lines(options: Mapping[str, str], fields: Fields, extra: Fields) -> LineDecoder:
    values = OptionValues.read(canal_json.FORMAT.options, options, "canal-json.")
    check_types(fields, canal_json.FORMAT)
    event = _event(tuple(name for name, _ in fields), values)
    return LineDecoder(
        [*event.fields(row_type(list(fields))), *extra],
        "canal-json",
        values["timestamp-format.standard"],
        False,
        values["ignore-parse-errors"],
        tree=True,
        check_frame=event.frame,
        check_row=event.row,
        fits=event.fits,
        select=event.select,
        prepare=event.prepare,
    )


def _instant(series: pl.Series) -> pl.Series:
    """Milliseconds since 1970."""
    return series.cast(pl.Datetime("ms", "UTC"))


EVENTS = Events(
    _lines,
    _changes,
    {
        "database": EventMetadata("database", STRING),
        "table": EventMetadata("table", STRING),
        "sql-type": EventMetadata("sqlType", LogicalType("MAP", children=(STRING, INT))),
        "pk-names": EventMetadata("pkNames", LogicalType("ARRAY", children=(STRING,))),
        "ingestion-timestamp": EventMetadata("ts", BIGINT, _instant),
        "event-timestamp": EventMetadata("es", BIGINT, _instant),
    },
)
