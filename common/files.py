"""Paths and bytes: URLs through fsspec, compressed files by their ending, big files in pieces of whole lines, and files
that readers see whole.

A plain path and ``file:`` URLs go straight to the operating system; every other scheme goes to the filesystem that
fsspec knows for it, with what fsspec reads from the environment and its configuration files. A path is a name, never a
pattern: none of its characters is a wildcard.

Where :mod:`common.roots` are held, nothing here leads out of them.
"""

from __future__ import annotations

import contextlib
import glob
import io
import os
import re
import uuid
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from stateplan.common.errors import DataError, Place, nearest
from stateplan.common.failure_reasons import REASONS, first_answer
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.roots import Roots, current_roots, is_link_error, open_unlinked, outside

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

CHUNK_BYTES = 8 << 20
"""How many bytes of lines are decoded at once, so that memory stays bounded for files of any size. The C library takes
much larger blocks from the system each time, page by page: reading a file then takes twice as long."""

COMPRESSIONS = {".gz": "gzip", ".gzip": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zstd": "zstd"}
"""File ending to Arrow's codec name; the bytes of other files are read as they are."""


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_USER = re.compile(r"(?<=://)[^/@]*@")
_AMBIGUOUS = re.compile(r"::|[\\%\x00-\x1f\x7f]|[/:]\.\.?(?:[/?#;]|$)|://.*://")
"""What servers and their clients read in different ways: escapes, characters that clients remove, dots, also before a
query, and other URLs."""

_PATTERN = re.compile(r"[{}\[\]*?\\]")
"""What Hadoop's file systems take for a pattern, where they look for all files that match a path."""

_HADOOP = "pyarrow (and Hadoop's native library libhdfs)"

PACKAGES = {
    "s3": "s3fs",
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

_SAME = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names of schemes that have another one in fsspec."""

WHOLE_OBJECTS = frozenset({"s3", "gs", "gcs", "oss", "abfs", "abfss", "az", "adl", "oci", "memory"})
"""Schemes under which an object appears complete or not at all, and a rename would be a copy."""

HADOOP = frozenset({"hdfs", "viewfs", "har"})
"""Schemes of Hadoop, for which fsspec needs a native library that Spark does not."""

SCHEMES = "a plain path, or a URL with file:, s3:, gs:, hdfs:, memory: or another scheme of fsspec"


class UrlError(ValueError):
    """A path or URL behind which there is no file system.

    Attributes:
        why: ``nul`` character, ``host`` in a local URL, ``empty``, ``unknown`` scheme, ``unusable``,
            ``missing`` driver, ``failed`` driver, ``unreached`` server.
        values: fill the texts of the error that stands for it.
        hint: what to do.
    """

    def __init__(self, why: str, hint: str | None = None, **values: str) -> None:
        super().__init__(why)
        self.why = why
        self.hint = hint
        self.values: dict[str, Any] = dict(values)


def safe_url(url: str) -> str:
    """``url`` for messages: without a user name and password."""
    return _USER.sub("***@", url)


def scheme_of(url: str) -> str:
    """The scheme of a URL in fsspec's words; ``file`` for a plain path."""
    match = _SCHEME.match(url)
    scheme = match.group(1).lower() if match else "file"
    return "file" if scheme == "local" else _SAME.get(scheme, scheme)


def has_scheme(url: str) -> bool:
    """Whether it is a URL, and not a plain path."""
    return _SCHEME.match(url) is not None


def hadoop_lists(url: str) -> bool:
    """Whether Spark lists the files below a path or URL; others need the driver of fsspec."""
    return scheme_of(url) in ("file", "hdfs", "viewfs")


def has_pattern_signs(path: str) -> bool:
    """Whether a path has a character that means something in a pattern of Hadoop."""
    return _PATTERN.search(path) is not None


def literal_for_hadoop(path: str) -> str:
    """A path or URL where Hadoop takes a pattern, such as that of the folder of a streaming source of Spark: only the
    path itself matches. Where it has signs of patterns, no part of it may have a colon. Raises UrlError."""
    local = place_of(path)
    if local is not None:
        path = f"file:{absolute(local)}"
    scheme, colon, rest = path.partition(":")
    return scheme.lower() + colon + _PATTERN.sub(r"\\\g<0>", rest)


def place_of(url: str) -> str | None:
    """The path on local disk of a plain path or ``file:`` URL; None for any other URL.

    ``%`` is an ordinary character in it, as in Flink's ``Path``. Raises UrlError.
    """
    if "\x00" in url:
        raise UrlError("nul")
    if scheme_of(url) != "file":
        return None
    scheme = _SCHEME.match(url)
    if scheme is None:
        return url
    rest = url[scheme.end() :]
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise UrlError("host", host=host, slash=slash, path=path)
        rest = slash + path.lstrip("/")
    if not rest:
        raise UrlError("empty")
    return rest


def absolute(local: str) -> str:
    """A local path from the root of the file system on, without dots. As for the operating system, ``..`` behind a link
    is the folder above the one that the link leads to."""
    return os.path.realpath(local) if ".." in local.split("/") else os.path.abspath(local)


def real_path(path: str) -> str:
    """What a path or URL stands for: a local path without links and dots, or a URL in one form.

    Raises:
        UrlError: it is none, or a URL that means different things to different stores: with dots, escapes, a user or
            another URL in it.
    """
    local = place_of(path)
    if local is not None:
        return os.path.realpath(local)
    scheme, rest = scheme_of(path), path[path.index(":") + 1 :]
    host, _, inside = rest.removeprefix("//").partition("/") if rest.startswith("//") else ("", "", rest[1:])
    if "@" in host or _AMBIGUOUS.search(path):
        raise UrlError("unusable", reason="no dots, escapes, control characters, users or other URLs may be in it")
    return f"{scheme}://{host}/{inside}".rstrip("/")


def below(roots: Roots, path: str, place: Place | None = None) -> str:
    """:func:`real_path` of a path or URL. Raises GatewayError GW012 where it is not below a root."""
    try:
        real = real_path(path)
    except UrlError:
        raise outside(safe_url(path), place) from None
    roots.require(real, safe_url(path), place)
    return real


def require_root(path: str) -> None:
    """Raises GatewayError GW012 where roots are held, and a path or URL is not below one."""
    roots = current_roots()
    if roots is not None:
        below(roots, path)


def rooted_path(local: str) -> str:
    """A local path that is used at once: without links and below a root, where roots are held. Raises GW012."""
    roots = current_roots()
    if roots is None:
        return local
    real = os.path.realpath(local)
    roots.require(real, local)
    return real


_TRIES = 8


def below_roots(local: str, flags: int) -> int:
    """An ``opener`` for :func:`open`: where roots are held, the file is below one of them, whatever becomes a link
    meanwhile.

    Raises:
        GatewayError: GW012.
        OSError: it cannot be opened.
    """
    if current_roots() is None:
        return os.open(local, flags, 0o666)
    for _ in range(_TRIES):
        try:
            return open_unlinked(rooted_path(local), flags)
        except OSError as error:
            if not is_link_error(error):
                raise
            link_error = error  # the next look finds where the link leads
    raise link_error


class _FileInMemory:
    """A file that somebody else has read, as the part of fsspec's interface that decoders use."""

    protocol = "handed"

    def __init__(self, data: bytes, seconds: float) -> None:
        self._data = data
        self._facts = {"size": len(data), "mtime": seconds}

    def open(self, path: str, mode: str) -> BinaryIO:
        return io.BytesIO(self._data)

    def info(self, path: str) -> dict[str, Any]:
        return self._facts


_files_in_memory: dict[str, _FileInMemory] = {}
"""URL to the file that is handed over under it."""


@contextlib.contextmanager
def handed_file(url: str, data: bytes, seconds: float) -> Iterator[None]:
    """Within, a URL whose file system this process does not reach can be read.

    Args:
        url: the URL of the file.
        data: the file.
        seconds: when it was changed, since 1970.
    """
    _files_in_memory[url] = _FileInMemory(data, seconds)
    try:
        yield
    finally:
        del _files_in_memory[url]


def is_reached(url: str) -> bool:
    """Whether Python reaches the file system of a URL by itself."""
    try:
        return place_of(url) is not None or bool(connect(url))
    except UrlError:
        return False


def connect(url: str) -> tuple[Any, str]:
    """The fsspec filesystem of a URL that is not local, and the path on it. It keeps no listings.

    Raises:
        UrlError: it does not exist.
        GatewayError: GW012, the URL is not below a root.
    """
    require_root(url)
    from fsspec.core import url_to_fs
    from fsspec.registry import known_implementations, registry

    if url in _files_in_memory:
        return _files_in_memory[url], url
    scheme, match = scheme_of(url), _SCHEME.match(url)
    schemes = [*known_implementations, *registry, *PACKAGES]
    if "::" not in url and scheme not in schemes:
        raise UrlError("unknown", nearest(scheme, schemes), scheme=scheme)
    if match is not None and match.group(1).lower() in _SAME:
        url = f"{scheme}:{url[match.end() :]}"
    package = PACKAGES.get(scheme)
    if "::" not in url and scheme not in known_implementations and scheme not in registry:
        raise UrlError("missing", f"install the package {package}", scheme=scheme, reason="fsspec does not know it")
    try:
        try:
            filesystem, path = url_to_fs(url, use_listings_cache=False)
        except TypeError:  # a driver without the option
            filesystem, path = url_to_fs(url)
    except ImportError as error:
        hint = f"install the package {package}" if package else "install the package it names"
        raise UrlError("missing", hint, scheme=scheme, reason=first_line(error)) from None
    except ValueError as error:
        needs = f"it needs {package}" if package else None
        raise UrlError("unusable", needs, reason=first_line(error)) from None
    except Exception as error:
        needs = f"it needs the package {package}" if package else None
        raise UrlError("failed", needs, scheme=scheme, reason=first_line(error)) from None
    if package is not None:
        failure = first_answer("/".join(url.split("/", 3)[:3]), lambda: filesystem.info(path))
        if failure is not None:
            why, message = failure
            raise UrlError("unreached", scheme=scheme, what=REASONS[why], reason=message.splitlines()[0][:300])
    return filesystem, str(path)


def first_line(error: BaseException) -> str:
    """What a driver says of its error."""
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:300]


def modified(info: dict[str, Any]) -> int:
    """Modification time in ms of what fsspec says of a file, under whichever name the filesystem returns it."""
    for key in ("mtime", "LastModified", "last_modified", "updated", "created"):
        value = info.get(key)
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, (int, float)):
            return int(value * 1000)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1000)
    return 0


