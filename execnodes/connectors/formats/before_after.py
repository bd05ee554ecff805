"""Events that hold the whole row before and after a change, and a letter for what happened: Debezium's and Ogg's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from stateplan.execnodes.connectors.formats.changes import changes_of
from stateplan.execnodes.connectors.formats.json_rows import BadEvent


@dataclass(frozen=True)
class Envelope:
    """How such events are written.

    Attributes:
        op: the field that says what happened.
        names: its values, with what they are called in messages.
        update, delete: those that have a row before; of the others ``after`` counts.
        expected: a whole event, for messages.
        replica: what to do about a missing row before.
        wrapped: whether the event may lie inside the first field of the line's object, the only one but for one more.
    """

    op: str
    names: Mapping[str, str]
    update: str
    delete: str
    expected: str
    replica: str
    wrapped: bool = False

    def parts(self, df: pl.DataFrame) -> list[pl.Series]:
        """The columns before, after and op."""
        if self.wrapped and df.width < 3:
            return df["c0"].struct.unnest().get_columns()
        return df.get_columns()[:3]

    def frame(self, df: pl.DataFrame) -> bool:
        """Whether all events of a frame are good."""
        before, after, op = self.parts(df)
        if not op.is_in(list(self.names)).all(ignore_nulls=False):
            return False
        no_before, no_after = before.is_null(), after.is_null()
        return not ((no_before & op.is_in([self.update, self.delete])) | (no_after & (op != self.delete))).any()

    def row(self, row: list[Any]) -> BadEvent | None:
        """What is wrong with one event, given as raw values."""
        if self.wrapped and len(row) < 3 and row[0] is None:
            return BadEvent('there is no "payload"', '{"schema": .., "payload": ' + self.expected + "}")
        before, after, op = row[:3] if len(row) >= 3 else row[0].values()
        if op is None:
            return BadEvent(f'there is no "{self.op}"', self.expected)
        if op not in self.names:
            return BadEvent(f'unknown "{self.op}" value "{op}"', self.expected)
        if op in (self.update, self.delete) and before is None:
            return BadEvent(f'the "before" field of the {self.names[op]} event is null', self.replica)
        if op != self.delete and after is None:
            return BadEvent(f'the "after" field of the {self.names[op]} event is null', self.expected)
        return None

    def changes(self, df: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
        """Changes of a frame of good events, and for each the position of its event."""
        before, after, op = self.parts(df)
        update, delete = (op == self.update).to_numpy(), (op == self.delete).to_numpy()
        rows, origin = changes_of(before.struct.unnest(), after.struct.unnest(), update, delete)
        return rows, pl.Series(origin)
