"""The runs of state of a job without Spark: in memory up to a limit, else in files of local disk, which are mapped."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

from stateplan.runtime.scratch import scratch
from stateplan.runtime.state.keyed_state import MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.state.runs import Rows

IN_MEMORY = 256 << 20
"""Bytes of runs that are kept in memory."""

_SMALL = 1 << 20
"""Smaller runs are always kept in memory: merges soon put them into larger ones."""


class ManifestStore(MemoryRunStore):
    """A store of manifests. Their runs are in :class:`KeptRuns`."""

    def put(self, key: str, data: bytes) -> None:
        """Nothing."""


class KeptRuns(RunCache):
    """All runs of a job, which are nowhere else. Those that local disk does not take are kept in memory too.

    Args:
        in_memory: bytes of runs that are kept in memory.
    """

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        super().__init__(None, memory=1 << 62)
        self._in_memory = in_memory
        self._paths: dict[str, Path] = {}

    def open(self, run: str, path: Path | None, fetch: Callable[[], bytes]) -> Rows:
        """The run with id ``run``."""
        return super().open(run, self._paths.get(run), fetch)

    def add(self, run: str, path: Path | None, data: bytes) -> Rows:
        """Keeps the serialized run ``data`` and gives it decoded."""
        if len(data) > _SMALL and self._held_bytes + len(data) > self._in_memory:
            with contextlib.suppress(OSError):
                self.folder = self.folder or scratch("state")
                self._paths[run] = self.folder / f"{run}.arrow"
        rows = super().add(run, self._paths.get(run), data)
        self.unwritten = 0  # counts runs that would have to be read from a state store again
        if run in self._runs_in_memory:
            self._paths.pop(run, None)
        return rows

    def discard(self, run: str, path: Path | None) -> None:
        """Forgets a run that is no longer current."""
        super().discard(run, self._paths.pop(run, None))

    def close(self) -> None:
        """Removes the files."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
