"""Folders and URLs out of which a job must not lead, and the opening of files below them.

Whoever works for others holds their roots: :func:`holding` around what a thread does, :func:`hold` where a task begins.
From then on, what :mod:`common.files` opens and lists in that thread is below a root, or an error. A local file is
looked at once: its links are followed, and the path that this gives is opened without following any, so that a link
that somebody makes in between leads nowhere.

Code: GW012.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from stateplan.common.errors import GatewayError, Place

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""How a folder is opened on the way to a file: it need not be readable where the system has such a mode."""


@dataclass(frozen=True)
class Roots:
    """Where files may be. Picklable.

    Attributes:
        folders: local paths without links and dots, and URLs, as :func:`common.files.real_path` gives them.
    """

    folders: tuple[str, ...]

    def require(self, real: str, shown_path: str, place: Place | None = None) -> None:
        """Raises GatewayError GW012 for a path that is not below a root.

        Args:
            real: as :func:`common.files.real_path` gives it.
            shown_path: what it is called.
            place: where it is written.
        """
        if not any(real == root or real.startswith(root.rstrip("/") + "/") for root in self.folders):
            raise outside(shown_path, place)


def outside(shown_path: str, place: Place | None = None) -> GatewayError:
    """GW012, for a path that is called ``shown_path``."""
    return GatewayError("GW012", path=shown_path, place=place)


_thread = threading.local()


def held() -> Roots | None:
    """The roots of this thread; None where it may go anywhere."""
    roots: Roots | None = getattr(_thread, "roots", None)
    return roots


def hold(roots: Roots | None) -> None:
    """From now on, this thread has these roots. For the beginning of a task, which goes on in a generator: the next
    task begins with its own."""
    _thread.roots = roots


@contextlib.contextmanager
def holding(roots: Roots | None) -> Iterator[None]:
    """Within, this thread has these roots. Not for generators, which others may leave open."""
    before = held()
    hold(roots)
    try:
        yield
    finally:
        hold(before)


def open_unlinked(path: str, flags: int, mode: int = 0o666) -> int:
    """Opens a local file, and gives its descriptor, where neither it nor a folder above it is a link.

    Args:
        path: absolute, without dots.
        flags: of ``os.open``.
        mode: of a new file.

    Raises:
        OSError: it cannot be opened; ``ELOOP`` for a link.
    """
    *folders, name = [part for part in path.split("/") if part]
    at = os.open("/", _FOLDER)
    try:
        for folder in folders:
            below = os.open(folder, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=at)
    finally:
        os.close(at)


def is_link_error(error: OSError) -> bool:
    """Whether :func:`open_unlinked` met a link."""
    return error.errno in (errno.ELOOP, errno.ENOTDIR)
