"""Waits for changes of test files, and of the files that they use."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from stateplan.common.errors import StateplanError
from stateplan.testing.reader import find_files

_INTERVAL = 0.2
"""Seconds between two looks."""

_ENDINGS = (".sql", ".json", ".csv", ".py")

_Times = dict[str, tuple[int, int]]


def changes(paths: Sequence[str], interval: float = _INTERVAL) -> Iterator[list[str]]:
    """The test files below some paths, all of them first, and then those that have changed, again and again. When
    another file beside a test file changes, such as a plan, all tests of the folder are run."""
    before: _Times = {}
    while True:
        files = _test_files(paths)
        now = _times(files)
        changed_paths = {path for path, times in now.items() if before.get(path) != times} | (
            before.keys() - now.keys()
        )
        folders = {os.path.dirname(path) for path in changed_paths if path not in files}
        affected = [file for file in files if file in changed_paths or os.path.dirname(file) in folders]
        before = now
        if affected:
            yield affected
        time.sleep(interval)


def _test_files(paths: Sequence[str]) -> list[str]:
    try:
        return find_files(paths)
    except StateplanError:  # a file that is just being written has no tests
        return []


def _times(files: Sequence[str]) -> _Times:
    """Time and size of the files in the folders of test files."""
    out: _Times = {}
    for folder in {os.path.dirname(file) for file in files}:
        for path in Path(folder or ".").iterdir():
            if path.suffix in _ENDINGS and path.is_file():
                stat = path.stat()
                out[os.path.join(folder, path.name)] = stat.st_mtime_ns, stat.st_size
    return out
