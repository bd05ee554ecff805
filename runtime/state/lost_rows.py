"""Rows that expired and are remembered: what ``table.exec.state.audit`` follows until a later row needs them.

Without an audit, merges drop expired rows. With one, the rows of some keys go to a list of runs of their own instead,
one per state table. Kernels never see that list, so the results of a job are those without the audit, and so are the
live runs. A row leaves the list when a row with its identity is written or deleted, and after the retention.

The keys that are followed are those whose hash, mixed anew, is small enough: the same ones in all micro-batches, tasks
and states. A count of ``n`` rows so found stands for ``n / fraction`` (Horvitz and Thompson, 1952).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from stateplan.common.small_frames import rows_at
from stateplan.common.ttl import NEVER
from stateplan.runtime.hashing import Hashes
from stateplan.runtime.kernel import ACCESS_TIME, StateTable
from stateplan.runtime.kernels.common.key_ids import Bools, ids_of, positions
from stateplan.runtime.state.run_list import PartStore, RunList
from stateplan.runtime.state.runs import (
    HASH,
    TOMBSTONE,
    Rows,
    RunInfo,
    aligned,
    build_run,
    lookup,
    newest_versions,
    state_rows,
)

LOST_ROWS = "@lost"
"""Behind the name of a state table in the list of runs: the rows of it that have expired."""

_MIX = np.uint64(0x9E3779B97F4A7C15)
_RANGE = 2.0**64


@dataclass(frozen=True)
class AuditedKeys:
    """Which expired rows are remembered, and how long.

    Attributes:
        fraction: the share of keys, above 0 and at most 1.
        retention: how long after they expired, ms; 0 is as long as the job lives.
    """

    fraction: float
    retention: int

    def covers(self, hashes: Hashes) -> Bools:
        """Which of the hashes are those of such keys."""
        if self.fraction >= 1:
            return np.ones(len(hashes), bool)
        # Key groups go by the lower bits of the hash, runs by the upper ones. The upper bits of the product depend on
        # all of them.
        out: Bools = hashes * _MIX < np.uint64(self.fraction * _RANGE)
        return out

    def lifetime(self, ttl: int) -> int:
        """For how long after their last access rows are remembered, ms; 0 is for ever."""
        return NEVER if NEVER in (ttl, self.retention) else ttl + self.retention


class LostRows:
    """The expired rows of a state table in one key group.

    Args:
        table: the table.
        keys: which of them are remembered.
        parts: of their runs.
        store: holds these.
    """

    def __init__(self, table: StateTable, keys: AuditedKeys, parts: list[RunInfo], store: PartStore) -> None:
        self.runs = RunList(table, parts, store)
        self._table, self._keys = table, keys

    def take(self, rows: Rows, newer: Callable[[Hashes], Iterable[Rows]]) -> None:
        """Takes in rows that expired, instead of their being dropped.

        Args:
            rows: of one part or of several that were merged; tombstones do not count.
            newer: the newer parts of the table with any of some hashes, the newest first.
        """
        is_lost = self._keys.covers(rows.hashes)
        is_lost[is_lost] = ~rows.frame[TOMBSTONE].to_numpy()[is_lost]
        if not is_lost.any():
            return
        lost_rows = rows_at(rows.frame, np.flatnonzero(is_lost))
        hashes = np.unique(rows.hashes[is_lost])
        successors = newest_versions(self._table, newer(hashes), hashes)
        if successors is not None:
            lost_rows = rows_at(lost_rows, np.flatnonzero(~_is_among(self._table, lost_rows, successors)))
        if lost_rows.height:
            self.runs.append(lost_rows)

    def among(self, versions: pl.DataFrame | None, hashes: Hashes, now: int, ttl: int) -> pl.DataFrame:
        """The expired rows of some keys, as a frame of :func:`runtime.state.runs.lookup`.

        Args:
            versions: the newest versions of rows in the live runs, or None.
            hashes: of the keys, ascending and each once.
            now, ttl: rows last accessed ``ttl`` ms before ``now`` or earlier have expired.
        """
        lifetime = self._keys.lifetime(ttl)
        hashes = hashes[self._keys.covers(hashes)]
        parts = self.runs.newest_first(hashes) if self.runs.parts else ()
        out = lookup(self._table, parts, hashes, now, lifetime)
        if versions is None or ttl == NEVER:
            return out
        times = versions[ACCESS_TIME].to_numpy()
        is_lost = times <= now - ttl
        if lifetime != NEVER:
            is_lost &= times > now - lifetime
        if not is_lost.any():
            return out
        is_lost &= ~versions[TOMBSTONE].to_numpy()
        is_lost[is_lost] = self._keys.covers(versions[HASH].to_numpy()[is_lost])
        rows = state_rows(self._table, rows_at(versions, np.flatnonzero(is_lost)))
        return rows if not out.height else pl.concat(aligned([out, rows]))

    def forget(self, written_rows: pl.DataFrame, now: int) -> bool:
        """Forgets rows that are written or deleted now; whether there are any.

        Args:
            written_rows: a run.
        """
        if not self.runs.parts:
            return False
        places = np.flatnonzero(self._keys.covers(written_rows[HASH].to_numpy()))
        if not len(places):
            return False
        written_rows = rows_at(written_rows, places)
        hashes = np.unique(written_rows[HASH].to_numpy())
        lost_rows = newest_versions(self._table, self.runs.newest_first(hashes), hashes)
        if lost_rows is None:
            return False
        lost_rows = lost_rows.filter(~pl.col(TOMBSTONE))
        outdated_rows = rows_at(lost_rows, np.flatnonzero(_is_among(self._table, lost_rows, written_rows)))
        tombstones = build_run(self._table, None, outdated_rows[identity_of(self._table)], now)
        if tombstones is None:
            return False
        self.runs.append(tombstones)
        return True

    def tend(self, now: int, ttl: int) -> bool:
        """Drops what has been remembered long enough, and keeps runs few; whether there was anything to do."""
        if not self.runs.parts:
            return False
        lifetime = self._keys.lifetime(ttl)
        return self.runs.drop_expired(now, lifetime) | self.runs.tend(now, lifetime)


def with_retracted(
    table: StateTable, upserts: pl.DataFrame | None, deletes: pl.DataFrame | None, retracted_rows: pl.DataFrame
) -> pl.DataFrame:
    """What a step deletes, with expired rows that its input retracts: without these, they could still be needed. A row
    that is written anyway replaces the expired one."""
    identity = identity_of(table)
    for changes in (upserts, deletes):
        if changes is not None and changes.height:
            retracted_rows = rows_at(retracted_rows, np.flatnonzero(~_is_among(table, retracted_rows, changes)))
    parts = [retracted_rows[identity], *([] if deletes is None else [deletes[identity]])]
    return pl.concat(parts)


def identity_of(table: StateTable) -> list[str]:
    """The columns of a frame of deletes of a table; one without identity has one row, and any column stands for it."""
    return list(table.identity) or [ACCESS_TIME]


def _is_among(table: StateTable, rows: pl.DataFrame, others: pl.DataFrame) -> Bools:
    """Which rows have the identity of one of ``others``."""
    if not table.identity:
        return np.full(rows.height, others.height > 0)
    ids, (codes, other_codes) = ids_of((rows, others), list(table.identity))
    out: Bools = positions(other_codes, ids.count)[codes] >= 0
    return out
