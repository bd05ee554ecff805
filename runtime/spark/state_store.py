"""Reads a partition of Spark's state store from its files, without Spark.

A partition has a *snapshot* now and then (``<version>.zip``: which files of RocksDB it consists of), and a *changelog*
for each version (what a micro-batch put and removed). The state after micro-batch n is version n + 1: the last snapshot
at or before it, and the changelogs behind that. The commit of a micro-batch says which attempt wrote its version; a
changelog says which attempts wrote the versions in front of it.

The runtime keeps two variables of state: the list of runs of each slot, and the values of runs. Keys and values are
rows of Spark (``UnsafeRow``) behind a byte with their version. A key begins with the number of its variable.

Source: Spark's ``RocksDBFileManager`` and ``RocksDBStateEncoder``. See also :mod:`~.changelog`.
"""

from __future__ import annotations

import contextlib
import io
import json
import struct
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath
from stateplan.runtime.spark.changelog import Changelog, StoredValue
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.runtime.spark.store_snapshot import StoreFileError, StoreSnapshot

_MANIFEST, _RUNS = "manifest", "runs"
_SLOT_ROW = 33
"""Bytes of the key of a slot in front of the id of a run."""
_MANIFEST_KEY = 19


@dataclass(frozen=True)
class StoreVersion:
    """A version of a partition of state.

    Attributes:
        folder: of the partition.
        version: its number: one more than that of the micro-batch that wrote it.
        writer: of which attempt; empty where attempts are not distinguished.
    """

    folder: AnyPath
    version: int
    writer: str

    def file(self, ending: str) -> AnyPath:
        """``snapshot`` or ``changelog``."""
        name = f"{self.version}_{self.writer}" if self.writer else str(self.version)
        return self.folder / f"{name}.{ending}"

    def at(self, version: int, writer: str = "") -> StoreVersion:
        """Another version of the same partition."""
        return StoreVersion(self.folder, version, writer)


def store_versions(checkpoint: SparkCheckpoint, operator: int, batch: int) -> list[StoreVersion]:
    """The partitions of one of Spark's stateful operators, as a micro-batch has left them.

    Raises:
        OSError: the commit of the micro-batch, or the folder of the state, cannot be read.
        StoreFileError: they are damaged.
    """
    writers = _writers(checkpoint, operator, batch)
    folder = checkpoint.state / str(operator)
    if writers is None:
        count = sum(1 for entry in folder.iterdir() if entry.name.isdecimal())
        writers = [""] * count
    return [StoreVersion(folder / str(number), batch + 1, writer) for number, writer in enumerate(writers)]


def _writers(checkpoint: SparkCheckpoint, operator: int, batch: int) -> list[str] | None:
    """By partition, which attempt wrote its state; None where the commit does not say so."""
    try:
        lines = (checkpoint.commit_log / str(batch)).read_text(encoding="utf-8").splitlines()
        ids = json.loads(lines[1]).get("stateUniqueIds") if len(lines) > 1 else None
        return None if not ids else [str(stores[0]) for stores in ids[str(operator)]]
    except (ValueError, AttributeError, TypeError, LookupError) as cause:
        raise StoreFileError(f"the commit of micro-batch {batch} is damaged: {cause}") from cause


