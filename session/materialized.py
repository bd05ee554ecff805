"""The rows that a query has now: its changes folded into a table, frame by frame.

A query emits every change as an insertion or a deletion of a whole row, so the table is a multiset of rows. They are
in the order of their insertions. As in Flink's client, a deletion retracts the latest of equal rows, and one that finds
no row changes nothing. Source: Flink's ``MaterializedCollectStreamResult``.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import polars as pl

from stateplan.common.changelog import KIND, RowKind, columns
from stateplan.common.types import LogicalType
from stateplan.connectors.results import ResultChannel

_FEW = 50_000
"""Changes that wait until it is worth while to look for pairs of them."""

_RETRACTIONS = [int(kind) for kind in RowKind if kind.is_retraction]


class Materialized:
    """The rows of a query, taken from its channel by any number of readers. Safe to use from several threads.

    Args:
        channel: gives the changes.
        types: the types of the columns.

    Attributes:
        changes: the number of changes so far.
        dropped: the number of rows that :meth:`keep_last` has removed.
    """

    def __init__(self, channel: ResultChannel, types: Sequence[LogicalType]) -> None:
        self._channel = channel
        self._names = columns(len(types))
        self._rows = pl.DataFrame(schema={name: t.polars() for name, t in zip(self._names, types, strict=True)})
        self._new: list[pl.DataFrame] = []
        self._waiting_rows = 0
        self._updates = False
        self._lock = threading.Lock()
        self.changes = self.dropped_rows = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether no more changes come."""
        return self._channel.is_exhausted

    def pull(self, timeout: float) -> bool:
        """Takes the next changes, for which it waits at most this number of seconds; whether there were any.

        Raises:
            StateplanError: what made the job fail, after its last row.
        """
        with self._lock:
            frame = self._channel.take(timeout)
            if frame is None:
                return False
            self.changes += frame.height
            self._waiting_rows += frame.height
            self._updates = self._updates or KIND in frame.columns
            self._new.append(frame)
            if self._waiting_rows > max(_FEW, self._rows.height):
                self._fold()
            return True

    def rows(self) -> pl.DataFrame:
        """The rows as they are now: ``c0, c1, ...``."""
        with self._lock:
            self._fold()
            return self._rows

    def keep_last(self, count: int) -> None:
        """Drops all but the last rows, of a query that only inserts."""
        with self._lock:
            self._fold()
            self.dropped_rows += max(0, self._rows.height - count)
            self._rows = self._rows.tail(count)

    def _fold(self) -> None:
        if not self._new:
            return
        if not self._updates:
            self._rows = pl.concat([self._rows, *self._new])
        else:
            old_rows = self._rows.with_columns(pl.lit(0, pl.Int8).alias(KIND))
            kinds = [f if KIND in f.columns else f.with_columns(pl.lit(0, pl.Int8).alias(KIND)) for f in self._new]
            self._rows = surviving(pl.concat([old_rows, *kinds]), self._names)
        self._new, self._waiting_rows = [], 0


def surviving(changes: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The rows that are left of changes, in the order of their insertions.

    Of equal rows the balance of insertions and deletions, which never falls below zero, goes up and down. An insertion
    is left when the balance after it is never fallen short of again.

    Args:
        changes: the columns and ``kind``.
        names: the names of the columns.
    """
    retraction = pl.col(KIND).is_in(_RETRACTIONS)
    if not changes.select(retraction.any()).item():
        return changes.select(names)
    step = pl.when(retraction).then(-1).otherwise(1).alias("@step")
    return _remaining_rows(changes.select(*names, pl.struct(names).rank("dense").alias("@row"), step), names)


def _remaining_rows(changes: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    total = pl.col("@step").cum_sum()
    balance = total - pl.min_horizontal(total.cum_min(), pl.lit(0))
    never_less = pl.col("@balance").cum_min(reverse=True)
    return (
        changes.with_columns(balance.over("@row").alias("@balance"))
        .filter((pl.col("@step") > 0) & (pl.col("@balance") <= never_less.over("@row")))
        .select(names)
    )
