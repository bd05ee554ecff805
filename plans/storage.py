"""Reads and writes plan files by path or URL, through fsspec where the file is not local.

A plain path and ``file:`` URLs go straight to the operating system (``%`` is an ordinary character in them,
as in Flink's ``Path``); every other scheme goes to the filesystem that fsspec knows for it. A file is written
whole or not at all: bytes go to a temporary file in the same folder, are synced, and get the name in one
step. Object stores publish an object only when its upload is complete, so they are written directly.

Error codes: PLAN001 to PLAN009.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import uuid
from collections.abc import Iterator
from typing import Any

from stateplan.execnodes.errors import Place, PlanError, nearest

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_USER = re.compile(r"(?<=://)[^/@]*@")

_HADOOP = "pyarrow (and Hadoop's native library libhdfs)"
_PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "oss": "ossfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "adl": "adlfs",
    "hdfs": _HADOOP,
    "viewfs": _HADOOP,
    "webhdfs": "requests",
    "http": "aiohttp",
    "https": "aiohttp",
    "sftp": "paramiko",
    "ssh": "paramiko",
    "smb": "smbprotocol",
    "oci": "ocifs",
    "dropbox": "dropboxdrivefs",
    "gdrive": "gdrivefs",
    "hf": "huggingface_hub",
    "git": "pygit2",
    "github": "requests",
}
"""Package that brings the driver of a scheme."""

_WHOLE_OBJECTS = frozenset({"s3", "s3a", "gs", "gcs", "oss", "abfs", "abfss", "az", "adl", "oci", "memory"})
"""Schemes under which an object appears complete or not at all, and a rename would be a copy."""

_A_FILE = "the path of a plan file"

MAX_BYTES = 256 << 20
"""What is longer is not read as a plan: a device that never ends, a table."""
_A_URL = "a path, or a URL such as s3://bucket/plan.json"
_SCHEMES = "a plain path, or a URL with file:, s3:, gs:, hdfs:, memory: or another scheme of fsspec"
_OVERWRITE_HINT = "remove the file or, while debugging, set the option 'table.plan.force-recompile' to true"


def shown(url: str) -> str:
    """``url`` for messages: without a user name and password."""
    return _USER.sub("***@", url)


def _error(code: str, url: str, *, expected: str | None = None, hint: str | None = None, **values: object) -> PlanError:
    return PlanError(code, place=Place(file=shown(url)), expected=expected, hint=hint, **values)


def _local_path(url: str) -> str | None:
    """The local path ``url`` stands for, or None when it is on another filesystem.

    Raises:
        PlanError: PLAN008 when it cannot be a path.
    """
    if not url.strip():
        raise PlanError("PLAN008", expected=_A_URL)
    if "\x00" in url:
        raise PlanError("PLAN008.local_path", expected=_A_URL)
    scheme = _SCHEME.match(url)
    if scheme is None:
        return url
    if scheme.group(1).lower() not in ("file", "local"):
        return None
    rest = url[scheme.end() :]
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise _error("PLAN008.local_path_2", url, host=host, slash=slash, path=path)
        rest = slash + path
    if not rest:
        raise _error("PLAN008.local_path_3", url)
    return rest


def is_local(url: str) -> bool:
    """Whether ``url`` is a plain path or a ``file:`` URL."""
    return _local_path(url) is not None


def _remote(url: str) -> tuple[Any, str]:
    """The fsspec filesystem and the path on it.

    Raises:
        PlanError: PLAN005 driver not installed, PLAN006 unknown scheme, PLAN007 the driver does not start.
    """
    from fsspec.core import url_to_fs
    from fsspec.registry import known_implementations, registry

    match = _SCHEME.match(url)
    scheme = match.group(1).lower() if match else ""
    package = _PACKAGES.get(scheme)
    known = [*known_implementations, *registry, *_PACKAGES]
    if "::" not in url and scheme not in known:
        raise _error("PLAN006", url, scheme=scheme, expected=_SCHEMES, hint=nearest(scheme, known))
    try:
        filesystem, path = url_to_fs(url)
    except ImportError as error:
        hint = f"install the package {package}" if package else "install the package it names"
        raise _error("PLAN005", url, scheme=scheme, first_line=_first_line(error), hint=hint) from None
    except ValueError as error:
        raise _error("PLAN006.remote", url, first_line=_first_line(error)) from None
    except Exception as error:
        raise _error(
            "PLAN007",
            url,
            scheme=scheme,
            first_line=_first_line(error),
            hint=f"it needs the package {package}" if package else None,
        ) from None
    return filesystem, path


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:300]


def _reason(error: OSError) -> str:
    return (error.strerror or _first_line(error)).lower()


@contextlib.contextmanager
def _explained(url: str, doing: str) -> Iterator[None]:
    """Turns what a filesystem raises into a PlanError; ``doing`` is ``read`` or ``written``."""
    name = shown(url)
    try:
        yield
    except PlanError:
        raise
    except FileNotFoundError:
        if doing == "written":
            raise _error("PLAN007.explained", url, name=name, expected=_A_FILE) from None
        hint = "check the path, or make the plan with COMPILE PLAN"
        raise _error("PLAN001", url, name=name, hint=hint) from None
    except IsADirectoryError:
        raise _error("PLAN003", url, name=name, expected=_A_FILE) from None
    except (NotADirectoryError, FileExistsError):
        what = f"a part of the path '{name}' is a file, not a directory"
        raise _error("PLAN003.explained", url, problem=what, expected=_A_FILE) from None
    except PermissionError as error:
        raise _error("PLAN004", url, name=name, doing=doing, reason=_reason(error)) from None
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL):
            what = f"this path cannot be used: {_reason(error)}"
            raise _error("PLAN008.explained", url[:200], problem=what, expected=_A_URL) from None
        raise _error("PLAN007.explained_2", url, name=name, doing=doing, reason=_reason(error)) from None
    except UnicodeEncodeError:
        raise PlanError("PLAN008.explained_2", expected=_A_URL) from None
    except Exception as error:
        # Drivers raise their own classes (botocore, google.api_core, ...), which cannot be named here.
        what = f"{type(error).__name__}: {_first_line(error)}"
        raise _error("PLAN007.explained_3", url, name=name, doing=doing, what=what) from None


def exists(url: str) -> bool:
    """Whether there is anything at ``url``.

    Raises:
        PlanError: PLAN004 to PLAN008 when that cannot be told.
    """
    path = _local_path(url)
    with _explained(url, "read"):
        if path is None:
            filesystem, remote = _remote(url)
            return bool(filesystem.exists(remote))
        return os.path.lexists(path)


def read_bytes(url: str) -> bytes:
    """The content of the file at ``url``.

    Raises:
        PlanError: PLAN001 not found, PLAN003 a directory, PLAN004 not permitted, PLAN005 driver missing,
            PLAN006 unknown scheme, PLAN007 any other failure of the filesystem, PLAN008 not a path, PLAN009 too long.
    """
    path = _local_path(url)
    with _explained(url, "read"):
        if path is None:
            filesystem, remote = _remote(url)
            if filesystem.isdir(remote):
                raise IsADirectoryError
            return bytes(filesystem.cat_file(remote))
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            what = f"'{shown(url)}' is longer than {MAX_BYTES >> 20} MiB, which no plan is"
            raise _error("PLAN009", url, problem=what, expected=_A_FILE)
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
    with _explained(url, "written"):
        if path is None:
            _write_remote(url, data, overwrite)
        else:
            _write_local(path, data, overwrite)


def _taken(url: str) -> PlanError:
    return _error("PLAN002.taken", url, shown=shown(url), hint=_OVERWRITE_HINT)


def _write_remote(url: str, data: bytes, overwrite: bool) -> None:
    filesystem, path = _remote(url)
    if filesystem.isdir(path):
        raise IsADirectoryError
    if not overwrite and filesystem.exists(path):
        raise _taken(url)
    parent = path.rpartition("/")[0]
    if parent:
        filesystem.makedirs(parent, exist_ok=True)
    protocol = filesystem.protocol
    if _WHOLE_OBJECTS.intersection([protocol] if isinstance(protocol, str) else protocol):
        filesystem.pipe_file(path, data)
        return
    temporary = f"{parent}/.{path.rpartition('/')[2][:100]}.{uuid.uuid4().hex}.tmp"
    try:
        filesystem.pipe_file(temporary, data)
        filesystem.mv(temporary, path)
    except BaseException:
        with contextlib.suppress(Exception):
            filesystem.rm_file(temporary)
        raise


def _write_local(path: str, data: bytes, overwrite: bool) -> None:
    target = os.path.realpath(path)
    found = os.stat(target) if os.path.exists(target) else None
    if (found and stat.S_ISDIR(found.st_mode)) or path.endswith("/"):
        raise IsADirectoryError
    if found and not overwrite:
        raise _taken(path)
    if found and not stat.S_ISREG(found.st_mode):
        raise _error("PLAN003.write_local", path, path=path, expected=_A_FILE)
    if found and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    folder = os.path.dirname(target)
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f".{os.path.basename(target)[:60]}.{uuid.uuid4().hex}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if found:
                os.fchmod(file.fileno(), stat.S_IMODE(found.st_mode))
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
    """Gives the temporary file its name: a rename replaces a file, a link fails when the name is taken."""
    if overwrite:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise _taken(path) from None
    except OSError:
        # No hard links here (FAT, some network mounts).
        if os.path.lexists(target):
            raise _taken(path) from None
        os.replace(temporary, target)
        return
    os.unlink(temporary)
