"""Declarations in the other SQL files of a workspace."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from stateplan.editor.findings import Target
from stateplan.editor.positions import Span

_CREATE = re.compile(
    r"^\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMPORARY\s+)?(?:SYSTEM\s+)?(?:TABLE|VIEW|FUNCTION)\s+"
    r"(?:IF\s+NOT\s+EXISTS\s+)?((?:(?:`[^`]+`|\w+)\.){0,2}(?:`([^`]+)`|(\w+)))",
    re.I | re.M,
)
_MOST_FILES = 500
_MOST_BYTES = 1_000_000
_DEPTH = 6
_FRESH = 3.0
_OTHER_FOLDERS = frozenset(("node_modules", "__pycache__", "build", "dist", "target"))


class DeclarationIndex:
    """Finds tables, views and functions by their last name.

    Args:
        folders: the folders of the workspace.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._files: dict[Path, tuple[float, dict[str, list[Target]]]] = {}
        self._listed_at = 0.0

    def find(self, name: str, besides: Path) -> tuple[Target, ...]:
        """The places where files other than ``besides`` declare the name."""
        if not self._listed_at or time.monotonic() - self._listed_at > _FRESH:
            self._update()
        return tuple(t for path, (_, names) in self._files.items() if path != besides for t in names.get(name, ()))

    def _update(self) -> None:
        files: dict[Path, tuple[float, dict[str, list[Target]]]] = {}
        for folder in self._folders:
            for path in _sql_files(folder):
                if len(files) >= _MOST_FILES:
                    break
                try:
                    facts = path.stat()
                    before = self._files.get(path)
                    if before is not None and before[0] == facts.st_mtime:
                        files[path] = before
                    elif facts.st_size <= _MOST_BYTES:
                        files[path] = (facts.st_mtime, _declarations(path))
                except (OSError, ValueError):
                    continue
        self._files, self._listed_at = files, time.monotonic()


def _sql_files(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        depth = len(Path(root).relative_to(folder).parts)
        folders[:] = sorted(f for f in folders if depth < _DEPTH and not f.startswith(".") and f not in _OTHER_FOLDERS)
        paths = (Path(root, name) for name in sorted(files) if name.endswith(".sql"))
        yield from (path for path in paths if not path.is_symlink())


def _declarations(path: Path) -> dict[str, list[Target]]:
    with path.open(encoding="utf-8", newline="") as file:
        text = file.read()
    names: dict[str, list[Target]] = {}
    for match in _CREATE.finditer(text):
        target = Target(Span(*match.span(1)), str(path))
        names.setdefault(match[2] or match[3], []).append(target)
    return names
