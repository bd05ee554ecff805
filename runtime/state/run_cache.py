"""The worker's cache of state runs: memory-mapped files on local disk, shared by all workers of a host.

A run never changes once it has its id, so a cached run is always right; which runs are current, the state store
says. Where local disk does not take a run, it is kept in memory, within a bound, and else read from the state store
again: slower, never wrong.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection
from pathlib import Path

import pyarrow as pa

from stateplan.common.failure_reasons import reason_of
from stateplan.runtime.state.runs import Rows, decode_frame

MEMORY = 64 << 20
"""Bytes of runs that a worker keeps in memory where local disk does not take them."""
RESERVE = 256 << 20
"""Bytes of local disk that are left free."""

_OPEN_RUNS = 4096
_TIDY_EVERY = 64
"""A process looks for files of nobody at its first look at the state of a key group, and at every so many-th."""


class RunCache:
    """Decoded runs of one query.

    Args:
        folder: where the run files lie; None keeps runs in this process only.
        memory: bytes of runs that are kept in memory because no file was written.
        limit: bytes that the run files may take, about; those not opened for longest go first. None for no limit.
        reserve: bytes of the disk that are left free.

    Attributes:
        unwritten: runs that local disk did not take.
        failure: why the last one was not taken.
    """

    def __init__(
        self, folder: str | None, memory: int = MEMORY, limit: int | None = None, reserve: int = RESERVE
    ) -> None:
        self.folder = Path(folder) if folder else None
        self.unwritten = 0
        self.failure = ""
        self._memory = memory
        self._limit = limit
        self._reserve = reserve
        # A process with little address space, or little disk, cannot keep all files mapped.
        self._most_mapped = min(_address_space() // 4, limit // 4 if limit is not None else 1 << 62)
        self._mapped_runs: OrderedDict[str, tuple[Rows, int]] = OrderedDict()
        self._mapped_bytes = 0
        self._mapped_of: defaultdict[str, set[str]] = defaultdict(set)  # by the folder of their owner
        self._runs_in_memory: OrderedDict[str, tuple[Rows, int]] = OrderedDict()
        self._held_bytes = 0
        self._unmeasured_bytes = limit or 0  # bytes written since the folder was last measured
        self._visits: dict[str, int] = {}

    def of(self, owner: str) -> OwnedCache:
        """The cache of the key group that is called ``owner``."""
        return OwnedCache(self, owner)

    def open(self, run: str, path: Path | None, fetch: Callable[[], bytes]) -> Rows:
        """The run with id ``run``: from this process, else from its file, else from ``fetch``."""
        for cache in (self._mapped_runs, self._runs_in_memory):
            if run in cache:
                cache.move_to_end(run)
                return cache[run][0]
        if path is not None:
            with contextlib.suppress(OSError, ValueError):
                return self._map(run, path)
        return self.add(run, path, fetch())

    def add(self, run: str, path: Path | None, data: bytes) -> Rows:
        """Keeps the serialized run ``data`` and gives it decoded."""
        if path is not None:
            temporary = path.with_suffix(f".{os.getpid()}.tmp")
            try:
                self._make_room(len(data))
                try:
                    temporary.write_bytes(data)
                except FileNotFoundError:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    temporary.write_bytes(data)
                temporary.rename(path)
                return self._map(run, path)
            except (OSError, ValueError) as cause:
                self.unwritten += 1
                self.failure = reason_of(cause)
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)
        return self._hold(run, data)

    def discard(self, run: str, path: Path | None) -> None:
        """Forgets a run that is no longer current. A process that still maps its file keeps its data."""
        self._forget(run)
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()

    def forget_others(self, folder: Path, current: Collection[str]) -> None:
        """Forgets what is mapped of a folder, the ``current`` runs excepted: another process has merged them. While
        they are mapped, they take memory, and disk that no file accounts for."""
        mapped_runs = self._mapped_of[folder.name]
        for run in mapped_runs.difference(current):
            mapped_runs.remove(run)
            self._forget(run)

    def due_for_tidying(self, owner: str) -> bool:
        """Whether it is time to look for files that belong to no run of ``owner``."""
        visits = self._visits[owner] = self._visits.get(owner, -1) + 1
        return visits % _TIDY_EVERY == 0

    def _map(self, run: str, path: Path) -> Rows:
        with pa.memory_map(str(path)) as source:
            size = source.size()
            rows = Rows(decode_frame(source))
        if self._limit is not None:
            with contextlib.suppress(OSError):
                os.utime(path)
        self._mapped_runs[run] = rows, size
        self._mapped_of[path.parent.name].add(run)
        self._mapped_bytes += size
        while len(self._mapped_runs) > 1 and (
            self._mapped_bytes > self._most_mapped or len(self._mapped_runs) > _OPEN_RUNS
        ):
            self._mapped_bytes -= self._mapped_runs.popitem(last=False)[1][1]
        return rows

    def _hold(self, run: str, data: bytes) -> Rows:
        rows = Rows(decode_frame(pa.py_buffer(data)))
        if len(data) <= self._memory:
            self._runs_in_memory[run] = rows, len(data)
            self._held_bytes += len(data)
            while self._held_bytes > self._memory:
                self._held_bytes -= self._runs_in_memory.popitem(last=False)[1][1]
        return rows

    def _forget(self, run: str) -> None:
        if run in self._mapped_runs:
            self._mapped_bytes -= self._mapped_runs.pop(run)[1]
        if run in self._runs_in_memory:
            self._held_bytes -= self._runs_in_memory.pop(run)[1]

    def _make_room(self, size: int) -> None:
        """Raises OSError when ``size`` bytes more are too many for the disk; keeps to the limit."""
        assert self.folder is not None
        disk = os.statvfs(self.folder)
        if disk.f_bavail * disk.f_frsize < size + self._reserve:
            raise OSError(28, "No space left on device")
        if self._limit is None:
            return
        self._unmeasured_bytes += size
        if self._unmeasured_bytes * 16 > self._limit:
            self._unmeasured_bytes = 0
            self._evict(self._limit - size)

    def _evict(self, most: int) -> None:
        """Removes files, those not opened for longest first, until the rest takes about ``most`` bytes."""
        files: list[tuple[float, int, Path]] = []
        for path in (self.folder or Path()).glob("*/*.arrow"):
            with contextlib.suppress(OSError):
                facts = path.stat()
                files.append((facts.st_mtime, facts.st_size, path))
        total = sum(size for _, size, _ in files)
        # A little more than is needed, so that not every run measures the folder.
        aim = most if total <= most else most - most // 8
        for _, size, path in sorted(files):
            if total <= aim:
                return
            total -= size
            self.discard(path.stem, path)


class OwnedCache:
    """The runs of one key group of one operator in a :class:`RunCache`: their files lie in a folder of their own."""

    def __init__(self, cache: RunCache, owner: str) -> None:
        self._cache = cache
        self._owner = hashlib.sha1(owner.encode(), usedforsecurity=False).hexdigest()[:16]
        self._folder = cache.folder / self._owner if cache.folder is not None else None

    def first_visit(self) -> bool:
        """Whether nothing of the key group has been read on this host yet: its folder is made now."""
        try:
            if self._folder is not None:
                self._folder.mkdir(parents=True)
                return True
        except OSError:  # it exists, or cannot be made
            pass
        return False

    def _path(self, run: str) -> Path | None:
        return self._folder / f"{run}.arrow" if self._folder is not None else None

    def load(self, run: str, fetch: Callable[[], bytes]) -> Rows:
        """The run with id ``run``: from this process, else from local disk, else from ``fetch``."""
        return self._cache.open(run, self._path(run), fetch)

    def add(self, run: str, data: bytes) -> Rows:
        """Keeps the serialized run ``data`` and gives it decoded."""
        return self._cache.add(run, self._path(run), data)

    def discard(self, run: str) -> None:
        """Forgets a run that is no longer current, or whose file is damaged."""
        self._cache.discard(run, self._path(run))

    def tidy(self, current: Collection[str]) -> None:
        """Forgets runs that are not ``current``. Now and then, removes their files, which a failed task has left."""
        if self._folder is None:
            return
        self._cache.forget_others(self._folder, current)
        if not self._cache.due_for_tidying(self._owner):
            return
        with contextlib.suppress(OSError):
            for entry in list(os.scandir(self._folder)):
                if entry.name.split(".")[0] not in current:
                    with contextlib.suppress(OSError):
                        os.unlink(entry.path)


def _address_space() -> int:
    """How much address space this process may have (``spark.executor.pyspark.memory`` sets it); files mapped count."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        return 1 << 62 if limit == resource.RLIM_INFINITY else limit
    except (ImportError, OSError):
        return 1 << 62
