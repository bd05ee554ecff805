"""Tables that hold the rows of a source: read once to see which rows they have, and once to copy those.

The copies are sorted by position, in files of bounded size. So the rows are read in the order of the source, however
they are spread over the files of the table, and again after an interruption, whatever the table has got since.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl

from stateplan.common.errors import CheckpointError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath, write_whole
from stateplan.connectors.history import HistoryLost, PastSplit, PositionedSource
from stateplan.connectors.history_table import PART, POSITION, HistoryTable, TableRows
from stateplan.connectors.protocol import Offset, Source
from stateplan.connectors.splits import AssignedSplit, EndOfInput, Split
from stateplan.evolution.positions import Scan, TableSplit, merged_history, scan
from stateplan.runtime.worker import with_coded_errors

if TYPE_CHECKING:
    import pyarrow as pa

COPIES = "name string, part string, place long, height long, first long, last long"
"""What a task says of the rows that it has copied, in Spark's terms."""

_FILE_BYTES = 32 << 20
_LISTING = "copies.json"

Key: TypeAlias = tuple[int, int | None]
"""The node of a source, and over how much time the rows of a split may have arrived."""

Run: TypeAlias = Callable[["CopyRows"], Sequence[tuple[str, str, int, int, int, int]]]
"""Runs a task over the numbers of its splits, and returns what it says."""


@dataclass(frozen=True)
class Copy:
    """Rows of a part, ascending, in a file.

    Attributes:
        name: the name of the file.
        part: the part.
        place, height: the place of the first row in the file, and their number.
        first, last: the positions of the first row and of the last one.
    """

    name: str
    part: str
    place: int
    height: int
    first: int
    last: int


@dataclass(frozen=True)
class CopyRows:
    """Copies the rows of a table that are read, sorted by part and position: for ``mapInArrow``.

    Attributes:
        rows: reads the table.
        splits: what the table consists of. Each task gets the numbers of some of them.
        spans: as of :class:`Scan`.
        folder: for the files.
    """

    rows: TableRows
    splits: tuple[Split, ...]
    spans: Mapping[str, tuple[int, int]]
    folder: AnyPath

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        copies = list(with_coded_errors(self._copies)(batches))
        if copies:
            types = (pa.string(), pa.string(), *[pa.int64()] * 4)
            columns = [pa.array(c, t) for c, t in zip(zip(*copies, strict=True), types, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, names=[field.split()[0] for field in COPIES.split(", ")])

    def _copies(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, str, int, int, int, int]]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            for part, frame in enumerate(_merge_frames(map(self._rows_to_read, self.rows.read(self.splits[number])))):
                yield from self._write(f"{number}-{part}", frame.sort(PART, POSITION))

    def _rows_to_read(self, frame: pl.DataFrame) -> pl.DataFrame:
        parts, spans = list(self.spans), list(self.spans.values())
        bounds = pl.DataFrame(
            {PART: parts, "start": [start for start, _ in spans], "stop": [stop for _, stop in spans]},
            schema={PART: pl.String, "start": pl.Int64, "stop": pl.Int64},
        )
        is_wanted = (pl.col(POSITION) >= pl.col("start")) & (pl.col(POSITION) < pl.col("stop"))
        return frame.join(bounds, on=PART).filter(is_wanted).drop("start", "stop")

    def _write(self, name: str, frame: pl.DataFrame) -> Iterator[tuple[str, str, int, int, int, int]]:
        sink = io.BytesIO()
        self.rows.rows(frame).with_columns(frame[POSITION]).write_ipc(sink, compression="uncompressed")
        (self.folder / name).write_bytes(sink.getvalue())
        groups = frame.group_by(PART, maintain_order=True)
        figures = groups.agg(
            pl.len(), pl.col(POSITION).first().alias("first"), pl.col(POSITION).last().alias("last")
        ).rows()
        place = 0
        for part, height, first, last in figures:
            yield name, part, place, height, first, last
            place += height


