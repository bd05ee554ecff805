"""The files of a table: what is below its folder, and of that what its sinks have committed.

On object stores, where a commit cannot move files at once, a sink notes in the object ``_committed/<uid>.json`` of the
table's folder up to which micro-batch all of its files are in place. Files of later ones are not there for readers yet.
Folders without such an object are read as they are.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any

from stateplan.common.errors import DataError, OptionError, Place, nearest
from stateplan.common.failure_reasons import reason_of
from stateplan.common.files import (
    HADOOP,
    absolute,
    driver_errors,
    filesystem_of,
    find_files,
    has_whole_objects,
    is_compressed,
    local_path,
    modified,
    rooted_path,
    safe_url,
    scheme_of,
)
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import nearest_name, scan_folder

COMMITTED = "_committed"
"""Folder, within that of a table, of what its sinks have committed."""

_PART = re.compile(r"part-([0-9a-f]{12}(?:-[0-9]+)?-[0-9a-f]{12})-([0-9]+)-[^-]*")


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of a source.

    Attributes:
        path: a plain path when local, else a URL.
        size: in bytes.
        modified: modification time in ms.
        version: changes with the content.
    """

    path: str
    size: int
    modified: int
    version: str | int = 0


PACKED = 8
"""How many bytes of text stand for a byte of a compressed or columnar file, about: 4 to 7 with gzip, 11 in Parquet, for
the files of the benchmarks."""


def size_as_text(path: str, files: Callable[[], Iterable[FileEntry]], *, is_packed: bool) -> int | None:
    """About how many bytes the files of a table would have as text that is not compressed; None where only Spark lists
    them.

    Args:
        path: their folder.
        files: lists them.
        is_packed: as of :class:`connectors.formats.base.Format`.
    """
    if scheme_of(path) in HADOOP:
        return None
    return sum(file.size * (PACKED if is_packed or is_compressed(file.path) else 1) for file in files())


def part_name(uid: str, epoch: int, part: int | str, extension: str) -> str:
    """Name of a file of a micro-batch of the sink ``uid``: ``part-<uid>-<epoch>-<part>.<extension>``."""
    return f"part-{uid}-{epoch}-{part}" + (f".{extension}" if extension else "")


