"""The keyed state of one operator in one key group: a manifest of runs, the runs, and one step over them."""

from __future__ import annotations

import json
import time as clock
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import Protocol

import polars as pl

from execnodes.errors import CheckpointError
from execnodes.runtime.cache import RunCache
from execnodes.runtime.jobgraph import Rewrite
from execnodes.runtime.kernel import ACCESS_TIME, EventTimeKernel, Kernel, StateTable, Watermark, fetch_state
from execnodes.runtime.runs import (
    HASH,
    TOMBSTONE,
    RunInfo,
    build_run,
    due_merge,
    due_rows,
    encode_frame,
    expired_rows,
    lookup,
    merge_runs,
    newest_access,
    state_schema,
)
from execnodes.runtime.watermarks import EventTime
from execnodes.ttl import TtlConfig, ttl_configs

__all__ = ["CHUNK_SIZE", "KeyedState", "MemoryRunStore", "RunStore", "StepStats"]

CHUNK_SIZE = 8 << 20
"""Runs are stored in values of at most so many bytes: larger values halve the throughput of Spark's state API."""

_FORMAT = 1


class RunStore(Protocol):
    """Where manifests and runs live; commits are the owner's (Spark's state store)."""

    def manifest(self) -> str | None: ...

    def set_manifest(self, text: str) -> None: ...

    def put(self, key: str, data: bytes) -> None: ...

    def get(self, key: str) -> bytes | None: ...

    def remove(self, key: str) -> None: ...