def _merge_frames(frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Frames of about :data:`_FILE_BYTES`, none of them empty."""
    some: list[pl.DataFrame] = []
    for frame in frames:
        some += [frame] if frame.height else []
        if sum(f.estimated_size() for f in some) >= _FILE_BYTES:
            yield pl.concat(some)
            some = []
    if some:
        yield pl.concat(some)


@dataclass(frozen=True)
class JoinedSource(Source[Any]):
    """A source of which another table holds the first rows of each part.

    Attributes:
        reader: the source.
        key: what distinguishes the copies.
        folder: has them.
        ignores_gaps: whether positions without a row are none that lack.
        copies: of the rows of the table, by part.
    """

    reader: Source[Any]
    key: Key
    folder: AnyPath | None
    ignores_gaps: bool
    copies: Mapping[str, Sequence[Copy]]

    def check(self, name: str) -> None:
        self.reader.check(name)

    def splits(self, batch: pa.RecordBatch) -> Sequence[AssignedSplit[Any] | EndOfInput]:
        return self.reader.splits(batch)

    def read(self, split: Split) -> Iterator[pl.DataFrame]:
        if not isinstance(split, TableSplit):
            yield from self.reader.read(split)
        elif (rows := self._copied_rows(split)).height:
            yield rows

    def _copied_rows(self, split: TableSplit) -> pl.DataFrame:
        if self.folder is None or split.start == split.stop:
            return pl.DataFrame()
        frames: list[pl.DataFrame] = []
        for copy in self.copies.get(split.part, ()):
            if copy.first < split.stop and copy.last >= split.start:
                rows = _file(self.folder / copy.name)[copy.place : copy.place + copy.height]
                edges = np.searchsorted(rows[POSITION].to_numpy(), [split.start, split.stop])
                frames.append(rows[int(edges[0]) : int(edges[1])])
        rows = pl.concat(frames).sort(POSITION) if frames else pl.DataFrame({POSITION: []})
        positions = rows[POSITION].to_numpy()
        is_complete = len(positions) == split.stop - split.start or self.ignores_gaps
        if not is_complete or (np.diff(positions) < 1).any():
            why = "the table that holds its rows has changed since they were counted"
            raise CheckpointError("CKPT054", what=f"'{split.part}'", why=why, folder=self.folder)
        return rows.drop(POSITION)


@lru_cache(maxsize=4)
def _file(path: AnyPath) -> pl.DataFrame:
    """The rows of a file. Of a local one, only those that are read come into memory."""
    import pyarrow as pa

    try:
        source = pa.memory_map(str(path)) if isinstance(path, Path) else pa.py_buffer(path.read_bytes())
        frame = pl.from_arrow(pa.ipc.open_file(source).read_all(), rechunk=False)
        assert isinstance(frame, pl.DataFrame)
        return frame
    except pa.ArrowNotImplementedError:  # of numbers of 128 bits, which times in nanoseconds are
        return pl.read_ipc(io.BytesIO(path.read_bytes()))


class HistoryTables:
    """The tables that hold rows of sources of a plan.

    Args:
        tables: by node of the source.
        folder: where the copies of a table are, by what distinguishes them; None where none are made.
        tell: gets a line about what takes a while.
    """

    def __init__(
        self,
        tables: Mapping[int, HistoryTable],
        folder: Callable[[object], AnyPath] | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.tables = tables
        self._folder, self._tell = folder, tell
        self._scans: dict[Key, Scan] = {}
        self._tasks: dict[Key, CopyRows] = {}
        self._copies: dict[Key, Sequence[Copy]] = {}

    def history(
        self,
        node: int,
        reader: PositionedSource[Any],
        begin: Offset,
        end: Offset,
        step: int | None,
        size: int,
        since: int | None,
    ) -> Iterator[PastSplit[Any]]:
        """What a source has read: from its table what that has, and the rest from the source. ``node`` is that of the
        source; the others are as of :meth:`connectors.history.RepeatableSource.history`, and so are the errors."""
        table = self.tables[node]
        if (step is not None or since is not None) and reader.time_key not in table.keys:
            raise HistoryLost(f"no column METADATA FROM '{reader.time_key}' says when rows arrived")
        if (node, step) not in self._scans:
            first_left = reader.first_positions(end) if table.ignores_gaps else None
            self._scan(node, reader, reader.spans(begin, end), step, size, since, first_left)
        result = self._scans[node, step]
        stops = {part: stop for part, (_, stop) in result.spans.items()}
        rest = reader.rest(begin, end, stops)
        later = iter(()) if rest is None else self._rest(node, reader, *rest, step, size, since)
        return merged_history(result.past_splits(), later)

    def _rest(
        self, node: int, reader: PositionedSource[Any], begin: Offset, end: Offset, *arguments: Any
    ) -> Iterator[PastSplit[Any]]:
        try:
            yield from reader.history(begin, end, *arguments)
        except HistoryLost as reason:
            missing_rows = [f"{start} of {part}" for part, (start, _) in sorted(reader.spans(begin, end).items())]
            name = self.tables[node].table.name
            raise HistoryLost(f"table '{name}' lacks row {', '.join(missing_rows[:3])}; and {reason}") from reason

    def _scan(
        self,
        node: int,
        reader: PositionedSource[Any],
        spans: Mapping[str, tuple[int, int]],
        step: int | None,
        size: int,
        since: int | None,
        first_left: Mapping[str, int] | None,
    ) -> None:
        key, table = (node, step), self.tables[node]
        folder = self.folder(key)
        if folder is not None and (folder / _LISTING).exists():
            listing = json.loads((folder / _LISTING).read_text())
            self._scans[key] = Scan(
                {part: tuple(span) for part, span in listing["spans"].items()}, listing["cuts"], listing["row_size"]
            )
            self._copies[key] = [Copy(*copy) for copy in listing["copies"]]
            return
        self._tell(f"reading which rows table '{table.table.name}' has")
        rows = TableRows.of(table, reader, list(spans), with_values=False)
        splits = rows.splits()
        frames = (frame for split in splits for frame in rows.read(split))
        table_bytes = sum(split.byte_count for split in splits)
        self._scans[key] = result = scan(
            frames,
            rows.name,
            spans,
            table_bytes=table_bytes,
            step=step,
            size=size,
            since=since,
            first_left=first_left,
        )
        if folder is not None:
            rows = TableRows.of(table, reader, list(spans), with_values=True)
            self._tasks[key] = CopyRows(rows, tuple(splits), result.spans, folder)

    def folder(self, key: Key) -> AnyPath | None:
        """Where the copies of a table are."""
        table = self.tables[key[0]].table
        return (
            None if self._folder is None else self._folder(["table", *key, table.name, sorted(table.options.items())])
        )

    @property
    def folders(self) -> list[AnyPath]:
        """Where the copies of all tables are that have been scanned."""
        return [folder for key in self._scans if (folder := self.folder(key)) is not None]

    def source(self, node: int, step: int | None, reader: Source[Any]) -> JoinedSource:
        """What reads the rows of a source, in copies and in the source itself."""
        copies: dict[str, list[Copy]] = {}
        for copy in self._copies.get((node, step), ()):
            copies.setdefault(copy.part, []).append(copy)
        return JoinedSource(reader, (node, step), self.folder((node, step)), self.tables[node].ignores_gaps, copies)

    def copy(self, key: Key, run: Run) -> None:
        """Copies the rows of a table that are read, if that has not been done. Raises what the task raises."""
        if key in self._copies:
            return
        task, result = self._tasks[key], self._scans[key]
        self._tell(f"copying rows of table '{task.rows.name}'")
        task.folder.mkdir(parents=True, exist_ok=True)
        copies = run(task)
        facts = {"spans": result.spans, "cuts": result.cuts, "row_size": result.row_size, "copies": copies}
        write_whole(task.folder / _LISTING, json.dumps(facts))
        self._copies[key] = [Copy(*copy) for copy in copies]
