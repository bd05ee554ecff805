"""The reader of Maxwell's change events: the JSON reader over (data, old, type)."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from stateplan.execnodes.connectors.formats import maxwell_json
from stateplan.execnodes.connectors.formats.base import Fields, check_types
from stateplan.execnodes.connectors.formats.changes import EventMetadata, Events
from stateplan.execnodes.connectors.formats.json_decode import LineDecoder
from stateplan.execnodes.connectors.formats.partial_old import DataOld
from stateplan.execnodes.connectors.options import OptionValues
from stateplan.execnodes.types import BIGINT, STRING, LogicalType, row_type


def _event(names: tuple[str, ...]) -> DataOld:
    return DataOld(
        names,
        insert="insert",
        update="update",
        delete="delete",
        ignored=(),
        listed=False,
        expected='{"data": {..}, "old": {..} or null, "type": "insert", "update" or "delete"}',
    )


def _changes(df: pl.DataFrame, width: int) -> tuple[pl.DataFrame, pl.Series]:
    return _event(()).changes(df)


def _lines(options: Mapping[str, str], fields: Fields, extra: Fields) -> LineDecoder:
    values = OptionValues.read(maxwell_json.FORMAT.options, options, "maxwell-json.")
    check_types(fields, maxwell_json.FORMAT)
    event = _event(tuple(name for name, _ in fields))
    return LineDecoder(
        [*event.fields(row_type(list(fields))), *extra],
        "maxwell-json",
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
    """Seconds since 1970."""
    return (series * 1000).cast(pl.Datetime("ms", "UTC"))


EVENTS = Events(
    _lines,
    _changes,
    {
        "database": EventMetadata("database", STRING),
        "table": EventMetadata("table", STRING),
        "primary-key-columns": EventMetadata("primary_key_columns", LogicalType("ARRAY", children=(STRING,))),
        "ingestion-timestamp": EventMetadata("ts", BIGINT, _instant),
    },
)
