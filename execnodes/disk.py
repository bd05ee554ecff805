"""A disk without space: how it shows in errors, and the error that names it."""

from __future__ import annotations

import shutil
from pathlib import Path

from stateplan.execnodes.errors import RunError
from stateplan.execnodes.paths import AnyPath
from stateplan.execnodes.readable import bytes_text

FULL = ("No space left on device", "Disk quota exceeded")
"""What the operating system says; client libraries repeat it in their messages."""


def full_disk(error: BaseException | str, path: AnyPath) -> RunError | None:
    """RUN031 for a failure for want of space at a local path; None for any other failure."""
    if not isinstance(path, Path) or not any(sign in str(error) for sign in FULL):
        return None
    folder = next((p for p in (path, *path.parents) if p.is_dir()), None)
    if folder is None:
        return None
    usage = shutil.disk_usage(folder)
    return RunError("RUN031", folder=folder, free=bytes_text(usage.free), total=bytes_text(usage.total))
