"""The reader of the ``op-json`` format: the JSON reader over the columns and ``_op``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from stateplan.execnodes.changelog import KIND, MODES, RowKind, column, columns
from stateplan.execnodes.connectors.formats import op_json
from stateplan.execnodes.connectors.formats.base import Fields, check_types
from stateplan.execnodes.connectors.formats.changes import Events
from stateplan.execnodes.connectors.formats.json_decode import LineDecoder
from stateplan.execnodes.connectors.formats.json_rows import BadEvent
from stateplan.execnodes.connectors.options import OptionValues
from stateplan.execnodes.types import STRING

_KINDS = {kind.short: kind for kind in RowKind}


@dataclass(frozen=True)
class _Ops:
    """The check of the field ``_op``, which is field number ``position``."""

    position: int
    mode: str

    @property
    def allowed(self) -> list[str]:
        return [kind.short for kind in sorted(MODES[self.mode])]

    def frame(self, df: pl.DataFrame) -> bool:
        return bool(df[column(self.position)].is_in(self.allowed).all(ignore_nulls=True))

    def row(self, row: list[Any]) -> BadEvent | None:
        op = row[self.position]
        if op is None or op in self.allowed:
            return None
        if op in _KINDS:
            what = f"a {op} in a table with 'op-json.mode' = '{self.mode}'"
        else:
            what = f'unknown "_op" value "{str(op)[:80]}"'
        return BadEvent(what, ", ".join(self.allowed) + ' as "_op", or no such field for +I')


def _lines(options: Mapping[str, str], fields: Fields, extra: Fields) -> LineDecoder:
    values = OptionValues.read(op_json.FORMAT.options, options, "op-json.")
    check_types(fields, op_json.FORMAT)
    ops = _Ops(len(fields), values["mode"])
    return LineDecoder(
        [*fields, ("_op", STRING), *extra],
        "op-json",
        values["timestamp-format.standard"],
        False,
        values["ignore-parse-errors"],
        check_frame=ops.frame,
        check_row=ops.row,
    )


def _changes(df: pl.DataFrame, width: int) -> tuple[pl.DataFrame, pl.Series]:
    op = df[column(width)]
    kind = op.replace_strict(_KINDS, default=RowKind.INSERT.value, return_dtype=pl.Int8)
    return df.select(columns(width)).with_columns(kind.alias(KIND)), pl.Series(np.arange(df.height))


EVENTS = Events(_lines, _changes)
