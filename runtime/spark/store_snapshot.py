"""A snapshot of a partition of Spark's state store, which is a database of RocksDB, opened without Spark."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from zipfile import ZipFile

from rocksdict import AccessType, Options, Rdict, ReadOptions

from stateplan.common.files import rooted_path
from stateplan.common.paths import AnyPath
from stateplan.runtime.scratch import scratch

_FACTS = "metadata"


class StoreFileError(ValueError):
    """A file of Spark's state store is damaged, or written in a way that is not known here."""


class StoreSnapshot:
    """A database that is read. Spark keeps its small files in an archive, and the files with the values beside it; they
    lie together in a folder as long as this is in use.

    Args:
        archive: the archive.
        files: name of a file with values -> the file and its size.

    Raises:
        StoreFileError: it is no database, or a file has another size.
        OSError: a file cannot be read.
    """

    def __init__(self, archive: ZipFile, files: Mapping[str, tuple[AnyPath, int]]) -> None:
        self._folder = folder = scratch("snapshot")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        for name in set(archive.namelist()) - {_FACTS}:
            (folder / Path(name).name).write_bytes(archive.read(name))
        for name, (path, size) in files.items():
            _put(path, size, folder / Path(name).name)
        try:
            self._database = Rdict(str(folder), Options(raw_mode=True), access_type=AccessType.read_only())
        except Exception as cause:  # of RocksDB: it has no other class
            raise StoreFileError(_without_folder(cause, folder)) from cause

    def scan(
        self, low: bytes, high: bytes, wants: Callable[[bytes], bool] | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """The keys from ``low`` to before ``high`` with their values.

        Args:
            low, high: the range.
            wants: whether the value of a key is needed; every one is by default.

        Raises:
            StoreFileError: the database is damaged.
        """
        limits = ReadOptions()
        limits.set_iterate_upper_bound(high)
        entries = self._database.iter(limits)
        try:
            entries.seek(low)
            while entries.valid():
                key = entries.key()
                if wants is None or wants(key):
                    yield key, entries.value()
                entries.next()
            entries.status()
        except Exception as cause:
            raise StoreFileError(_without_folder(cause, self._folder)) from cause


def _put(path: AnyPath, size: int, place: Path) -> None:
    """Puts a file of some size into the folder of a database: one on local disk by a link."""
    try:
        if isinstance(path, Path):
            local = os.path.abspath(rooted_path(str(path)))
            length = os.stat(local).st_size
            place.symlink_to(local)
        else:
            length = place.write_bytes(path.read_bytes())
    except FileNotFoundError as cause:
        raise StoreFileError(f"{path} is missing") from cause
    if length != size:
        raise StoreFileError(f"{path} has {length} bytes instead of {size}")


def _without_folder(cause: Exception, folder: Path) -> str:
    return str(cause).replace(f"{folder}{os.sep}", "")[:200]
