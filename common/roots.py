"""Roots: the folders and URLs that a job may access. Opens files below them.

Code that works for a user sets the roots of that user for its thread: :func:`holding` around the work, or :func:`hold`
at the beginning of a task. From then on, :mod:`common.files` raises an error in that thread for each path that is not
below a root. The links in the path of a local file are resolved once. The resolved path is then opened without
following links, so a link that is created in between has no effect.

Code: GW012.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator

from stateplan.common.errors import GatewayError, Place
from stateplan.common.lazy_dataclass import dataclass

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""How a folder is opened on the way to a file: it need not be readable where the system has such a mode."""


@dataclass(frozen=True)
class Roots:
    """The places where a job may read and write files. Picklable.

    Attributes:
        folders: local paths without links and dots, and URLs, as :func:`common.files.real_path` returns them.
    """

    folders: tuple[str, ...]

    def require(self, real: str, shown_path: str, place: Place | None = None) -> None:
        """Raises GatewayError GW012 for a path that is not below a root.

        Args:
            real: the path, as :func:`common.files.real_path` returns it.
            shown_path: the path as the message shows it.
            place: where the path is written.
        """
        if not any(real == root or real.startswith(root.rstrip("/") + "/") for root in self.folders):
            raise outside(shown_path, place)


def outside(shown_path: str, place: Place | None = None) -> GatewayError:
    """The error GW012 for a path. The message shows it as ``shown_path``."""
    return GatewayError("GW012", path=shown_path, place=place)


_thread = threading.local()


def current_roots() -> Roots | None:
    """The roots of this thread; None if it may access all files."""
    roots: Roots | None = getattr(_thread, "roots", None)
    return roots


def hold(roots: Roots | None) -> None:
    """Sets the roots of this thread, until the next call. For tasks that continue in a generator: the next task sets
    its own roots at its beginning."""
    _thread.roots = roots


@contextlib.contextmanager
def holding(roots: Roots | None) -> Iterator[None]:
    """A context in which this thread has these roots. Not for generators, because a caller may leave one open."""
    before = current_roots()
    hold(roots)
    try:
        yield
    finally:
        hold(before)


def open_unlinked(path: str, flags: int, mode: int = 0o666) -> int:
    """Opens a local file, and returns its descriptor, where neither it nor a folder above it is a link.

    Args:
        path: absolute, without dots.
        flags: the flags of ``os.open``.
        mode: the permissions of a new file.

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
