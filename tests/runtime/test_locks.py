"""Who may write to a checkpoint, and what is removed of processes that are gone."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from stateplan.common.errors import CheckpointError
from stateplan.runtime.checkpoint import locks
from stateplan.runtime.checkpoint.locks import WRITER_LOCK, name_spark, running_writer, writer_lock
from stateplan.runtime.scratch import sweep

ROOT = Path(__file__).resolve().parents[2]


def other(code: str, folder: Path) -> subprocess.Popen[str]:
    """Another process that has run ``code`` and waits."""
    script = f"from pathlib import Path\nfolder = Path({str(folder)!r})\n{code}\nprint('ready', flush=True)\ninput()"
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_one_writer(tmp_path: Path) -> None:
    process = other("from stateplan.runtime.checkpoint.locks import writer_lock\nlock = writer_lock(folder)", tmp_path)
    try:
        with pytest.raises(CheckpointError) as error:
            writer_lock(tmp_path)
        assert error.value.code == "CKPT030"
        assert f"process {process.pid} on host {os.uname().nodename}, since 2" in error.value.message
        holder = running_writer(tmp_path)
        assert holder is not None
        assert holder.pid == process.pid
    finally:
        killed(process)
    assert json.loads((tmp_path / WRITER_LOCK).read_text())["pid"] == process.pid, (
        "it is still said, and does not count"
    )
    assert running_writer(tmp_path) is None
    writer_lock(tmp_path).release()


def test_one_writer_in_this_process(tmp_path: Path) -> None:
    mine = writer_lock(tmp_path)
    with pytest.raises(CheckpointError, match="which is this one"):
        writer_lock(tmp_path)
    mine.release()
    writer_lock(tmp_path).release()


@pytest.mark.parametrize("text", ["", "{", '{"pid": 1}', "[]", "\udcff"])
def test_what_an_old_lock_says_does_not_matter(text: str, tmp_path: Path) -> None:
    (tmp_path / WRITER_LOCK).write_bytes(text.encode("utf-8", "surrogateescape"))
    lock = writer_lock(tmp_path)
    assert json.loads((tmp_path / WRITER_LOCK).read_text())["pid"] == os.getpid()
    lock.release()


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locks.fcntl, "flock", flock)
    mine = writer_lock(tmp_path)
    with pytest.raises(CheckpointError) as error:
        writer_lock(tmp_path)
    assert error.value.code == "CKPT030"
    assert running_writer(tmp_path) is not None
    (tmp_path / "stateplan-x").mkdir()
    (tmp_path / "stateplan-x" / "owner.lock").touch()
    assert sweep(tmp_path) == [], "nobody knows whose it is"
    mine.release()
    assert running_writer(tmp_path) is None


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    code = (
        "from stateplan.runtime.scratch import scratch\n"
        "made = scratch('runs'), scratch('checkpoint')\n"
        "(made[0] / 'a.arrow').write_text('x')\n(made[1] / 'deep').mkdir()\n(made[1] / 'deep' / 'b').write_text('y')"
    )
    (tmp_path / "stateplan-mine").mkdir()
    (tmp_path / "stateplan-spark-1.log").touch()
    process = other(code, tmp_path)
    (root,) = tmp_path.glob("stateplan-*/owner.lock")
    assert sweep(tmp_path) == [], "its owner is there"
    killed(process)
    assert (root.parent).exists()
    assert sweep(tmp_path) == [root.parent]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["stateplan-mine", "stateplan-spark-1.log"]


def test_what_a_process_leaves_is_removed_when_it_ends(tmp_path: Path) -> None:
    process = other("from stateplan.runtime.scratch import scratch\nscratch('runs')", tmp_path)
    assert list(tmp_path.iterdir())
    process.communicate("\n")
    assert list(tmp_path.iterdir()) == []


def ended_process() -> int:
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize("is_killed", [True, False])
def test_spark_of_a_process_that_was_killed_is_waited_for(tmp_path: Path, is_killed: bool) -> None:
    """The next writer does not meet it in the logs. Spark of a process that goes on is none of its business."""
    spark = subprocess.Popen(["sleep", "0.7"])
    pid = ended_process() if is_killed else os.getppid()
    holder = {"pid": pid, "host": socket.gethostname(), "since": 0, "jvm": spark.pid}
    (tmp_path / WRITER_LOCK).write_text(json.dumps(holder))
    reaper = threading.Thread(target=spark.wait)
    reaper.start()
    lock = writer_lock(tmp_path)
    assert (spark.poll() is not None) == is_killed
    lock.release()
    reaper.join()


@pytest.mark.spark
def test_the_lock_of_a_job_on_spark_names_its_process(spark: object, tmp_path: Path) -> None:
    lock = writer_lock(tmp_path)
    name_spark(lock)
    jvm = json.loads((tmp_path / WRITER_LOCK).read_text())["jvm"]
    assert Path(f"/proc/{jvm}/comm").read_text() == "java\n"
    lock.release()