def natural_key(path: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts ``part-2`` before ``part-10``."""
    return tuple(
        (0, int(part), part) if part.isdigit() else (1, 0, part) for part in re.split(r"([0-9]+)", path) if part
    )


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name is invisible to sources."""
    return name.startswith((".", "_"))


def table_files(path: str, regex: str | None = None, known_paths: Container[str] = ()) -> list[FileEntry]:
    """The files that a reader of a table sees now, in no order.

    Args:
        path: a file or a folder, which is searched with its folders; a plain path or a URL.
        regex: only files of which it :func:`matches` the path (``source.path.regex-pattern``).
        known_paths: of files that are left out; those on local disk are not even looked at.

    Raises:
        DataError: DATA105 when the path cannot be listed.
        GatewayError: GW012, when it, or a link in it, leads out of the roots.
    """
    local = local_path(path)
    try:
        if local is not None:
            rooted_path(local)
            entries = list(_local_files(absolute(local), known_paths))
        else:
            with driver_errors():
                entries = [entry for entry in _remote_files(path) if entry.path not in known_paths]
    except (OSError, ValueError) as error:
        if local is not None and isinstance(error, FileNotFoundError):
            return []
        raise _unlistable(path, error) from error
    return entries if regex is None else [entry for entry in entries if matches(entry.path, regex)]


def matches(path: str, regex: str) -> bool:
    """Whether a regular expression matches the whole absolute path of a file; of a URL, the part behind the bucket or
    host, as in Flink."""
    if local_path(path) is None:
        start = path.find("://") + 3
        path = "/" + path[start:].partition("/")[2]
    return re.fullmatch(regex, path) is not None


def _unlistable(path: str, error: Exception) -> DataError:
    path = safe_url(path)
    return DataError("DATA105", path=path, strerror=reason_of(error), place=Place(file=path))


def _local_files(path: str, known_paths: Container[str]) -> Iterator[FileEntry]:
    if not os.path.isdir(path):
        if path not in known_paths:
            yield _local_file(path)
        return
    with scan_folder(path) as entries:
        for entry in entries:
            entry_path = os.path.join(path, entry.name)
            if is_hidden(entry.name) or entry_path in known_paths:
                continue
            if entry.is_symlink():
                rooted_path(entry_path)
            if entry.is_dir():
                yield from _local_files(entry_path, known_paths)
                continue
            try:
                yield _local_file(entry_path)
            except FileNotFoundError:
                if entry.is_symlink():  # to read it is an error
                    yield FileEntry(entry_path, 0, 0)


def _local_file(path: str) -> FileEntry:
    facts = os.stat(path)
    return FileEntry(path, facts.st_size, facts.st_mtime_ns // 1_000_000, facts.st_mtime_ns)


def _remote_files(path: str) -> list[FileEntry]:
    fs, inner = filesystem_of(path)
    inner = inner.rstrip("/")
    url = path.rstrip("/")
    if not has_whole_objects(fs):
        try:
            infos = {info["name"]: info for info in _walk(fs, inner)}
        except FileNotFoundError:
            return []
        return list(_visible(url, inner, infos, {}))
    epochs = committed_epochs(fs, inner)
    strangers: set[str] = set()
    while True:
        infos = find_files(fs, inner)
        uids = {part[1] for name in infos if (part := _PART.fullmatch(posixpath.basename(name)))}
        # A sink that has begun since, or whose table is a folder further up: its files are listed again when it is
        # known what they were a part of before.
        fresh = _committed_since(fs, inner, uids - epochs.keys() - strangers)
        strangers |= uids - fresh.keys()
        if not fresh:
            return list(_visible(url, inner, infos, epochs))
        epochs |= fresh


def _walk(fs: Any, inner: str) -> Iterator[dict[str, Any]]:
    """The files below a folder whose filesystem has folders: :meth:`find` passes over those that cannot be read."""
    for info in fs.ls(inner, detail=True):
        if info["type"] != "directory":
            yield info
        elif not is_hidden(posixpath.basename(info["name"].rstrip("/"))) and info["name"].rstrip("/") != inner:
            yield from _walk(fs, info["name"].rstrip("/"))


def _visible(url: str, inner: str, infos: dict[str, Any], epochs: dict[str, int]) -> Iterator[FileEntry]:
    for name, info in infos.items():
        below = name[len(inner) :]
        if "/." in below or "/_" in below or name.endswith("/"):
            continue
        if epochs and (part := _PART.fullmatch(posixpath.basename(name))):
            epoch = epochs.get(part[1])
            if epoch is not None and int(part[2]) > epoch:
                continue
        changed_at = modified(info)
        version = info.get("ETag") or info.get("etag") or info.get("generation") or changed_at
        yield FileEntry(url + below, int(info.get("size") or 0), changed_at, version)


def committed_epochs(fs: Any, folder: str) -> dict[str, int]:
    """Per sink the last micro-batch of which all files are in place in the folder of a table.

    Raises:
        OSError: they cannot be read.
    """
    try:
        names = fs.ls(f"{folder}/{COMMITTED}", detail=False)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    notes = {posixpath.basename(n).removesuffix(".json"): n for n in names if n.endswith(".json")}
    return {uid: epoch_of(fs.cat_file(name)) for uid, name in notes.items()}


def note_of(epoch: int) -> bytes:
    """The object that says that a sink has committed the micro-batches up to ``epoch``."""
    return json.dumps({"epoch": epoch}).encode()


def epoch_of(note: bytes) -> int:
    """The epoch in the object that says what a sink has committed. Raises ValueError."""
    try:
        return int(json.loads(note)["epoch"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"not what a sink writes to {COMMITTED}: {note[:80]!r}") from error


def _committed_since(fs: Any, folder: str, uids: set[str]) -> dict[str, int]:
    """What sinks have committed to a folder, or to the nearest folder above it that they write to."""
    epochs: dict[str, int] = {}
    while uids and folder.strip("/"):
        epochs |= {uid: epoch for uid, epoch in committed_epochs(fs, folder).items() if uid in uids}
        uids = uids - epochs.keys()
        folder = folder.rpartition("/")[0]
    return epochs


def file_entries(path: str) -> list[FileEntry]:
    """The files that a reader of a table sees now, in natural order of their paths.

    Raises:
        DataError: DATA104 when there is nothing at the path, DATA105 when it cannot be listed.
    """
    entries = table_files(path)
    if not entries and not _exists(path):
        raise _missing_path(path)
    return sorted(entries, key=lambda e: natural_key(e.path))


def _exists(path: str) -> bool:
    fs, inner = filesystem_of(path)
    try:
        with driver_errors():
            return bool(fs.exists(inner))
    except OSError as error:
        raise _unlistable(path, error) from error


def _missing_path(path: str) -> DataError:
    fs, inner = filesystem_of(path)
    folder, name = posixpath.split(inner.rstrip("/"))
    try:
        with driver_errors():
            siblings = [posixpath.basename(p.rstrip("/")) for p in fs.ls(folder or "/", detail=False)]
    except (OSError, ValueError):
        siblings = []
    path = safe_url(path)
    return DataError("DATA104", path=path, place=Place(file=path), hint=nearest(name, siblings))


def require_path(path: str, name: str, is_bounded: bool = True) -> None:
    """Checks that there is something at the path that the table ``name`` reads.

    Args:
        is_bounded: whether it must exist now. A folder to watch need not exist on an object store, which has no
            empty folders.

    Raises:
        OptionError: OPT040.
        DataError: DATA105, when that cannot be determined.
    """
    local = local_path(path)
    if local is not None:
        exists = os.path.exists(rooted_path(local))
    elif scheme_of(path) in HADOOP:  # Spark lists it
        exists = True
    elif is_bounded:
        exists = _exists(path)
    else:
        exists = True
        table_files(path)
    if not exists:
        raise OptionError("OPT040", name=name, path=path, hint=_missing_part(path))


def _missing_part(path: str) -> str | None:
    """Which part of a path that does not exist is missing; None for one that is not local."""
    local = local_path(path)
    if local is None:
        return None
    first_missing = absolute(local)
    while not os.path.exists(folder := os.path.dirname(first_missing)):
        first_missing = folder
    name = os.path.basename(first_missing)
    return nearest_name(name, folder) or f"there is no '{name}' in {folder}"


# ---- lists of files --------------------------------------------------------------------------------------------

_END = b',"end":true}'


def file_list(root: str, files: Sequence[FileEntry], end: bool = False) -> str:
    """A text with the paths, sizes and modification times of files, and with whether no further files follow.

    If all files are below ``root``, their paths are relative to it.
    """
    if not all(file.path.startswith(root) for file in files):
        root = ""
    rows = [[file.path.removeprefix(root), file.size, file.modified] for file in files]
    return json.dumps({"root": root, "files": rows, **({"end": True} if end else {})}, separators=(",", ":"))


def says_end(text: bytes) -> bool:
    """Whether a text of :func:`file_list` says that no further files follow."""
    return text.rstrip().endswith(_END)


def entries_in(text: bytes) -> list[FileEntry]:
    """The files in a text of :func:`file_list`."""
    data = json.loads(text)
    root = data["root"]
    return [FileEntry(root + below, size, modified_at) for below, size, modified_at in data["files"]]
