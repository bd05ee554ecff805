"""MATCH_RECOGNIZE: patterns in the rows of a partition.

Source of the semantics: Flink's ``CepOperator``, for which rows of processing time with further columns in ORDER BY are
sorted with those of the same millisecond; here with those of the same micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from stateplan.common.changelog import column
from stateplan.common.lazy_dataclass import dataclass
from stateplan.execnodes.ranking import SortSpec
from stateplan.runtime.kernel import (
    ACCESS_TIME,
    EventTimeKernel,
    Frames,
    KeyedKernel,
    StateColumn,
    StateTable,
    Step,
    Watermark,
    left_out,
    own_columns,
)
from stateplan.runtime.kernels.common.automaton import START, Automaton, Matcher, Partial
from stateplan.runtime.kernels.common.key_ids import (
    Bools,
    Ints,
    ids_of,
    insertions,
    positions,
    ranks,
    with_stamps,
)
from stateplan.runtime.kernels.common.match_expressions import Condition, EvaluatedCondition, Measures

_STATE = "matchState"
_NUMBER, _DUE, _AT, _EVENT = "@number", "@due", "@time", "@event"
_NEXT, _BUFFERED = "@next", "@waiting"
_PARTIALS, _COMPLETE = "partials", "complete"
_CODE = "@code"
_LAST_TIME = 253_402_300_799_999
"""The end of the year 9999, ms: the time of a match that only the end of the input completes."""


@dataclass(frozen=True)
class MatchKernel(KeyedKernel, EventTimeKernel):
    """Emits a row for each match: the key, then the measures.

    By event time, rows wait until the watermark has reached their time, and are then taken in the order of time and
    further columns; a row at or before the watermark is late and dropped. By processing time, rows are taken as they
    come, or in the order of further columns within a micro-batch.

    State: the rows that wait, each due at its time; per key the matches that have begun and those that wait for earlier
    ones, due when WITHIN is over for the first of them; and the rows of these matches. Rows without which nothing can
    continue may be missing, as they would be once they had a TTL: matches that need them are dropped.

    Attributes:
        automaton: the pattern.
        conditions: by variable; None for one that any row is.
        measures: what is emitted of a match.
        order: the time attribute, and what comes after it.
        event_time: else the clock of the micro-batch is the time of its rows.
    """

    automaton: Automaton
    conditions: tuple[Condition | None, ...]
    measures: Measures
    order: SortSpec
    event_time: bool

    @property
    def by_clock(self) -> bool:
        return not self.event_time

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        matches = dict.fromkeys((_PARTIALS, _COMPLETE), StateColumn(pl.List(pl.Int64()), ""))
        buffer = {**self._columns, **own_columns({_NUMBER: pl.Int64(), _DUE: pl.Int64()})}
        numbers = own_columns(dict.fromkeys((_NEXT, _BUFFERED, _EVENT, _DUE), pl.Int64()))
        row_types = {**self._columns, **own_columns({_EVENT: pl.Int64(), _AT: pl.Int64()})}
        keys = {name: self._columns[name] for name in self._keys}
        waits = (*self._keys, _NUMBER)
        return (
            StateTable(f"{_STATE}.waiting", 0, waits, waits, buffer, due=_DUE),
            StateTable(f"{_STATE}.matches", 0, self._keys, self._keys, {**keys, **numbers, **matches}, due=_DUE),
            StateTable(f"{_STATE}.rows", 0, self._keys, (*self._keys, _EVENT), row_types),
        )

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        lookup_keys = self._lookup_keys([inputs[0]])
        return [None, lookup_keys, lookup_keys]

    def first_keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        """Nothing but what is due."""
        return [None] * len(self.tables)

    def more_keys(self, inputs: Frames, state: Frames) -> list[pl.DataFrame | None]:
        """The keys of the rows that arrived, and of all that is due."""
        lookup_keys = self._lookup_keys([inputs[0], state[0], state[1]])
        return [None, lookup_keys, lookup_keys]

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        """One micro-batch.

        Raises:
            RunError: RUN061, when the input is not insert-only; RUN066, for a match that AFTER MATCH SKIP cannot leave.
            DataError: DATA301, where Flink would fail the job on a row.
        """
        frame, (buffer, key_state, stored_rows) = insertions(inputs[0], "Match"), state
        ids, (input_codes, waiting_codes, theirs, old) = ids_of((frame, buffer, key_state, stored_rows), self._keys)
        place = positions(theirs, ids.count)
        before = _Before(key_state, place)
        following, events = before.numbers(_NEXT), before.numbers(_EVENT)
        times = self._times(frame, now)
        punctual = times > watermark.before if self.event_time else np.ones(frame.height, bool)
        in_time = np.flatnonzero(punctual)
        owners, times = input_codes[in_time], times[in_time]
        fresh = frame[in_time].with_columns(
            pl.Series(_NUMBER, following[owners] + ranks(owners), dtype=pl.Int64),
            pl.Series(_DUE, times, dtype=pl.Int64),
        )
        following += np.bincount(owners, minlength=ids.count)
        clock = watermark.now if self.event_time else now
        advances = not self.event_time or watermark.now > watermark.before
        out_now = (times <= clock) & advances
        pending = before.numbers(_BUFFERED) + np.bincount(owners[~out_now], minlength=ids.count)
        pending -= np.bincount(waiting_codes, minlength=ids.count)
        due_rows = self._released_rows(buffer, waiting_codes, fresh, owners, out_now)
        rows, fresh_rows = self._sequence(stored_rows, old, due_rows, place, events)
        matching = self._run_automaton(rows, fresh_rows, before, events, ids.count, clock if advances else None, now)
        is_touched = np.bincount(np.concatenate([owners, waiting_codes]), minlength=ids.count) > 0
        idle = matching.idle & (pending == 0)
        write = np.flatnonzero((is_touched | matching.is_changed) & ~idle)
        removed_keys = np.flatnonzero(idle & (place >= 0))
        key_upserts = self._key_frame((frame, buffer, key_state, stored_rows), ids.first)[write].with_columns(
            pl.Series(_NEXT, following[write]),
            pl.Series(_BUFFERED, pending[write]),
            pl.Series(_EVENT, matching.events[write]),
            pl.Series(_PARTIALS, [matching.partials[c] for c in write.tolist()], dtype=pl.List(pl.Int64())),
            pl.Series(_COMPLETE, [matching.complete[c] for c in write.tolist()], dtype=pl.List(pl.Int64())),
            pl.Series(_DUE, [matching.due[c] for c in write.tolist()], dtype=pl.Int64()),
        )
        names, stays = list(self.tables[2].schema), matching.stays
        new = rows.filter(pl.Series(stays & fresh_rows))[names]
        row_deletes = self._rows_to_delete(rows, stays, fresh_rows, stored_rows, old, place)
        rest = fresh.filter(pl.Series(~out_now))
        return Step(
            self._output(rows, matching, now),
            [
                with_stamps(rest, now) if rest.height else None,
                with_stamps(key_upserts[list(self.tables[1].schema)], now) if len(write) else None,
                with_stamps(new, now) if new.height else None,
            ],
            [
                buffer[[*self._keys, _NUMBER]] if buffer.height else None,
                key_state[list(self._keys) or [ACCESS_TIME]][place[removed_keys]] if len(removed_keys) else None,
                row_deletes if row_deletes.height else None,
            ],
            late_rows=(left_out(frame, punctual),),
        )

    # ---- rows --------------------------------------------------------------------------------------------------

    def _times(self, frame: pl.DataFrame, now: int) -> Ints:
        if not self.event_time:
            return np.full(frame.height, now)
        time = frame[column(self.order.fields[0].index)]
        return time.cast(pl.Datetime("ms")).to_physical().to_numpy()

    def _released_rows(
        self, buffer: pl.DataFrame, waiting_codes: Ints, fresh: pl.DataFrame, owners: Ints, out_now: Bools
    ) -> pl.DataFrame:
        """The rows that are due, by key and in the order in which they are taken."""
        names = [*self._fields, _NUMBER, _DUE]
        mine = fresh[names].filter(pl.Series(out_now))
        codes = np.concatenate([waiting_codes, owners[out_now]])
        rows = pl.concat([buffer[names], mine]).with_columns(pl.Series(_CODE, codes, dtype=pl.Int64))
        fields = self.order.fields[1:]
        return rows.sort(
            [_CODE, _DUE, *(column(f.index) for f in fields), _NUMBER],
            descending=[False, False, *(not f.is_ascending for f in fields), False],
            nulls_last=[False, False, *(f.null_is_last for f in fields), False],
        ).rename({_DUE: _AT})

    def _sequence(
        self, stored_rows: pl.DataFrame, old: Ints, due_rows: pl.DataFrame, place: Ints, events: Ints
    ) -> tuple[pl.DataFrame, Bools]:
        """The rows of matches that have begun and those released, by key in the order of their numbers; and which of
        them are released."""
        names = [*self._fields, _EVENT, _AT, _CODE]
        codes = due_rows[_CODE].to_numpy()
        numbers = events[codes] + ranks(codes)
        new = due_rows.with_columns(pl.Series(_EVENT, numbers, dtype=pl.Int64))[names]
        alive = place[old] >= 0
        old_rows = stored_rows.with_columns(pl.Series(_CODE, old, dtype=pl.Int64))[names].filter(pl.Series(alive))
        rows = pl.concat([old_rows, new])
        is_new = np.arange(rows.height) >= old_rows.height
        order = np.lexsort((rows[_EVENT].to_numpy(), rows[_CODE].to_numpy()))
        return rows[order], is_new[order]

    def _rows_to_delete(
        self, rows: pl.DataFrame, stays: Bools, fresh_rows: Bools, stored_rows: pl.DataFrame, old: Ints, place: Ints
    ) -> pl.DataFrame:
        """The rows of state that are no longer needed."""
        names = [*self._keys, _EVENT]
        without_key = stored_rows[names].filter(pl.Series(place[old] < 0))
        return pl.concat([rows[names].filter(pl.Series(~stays & ~fresh_rows)), without_key])

    # ---- matches -----------------------------------------------------------------------------------------------

    def _run_automaton(
        self,
        rows: pl.DataFrame,
        fresh_rows: Bools,
        before: _Before,
        events: Ints,
        count: int,
        clock: int | None,
        now: int,
    ) -> _Matching:
        """Runs the automaton over the rows.

        Args:
            rows, fresh_rows: as :meth:`_sequence` returns them.
            before: what was known of the keys.
            events: per key the number of its next row.
            count: number of keys.
            clock: how far time has advanced, ms; None if it has not moved.
            now: the time of the micro-batch, ms.
        """
        conditions = [None if c is None else c.over(rows, now) for c in self.conditions]
        numbers, times = rows[_EVENT].to_numpy(), rows[_AT].to_numpy()
        codes = rows[_CODE].to_numpy()
        begins, ends = (np.searchsorted(codes, np.arange(count), side) for side in ("left", "right"))
        first_new = ends - np.bincount(codes[fresh_rows], minlength=count)
        matching = _Matching(before, rows.height, events, begins, ends)
        openers = self._openers(conditions, rows.height)
        expires = before.due(clock) if clock is not None else np.zeros(count, bool)
        for code in np.flatnonzero((first_new < ends) | expires).tolist():
            begin, new, end = int(begins[code]), int(first_new[code]), int(ends[code])
            run = _Run(self.automaton, conditions, numbers, times, begin, end)
            variables = len(self.automaton.variables)
            matcher = run.begun(*(_read(of[code], variables) for of in (matching.partials, matching.complete)))
            matching.matches += [(code, *m) for m in run.over(matcher, new, openers)]
            if clock is not None:
                matching.matches += [(code, *m) for m in run.expired(matcher, clock)]
            matching.update(code, matcher, run, self.automaton.within, end - new)
        return matching

    def _openers(self, conditions: Sequence[EvaluatedCondition | None], height: int) -> Bools | None:
        """The rows with which a match may begin, if that is up to each row alone; else None."""
        may = np.zeros(height, bool)
        for variable in self.automaton.openers:
            condition = conditions[variable]
            flags = None if condition is None else condition.flags
            if flags is None:
                return None
            may |= np.asarray(flags, bool)
        return may

    def _output(self, rows: pl.DataFrame, matching: _Matching, now: int) -> pl.DataFrame:
        """One row for each match, in the order of their time."""
        width = len(self.key_fields) + len(self.measures.rests)
        matches = sorted(matching.matches, key=lambda m: m[3])
        if not matches:
            schema = [*(self._fields[k] for k in self._keys), *(r.type.polars() for r in self.measures.rests)]
            return pl.DataFrame(schema={column(i): schema[i] for i in range(width)})
        begins = np.array([m[1] for m in matches], np.int64)
        counts = np.array([m[2] for m in matches], np.int64)
        times = np.minimum(np.array([m[3] for m in matches], np.int64), _LAST_TIME)
        keys = [rows[k][begins] for k in self._keys]
        values = self.measures.of(self.measures.columns(rows, now), begins, counts, times, now)
        return pl.DataFrame([s.alias(column(i)) for i, s in enumerate((*keys, *values))])


_FullMatch = tuple[int, int, tuple[int, ...], int]
"""A match: its key, the position of its first row, how many rows each variable has, its time."""


class _Before:
    """What was known of keys by number.

    Args:
        key_state: the rows of the table.
        place: per key where it is among them; -1 for none.
    """

    def __init__(self, key_state: pl.DataFrame, place: Ints) -> None:
        self._key_state, self._place = key_state, place
        self._present = place >= 0

    def numbers(self, name: str) -> Ints:
        out = np.zeros(len(self._place), np.int64)
        out[self._present] = self._key_state[name].to_numpy()[self._place[self._present]]
        return out

    def due(self, clock: int) -> Bools:
        """Which keys have a match that is too old."""
        due = self._key_state[_DUE].fill_null(START).to_numpy()
        out = np.zeros(len(self._place), bool)
        out[self._present] = due[self._place[self._present]] <= clock
        return out

    def values(self, name: str) -> list[Any]:
        """A column per key, None if there is none."""
        cells = self._key_state[name].to_list()
        return [cells[p] if p >= 0 else None for p in self._place.tolist()]

    def lists(self, name: str) -> list[list[int]]:
        """A column of lists per key."""
        return [v or [] for v in self.values(name)]


def _read(numbers: Sequence[int], variables: int) -> list[Partial]:
    width = variables + 2
    parts = [numbers[i : i + width] for i in range(0, len(numbers), width)]
    return [Partial(p[0], p[1], tuple(p[2:])) for p in parts]


def _partials_json(partials: Sequence[Partial]) -> list[int]:
    return [number for p in partials for number in (p.first, p.state, *p.counts)]


class _Run:
    """The rows of one key, at the positions ``begin`` to ``end``."""

    def __init__(
        self,
        automaton: Automaton,
        conditions: Sequence[EvaluatedCondition | None],
        numbers: Ints,
        times: Ints,
        begin: int,
        end: int,
    ) -> None:
        self._automaton, self._conditions = automaton, conditions
        self._begin, self._end, self._times = begin, end, times
        self._shift = begin - int(numbers[begin]) if begin < end else 0

    def position(self, number: int) -> int:
        """Where the row with a number is."""
        return number + self._shift

    def begun(self, partials: Sequence[Partial], complete: Sequence[Partial]) -> Matcher:
        """The matches that continue: those whose rows are there."""

        def is_whole(partial: Partial) -> bool:
            return partial.first == START or self._begin <= self.position(partial.first) < self._end

        left = [p for p in partials if is_whole(p)] or [self._automaton.start]
        return Matcher(self._automaton, left, [p for p in complete if is_whole(p)])

    def over(self, matcher: Matcher, new: int, openers: Bools | None) -> list[tuple[int, tuple[int, ...], int]]:
        """The matches that the rows from the position ``new`` on complete."""
        out: list[tuple[int, tuple[int, ...], int]] = []
        row, last = new, None
        while row < self._end:
            if openers is not None and matcher.idle:
                ahead = openers[row : self._end]
                skip = int(ahead.argmax())
                if not ahead[skip]:
                    break
                row += skip
            time = int(self._times[row])
            if self._automaton.within and time != last:
                out += self.expired(matcher, time)
                last = time
            matches = matcher.process(row - self._shift, self._holds(row))
            out += [(self.position(m.first), m.counts, time) for m in matches]
            row += 1
        return out

    def _holds(self, row: int) -> Callable[[int, int, tuple[int, ...]], bool]:
        def holds(variable: int, first: int, counts: tuple[int, ...]) -> bool:
            condition = self._conditions[variable]
            if condition is None:
                return True
            return condition.holds(row, row if first == START else self.position(first), counts)

        return holds

    def expired(self, matcher: Matcher, time: int) -> list[tuple[int, tuple[int, ...], int]]:
        """The matches that are emitted once those are dropped that are too old at a time."""
        within = self._automaton.within
        if not within:
            return []
        matches = matcher.expire(lambda first: time - int(self._times[self.position(first)]) >= within)
        return [(self.position(m.first), m.counts, time) for m in matches]

    def first_time(self, first: int) -> int:
        return int(self._times[self.position(first)])


class _Matching:
    """What a micro-batch leaves of the matches of each key.

    Attributes:
        matches: the matches that are emitted.
        idle: keys without a match that has begun.
        is_changed: keys whose matches have changed.
        stays: which rows are needed further on.
    """

    def __init__(self, before: _Before, height: int, events: Ints, begins: Ints, ends: Ints) -> None:
        self.matches: list[_FullMatch] = []
        self.idle = begins == ends
        self.is_changed = np.zeros(len(begins), bool)
        self.stays = np.ones(height, bool)
        self.events = events.copy()
        self.partials = before.lists(_PARTIALS)
        self.complete = before.lists(_COMPLETE)
        self.due: list[int | None] = before.values(_DUE)
        self._begins, self._ends = begins, ends

    def update(self, code: int, matcher: Matcher, run: _Run, within: int, new_events: int) -> None:
        """Takes over the matches of a key after ``new_events`` rows."""
        first_events = [p.first for p in matcher.partials if p.first != START]
        needed_events = [*first_events, *(c.first for c in matcher.complete.items)]
        self.is_changed[code], self.idle[code] = True, not needed_events
        self.events[code] += new_events
        begin, end = int(self._begins[code]), int(self._ends[code])
        self.stays[begin : run.position(min(needed_events)) if needed_events else end] = False
        self.partials[code] = _partials_json(matcher.partials) if needed_events else []
        self.complete[code] = _partials_json(matcher.complete.items)
        self.due[code] = min(map(run.first_time, first_events)) + within if within and first_events else None
