"""A disk without space: how it shows in errors, and the error that names it."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from stateplan.common.errors import RunError
from stateplan.common.paths import AnyPath
from stateplan.common.readable import bytes_text

FULL = ("No space left on device", "Disk quota exceeded")
"""What the operating system says; client libraries repeat it in their messages."""


def full_disk(error: BaseException | str, path: AnyPath) -> RunError | None:
    """RUN031 for a failure for want of space at a local path; None for any other failure."""
    if not is_full(str(error)):
        return None
    folder = existing_folder(path)
    return None if folder is None else full_error(folder)


def is_full(text: str) -> bool:
    """Whether a message says that a disk has no space."""
    return any(sign in text for sign in FULL)


def existing_folder(path: AnyPath) -> Path | None:
    """The folder of this machine that is nearest to a path; None if there is none."""
    with contextlib.suppress(OSError):
        return next((p for p in (path, *path.parents) if p.is_dir()), None) if isinstance(path, Path) else None
    return None


def full_error(folder: Path) -> RunError:
    """RUN031 about the disk of a folder."""
    usage = shutil.disk_usage(folder)
    return RunError("RUN031", folder=folder, free=bytes_text(usage.free), total=bytes_text(usage.total))


def output_error(stream: str, cause: OSError | None) -> RunError:
    """RUN090 for a standard file that cannot be written.

    Args:
        stream: ``standard output`` or ``standard error``.
        cause: what the system says; None where it is closed.
    """
    reason = "" if cause is None else (cause.strerror or str(cause)).lower()
    error = RunError("RUN090", stream=stream, problem=f"cannot be written: {reason}" if reason else "is closed")
    error.__cause__ = cause
    return error
