"""When state was last accessed, and what of it is found: update type, visibility and event time (FLIP-25).

Kernels know none of them. They look rows up, and what they write they stamp with the time of the micro-batch. A step
over state with a :class:`common.ttl.TtlConfig` that is not the default goes through :class:`Accesses`, which decides
which rows a kernel is given, and turns what it read and wrote into times of access:

* ``OnReadAndWrite``: rows that were read and not written are written as they are, accessed now. Rows that had expired
  are not revived by that.
* ``ReturnExpiredIfNotCleanedUp``: expired rows are found while they are there. Reading one removes it, unless it is
  written (as ``TtlStateFactory`` has it), and so do merges, which see times and nothing else.
* ``EventTime``: the time of access is the event time of the last row, in order of arrival, that accessed the entry, and
  an entry expires when the watermark has reached the end of its TTL. A micro-batch is processed at the watermark before
  it; before the first watermark nothing expires. What the watermark itself makes a kernel write is accessed at it.

Source: FLIP-25, Flink's ``AbstractTtlDecorator``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import NEVER, TtlConfig
from stateplan.runtime.kernel import (
    ACCESS_TIME,
    END_OF_TIME,
    NO_WATERMARK,
    Frames,
    Kernel,
    StateTable,
    Step,
    Watermark,
    fetch_state,
)
from stateplan.runtime.kernels.common.key_ids import Bools, Ints, is_retraction
from stateplan.runtime.metrics.ages import Use, count_ages
from stateplan.runtime.state.matching import Pairs, keys_of, match
from stateplan.runtime.state.misses import NOBODY, Miss, first_matches, retracted_rows
from stateplan.runtime.state.runs import WRITE_TIME

_ALWAYS = 2**61
"""Kernels stamp rows that never expire with times at or after this one."""

_FEW = 10_000

Finder = Callable[[StateTable, pl.DataFrame | None, int, int], pl.DataFrame]
"""The rows of a table for a frame of keys that are not expired at a time with a TTL: its columns, ``@t``, and ``@w``
where any of them has that."""

DueFinder = Callable[[StateTable, str, int, int, int], pl.DataFrame]
"""Likewise the rows that are due: those whose column of the given name is the first time at most."""


@dataclass(frozen=True)
class InputFields:
    """What the runtime knows of the rows of an operator's inputs.

    Attributes:
        keys: per input, the columns whose values decide the key group; the n-th of every input mean the same.
        rowtimes: per input, the column with the event time of a row; None if there is none.
    """

    keys: tuple[tuple[str, ...], ...] = ()
    rowtimes: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class TableWrite:
    """What a step writes to one table: as in :class:`Step`, and by which clock the rest of it has expired.

    Attributes:
        upserts: may have the column ``@w``, the time the kernel wrote.
        now, ttl: rows last accessed ``ttl`` ms before ``now`` or earlier have expired; none with 0.
    """

    table: StateTable
    upserts: pl.DataFrame | None
    deletes: pl.DataFrame | None
    now: int
    ttl: int


@dataclass(frozen=True)
class StepOutcome:
    """A step that was taken: what the kernel gave, what is to be written, and where the time went.

    Attributes:
        ages: how old the rows were that the kernel found; see :attr:`StepStats.ages`.
        misses: the expired rows that it needed, as far as they are remembered.
    """

    step: Step
    writes: list[TableWrite]
    ages: dict[tuple[int, Use], dict[int, int]]
    misses: list[Miss]
    lookup_ms: float
    kernel_ms: float
    settle_ms: float


def expiry_clock(config: TtlConfig, now: int, watermark: int) -> tuple[int, int]:
    """By which time and TTL (ms) rows are expired: those whose ``@t`` plus the TTL is not after that time; none with a
    TTL of 0.

    Args:
        now: the micro-batch's time, ms.
        watermark: the watermark of the operator, when the micro-batch began.
    """
    if not config.by_event_time:
        return now, config.ttl
    return (0, NEVER) if watermark == NO_WATERMARK else (watermark, config.ttl)


def take_step(
    kernel: Kernel,
    inputs: Frames,
    now: int,
    configs: Sequence[TtlConfig],
    watermark: Watermark,
    fields: InputFields,
    find: Finder,
    find_due: DueFinder,
    expired: Mapping[str, pl.DataFrame] | None = None,
) -> StepOutcome:
    """Runs a micro-batch through ``kernel``.

    Args:
        find: looks rows up.
        find_due: the rows of a table that are due.
        expired: by table, the rows that ``find`` did not find because they had expired; it adds to that. None where
            nobody wants to know.
    """
    accesses = _Accesses(inputs, now, configs, watermark, fields)

    def lookup(table: StateTable, keys: pl.DataFrame | None) -> pl.DataFrame:
        return accesses.take(table, keys, find(table, keys, *accesses.visible(table)))

    is_timed = kernel.by_event_time and watermark.now > watermark.before

    def due(table: StateTable) -> pl.DataFrame:
        event_times = [(table.due, watermark.now)] if is_timed else []
        parts = [
            _as_written(table, find_due(table, name, upto, *accesses.visible(table)))
            for name, upto in (*event_times, (table.alarm, now))
            if name is not None
        ]
        if not parts:
            return pl.DataFrame(schema={**table.schema, ACCESS_TIME: pl.Int64()})
        return parts[0] if len(parts) == 1 else pl.concat(parts).unique(list(table.identity), maintain_order=True)

    ttls = [config.ttl for config in configs]
    started_at = time.perf_counter()
    rings = is_timed or any(table.alarm is not None for table in kernel.tables)
    state = fetch_state(kernel, inputs, lookup, due if rings else None)
    read_at = time.perf_counter()
    step = kernel.advance(inputs, state, now, ttls, watermark)
    computed_at = time.perf_counter()
    table_writes = list(accesses.settled(kernel.tables, step))
    ages = accesses.ages(kernel.tables, step)
    misses = list(accesses.misses(kernel.tables, expired or {}))
    return StepOutcome(
        step,
        table_writes,
        ages,
        misses,
        1000 * (read_at - started_at),
        1000 * (computed_at - read_at),
        1000 * (time.perf_counter() - computed_at),
    )


def _as_written(table: StateTable, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows as the kernel wrote them."""
    if WRITE_TIME not in rows.columns:
        return rows
    return rows.drop(ACCESS_TIME).rename({WRITE_TIME: ACCESS_TIME}).select([*table.schema, ACCESS_TIME])


