"""Process table functions with set semantics: rows of a partition one after another, with its state and its timers.

Source of the semantics: Flink's ``ProcessSetTableOperator`` and ``ProcessTableRunner``, and what Flink 2.3 was seen to
do. A micro-batch stands for what Flink does between two watermarks: first the rows, at the watermark before; then the
timers that the watermark after it makes due, those without a name first, each in the order of their time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from stateplan.common.changelog import column, columns
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.common.values.codecs import codec
from stateplan.functions.process import DeclaredState, StateRow
from stateplan.functions.values import column_of
from stateplan.runtime.kernel import (
    ACCESS_TIME,
    NO_WATERMARK,
    Access,
    Frames,
    Kernel,
    StateColumn,
    StateTable,
    Step,
    Watermark,
    field_columns,
    left_out,
    own_columns,
)
from stateplan.runtime.kernels.common.key_ids import (
    Ints,
    frame_of,
    ids_of,
    positions,
    ranks,
    stable_order,
    with_stamps,
)
from stateplan.runtime.transforms.process_calls import Emission, ProcessCall, Run

_NAME, _AT, _DUE = "@timer", "@unnamed", "@due"
_NUMBER, _LAST, _COUNT = "@arrival", "@last", "@waiting"
_NEVER_EXPIRES = 2**62
"""The time of access of what has no TTL."""


@dataclass(frozen=True)
class ProcessTableKernel(Kernel):
    """Calls a function with the state of each partition that rows come for.

    State: per entry a table with the value of each partition; see :class:`_Values`. With timers, a table of them. Of
    each input with ORDER BY, the rows that wait for the watermark, and per partition how many came so far.

    A value is written when a call leaves another one than it found, which also starts its TTL anew, and is removed when
    it is as at the beginning: a ROW of NULLs, or nothing in an ARRAY or MAP. Timers and waiting rows have no TTL.

    Attributes:
        call: the function, and what the call passes to it.
    """

    call: ProcessCall

    # ---- state -------------------------------------------------------------------------------------------------

    @property
    def _states(self) -> tuple[DeclaredState, ...]:
        return self.call.process.states

    @cached_property
    def key(self) -> dict[str, StateColumn]:
        """The columns of the partition: those of the first table."""
        first = self.call.tables[0]
        fields = field_columns(first.row)
        return {column(k): fields[column(k)] for k in first.partition}

    @cached_property
    def _values(self) -> tuple[_Values, ...]:
        return tuple(_Values(state, self.call) for state in self._states)

    @cached_property
    def _ordered_inputs(self) -> tuple[int, ...]:
        """The inputs with ORDER BY."""
        return tuple(i for i, table in enumerate(self.call.tables) if table.order)

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        key = tuple(self.key)
        access = Access(by_others=len(self.call.tables) > 1, input=0)
        out = [
            StateTable(values.declaration.name, slot, key, key, {**self.key, **values.columns}, access=access)
            for slot, values in enumerate(self._values)
        ]
        lasting = Access(lasting=True, input=0)
        prefix = self._states[0].name if self._states else "processState"
        if self.call.process.timers:
            timer = own_columns({_NAME: pl.String(), _AT: pl.Int64(), _DUE: pl.Int64()})
            name = f"{prefix}.timers"
            out.append(StateTable(name, 0, key, (*key, _NAME, _AT), {**self.key, **timer}, due=_DUE, access=lasting))
        for i in self._ordered_inputs:
            lasting = Access(lasting=True, input=i)
            fields = field_columns(self.call.tables[i].row, i)
            buffer = own_columns({_NUMBER: pl.Int64(), _DUE: pl.Int64()})
            mine = tuple(columns(self.call.tables[i].partition))
            out += [
                StateTable(
                    f"{prefix}.waiting{i}", 0, mine, (*mine, _NUMBER), {**fields, **buffer}, due=_DUE, access=lasting
                ),
                StateTable(
                    f"{prefix}.arrived{i}",
                    0,
                    mine,
                    mine,
                    {**{m: fields[m] for m in mine}, **own_columns({_LAST: pl.Int64(), _COUNT: pl.Int64()})},
                    access=lasting,
                ),
            ]
        return tuple(out)

    @property
    def _timers(self) -> int:
        """The number of the table of timers, if there is one."""
        return len(self._states)

    def _buffer_of(self, place: int) -> int:
        """The number of the table of rows that wait, of the input ``self._ordered_inputs[place]``."""
        return len(self._states) + self.call.process.timers + 2 * place

    def keys_of(self, frame: pl.DataFrame, of: int) -> pl.DataFrame:
        """The partitions of rows of an input, named as in the state."""
        pairs = zip(columns(self.call.tables[of].partition), self.key, strict=True)
        return frame_of([frame[mine].alias(name) for mine, name in pairs], frame.height)

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        """What is requested in the first step: nothing, which brings what is due."""
        return [None] * len(self.tables)

    def more_keys(self, inputs: Frames, state: Frames) -> list[pl.DataFrame | None]:
        """All that is kept of the partitions that have rows, or something that is due."""
        out: list[pl.DataFrame | None] = [None] * len(self.tables)
        key_frames = [self.keys_of(f, i) for i, f in enumerate(inputs) if f.height and not self.call.tables[i].order]
        for place, i in enumerate(self._ordered_inputs):
            buffer = state[self._buffer_of(place)]
            both = [f for f in (self.keys_of(inputs[i], i), self.keys_of(buffer, i)) if f.height]
            key_frames += both
            if both:
                partition_keys = pl.concat(both, how="vertical_relaxed") if self.key else both[0]
                own = dict(zip(self.key, columns(self.call.tables[i].partition), strict=True))
                out[self._buffer_of(place) + 1] = _unique_keys(partition_keys.rename(own))
        if self.call.process.timers and state[self._timers].height:
            key_frames.append(self.keys_of(state[self._timers], 0))
        if key_frames:
            lookup_keys = _unique_keys(pl.concat(key_frames, how="vertical_relaxed") if self.key else key_frames[0])
            out[: len(self._states) + self.call.process.timers] = [lookup_keys] * (
                len(self._states) + self.call.process.timers
            )
        return out

    # ---- micro-batches -----------------------------------------------------------------------------------------

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        return self.advance(inputs, state, now, ttl, Watermark())

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        upserts: list[pl.DataFrame | None] = [None] * len(self.tables)
        deletes: list[pl.DataFrame | None] = [None] * len(self.tables)
        rows = list(inputs)
        late = [frame[:0] for frame in inputs]
        new_watermark = watermark.now if watermark.now > watermark.before else NO_WATERMARK
        for place, i in enumerate(self._ordered_inputs):
            at = self._buffer_of(place)
            sorted_out = self._sorted_out(i, inputs[i], state[at], state[at + 1], watermark.before, new_watermark)
            rows[i] = sorted_out.due
            late[i] = sorted_out.late
            for n, (up, deleted_rows) in enumerate((sorted_out.buffers, sorted_out.arrived)):
                upserts[at + n] = None if up is None else with_stamps(up, _NEVER_EXPIRES)
                deletes[at + n] = deleted_rows
        partitions = _Partitions(self, rows, state)
        run = Run(self.call, rows, now)
        values = [v.load(state[n], partitions.states[n]) for n, v in enumerate(self._values)]
        timers = _Timers(state[self._timers], partitions.timers) if self.call.process.timers else None
        emission = Emission(self.call)
        session = _Session(self.call, values, timers)
        run.context.session = session
        old_watermark = None if watermark.before == NO_WATERMARK else watermark.before
        for number in partitions.in_order:
            session.partition = number
            run.context.watermark = old_watermark
            for i, members in partitions.of(number):
                for source, time, arguments, on_times in run.calls(i, members):
                    run.context.millis, run.context.timer = time, None
                    arguments_of_call = [*session.values(), *arguments]
                    emission.add(run.call_rows("eval", arguments_of_call, on_times), number, time, (i, source))
                    session.settle()
            if timers is None or new_watermark == NO_WATERMARK:
                continue
            run.context.watermark = new_watermark
            for name, due in timers.due(number, new_watermark):
                run.context.millis, run.context.timer = due, name
                emission.add(run.call_rows("on_timer", session.values(), []), number, due, None)
                session.settle()
        for n, state_values in enumerate(values):
            upserts[n], deletes[n] = state_values.changes(partitions.keys, now)
        if timers is not None:
            upserts[self._timers], deletes[self._timers] = timers.changes(partitions.keys)
        return Step(emission.frame(partitions.keys, rows), upserts, deletes, late_rows=late)

    def _sorted_out(
        self, of: int, frame: pl.DataFrame, buffer: pl.DataFrame, arrivals: pl.DataFrame, before: int, mark: int
    ) -> _SortedOut:
        """What becomes of the rows of an input with ORDER BY.

        Args:
            buffer: those that are due.
            arrivals: per partition how many came so far, and how many of them wait.
            mark: the watermark that makes rows due.
        """
        table = self.call.tables[of]
        key = columns(table.partition)
        names = columns(len(table.row.fields))
        frame = frame.select([*names, *(c for c in frame.columns if c not in names)])
        times = frame[column(table.order[0][0])].cast(pl.Datetime("ms")).to_physical()
        punctual = (times > before).to_numpy()
        on_time = np.flatnonzero(punctual)
        late = left_out(frame, punctual)
        fresh, due_at = frame[on_time], times.gather(on_time)
        ids, (state_codes, mine, waiting_codes) = ids_of(
            [frame_of([f[k] for k in key], f.height) for f in (arrivals, fresh, buffer)], key
        )
        place = positions(state_codes, ids.count)
        last = _gather(arrivals[_LAST], place)
        count = _gather(arrivals[_COUNT], place)
        numbers = last[mine] + ranks(mine) if len(mine) else mine
        fresh = fresh.select(names).hstack([pl.Series(_NUMBER, numbers, dtype=pl.Int64), due_at.alias(_DUE)])
        is_due = (due_at <= mark).to_numpy() if mark != NO_WATERMARK else np.zeros(fresh.height, bool)
        rest = fresh[np.flatnonzero(~is_due)]
        due = pl.concat([buffer.select(fresh.columns), fresh[np.flatnonzero(is_due)]])
        due = due.sort(
            [*(column(i) for i, _, _ in table.order), _NUMBER],
            descending=[*(not ascending for _, ascending, _ in table.order), False],
            nulls_last=[*(last_nulls for _, _, last_nulls in table.order), False],
        )
        after = (
            count + np.bincount(mine[~is_due], minlength=ids.count) - np.bincount(waiting_codes, minlength=ids.count)
        )
        total = last + np.bincount(mine, minlength=ids.count)
        is_touched = np.zeros(ids.count, bool)
        is_touched[mine] = is_touched[waiting_codes] = True
        origin = [frame_of([f[k] for k in key], f.height) for f in (arrivals, fresh, buffer)]
        partitions = pl.concat(origin)[ids.first] if key else pl.DataFrame(height=ids.count)
        stays = np.flatnonzero(is_touched & (after > 0))
        empty = np.flatnonzero(is_touched & (after <= 0) & (place >= 0))
        counts = [pl.Series(_LAST, total[stays], dtype=pl.Int64), pl.Series(_COUNT, after[stays], dtype=pl.Int64)]
        return _SortedOut(
            due.select(names),
            (rest if rest.height else None, buffer.select([*key, _NUMBER]) if buffer.height else None),
            (
                pl.DataFrame([*_rows_of(partitions, stays), *counts]) if len(stays) else None,
                _keys_to_delete(partitions, empty),
            ),
            late,
        )


class TimedProcessTableKernel(ProcessTableKernel):
    """One that works by event time: with timers, ORDER BY or ``on_time``."""

    by_event_time: ClassVar[bool] = True


@dataclass(frozen=True)
class _SortedOut:
    """Rows of an input with ORDER BY.

    Attributes:
        due: those that the watermark has released, in order.
        buffers, arrived: what is written to and removed from the two tables of the input.
    """

    due: pl.DataFrame
    buffers: tuple[pl.DataFrame | None, pl.DataFrame | None]
    arrived: tuple[pl.DataFrame | None, pl.DataFrame | None]
    late: pl.DataFrame


def _unique_keys(keys: pl.DataFrame) -> pl.DataFrame:
    """A frame of keys to look up; with no columns, one of a row of something."""
    return keys if keys.width else pl.DataFrame({"@any": [0]})


def _gather(values: pl.Series, place: Ints) -> Ints:
    """The values at places, 0 at -1."""
    return np.append(values.to_numpy(), 0)[place] if len(place) else place


def _rows_of(frame: pl.DataFrame, rows: Ints) -> list[pl.Series]:
    return frame[rows].get_columns() if frame.width else []


def _keys_to_delete(keys: pl.DataFrame, rows: Ints) -> pl.DataFrame | None:
    """Identities to remove; of a table without a key a frame of one row of anything."""
    if not len(rows):
        return None
    return keys[rows] if keys.width else pl.DataFrame({ACCESS_TIME: [0]})


class _Partitions:
    """The partitions of a micro-batch, numbered in the order in which they come.

    Args:
        rows: per input, those to call the function with.
    """

    def __init__(self, kernel: ProcessTableKernel, rows: Frames, state: Frames) -> None:
        names = list(kernel.key)
        frames = [kernel.keys_of(frame, i) for i, frame in enumerate(rows)]
        state_count = len(kernel.call.process.states) + kernel.call.process.timers
        parts = [*frames, *(frame_of([f[n] for n in names], f.height) for f in state[:state_count])]
        ids, codes = ids_of(parts, names)
        self.count = ids.count
        self.keys = pl.concat(parts, how="vertical_relaxed")[ids.first] if names else pl.DataFrame(height=ids.count)
        self._codes = codes[: len(rows)]
        self.states = codes[len(rows) : len(rows) + len(kernel.call.process.states)]
        self.timers = codes[-1] if kernel.call.process.timers else np.zeros(0, np.int64)
        self._members: list[dict[int, Ints]] = []
        for own in self._codes:
            order = stable_order(own)
            cuts = np.flatnonzero(np.diff(own[order])) + 1
            groups = np.split(order, cuts) if len(order) else []
            self._members.append({int(own[g[0]]): g for g in groups})
        first = dict.fromkeys(int(n) for own in self._codes for n in own.tolist())
        first |= dict.fromkeys(self.timers.tolist())
        self.in_order = list(first)

    def of(self, number: int) -> Iterable[tuple[int, Ints]]:
        """The rows of a partition: per input that has any, their positions."""
        return [
            (i, rows_by_partition[number])
            for i, rows_by_partition in enumerate(self._members)
            if number in rows_by_partition
        ]


class _Values:
    """How the values of a state entry are kept: of a ROW a column per field, of other types one.

    Attributes:
        columns: the columns of the values, in the state.
    """

    def __init__(self, declaration: DeclaredState, call: ProcessCall) -> None:
        self.declaration, self._call = declaration, call
        row = declaration.type.root == "ROW"
        self.fields: tuple[tuple[str, LogicalType], ...] = (
            tuple((f"@{f.name}", f.type) for f in declaration.type.fields)
            if row
            else ((f"@{declaration.name}", declaration.type),)
        )
        self.names = tuple(f.name for f in declaration.type.fields) if row else None
        self.columns = {n: StateColumn(t.polars(), n.removeprefix("@")) for n, t in self.fields}
        self.decoders = tuple(codec(t).decoder() or deepcopy for _, t in self.fields)

    def load(self, state: pl.DataFrame, codes: Ints) -> _StateValues:
        return _StateValues(self, self._call, state, codes)

    def fresh(self) -> Any:
        """The value at the beginning."""
        if self.names is not None:
            return StateRow(dict.fromkeys(self.names))
        return {} if self.declaration.type.root == "MAP" else []


class _StateValues:
    """The values of a state entry during a micro-batch.

    Args:
        state: the rows that are there.
        codes: the partitions of these.
    """

    def __init__(self, values: _Values, call: ProcessCall, state: pl.DataFrame, codes: Ints) -> None:
        self._form, self._call = values, call
        self._place = dict(zip(codes.tolist(), range(len(codes)), strict=True))
        self._raw = [state[name].to_list() for name, _ in values.fields]
        self._now: dict[int, Any] = {}
        self._written_partitions: set[int] = set()

    def _stored_value(self, number: int) -> Any:
        """The value that the state has, created again; the one at the beginning if it has none."""
        at = self._place.get(number)
        if at is None:
            return self._form.fresh()
        cells_and_decoders = zip(self._raw, self._form.decoders, strict=True)
        cells = [None if (raw := c[at]) is None else decode(raw) for c, decode in cells_and_decoders]
        if self._form.names is not None:
            return StateRow(dict(zip(self._form.names, cells, strict=True)))
        return cells[0]

    def get(self, number: int) -> Any:
        """The value of a partition, which a call may change."""
        if number not in self._now:
            self._now[number] = self._stored_value(number)
        return self._now[number]

    def clear(self, number: int) -> None:
        self._now[number] = self._form.fresh()

    def changes(self, keys: pl.DataFrame, now: int) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
        """What is to be written and removed."""
        initial = self._form.fresh()
        upserted_numbers: list[int] = []
        deleted_numbers: list[int] = []
        for number, value in self._now.items():
            exists = number in self._place
            if value == initial:
                if exists:
                    deleted_numbers.append(number)
            elif not exists or value != self._stored_value(number):
                upserted_numbers.append(number)
        upserts = None
        if upserted_numbers:
            cells: list[list[Any]] = [[] for _ in self._form.fields]
            for number in upserted_numbers:
                value = self._now[number]
                for mine, cell in zip(
                    cells, vars(value).values() if isinstance(value, StateRow) else [value], strict=True
                ):
                    mine.append(cell)
            value_columns = [
                column_of(c, t, self._call.function).alias(n)
                for c, (n, t) in zip(cells, self._form.fields, strict=True)
            ]
            at = np.array(upserted_numbers, np.int64)
            upserts = with_stamps(pl.DataFrame([*_rows_of(keys, at), *value_columns]), now)
        deletes = _keys_to_delete(keys, np.array(deleted_numbers, np.int64))
        return upserts, deletes


class _Timers:
    """The timers of a micro-batch's partitions. A timer is a name and a time; one without a name is identified by its
    time.

    Args:
        state: the rows that are there.
        codes: the partitions of these.
    """

    def __init__(self, state: pl.DataFrame, codes: Ints) -> None:
        self._stored_value: dict[tuple[int, str | None, int], int] = {}
        self._named_timers: dict[int, dict[str, int]] = {}
        self._unnamed_timers: dict[int, set[int]] = {}
        self._soon: list[tuple[int, str]] = []
        rows = zip(codes.tolist(), state[_NAME].to_list(), state[_AT].to_list(), state[_DUE].to_list(), strict=True)
        for number, name, at, due in rows:
            self._stored_value[number, name, at] = due
            self.register(number, name, due)

    def register(self, number: int, name: str | None, time: int) -> None:
        if name is None:
            self._unnamed_timers.setdefault(number, set()).add(time)
        else:
            self._named_timers.setdefault(number, {})[name] = time
        heapq.heappush(self._soon, (time, name or ""))

    def clear(self, number: int, timer: str | int) -> None:
        if isinstance(timer, str):
            self._named_timers.get(number, {}).pop(timer, None)
        else:
            self._unnamed_timers.get(number, set()).discard(timer)

    def clear_all(self, number: int) -> None:
        self._named_timers.get(number, {}).clear()
        self._unnamed_timers.get(number, set()).clear()

    def due(self, number: int, watermark: int) -> Iterator[tuple[str | None, int]]:
        """The timers of a partition that are due, those that are registered meanwhile included, one after the other:
        those without a name first. Each is removed before it is given."""
        unnamed_timers, named_timers = (
            self._unnamed_timers.setdefault(number, set()),
            self._named_timers.setdefault(number, {}),
        )
        has_fired = True
        while has_fired:
            has_fired = False
            self._soon = [(t, "") for t in unnamed_timers]
            heapq.heapify(self._soon)
            while self._soon and self._soon[0][0] <= watermark:
                time, _ = heapq.heappop(self._soon)
                if time in unnamed_timers:
                    has_fired = True
                    unnamed_timers.remove(time)
                    yield None, time
            self._soon = [(t, n) for n, t in named_timers.items()]
            heapq.heapify(self._soon)
            while self._soon and self._soon[0][0] <= watermark:
                time, name = heapq.heappop(self._soon)
                if named_timers.get(name) == time:
                    has_fired = True
                    del named_timers[name]
                    yield name, time

    def changes(self, keys: pl.DataFrame) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
        """What is to be written and removed."""
        timers: dict[tuple[int, str | None, int], int] = {}
        for number, named_timers in self._named_timers.items():
            timers |= {(number, name, 0): time for name, time in named_timers.items()}
        for number, unnamed_timers in self._unnamed_timers.items():
            timers |= {(number, None, time): time for time in unnamed_timers}
        new_timers = [(timer, due) for timer, due in timers.items() if self._stored_value.get(timer) != due]
        removed_timers = [timer for timer in self._stored_value if timer not in timers]
        upserts = self._timer_frame(keys, [t for t, _ in new_timers])
        if upserts is not None:
            upserts = with_stamps(
                upserts.hstack([pl.Series(_DUE, [d for _, d in new_timers], pl.Int64)]), _NEVER_EXPIRES
            )
        return upserts, self._timer_frame(keys, removed_timers)

    @staticmethod
    def _timer_frame(keys: pl.DataFrame, timers: Sequence[tuple[int, str | None, int]]) -> pl.DataFrame | None:
        if not timers:
            return None
        at = np.array([number for number, _, _ in timers], np.int64)
        names = pl.Series(_NAME, [name for _, name, _ in timers], pl.String)
        return pl.DataFrame([*_rows_of(keys, at), names, pl.Series(_AT, [t for _, _, t in timers], pl.Int64)])


class _Session:
    """The calls of one partition after the other.

    Attributes:
        partition: the one whose turn it is.
    """

    def __init__(self, call: ProcessCall, values: Sequence[_StateValues], timers: _Timers | None) -> None:
        self._names = [s.name for s in call.process.states]
        self._form, self._timers = values, timers
        self.partition = 0
        self._cleared_partitions: set[int] = set()

    def values(self) -> list[Any]:
        """The values of the states, for a call."""
        return [value.get(self.partition) for value in self._form]

    def settle(self) -> None:
        """Ends a call: states that it cleared are as at the beginning, whatever it did to their values."""
        for n in self._cleared_partitions:
            self._form[n].clear(self.partition)
        self._cleared_partitions.clear()

    def _own_timers(self) -> _Timers:
        if self._timers is None:
            raise ValueError("the function has no on_timer to call")
        return self._timers

    def register(self, name: str | None, time: int) -> None:
        self._own_timers().register(self.partition, name, time)

    def clear_timer(self, timer: str | int) -> None:
        self._own_timers().clear(self.partition, timer)

    def clear_timers(self) -> None:
        if self._timers is not None:
            self._timers.clear_all(self.partition)

    def clear_state(self, name: str | None) -> None:
        if name is not None and name not in self._names:
            raise ValueError(f"the function has no state '{name}'")
        self._cleared_partitions |= {n for n, own in enumerate(self._names) if name in (None, own)}
