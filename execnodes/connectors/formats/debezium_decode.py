"""The reader of Debezium's change events: the JSON reader over (before, after, op)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from stateplan.execnodes.connectors.formats import debezium_json
from stateplan.execnodes.connectors.formats.base import Fields, check_types
from stateplan.execnodes.connectors.formats.before_after import Envelope
from stateplan.execnodes.connectors.formats.changes import Events
from stateplan.execnodes.connectors.formats.json_decode import LineDecoder
from stateplan.execnodes.connectors.formats.json_rows import BadEvent
from stateplan.execnodes.connectors.options import OptionValues
from stateplan.execnodes.types import STRING, row_type

_EVENT = Envelope(
    op="op",
    names={"c": "INSERT", "r": "READ", "u": "UPDATE", "d": "DELETE"},
    update="u",
    delete="d",
    expected='{"before": {..} or null, "after": {..} or null, "op": "c", "r", "u" or "d"}',
    replica="the whole row before the change (in PostgreSQL: ALTER TABLE ... REPLICA IDENTITY FULL makes Debezium send "
    "it)",
    wrapped=True,
)


def _check_frame(df: pl.DataFrame) -> bool:
    return _EVENT.frame(df)


def _check_row(row: list[Any]) -> BadEvent | None:
    return _EVENT.row(row)


def _changes(df: pl.DataFrame, width: int) -> tuple[pl.DataFrame, pl.Series]:
    return _EVENT.changes(df)


def _lines(options: Mapping[str, str], fields: Fields, extra: Fields) -> LineDecoder:
    """The line decoder of events whose rows have the given fields, with extra fields next to the event's own."""
    values = OptionValues.read(debezium_json.FORMAT.options, options, "debezium-json.")
    check_types(fields, debezium_json.FORMAT)
    row = row_type(list(fields))
    envelope = [("before", row), ("after", row), ("op", STRING)]
    wanted = [("payload", row_type(envelope))] if values["schema-include"] else envelope
    return LineDecoder(
        [*wanted, *extra],
        "debezium-json",
        values["timestamp-format.standard"],
        False,
        values["ignore-parse-errors"],
        tree=True,
        check_frame=_check_frame,
        check_row=_check_row,
    )


EVENTS = Events(_lines, _changes)
