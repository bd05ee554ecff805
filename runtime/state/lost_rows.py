"""Rows that expired and are remembered: what ``table.exec.state.audit`` follows until a later row needs them.

Without an audit, merges drop expired rows. With one, the rows of some keys go to a list of runs of their own instead,
one per state table. Kernels never see that list, so the results of a job are those without the audit, and so are the
live runs. A row is on the list until the retention is over, and counts until a row with its identity is written or
deleted.

The keys that are followed are those in some key groups whose hash, mixed anew, is small enough: the same ones in all
micro-batches and tasks. The other key groups have no audit, and cost nothing. ``n`` rows so found are estimated to be
``n / fraction`` (Horvitz and Thompson, 1952).
"""

from __future__ import annotations

import numpy as np
import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.small_frames import rows_at
from stateplan.common.ttl import NEVER
from stateplan.runtime.hashing import Hashes
from stateplan.runtime.kernel import ACCESS_TIME, StateTable
from stateplan.runtime.kernels.common.key_ids import Bools
from stateplan.runtime.state.matching import match
from stateplan.runtime.state.run_list import PartStore, RunList
from stateplan.runtime.state.runs import (
    HASH,
    TOMBSTONE,
    Rows,
    RunInfo,
    aligned,
    lookup,
    merge_runs,
    state_rows,
)

LOST_ROWS = "@lost"
"""Behind the name of a state table in the list of runs: the rows of it that have expired."""

_MIX = np.uint64(0x9E3779B97F4A7C15)
_RANGE = 2.0**64
_SMALL = 1024
"""A run that has fewer rows takes in further ones."""


@dataclass(frozen=True)
class Audit:
    """Which expired rows of an operator are remembered, and how long.

    Attributes:
        one_in: one in this number of keys is followed.
        retention: see :class:`AuditedKeys`.
    """

    one_in: int
    retention: int

    def keys_in(self, group: int, groups: int) -> AuditedKeys | None:
        """The keys that are followed in a key group, one of ``groups``; None for none.

        They are in as few key groups as possible, because each one that has any takes more time.
        """
        count = -(-groups // self.one_in)
        return AuditedKeys(groups / (count * self.one_in), self.retention) if group < count else None


@dataclass(frozen=True)
class AuditedKeys:
    """Which expired rows of a key group are remembered, and how long.

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

    Live runs give them away when they drop them: the older version of a row always before the newer one, and a deletion
    too. So the newest version counts, here or in the live runs, and nothing has to be done when rows are written.

    Args:
        table: the table.
        keys: which of them are remembered.
        parts: of their runs.
        store: holds these.
    """

    def __init__(self, table: StateTable, keys: AuditedKeys, parts: list[RunInfo], store: PartStore) -> None:
        self.runs = RunList(table, parts, store)
        self._table, self._keys = table, keys
        self._is_fresh = False

    def take(self, rows: Rows) -> None:
        """Takes in rows of a run that are dropped: expired ones and tombstones."""
        is_mine = self._keys.covers(rows.hashes)
        if not self.runs.parts and is_mine.any():
            is_mine[is_mine] = ~rows.frame[TOMBSTONE].to_numpy()[is_mine]
        if not is_mine.any():
            return
        frame = rows_at(rows.frame, np.flatnonzero(is_mine))
        small_run = self.runs.take_small_run(_SMALL - frame.height)
        if small_run is not None:
            frame = merge_runs(self._table, [small_run, frame], 0, NEVER, oldest=not self.runs.parts)
        if frame.height:
            self.runs.append(frame)
        self._is_fresh = True

    def among(self, versions: pl.DataFrame | None, hashes: Hashes, now: int, ttl: int) -> pl.DataFrame | None:
        """The expired rows of some keys, as a frame of :func:`runtime.state.runs.lookup`; None if there are none.

        Args:
            versions: the newest versions of rows in the live runs, or None.
            hashes: of the keys, ascending and each once.
            now, ttl: rows last accessed ``ttl`` ms before ``now`` or earlier have expired.
        """
        hashes = hashes[self._keys.covers(hashes)]
        if not len(hashes):
            return None
        lifetime = self._keys.lifetime(ttl)
        frames = []
        if self.runs.parts:
            rows = lookup(self._table, self.runs.newest_first(hashes), hashes, now, lifetime)
            if rows.height and versions is not None:
                rows = rows_at(rows, np.flatnonzero(~_is_among(self._table, rows, versions)))
            frames.append(rows)
        if versions is not None and ttl != NEVER:
            times = versions[ACCESS_TIME].to_numpy()
            is_lost = times <= now - ttl
            if lifetime != NEVER:
                is_lost &= times > now - lifetime
            if is_lost.any():
                is_lost &= ~versions[TOMBSTONE].to_numpy()
                is_lost[is_lost] = self._keys.covers(versions[HASH].to_numpy()[is_lost])
                frames.append(state_rows(self._table, rows_at(versions, np.flatnonzero(is_lost))))
        frames = [rows for rows in frames if rows.height]
        return pl.concat(aligned(frames)) if frames else None

    def tend(self, now: int, ttl: int) -> bool:
        """Keeps runs few, and drops what has been remembered long enough, if any row came in; whether one did."""
        if not self._is_fresh:
            return False
        lifetime = self._keys.lifetime(ttl)
        self.runs.drop_expired(now, lifetime)
        self.runs.tend(now, lifetime)
        self._is_fresh = False
        return True


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
    out: Bools = match(rows, others, [(name, name) for name in table.identity]) >= 0
    return out
