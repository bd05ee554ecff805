"""Markers for the files of object stores: each file in one of them, whatever is listed when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import DataError, RunError, StateplanError
from stateplan.connectors.listing import FileEntry, entries_in, file_list, says_end
from stateplan.connectors.protocol import FileSource
from stateplan.connectors.splits import AssignedSplit, EndOfInput, FileSplit
from stateplan.runtime.file_lists import FIRST_BYTES, UNIT, FileLists, Watch
from stateplan.runtime.markers import Markers

ROOT = "s3://bucket/a table"


@dataclass(frozen=True)
class Listed(FileSource):
    path: str = ROOT
    max_files: int | None = None
    interval: int | None = 1
    there: list[FileEntry] = field(default_factory=list)
    failure: list[Exception] = field(default_factory=list)

    def files(self) -> list[FileEntry]:
        if self.failure:
            raise self.failure[0]
        return self.there

    def read(self, split: FileSplit) -> Iterator[Any]:
        raise NotImplementedError


def entry(n: int, size: int = 10, modified: int = 5) -> FileEntry:
    return FileEntry(f"{ROOT}/f {n:07d}.jßon", size, modified)


def packs(markers: Markers) -> list[list[FileEntry]]:
    return [entries_in(markers.content(name)) for name in markers.names()]


@given(
    st.lists(st.sets(st.integers(0, 60), max_size=40), max_size=6),
    st.integers(1, 5),
    st.none() | st.integers(1, 9),
    st.sets(st.integers(0, 5)),
)
def test_each_file_is_in_one_marker(
    tmp_path_factory: pytest.TempPathFactory,
    listings: Sequence[set[int]],
    tasks: int,
    most: int | None,
    restarts: set[int],
) -> None:
    markers = Markers(tmp_path_factory.mktemp("m") / "x")
    source = Listed(max_files=most)
    lists = FileLists("t", source, markers, tasks, 100)
    seen: set[int] = set()
    for number, there in enumerate(listings):
        if number in restarts:
            lists = FileLists("t", source, markers, tasks, 100)
        source.there[:] = [entry(n, modified=n % 7) for n in there]
        before = len(packs(markers))
        lists.look()
        fresh = [file for pack in packs(markers)[before:] for file in pack]
        assert fresh == sorted((entry(n, modified=n % 7) for n in there - seen), key=lambda f: (f.modified, f.path))
        seen |= there
        assert len(packs(markers)) - before >= min(tasks, len(fresh))
    # As Spark takes them: as many as do not exceed the limit, but one at least.
    for pack, size in zip(packs(markers), sizes(markers), strict=True):
        if most:
            assert len(pack) <= most and size >= len(pack) * (lists.bytes_per_trigger // most)
        else:
            assert len(pack) == 1 or sum(f.size for f in pack) <= 100


def sizes(markers: Markers) -> list[int]:
    return [(Path(str(markers.folder)) / name).stat().st_size for name in markers.names()]


def test_lengths_of_markers_stand_for_their_files(tmp_path: Path) -> None:
    markers = Markers(tmp_path / "m")
    source = Listed(there=[entry(0, 1000), entry(1, 50), entry(2, 50), entry(3, 50)])
    FileLists("t", source, markers, 2, 100).look()
    assert [[f.size for f in pack] for pack in packs(markers)] == [[1000], [50], [50, 50]]
    assert sizes(markers) == [2 * UNIT, UNIT // 2, UNIT]  # a file larger than a micro-batch is one
    many = Markers(tmp_path / "many")
    FileLists("t", Listed(there=[entry(n) for n in range(9000)]), many, 2, 1 << 30).look()
    assert max(sizes(many)) <= UNIT
    assert len(many.names()) <= 10


def test_splits_of_a_marker(tmp_path: Path) -> None:
    markers = Markers(tmp_path / "m")
    source = Listed(there=[entry(0, modified=7), entry(1, modified=6)])
    FileLists("t", source, markers, 1, 100).look()
    row = {"content": markers.content(markers.names()[0]), "seq": "0001/", "now": 9}
    assert source.splits(pa.RecordBatch.from_pylist([row])) == [
        AssignedSplit(FileSplit(entry(n).path, 10), f"0001/{7 - n:016d}/{entry(n).path}", 9) for n in (1, 0)
    ]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 12), st.booleans()), max_size=6), st.integers(1, 3))
def test_input_ends_with_its_last_marker(
    tmp_path_factory: pytest.TempPathFactory, runs: Sequence[tuple[int, int, bool]], tasks: int
) -> None:
    """Of each run: how many new files it finds, how many markers it takes, and whether its input ends."""
    markers = Markers(tmp_path_factory.mktemp("m") / "x")
    source = Listed(max_files=1)
    taken: list[str] = []
    for fresh, most, bounded in runs:
        source.there.extend([entry(len(source.there) + n) for n in range(fresh)])
        lists = FileLists("t", source, markers, tasks, 100, lambda: taken)
        lists.reopen()
        lists.look()
        if bounded and (lists.has_more or not any(says_end(markers.content(name)) for name in markers.names()[-1:])):
            lists.end()
        before, files = len(taken), [file for name in taken for file in entries_in(markers.content(name))]
        for name in markers.names()[before : before + most]:
            taken.append(name)
            files += entries_in(markers.content(name))
            ended = says_end(markers.content(name))
            assert ended == (bounded and files == source.there and name == markers.names()[-1])
        names = markers.names()
        assert names[: len(taken)] == taken, "what was taken stays"
        assert [file for name in names for file in entries_in(markers.content(name))] == source.there
        if bounded:
            assert says_end(markers.content(names[-1]))


def test_the_split_of_a_last_marker(tmp_path: Path) -> None:
    markers = Markers(tmp_path / "m")
    lists = FileLists("t", Listed(there=[entry(0)]), markers, 1, 100)
    lists.look()
    lists.end()
    (name,) = markers.names()
    row = {"content": markers.content(name), "seq": "0001/", "now": 9}
    file, end = Listed().splits(pa.RecordBatch.from_pylist([row]))
    assert isinstance(file, AssignedSplit) and file.split.path == entry(0).path
    assert end == EndOfInput(9)


@pytest.mark.parametrize("root", ["/data/in", "in", "file:///data/in"])
def test_files_outside_of_the_root_are_listed_whole(root: str) -> None:
    files = [FileEntry("/data/in/a", 1, 2), FileEntry("/data/in/b", 3, 4)]
    assert entries_in(file_list(root, files).encode()) == files


@pytest.mark.parametrize(
    ("failure", "code", "kind"),
    [(DataError("DATA105", path="s3://b", strerror="gone"), "DATA105", DataError), (KeyError("x"), "RUN018", RunError)],
)
def test_what_goes_wrong_ends_the_watch(
    tmp_path: Path, failure: Exception, code: str, kind: type[StateplanError]
) -> None:
    import threading

    source, told, heard = Listed(), [], threading.Event()
    lists = FileLists("orders", source, Markers(tmp_path / "m"), 1, 100)

    def fail(error: StateplanError) -> None:
        told.append(error)
        heard.set()

    watch = Watch([lists], fail)
    source.there.append(entry(1))
    for _ in range(1000):
        if packs(Markers(tmp_path / "m")):
            break
        heard.wait(0.01)
    source.failure.append(failure)
    assert heard.wait(10)
    heard.wait(0.05)
    assert [error.code for error in told] == [code] and isinstance(told[0], kind) and "orders" in str(told[0])
    watch.stop()


MEBIBYTE = 1 << 20


def paced(folder: Path, count: int) -> tuple[Listed, Markers, FileLists]:
    """So many files of a MiB each, of which a micro-batch takes as many as its job says."""
    source, markers = Listed(there=[entry(n, size=MEBIBYTE) for n in range(count)]), Markers(folder / "m")
    return source, markers, FileLists("t", source, markers, 1, 100 * MEBIBYTE, is_paced=True)


def test_files_wait_until_a_micro_batch_has_read_those_before(tmp_path: Path) -> None:
    source, markers, lists = paced(tmp_path, 12)
    lists.look()
    assert [len(pack) for pack in packs(markers)] == [FIRST_BYTES // MEBIBYTE]
    lists.look()
    assert len(packs(markers)) == 1, "nothing has been read"
    lists.advance(FIRST_BYTES, 2 * MEBIBYTE)
    assert [len(pack) for pack in packs(markers)] == [4, 2]
    lists.advance(MEBIBYTE, 2 * MEBIBYTE)
    assert [len(pack) for pack in packs(markers)] == [4, 2, 1]
    again = FileLists("t", source, markers, 1, 100 * MEBIBYTE, lambda: markers.names()[:2], is_paced=True)
    again.look()
    assert [len(pack) for pack in packs(markers)] == [4, 2, 1, 3], "one marker waits: 1 MiB of 4"
    again.advance(4 * MEBIBYTE, 1)
    again.advance(MEBIBYTE, 1)
    assert [len(pack) for pack in packs(markers)] == [4, 2, 1, 3, 1, 1], "one file at least"
    assert [file for pack in packs(markers) for file in pack] == source.there


def test_files_that_became_shorter_hold_up_no_others(tmp_path: Path) -> None:
    _, markers, lists = paced(tmp_path, 6)
    lists.look()
    lists.advance(MEBIBYTE, 2 * MEBIBYTE)
    for _ in range(110):
        lists.look()
    assert [len(pack) for pack in packs(markers)] == [4, 2]
