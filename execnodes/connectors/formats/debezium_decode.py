"""The reader of Debezium's change events: the JSON reader over (before, after, op), and one gather."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from execnodes.changelog import KIND, RowKind, columns
from execnodes.connectors.formats import debezium_json
from execnodes.connectors.formats.base import Fields, check_types
from execnodes.connectors.formats.changes import Events
from execnodes.connectors.formats.json_decode import LineDecoder
from execnodes.connectors.formats.json_rows import BadEvent
from execnodes.connectors.options import OptionValues
from execnodes.types import STRING, row_type

__all__ = ["EVENTS"]

_OPS = ("c", "r", "u", "d")
_NAMES = {"u": "UPDATE", "d": "DELETE", "c": "INSERT", "r": "READ"}
_EXPECTED = '{"before": {..} or null, "after": {..} or null, "op": "c", "r", "u" or "d"}'
_REPLICA = (
    "the whole row before the change (in PostgreSQL: ALTER TABLE ... REPLICA IDENTITY FULL makes Debezium send it)"
)


def _envelope(df: pl.DataFrame) -> list[pl.Series]:
    """The columns before, after and op; of the payload when the events come with their schema."""
    if df.width < 3:
        return df["c0"].struct.unnest().get_columns()
    return df.get_columns()[:3]


def _check_frame(df: pl.DataFrame) -> bool:
    before, after, op = _envelope(df)
    if not op.is_in(_OPS).all(ignore_nulls=False):
        return False
    no_before, no_after = before.is_null(), after.is_null()
    return not ((no_before & op.is_in(("u", "d"))) | (no_after & (op != "d"))).any()


def _check_row(row: list[Any]) -> BadEvent | None:
    if len(row) < 3 and row[0] is None:
        return BadEvent('there is no "payload"', '{"schema": .., "payload": ' + _EXPECTED + "}")
    before, after, op = row[:3] if len(row) >= 3 else row[0].values()
    if op is None:
        return BadEvent('there is no "op"', _EXPECTED)
    if op not in _OPS:
        return BadEvent(f'unknown "op" value "{op}"', _EXPECTED)
    if op in ("u", "d") and before is None:
        return BadEvent(f'the "before" field of the {_NAMES[op]} event is null', _REPLICA)
    if op != "d" and after is None:
        return BadEvent(f'the "after" field of the {_NAMES[op]} event is null', _EXPECTED)
    return None


def _changes(df: pl.DataFrame, width: int) -> tuple[pl.DataFrame, pl.Series]:
    """Changes of a frame of checked events.

    Args:
        df: what the lines of :func:`_lines` decode to.
        width: number of columns of a row.

    Returns:
        ``c0..`` and ``kind`` of the changes in order, and for each the position of its event in ``df``.
    """
    before, after, op = _envelope(df)
    names = columns(width)
    events = np.arange(df.height)
    update, delete = (op == "u").to_numpy(), (op == "d").to_numpy()
    if not update.any() and not delete.any():
        rows = after.struct.unnest()
        rows.columns = names
        return rows.with_columns(pl.lit(RowKind.INSERT.value, pl.Int8).alias(KIND)), pl.Series(events)
    both = pl.concat([before.struct.unnest(), after.struct.unnest()])
    both.columns = names
    origin = np.repeat(events, 1 + update)
    old = np.zeros(len(origin), bool)
    first = np.concatenate(([0], np.cumsum(1 + update)[:-1]))
    old[first] = update | delete
    kind = np.where(
        old,
        np.where(update[origin], RowKind.UPDATE_BEFORE, RowKind.DELETE),
        np.where(update[origin], RowKind.UPDATE_AFTER, RowKind.INSERT),
    ).astype(np.int8)
    picked = both[np.where(old, origin, origin + df.height)]
    return picked.with_columns(pl.Series(KIND, kind)), pl.Series(origin)


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
