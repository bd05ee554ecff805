"""What it takes to list a million objects, to write markers for them and to know them again: ``python -m
benchmarks.object_listing [objects]``. The store is synthetic: it answers at once, with what s3fs says of objects."""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
from fsspec.spec import AbstractFileSystem

from stateplan.connectors.listing import FileEntry, table_files
from stateplan.connectors.protocol import FileSource
from stateplan.connectors.splits import FileSplit
from stateplan.runtime.file_lists import FileLists
from stateplan.runtime.markers import Markers


class ManyObjects(AbstractFileSystem):  # type: ignore[misc] # a base without types
    """A bucket of equal objects in daily folders."""

    protocol = ("many", "s3")
    cachable = False
    count = 0

    def find(self, path: str, detail: bool = False, **_: Any) -> Any:
        changed = datetime(2026, 1, 1, tzinfo=UTC)
        names = (f"bucket/table/dt=2026-01-{n % 28 + 1:02d}/part-{n:08d}.json.gz" for n in range(self.count))
        return {
            name: {
                "Key": name,
                "LastModified": changed,
                "ETag": f'"{hash(name):032x}"',
                "Size": 100_000,
                "StorageClass": "STANDARD",
                "type": "file",
                "size": 100_000,
                "name": name,
            }
            for name in names
        }

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        raise FileNotFoundError(path)


@dataclass(frozen=True)
class _Many(FileSource):
    path: str = "many://bucket/table"

    def read(self, split: FileSplit) -> Any:
        raise NotImplementedError

    def files(self) -> list[FileEntry]:
        return table_files(self.path)


def _timed(what: str, run: Callable[[], Any]) -> Any:
    started = time.perf_counter()
    result = run()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what:44} {time.perf_counter() - started:7.2f} s   peak {peak:6.0f} MB", flush=True)
    return result


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    fsspec.register_implementation("many", ManyObjects, clobber=True)
    with tempfile.TemporaryDirectory() as folder:
        markers = Markers(Path(folder))
        lists = FileLists("t", _Many(), markers, 4, 128 << 20)
        _timed("empty", lists.look)
        ManyObjects.count = count
        _timed(f"find {count} objects (the synthetic store)", lambda: ManyObjects().find("", detail=True) and None)
        _timed("the files of the table", lambda: table_files("many://bucket/table") and None)
        _timed("list, and write markers for all", lists.look)
        names = markers.names()
        size = sum((Path(folder) / name).stat().st_size for name in names) / 1e6
        print(f"{len(names)} markers, {size:.0f} MB")
        _timed("list again, nothing new", lists.look)
        ManyObjects.count += 1000
        _timed("list again, 1000 new", lists.look)
        _timed("restart", lambda: FileLists("t", _Many(), markers, 4, 128 << 20))


if __name__ == "__main__":
    main()
