"""The log of a Delta table: its versions, and the files that each adds and removes.

Source: the actions of Delta's protocol. A snapshot comes from ``deltalake``, which knows checkpoints; single commits
are read here, because the library has no public reader of them.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, date, datetime
from typing import Any

from stateplan.common.errors import DataError, Place
from stateplan.common.files import safe_url
from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.delta.bounds import file_path
from stateplan.connectors.delta.pruning import Bounds
from stateplan.connectors.delta.table import Facts, Location

INSERT, DELETE, CHANGES = "insert", "delete", "changes"
"""What the rows of a file are: new ones, removed ones, or changes with their kind in a column."""

REMOVED_ROWS, ADDED_ROWS = "changes that take", "changes that give"
"""Of changes, the rows that are removed and the old ones of updates; or those that are added and the new ones."""

_LOG = "_delta_log"
_CACHED_COMMITS = 64
"""Commits that are kept after reading: they are planned soon after they are counted."""


@dataclass(frozen=True)
class DataFile:
    """A file of a version.

    Attributes:
        path: below the folder of the table, or absolute.
        size: in bytes.
        partition: partition column to its value as text; None for NULL.
        version: the version of the table.
        stamp: when the version was committed, ms since 1970.
        rows: :data:`INSERT`, :data:`DELETE`, :data:`CHANGES`, :data:`REMOVED_ROWS` or :data:`ADDED_ROWS`.
        count: the number of its rows; None when the log does not say.
        masked: whether a deletion vector may take rows out of it.
        was_masked: of a file that a version removes and adds again with another deletion vector, whether it had one
            before; only the rows in which the two differ are meant. None of other files.
        bounds: least and greatest values of columns; not part of a split.
    """

    path: str
    size: int
    partition: Mapping[str, str | None]
    version: int
    stamp: int
    rows: str = INSERT
    count: int | None = None
    masked: bool = False
    was_masked: bool | None = None
    bounds: Bounds = field(default_factory=dict, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; see :meth:`from_json`."""
        return {key: value for key, value in vars(self).items() if key != "bounds"}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> DataFile:
        """What :meth:`to_json` was made of, without its bounds."""
        return DataFile(**data)


@dataclass(frozen=True)
class Commit:
    """A version of a table, as its log has it.

    Attributes:
        version: of it.
        stamp: when it was committed, ms.
        adds: files that were added and change the data.
        removes: files that were removed and change the data.
        changes: files of the change feed.
        metadata: the new one, where it changes.
        protocol: the new one, where it changes.
    """

    version: int
    stamp: int
    adds: tuple[DataFile, ...]
    removes: tuple[DataFile, ...]
    changes: tuple[DataFile, ...]
    metadata: Mapping[str, Any] | None
    protocol: Mapping[str, Any] | None


