"""Counting the rows of a state table: how many there are, how old they are, and what a TTL would leave of them.

A row of a table is the newest version that its runs have of it, unless that is a tombstone. Whether it has expired is
decided as the runtime does it when it reads (:func:`runtime.state.ttl_access.expiry_clock`): a row is
*live* while its
time of access is later than the *cut*, the instant one TTL ago. Rows that have expired are there until something
removes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

import numpy as np
import numpy.typing as npt
import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import NEVER, TtlConfig
from stateplan.runtime.kernel import ACCESS_TIME, NO_WATERMARK, StateTable
from stateplan.runtime.state.runs import HASH, TOMBSTONE, RunInfo, merge_runs
from stateplan.runtime.state.ttl_access import expiry_clock

UNDATED = 2**61
"""Rows with a time of access at or after this one never expire, whatever the TTL: it does not mean a time."""

_RUN = "@run"
_MOST_TIMES = 2048
"""Up to this number of distinct times of access are reported one by one; more are reported as this number of
quantiles."""


def cut_of(config: TtlConfig, now: int, watermark: int = NO_WATERMARK) -> int | None:
    """The latest time of access that has expired (ms); None if nothing has.

    Args:
        config: how the state ages.
        now: the instant that ages are counted from, ms.
        watermark: the watermark of the operator, by which state ages that does so by event time.
    """
    clock, ttl = expiry_clock(config, now, watermark)
    return None if ttl == NEVER else clock - ttl


@dataclass
class Aged:
    """The rows whose last access is not after some instant, and the bytes they take."""

    rows: int = 0
    bytes: float = 0.0

    def __add__(self, other: Aged) -> Aged:
        return Aged(self.rows + other.rows, self.bytes + other.bytes)


@dataclass
class TableFigures:
    """The figures of a table, of one key group or of several.

    Attributes:
        runs: how many runs hold it.
        versions: rows in all runs, those replaced since and tombstones included.
        bytes: what the runs take in the state store.
        rows: rows that are there, expired ones included.
        rows_bytes: their share of ``bytes``; the rest is of versions that are replaced, and tombstones.
        keys: different keys of live rows.
        aged: per cut requested, the rows at or before it.
        oldest, newest: times of access of live rows, ms; None without any.
        times: (time of access, rows) of live rows, ascending; quantiles where there are very many.
    """

    runs: int = 0
    versions: int = 0
    bytes: int = 0
    rows: int = 0
    rows_bytes: float = 0.0
    keys: int = 0
    aged: list[Aged] = field(default_factory=list)
    oldest: int | None = None
    newest: int | None = None
    times: list[tuple[int, int]] = field(default_factory=list)

    @property
    def median(self) -> int | None:
        """The time of access that half of the live rows are not younger than, ms; None without any."""
        total = sum(n for _, n in self.times)
        rows_so_far = 0
        for time, rows in sorted(self.times):
            rows_so_far += rows
            if 2 * rows_so_far >= total:
                return time
        return None

    def __add__(self, other: TableFigures) -> TableFigures:
        both = bool(self.aged) and bool(other.aged)
        # Of states that were asked about other TTLs too, only what all of them were asked about adds up.
        aged = [a + b for a, b in zip(self.aged, other.aged, strict=False)] if both else [*self.aged, *other.aged]
        return TableFigures(
            self.runs + other.runs,
            self.versions + other.versions,
            self.bytes + other.bytes,
            self.rows + other.rows,
            self.rows_bytes + other.rows_bytes,
            self.keys + other.keys,
            aged,
            min((t for t in (self.oldest, other.oldest) if t is not None), default=None),
            max((t for t in (self.newest, other.newest) if t is not None), default=None),
            [*self.times, *other.times],
        )


def current_rows(table: StateTable, runs: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows of a table, expired ones included, of runs that are ordered oldest first; columns beside those of the
    table stay."""
    rows = merge_runs(table, runs, now=0, ttl=NEVER, oldest=False)
    flags = rows[TOMBSTONE]
    return rows.filter(~flags) if flags.any() else rows


def count_table(
    table: StateTable, runs: Iterable[tuple[RunInfo, pl.DataFrame]], cuts: Sequence[int | None]
) -> TableFigures:
    """The figures of a table in one key group.

    Args:
        runs: the parts of its runs, oldest first.
        cuts: the instants (ms) for which aged rows are counted; the first one separates live rows from expired ones.
            None is before all time.
    """
    names = list(dict.fromkeys([*table.lookup, *table.identity]))
    infos, frames = [], []
    for number, (info, frame) in enumerate(runs):
        infos.append(info)
        frames.append(frame.select(*names, ACCESS_TIME, HASH, TOMBSTONE, pl.lit(number, pl.Int32).alias(_RUN)))
    figures = TableFigures(
        len({info.run for info in infos}),
        sum(info.rows for info in infos),
        sum(info.size for info in infos),
        aged=[Aged() for _ in cuts],
    )
    if not figures.versions:
        return figures
    rows = current_rows(table, frames)
    shares = np.array([info.size / max(1, info.stored_rows) for info in infos])
    weights = shares[rows[_RUN].to_numpy()]
    times = rows[ACCESS_TIME].to_numpy()
    figures.rows, figures.rows_bytes = rows.height, float(weights.sum())
    for place, cut in enumerate(cuts):
        if cut is not None:
            old = times <= cut
            figures.aged[place] = Aged(int(old.sum()), float(weights[old].sum()))
    first = cuts[0]
    live = np.ones(len(times), bool) if first is None else times > first
    if live.any():
        figures.keys = _keys(rows, table, live)
    has_date = live & (times < UNDATED)
    if has_date.any():
        figures.oldest, figures.newest = int(times[has_date].min()), int(times[has_date].max())
        figures.times = _times(times[has_date])
    return figures


def _keys(rows: pl.DataFrame, table: StateTable, live: npt.NDArray[np.bool_]) -> int:
    if not table.lookup:
        return 1
    keys = rows.select(table.lookup).filter(pl.Series(live))
    return keys.n_unique()


def _times(times: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    values, counts = np.unique(times, return_counts=True)
    if len(values) > _MOST_TIMES:
        ends = (np.arange(1, _MOST_TIMES + 1) * len(times)) // _MOST_TIMES
        values, counts = np.sort(times)[ends - 1], np.diff(ends, prepend=0)
    return [(int(t), int(n)) for t, n in zip(values, counts, strict=True)]
