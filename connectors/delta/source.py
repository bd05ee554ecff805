"""Reading a Delta table: a version as it is, the versions that come, and the change data feed.

An offset is a version and a position in it: ``{"table": .., "version": 7, "file": 3, "snapshot": false}`` is before the
fourth file that version 7 adds. With ``snapshot`` it is before the fourth file of which version 7 consists. The log
never changes what it says of a version, so a micro-batch that runs again reads the same files. ``table`` is the id of
the table, which another table at the same place does not have.

Source: ``DeltaSource`` of Delta's Flink connector, and of Spark for the rules on deletions and the change data feed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import DataError, OptionError, nearest
from stateplan.common.files import plain_path
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.connectors.budget import Budget, Limits
from stateplan.connectors.delta.log import ADDED_ROWS, DELETE, REMOVED_ROWS, Commit, DataFile, Log
from stateplan.connectors.delta.pruning import may_match
from stateplan.connectors.delta.schema import holds, names_of
from stateplan.connectors.delta.table import Facts, Location
from stateplan.connectors.history import HistoryLost, PastSplit, RepeatableSource
from stateplan.connectors.listing import PACKED
from stateplan.connectors.protocol import Offset, OffsetSource, Partition
from stateplan.connectors.splits import Split
from stateplan.functions.rex import Rex

if TYPE_CHECKING:
    import polars as pl

_IDLE_LOOKS = 100
"""Looks for a next version after which the log is listed: it may have lost that version and have later ones."""

_KEPT_FACTS = 64
"""Versions whose columns and properties are kept: they are planned soon after they are counted."""


@dataclass(frozen=True)
class Start:
    """Where a job without a checkpoint begins; at most one is given.

    Attributes:
        snapshot: a version to read as it is.
        snapshot_time: ms; the version that was the latest then.
        changes: a version whose changes are the first to be read, or ``latest``.
        changes_time: ms; the first version at or after it.
    """

    snapshot: int | None = None
    snapshot_time: int | None = None
    changes: str | None = None
    changes_time: int | None = None


@dataclass(frozen=True)
class Rules:
    """What to do with versions that remove rows; by default they are errors.

    Attributes:
        ignore_deletes: passes over versions that only remove.
        ignore_changes: reads what such versions add, rows that were only moved among them.
        skip_changes: passes over versions that remove and add.
        change_feed: reads the change data feed.
    """

    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_changes: bool = False
    change_feed: bool = False


_DEFAULT_START, _DEFAULT_RULES = Start(), Rules()


@dataclass(frozen=True)
class DeltaSplit(Split):
    """A file of a version of a table."""

    file: DataFile

    def to_json(self) -> dict[str, Any]:
        return {"file": self.file.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DeltaSplit:
        return cls(DataFile.from_json(data["file"]))

    @property
    def origin(self) -> str:
        return plain_path(self.file.path)

    @property
    def byte_count(self) -> int:
        return self.file.size


class DeltaSource(OffsetSource[DeltaSplit], RepeatableSource[DeltaSplit]):
    """See the module.

    Args:
        location: the location of the table.
        fields: name and type of the declared columns.
        projection: positions in ``fields`` of those to read.
        metadata: keys that follow them.
        is_bounded: whether it ends with the version that is the latest when the job starts.
        interval: milliseconds between looks for new versions.
        start: where it begins.
        rules: for versions that remove rows.
        limits: the limits of a micro-batch; None for none.
        partitions: to read; None for all.
        filters: conditions over ``fields``: files in which they hold for no row are not read.
        limit: how many rows of a file are enough.
    """

    split_type = DeltaSplit
    modules = ("deltalake", __name__)

    def __init__(
        self,
        location: Location,
        fields: Sequence[tuple[str, LogicalType]],
        projection: Sequence[int],
        metadata: Sequence[str] = (),
        *,
        is_bounded: bool = True,
        interval: int | None = None,
        start: Start = _DEFAULT_START,
        rules: Rules = _DEFAULT_RULES,
        limits: Limits | None = None,
        partitions: Sequence[Partition] | None = None,
        filters: Sequence[Rex] = (),
        limit: int | None = None,
    ) -> None:
        self.location = location
        self.fields = tuple(fields)
        self.columns = tuple(self.fields[i] for i in projection)
        self.metadata = tuple(metadata)
        self.bounded = is_bounded
        self.interval = None if is_bounded else interval
        self.start = start
        self.rules = rules
        self.limits = limits or Limits()
        self.partitions = None if partitions is None else {tuple(sorted(p.items())) for p in partitions}
        self.filters = tuple(filters)
        self.limit = limit
        self.log = Log(location)
        self._facts: dict[int, Facts] = {}
        self._later: tuple[int, Facts] | None = None
        self._end: int | None = None
        self._has_read = False
        self._looks = 0
        self._mark: tuple[int, tuple[int, int] | None] | None = None

    def check(self, name: str) -> None:
        self._check(Facts.of(self.location.open()))

    def size(self) -> int | None:
        """Of the files of the version that is read first, as text; None where it begins with changes."""
        if self.start.changes is not None or self.start.changes_time is not None:
            return None
        return PACKED * sum(file.size for file in self.log.snapshot(self.initial_offset()["version"]))

    # ---- planning --------------------------------------------------------------------------------------------------

    def initial_offset(self) -> Offset:
        now = self.location.open()
        latest = int(now.version())
        start, version, snapshot = self.start, latest, True
        if start.changes is not None or start.changes_time is not None:
            version, snapshot = self._first_change(latest), False
        elif start.snapshot is not None:
            version = start.snapshot
            if version > latest:
                raise OptionError("OPT172", name=self.location.name, version=version, latest=latest)
        elif start.snapshot_time is not None:
            version = self._version_at(start.snapshot_time)
        self._end = version if snapshot else latest
        self._has_read = True
        self._check(Facts.of(self.log.open_table(version)), version)
        return _offset(str(now.metadata().id), version, snapshot=snapshot)

    def _first_change(self, latest: int) -> int:
        if self.start.changes_time is not None:
            versions = self.log.versions()
            after = next((version for version, stamp in versions if stamp >= self.start.changes_time), None)
            if after is None:
                raise OptionError(
                    "OPT172.time", name=self.location.name, time=_time_text(self.start.changes_time), age="new"
                )
            return after
        if (self.start.changes or "").lower() == "latest":
            return latest
        version = int(self.start.changes or 0)
        if version > latest:
            raise OptionError("OPT172", name=self.location.name, version=version, latest=latest)
        if not self.log.has(version):
            raise self.log.missing_version(version)
        return version

    def _version_at(self, time: int) -> int:
        versions = self.log.versions()
        earlier = [version for version, stamp in versions if stamp <= time]
        if not earlier:
            raise OptionError("OPT172.time", name=self.location.name, time=_time_text(time), age="old")
        if versions[-1][1] < time:
            raise OptionError("OPT172.time", name=self.location.name, time=_time_text(time), age="new")
        return earlier[-1]

    def latest_offset(self, start: Offset) -> Offset:
        budget = Budget(self.limits, self.pace)
        position = dict(start)
        self._arrive(start)
        if position["snapshot"]:
            files = self.log.snapshot(position["version"])
            while position["file"] < len(files):
                if budget.is_used_up:
                    return position
                self._take(files[position["file"]], budget)
                position["file"] += 1
            position = _offset(position["table"], position["version"] + 1)
        self._stay(position)
        while not budget.is_used_up and self._has(position["version"]):
            try:
                position = self._next(position, budget)
            except DataError:
                if position == start:
                    raise
                break  # what is before the version that cannot be read is read first
        return position

    def _arrive(self, start: Offset) -> None:
        """Looks, at the start of a job with a checkpoint, whether the table is still the same, and where it ends.

        Raises:
            DataError: DATA454, it is another one.
        """
        if self._has_read:
            return
        latest = self._latest_after(start)
        only = self.start.snapshot is not None or self.start.snapshot_time is not None
        self._end = int(start["version"]) - (not start["snapshot"]) if only else latest
        self._has_read = True

    def _latest_after(self, position: Offset) -> int:
        """The latest version of the table that has been read up to a position.

        Raises:
            DataError: DATA454, it is another table.
        """
        now = self.location.open()
        latest, before = int(now.version()), max(0, position["version"] - (not position["snapshot"]))
        if before <= latest and self.log.has(before):
            with suppress(DataError):  # the log may have the version, and not what was before it
                now = self.log.open_table(before)
        if str(now.metadata().id) != position["table"] or latest < position["version"] - 1:
            raise DataError("DATA454.recreated", name=self.location.name, version=position["version"], latest=latest)
        return latest

    def _stay(self, position: Offset) -> None:
        """Looks whether the version before a position is still the one that was read. Raises as
        :meth:`_latest_after`."""
        before = position["version"] - 1
        mark = self.log.mark(before) if before >= 0 else None
        if self._mark is not None and self._mark[0] == before and self._mark[1] != mark:
            self._latest_after(position)
        self._mark = (before, mark)

    def _has(self, version: int) -> bool:
        """Whether there is a version, and it is to be read."""
        if self.bounded and version > (self._end or 0):
            return False
        if self.log.has(version):
            return True
        self._looks -= 1
        if self._looks < 0:
            self._looks = _IDLE_LOOKS
            latest = self.log.latest()
            if latest < version - 1:
                raise DataError("DATA454.recreated", name=self.location.name, version=version, latest=latest)
            if latest >= version and not self.log.has(version):
                raise self.log.missing_version(version)
        return False

    def _next(self, position: Offset, budget: Budget) -> Offset:
        """How far the version of a position may be read."""
        table, version, place = position["table"], position["version"], position["file"]
        files = self._files(version)
        while place < len(files):
            # The changes of a version belong together: half of them may be a state that the table never had.
            if budget.is_used_up and not self.rules.change_feed:
                return _offset(table, version, place)
            self._take(files[place], budget)
            place += 1
        metadata = self.log.commit(version).metadata
        return _offset(table if metadata is None else metadata.get("id", table), version + 1)

    def _take(self, file: DataFile, budget: Budget) -> None:
        if self._is_wanted(file):
            budget.take(file.size, file.count)

    def plan(self, start: Offset, end: Offset) -> list[DeltaSplit]:
        files: list[DataFile] = []
        version, place = start["version"], start["file"]
        if start["snapshot"]:
            stop = end["file"] if end["snapshot"] else None
            files += self.log.snapshot(version)[place:stop]
            if end["snapshot"]:
                return self._splits(files)
            version, place = version + 1, 0
        while version < end["version"]:
            files += self._files(version)[place:]
            version, place = version + 1, 0
        if end["file"]:
            files += self._files(version)[place : end["file"]]
        return self._splits(files)

    def history(
        self, begin: Offset, end: Offset, step: int | None, size: int, since: int | None = None
    ) -> Iterator[PastSplit[DeltaSplit]]:
        self._latest_after(end)
        stamps = dict(self.log.versions())
        position, at, last = begin, None, 0
        while _order(position) < _order(end):
            version = position["version"]
            # Part of a version, where the job has not read more.
            after = end if version == end["version"] else _offset(end["table"], version + 1)
            if since is not None and stamps.get(version, min(stamps.values(), default=since)) < since:
                position = after  # an older version than those that there are is older
                continue
            splits = self.plan(position, after)
            self._require_files([split.file for split in splits])
            at, total = stamps.get(version), 0
            at = None if at is None else max(at, last)
            for number, split in enumerate(splits):
                # Changes of a version belong together; other files need not be read at once.
                if at is not None and total + split.byte_count > size and total and not self.rules.change_feed:
                    at, total = at + 1, 0
                total += split.byte_count
                yield PastSplit(split, at, split.byte_count, f"{version:020d}/{number:010d}")
            last = last if at is None else at
            position = after

    def _require_files(self, files: Sequence[DataFile]) -> None:
        """Raises HistoryLost where a file is gone."""
        from pyarrow.fs import FileType

        for file in files:
            place, path = self.location.of_file(file.path)
            with place.reaching():
                if place.files().get_file_info([path])[0].type is not FileType.File:
                    raise HistoryLost(f"the file {plain_path(file.path)} of version {file.version} was removed")

    def _splits(self, files: Sequence[DataFile]) -> list[DeltaSplit]:
        return [DeltaSplit(file) for file in files if self._is_wanted(file)]

    def _is_wanted(self, file: DataFile) -> bool:
        if self.partitions is not None and tuple(sorted(file.partition.items())) not in self.partitions:
            return False
        return may_match(self.filters, self.fields, file.bounds)

    def _files(self, version: int) -> list[DataFile]:
        """The files of a version that are read, in order.

        Raises:
            DataError: DATA454, the version is gone from the log; DATA455, it changes the columns; DATA456, it removes
                rows; DATA458, it has no change data feed.
        """
        commit = self.log.commit(version)
        facts = self._facts_of(commit)
        for file in (*commit.adds, *commit.removes, *commit.changes):
            if not file.partition.keys() >= set(facts.partitions):
                raise DataError("DATA457.partition", name=self.location.name, version=version, file=file.path)
        if self.rules.change_feed:
            if not facts.has_change_feed and (commit.adds or commit.removes):
                raise DataError("DATA458", name=self.location.name, version=version)
            return self._changes(commit)
        rules = self.rules
        if commit.removes and not rules.ignore_changes:
            if commit.adds and not rules.skip_changes:
                raise DataError("DATA456", name=self.location.name, version=version, does="changes existing rows")
            if not commit.adds and not (rules.ignore_deletes or rules.skip_changes):
                raise DataError("DATA456", name=self.location.name, version=version, does="deletes rows")
            return []
        return list(commit.adds)

    def _changes(self, commit: Commit) -> list[DataFile]:
        """The files with the changes of a version. Removed rows come before added ones; writers have them in any order.
        Files of the change feed stand for all others. Without any, files that are removed are rows that are deleted. A
        file with another deletion vector than before is both."""
        if commit.changes:
            return [replace(file, rows=side) for side in (REMOVED_ROWS, ADDED_ROWS) for file in commit.changes]
        before = {file.path: file.masked for file in commit.removes}
        after = {file.path for file in commit.adds}
        removes = [file for file in commit.removes if file.path not in after]
        adds = [replace(file, was_masked=before.get(file.path)) for file in commit.adds]
        deletions = [replace(file, rows=DELETE) for file in adds if file.was_masked is not None]
        return [*removes, *deletions, *adds]

    def _facts_of(self, commit: Commit) -> Facts:
        """What holds at a version, whose columns are checked."""
        version = commit.version
        if version in self._facts:
            return self._facts[version]
        if version - 1 in self._facts:
            facts = self._facts[version - 1].after(commit.metadata, commit.protocol)
        else:
            try:
                facts = Facts.of(self.log.open_table(version))
            except DataError as error:
                if error.code == "DATA451":
                    raise
                # The log has the version, and not what was before it: what holds now says what held then.
                facts = Facts.of(self.location.open()).after(commit.metadata, commit.protocol)
        self._check(facts, version)
        self._facts[version] = facts
        while len(self._facts) > _KEPT_FACTS:
            del self._facts[next(iter(self._facts))]
        return facts

    def _facts_after(self, version: int) -> Facts:
        """What held at the latest version at some time after a version was there."""
        if self._later is None or self._later[0] < version:
            now = self.location.open()
            self._later = int(now.version()), Facts.of(now)
        return self._later[1]

    def _check(self, facts: Facts, version: int | None = None) -> None:
        """Raises DataError DATA451, DATA455 when the table is not what has been declared."""
        facts.check_readable(self.location)
        stored_columns = {c.name: c for c in facts.columns}
        if version is not None and not stored_columns.keys() >= {name for name, _ in self.fields}:
            # A column that was added later is NULL in the files of this version.
            stored_columns = {c.name: c for c in self._facts_after(version).columns} | stored_columns
        at = "" if version is None else f" in version {version}"
        for name, data_type in self.fields:
            if name not in stored_columns:
                names = names_of(facts.columns)
                raise DataError(
                    "DATA455.missing",
                    name=self.location.name,
                    column=name,
                    at=at,
                    columns=names,
                    hint=nearest(name, names),
                )
            if not holds(data_type, stored_columns[name].type):
                delta_type = stored_columns[name].declared_type
                raise DataError(
                    "DATA455",
                    name=self.location.name,
                    column=name,
                    at=at,
                    declared=data_type.summary(),
                    found=stored_columns[name].type_text,
                    hint=None if delta_type is None else f"declare it as {delta_type.as_nullable().summary()}",
                )

    # ---- reading ---------------------------------------------------------------------------------------------------

    def read(self, split: DeltaSplit) -> Iterator[pl.DataFrame]:
        from stateplan.common.small_frames import first_rows
        from stateplan.connectors.delta.rows import Reader

        frames = Reader(self.location, self.columns, self.metadata, self.rules.change_feed).read(split.file)
        return frames if self.limit is None else first_rows(frames, self.limit)


def _order(position: Offset) -> tuple[int, bool, int]:
    """A snapshot of a version is before the changes of the next one."""
    return position["version"], not position["snapshot"], position["file"]


def _offset(table: str, version: int, file: int = 0, snapshot: bool = False) -> Offset:
    return {"table": table, "version": version, "file": file, "snapshot": snapshot}


def _time_text(time: int) -> str:
    return datetime.fromtimestamp(time / 1000, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00") + " UTC"


def partitions_of(source: DeltaSource, keys: Sequence[str]) -> list[dict[str, str | None]] | None:
    """The partitions of the version with which a source begins; None if the table has other partition columns, or
    values that SQL does not read as the log writes them.

    Raises:
        StateplanError: as the methods that plan.
    """
    start = source.initial_offset()
    facts = Facts.of(source.log.open_table(start["version"]))
    types = {c.name: c.type for c in facts.columns}
    if set(facts.partitions) != set(keys) or any(types[key] in ("timestamp", "timestamp_ntz") for key in keys):
        return None
    partitions = {tuple(file.partition[key] for key in keys) for file in source.log.snapshot(start["version"])}
    sorted_partitions = sorted(partitions, key=lambda values: [(value is not None, value or "") for value in values])
    return [dict(zip(keys, values, strict=True)) for values in sorted_partitions]
