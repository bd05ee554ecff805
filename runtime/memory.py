"""How much memory a job takes, and how much of it and of local disk for state, from options.

``execution.memory.total`` limits the processes of a job on this machine together. What is left after the fixed part of
each process is divided: Spark's heap, memory for state, and the rows that workers have in memory at once. The size of
micro-batches follows from the last one.

``taskmanager.memory.managed.size`` is split as Flink splits managed memory: one half is RocksDB's, for its caches and
write buffers in all partitions together; the other is the workers', each its share, for runs of state that local disk
does not take. What workers map from files is the page cache's, which the system reclaims when it needs memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from stateplan.common.errors import OptionError
from stateplan.common.options import parse_memory_size
from stateplan.common.settings import parallelism
from stateplan.runtime.scratch import scratch
from stateplan.runtime.spark.tweaks import KEPT_MEMORY, OFF

TOTAL = "execution.memory.total"
MANAGED = "taskmanager.memory.managed.size"
CACHE_DIR = "state.backend.forst.cache.dir"
CACHE_LIMIT = "state.backend.forst.cache.size-based-limit"
CACHE_RESERVE = "state.backend.forst.cache.reserve-size"

DEFAULTS = {MANAGED: 512 << 20, CACHE_LIMIT: 0, CACHE_RESERVE: 256 << 20}
"""Bytes; a limit of 0 is none."""

_MIB = 1 << 20
HEAP = "spark.driver.memory"
_PROCESSES = 740 * _MIB
"""Of the JVM without its heap, the driver, and the process that forks workers, as measured."""

_TASK = 220 * _MIB
"""Of the two Python processes of a task, without rows."""

_LEAST_REST = 640 * _MIB
_LEAST_HEAP = 480 * _MIB
"""Spark does not start with less than 450 MiB."""

_MOST_HEAP = 2048 * _MIB
_EXPANSION = 4
"""How many bytes rows take in a worker for each byte of a file that it reads, as measured with JSON."""

_HEAP_PER_BYTE = 3
"""The same of Spark's heap, which passes blobs of rows on, for each byte of a micro-batch."""

ROCKSDB = "spark.sql.streaming.stateStore.rocksdb."
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


def limited(options: Mapping[str, str]) -> dict[str, str]:
    """Options with what follows from ``execution.memory.total``: Spark's heap and the memory for state, where the user
    does not set them. Workers then keep no buffers for later.

    Raises:
        OptionError: OPT002, the limit is less than a job takes without rows.
    """
    if TOTAL not in options:
        return dict(options)
    rest = parse_memory_size(options[TOTAL]) - _PROCESSES - _TASK * parallelism(options)
    if rest < _LEAST_REST:
        least = (_LEAST_REST + _PROCESSES + _TASK * parallelism(options)) // _MIB
        raise OptionError(
            "OPT002",
            key=TOTAL,
            text=options[TOTAL],
            refused=f"with a parallelism of {parallelism(options)}, a job takes at least {least} mb",
            expected=f"'{least} mb' or more, or a lower 'parallelism.default'",
        )
    heap = max(_LEAST_HEAP, min(_MOST_HEAP, rest * 45 // 100))
    managed = min(DEFAULTS[MANAGED], rest * 20 // 100)
    off = dict.fromkeys(name.strip() for name in f"{options.get(OFF, '')},{KEPT_MEMORY}".split(",") if name.strip())
    return {HEAP: f"{heap // _MIB}m", MANAGED: f"{managed // _MIB} mb", **options, OFF: ",".join(off)}


def task_bytes(options: Mapping[str, str], most: int) -> int:
    """Bytes of files that a micro-batch has for each of its parallel tasks: ``most``, or less with a limit.

    Args:
        options: those of :func:`limited`.
    """
    if TOTAL not in options:
        return most
    tasks = parallelism(options)
    heap = parse_memory_size(options[HEAP])
    rest = parse_memory_size(options[TOTAL]) - _PROCESSES - _TASK * tasks - heap - _size(options, MANAGED)
    return max(_MIB, min(most, rest // tasks // _EXPANSION, heap // tasks // _HEAP_PER_BYTE))


def rocksdb_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings that bound the memory of RocksDB."""
    mebibytes = max(_LEAST_ROCKSDB, _size(options, MANAGED) // 2 >> 20)
    return {f"{ROCKSDB}boundedMemoryUsage": "true", f"{ROCKSDB}maxMemoryUsageMB": str(mebibytes)}


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
