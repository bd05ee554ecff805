"""Paths on file systems of fsspec, with the part of pathlib's interface that stateplan uses of local ones."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import posixpath
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import total_ordering
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from stateplan.common.errors import GatewayError, nearest
from stateplan.common.files import below_roots, move, remove, write_remote
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.roots import current_roots

T = TypeVar("T")

_READS = 5


@dataclass(frozen=True)
class Facts:
    """What is known of a file, under the names of ``os.stat_result``."""

    st_size: int
    st_mtime: float

    @property
    def st_mtime_ns(self) -> int:
        return int(self.st_mtime * 1_000_000_000)

    @property
    def st_ino(self) -> int:
        return 0


@total_ordering
class RemotePath:
    """A path on a file system.

    Args:
        fs: the file system of fsspec.
        path: on it, absolute.

    Methods raise OSError.
    """

    def __init__(self, fs: Any, path: str) -> None:
        self.fs = fs
        self.path = posixpath.normpath(path)

    def __str__(self) -> str:
        return str(self.fs.unstrip_protocol(self.path))

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and str(self) == str(other)

    def __lt__(self, other: RemotePath) -> bool:
        return self.path < other.path

    def __hash__(self) -> int:
        return hash(str(self))

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(self.fs, posixpath.join(self.path, name))

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)

    @property
    def stem(self) -> str:
        return posixpath.splitext(self.name)[0]

    @property
    def parent(self) -> RemotePath:
        return RemotePath(self.fs, posixpath.dirname(self.path))

    def absolute(self) -> RemotePath:
        return self

    def with_name(self, name: str) -> RemotePath:
        return self.parent / name

    def exists(self) -> bool:
        return self._type() is not None

    def is_dir(self) -> bool:
        return self._type() == "directory"

    def is_file(self) -> bool:
        return self._type() == "file"

    def _type(self) -> str | None:
        try:
            return str(self.fs.info(self.path)["type"])
        except FileNotFoundError:
            return None

    def stat(self) -> Facts:
        facts = self.fs.info(self.path)
        return Facts(int(facts["size"] or 0), float(facts.get("mtime") or 0))

    def iterdir(self) -> Iterator[RemotePath]:
        for name in self.fs.ls(self.path, detail=False):
            yield RemotePath(self.fs, name)

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Entries whose names match ``pattern``; before a slash, those of folders below."""
        first, _, rest = pattern.partition("/")
        if not self.is_dir():
            return
        for entry in self.iterdir():
            if fnmatch.fnmatchcase(entry.name, first):
                if not rest:
                    yield entry
                elif "*" in rest:
                    yield from entry.glob(rest)
                elif (entry / rest).exists():
                    yield entry / rest

    def rglob(self, pattern: str) -> Iterator[RemotePath]:
        """Entries at any depth whose names match ``pattern``."""
        if not self.is_dir():
            return
        for facts in self.fs.ls(self.path, detail=True):
            entry = RemotePath(self.fs, facts["name"])
            if fnmatch.fnmatchcase(entry.name, pattern):
                yield entry
            if facts["type"] == "directory":
                yield from entry.rglob(pattern)

    def read_bytes(self) -> bytes:
        return bytes(self.fs.cat_file(self.path))

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def write_bytes(self, data: bytes) -> None:
        """Writes a file that readers see whole or not at all."""
        write_remote(self.fs, self.path, data)

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        self.write_bytes(text.encode(encoding))

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        self.fs.makedirs(self.path, exist_ok=True)

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            self.fs.rm_file(self.path)
        except FileNotFoundError:
            if not missing_ok:
                raise


AnyPath: TypeAlias = Path | RemotePath


def sorted_paths(paths: Iterable[AnyPath]) -> list[AnyPath]:
    """Paths by their text."""
    return sorted(paths, key=str)


def inside(path: AnyPath, folder: AnyPath) -> str:
    """The path from a folder to what is below it, with slashes."""
    return posixpath.relpath(str(path), str(folder))


def rename(path: AnyPath, name: str) -> None:
    """Renames a file within its folder; a file that has the name is replaced. Raises OSError."""
    if isinstance(path, Path):
        path.replace(path.with_name(name))
    else:
        move(path.fs, path.path, path.with_name(name).path)


def create(path: AnyPath, data: bytes) -> bool:
    """Writes a file that is not there yet; whether it was not. Raises OSError."""
    try:
        if isinstance(path, Path):
            with path.open("xb") as file:
                file.write(data)
        elif path.exists():
            return False
        else:
            path.fs.pipe_file(path.path, data, mode="create")
    except FileExistsError:
        return False
    return True


