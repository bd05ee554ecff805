"""A file system of few KiB, for tests of a full disk."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class SmallDisk:
    """A file system at ``folder``."""

    folder: Path

    def grow(self, size: str = "64m") -> None:
        """Gives it more room."""
        _mount(self.folder, f"remount,size={size}")

    def fill(self) -> Path:
        """Takes all the room that is left, with a file that can be removed."""
        usage = os.statvfs(self.folder)
        path = self.folder / "other"
        path.write_bytes(bytes(usage.f_bavail * usage.f_frsize))
        return path


def _mount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True, capture_output=True)


@contextmanager
def small_disk(folder: Path, size: str = "400k") -> Iterator[SmallDisk]:
    """A new file system at a new folder. Skips the test where nobody may mount one."""
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    folder.mkdir()
    try:
        _mount(folder, f"size={size}")
    except (OSError, subprocess.CalledProcessError) as cause:
        pytest.skip(f"a small file system cannot be mounted here: {cause}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
