"""The worker's cache of state runs: memory-mapped files on local disk, shared by all workers of a host.

A run never changes once it has its id, so a cached run is always right; which runs are current, the state store
says. Every failure to write here is ignored: the run is then read from the state store again.
"""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa

from execnodes.runtime.runs import Rows

__all__ = ["RunCache"]

_OPEN_RUNS = 4096


class RunCache:
    """Decoded runs of one query.

    Args:
        folder: where the run files lie; None keeps runs in this process only.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = Path(folder) if folder else None
        self._open: OrderedDict[str, Rows] = OrderedDict()

    def _path(self, run: str) -> Path | None:
        return self._folder / f"{run}.arrow" if self._folder else None

    def load(self, run: str, fetch: Callable[[], bytes]) -> Rows:
        """The run with id ``run``: from this process, else from local disk, else from ``fetch``."""
        rows = self._open.get(run)
        if rows is not None:
            self._open.move_to_end(run)
            return rows
        path = self._path(run)
        if path is not None:
            with contextlib.suppress(OSError, ValueError):
                return self._remember(run, _map(path))
        return self.add(run, fetch())

    def add(self, run: str, data: bytes) -> Rows:
        """Keeps the serialized run ``data`` and gives it decoded."""
        path = self._path(run)
        if path is not None:
            temporary = path.with_suffix(f".{os.getpid()}.tmp")
            try:
                temporary.write_bytes(data)
                temporary.rename(path)
                return self._remember(run, _map(path))
            except (OSError, ValueError):
                temporary.unlink(missing_ok=True)
        return self._remember(run, _decode(pa.py_buffer(data)))

    def _remember(self, run: str, frame: pl.DataFrame) -> Rows:
        rows = self._open[run] = Rows(frame)
        if len(self._open) > _OPEN_RUNS:
            self._open.popitem(last=False)
        return rows

    def discard(self, run: str) -> None:
        """Forgets a run that is no longer current. A process that still maps its file keeps its data."""
        self._open.pop(run, None)
        path = self._path(run)
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()


def _decode(source: pa.Buffer | pa.NativeFile) -> pl.DataFrame:
    try:
        table = pa.ipc.open_file(source).read_all()
    except pa.ArrowInvalid as cause:
        raise ValueError(str(cause)) from cause
    frame = pl.from_arrow(table, rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    return frame if frame.n_chunks() <= 1 else frame.rechunk()


def _map(path: Path) -> pl.DataFrame:
    with pa.memory_map(str(path)) as source:
        return _decode(source)