def has_whole_objects(filesystem: Any) -> bool:
    """Whether a file of this fsspec filesystem appears complete or not at all, and a rename would be a copy."""
    protocol = filesystem.protocol
    return not WHOLE_OBJECTS.isdisjoint([protocol] if isinstance(protocol, str) else protocol)


def is_pattern(path: str) -> bool:
    """Whether some methods of fsspec take a path for a pattern, which stands for other files as well: ``rm``, ``mv``,
    ``copy``, ``cat``, ``get``, ``expand_path``."""
    return glob.has_magic(path)


def remove(filesystem: Any, path: str) -> None:
    """Removes a file, or a folder with all that is in it, from an fsspec filesystem: that alone. Raises OSError."""
    if not is_pattern(path) or not _is_general(filesystem, "rm"):
        filesystem.rm(path, recursive=True)
        return
    entries = {path: filesystem.info(path), **filesystem.find(path, withdirs=True, detail=True)}
    for name in sorted(entries, reverse=True):
        if entries[name]["type"] != "directory":
            filesystem.rm_file(name)
            continue
        with contextlib.suppress(FileNotFoundError):  # where a folder is gone with its last file
            filesystem.rmdir(name)


def move(filesystem: Any, source: str, target: str) -> None:
    """Moves a file of an fsspec filesystem to another path. Raises OSError."""
    if not is_pattern(source) or not _is_general(filesystem, "mv"):
        filesystem.mv(source, target)
        return
    filesystem.copy([source], [target])
    filesystem.rm_file(source)