class Log:
    """Reads the log of a table.

    Args:
        location: the location of the table.
    """

    def __init__(self, location: Location) -> None:
        self.location = location
        self._commits: OrderedDict[int, Commit] = OrderedDict()
        self._snapshot: tuple[int, list[DataFile]] | None = None
        self._files: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_commits": OrderedDict(), "_snapshot": None, "_files": None}

    @property
    def files(self) -> Any:
        """The filesystem of the table."""
        if self._files is None:
            self._files = self.location.files()
        return self._files

    def has(self, version: int) -> bool:
        """Whether the log has the commit of a version."""
        from pyarrow.fs import FileType

        with self.location.reaching():
            return bool(self.files.get_file_info([_file(version)])[0].type is FileType.File)

    def mark(self, version: int) -> tuple[int, int] | None:
        """Time and size of the commit of a version, which the log never changes; None if it is not there."""
        with self.location.reaching():
            (info,) = self.files.get_file_info([_file(version)])
        return None if info.size is None else (int(info.mtime_ns or 0), int(info.size))

    def latest(self) -> int:
        """The latest version. Raises the same errors as :meth:`Location.open`."""
        return int(self.location.open().version())

    def versions(self) -> list[tuple[int, int]]:
        """The versions whose commits the log still has, ascending, and when each was committed, in ms. Times ascend
        strictly. Source: ``DeltaHistoryManager`` of Delta: the times are those of the files, made to ascend."""
        from pyarrow.fs import FileSelector

        with self.location.reaching():
            entries = self.files.get_file_info(FileSelector(_LOG, allow_not_found=True))
        versions = sorted(
            (int(name), int(entry.mtime_ns // 1_000_000))
            for entry in entries
            if (name := entry.base_name.removesuffix(".json")).isdigit() and entry.base_name.endswith(".json")
        )
        out: list[tuple[int, int]] = []
        for version, stamp in versions:
            out.append((version, max(stamp, out[-1][1] + 1) if out else stamp))
        return out

    def commit(self, version: int) -> Commit:
        """The commit of a version that the log has.

        Raises:
            DataError: DATA454, it is gone; DATA457, it cannot be read.
        """
        if version in self._commits:
            return self._commits[version]
        try:
            with self.files.open_input_stream(_file(version)) as stream:
                data = stream.read()
        except FileNotFoundError:
            raise self.missing_version(version) from None
        except OSError as error:
            raise DataError(
                "DATA452",
                name=self.location.name,
                path=safe_url(self.location.path),
                reason=self.location.error_text(error),
            ) from None
        commit = self._commits[version] = self._parse_commit(version, data)
        while len(self._commits) > _CACHED_COMMITS:
            self._commits.popitem(last=False)
        return commit

    def missing_version(self, version: int) -> DataError:
        """DATA454: the log does not have a version any longer."""
        versions = self.versions()
        first = versions[0][0] if versions else None
        code = "DATA454" if first is not None and first > version else "DATA454.hole"
        return DataError(code, name=self.location.name, version=version, last=(first or 0) - 1, first=first)

    def _parse_commit(self, version: int, data: bytes) -> Commit:
        place = Place(file=f"{safe_url(self.location.path).rstrip('/')}/{_file(version)}")
        actions: dict[str, list[dict[str, Any]]] = {}
        for number, line in enumerate(data.splitlines(), 1):
            if not line.strip():
                continue
            try:
                ((kind, action),) = json.loads(line).items()
                actions.setdefault(kind, []).append(action)
            except (ValueError, AttributeError) as error:
                line_place = Place(file=place.file, line=number)
                raise DataError("DATA457", name=self.location.name, reason=error, place=line_place) from None
        info = next(iter(actions.get("commitInfo", ())), {})
        stamp = int(info.get("inCommitTimestamp") or info.get("timestamp") or 0)

        def files(kind: str, rows: str) -> tuple[DataFile, ...]:
            changing = (a for a in actions.get(kind, ()) if a.get("dataChange", True) or kind == "cdc")
            return tuple(self._file(a, version, stamp, rows) for a in changing)

        try:
            return Commit(
                version,
                stamp,
                files("add", INSERT),
                files("remove", DELETE),
                files("cdc", CHANGES),
                next(iter(actions.get("metaData", ())), None),
                next(iter(actions.get("protocol", ())), None),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError("DATA457", name=self.location.name, reason=repr(error), place=place) from None

    def _file(self, action: Mapping[str, Any], version: int, stamp: int, rows: str) -> DataFile:
        stats = json.loads(action["stats"]) if action.get("stats") else {}
        partition = {key: value or None for key, value in (action.get("partitionValues") or {}).items()}
        is_masked = action.get("deletionVector") is not None
        path = self._path(action["path"])
        size = int(action.get("size") or 0)
        bounds = _bounds(partition, stats.get("minValues") or {}, stats.get("maxValues") or {})
        return DataFile(path, size, partition, version, stamp, rows, stats.get("numRecords"), is_masked, bounds=bounds)

    def snapshot(self, version: int) -> list[DataFile]:
        """The files that a version consists of, in the order of their paths.

        Raises:
            DataError: DATA454, the log no longer has the answer; or as :meth:`Location.open`.
        """
        if self._snapshot is None or self._snapshot[0] != version:
            table = self.open_table(version)
            may_be_masked = "deletionVectors" in Facts.of(table).features
            stamp = self.commit(version).stamp if self.has(version) else 0
            import pyarrow as pa

            with self.location.reaching():
                actions = pa.table(table.get_add_actions()).to_pylist()
            files = [self._active(action, version, stamp, may_be_masked) for action in actions]
            self._snapshot = version, sorted(files, key=lambda file: file.path)
        return self._snapshot[1]

    def _path(self, text: str) -> str:
        """The path of a file. Raises DataError DATA457."""
        try:
            return file_path(text)
        except ValueError:
            place = Place(file=f"{safe_url(self.location.path).rstrip('/')}/{_LOG}")
            raise DataError("DATA457.outside", name=self.location.name, file=safe_url(text), place=place) from None

    def _active(self, action: Mapping[str, Any], version: int, stamp: int, may_be_masked: bool) -> DataFile:
        partition = {key: value_text(value) for key, value in (action.get("partition") or {}).items()}
        return DataFile(
            self._path(action["path"]),
            action["size_bytes"],
            partition,
            version,
            stamp,
            INSERT,
            action.get("num_records"),
            may_be_masked,
            bounds=_bounds(partition, action.get("min") or {}, action.get("max") or {}),
        )

    def open_table(self, version: int) -> Any:
        """The table as it was at a version that there has been. Raises the same errors as :meth:`snapshot`."""
        try:
            return self.location.open(version)
        except DataError as error:
            if error.code in ("DATA450", "DATA452") and self.versions() and not self.has(version):
                raise self.missing_version(version) from None
            raise


def _bounds(partition: Mapping[str, str | None], least: Mapping[str, Any], most: Mapping[str, Any]) -> Bounds:
    """The bounds of columns: the same values twice for partition columns."""
    exact = {name: (text, text) for name, text in partition.items()}
    return {name: (least.get(name), most.get(name)) for name in least.keys() | most.keys()} | exact


def _file(version: int) -> str:
    return f"{_LOG}/{version:020d}.json"


def value_text(value: Any) -> str | None:
    """A value of a partition column as the log writes it."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat(" ", "microseconds")
        return value.astimezone(UTC).replace(tzinfo=None).isoformat("T", "microseconds") + "Z"
    if isinstance(value, date):
        return value.isoformat()
    return str(value)
