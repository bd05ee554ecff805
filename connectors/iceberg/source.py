"""Reading an Iceberg table: a snapshot as it is, and the snapshots that follow it.

An offset is a snapshot and how many of its files have been read: ``{"table": .., "snapshot": 7, "sequence": 2, "file":
3, "whole": false}`` is behind the third file that snapshot 7 adds. With ``whole`` it is behind the third file of which
snapshot 7 consists. ``file`` is None when all have been read. ``snapshot`` is None before the first snapshot. The
metadata never changes what it says of a snapshot, so a micro-batch that runs again reads the same files. ``table`` is
the id of the table, which another table of the same name does not have, and ``sequence`` the number of the snapshot in
it: the next one has the next number.

Source: ``FlinkSource`` of Iceberg's Flink module, and Iceberg for Spark for the rules on snapshots that remove rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stateplan.common.errors import DataError, OptionError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.connectors.budget import Budget, Limits
from stateplan.connectors.history import HistoryLost, PastSplit, RepeatableSource
from stateplan.connectors.iceberg.access import TableAccess
from stateplan.connectors.iceberg.epochs import lineage, snapshots_of
from stateplan.connectors.iceberg.files import IcebergSplit, ScanFile
from stateplan.connectors.iceberg.pruning import expression_of
from stateplan.connectors.iceberg.schema import check_types, columns_of, ids_of, names_of
from stateplan.connectors.listing import PACKED
from stateplan.connectors.protocol import Offset, OffsetSource
from stateplan.functions.rex import Rex

if TYPE_CHECKING:
    import polars as pl
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_CACHED_PLANS = 16
"""Snapshots whose files are kept: they are planned soon after they are counted."""


@dataclass(frozen=True)
class Start:
    """Where a job without a checkpoint begins; at most one is set.

    Attributes:
        snapshot: a snapshot to read as it is.
        as_of: ms; the snapshot that was the latest then.
        branch: a branch or tag whose snapshot is read as it is.
        strategy: of a stream, by its name in Flink; None for a bounded source.
        first: the snapshot whose files are the first that a stream reads.
        first_time: ms; the first snapshot at that time or later.
        after: of a bounded source: the snapshot behind which the first one is whose files are read.
        until: of a bounded source: the last snapshot whose files are read.
    """

    snapshot: int | None = None
    as_of: int | None = None
    branch: str | None = None
    strategy: str | None = None
    first: int | None = None
    first_time: int | None = None
    after: int | None = None
    until: int | None = None


@dataclass(frozen=True)
class Rules:
    """What to do with snapshots that remove rows; by default they are errors.

    Attributes:
        skip_deletes: passes over snapshots that only remove.
        skip_overwrites: passes over snapshots that remove and add.
    """

    skip_deletes: bool = False
    skip_overwrites: bool = False


class IcebergSource(OffsetSource[IcebergSplit], RepeatableSource[IcebergSplit]):
    """See the module.

    Args:
        table: the table.
        fields: name and type of the declared columns.
        projection: positions in ``fields`` of those to read.
        metadata: keys that follow them.
        interval: milliseconds between looks for new snapshots.
        start: where it begins.
        rules: for snapshots that remove rows.
        limits: the limits of a micro-batch.
        max_snapshots: snapshots of a micro-batch.
        filters: conditions over ``fields``: files in which they hold for no row are not read.
        limit: how many rows of a file are enough.
    """

    split_type = IcebergSplit
    modules = ("pyiceberg.table", "pyiceberg.io.pyarrow", __name__)

    def __init__(
        self,
        table: TableAccess,
        fields: Sequence[tuple[str, LogicalType]],
        projection: Sequence[int],
        metadata: Sequence[str] = (),
        *,
        interval: int | None = None,
        start: Start | None = None,
        rules: Rules | None = None,
        limits: Limits | None = None,
        max_snapshots: int | None = None,
        filters: Sequence[Rex] = (),
        limit: int | None = None,
    ) -> None:
        self.table = table
        self.fields = tuple(fields)
        self.columns = tuple(self.fields[i] for i in projection)
        self.metadata = tuple(metadata)
        self.start = start or Start()
        self.bounded = self.start.strategy is None
        self.interval = None if self.bounded else interval
        self.rules = rules or Rules()
        self.limits = limits or Limits()
        self.max_snapshots = max_snapshots
        self.filters = tuple(filters)
        self.limit = limit
        self._end: int | None = None
        self._has_read = False
        self._plans: dict[tuple[int, bool], list[tuple[ScanFile, bool]]] = {}

    def check(self, name: str) -> None:
        self._check(self.table.open())

    def _schema(self, table: Table) -> Schema:
        """The columns that are declared: those of the snapshot that is read as it is, or the present ones."""
        if self.start.snapshot is not None or self.start.as_of is not None:
            snapshot = self._snapshot_to_read(table)
            if snapshot is not None and snapshot.schema_id is not None:
                return table.schemas()[snapshot.schema_id]
        return table.schema()

    def _ids(self, table: Table, columns: Sequence[tuple[str, LogicalType]]) -> tuple[int, ...]:
        """The ids of declared columns. Raises as :func:`ids_of`."""
        return ids_of([name for name, _ in columns], table.metadata, self._schema(table), self.table.label)

    def size(self) -> int | None:
        """Of the files of the snapshot that is read first, as text; None where it begins with changes."""
        table, offset = self.table.open(), self.initial_offset()
        begins_with_changes = offset["snapshot"] is not None and not offset["whole"]
        if begins_with_changes or self.start.until is not None:
            return None
        files = [] if offset["snapshot"] is None else self._files(table, offset["snapshot"], is_whole=True)
        return PACKED * sum(file.data.size for file, is_needed in files if is_needed)

    # ---- planning --------------------------------------------------------------------------------------------------

    def initial_offset(self) -> Offset:
        table = self.table.open()
        self._check(table)
        start, current = self.start, table.current_snapshot()
        self._has_read = True
        self._end = None if current is None else current.snapshot_id
        key = str(table.metadata.table_uuid)
        if start.strategy is not None:
            return self._first_of_stream(table, key)
        if start.after is not None or start.until is not None:
            until = start.until if start.until is not None else self._end
            self._end = until
            if until is not None:
                self._require(table, until)
            after = None if start.after is None else table.snapshot_by_id(start.after)
            return _offset(key, after, None) | {"snapshot": start.after}
        snapshot = self._snapshot_to_read(table)
        self._end = None if snapshot is None else snapshot.snapshot_id
        return _offset(key, snapshot, None if snapshot is None else 0, is_whole=snapshot is not None)

    def _snapshot_to_read(self, table: Table) -> Snapshot | None:
        """The snapshot that a bounded source reads; None of a table without any. Raises OptionError OPT179."""
        start = self.start
        if start.snapshot is not None:
            return self._require(table, start.snapshot)
        if start.branch is not None:
            snapshot = table.snapshot_by_name(start.branch)
            if snapshot is None:
                names = sorted(table.refs())
                hint = nearest(start.branch, names)
                raise OptionError("OPT179.name", subject=self.table.label, ref=start.branch, names=names, hint=hint)
            return snapshot
        if start.as_of is not None:
            snapshot = table.snapshot_as_of_timestamp(start.as_of)
            if snapshot is None:
                raise OptionError("OPT179.time", subject=self.table.label, time=_time_text(start.as_of), age="old")
            return snapshot
        return table.current_snapshot()

    def _require(self, table: Table, snapshot_id: int) -> Snapshot:
        snapshot = table.snapshot_by_id(snapshot_id)
        if snapshot is None:
            latest = table.current_snapshot()
            last = "none" if latest is None else latest.snapshot_id
            raise OptionError("OPT179", subject=self.table.label, snapshot=snapshot_id, latest=last)
        return snapshot

    def _first_of_stream(self, table: Table, key: str) -> Offset:
        """Source: the strategies of ``StreamingStartingStrategy``."""
        strategy, latest = self.start.strategy, table.current_snapshot()
        if strategy == "INCREMENTAL_FROM_SNAPSHOT_ID":
            assert self.start.first is not None
            return _offset(key, self._require(table, self.start.first), 0)
        if strategy == "INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP":
            assert self.start.first_time is not None
            later = [s for s in reversed(list(lineage(table))) if s.timestamp_ms >= self.start.first_time]
            if not later:
                time = _time_text(self.start.first_time)
                raise OptionError("OPT179.time", subject=self.table.label, time=time, age="new")
            return _offset(key, later[0], 0)
        if latest is None:
            return _offset(key, None, None)
        if strategy == "TABLE_SCAN_THEN_INCREMENTAL":
            return _offset(key, latest, 0, is_whole=True)
        if strategy == "INCREMENTAL_FROM_EARLIEST_SNAPSHOT":
            return _offset(key, list(lineage(table))[-1], 0)
        if strategy == "INCREMENTAL_FROM_LATEST_SNAPSHOT_EXCLUSIVE":
            return _offset(key, latest, None)
        return _offset(key, latest, 0)

    def latest_offset(self, start: Offset) -> Offset:
        table = self.table.open()
        self._arrive(table, start)
        budget = Budget(self.limits, self.pace)
        position = dict(start)
        for snapshot in self._path(table, position)[: self.max_snapshots]:
            if budget.is_used_up:
                break
            try:
                position = self._through(table, snapshot, position, budget)
            except DataError:
                if position == start:
                    raise
                break  # what is before the snapshot that cannot be read is read first
            if position["file"] is not None:
                break
        return position

    def _arrive(self, table: Table, start: Offset) -> None:
        """Looks whether the table is still the same, and, at the start of a job with a checkpoint, where it ends.

        Raises:
            DataError: DATA477, it is another one.
        """
        if str(table.metadata.table_uuid) != start["table"]:
            raise DataError("DATA477.recreated", subject=self.table.label, snapshot=start["snapshot"])
        if self._has_read:
            return
        current = table.current_snapshot()
        self._end = None if current is None else current.snapshot_id
        if self.start.until is not None:
            self._end = self.start.until
        elif self.start.snapshot is not None or self.start.as_of is not None or self.start.branch is not None:
            self._end = start["snapshot"]
        self._has_read = True

    def _path(self, table: Table, position: Offset) -> list[Snapshot]:
        """The snapshots to read from a position on. Raises as :meth:`_way`."""
        end = self._end if self.bounded else _current_id(table)
        return [] if end is None else self._way(table, position, end)

    def _way(self, table: Table, position: Offset, end: int) -> list[Snapshot]:
        """The snapshots from a position to one: the one that it is in, unless it is behind it, and those that follow.

        Raises:
            DataError: DATA477, the snapshot of the position is gone, or the table was rolled back.
        """
        later: list[Snapshot] = []
        snapshots = snapshots_of(table)
        at = snapshots.get(end)
        while at is not None and at.snapshot_id != position["snapshot"]:
            later.append(at)
            at = None if at.parent_snapshot_id is None else snapshots.get(at.parent_snapshot_id)
        if at is not None:
            return [*([] if position["file"] is None else [at]), *reversed(later)]
        # The snapshot has expired. If it was read as a whole, the next one is enough. The library forgets the parent.
        oldest = later[-1] if later and position["file"] is None else None
        follows = oldest is not None and (
            oldest.parent_snapshot_id == position["snapshot"] or oldest.sequence_number == position["sequence"] + 1
        )
        if not follows:
            raise DataError("DATA477", subject=self.table.label, snapshot=position["snapshot"], latest=end)
        return later[::-1]

    def _through(self, table: Table, snapshot: Snapshot, position: Offset, budget: Budget) -> Offset:
        """How far a snapshot may be read. Raises as :meth:`_files`; DataError DATA478, a type has changed."""
        self._check_snapshot(table, snapshot)
        is_same = snapshot.snapshot_id == position["snapshot"]
        is_whole = bool(is_same and position["whole"])
        files = self._files(table, snapshot.snapshot_id, is_whole)
        place = position["file"] if is_same else 0
        while place < len(files):
            if budget.is_used_up:
                return _offset(position["table"], snapshot, place, is_whole)
            file, is_needed = files[place]
            if is_needed:
                budget.take(file.data.size, file.data.count)
            place += 1
        return _offset(position["table"], snapshot, None)

    def plan(self, start: Offset, end: Offset) -> list[IcebergSplit]:
        table = self.table.open()
        if str(table.metadata.table_uuid) != start["table"]:
            raise DataError("DATA477.recreated", subject=self.table.label, snapshot=start["snapshot"])
        ids = self._ids(table, self.columns)
        splits: list[IcebergSplit] = []
        for snapshot, first, last, is_whole in self._stretches(table, start, end):
            files = self._files(table, snapshot.snapshot_id, is_whole)[first:last]
            splits += [
                IcebergSplit(file, snapshot.snapshot_id, snapshot.timestamp_ms, ids)
                for file, is_needed in files
                if is_needed
            ]
        return splits

    def _stretches(self, table: Table, start: Offset, end: Offset) -> Iterator[tuple[Snapshot, int, int | None, bool]]:
        """The snapshots between two offsets, and which of their files are read. Raises as :meth:`_way`."""
        if start == end or end["snapshot"] is None:
            return
        for snapshot in self._way(table, start, end["snapshot"]):
            is_first, is_last = (snapshot.snapshot_id == offset["snapshot"] for offset in (start, end))
            first = start["file"] if is_first else 0
            yield snapshot, first, end["file"] if is_last else None, bool(is_first and start["whole"])

    def _files(self, table: Table, snapshot_id: int, is_whole: bool) -> list[tuple[ScanFile, bool]]:
        """The files of a snapshot, or those that it adds, in order, and whether rows of each may be needed.

        Raises:
            DataError: DATA475, the metadata cannot be read; DATA476, it has deletes that cannot be read; DATA479, the
                snapshot removes rows.
        """
        key = (snapshot_id, is_whole)
        if key not in self._plans:
            snapshot = table.snapshot_by_id(snapshot_id)
            assert snapshot is not None
            is_read = is_whole or self._adds(snapshot)
            with self.table.reaching():
                self._plans[key] = self._scan(table, snapshot, is_whole) if is_read else []
            while len(self._plans) > _CACHED_PLANS:
                del self._plans[next(iter(self._plans))]
        return self._plans[key]

    def _scan(self, table: Table, snapshot: Snapshot, is_whole: bool) -> list[tuple[ScanFile, bool]]:
        from pyiceberg.expressions import AlwaysTrue

        def tasks(expression: BooleanExpression) -> list[ScanFile]:
            if is_whole:
                scan = table.scan(expression, snapshot_id=snapshot.snapshot_id)
                return [ScanFile.of(task, table.metadata) for task in scan.plan_files()]
            additions = table.incremental_append_scan(
                from_snapshot_id_exclusive=snapshot.parent_snapshot_id,
                to_snapshot_id_inclusive=snapshot.snapshot_id,
                row_filter=expression,
            )
            return [ScanFile.of(task, table.metadata) for task in additions.plan_files()]

        ids = self._ids(table, self.fields)
        names = [table.schema().find_column_name(field_id) for field_id in ids]
        fields = [(name, data_type) for name, (_, data_type) in zip(names, self.fields, strict=True) if name]
        # A column that has been removed since has statistics, but no name by which the library looks for them.
        is_known = len(fields) == len(self.fields)
        expression = expression_of(self.filters, fields) if is_known else AlwaysTrue()
        files = sorted(tasks(AlwaysTrue()), key=lambda file: file.data.path)
        needed_paths = {file.data.path for file in tasks(expression)} if self.filters else {f.data.path for f in files}
        return [(file, file.data.path in needed_paths) for file in files]

    def _adds(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot adds rows that are read. Raises DataError DATA479."""
        operation = "append" if snapshot.summary is None else snapshot.summary.operation.value
        if operation == "append":
            return True
        if operation == "delete" and not (self.rules.skip_deletes or self.rules.skip_overwrites):
            raise DataError("DATA479", subject=self.table.label, snapshot=snapshot.snapshot_id, does="deletes rows")
        if operation == "overwrite" and not self.rules.skip_overwrites:
            does = "changes existing rows"
            raise DataError("DATA479", subject=self.table.label, snapshot=snapshot.snapshot_id, does=does)
        return False

    def history(
        self, begin: Offset, end: Offset, step: int | None, size: int, since: int | None = None
    ) -> Iterator[PastSplit[IcebergSplit]]:
        table = self.table.open()
        try:
            stretches = list(self._stretches(table, begin, end))
        except DataError as error:
            raise HistoryLost(error.message) from None
        ids = self._ids(table, self.columns)
        at, total = 0, 0
        for number, (snapshot, first, last, is_whole) in enumerate(stretches):
            if since is not None and snapshot.timestamp_ms < since:
                continue
            at, total = max(at, snapshot.timestamp_ms), 0
            files = self._files(table, snapshot.snapshot_id, is_whole)[first:last]
            for place, (file, is_needed) in enumerate(files):
                if not is_needed:
                    continue
                if not table.io.new_input(file.data.path).exists():
                    raise HistoryLost(f"the file {file.data.path} of snapshot {snapshot.snapshot_id} was removed")
                if total and total + file.data.size > size:
                    at, total = at + 1, 0
                total += file.data.size
                split = IcebergSplit(file, snapshot.snapshot_id, snapshot.timestamp_ms, ids)
                yield PastSplit(split, at, file.data.size, f"{number:020d}/{place:010d}")

    def _check(self, table: Table) -> None:
        """Raises DataError DATA478 when the table is not what has been declared. A column that is younger than the
        snapshot is NULL in it."""
        schema = self._schema(table)
        names = names_of(columns_of(schema))
        later_names = names_of(columns_of(table.schema()))
        for name, _ in self.fields:
            if name not in names and name not in later_names:
                hint = nearest(name, names)
                raise DataError("DATA478.missing", subject=self.table.label, column=name, columns=names, hint=hint)
        check_types(self.fields, self._ids(table, self.fields), schema, self.table.label)

    def _check_snapshot(self, table: Table, snapshot: Snapshot) -> None:
        """Raises DataError DATA478 when a column had another type than the declared one at a snapshot."""
        schema = table.schemas().get(-1 if snapshot.schema_id is None else snapshot.schema_id)
        if schema is not None:
            check_types(self.fields, self._ids(table, self.fields), schema, self.table.label)

    # ---- reading ---------------------------------------------------------------------------------------------------

    def read(self, split: IcebergSplit) -> Iterator[pl.DataFrame]:
        from stateplan.common.small_frames import first_rows
        from stateplan.connectors.iceberg.rows import read_split

        frames = read_split(self.table, self.columns, self.metadata, split)
        return frames if self.limit is None else first_rows(frames, self.limit)


def _current_id(table: Table) -> int | None:
    current = table.current_snapshot()
    return None if current is None else current.snapshot_id


def _offset(table: str, snapshot: Snapshot | None, file: int | None, is_whole: bool = False) -> Offset:
    at = (None, 0) if snapshot is None else (snapshot.snapshot_id, snapshot.sequence_number)
    return {"table": table, "snapshot": at[0], "sequence": at[1], "file": file, "whole": is_whole}


def _time_text(time: int) -> str:
    return datetime.fromtimestamp(time / 1000, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00") + " UTC"