def _is_general(filesystem: Any, method: str) -> bool:
    """Whether an fsspec filesystem has the method that all have, which takes patterns."""
    from fsspec.asyn import AsyncFileSystem
    from fsspec.spec import AbstractFileSystem

    own = getattr(type(filesystem), method) is not getattr(AbstractFileSystem, method)
    return not own or isinstance(filesystem, AsyncFileSystem)


def write_remote(filesystem: Any, path: str, data: bytes) -> None:
    """Writes a file of an fsspec filesystem that readers see whole or not at all."""
    if has_whole_objects(filesystem):
        filesystem.pipe_file(path, data)
        return
    parent, _, name = path.rpartition("/")
    temporary = f"{parent}/.{name[:100]}.{uuid.uuid4().hex}.tmp"
    try:
        filesystem.pipe_file(temporary, data)
        move(filesystem, temporary, path)
    except BaseException:
        with contextlib.suppress(Exception):
            filesystem.rm_file(temporary)
        raise


_OTHERS = frozenset({"builtins", "stateplan", "polars", "pyo3_runtime", "pyarrow", "numpy"})


@contextlib.contextmanager
def driver_errors() -> Iterator[None]:
    """Turns errors of a driver's own classes (of botocore, google.api_core and others), which cannot be named here,
    into OSErrors."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] in _OTHERS:
            raise
        raise OSError(f"{type(error).__name__}: {first_line(error)}") from error


# ---- of tables -------------------------------------------------------------------------------------------------

_CODES = {
    "unknown": "DATA101",
    "nul": "DATA101.nul",
    "host": "DATA101.host",
    "empty": "DATA101.empty",
    "unusable": "DATA101.unusable",
    "missing": "DATA107",
    "failed": "DATA108",
    "unreached": "DATA108.unreached",
}
"""Code for each reason of a UrlError."""


def refused_url(path: str, error: UrlError) -> DataError:
    """The error about a table for a path or URL behind which there is no file system."""
    url = safe_url(path)
    return DataError(_CODES[error.why], url=url, place=Place(file=url), hint=error.hint, **error.values)


def local_path(path: str) -> str | None:
    """The path on the local disk of a plain path or ``file:`` URL; None for any other URL.

    Raises:
        DataError: DATA101, for a URL that cannot be one of a file.
    """
    try:
        return place_of(path)
    except UrlError as error:
        raise refused_url(path, error) from None


def plain_path(path: str) -> str:
    """A path without the scheme ``file:``; a URL of another file system as it is. Raises DataError DATA101."""
    return local_path(path) or path


def find_files(fs: Any, folder: str) -> dict[str, dict[str, Any]]:
    """The facts of all files below a folder of an object store, by path. Where the first object appears while s3fs
    looks, it gives the folder as if it were a file. Raises OSError."""
    entries = fs.find(folder, detail=True).items()
    return {str(path): facts for path, facts in entries if facts.get("type") != "directory"}


def filesystem_of(path: str) -> tuple[Any, str]:
    """The fsspec filesystem of a path or URL, and the path on it; a local one is :func:`absolute`.

    Raises:
        GatewayError: GW012, it is not below a root.
        DataError: DATA101 for a URL of no known filesystem, DATA107 when its driver is not installed, DATA108 when
            it cannot be reached.
    """
    local = local_path(path)
    if local is not None:
        import fsspec

        return fsspec.filesystem("file"), rooted_path(absolute(local))
    try:
        return connect(path)
    except UrlError as error:
        raise refused_url(path, error) from None


def is_compressed(path: str) -> bool:
    """Whether a file is decompressed when it is read, by its ending."""
    return _codec(path) is not None


def _codec(path: str) -> str | None:
    return next((codec for ending, codec in COMPRESSIONS.items() if path.lower().endswith(ending)), None)


def open_input(path: str) -> BinaryIO:
    """The bytes of a file as a stream, decompressed by the file's ending.

    Raises:
        DataError: DATA102, when the file cannot be opened.
        GatewayError: GW012, when it is not below a root.
    """
    try:
        local = local_path(path)
        if local is not None:
            raw: Any = open(local, "rb", opener=below_roots)  # noqa: SIM115 - handed to the caller
        else:
            fs, inner = filesystem_of(path)
            with driver_errors():
                raw = fs.open(inner, "rb")
    except OSError as error:
        raise DataError("DATA102", reason=error.strerror or error, place=Place(file=path)) from error
    codec = _codec(path)
    if codec is None:
        return cast("BinaryIO", raw)
    import pyarrow as pa

    return cast("BinaryIO", pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), codec))


def _read(stream: BinaryIO, size: int, path: str) -> bytes:
    try:
        with driver_errors():
            return stream.read(size)
    except OSError as error:
        raise DataError(
            "DATA103",
            error=error,
            place=Place(file=path),
            hint="the file is damaged or not compressed as its ending says" if _codec(path) else None,
        ) from error


_bytes_taken = 0


def bytes_taken() -> int:
    """How many bytes of files this process has read line by line so far, after decompression."""
    return _bytes_taken


@dataclass(frozen=True)
class Lines:
    """Whole lines, each with its newline.

    Attributes:
        data: their bytes.
    """

    data: bytes

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where the lines begin."""
        import numpy as np

        return np.concatenate(([0], self.ends[:-1] + 1))

    @cached_property
    def ends(self) -> npt.NDArray[np.int64]:
        """Where the newlines are."""
        import numpy as np

        return np.flatnonzero(np.frombuffer(self.data, np.uint8) == ord("\n"))

    def __len__(self) -> int:
        """How many lines there are."""
        return len(self.ends)

    def halves(self) -> tuple[Lines, Lines] | None:
        """The lines in two parts of about as many bytes; None of a line that is longer than half of all."""
        cut = self.data.rfind(b"\n", 0, len(self.data) // 2) + 1
        return (Lines(self.data[:cut]), Lines(self.data[cut:])) if cut else None


def line_chunks(path: str, size: int = CHUNK_BYTES) -> Iterator[Lines]:
    """Pieces of a file.

    A line longer than ``size`` makes a piece of its own length. An empty file gives nothing.

    Raises:
        DataError: DATA102 or DATA103, when it cannot be opened or read.
    """
    global _bytes_taken
    with open_input(path) as stream:
        parts: list[bytes] = []
        while True:
            block = _read(stream, size, path)
            if not block:
                break
            _bytes_taken += len(block)
            cut = block.rfind(b"\n") + 1
            if not cut:
                parts.append(block)
                continue
            chunk = b"".join((*parts, memoryview(block)[:cut])) if parts or cut < len(block) else block
            parts = [block[cut:]] if cut < len(block) else []
            yield Lines(chunk)
        rest = b"".join(parts)
        if rest:
            yield Lines(rest + b"\n")
