"""Locks between processes: who writes to a directory.

On local disk a lock is ``flock`` on a file that stays there; the text in the file only says who has it. A process that
is killed holds nothing any more, whatever the file says.

File systems without such locks, remote ones among them, have a *lease*: numbered files, of which the newest says who
may write. Its holder writes it again and again; who wants to follow watches it for a while, and makes the next number,
which is a fencing token: whoever has an older one finds that out before the next commit.

Codes: CKPT030, CKPT035.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from stateplan.common.errors import CheckpointError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath, create, write_whole
from stateplan.runtime.spark.jvm_loss import jvm_process

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

WRITER_LOCK = "writer.lock"
WRITERS = "writers"
"""The folder of the lease on a checkpoint."""
BEAT = 5.0
"""Seconds between two signs of life of the holder of a lease."""
EXPIRY = 20.0
"""Seconds without a sign after which a lease has ended."""
_LAST_BREATH = 10.0
"""The longest wait, in seconds, for the process of Spark of a process that was killed. It ends within one; a later
process may have its id by now."""
_STALE = 5.0
"""Seconds after which a lock file belongs to nobody: what it guards takes milliseconds."""
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""What file systems without locks answer."""


@dataclass(frozen=True)
class Holder:
    """The process that has a lock: its id, the host it runs on, when it took the lock (ms since 1970), and the id of
    its JVM, where it has started Spark."""

    pid: int
    host: str
    since: int
    jvm: int | None = None

    @staticmethod
    def me() -> Holder:
        return Holder(os.getpid(), socket.gethostname(), time.time_ns() // 1_000_000)

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        own = ", which is this one" if (self.pid, self.host) == (os.getpid(), socket.gethostname()) else ""
        return f"process {self.pid}{own} on host {self.host}, since {since}"


class FileLock:
    """An exclusive lock on a file, from :meth:`take` to :meth:`release`.

    Args:
        path: the path of the file; its directory exists.
        is_shared: whether others may have it in this way too.

    Attributes:
        real: whether the file system has locks at all. Where it has none, nobody is kept out.
    """

    def __init__(self, path: Path, is_shared: bool = False) -> None:
        self.path = path
        self.is_shared = is_shared
        self.real = fcntl is not None
        self._file: int | None = None

    def take(self, wait: float = 0.0) -> bool:
        """Takes the lock, waiting ``wait`` seconds for it; whether it is taken. Raises OSError."""
        if self._file is not None:
            return True
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        deadline = time.monotonic() + wait
        while self.real and fcntl is not None:
            try:
                fcntl.flock(handle, (fcntl.LOCK_SH if self.is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    os.close(handle)
                    return False
                time.sleep(min(0.02, wait))
            except OSError as cause:
                if cause.errno not in _NO_LOCKS:
                    os.close(handle)
                    raise
                self.real = False
        self._file = handle
        return True

    def say(self, text: str) -> None:
        """Writes ``text`` into the file of a lock that is taken."""
        assert self._file is not None
        data = text.encode()
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, data, 0)

    def check(self) -> None:
        """Nobody else can have taken it."""

    def release(self) -> None:
        """Releases the lock; the file stays."""
        handle, self._file = self._file, None
        if handle is not None:
            os.close(handle)


@contextmanager
def locked(path: AnyPath, wait: float) -> Iterator[bool]:
    """Within, the lock on the file ``path`` is held, unless it gives False: then it was not to be had for ``wait``
    seconds."""
    if isinstance(path, Path):
        lock = FileLock(path)
        has_lock = lock.take(wait)
        try:
            yield has_lock
        finally:
            lock.release()
        return
    has_lock = _make_lock_file(path, wait)
    try:
        yield has_lock
    finally:
        if has_lock:
            path.unlink(missing_ok=True)


def _make_lock_file(path: AnyPath, wait: float) -> bool:
    """Makes a lock file that is not there yet, or that nobody has removed for too long."""
    mine = uuid.uuid4().hex.encode()
    began = since = time.monotonic()
    last_content: bytes | None = None
    while not create(path, mine):
        with contextlib.suppress(FileNotFoundError):
            content = path.read_bytes()
            now = time.monotonic()
            if content != last_content:
                last_content, since = content, now
            elif now - since > _STALE:
                path.unlink(missing_ok=True)
                continue
        if time.monotonic() - began >= wait:
            return False
        time.sleep(min(0.1, wait))
    return True


# ---- leases ----------------------------------------------------------------------------------------------------


class Lease:
    """The right to write to a checkpoint on a file system without locks, from :meth:`take` to :meth:`release`.

    Args:
        folder: the folder of the checkpoint.
        tell: receives a line when it has to wait for the end of another lease.
    """

    def __init__(self, folder: AnyPath, tell: Callable[[str], None] | None = None) -> None:
        self._checkpoint = folder
        self._folder = folder / WRITERS
        self._tell = tell or (lambda text: None)
        self._number = 0
        self._mine: dict[str, Any] = {**asdict(Holder.me()), "token": uuid.uuid4().hex, "beat": 0}
        self._end = threading.Event()

    def take(self) -> bool:
        """Takes the lease, when no living process has it; waits for up to :data:`EXPIRY` seconds for a sign of life.
        Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        newest = newest_lease(self._folder)
        if newest and not self._has_ended(newest):
            return False
        if not create(self._path(newest + 1), self._text()):
            return False
        self._number = newest + 1
        if newest_lease(self._folder) != self._number:
            return False
        _mine.add(self._mine["token"])
        for number in _numbers(self._folder):
            if number < self._number:
                self._path(number).unlink(missing_ok=True)
                _beats(self._folder, number).unlink(missing_ok=True)
        threading.Thread(target=self._keep, name="stateplan-lease", daemon=True).start()
        return True

    def check(self) -> None:
        """Raises CheckpointError CKPT035 when another process has taken over."""
        if newest_lease(self._folder) != self._number:
            holder = _read_lease(self._folder, newest_lease(self._folder))
            raise CheckpointError("CKPT035", folder=self._checkpoint, holder=holder or "another process")

    def release(self) -> None:
        """Releases the lease. Its files stay, so that numbers only grow."""
        if self._number and not self._end.is_set():
            self._end.set()
            _mine.discard(self._mine["token"])
            with contextlib.suppress(OSError):
                if newest_lease(self._folder) == self._number:
                    self._mine["released"] = True
                    write_whole(_beats(self._folder, self._number), self._text().decode())

    def _path(self, number: int) -> AnyPath:
        return self._folder / f"{number:010d}"

    def _text(self) -> bytes:
        return json.dumps(self._mine).encode()

    def _keep(self) -> None:
        while not self._end.wait(BEAT):
            self._mine.update(beat=self._mine["beat"] + 1, seen=time.time_ns() // 1_000_000)
            with contextlib.suppress(OSError):
                if newest_lease(self._folder) != self._number:
                    return
                write_whole(_beats(self._folder, self._number), self._text().decode())

    def _has_ended(self, number: int) -> bool:
        facts = _lease_facts(self._folder, number)
        if facts.get("token") in _mine:
            return False
        if facts.get("released") or _is_gone(facts):
            return True
        holder = _read_lease(self._folder, number)
        self._tell(f"waiting up to {EXPIRY:.0f} s for a sign of life of {holder or 'the last writer'}")
        until = time.monotonic() + EXPIRY
        while time.monotonic() < until:
            time.sleep(BEAT / 10)
            now = _lease_facts(self._folder, number)
            if now.get("released"):
                return True
            if now.get("beat") != facts.get("beat") or newest_lease(self._folder) != number:
                return False
        return True


_mine: set[str] = set()
"""The tokens of this process's leases."""


def _numbers(folder: AnyPath) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return sorted(int(p.name) for p in folder.iterdir() if p.name.isdecimal())
    return []


def newest_lease(folder: AnyPath) -> int:
    """The number of the newest lease, 0 for none. Raises OSError."""
    return max(_numbers(folder), default=0)


def _beats(folder: AnyPath, number: int) -> AnyPath:
    """The file that a lease's holder writes again and again. The one that is named by the number is written once: where
    a file system replaces files in two steps, one that is written again is not there for an instant."""
    return folder / f"{number:010d}.beat"


def _lease_facts(folder: AnyPath, number: int) -> dict[str, Any]:
    facts_of_lease: dict[str, Any] = {}
    for path in (folder / f"{number:010d}", _beats(folder, number)):
        with contextlib.suppress(OSError, ValueError):
            facts = json.loads(path.read_bytes())
            if isinstance(facts, dict):
                facts_of_lease |= facts
    return facts_of_lease


def _read_lease(folder: AnyPath, number: int) -> Holder | None:
    facts = _lease_facts(folder, number)
    with contextlib.suppress(KeyError, TypeError, ValueError):
        return Holder(int(facts["pid"]), str(facts["host"]), int(facts["since"]))
    return None


def _is_gone(facts: dict[str, Any]) -> bool:
    """Whether a process of this host does not run any more."""
    if facts.get("host") != socket.gethostname() or not isinstance(facts.get("pid"), int):
        return False
    if facts["pid"] == os.getpid():  # this process had it, or has the number of one that is gone
        return facts.get("token") not in _mine
    return not _runs(facts["pid"])


# ---- the writer of a checkpoint --------------------------------------------------------------------------------


def writer_lock(folder: AnyPath, tell: Callable[[str], None] | None = None) -> FileLock | Lease:
    """The right to write to the checkpoint in ``folder``, taken; it ends with the process that has it.

    Args:
        folder: the folder of the checkpoint.
        tell: receives a line when it has to wait.

    Raises:
        CheckpointError: CKPT030, another query has it.
        OSError: the folder cannot be written.
    """
    if isinstance(folder, Path):
        lock = FileLock(folder / WRITER_LOCK)
        if not lock.take(wait=0.5):  # a command that only looks holds it for an instant
            raise _is_taken(folder, _read_holder(folder))
        if lock.real:
            _wait_for_spark_of(_read_holder(folder))
            lock.say(json.dumps(asdict(Holder.me())) + "\n")
            return lock
        lock.release()
    lease = Lease(folder, tell)
    if not lease.take():
        raise _is_taken(folder, _read_lease(folder / WRITERS, newest_lease(folder / WRITERS)))
    return lease


def name_spark(lock: FileLock | Lease) -> None:
    """Adds the process of Spark that this process has started to what the file of a writer's lock says."""
    if not isinstance(lock, FileLock):
        return
    holder = _read_holder(lock.path.parent)
    if holder is not None:
        with contextlib.suppress(OSError):  # without it, the next writer does not wait
            lock.say(json.dumps(asdict(replace(holder, jvm=jvm_process()))) + "\n")


def _wait_for_spark_of(holder: Holder | None) -> None:
    """Waits until the process of Spark is gone whose own process was killed. It ends when it notices that, and may
    write the next micro-batch to its logs before."""
    if holder is None or holder.jvm is None or holder.host != socket.gethostname() or _runs(holder.pid):
        return
    deadline = time.monotonic() + _LAST_BREATH
    while _runs(holder.jvm) and time.monotonic() < deadline:
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    """Whether a process of this host runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _is_taken(folder: AnyPath, holder: Holder | None) -> CheckpointError:
    return CheckpointError("CKPT030", folder=folder, holder=holder or "a process that does not say its id")


def running_writer(folder: AnyPath) -> Holder | None:
    """Who writes to the checkpoint in ``folder`` now; None if nobody does."""
    with contextlib.suppress(OSError):
        number = newest_lease(folder / WRITERS)
        if number:
            facts = _lease_facts(folder / WRITERS, number)
            seen_at = facts.get("seen") or facts.get("since") or 0
            is_over = facts.get("released") or _is_gone(facts) or time.time() - seen_at / 1000 > EXPIRY
            return None if is_over else _read_lease(folder / WRITERS, number)
    if fcntl is None or not isinstance(folder, Path):
        return None
    with contextlib.suppress(OSError):
        handle = os.open(folder / WRITER_LOCK, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read_holder(folder) or Holder(0, "", 0)
        finally:
            os.close(handle)
    return None


def _read_holder(folder: Path) -> Holder | None:
    try:
        data = json.loads((folder / WRITER_LOCK).read_text())
        jvm = data.get("jvm")
        return Holder(int(data["pid"]), str(data["host"]), int(data["since"]), None if jvm is None else int(jvm))
    except (AttributeError, OSError, ValueError, KeyError, TypeError):
        return None
