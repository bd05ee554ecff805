"""Who may write to a checkpoint on a file system without locks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from stateplan.common.errors import CheckpointError
from stateplan.common.paths import AnyPath, RemotePath, append, create, inside, rename, sorted_paths, write_whole
from stateplan.runtime.checkpoint import locks
from stateplan.runtime.checkpoint.live_ttl import editing, read_ttls
from stateplan.runtime.checkpoint.locks import WRITERS, Lease, locked, running_writer, writer_lock

ROOT = Path(__file__).resolve().parents[2]
OTHER = """
import sys
from fsspec.implementations.local import LocalFileSystem
from stateplan.common.paths import RemotePath
from stateplan.runtime.checkpoint import locks
locks.BEAT = 0.1
lock = locks.writer_lock(RemotePath(LocalFileSystem(), sys.argv[1]))
print("ready", flush=True)
input()
lock.release()
print("released", flush=True)
input()
"""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "BEAT", 0.1)
    monkeypatch.setattr(locks, "EXPIRY", 1.0)


@pytest.fixture
def folder(tmp_path: Path) -> RemotePath:
    return RemotePath(LocalFileSystem(), str(tmp_path / "checkpoint"))


def other(folder: RemotePath) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER, folder.path], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def refused(folder: AnyPath) -> CheckpointError:
    with pytest.raises(CheckpointError) as error:
        writer_lock(folder)
    assert error.value.code == "CKPT030"
    return error.value


def test_a_living_writer_keeps_others_out(folder: RemotePath) -> None:
    process = other(folder)
    try:
        assert f"process {process.pid} on host {os.uname().nodename}" in refused(folder).message
        holder = running_writer(folder)
        assert holder is not None
        assert holder.pid == process.pid
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "released\n"
        assert running_writer(folder) is None
        writer_lock(folder).release()
    finally:
        process.kill()
        process.communicate()


def test_a_killed_writer_of_this_host_is_followed_at_once(folder: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "EXPIRY", 600.0)
    process = other(folder)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert running_writer(folder) is None
    mine = writer_lock(folder)
    mine.check()
    mine.release()


def test_a_writer_of_another_host_is_followed_when_it_gives_no_sign(folder: RemotePath) -> None:
    folder.mkdir()
    (folder / WRITERS).mkdir()
    text = json.dumps({"pid": 1, "host": "elsewhere", "since": 1, "token": "t", "beat": 7})
    (folder / WRITERS / "0000000004").write_text(text)
    told: list[str] = []
    mine = writer_lock(folder, told.append)
    assert told == [
        "waiting up to 1 s for a sign of life of process 1 on host elsewhere, since 1970-01-01 00:00:00 UTC"
    ]
    assert "0000000004" not in [p.name for p in (folder / WRITERS).iterdir()]
    mine.release()


def test_a_sign_of_life_is_seen(folder: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    alive = Lease(folder)
    alive._mine["host"] = "elsewhere"
    assert alive.take()
    locks._mine.clear()  # as if another process had it
    monkeypatch.setattr(locks, "EXPIRY", 600.0)
    assert "host elsewhere" in refused(folder).message
    alive.release()


def test_a_writer_holds_its_lease_while_it_writes_signs_of_life(
    folder: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system that replaces a file by removing it first."""

    class TwoSteps(LocalFileSystem):  # type: ignore[misc]
        cachable = False

        def mv(self, path1: str, path2: str, **_: object) -> None:
            Path(path2).unlink(missing_ok=True)
            time.sleep(0.02)
            Path(path1).rename(path2)

    monkeypatch.setattr(locks, "BEAT", 0.01)
    mine = writer_lock(RemotePath(TwoSteps(), folder.path))
    until = time.monotonic() + 1
    while time.monotonic() < until:
        mine.check()
    mine.release()


def test_one_writer_in_this_process(folder: RemotePath) -> None:
    mine = writer_lock(folder)
    assert "which is this one" in refused(folder).message
    mine.release()
    writer_lock(folder).release()


def test_who_was_overtaken_finds_out_and_stays_out(folder: RemotePath) -> None:
    slow = Lease(folder)
    assert slow.take()
    slow._end.set()  # a process that the system does not let run gives no sign
    locks._mine.clear()
    slow._mine["host"] = "elsewhere"
    write_whole(locks._beats(slow._folder, slow._number), slow._text().decode())
    fast = writer_lock(folder)
    with pytest.raises(CheckpointError) as error:
        slow.check()
    assert error.value.code == "CKPT035"
    slow._end.clear()
    slow.release()
    fast.check()
    fast.release()
    again = writer_lock(folder)
    with pytest.raises(CheckpointError):
        slow.check()
    again.check()
    again.release()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}'])
def test_a_lease_that_cannot_be_read_ends_too(text: str, folder: RemotePath) -> None:
    (folder / WRITERS).mkdir()
    (folder / WRITERS / "0000000001").write_text(text)
    writer_lock(folder).release()


def test_a_lock_file_that_a_killed_process_left(folder: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_STALE", 0.3)
    folder.mkdir()
    (folder / "ttl.lock").write_text("of a process that was killed")
    with locked(folder / "ttl.lock", 0.0) as taken:
        assert not taken
    with locked(folder / "ttl.lock", 5.0) as taken:
        assert taken
        with locked(folder / "ttl.lock", 0.0) as again:
            assert not again
    assert not (folder / "ttl.lock").exists()
    with editing(folder) as record:
        assert record == {}
    assert read_ttls(folder) == {}


# ---- paths -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> RemotePath:
    if request.param == "local":
        return RemotePath(LocalFileSystem(), str(tmp_path))
    return RemotePath(MemoryFileSystem(), f"/{tmp_path.name}-{time.monotonic_ns()}")


def test_what_paths_have_of_pathlib(place: RemotePath) -> None:
    folder = place / "a" / "b"
    assert not folder.exists()
    folder.mkdir(parents=True)
    assert folder.is_dir()
    file = folder / "0001_x.json"
    file.write_text("text")
    assert (file.name, file.stem, file.parent) == ("0001_x.json", "0001_x", folder)
    assert (file.read_text(), file.stat().st_size) == ("text", 4)
    assert not file.is_dir()
    assert [p.name for p in folder.iterdir()] == ["0001_x.json"]
    assert [p.name for p in place.rglob("*.json")] == ["0001_x.json"]
    assert [p.name for p in place.glob("a/*")] == ["b"]
    assert list(place.glob("nowhere/*")) == []
    assert list((place / "nowhere").glob("*")) == []
    assert inside(file, place) == "a/b/0001_x.json"
    assert str(file).endswith("/a/b/0001_x.json")
    assert file == place / "a/b/0001_x.json"
    assert sorted_paths({folder, file}) == [folder, file]
    assert hash(file) == hash(place / "a/b/0001_x.json")
    file.unlink()
    file.unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        file.read_bytes()


@pytest.mark.parametrize("local", [True, False])
def test_files_appear_whole(local: bool, tmp_path: Path) -> None:
    folder: AnyPath = tmp_path if local else RemotePath(LocalFileSystem(), str(tmp_path))
    write_whole(folder / "file", "one")
    write_whole(folder / "file", "two")
    append(folder / "file", b" and three")
    append(folder / "log", b"first")
    assert (folder / "file").read_text() == "two and three"
    assert create(folder / "new", b"mine")
    assert not create(folder / "new", b"yours")
    assert (folder / "new").read_bytes() == b"mine"
    rename(folder / "new", "log")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "log"]
    assert (folder / "log").read_bytes() == b"mine"
