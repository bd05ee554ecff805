"""Which rows of a source another table holds: each position of its parts exactly once, from the first one on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.history import HistoryLost, PastSplit
from stateplan.connectors.history_table import PART, POSITION, TIME
from stateplan.connectors.splits import Split

if TYPE_CHECKING:
    import numpy.typing as npt

_CHUNK = 1 << 16
_MOST_ROWS = 100_000
"""Rows in a split, at most: it is read into memory."""

_HOUR = 3_600_000
"""Where the clock need not be exact, the times of rows are recorded by the hour."""


class Positions:
    """A set of positions. Those in a row take next to no memory, others a bit each."""

    def __init__(self) -> None:
        self._whole_chunks: set[int] = set()
        self._bits: dict[int, npt.NDArray[np.uint8]] = {}

    def add(self, positions: npt.NDArray[np.int64]) -> int | None:
        """Adds positions, ascending. Returns one that is in the set already, or comes twice; None without any."""
        duplicates = positions[1:][np.diff(positions) == 0]
        if len(duplicates):
            return int(duplicates[0])
        numbers = positions // _CHUNK
        edges = np.flatnonzero(np.diff(numbers)) + 1
        for some in np.split(positions, edges) if len(positions) else ():
            number, places = int(some[0]) // _CHUNK, some % _CHUNK
            if number in self._whole_chunks:
                return int(some[0])
            before = self._bits.get(number)
            bits = np.zeros(_CHUNK, np.uint8) if before is None else np.unpackbits(before)
            if bits[places].any():
                return int(some[bits[places].argmax()])
            bits[places] = 1
            if bits.all():
                self._whole_chunks.add(number)
                self._bits.pop(number, None)
            else:
                self._bits[number] = np.packbits(bits)
        return None

    def __contains__(self, position: int) -> bool:
        number, place = divmod(position, _CHUNK)
        return number in self._whole_chunks or (number in self._bits and bool(np.unpackbits(self._bits[number])[place]))

    def first_gap(self, start: int) -> int:
        """The first position from ``start`` on that is not in the set."""
        number, place = divmod(start, _CHUNK)
        while True:
            if number in self._bits:
                gaps = np.flatnonzero(np.unpackbits(self._bits[number])[place:] == 0)
                if len(gaps):
                    return number * _CHUNK + place + int(gaps[0])
            elif number not in self._whole_chunks:
                return number * _CHUNK + place
            number, place = number + 1, 0


@dataclass(frozen=True)
class TableSplit(Split):
    """Rows of a part that follow each other, from position ``start`` to before ``stop``, of about ``size`` bytes."""

    start: int
    stop: int
    size: int = 0

    @property
    def byte_count(self) -> int:
        return self.size


@dataclass
class _Part:
    """What a table has of a part between two positions.

    Attributes:
        start, stop: the positions.
        width: for each interval of so many milliseconds, the first row that arrived in it is recorded.
        positions: what the table has.
        first_rows: these rows, by number of the interval: position and time.
        behind: the position behind the last one of which the table has the row.
        since: the first position of a row that arrived at this time or later; None without a time.
        has_times: whether all rows say when they arrived.
    """

    start: int
    stop: int
    width: int
    positions: Positions = field(default_factory=Positions)
    first_rows: dict[int, tuple[int, int]] = field(default_factory=dict)
    behind: int = 0
    since: int | None = None
    has_times: bool = True

    def add(self, rows: pl.DataFrame, since: int | None) -> int | None:
        """Adds rows, by ascending position. Returns the position of one that comes twice; None without any."""
        self.behind = max(self.behind, int(rows[POSITION][-1]) + 1)
        if rows[TIME].null_count():
            self.has_times = False
        else:
            interval = (pl.col(TIME) // self.width).alias("interval")
            for number, position, at in rows.group_by(interval).agg(pl.col(POSITION, TIME).first()).rows():
                self.first_rows[number] = min(self.first_rows.get(number, (position, at)), (position, at))
            later = rows.filter(pl.col(TIME) >= since) if since is not None else rows.clear()
            if later.height:
                self.since = min(int(later[POSITION][0]), self.stop if self.since is None else self.since)
        return self.positions.add(rows[POSITION].to_numpy())

    def span(self, since: int | None, first_left: int | None) -> tuple[int, int]:
        """The first position to read, and the first one from there on that the table lacks, or the end.

        Args:
            since: rows that arrived before are left out: those that the table lacks must be older than one that it has.
            first_left: the first position that the source still has; gaps before it are ignored. None for no gaps.
        """
        start = self.start
        if since is not None:
            first = max(self.start, self.behind) if self.since is None else self.since
            start = first if first - 1 in self.positions or first_left is not None else self.start
        if first_left is None:
            return start, min(self.stop, self.positions.first_gap(start))
        rest = self.behind if self.behind <= first_left else self.positions.first_gap(max(start, first_left))
        return start, max(start, min(self.stop, rest))

    def cuts(self, start: int, stop: int, step: int | None, most: int) -> Iterator[tuple[int, int, int | None]]:
        """The splits between two positions: start, stop, and time of arrival; the times ascend.

        Args:
            start, stop: the positions.
            step: over how much time the rows of a split may have arrived, ms; None for any.
            most: rows in a split.
        """
        firsts: list[tuple[int, int]] = []
        for _, first in sorted(self.first_rows.items(), reverse=True):
            if not firsts or first < firsts[-1]:
                firsts.append(first)
        firsts.reverse()
        edges = [start, *(p for p, _ in firsts if start < p < stop)] if step is not None else [start]
        last, number = -1, 0
        for edge, after in zip(edges, [*edges[1:], stop], strict=True):
            for place in range(edge, after, most):
                while number + 1 < len(firsts) and firsts[number + 1][0] <= place:
                    number += 1
                if self.has_times:
                    last = max(firsts[number][1], last + 1)
                yield place, min(after, place + most), last if self.has_times else None


@dataclass(frozen=True)
class Scan:
    """What a table holds of a source.

    Attributes:
        spans: by part, the positions of the rows that are read: the first one, and the one behind the last.
        cuts: the splits: part, start, stop, time of arrival.
        row_size: about how many bytes a row has.
    """

    spans: Mapping[str, tuple[int, int]]
    cuts: Sequence[tuple[str, int, int, int | None]]
    row_size: float

    def past_splits(self) -> Iterator[PastSplit[TableSplit]]:
        """The splits, and one without rows for each part at the first time of all."""
        for part, start, stop, at in self.cuts:
            size = max(1, round((stop - start) * self.row_size))
            yield PastSplit(TableSplit(start, stop, size, part=part), at, size, _seq(part, start))
        first = min((at for _, _, _, at in self.cuts if at is not None), default=None)
        for part, (_, stop) in self.spans.items() if self.cuts else ():
            rest = TableSplit(stop, stop, part=part)
            yield PastSplit(rest, first, 0, _seq(part), rest)


def _seq(part: str, start: int = 0) -> str:
    """Before everything else of the same time: what the source itself reads follows."""
    return f"!{part}/{start:020d}"


def scan(
    frames: Iterable[pl.DataFrame],
    table: str,
    spans: Mapping[str, tuple[int, int]],
    *,
    table_bytes: int,
    step: int | None,
    size: int,
    since: int | None,
    first_left: Mapping[str, int] | None = None,
) -> Scan:
    """What a table holds of a source.

    Args:
        frames: positions and times of its rows, in any order.
        table: its name.
        spans: by part, the position that the source began with, and the one behind the last that it has read.
        table_bytes: the bytes of the table.
        step, size, since: as of :meth:`connectors.history.RepeatableSource.history`.
        first_left: by part, the first position that the source still has; gaps before it are ignored. None for no gaps.

    Raises:
        HistoryLost: a position comes twice, or a row has none.
    """
    parts = {part: _Part(start, stop, step or _HOUR) for part, (start, stop) in spans.items()}
    height = 0
    for frame in frames:
        height += frame.height
        if frame[PART].null_count() or frame[POSITION].null_count():
            raise HistoryLost(f"a row of table '{table}' does not say where it is from")
        for (name,), rows in frame.sort(POSITION).partition_by(PART, as_dict=True).items():
            part = parts.get(str(name))
            rows = rows.filter(pl.col(POSITION).is_between(part.start, part.stop - 1)) if part is not None else rows
            if part is None or not rows.height:
                continue
            twice = part.add(rows, since)
            if twice is not None:
                raise HistoryLost(f"table '{table}' has the row {twice} of {name} twice")
    row_size = table_bytes / height if height else 0.0
    most = min(_MOST_ROWS, max(1, int(size / max(row_size, 1.0))))
    left = first_left or {}
    read_spans = {name: part.span(since, left.get(name)) for name, part in parts.items()}
    cuts = [
        (number, name, *cut)
        for name, part in parts.items()
        for number, cut in enumerate(part.cuts(*read_spans[name], step, most))
    ]
    cuts.sort()  # parts that do not say when rows arrived take turns
    return Scan(read_spans, [cut[1:] for cut in cuts], row_size)


def merged_history(splits: Iterator[PastSplit[Any]], rest: Iterator[PastSplit[Any]]) -> Iterator[PastSplit[Any]]:
    """The splits of a table and those of the source that follow them, with times that ascend in each part."""
    last: dict[str, int] = {}
    for past in splits:
        if past.at is not None:
            last[past.split.part] = max(past.at, last.get(past.split.part, past.at))
        yield past
    for past in rest:
        before = last.get(past.split.part)
        if past.at is None or before is None:
            yield past
        else:
            yield replace(past, at=max(past.at, before + 1))
