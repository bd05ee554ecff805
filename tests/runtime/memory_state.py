"""Keyed state in dictionaries: the obvious twin of :class:`runtime.state.keyed_state.KeyedState`, for tests
and small local runs. It checks what a kernel gives it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import polars as pl

from stateplan.common.ttl import TtlConfig
from stateplan.runtime.kernel import ACCESS_TIME, Frames, Kernel, StateTable, Watermark
from stateplan.runtime.state.runs import WRITE_TIME
from stateplan.runtime.state.ttl_access import InputFields, take_step

Row = dict[str, Any]


def ttls(given: Iterable[int | TtlConfig]) -> tuple[TtlConfig, ...]:
    """TTLs with everything else at its default, where they are given in milliseconds."""
    return tuple(t if isinstance(t, TtlConfig) else TtlConfig(t) for t in given)


class MemoryState:
    """The state of one kernel, all keys.

    Args:
        kernel: whose tables are held.

    Attributes:
        tables: per state table its rows by identity, expired ones included until they are overwritten or dropped by
            :meth:`expire`.
        missed: retractions so far that found nothing.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.tables: list[dict[Hashable, Row]] = [{} for _ in kernel.tables]
        self.missed = 0

    def step(
        self,
        inputs: Frames,
        now: int,
        ttl: Sequence[int | TtlConfig],
        watermark: Watermark | None = None,
        fields: InputFields | None = None,
    ) -> pl.DataFrame:
        """Runs one micro-batch through the kernel, applies its state changes and returns its output.

        Args:
            inputs: one frame of changes per input.
            now: the micro-batch's time, ms.
            ttl: per ``state`` entry of the plan; of one given in milliseconds everything else is the default.
            watermark: how far event time has come.
            fields: what is known of the rows of the inputs; for states with other than default TTL semantics.

        Raises:
            ValueError: when the step breaks the kernel protocol.
        """
        time = watermark or Watermark()

        def due(table: StateTable, name: str, upto: int, at: int, lifetime: int) -> pl.DataFrame:
            reached = [r for r in self._rows(table).values() if r[name] is not None and r[name] <= upto]
            return self._framed(table, reached, at, lifetime)

        taken = take_step(self.kernel, inputs, now, ttls(ttl), time, fields or InputFields(), self._find, due)
        self.missed += taken.step.missed
        for w in taken.writes:
            self.write(w.table, w.upserts, w.deletes)
        return taken.step.output

    def lookup(self, table: StateTable, keys: pl.DataFrame | None, now: int, ttl: int) -> pl.DataFrame:
        """The live rows of ``table`` for ``keys`` (lookup columns, repeats allowed), with the time of their last
        access."""
        return self._find(table, keys, now, ttl).drop(WRITE_TIME)

    def _find(self, table: StateTable, keys: pl.DataFrame | None, now: int, ttl: int) -> pl.DataFrame:
        wanted = set() if keys is None else {_key(row, table.lookup) for row in keys.iter_rows(named=True)}
        found = [row for row in self._rows(table).values() if _key(row, table.lookup) in wanted]
        return self._framed(table, found, now, ttl)

    def _framed(self, table: StateTable, rows: Sequence[Row], now: int, ttl: int) -> pl.DataFrame:
        """Those of the rows that are alive."""
        alive = [{WRITE_TIME: r[ACCESS_TIME], **r} for r in rows if ttl == 0 or r[ACCESS_TIME] + ttl > now]
        schema = {**table.schema, ACCESS_TIME: pl.Int64(), WRITE_TIME: pl.Int64()}
        return pl.DataFrame(alive, schema=schema, orient="row")

    def write(self, table: StateTable, upserts: pl.DataFrame | None, deletes: pl.DataFrame | None) -> None:
        """Applies the changes of one step to ``table``."""
        rows = self._rows(table)
        gone = [] if deletes is None else [_key(row, table.identity) for row in deletes.iter_rows(named=True)]
        fresh = [] if upserts is None else list(upserts.iter_rows(named=True))
        if upserts is not None:
            want = {**table.schema, ACCESS_TIME: pl.Int64()}
            if dict(upserts.select(list(want)).schema) != want:
                raise ValueError(f"{table.name}: columns {dict(upserts.schema)}, expected {want}")
        written = {_key(row, table.identity): row for row in fresh}
        if len(written) != len(fresh):
            raise ValueError(f"{table.name}: two upserts of one row")
        if not written.keys().isdisjoint(gone):
            raise ValueError(f"{table.name}: a row is both written and deleted")
        if any(row[ACCESS_TIME] is None for row in fresh):
            raise ValueError(f"{table.name}: a row has no time of access")
        for key in gone:
            rows.pop(key, None)
        rows.update(written)

    def expire(self, now: int, ttl: Sequence[int]) -> None:
        """Drops the rows whose time is up."""
        for table, rows in zip(self.kernel.tables, self.tables, strict=True):
            limit = ttl[table.slot]
            for key in [k for k, row in rows.items() if limit and row[ACCESS_TIME] + limit <= now]:
                del rows[key]

    def _rows(self, table: StateTable) -> dict[Hashable, Row]:
        return self.tables[self.kernel.tables.index(table)]


def _key(row: Row, names: Sequence[str]) -> Hashable:
    return tuple(_comparable(row[name]) for name in names)


def _comparable(value: Any) -> Hashable:
    """``value`` such that equal keys are equal and have one hash: NaN equals NaN, lists and rows by content."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, list):
        return tuple(_comparable(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, _comparable(v)) for k, v in value.items())
    return (type(value).__name__, value)
