"""How change events are read: rows before and after with a letter for what happened, or a row with its kind.

Events of which the row before is partial are in :mod:`connectors.formats.partial_old`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from stateplan.common.changelog import KIND, MODES, RowKind, column, columns
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import STRING, row_type
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.formats.json_decode import Event
from stateplan.connectors.formats.json_rows import BadEvent

Bools = npt.NDArray[np.bool_]
_KINDS = {kind.short: kind for kind in RowKind}


@dataclass(frozen=True)
class BeforeAfter(Event):
    """Events that hold the whole row before and after a change, and a letter for what happened.

    Attributes:
        op: the field that says what happened.
        names: its values, with what they are called in messages.
        update, delete: those that have a row before; of the others ``after`` counts.
        expected: a whole event, for messages.
        replica: what to do about a missing row before.
        wrapper: as in :class:`Event`; one field at most.
        second_names: fields that are read under a second name too, with it.
    """

    op: str
    names: Mapping[str, str]
    update: str
    delete: str
    expected: str
    replica: str
    wrapper: tuple[str, ...] = ()
    second_names: Mapping[str, str] = field(default_factory=dict)

    def fields(self, columns: Fields) -> Fields:
        row = row_type(list(columns))
        envelope = [("before", row), ("after", row), (self.op, STRING)]
        return [(name, row_type(envelope)) for name in self.wrapper] or envelope

    def parts(self, df: pl.DataFrame) -> list[pl.Series]:
        """The columns before, after and op."""
        return (df["c0"].struct.unnest() if self.wrapper else df).get_columns()[:3]

    def prepare(self, event: dict[str, Any]) -> dict[str, Any]:
        part: Any = event
        for name in self.wrapper:
            part = event.get(name)
        if not self.second_names or not isinstance(part, dict):
            return event
        row = {**part, **{second: part.get(name) for name, second in self.second_names.items()}}
        return {**event, **dict.fromkeys(self.wrapper, row)} if self.wrapper else row

    def frame(self, df: pl.DataFrame) -> bool:
        before, after, op = self.parts(df)
        if not op.is_in(list(self.names)).all(ignore_nulls=False):
            return False
        no_before, no_after = before.is_null(), after.is_null()
        return not ((no_before & op.is_in([self.update, self.delete])) | (no_after & (op != self.delete))).any()

    def row(self, row: list[Any]) -> BadEvent | None:
        if self.wrapper and row[0] is None:
            return BadEvent('there is no "payload"', '{"schema": .., "payload": ' + self.expected + "}")
        before, after, op = [*row[0].values()][:3] if self.wrapper else row[:3]
        if op is None:
            return BadEvent(f'there is no "{self.op}"', self.expected)
        if op not in self.names:
            return BadEvent(f'unknown "{self.op}" value "{op}"', self.expected)
        if op in (self.update, self.delete) and before is None:
            return BadEvent(f'the "before" field of the {self.names[op]} event is null', self.replica)
        if op != self.delete and after is None:
            return BadEvent(f'the "after" field of the {self.names[op]} event is null', self.expected)
        return None

    def changes(self, df: pl.DataFrame, width: int) -> tuple[pl.DataFrame, pl.Series]:
        before, after, op = self.parts(df)
        update, delete = (op == self.update).to_numpy(), (op == self.delete).to_numpy()
        rows, origin = changes_of(before.struct.unnest(), after.struct.unnest(), update, delete)
        return rows, pl.Series(origin)


@dataclass(frozen=True)
class OpField(Event):
    """Rows with the kind of the change in a field ``_op``, which is field number ``position``; ``mode`` says which
    kinds there are."""

    position: int
    mode: str
    tree: ClassVar[bool] = False

    def fields(self, columns: Fields) -> Fields:
        return [*columns, ("_op", STRING)]

    @property
    def kinds(self) -> list[str]:
        return [kind.short for kind in sorted(MODES[self.mode])]

    def frame(self, df: pl.DataFrame) -> bool:
        return bool(df[column(self.position)].is_in(self.kinds).all(ignore_nulls=True))

    def row(self, row: list[Any]) -> BadEvent | None:
        op = row[self.position]
        if op is None or op in self.kinds:
            return None
        if op in _KINDS:
            problem = f"a {op} in a table with 'op-json.mode' = '{self.mode}'"
        else:
            problem = f'unknown "_op" value "{str(op)[:80]}"'
        return BadEvent(problem, ", ".join(self.kinds) + ' as "_op", or no such field for +I')

    def changes(self, df: pl.DataFrame, width: int) -> tuple[pl.DataFrame, pl.Series]:
        kind = df[column(width)].replace_strict(_KINDS, default=RowKind.INSERT.value, return_dtype=pl.Int8)
        return df.select(columns(width)).with_columns(kind.alias(KIND)), pl.Series(np.arange(df.height))


def changes_of(
    before: pl.DataFrame, after: pl.DataFrame, update: Bools, delete: Bools
) -> tuple[pl.DataFrame, npt.NDArray[np.int64]]:
    """The changes of pairs of rows: an update is the row before as -U and the row after as +U, a deletion the row
    before as -D, all others the row after as +I.

    Returns:
        The rows with ``kind``, in order, and for each the position of its pair.
    """
    names = columns(after.width)
    pairs = np.arange(after.height)
    if not update.any() and not delete.any():
        rows = after.rename(dict(zip(after.columns, names, strict=True)))
        return rows.with_columns(pl.lit(RowKind.INSERT.value, pl.Int8).alias(KIND)), pairs
    before.columns = after.columns = names
    origin = np.repeat(pairs, 1 + update)
    old = np.zeros(len(origin), bool)
    first = np.concatenate(([0], np.cumsum(1 + update)[:-1]))
    old[first] = update | delete
    kind = np.where(
        old,
        np.where(update[origin], RowKind.UPDATE_BEFORE, RowKind.DELETE),
        np.where(update[origin], RowKind.UPDATE_AFTER, RowKind.INSERT),
    ).astype(np.int8)
    row_images = pl.concat([before, after])[np.where(old, origin, origin + after.height)]
    return row_images.with_columns(pl.Series(KIND, kind)), origin


def from_millis(series: pl.Series) -> pl.Series:
    """Milliseconds since 1970 as timestamps."""
    return series.cast(pl.Datetime("ms", "UTC"))


def from_seconds(series: pl.Series) -> pl.Series:
    """Seconds since 1970 as timestamps."""
    return (series * 1000).cast(pl.Datetime("ms", "UTC"))


def from_sql_text(series: pl.Series) -> pl.Series:
    """Times such as ``2020-05-13 15:40:06.123456``, cut to milliseconds as Flink does, taken as UTC."""
    return _blank(series).dt.truncate("1ms")


def from_iso_text(series: pl.Series) -> pl.Series:
    """Times such as ``2020-05-13T15:40:06.123456``, cut to milliseconds as Flink does, or with a blank for the T."""
    iso = series.str.contains(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$")
    cut = _blank(series.str.replace("T", " ", literal=True)).dt.truncate("1ms")
    return pl.select(pl.when(iso).then(cut).otherwise(_blank(series))).to_series()


def _blank(series: pl.Series) -> pl.Series:
    """Dates, and dates and times with a blank between; NULL for anything else."""
    full = series.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", time_zone="UTC", strict=False)
    date = series.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us", "UTC"))
    return full.fill_null(date)
