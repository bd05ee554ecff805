"""Listing of sources, and the sink's promise: every micro-batch is visible exactly once, whatever stops in between."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import DataError, RunError
from stateplan.common.files import filesystem_of
from stateplan.connectors.filesystem import _Folder
from stateplan.connectors.listing import file_entries, natural_key, part_name, table_files
from stateplan.connectors.staging import Staging, _Local


def list_files(path: str, regex: str | None = None) -> list[str]:
    entries = file_entries(path) if regex is None else table_files(path, regex)
    return sorted((entry.path for entry in entries), key=natural_key)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "part-10.json",
        "part-2.json",
        "sub/b.json",
        "sub/deep/c.json",
        "_no/d.json",
        ".no/e.json",
        "_f",
        ".g",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    return tmp_path


def test_listing(folder: Path) -> None:
    names = ["part-2.json", "part-10.json", "sub/b.json", "sub/deep/c.json"]
    assert list_files(str(folder)) == [str(folder / n) for n in names]
    assert list_files(f"file://{folder}/") == [str(folder / n) for n in names]
    assert list_files(str(folder), ".*/sub/.*") == [str(folder / n) for n in names[2:]]
    assert list_files(str(folder), "part") == []
    assert list_files(str(folder / "part-2.json")) == [str(folder / "part-2.json")]
    entry = file_entries(str(folder))[0]
    stat = (folder / "part-2.json").stat()
    assert (entry.size, entry.modified) == (2, int(stat.st_mtime * 1000))


def test_listing_leaves_out_known_paths(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at a large folder asks the system for nothing about the files that are known."""
    known_paths = {str(folder / name) for name in ("part-2.json", "sub/deep/c.json")}
    stat, asked_paths = os.stat, []

    def note(path: Any, **more: Any) -> os.stat_result:
        asked_paths.append(str(path))
        return stat(path, **more)

    monkeypatch.setattr(os, "stat", note)
    new_files = table_files(str(folder), known_paths=known_paths)
    assert sorted(entry.path for entry in new_files) == [str(folder / "part-10.json"), str(folder / "sub/b.json")]
    assert not known_paths.intersection(asked_paths)
    assert table_files(str(folder / "part-2.json"), known_paths=known_paths) == []


def test_listing_a_relative_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert list_files("sub") == [str(folder / "sub/b.json"), str(folder / "sub/deep/c.json")]


def test_listing_a_remote_path() -> None:
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/listing/a/x.json", b"")
    fs.pipe_file("/listing/_h/y.json", b"")
    assert list_files("memory://listing") == ["memory://listing/a/x.json"]
    assert table_files("memory://listing", known_paths={"memory://listing/a/x.json"}) == []


def test_listing_what_is_not_there(folder: Path) -> None:
    with pytest.raises(DataError) as error:
        list_files(str(folder / "part-3.json"))
    assert str(error.value) == (
        f"[DATA104] the path '{folder}/part-3.json' does not exist\n  --> {folder}/part-3.json\n"
        "  expected: a file or a folder that can be read\n  hint: did you mean 'part-2.json' or 'part-10.json'?"
    )


@given(st.lists(st.text("a0123-", max_size=6), max_size=5))
def test_natural_order_is_an_order(names: list[str]) -> None:
    ordered = sorted(names, key=natural_key)
    assert sorted(ordered, key=natural_key) == ordered


UID = "0123456789ab-ba9876543210"


class CrashError(BaseException):
    pass


PATHS = ("local", "memory")