class StorePartition:
    """A version of a partition.

    Raises, when it is used:
        StoreFileError: a file is damaged or missing, or written in a way that is not known here.
        OSError: a file cannot be read.
    """

    def __init__(self, version: StoreVersion) -> None:
        self.version = version

    @cached_property
    def _newest_log(self) -> Changelog:
        return Changelog.of(self.version.file("changelog"))

    @cached_property
    def _chain(self) -> tuple[StoreVersion, list[StoreVersion]]:
        """The last snapshot at or before the version, and the versions behind it."""
        last = self.version
        if last.file("zip").exists():
            return last, []
        if not last.writer:
            return self._chain_by_numbers(last)
        with _naming(last.file("changelog")):
            lineage = [last.at(int(e["version"]), str(e["checkpointUniqueId"])) for e in self._newest_log.lineage]
        for place in range(len(lineage) - 1, -1, -1):
            if lineage[place].file("zip").exists():
                return lineage[place], [*lineage[place + 1 :], last]
        raise StoreFileError(f"{last.folder} has no snapshot at or before version {last.version}")

    @staticmethod
    def _chain_by_numbers(last: StoreVersion) -> tuple[StoreVersion, list[StoreVersion]]:
        for number in range(last.version - 1, 0, -1):
            if last.at(number).file("zip").exists():
                return last.at(number), [last.at(n) for n in range(number + 1, last.version + 1)]
        raise StoreFileError(f"{last.folder} has no snapshot at or before version {last.version}")

    @cached_property
    def _snapshot(self) -> tuple[dict[str, int], StoreSnapshot]:
        """The numbers of the variables, and the database."""
        path = self._chain[0].file("zip")
        with _naming(path), zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
            facts = json.loads(archive.read("metadata").decode().partition("\n")[2])
            numbers = {str(name): int(n) for name, n in facts["columnFamilyMapping"].items()}
            if not {_MANIFEST, _RUNS} <= numbers.keys():
                raise StoreFileError("it has no lists of runs")
            folder = self.version.folder / "SSTs"
            files = {f["localFileName"]: (folder / f["dfsSstFileName"], int(f["sizeBytes"])) for f in facts["sstFiles"]}
            return numbers, StoreSnapshot(archive, files)

    @cached_property
    def _changes(self) -> dict[bytes, tuple[AnyPath, StoredValue | None]]:
        """What the changelogs put in place of a key, and which one did; None if they removed it."""
        changes: dict[bytes, tuple[AnyPath, StoredValue | None]] = {}
        for version in self._chain[1]:
            with _naming(version.file("changelog")) as path:
                log = self._newest_log if version == self.version else Changelog.of(path)
                changes.update((key, (path, value)) for key, value in log.records())
        return changes

    def _values(
        self, low: bytes, high: bytes, wants: Callable[[bytes], bool] | None = None
    ) -> dict[bytes, bytes | memoryview]:
        """The values of the keys from ``low`` to before ``high``; of those that are wanted, where that is said."""
        with _naming(self._chain[0].file("zip")):
            values: dict[bytes, bytes | memoryview] = dict(self._snapshot[1].scan(low, high, wants))
        for key, (path, change) in self._changes.items():
            if low <= key < high:
                if change is None:
                    values.pop(key, None)
                elif wants is None or wants(key):
                    with _naming(path):
                        values[key] = change.read()
        return values

    def _range(self, variable: str, within: bytes = b"") -> tuple[bytes, bytes]:
        start = struct.pack("<H", self._snapshot[0][variable]) + within
        return start, (int.from_bytes(start, "big") + 1).to_bytes(len(start), "big")

    @cached_property
    def manifests(self) -> Mapping[int, str]:
        """The list of runs of each slot, by Spark's grouping key."""
        out = {}
        for key, value in self._values(*self._range(_MANIFEST)).items():
            if len(key) != _MANIFEST_KEY:
                raise StoreFileError(f"{self.version.folder}: keys of lists of runs have another form")
            out[struct.unpack_from("<i", key, 11)[0]] = bytes(_only_field(value)).decode()
        return out

    def runs(self, slot: int, ids: Collection[str] | None = None) -> dict[str, bytes]:
        """The stored values of the runs of a slot, by their ids.

        Args:
            slot: Spark's grouping key.
            ids: those that are needed; all by default.
        """
        start = struct.pack("<IB8xII8xi4x", _SLOT_ROW, 0, 16, 16, slot)
        wants = None if ids is None else lambda key: _run_of(key) in ids
        values = self._values(*self._range(_RUNS, start), wants)
        return {_run_of(key): bytes(_only_field(value)) for key, value in values.items()}


def _run_of(key: bytes) -> str:
    """The id of a run, of the key of its stored value."""
    nested = _only_field(memoryview(key)[2 + 4 + _SLOT_ROW :])
    size, offset = struct.unpack_from("<II", nested, 8)
    return bytes(nested[offset : offset + size]).decode()


def _only_field(row: bytes | memoryview) -> memoryview:
    """The bytes of the only field of a row of Spark, behind the byte of its version."""
    if len(row) < 17 or row[0] != 0:
        raise StoreFileError("a row of Spark's state store has another form")
    size, offset = struct.unpack_from("<II", row, 9)
    if 1 + offset + size > len(row):
        raise StoreFileError("a row of Spark's state store is too short")
    return memoryview(row)[1 + offset : 1 + offset + size]


@contextlib.contextmanager
def _naming(path: AnyPath) -> Iterator[AnyPath]:
    """What a file lacks as an error that names it."""
    try:
        yield path
    except FileNotFoundError as cause:
        raise StoreFileError(f"{path} is missing") from cause
    except StoreFileError as cause:
        raise StoreFileError(f"{path}: {cause}" if str(path) not in str(cause) else str(cause)) from cause
    except (ValueError, LookupError, TypeError, AttributeError, struct.error, zipfile.BadZipFile) as cause:
        raise StoreFileError(f"{path} is damaged ({str(cause)[:100]})") from cause