class MemoryRunStore:
    """A run store in memory: the twin of Spark's for tests."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.values: dict[str, bytes] = {}

    def manifest(self) -> str | None:
        return self.text

    def set_manifest(self, text: str) -> None:
        self.text = text

    def put(self, key: str, data: bytes) -> None:
        self.values[key] = data

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def remove(self, key: str) -> None:
        self.values.pop(key, None)


@dataclass
class StepStats:
    """What one step did to the state.

    Attributes:
        bytes_written: bytes put into the store, merges included.
        bytes_dropped: bytes of runs that are no longer current.
        rows_change: rows in all runs after the step minus before it (versions and tombstones included).
        merged_rows: rows read by merges.
        expired_runs: runs dropped whole because all their rows had expired.
        expired_rows: per state entry, rows removed because they had expired, older versions included.
        missed: retractions that found nothing.
        late: rows that were dropped because they came after the watermark.
        rows: per state table, rows in all its runs after the step (versions and tombstones included).
        growth: per state entry, by how much rows, bytes and number of its runs have grown.
        loads: runs read.
        cache_misses: of these, from the store.
        lookup_ms, kernel_ms, write_ms: where the time went.
    """

    bytes_written: int = 0
    bytes_dropped: int = 0
    rows_change: int = 0
    merged_rows: int = 0
    expired_runs: int = 0
    expired_rows: Counter[int] = field(default_factory=Counter)
    missed: int = 0
    late: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    growth: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    loads: int = 0
    cache_misses: int = 0
    lookup_ms: float = 0.0
    kernel_ms: float = 0.0
    write_ms: float = 0.0


class KeyedState:
    """State of one operator in one key group.

    Args:
        store: holds manifest and runs.
        cache: of decoded runs; correctness does not depend on it.
        tables: the operator's state tables.
        place: names operator and key group in errors.
        version: of the layout of the tables.
        rewrite: how runs of the version before are brought to this one; they are rewritten at once.

    Raises:
        CheckpointError: CKPT010 for a damaged manifest or one of another version, CKPT011 for a missing run, CKPT012
            for a damaged run, CKPT013 for a run whose columns are not those of the operator.
    """

    def __init__(
        self,
        store: RunStore,
        cache: RunCache,
        tables: Sequence[StateTable],
        place: str,
        version: int = 0,
        rewrite: Rewrite | None = None,
    ) -> None:
        self._store = store
        self._cache = cache
        self._tables = tuple(tables)
        self._place = place
        self._version = version
        self._found = version
        self.time = EventTime()
        self._runs = self._read_manifest()
        self._before = self._sizes()
        self._changed = False
        self.stats = StepStats()
        if self._found != version:
            self._rewrite(rewrite)

    def _read_manifest(self) -> dict[str, list[RunInfo]]:
        text = self._store.manifest()
        runs: dict[str, list[RunInfo]] = {t.name: [] for t in self._tables}
        if text is None:
            return runs
        try:
            data = json.loads(text)
            if data["format"] != _FORMAT:
                raise CheckpointError(
                    "CKPT010",
                    f"the state of {self._place} has format {data['format']}",
                    expected=f"format {_FORMAT}",
                    hint="use the version of stateplan that wrote it",
                )
            for name, entries in data["tables"].items():
                runs[name] = [RunInfo(*entry) for entry in entries]
            self._found = int(data.get("version", 0))
            if "time" in data:
                self.time = EventTime.from_json(data["time"])
        except (ValueError, KeyError, TypeError) as cause:
            raise CheckpointError(
                "CKPT010",
                f"the list of runs of {self._place} cannot be read ({cause})",
                hint="restore the checkpoint directory from a copy, or start from an empty one",
            ) from cause
        return runs

    def _rewrite(self, rewrite: Rewrite | None) -> None:
        """Brings all runs to the present version."""
        if rewrite is None or self._found != self._version - 1:
            raise CheckpointError(
                "CKPT010",
                f"the state of {self._place} has version {self._found}",
                expected=f"version {self._version}",
                hint="restore the checkpoint directory from a copy, or start from an empty one",
            )
        for table in self._tables:
            names = rewrite.columns[table.name]
            columns = [pl.col(names[name]).alias(name) for name in table.schema]
            old = self._runs[table.name]
            frames = [self._fetch(table, info).select([*columns, ACCESS_TIME, HASH, TOMBSTONE]) for info in old]
            for info in old:
                self._drop(info)
            self._runs[table.name] = [self._put(frame) for frame in frames]
        self._changed = True

    def _fetch(self, table: StateTable, info: RunInfo) -> pl.DataFrame:
        """The columns of a run, whatever they are."""

        def fetch() -> bytes:
            self.stats.cache_misses += 1
            parts = []
            for n in range(info.chunks):
                part = self._store.get(f"{info.id}/{n}")
                if part is None:
                    raise CheckpointError(
                        "CKPT011",
                        f"run {info.id} of {table.name} of {self._place} is missing from the state store",
                        hint="restore the checkpoint directory from a copy, or start from an empty one",
                    )
                parts.append(part)
            data = b"".join(parts)
            if len(data) != info.size:
                raise CheckpointError(
                    "CKPT012",
                    f"run {info.id} of {table.name} of {self._place} has {len(data)} bytes",
                    expected=f"{info.size} bytes",
                    hint="restore the checkpoint directory from a copy",
                )
            return data

        self.stats.loads += 1
        try:
            return self._cache.load(info.id, fetch)
        except (pl.exceptions.PolarsError, OSError, ValueError) as cause:
            raise CheckpointError(
                "CKPT012",
                f"run {info.id} of {table.name} of {self._place} is damaged ({cause})",
                hint="restore the checkpoint directory from a copy",
            ) from cause

    def _load(self, table: StateTable, info: RunInfo) -> pl.DataFrame:
        frame = self._fetch(table, info)
        want = state_schema(table)
        if any(frame.schema.get(name) != dtype for name, dtype in want.items()):
            raise CheckpointError(
                "CKPT013",
                f"run {info.id} of {table.name} of {self._place} has columns {dict(frame.schema)}",
                expected=str(want),
                hint="the checkpoint was written by another plan",
            )
        return frame

    def lookup(self, table: StateTable, keys: pl.DataFrame | None, now: int, ttl: int) -> pl.DataFrame:
        """Live rows of ``table`` for ``keys`` (see :func:`execnodes.runtime.runs.lookup`)."""
        infos = self._runs[table.name]
        if ttl > 0:
            kept = next((i for i, r in enumerate(infos) if r.newest > now - ttl), len(infos))
            if kept:
                for info in infos[:kept]:
                    self._drop(info)
                    self.stats.expired_rows[table.slot] += info.rows
                self.stats.expired_runs += kept
                self._runs[table.name] = infos = infos[kept:]
                self._changed = True
        if keys is None or not infos:
            return pl.DataFrame(schema=state_schema(table))
        return lookup(table, [self._load(table, i) for i in infos], keys, now, ttl)

    def due(self, table: StateTable, upto: int, now: int, ttl: int) -> pl.DataFrame:
        """Live rows of ``table`` that are due at ``upto`` (see :attr:`StateTable.due`)."""
        infos = self._runs[table.name]
        if not infos:
            return pl.DataFrame(schema=state_schema(table))
        return due_rows(table, [self._load(table, i) for i in infos], upto, now, ttl)

    def write(
        self, table: StateTable, upserts: pl.DataFrame | None, deletes: pl.DataFrame | None, now: int, ttl: int
    ) -> None:
        """Records changes to ``table`` as a new run, merged with older ones where that is due."""
        fresh = build_run(table, upserts, deletes, now)
        if fresh is None:
            return
        infos = self._runs[table.name]
        start = due_merge([*(i.rows for i in infos), fresh.height])
        if start is not None:
            old = infos[start:]
            self.stats.merged_rows += sum(i.rows for i in old) + fresh.height
            runs = [*(self._load(table, i) for i in old), fresh]
            if start == 0:
                self.stats.expired_rows[table.slot] += expired_rows(runs, now, ttl)
            fresh = merge_runs(table, runs, now, ttl, oldest=start == 0)
            for info in old:
                self._drop(info)
            del infos[start:]
        if fresh.height:
            infos.append(self._put(fresh))
        self._changed = True

    def step(
        self,
        kernel: Kernel,
        inputs: Sequence[pl.DataFrame],
        now: int,
        ttl: Sequence[int | TtlConfig],
        watermark: Watermark | None = None,
    ) -> pl.DataFrame:
        """Runs one micro-batch through ``kernel`` and records its state changes.

        Args:
            inputs: one frame of changes per input.
            now: the micro-batch's time, ms.
            ttl: per ``state`` entry of the plan; of one given in milliseconds everything else is the default.
            watermark: how far event time has come; of use to kernels with event time only.

        Returns:
            The frame of output changes.
        """
        tables = self._tables
        time = watermark or Watermark()
        timed = isinstance(kernel, EventTimeKernel)
        lifetimes = [config.ttl for config in ttl_configs(ttl)]
        started = clock.perf_counter()
        state = fetch_state(
            kernel,
            inputs,
            lambda t, keys: self.lookup(t, keys, now, lifetimes[t.slot]),
            (lambda t: self.due(t, time.now, now, lifetimes[t.slot])) if timed and time.now > time.before else None,
        )
        found = clock.perf_counter()
        if isinstance(kernel, EventTimeKernel):
            result = kernel.advance(inputs, state, now, lifetimes, time)
        else:
            result = kernel.process(inputs, state, now, lifetimes)
        computed = clock.perf_counter()
        self.stats.missed += result.missed
        self.stats.late += result.late
        for table, upserts, deletes in zip(tables, result.upserts, result.deletes, strict=True):
            self.write(table, upserts, deletes, now, lifetimes[table.slot])
        self.flush()
        self.stats.lookup_ms += 1000 * (found - started)
        self.stats.kernel_ms += 1000 * (computed - found)
        self.stats.write_ms += 1000 * (clock.perf_counter() - computed)
        return result.output

    def touch_time(self) -> None:
        """Has :meth:`flush` write what :attr:`time` says now."""
        self._changed = True

    def flush(self) -> None:
        """Writes the manifest if anything changed."""
        if self._changed:
            data: dict[str, object] = {"format": _FORMAT}
            if self._version:
                data["version"] = self._version
            data["tables"] = {name: [astuple(i) for i in infos] for name, infos in self._runs.items()}
            if self.time.since is not None:
                data["time"] = self.time.to_json()
            self._store.set_manifest(json.dumps(data, separators=(",", ":")))
            self._changed = False
        self.stats.rows = {name: sum(i.rows for i in infos) for name, infos in self._runs.items()}
        sizes = self._sizes()
        self.stats.growth = {
            slot: (after[0] - before[0], after[1] - before[1], after[2] - before[2])
            for slot, after in sizes.items()
            if after != (before := self._before.get(slot, (0, 0, 0)))
        }

    def _sizes(self) -> dict[int, tuple[int, int, int]]:
        """Per state entry, rows, bytes and number of its runs."""
        sizes: dict[int, tuple[int, int, int]] = {}
        for table in self._tables:
            rows, size, runs = sizes.get(table.slot, (0, 0, 0))
            infos = self._runs[table.name]
            sizes[table.slot] = rows + sum(i.rows for i in infos), size + sum(i.size for i in infos), runs + len(infos)
        return sizes

    def _put(self, frame: pl.DataFrame) -> RunInfo:
        data = encode_frame(frame)
        run = uuid.uuid4().hex
        chunks = max(1, -(-len(data) // CHUNK_SIZE))
        view = memoryview(data)
        for n in range(chunks):
            self._store.put(f"{run}/{n}", bytes(view[n * CHUNK_SIZE : (n + 1) * CHUNK_SIZE]) if chunks > 1 else data)
        self._cache.add(run, data)
        self.stats.bytes_written += len(data)
        self.stats.rows_change += frame.height
        return RunInfo(run, frame.height, newest_access(frame), len(data), chunks)

    def _drop(self, info: RunInfo) -> None:
        for n in range(info.chunks):
            self._store.remove(f"{info.id}/{n}")
        self._cache.discard(info.id)
        self.stats.bytes_dropped += info.size
        self.stats.rows_change -= info.rows
