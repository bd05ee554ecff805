"""Where the files are that a Delta log names.

Delta's protocol has two kinds of paths: those below the folder of the table, and absolute ones, as shallow clones have
them. A path below the folder never leads out of it. Where roots are held, an absolute one is below a root: so say the
files of the log before ``deltalake`` reads them, which opens by itself what they name.

Source: Delta's protocol, "Add File and Remove File", "Deletion Vectors", "Sidecar File Information".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from stateplan.common.errors import GatewayError
from stateplan.common.files import below, has_scheme, rooted_path, safe_url
from stateplan.common.roots import Roots

_LOG = "_delta_log"
_PREFIX = re.compile(r"[A-Za-z0-9_-]*")
_ID = 20
"""Characters of the id at the end of the path of a deletion vector in the folder of the table."""

_safe_files: set[tuple[str, str, int, int]] = set()
"""Files of logs that lead nowhere else: the URL of the table, their path, size and time."""
_MOST_KNOWN = 100_000


def is_absolute(path: str) -> bool:
    """Whether a path that a log names is not below the folder of the table."""
    return path.startswith("/") or has_scheme(path)


def file_path(text: str) -> str:
    """The path of a file as the log writes it, without escapes: below the folder of the table, or absolute.

    Raises:
        ValueError: it leads out of the folder that it begins in.
    """
    path = unquote(text)
    if "\0" in path or ".." in path.split("/"):
        raise ValueError(f"a path leads out of the folder of the table: {text!r}")
    if has_scheme(path) and not path.partition(":")[2].startswith("/"):
        raise ValueError(f"a URL is not absolute: {text!r}")
    return path


def inside(path: str) -> str:
    """An absolute path or URL from the host on; a path below a folder as it is."""
    if has_scheme(path):
        path = path.partition(":")[2]
        if path.startswith("//"):
            path = "/" + path[2:].partition("/")[2]
    return path.lstrip("/")


def check_log(roots: Roots, uri: str, local: str | None, files: Any) -> None:
    """Looks at what the log of a table names.

    Args:
        roots: below which it is.
        uri: the URI of the table.
        local: its folder on local disk; None elsewhere.
        files: the filesystem of its folder.

    Raises:
        GatewayError: GW012, a file that is not below a root.
        OSError: the log cannot be read.
    """
    from pyarrow.fs import FileSelector, FileType

    for entry in files.get_file_info(FileSelector(_LOG, recursive=True, allow_not_found=True)):
        if local is not None:
            rooted_path(f"{local}/{entry.path}")
        mark = (uri, entry.path, entry.size or 0, entry.mtime_ns or 0)
        if entry.type is not FileType.File or mark in _safe_files:
            continue
        if entry.base_name.endswith(".json"):
            with files.open_input_stream(entry.path) as stream:
                paths = list(_in_lines(stream.read()))
        elif entry.base_name.endswith(".parquet"):
            paths = list(_in_parquet(files, entry.path))
        else:
            continue
        for path in paths:
            _check(roots, path)
        if len(_safe_files) >= _MOST_KNOWN:
            _safe_files.clear()
        _safe_files.add(mark)


def _check(roots: Roots, text: str) -> None:
    try:
        path = file_path(text)
    except ValueError:
        raise GatewayError("GW012", path=safe_url(text)) from None
    if is_absolute(path):
        below(roots, path)


def _in_lines(data: bytes) -> Iterator[str]:
    """The paths in a commit, or in a checkpoint of lines. What is not an action, the library refuses."""
    for line in data.splitlines():
        try:
            actions = json.loads(line)
        except ValueError:
            continue
        for action in actions.values() if isinstance(actions, dict) else ():
            if isinstance(action, dict):
                yield from _in_action(action)


def _in_action(action: dict[str, Any]) -> Iterator[str]:
    if isinstance(action.get("path"), str):
        yield action["path"]
    vector = action.get("deletionVector")
    if isinstance(vector, dict):
        kind, path = vector.get("storageType"), str(vector.get("pathOrInlineDv"))
        if kind == "p":
            yield path
        elif kind == "u" and not _PREFIX.fullmatch(path[:-_ID]):
            yield f"../{path}"


def _in_parquet(files: Any, path: str) -> Iterator[str]:
    """The paths in a checkpoint, or in a part of one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with files.open_input_file(path) as source:
            file = pq.ParquetFile(source)
            names = {"add", "remove", "cdc", "sidecar"} & set(file.schema_arrow.names)
            for batch in file.iter_batches(columns=sorted(names)) if names else ():
                for row in batch.to_pylist():
                    for action in row.values():
                        if action is not None:
                            yield from _in_action(action)
    except pa.ArrowInvalid:  # no Parquet, as the library will say
        return
