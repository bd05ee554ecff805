"""Reads and writes plan files by path or URL, through fsspec where the file is not local.

:mod:`common.files` says what is local. A file is written whole or not at all: bytes go to a temporary file in the
same folder, are synced, and get the name in one step. Object stores publish an object only when its upload is complete,
so they are written directly.

Error codes: PLAN001 to PLAN009.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Iterator
from typing import Any

from stateplan.common.errors import CheckpointError, Place, PlanError, StateplanError
from stateplan.common.files import (
    HADOOP,
    SCHEMES,
    UrlError,
    connect,
    first_line,
    place_of,
    safe_url,
    scheme_of,
    write_remote,
)

_A_FILE = "the path of a plan file"

MAX_BYTES = 256 << 20
"""What is longer is not read as a plan: a device that never ends, a table."""
_A_URL = "a path, or a URL such as s3://bucket/plan.json"
_OVERWRITE_HINT = "remove the file or, while debugging, set the option 'table.plan.force-recompile' to true"


def _error(code: str, url: str, *, expected: str | None = None, hint: str | None = None, **values: object) -> PlanError:
    return PlanError(code, place=Place(file=safe_url(url)), expected=expected, hint=hint, **values)


_CODES = {
    "nul": ("PLAN008.nul", _A_URL),
    "host": ("PLAN008.host", None),
    "empty": ("PLAN008.no_path", None),
    "unknown": ("PLAN006", SCHEMES),
    "unusable": ("PLAN006.unusable", None),
    "missing": ("PLAN005", None),
    "failed": ("PLAN007", None),
    "unreached": ("PLAN007.unreached", None),
}
"""Code, and what was expected, for each reason of a UrlError."""


def _url_error(url: str, error: UrlError) -> PlanError:
    code, expected = _CODES[error.why]
    place = None if error.why == "nul" else Place(file=safe_url(url))
    return PlanError(code, place=place, expected=expected, hint=error.hint, **error.values)


def _local_path(url: str) -> str | None:
    """The local path ``url`` stands for, or None if it is on another filesystem.

    Raises:
        PlanError: PLAN008 when it cannot be a path.
    """
    if not url.strip():
        raise PlanError("PLAN008", problem="is empty", expected=_A_URL)
    try:
        return place_of(url)
    except UrlError as error:
        raise _url_error(url, error) from None


def _remote(url: str) -> tuple[Any, str]:
    """The fsspec filesystem and the path on it.

    Raises:
        PlanError: PLAN005 driver not installed, PLAN006 unknown scheme, PLAN007 the driver does not start.
    """
    try:
        return connect(url)
    except UrlError as error:
        if scheme_of(url) in HADOOP:
            from stateplan.runtime.spark.hadoop import hadoop_path

            try:
                remote = hadoop_path(url, {})
            except CheckpointError as refusal:
                cause = refusal.__cause__ if refusal.code == "CKPT001" else None
                raise _error("PLAN007.hadoop", url, what=first_line(cause) if cause else refusal.message) from refusal
            return remote.fs, remote.path
        raise _url_error(url, error) from None


def _reason(error: OSError) -> str:
    return (error.strerror or first_line(error)).lower()


@contextlib.contextmanager
def _file_errors(url: str, doing: str) -> Iterator[None]:
    """Turns what a filesystem raises into a PlanError; ``doing`` is ``read`` or ``written``."""
    name = safe_url(url)
    try:
        yield
    except StateplanError:
        raise
    except FileNotFoundError:
        if doing == "written":
            raise _error(
                "PLAN007.failed", url, name=name, doing="written", reason="no such file or directory", expected=_A_FILE
            ) from None
        hint = "check the path, or make the plan with COMPILE PLAN"
        raise _error("PLAN001", url, name=name, hint=hint) from None
    except IsADirectoryError:
        raise _error("PLAN003", url, name=name, what="a directory", expected=_A_FILE) from None
    except (NotADirectoryError, FileExistsError):
        problem = f"a part of the path '{name}' is a file, not a directory"
        raise _error("PLAN003.file_in_path", url, problem=problem, expected=_A_FILE) from None
    except PermissionError as error:
        raise _error("PLAN004", url, name=name, doing=doing, reason=_reason(error)) from None
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL):
            problem = f"this path cannot be used: {_reason(error)}"
            raise _error("PLAN008", url[:200], problem=f"cannot be used: {_reason(error)}", expected=_A_URL) from None
        raise _error("PLAN007.failed", url, name=name, doing=doing, reason=_reason(error)) from None
    except UnicodeEncodeError:
        raise PlanError("PLAN008", problem="is not valid Unicode", expected=_A_URL) from None
    except Exception as error:
        # Drivers raise their own classes (botocore, google.api_core, ...), which cannot be named here.
        problem = f"{type(error).__name__}: {first_line(error)}"
        raise _error("PLAN007.failed", url, name=name, doing=doing, reason=problem) from None


def exists(url: str) -> bool:
    """Whether there is anything at ``url``.

    Raises:
        PlanError: PLAN004 to PLAN008 when that cannot be determined.
    """
    path = _local_path(url)
    with _file_errors(url, "read"):
        if path is None:
            filesystem, remote = _remote(url)
            return bool(filesystem.exists(remote))
        return os.path.lexists(path)


def missing_folder(url: str) -> str | None:
    """The local folder of a file at ``url``, if it does not exist yet. Raises PlanError PLAN008."""
    path = _local_path(url)
    folder = os.path.dirname(path) if path is not None else ""
    return folder if folder and not os.path.exists(folder) else None


def read_bytes(url: str) -> bytes:
    """The content of the file at ``url``.

    Raises:
        PlanError: PLAN001 not found, PLAN003 a directory, PLAN004 not permitted, PLAN005 driver missing,
            PLAN006 unknown scheme, PLAN007 any other failure of the filesystem, PLAN008 not a path, PLAN009 too long.
    """
    path = _local_path(url)
    with _file_errors(url, "read"):
        if path is None:
            filesystem, remote = _remote(url)
            if filesystem.isdir(remote):
                raise IsADirectoryError
            return bytes(filesystem.cat_file(remote))
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            problem = f"'{safe_url(url)}' is longer than {MAX_BYTES >> 20} MiB, which no plan is"
            raise _error("PLAN009", url, problem=problem, expected=_A_FILE)
        return data


def write_bytes(url: str, data: bytes, overwrite: bool = False) -> None:
    """Writes the file at ``url`` whole, or leaves everything as it was. Missing folders are created.

    Args:
        url: path or URL.
        data: the whole content.
        overwrite: replace an existing file; it keeps its permissions, and a symbolic link stays one.

    Raises:
        PlanError: PLAN002 when the file exists and ``overwrite`` is not set, else as :func:`read_bytes`.
    """
    path = _local_path(url)
    with _file_errors(url, "written"):
        if path is None:
            _write_remote(url, data, overwrite)
        else:
            _write_local(path, data, overwrite)


def _exists_error(url: str) -> PlanError:
    return _error("PLAN002", url, shown=safe_url(url), hint=_OVERWRITE_HINT)


def _write_remote(url: str, data: bytes, overwrite: bool) -> None:
    filesystem, path = _remote(url)
    if filesystem.isdir(path):
        raise IsADirectoryError
    if not overwrite and filesystem.exists(path):
        raise _exists_error(url)
    parent = path.rpartition("/")[0]
    if parent:
        filesystem.makedirs(parent, exist_ok=True)
    write_remote(filesystem, path, data)


def _write_local(path: str, data: bytes, overwrite: bool) -> None:
    target = os.path.realpath(path)
    file_status = os.stat(target) if os.path.exists(target) else None
    if (file_status and stat.S_ISDIR(file_status.st_mode)) or path.endswith("/"):
        raise IsADirectoryError
    if file_status and not overwrite:
        raise _exists_error(path)
    if file_status and not stat.S_ISREG(file_status.st_mode):
        raise _error("PLAN003", path, name=path, what="not a regular file", expected=_A_FILE)
    if file_status and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    folder = os.path.dirname(target)
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f".{os.path.basename(target)[:60]}.{uuid.uuid4().hex}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if file_status:
                os.fchmod(file.fileno(), stat.S_IMODE(file_status.st_mode))
            os.fsync(file.fileno())
        _publish(temporary, target, overwrite, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    with contextlib.suppress(OSError):  # makes the new name survive a crash, where folders can be synced
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _publish(temporary: str, target: str, overwrite: bool, path: str) -> None:
    """Moves the temporary file to its name: a rename replaces a file, a link fails when the name is taken."""
    if overwrite:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise _exists_error(path) from None
    except OSError:
        # No hard links here (FAT, some network mounts).
        if os.path.lexists(target):
            raise _exists_error(path) from None
        os.replace(temporary, target)
        return
    os.unlink(temporary)
