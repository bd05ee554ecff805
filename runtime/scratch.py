"""Folders on local disk that are of no use when the process that made them is gone.

They lie in one folder per process, whose ``owner.lock`` the process holds. It is removed when the process ends; of one
that was killed, by the next one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import threading
from pathlib import Path

from stateplan.runtime.checkpoint.locks import FileLock, Holder

_PREFIX = "stateplan-"
_LOCK = "owner.lock"

_mine: dict[Path | None, tuple[Path, FileLock, int]] = {}
_guard = threading.Lock()


def scratch(name: str, parent: Path | None = None) -> Path:
    """A fresh folder in ``parent``, by default that for temporary files, its name beginning with ``name``.

    Raises OSError.
    """
    with _guard:
        mine = _mine.get(parent)
        if mine is None or mine[2] != os.getpid() or not mine[0].is_dir():
            root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            mine = _mine[parent] = root, _owned(root), os.getpid()
            atexit.register(_remove, root, os.getpid())
            threading.Thread(target=sweep, args=(parent,), name="stateplan-sweep", daemon=True).start()
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=mine[0]))


class JointScratch:
    """A folder that several processes of a machine use. It is removed when the last of them has left it; what killed
    ones leave, by the next one.

    Args:
        name: the name of the folder, the same in all of them.
        parent: the parent of the folder; made when it is not there.

    Raises OSError.
    """

    def __init__(self, name: str, parent: Path) -> None:
        self.folder = parent / f"{_PREFIX}{name}"
        while True:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(self.folder / _LOCK, is_shared=True)
            try:
                self._lock.take(wait=5.0)
            except FileNotFoundError:  # removed in between
                continue
            if (self.folder / _LOCK).exists():
                break
            self._lock.release()
        threading.Thread(target=sweep, args=(parent,), name="stateplan-sweep", daemon=True).start()

    def leave(self) -> None:
        """This process does not use it any more."""
        self._lock.release()
        with contextlib.suppress(OSError):
            _left_behind(self.folder)


def _owned(root: Path) -> FileLock:
    """The lock of a new folder; it is there under its name when it is held, so that nobody takes it for one that was
    left behind."""
    fresh = FileLock(root / f".{_LOCK}")
    fresh.take()
    fresh.say(f"{Holder.me()}\n")
    fresh.path.rename(root / _LOCK)
    return fresh


def _remove(root: Path, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(root, ignore_errors=True)


def sweep(folder: Path | None = None) -> list[Path]:
    """Removes what processes that are gone left in ``folder``, by default that for temporary files; what was removed.

    A folder counts as left behind when its lock is there and nobody has it.
    """
    removed_roots = []
    with contextlib.suppress(OSError):
        for root in sorted((folder or Path(tempfile.gettempdir())).glob(f"{_PREFIX}*")):
            with contextlib.suppress(OSError):
                if _left_behind(root):
                    removed_roots.append(root)
    return removed_roots


def _left_behind(root: Path) -> bool:
    """Removes a folder when nobody has it; whether it did."""
    path = root / _LOCK
    if root.is_symlink() or not path.is_file() or (hasattr(os, "getuid") and root.stat().st_uid != os.getuid()):
        return False
    lock = FileLock(path)
    if not lock.take() or not lock.real:
        lock.release()
        return False
    try:
        for entry in [e for e in root.iterdir() if e.name != _LOCK]:  # the lock last: the next one continues if need be
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink()
        path.unlink()
        root.rmdir()
    finally:
        lock.release()
    return True
