"""Listing of sources, and the sink's promise: every micro-batch is visible exactly once, whatever stops in between."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.execnodes.connectors.staging import Staging, part_name
from stateplan.execnodes.errors import DataError, RunError
from stateplan.execnodes.files import file_entries, filesystem_of, natural_key


def list_files(path: str, regex: str | None = None) -> list[str]:
    return [entry.path for entry in file_entries(path, regex)]


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


def test_listing_a_relative_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert list_files("sub") == [str(folder / "sub/b.json"), str(folder / "sub/deep/c.json")]


def test_listing_a_remote_path() -> None:
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/listing/a/x.json", b"")
    fs.pipe_file("/listing/_h/y.json", b"")
    assert list_files("memory://listing") == ["memory:///listing/a/x.json"]


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


class CrashError(Exception):
    pass


PATHS = ("local", "memory")


@pytest.fixture(params=PATHS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "local":
        yield str(tmp_path / "out")
        return
    fs = fsspec.filesystem("memory")
    yield f"memory://out{tmp_path.name}"
    fs.rm(f"/out{tmp_path.name}", recursive=True)


def visible(path: str) -> dict[str, bytes]:
    fs, _ = filesystem_of(path)
    return {p.rsplit("/", 1)[1]: fs.cat_file(p.removeprefix("memory://")) for p in list_files(path)}


def run_batch(path: str, batch: int, rows: list[bytes]) -> None:
    if Staging.at(path, "u").clean(batch):
        return
    staging = Staging.at(path, "u")
    staging.commit(batch, [staging.stage(batch, n, "json", data) for n, data in enumerate(rows)])


BATCHES = [[b"a", b"b"], [], [b"c"], [b"d", b"e", b"f"]]
EXPECTED = {part_name("u", b, n, "json"): data for b, rows in enumerate(BATCHES) for n, data in enumerate(rows)}


def test_batches_become_visible(table: str) -> None:
    for batch, rows in enumerate(BATCHES):
        run_batch(table, batch, rows)
    assert visible(table) == EXPECTED
    assert part_name("u", 3, "ab12", "") == "part-u-3-ab12"


def test_staged_files_are_not_visible(table: str) -> None:
    Staging.at(table, "u").stage(0, 0, "json", b"a")
    assert list_files(table) == []
    assert Staging.at(table, "u").clean(0) is False
    Staging.at(table, "u").commit(0, [Staging.at(table, "u").stage(0, 7, "json", b"b")])
    assert visible(table) == {"part-u-0-7.json": b"b"}


def test_a_committed_batch_is_not_written_again(table: str) -> None:
    run_batch(table, 0, [b"a"])
    assert Staging.at(table, "u").clean(0) is True
    # A runner that writes it all the same, in other parts, changes nothing.
    Staging.at(table, "u").commit(0, [Staging.at(table, "u").stage(0, n, "json", b"again") for n in (0, 1)])
    assert visible(table) == {"part-u-0-0.json": b"a"}


@pytest.mark.parametrize("step", range(24))
def test_a_crash_at_any_step(table: str, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies at the ``step``-th change of the folder; the batch runs again, and so to the end."""
    count = 0

    def crashing(name: str) -> None:
        original = getattr(Staging, name)

        def wrapped(self: object, *args: object) -> object:
            nonlocal count
            count += 1
            if count == step + 1:
                raise CrashError
            return original(self, *args)

        monkeypatch.setattr(Staging, name, wrapped)

    for name in ("_write", "_move", "_remove"):
        crashing(name)
    done = 0
    while done < len(BATCHES):
        try:
            run_batch(table, done, BATCHES[done])
        except CrashError:
            seen = visible(table)
            whole = {n: d for n, d in EXPECTED.items() if int(n.split("-")[2]) < done}
            assert whole.items() <= seen.items() and seen.items() <= EXPECTED.items()
            continue
        done += 1
        assert visible(table) == {n: d for n, d in EXPECTED.items() if int(n.split("-")[2]) < done}
    assert visible(table) == EXPECTED


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(RunError) as error:
        Staging.at(str(path), "u").stage(0, 0, "json", b"")
    assert str(error.value) == (
        f"[RUN151] cannot write to '{path}': Not a directory\n  --> {path}\n  expected: a folder that can be written to"
    )


def test_nothing_is_left_in_the_hidden_folder(tmp_path: Path) -> None:
    for batch, rows in enumerate(BATCHES):
        run_batch(str(tmp_path), batch, rows)
    assert sorted(os.listdir(tmp_path / ".staged-u")) == ["3.committed"]
