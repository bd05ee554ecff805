"""How much memory and local disk a job takes for state, from Flink's options.

``taskmanager.memory.managed.size`` is split as Flink splits managed memory: one half is RocksDB's, for its caches and
write buffers in all partitions together; the other is the workers', each its share, for runs of state that local disk
does not take. What workers map from files is the page cache's, which the system reclaims when it needs memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from stateplan.common.options import parse_memory_size
from stateplan.common.settings import parallelism
from stateplan.runtime.scratch import scratch

MANAGED = "taskmanager.memory.managed.size"
CACHE_DIR = "state.backend.forst.cache.dir"
CACHE_LIMIT = "state.backend.forst.cache.size-based-limit"
CACHE_RESERVE = "state.backend.forst.cache.reserve-size"

DEFAULTS = {MANAGED: 512 << 20, CACHE_LIMIT: 0, CACHE_RESERVE: 256 << 20}
"""Bytes; a limit of 0 is none."""

_ROCKSDB = "spark.sql.streaming.stateStore.rocksdb."
_LEAST_ROCKSDB = 16
"""MiB below which RocksDB does little else than flush."""


class CacheSettings(NamedTuple):
    """Of the workers' run cache; see :class:`runtime.state.run_cache.RunCache`."""

    folder: str | None
    memory: int
    limit: int | None
    reserve: int
    parent: str | None = None
    """Where each executor makes its own folder; empty for its temporary files. None where ``folder`` is for all."""


def _size(options: Mapping[str, str], key: str) -> int:
    return parse_memory_size(options[key]) if key in options else DEFAULTS[key]


def rocksdb_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings that bound the memory of RocksDB."""
    mebibytes = max(_LEAST_ROCKSDB, _size(options, MANAGED) // 2 >> 20)
    return {f"{_ROCKSDB}boundedMemoryUsage": "true", f"{_ROCKSDB}maxMemoryUsageMB": str(mebibytes)}


def cache_settings(options: Mapping[str, str], tell: Callable[[str], None], is_shared: bool = True) -> CacheSettings:
    """The run cache of a job that starts.

    Args:
        options: the options of the session, checked.
        tell: receives a message when there is no folder for it.
        is_shared: whether workers run on this machine. Otherwise each executor has a folder of its own, in
            ``CACHE_DIR`` or among its temporary files, which Spark removes.
    """
    # Of each task, the operator's process and the sink's.
    memory = _size(options, MANAGED) // 2 // (2 * parallelism(options))
    folder: str | None = None
    parent = options.get(CACHE_DIR)
    limits = _size(options, CACHE_LIMIT) or None, _size(options, CACHE_RESERVE)
    if not is_shared:
        return CacheSettings(None, memory, *limits, parent or "")
    try:
        folder = _folder(parent)
    except OSError as cause:
        place = parent or tempfile.gettempdir()
        tell(
            f"{place} cannot be written ({cause.strerror}): every micro-batch reads state from the state store, "
            f"which is slower; set '{CACHE_DIR}' to a folder on local disk"
        )
    return CacheSettings(folder, memory, *limits)


def _folder(parent: str | None) -> str:
    """A fresh folder. Raises OSError when there can be none."""
    if parent is None:
        return str(scratch("runs"))
    Path(parent).mkdir(parents=True, exist_ok=True)
    return str(scratch("runs", Path(parent).absolute()))