@pytest.fixture(params=PATHS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "local":
        yield str(tmp_path / "out")
        return
    fs = fsspec.filesystem("memory")
    yield f"memory://out{tmp_path.name}"
    if fs.exists(f"/out{tmp_path.name}"):
        fs.rm(f"/out{tmp_path.name}", recursive=True)


def visible(path: str) -> dict[str, bytes]:
    fs, _ = filesystem_of(path)
    return {f.path.rsplit("/", 1)[1]: fs.cat_file(filesystem_of(f.path)[1]) for f in table_files(path)}


def run_batch(path: str, batch: int, rows: list[bytes]) -> None:
    if Staging.at(path, UID).clean(batch):
        return
    staging = Staging.at(path, UID)
    names = [staging.stage(batch, n, "json", {"": data}) for n, data in enumerate(rows)]
    staging.commit(batch, [name for some in names for name in some])


BATCHES = [[b"a", b"b"], [], [b"c"], [b"d", b"e", b"f"]]
EXPECTED = {part_name(UID, b, n, "json"): data for b, rows in enumerate(BATCHES) for n, data in enumerate(rows)}


def test_batches_become_visible(table: str) -> None:
    for batch, rows in enumerate(BATCHES):
        run_batch(table, batch, rows)
    assert visible(table) == EXPECTED
    assert part_name(UID, 3, "ab12", "") == f"part-{UID}-3-ab12"


def test_staged_files_are_not_visible(table: str) -> None:
    Staging.at(table, UID).stage(0, 0, "json", {"": b"a"})
    assert list_files(table) == []
    assert Staging.at(table, UID).clean(0) is False
    Staging.at(table, UID).commit(0, Staging.at(table, UID).stage(0, 7, "json", {"": b"b"}))
    assert visible(table) == {f"part-{UID}-0-7.json": b"b"}


def test_a_committed_batch_is_not_written_again(table: str) -> None:
    run_batch(table, 0, [b"a"])
    assert Staging.at(table, UID).clean(0) is True
    # A runner that writes it all the same, in other parts, changes nothing.
    Staging.at(table, UID).commit(0, Staging.at(table, UID).stage(0, 1, "json", {"": b"again"}))
    assert visible(table) == {f"part-{UID}-0-0.json": b"a"}


STEPS = {
    "local": [(_Local, "_write"), (_Local, "_move"), (shutil, "rmtree"), (os, "remove")],
    "memory": [(MemoryFileSystem, "pipe_file"), (MemoryFileSystem, "cp_file"), (MemoryFileSystem, "rm_file")],
}
"""What changes a folder, one file at a time."""


def dying(monkeypatch: pytest.MonkeyPatch, path: str, step: int, after: bool) -> list[int]:
    """Lets the process die at the ``step``-th change of a folder, before or after it; counts the changes."""
    count = [0]
    for owner, name in STEPS["memory" if path.startswith("memory") else "local"]:
        original = getattr(owner, name)

        def wrapped(self: object, *args: Any, original: Any = original, **more: Any) -> object:
            count[0] += 1
            if count[0] == step + 1 and not after:
                raise CrashError
            result = original(self, *args, **more)
            if count[0] == step + 1:
                raise CrashError
            return result

        monkeypatch.setattr(owner, name, wrapped)
    return count


def run_all(table: str, looks: Callable[[int], None]) -> None:
    """Runs the batches, each again when it dies; ``looks`` at the table after each death, with the batch in hand."""
    done = 0
    while done < len(BATCHES):
        try:
            run_batch(table, done, BATCHES[done])
            done += 1
        except CrashError:
            looks(done)


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_step(table: str, after: bool) -> None:
    """The process dies at a change of the folder; the batch runs again, and so to the end. All prefixes of changes."""
    whole = table.startswith("memory")

    def look(batch: int) -> None:
        seen = visible(table)
        before = {n: d for n, d in EXPECTED.items() if int(n.split("-")[3]) < batch}
        assert before.items() <= seen.items() <= EXPECTED.items()
        if whole:  # on an object store all of a batch or none
            with_it = {n: d for n, d in EXPECTED.items() if int(n.split("-")[3]) <= batch}
            assert seen in (before, with_it)

    step = 0
    while True:
        with pytest.MonkeyPatch.context() as patch:
            count = dying(patch, table, step, after)
            run_all(table, look)
        assert visible(table) == EXPECTED
        fs, inner = filesystem_of(table)
        assert [p.rpartition("/")[2] for p in fs.ls(f"{inner}/.staged-{UID}", detail=False)] == ["3.committed"]
        fs.rm(inner, recursive=True)
        if count[0] <= step:
            break
        step += 1
    assert step > 20


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_staged_file_that_is_not_there(table: str, lost: int) -> None:
    """Its worker has written to another disk, say: nothing is committed, and what is there is read again."""
    run_batch(table, 0, [b"a"])
    staging = Staging.at(table, UID)
    assert not staging.clean(1)
    names = staging.stage(1, 0, "json", {f"p={n}": b"b" for n in range(3)})
    fs, inner = filesystem_of(table)
    fs.rm(f"{inner}/.staged-{UID}/1/{names[lost]}")
    with pytest.raises(RunError) as error:
        staging.commit(1, names)
    assert error.value.code == "RUN152" and names[lost] in str(error.value) and f"{table}/.staged" in str(error.value)
    assert visible(table) == {f"part-{UID}-0-0.json": b"a"}
    run_batch(table, 1, [b"c"])
    assert visible(table) == {f"part-{UID}-0-0.json": b"a", f"part-{UID}-1-0.json": b"c"}


def test_a_mark_for_workers(table: str) -> None:
    sink = _Folder(table, UID, "json", None)  # type: ignore[arg-type]
    with pytest.raises(RunError) as error:
        sink.check("out", "job")
    assert error.value.code == "RUN153" and table in str(error.value)
    sink.announce("job")
    sink.check("out", "job")
    sink.prepare(0)
    with pytest.raises(RunError):
        sink.check("out", "job")
    run_batch(table, 0, [b"a"])
    sink.announce("job")
    sink.prepare(0)
    fs, inner = filesystem_of(table)
    assert [p.rpartition("/")[2] for p in fs.ls(f"{inner}/.staged-{UID}", detail=False)] == ["0.committed"]


def test_readers_of_a_part_of_a_table_see_what_is_committed() -> None:
    table = "memory://parts/of/table"
    fs, inner = filesystem_of(table)
    run_batch(table, 0, [b"a"])
    fs.pipe_file(f"{inner}/p=1/part-{UID}-1-0.json", b"copied")
    fs.pipe_file(f"{inner}/p=1/part-{UID[:-1]}f-1-0.json", b"of a sink without a note")
    fs.pipe_file(f"{inner}/p=1/part-00000-of-others.json", b"x")
    others = {f"part-{UID[:-1]}f-1-0.json": b"of a sink without a note", "part-00000-of-others.json": b"x"}
    assert visible(f"{table}/p=1") == others
    fs.pipe_file(f"{inner}/_committed/{UID}.json", b'{"epoch": 1}')
    assert visible(f"{table}/p=1") == {**others, f"part-{UID}-1-0.json": b"copied"}
    fs.pipe_file(f"{inner}/_committed/{UID}.json", b"[]")
    with pytest.raises(DataError) as error:
        visible(f"{table}/p=1")
    assert error.value.code == "DATA105"


def test_a_sink_that_begins_while_its_folder_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it commits meanwhile is seen as a whole."""
    table = "memory://begins"
    fs, inner = filesystem_of(table)
    fs.pipe_file(f"{inner}/old.json", b"old")
    find = MemoryFileSystem.find
    calls = []

    def slow(self: Any, path: str, **more: Any) -> Any:
        first = not calls
        calls.append(path)
        if first:
            staging = Staging.at(table, UID)
            staging.clean(0)
            fs.pipe_file(f"{inner}/part-{UID}-0-0.json", b"first of two")
        found = find(self, path, **more)
        if first:
            fs.pipe_file(f"{inner}/part-{UID}-0-1.json", b"second of two")
            fs.pipe_file(f"{inner}/_committed/{UID}.json", b'{"epoch": 0}')
        return found

    monkeypatch.setattr(MemoryFileSystem, "find", slow)
    assert len(table_files(table)) == 3


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(RunError) as error:
        Staging.at(str(path), UID).stage(0, 0, "json", {"": b""})
    assert str(error.value) == (
        f"[RUN151] cannot write to '{path}': Not a directory\n  --> {path}\n  expected: a folder that can be written to"
    )


def test_nothing_is_left_in_the_hidden_folder(tmp_path: Path) -> None:
    for batch, rows in enumerate(BATCHES):
        run_batch(str(tmp_path), batch, rows)
    assert sorted(os.listdir(tmp_path / f".staged-{UID}")) == ["3.committed"]
