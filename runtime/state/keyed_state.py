"""The keyed state of one operator in one key group: a manifest of runs, the runs, and one step over them."""

from __future__ import annotations

import json
import time as clock
from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from types import MappingProxyType

import polars as pl

from stateplan.common.errors import CheckpointError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import TtlConfig
from stateplan.runtime.kernel import ACCESS_TIME, END_OF_TIME, FormerColumns, Frames, Kernel, StateTable, Watermark
from stateplan.runtime.metrics.ages import Use
from stateplan.runtime.state.lost_rows import LOST_ROWS, AuditedKeys, LostRows, with_retracted
from stateplan.runtime.state.misses import Miss
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.state.run_list import RunList
from stateplan.runtime.state.runs import (
    RunInfo,
    build_run,
    due_rows,
    live_rows,
    lookup,
    newest_versions,
    state_rows,
    state_schema,
    wanted_hashes,
)
from stateplan.runtime.state.stored_frames import CHUNK_SIZE, Parts, RunStore
from stateplan.runtime.state.ttl_access import InputFields, expiry_clock, take_step
from stateplan.runtime.watermarks import EventTime

__all__ = ["CHUNK_SIZE", "KeyedState", "MemoryRunStore", "RunStore", "StepStats"]

_FORMAT = 1


class MemoryRunStore:
    """A run store in memory: the twin of Spark's for tests."""

    is_compact = False

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
        expired_runs: parts of runs dropped unread, because all their rows had expired.
        expired_rows: per state entry, rows removed because they had expired, older versions included.
        needed_rows: per state entry, expired rows that were needed; only with an audit.
        missed: retractions that found nothing.
        late: rows that were dropped because they arrived after the watermark.
        ages: per state entry and use, how old the rows were that were found, as rows by bucket (see
            :mod:`runtime.metrics.ages`).
        rows: per state table, rows in all its runs after the step (versions and tombstones included).
        growth: per state entry, by how much rows, bytes and number of its runs have grown.
        loads: runs read.
        cache_misses: of these, from the store.
        cache_unwritten: runs that local disk did not take.
        lookup_ms, kernel_ms, write_ms: where the time went.
    """

    bytes_written: int = 0
    bytes_dropped: int = 0
    rows_change: int = 0
    merged_rows: int = 0
    expired_runs: int = 0
    expired_rows: Counter[int] = field(default_factory=Counter)
    needed_rows: Counter[int] = field(default_factory=Counter)
    missed: int = 0
    late: int = 0
    ages: dict[tuple[int, Use], dict[int, int]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    growth: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    loads: int = 0
    cache_misses: int = 0
    cache_unwritten: int = 0
    lookup_ms: float = 0.0
    kernel_ms: float = 0.0
    write_ms: float = 0.0


class KeyedState:
    """State of one operator in one key group.

    Args:
        store: holds manifest and runs.
        cache: the cache of decoded runs; correctness does not depend on it.
        tables: the operator's state tables.
        place: names operator and key group in errors.
        version: the version of the columns of the tables.
        former_columns: their columns in former versions. Runs of such a version are read as if they had the present
            columns, and get them when they are merged.
        audited: of which keys expired rows are remembered; None for none. Those of an earlier audit are dropped then.

    Attributes:
        late_rows: of the last step; see :attr:`Step.late_rows`.
        misses: the expired rows that the last step needed; nothing without an audit.

    Raises:
        CheckpointError: CKPT010 for a damaged manifest or a run of an unknown version, CKPT011 for a missing run,
            CKPT012 for a damaged run, CKPT013 for a run whose columns are not those of the operator.
    """

    def __init__(
        self,
        store: RunStore,
        cache: RunCache,
        tables: Sequence[StateTable],
        place: str,
        version: int = 0,
        former_columns: FormerColumns = MappingProxyType({}),
        audited: AuditedKeys | None = None,
    ) -> None:
        self._store = store
        self._parts = Parts(store, cache, place, version, former_columns)
        self._tables = tuple(tables)
        self._place = place
        self.time = EventTime()
        self._merges_waited = False
        self._others: dict[str, list[RunInfo]] = self._read_manifest()
        self._runs = {t.name: RunList(t, self._others.pop(t.name, []), self._parts) for t in self._tables}
        self._lost_rows = {} if audited is None else {t.name: self._audited(t, audited) for t in self._tables}
        for part in (part for runs in self._lists for part in runs.parts):
            if part.version != version and part.version not in former_columns:
                raise CheckpointError("CKPT010", where=place, found=part.version, wanted=version, part="version")
        # A job that starts reads what its first rows need. Merges, which read more, wait for the next micro-batch; but
        # not twice in succession, in jobs of a single micro-batch.
        first_visit = self._parts.first_visit()
        self._merges_wait = first_visit and not self._merges_waited and any(runs.parts for runs in self._lists)
        self._parts.tidy({part.id for runs in self._lists for part in runs.parts})
        self._before = self._sizes()
        self._is_dirty = False
        self._expired: dict[str, pl.DataFrame] = {}
        self.stats = StepStats()
        self.late_rows: Sequence[pl.DataFrame] = ()
        self.misses: Sequence[Miss] = ()

    def _audited(self, table: StateTable, keys: AuditedKeys) -> LostRows:
        """What a table has lost; from now on, its expired rows go there."""
        lost_rows = LostRows(table, keys, self._others.pop(table.name + LOST_ROWS, []), self._parts)
        self._runs[table.name].take_dropped = lost_rows.take
        return lost_rows

    @property
    def _lists(self) -> list[RunList]:
        """All lists of runs."""
        return [*self._runs.values(), *(lost_rows.runs for lost_rows in self._lost_rows.values())]

    def _read_manifest(self) -> dict[str, list[RunInfo]]:
        text = self._store.manifest()
        runs: dict[str, list[RunInfo]] = {}
        if text is None:
            return runs
        try:
            data = json.loads(text)
            if data["format"] != _FORMAT:
                raise CheckpointError("CKPT010", where=self._place, found=data["format"], wanted=_FORMAT, part="format")
            for name, entries in data["tables"].items():
                runs[name] = [RunInfo(*entry) for entry in entries]
                if "version" in data:  # of earlier lists of runs: that of all of them
                    runs[name] = [info._replace(version=int(data["version"])) for info in runs[name]]
            self._merges_waited = bool(data.get("waited"))
            if "time" in data:
                self.time = EventTime.from_json(data["time"])
        except (ValueError, KeyError, TypeError) as cause:
            raise CheckpointError("CKPT010.damaged_list", where=self._place, cause=cause) from cause
        return runs

    def runs(self, table: StateTable) -> list[tuple[RunInfo, pl.DataFrame]]:
        """The parts of the runs of ``table``, oldest first, for those who look at all of it."""
        return [(info, self._parts.load(table, info).frame) for info in self._runs[table.name].parts]

    def lookup(self, table: StateTable, keys: pl.DataFrame | None, now: int, ttl: int) -> pl.DataFrame:
        """Live rows of ``table`` for ``keys``, with the time of their last access."""
        return self._find(table, keys, now, ttl).select([*table.schema, ACCESS_TIME])

    def _find(self, table: StateTable, keys: pl.DataFrame | None, now: int, ttl: int) -> pl.DataFrame:
        """See :func:`runtime.state.runs.lookup`."""
        runs = self._runs[table.name]
        self._is_dirty |= runs.drop_expired(now, ttl)
        if keys is None or (not runs.parts and table.name not in self._lost_rows):
            return pl.DataFrame(schema=state_schema(table))
        hashes = wanted_hashes(table, keys)
        if table.name not in self._lost_rows:
            return lookup(table, runs.newest_first(hashes), hashes, now, ttl)
        versions = newest_versions(table, runs.newest_first(hashes), hashes)
        expired_rows = self._lost_rows[table.name].among(versions, hashes, now, ttl)
        if expired_rows is not None:
            self._expired[table.name] = expired_rows
        if versions is None:
            return pl.DataFrame(schema=state_schema(table))
        return state_rows(table, live_rows(versions, now, ttl))

    def due(self, table: StateTable, name: str, upto: int, now: int, ttl: int) -> pl.DataFrame:
        """Live rows of ``table`` that are due at ``upto`` by the column ``name`` (see :attr:`StateTable.due`)."""
        return due_rows(table, name, list(self._runs[table.name].newest_first()), upto, now, ttl)

    def count_pending(self, kernel: Kernel, now: int, ttl: Sequence[TtlConfig]) -> int:
        """How much waits for the clock; see :meth:`Kernel.count_pending`."""
        clocks = [expiry_clock(config, now, self.time.watermark) for config in ttl]
        return kernel.count_pending(
            [
                self.due(t, t.due, END_OF_TIME, *clocks[t.slot]) if t.due else pl.DataFrame(schema=state_schema(t))
                for t in self._tables
            ]
        )

    def write(
        self, table: StateTable, upserts: pl.DataFrame | None, deletes: pl.DataFrame | None, now: int, ttl: int
    ) -> None:
        """Records changes to ``table`` as a new run, and continues with what keeps its runs few and small."""
        fresh = build_run(table, upserts, deletes, now)
        runs = self._runs[table.name]
        if fresh is not None:
            runs.append(fresh)
            self._is_dirty = True
        self._tend(table, now, ttl)

    def _tend(self, table: StateTable, now: int, ttl: int) -> None:
        """Continues with merges, unless they wait."""
        if self._merges_wait:
            return
        self._is_dirty |= self._runs[table.name].tend(now, ttl)
        if table.name in self._lost_rows:
            self._is_dirty |= self._lost_rows[table.name].tend(now, ttl)

    def _end_of_audit(self) -> None:
        """Drops what an earlier audit remembered."""
        for table in self._tables:
            for part in () if table.name in self._lost_rows else self._others.pop(table.name + LOST_ROWS, ()):
                self._parts.drop(part)
                self._is_dirty = True

    def begin_with(self, table: StateTable, rows: pl.DataFrame) -> None:
        """Takes in rows of ``table`` as an earlier micro-batch has left them: a state frame."""
        missing_columns = [name for name in table.later_columns if name not in rows.columns]
        rows = rows.with_columns(pl.lit(None, table.schema[name]).alias(name) for name in missing_columns)
        run = build_run(table, rows, None, 0)
        if run is not None:
            self._runs[table.name].append(run)
            self._is_dirty = True

    def begin_at(self, time: EventTime) -> None:
        """Takes in how far event time has come."""
        self.time = time
        self._is_dirty = True

    def sweep(self, now: int, ttl: Sequence[TtlConfig]) -> None:
        """What :meth:`step` does beside its changes: drops what has expired, continues with merges, and so on.

        Args:
            now, ttl: as for :meth:`step`.
        """
        self._end_of_audit()
        clocks = [expiry_clock(config, now, self.time.watermark) for config in ttl]
        for table in self._tables:
            self._is_dirty |= self._runs[table.name].drop_expired(*clocks[table.slot])
            self._tend(table, *clocks[table.slot])
        self.flush()

    def step(
        self,
        kernel: Kernel,
        inputs: Frames,
        now: int,
        ttl: Sequence[TtlConfig],
        watermark: Watermark | None = None,
        fields: InputFields | None = None,
    ) -> pl.DataFrame:
        """Runs one micro-batch through ``kernel`` and records its state changes.

        Args:
            inputs: one frame of changes per input.
            now: the micro-batch's time, ms.
            ttl: per ``state`` entry of the plan.
            watermark: how far event time has advanced.
            fields: what is known of the rows of the inputs; for states with other than default TTL semantics.

        Returns:
            The frame of output changes.
        """
        self._end_of_audit()
        time = watermark or Watermark()
        outcome = take_step(
            kernel,
            inputs,
            now,
            ttl,
            time,
            fields or InputFields(),
            self._find,
            self.due,
            self._expired if self._lost_rows else None,
        )
        start_time = clock.perf_counter()
        retracted = {miss.table.name: miss.retracted for miss in outcome.misses if miss.is_retracted.any()}
        for w in outcome.writes:
            deletes = w.deletes
            if w.table.name in retracted:
                deletes = with_retracted(w.table, w.upserts, deletes, retracted[w.table.name])
            self.write(w.table, w.upserts, deletes, w.now, w.ttl)
        self.flush()
        self.stats.missed += outcome.step.missed
        self.stats.late += outcome.step.late
        self.late_rows = outcome.step.late_rows
        self.misses = outcome.misses
        for miss in outcome.misses:
            self.stats.needed_rows[miss.table.slot] += miss.rows.height
        self.stats.ages = outcome.ages
        self.stats.lookup_ms += outcome.lookup_ms
        self.stats.kernel_ms += outcome.kernel_ms
        self.stats.write_ms += outcome.settle_ms + 1000 * (clock.perf_counter() - start_time)
        return outcome.step.output

    def touch_time(self) -> None:
        """Makes :meth:`flush` write the current value of :attr:`time`."""
        self._is_dirty = True

    def flush(self) -> None:
        """Writes what changed."""
        if self._is_dirty:
            self._parts.flush()
            data: dict[str, object] = {"format": _FORMAT}
            lost_parts = {name + LOST_ROWS: own.runs.parts for name, own in self._lost_rows.items() if own.runs.parts}
            data["tables"] = {**{n: runs.parts for n, runs in self._runs.items()}, **lost_parts, **self._others}
            if self.time.since is not None:
                data["time"] = self.time.to_json()
            if self._merges_wait:
                data["waited"] = True
            self._store.set_manifest(json.dumps(data, separators=(",", ":")))
            self._is_dirty = False
        self._note()

    def _note(self) -> None:
        """Brings :attr:`stats` up to date."""
        stats, parts, lists = self.stats, self._parts, list(self._runs.values())
        stats.rows = {runs.table.name: runs.rows for runs in lists}
        stats.bytes_written, stats.bytes_dropped = parts.bytes_written, parts.bytes_dropped
        stats.loads, stats.cache_misses, stats.cache_unwritten = parts.loads, parts.misses, parts.unwritten
        stats.merged_rows = sum(runs.figures.rows for runs in self._lists)
        stats.expired_runs = sum(runs.figures.parts for runs in lists)
        stats.expired_rows = Counter()
        for runs in lists:
            stats.expired_rows[runs.table.slot] += runs.figures.expired
        sizes = self._sizes()
        stats.rows_change = sum(rows for rows, _, _ in sizes.values()) - sum(r for r, _, _ in self._before.values())
        stats.growth = {
            slot: (after[0] - before[0], after[1] - before[1], after[2] - before[2])
            for slot, after in sizes.items()
            if after != (before := self._before.get(slot, (0, 0, 0)))
        }

    def _sizes(self) -> dict[int, tuple[int, int, int]]:
        """Per state entry, rows, bytes and number of its runs. Expired rows that are remembered count as bytes."""
        sizes: dict[int, tuple[int, int, int]] = {}
        for runs in self._lists:
            rows, size, count = sizes.get(runs.table.slot, (0, 0, 0))
            size += sum(p.size for p in runs.parts)
            live_count = runs.rows if runs is self._runs[runs.table.name] else 0
            sizes[runs.table.slot] = rows + live_count, size, count + len({p.run for p in runs.parts})
        return sizes