def _lasting(upserts: pl.DataFrame, config: TtlConfig) -> pl.DataFrame:
    """The rows of a table that never expire."""
    if config.by_event_time:
        upserts = upserts.with_columns(pl.col(ACCESS_TIME).alias(WRITE_TIME))
    return upserts.with_columns(pl.lit(_ALWAYS).alias(ACCESS_TIME))


class _Accesses:
    """The accesses of one step to the state of its operator."""

    def __init__(
        self,
        inputs: Frames,
        now: int,
        configs: Sequence[TtlConfig],
        watermark: Watermark,
        fields: InputFields,
    ) -> None:
        self._inputs, self._now, self._configs = inputs, now, configs
        self._watermark, self._fields = watermark, fields
        self._read: dict[str, tuple[pl.DataFrame, pl.DataFrame]] = {}
        self._times: dict[int, Ints] = {}

    def visible(self, table: StateTable) -> tuple[int, int]:
        """By which clock rows of the table are not found."""
        config = self._configs[table.slot]
        now, ttl = expiry_clock(config, self._now, self._watermark.before)
        return now, NEVER if config.finds_expired else ttl

    def take(self, table: StateTable, keys: pl.DataFrame | None, rows: pl.DataFrame) -> pl.DataFrame:
        """What the kernel is given of the rows that were looked up."""
        if keys is not None:
            self._read[table.name] = keys, rows
        return _as_written(table, rows)

    def ages(self, tables: Sequence[StateTable], step: Step) -> dict[tuple[int, Use], dict[int, int]]:
        """How long ago the rows were accessed that were looked up, per state and use, as
        :func:`runtime.metrics.ages.count_ages` has it."""
        out: dict[tuple[int, Use], dict[int, int]] = {}
        for table, deletes in zip(tables, step.deletes, strict=True):
            clock = self._clock(table)
            if table.name not in self._read or clock is None or table.access.lasting or not table.access.reads:
                continue
            counts = count_ages(clock - self._use_times(table))
            if deletes is not None and ACCESS_TIME in deletes.columns:
                retraction_counts = count_ages(clock - deletes[ACCESS_TIME].to_numpy())
                counts = {bucket: n - retraction_counts.get(bucket, 0) for bucket, n in counts.items()}
                _add(out, (table.slot, "retracted"), retraction_counts)
            _add(out, (table.slot, table.access.use), counts)
        return out

    def misses(self, tables: Sequence[StateTable], expired: Mapping[str, pl.DataFrame]) -> Iterator[Miss]:
        """What the kernel needed of the rows that had expired."""
        for table in tables:
            rows, clock = expired.get(table.name), self._clock(table)
            is_read = table.access.reads and not table.access.lasting and table.name in self._read
            if rows is None or not rows.height or clock is None or not is_read:
                continue
            miss = self._needs(table, rows, clock)
            if miss.rows.height:
                yield miss

    def _needs(self, table: StateTable, rows: pl.DataFrame, clock: int) -> Miss:
        """Which expired rows were needed, and by which rows. As for :meth:`ages`, a row does not need those that only
        share their key with it."""
        keys, live_rows = self._read[table.name]
        is_retracted = np.zeros(rows.height, bool)
        inputs, places = np.full(rows.height, NOBODY, np.int64), np.full(rows.height, NOBODY, np.int64)
        own = self._own(table)
        for number in (*(n for n in range(len(self._inputs)) if n != own), own):
            frame = self._inputs[number]
            if number != own:
                by = first_matches(rows, frame, self._key_columns(table, number))
            elif table.access.entries:
                by = retracted_rows(rows, frame, live_rows, self._entry_columns(table, own))
                is_retracted = by >= 0
            else:
                by = first_matches(rows, frame, self._entry_columns(table, own, table.lookup))
            is_first = (inputs == NOBODY) & (by >= 0)
            inputs[is_first], places[is_first] = number, by[is_first]
        is_needed = inputs != NOBODY
        if not table.access.entries and not is_needed.all():
            is_needed |= first_matches(rows, keys, [(name, name) for name in table.lookup]) >= 0
        at = np.flatnonzero(is_needed)
        uses = np.where(is_retracted & (inputs == own), "retracted", table.access.use)
        ttl = self._configs[table.slot].ttl
        return Miss(table, rows[at], uses[at], inputs[at], places[at], is_retracted[at], clock, ttl)

    def _clock(self, table: StateTable) -> int | None:
        """The time that ages are counted from, ms; None before the first watermark."""
        if not self._configs[table.slot].by_event_time:
            return self._now
        return None if self._watermark.before == NO_WATERMARK else self._watermark.before

    def _use_times(self, table: StateTable) -> Ints:
        """Times of access of the rows of a table that were looked up, without those that only share their key with a
        row of their own input."""
        keys, rows = self._read[table.name]
        own, times = self._inputs[self._own(table)], rows[ACCESS_TIME].to_numpy()
        if not table.access.entries or not own.height or not rows.height:
            return times
        if is_retraction(own) is not None:
            return times[self._reads(table, self._configs[table.slot], rows, keys)[0]]
        if not table.access.by_others:
            return times
        number = self._own(table)
        others = [(n, frame) for n, frame in enumerate(self._inputs) if n != number and frame.height]
        match_times = [_times_of_met(rows, frame, self._key_columns(table, n)) for n, frame in others]
        return np.concatenate([times[:0], *match_times])

    def settled(self, tables: Sequence[StateTable], step: Step) -> Iterator[TableWrite]:
        """What is to be written after a step of the kernel."""
        for table, upserts, deletes in zip(tables, step.upserts, step.deletes, strict=True):
            config = self._configs[table.slot]
            now, ttl = expiry_clock(config, self._now, self._watermark.before)
            if upserts is not None and upserts.height:
                if table.access.lasting:
                    upserts = _lasting(upserts, config)
                elif config.by_event_time:
                    upserts = self._with_access_times(table, config, upserts)
            if config.reads_refresh or config.finds_expired:
                upserts, deletes = self._after_reads(table, config, upserts, deletes, now, ttl)
            yield TableWrite(table, upserts, deletes, now, ttl)

    def _with_access_times(self, table: StateTable, config: TtlConfig, upserts: pl.DataFrame) -> pl.DataFrame:
        """The rows that the kernel wrote, accessed at the event time of the rows that wrote them."""
        access, own = table.access, self._own(table)
        count = upserts.height
        times, has_time = np.zeros(count, np.int64), np.zeros(count, bool)
        others = config.reads_refresh or access.by_others
        mine = self._match_rows(upserts, own, self._entry_columns(table, own), access.once and not config.reads_refresh)
        by_rows = (mine >= 0) & (self._time(own) is not None)
        for number in range(len(self._inputs)):
            if number == own:
                if (of := self._time(own)) is not None:
                    times[by_rows], has_time = of[mine[by_rows]], has_time | by_rows
                continue
            theirs = self._match_rows(upserts, number, self._key_columns(table, number))
            at = self._time(number)
            is_match = (theirs >= 0) & (others | (mine < 0))
            if at is not None and is_match.any():
                times[is_match], has_time = at[theirs[is_match]], has_time | is_match
        if not has_time.all():
            rest = ~has_time
            times[rest] = self._without_row(table, upserts)[rest]
        write_times = upserts[ACCESS_TIME].to_numpy()
        return upserts.with_columns(
            pl.Series(ACCESS_TIME, np.where(write_times >= _ALWAYS, write_times, times)),
            pl.Series(WRITE_TIME, write_times),
        )

    def _without_row(self, table: StateTable, upserts: pl.DataFrame) -> Ints:
        """Times of rows that no row of the micro-batch with a time accesses: those that they had, else the time to
        which the watermark has advanced."""
        mark = self._watermark
        watermark = next((w for w in (mark.now, mark.before) if w not in (NO_WATERMARK, END_OF_TIME)), self._now)
        out = np.full(upserts.height, watermark, np.int64)
        if table.name in self._read and mark.now == mark.before:
            before = self._read[table.name][1]
            place = match(upserts, before, [(name, name) for name in table.identity])
            out = np.where(place >= 0, np.append(before[ACCESS_TIME].to_numpy(), 0)[place], out)
        return out

    def _after_reads(
        self,
        table: StateTable,
        config: TtlConfig,
        upserts: pl.DataFrame | None,
        deletes: pl.DataFrame | None,
        now: int,
        ttl: int,
    ) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
        """What the kernel writes, with what becomes of rows that it read and did not write."""
        if table.name not in self._read or not table.access.reads:
            return upserts, deletes
        keys, rows = self._read[table.name]
        left = np.ones(rows.height, bool)
        for changes in (upserts, deletes):
            if changes is not None and changes.height:
                left &= match(rows, changes, [(name, name) for name in table.identity]) < 0
        rows = rows[np.flatnonzero(left)]
        read, times = self._reads(table, config, rows, keys)
        access_times = rows[ACCESS_TIME].to_numpy()
        alive = np.ones(rows.height, bool) if ttl == NEVER else access_times > now - ttl
        if config.finds_expired:
            identity = list(table.identity) or [ACCESS_TIME]
            expired_keys = rows[identity][np.flatnonzero(read & ~alive)]
            if expired_keys.height:
                deletes = expired_keys if deletes is None else pl.concat([deletes[identity], expired_keys])
        renewals = np.flatnonzero(read & alive & (times != access_times) & (access_times < _ALWAYS))
        if config.reads_refresh and len(renewals):
            if WRITE_TIME not in rows.columns:
                rows = rows.with_columns(pl.col(ACCESS_TIME).alias(WRITE_TIME))
            renewed_rows = rows[renewals].with_columns(pl.Series(ACCESS_TIME, times[renewals]))
            if upserts is not None and upserts.height:
                if WRITE_TIME not in upserts.columns:
                    upserts = upserts.with_columns(pl.col(ACCESS_TIME).alias(WRITE_TIME))
                renewed_rows = pl.concat([upserts, renewed_rows[upserts.columns]])
            upserts = renewed_rows
        return upserts, deletes

    def _reads(
        self, table: StateTable, config: TtlConfig, rows: pl.DataFrame, keys: pl.DataFrame
    ) -> tuple[Bools, Ints]:
        """Which rows of a table were read, and when they were last accessed then."""
        own = self._own(table)
        was = rows[ACCESS_TIME].to_numpy()
        read = match(rows, keys, [(name, name) for name in table.lookup]) >= 0
        if not table.access.entries and not config.by_event_time:
            return read, np.where(read, np.maximum(was, self._now), was)
        has_match, times = np.zeros(rows.height, bool), was.copy()
        for number in range(len(self._inputs)):
            if number != own:
                pairs = self._key_columns(table, number)
            elif table.access.entries:
                pairs = self._entry_columns(table, own)
            else:
                pairs = self._entry_columns(table, own, table.lookup)
            by = self._match_rows(rows, number, pairs)
            has_match |= by >= 0
            at = self._time(number)
            if config.by_event_time and at is not None:
                times = np.where(by >= 0, np.append(at, 0)[by], times)
        if table.access.entries:
            read = has_match
        if not config.by_event_time:
            times = np.where(read, np.maximum(was, self._now), was)
        return read, times

    def _own(self, table: StateTable) -> int:
        """The input whose rows a table keeps."""
        if table.access.input is not None:
            return table.access.input
        return table.slot if len(self._inputs) > 1 else 0

    def _entry_columns(self, table: StateTable, own: int, names: Sequence[str] | None = None) -> list[tuple[str, str]]:
        """Columns of a table with those of its own input that an entry agrees in with the rows that access it."""
        access, input_columns = table.access, self._inputs[own].columns
        if names is None:
            names = access.entry or table.identity
        pairs = [(n, access.origin.get(n, n)) for n in names]
        return [(name, origin) for name, origin in pairs if origin in input_columns]

    def _key_columns(self, table: StateTable, number: int) -> list[tuple[str, str]]:
        """The same for a further input: what they have in common is the key."""
        keys = self._fields.keys
        if not keys:
            return []
        return [(mine, its) for mine, its in zip(keys[self._own(table)], keys[number], strict=True)]

    def _match_rows(self, rows: pl.DataFrame, number: int, pairs: Pairs, first: bool = False) -> Ints:
        """Per row of state, the last (or first) row of an input that agrees with it; -1 for none."""
        return match(rows, self._inputs[number], pairs, first)

    def _time(self, number: int) -> Ints | None:
        """The event times of the rows of an input, ms since 1970; None if they have none."""
        name = self._fields.rowtimes[number] if self._fields.rowtimes else None
        if name is None or not self._inputs[number].height:
            return None
        if number not in self._times:
            series = self._inputs[number][name].cast(pl.Datetime("ms")).to_physical()
            self._times[number] = series.fill_null(max(self._watermark.before, 0)).to_numpy()
        return self._times[number]


def _times_of_met(rows: pl.DataFrame, others: pl.DataFrame, pairs: Pairs) -> Ints:
    """Times of access of the rows that agree with one of ``others`` in all ``pairs`` of columns."""
    if len(pairs) == 1 and rows.height < _FEW:  # a join takes a millisecond to begin
        ((mine, theirs),) = pairs
        other_values = others[theirs].cast(rows[mine].dtype).implode()
        is_match: Bools = rows[mine].is_in(other_values).fill_null(False).to_numpy()
        times: Ints = rows[ACCESS_TIME].to_numpy()
        return times[is_match]
    if pairs:
        mine_keys, other_keys = keys_of(rows, others, pairs)
        rows = mine_keys.with_columns(rows[ACCESS_TIME]).join(other_keys, on=mine_keys.columns, how="semi")
    return rows[ACCESS_TIME].to_numpy()


def _add(into: dict[tuple[int, Use], dict[int, int]], key: tuple[int, Use], counts: dict[int, int]) -> None:
    of = into.setdefault(key, {})
    for bucket, n in counts.items():
        if n:
            of[bucket] = of.get(bucket, 0) + n
