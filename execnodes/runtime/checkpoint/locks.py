"""Locks between processes: who writes to a directory, held by the operating system and gone with the process.

A lock is ``flock`` on a file that stays there; the text in the file only says who has it. A process that is killed
holds nothing any more, whatever the file says.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

from stateplan.execnodes.errors import CheckpointError

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

WRITER_LOCK = "writer.lock"
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""What file systems without locks answer."""


@dataclass(frozen=True)
class Holder:
    """The process that has a lock: its id, the host it runs on, and when it took the lock (ms since 1970)."""

    pid: int
    host: str
    since: int

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
        path: of the file; its directory exists.

    Attributes:
        real: whether the file system has locks at all. Where it has none, nobody is kept out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
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
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
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

    def release(self) -> None:
        """Gives the lock back; the file stays."""
        handle, self._file = self._file, None
        if handle is not None:
            os.close(handle)


@contextmanager
def locked(path: Path, wait: float) -> Iterator[bool]:
    """Within, the lock on the file ``path`` is held, unless it gives False: then it was not to be had for ``wait``
    seconds."""
    lock = FileLock(path)
    taken = lock.take(wait)
    try:
        yield taken
    finally:
        lock.release()


def writer_lock(folder: Path) -> FileLock:
    """The right to write to the checkpoint in ``folder``, taken; it ends with the process that has it.

    Raises:
        CheckpointError: CKPT030, another query has it.
        OSError: the file cannot be written.
    """
    lock = FileLock(folder / WRITER_LOCK)
    if not lock.take(wait=0.5):  # a command that only looks holds it for an instant
        holder = _read_holder(folder)
        raise CheckpointError("CKPT030", folder=folder, holder=holder or "a process that does not say its id")
    lock.say(json.dumps(asdict(Holder.me())) + "\n")
    return lock


def running_writer(folder: Path) -> Holder | None:
    """Who writes to the checkpoint in ``folder`` now; None when nobody does, or the file system has no locks."""
    path = folder / WRITER_LOCK
    if fcntl is None:
        return None
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
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
        return Holder(int(data["pid"]), str(data["host"]), int(data["since"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