def set_time(path: AnyPath, seconds: float) -> None:
    """Sets the modification time of a file, on file systems that can."""
    if isinstance(path, Path):
        os.utime(path, (seconds, seconds))
    else:
        path.fs.touch_at(path.path, seconds)


def append(path: AnyPath, data: bytes) -> None:
    """Adds bytes to a file. Local readers see them whole; elsewhere the file is written anew."""
    if isinstance(path, Path):
        with open(path, "ab", buffering=0) as file:  # one call of the system
            file.write(data)
    else:
        path.write_bytes((path.read_bytes() if path.exists() else b"") + data)


def remove_tree(path: AnyPath) -> None:
    """Removes a folder with all that is in it, as far as it can be removed."""
    if isinstance(path, Path):
        import shutil

        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            remove(path.fs, path.path)


_THREADS = 8
"""How many files are copied at the same time."""


def copy_tree(source: AnyPath, target: AnyPath, changing: bool = False) -> None:
    """Copies a file, or all files below a folder, with their times; nothing where there is neither. Locks and files
    that are not finished stay behind, and where others are ``changing`` the folder, files that they remove meanwhile.
    Raises OSError."""
    passing = (FileNotFoundError,) if changing else ()
    if source.is_file():
        with contextlib.suppress(*passing):
            _copy_file(source, target)
        return
    if not source.is_dir():
        return
    target.mkdir(parents=True, exist_ok=True)
    files: list[tuple[AnyPath, AnyPath]] = []
    for path in sorted_paths(source.rglob("*")):
        place = target / inside(path, source)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        elif not path.name.endswith((".tmp", ".lock")):
            files.append((path, place))
    with ThreadPoolExecutor(_THREADS) as pool:
        for future in [pool.submit(_copy_file, *pair) for pair in files]:
            with contextlib.suppress(*passing):
                future.result()


def _copy_file(source: AnyPath, target: AnyPath) -> None:
    if isinstance(source, Path) and isinstance(target, Path):
        shutil.copy2(source, target)
        return
    target.write_bytes(source.read_bytes())
    set_time(target, source.stat().st_mtime)


def write_whole(path: AnyPath, content: str | bytes, lasting: bool = False) -> None:
    """Writes a file that readers see whole or not at all.

    Args:
        path: the path of the file.
        content: all of it; text as UTF-8.
        lasting: of a local file, whether it is on disk when this returns, and several processes may write it at once.

    Raises:
        OSError: it cannot be written; the file is as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    if isinstance(path, RemotePath):
        path.write_bytes(data)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp") if lasting else path.with_suffix(".tmp")
    try:
        with temporary.open("wb") as out:
            out.write(data)
            if lasting:
                out.flush()
                os.fsync(out.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


@contextlib.contextmanager
def scan_folder(path: str) -> Iterator[Iterator[os.DirEntry[str]]]:
    """The entries of a local folder, for as long as the context lasts. Their ``path`` may be their name alone.

    Where roots are held, the folder is below one of them, whatever becomes a link meanwhile.

    Raises:
        GatewayError: GW012.
        OSError: it cannot be listed.
    """
    if current_roots() is None:
        with os.scandir(path) as entries:
            yield entries
        return
    descriptor = below_roots(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(descriptor) as entries:
            yield entries
    finally:
        os.close(descriptor)


def nearest_name(name: str, folder: str) -> str | None:
    """A hint at an entry of a local folder with a similar name; None where there is none, the folder cannot be listed,
    or it is not below a root."""
    with contextlib.suppress(OSError, GatewayError), scan_folder(folder) as entries:
        return nearest(name, [entry.name for entry in entries])
    return None


def nearest_folder(folder: AnyPath) -> str | None:
    """A hint at a neighbour of a folder with a similar name, as :func:`nearest_name`."""
    if isinstance(folder, Path):
        return nearest_name(folder.name, str(folder.absolute().parent))
    with contextlib.suppress(OSError):
        return nearest(folder.name, (neighbour.name for neighbour in folder.absolute().parent.iterdir()))
    return None


def read_settled(read: Callable[[], T]) -> T:
    """What ``read`` returns, which lists a folder and reads its files while another process may put some of them
    together: it reads again if one is gone since it was listed. Raises what ``read`` raises."""
    for _ in range(_READS - 1):
        with contextlib.suppress(FileNotFoundError):
            return read()
    return read()


def visible_files(folder: Path, pattern: str = "*") -> Iterator[Path]:
    """The files below a folder that match a pattern, in the order of their names; hidden ones are omitted."""
    for path in sorted(folder.rglob(pattern)):
        if not any(part.startswith(".") for part in path.relative_to(folder).parts) and path.is_file():
            yield path
