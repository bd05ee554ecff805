"""What an operator is to the runtime: pure functions over frames, with state in a kernel, without in a transform.

A *frame of changes* is a ``polars.DataFrame`` with the fields of the row as ``c0, c1, ...`` (see
:func:`common.changelog.column`) and, unless the stream is insert-only, the row kind as Int8 column
``kind``. Row order is arrival order; for one key it is the order in which the changes happened.

A *state frame* holds rows of one :class:`StateTable`: its columns, plus the last-access time ``@t``
(Int64, milliseconds).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from stateplan.common.changelog import column, columns
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.runtime.metrics.ages import Use

ACCESS_TIME = "@t"
"""Column of a state frame: when the row was last accessed, in milliseconds since the epoch."""

NO_WATERMARK = -(2**63)
"""The watermark before the first one."""
END_OF_TIME = 2**63 - 1
"""The watermark after the last row of bounded input."""


Frames: TypeAlias = Sequence[pl.DataFrame]


@dataclass(frozen=True)
class Watermark:
    """How far event time has advanced, in milliseconds since 1970: no row with a time at or before it is expected.

    Attributes:
        before: at the start of the micro-batch; decides which of its rows are late.
        now: after its rows; what it releases is processed in the same micro-batch.
    """

    before: int = NO_WATERMARK
    now: int = NO_WATERMARK


@dataclass(frozen=True)
class Access:
    """Which rows of the input access which rows of a table, and what for; most of it is asked by state alone whose TTL
    has other than default semantics (see :mod:`runtime.state.ttl_access`).

    Of an operator with several inputs, a table keeps rows of the one that has the number of its slot. A row of another
    input accesses all rows with its key.

    Attributes:
        entry: columns that a row of state agrees in with the rows of its input that write it; by default its identity,
            as far as it has fields of the input.
        origin: the field of the input that a column holds, where they do not have the same name.
        once: of the rows of a micro-batch that agree with it, only the first one writes the entry.
        by_others: rows of other inputs write it too.
        entries: rows of its own input read no rows but those that agree with them; else all that are looked up.
        reads: whether looking a row up is an access.
        lasting: its rows never expire, as other rows of the operator must not outlive them: one that counts arrivals.
        input: the one whose rows it keeps, where that has not the number of its slot.
        use: what looking a row up is for.
    """

    entry: tuple[str, ...] = ()
    origin: Mapping[str, str] = field(default_factory=dict)
    once: bool = False
    by_others: bool = False
    entries: bool = False
    reads: bool = True
    lasting: bool = False
    input: int | None = None
    use: Use = "refreshed"


@dataclass(frozen=True)
class StateColumn:
    """A column of a state table.

    Attributes:
        type: its Polars type.
        label: what people call it; of a column of a call, what it holds of that (``sum``). Empty for one that means
            nothing to people.
        field: the input and the field of that input whose values it holds; None for none.
        call: the aggregate call that it belongs to, by its number; None for none.
    """

    type: pl.DataType
    label: str
    field: tuple[int, int] | None = None
    call: int | None = None


def field_columns(row: LogicalType, number: int = 0) -> dict[str, StateColumn]:
    """The columns that hold the fields of ``row``, the type of input ``number``."""
    return {column(i): StateColumn(f.type.polars(), f.name, (number, i)) for i, f in enumerate(row.fields)}


def own_columns(types: Mapping[str, pl.DataType]) -> dict[str, StateColumn]:
    """Columns of the operator's own, which are called as they are named, but for a leading ``@``."""
    return {name: StateColumn(dtype, name.removeprefix("@")) for name, dtype in types.items()}


def call_columns(number: int, types: Mapping[str, pl.DataType]) -> dict[str, StateColumn]:
    """The columns of an aggregate call. Their names are what they hold, with the number of the call behind."""
    return {n: StateColumn(t, n.removesuffix(str(number)), call=number) for n, t in types.items()}


@dataclass(frozen=True)
class StateTable:
    """One physical table of keyed state.

    A stateful input (a ``state`` entry of the plan) may need several tables, for example the accumulators of a
    group aggregate and the values seen by a DISTINCT call; all live under the TTL of that entry.

    Attributes:
        name: unique within the operator; starts with the state name of the plan.
        slot: index of the plan's ``state`` entry whose TTL rules this table.
        lookup: columns by whose values the runtime fetches rows.
        identity: columns that identify a row (a superset of ``lookup``): writing a row replaces the row with the
            same identity. NULL equals NULL.
        columns: every column but ``@t``, by name; contains ``lookup`` and ``identity``.
        due: of a kernel with event time, the Int64 column that says when a row is due, ms since 1970: once the
            watermark reaches it, the kernel is given the row, whatever keys it asks for. NULL is never.
        access: which rows of the input access which of its rows.
        alarm: as ``due``, by the clock of the micro-batch; see :attr:`Kernel.alarms`.
        later_columns: columns that earlier releases did not have. Rows that these wrote hold NULL there.
    """

    name: str
    slot: int
    lookup: tuple[str, ...]
    identity: tuple[str, ...]
    columns: Mapping[str, StateColumn] = field(hash=False)
    due: str | None = None
    access: Access = field(default=Access(), hash=False, compare=False)
    alarm: str | None = None
    later_columns: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def schema(self) -> dict[str, pl.DataType]:
        """The types of the columns."""
        return {name: c.type for name, c in self.columns.items()}


FormerColumns: TypeAlias = Mapping[int, Mapping[str, Mapping[str, str]]]
"""By former version of the state of an operator: per table, for each column the one that runs of that version have."""


@dataclass
class Step:
    """The result of one micro-batch of one key group.

    Attributes:
        output: frame of changes; for one key in the order in which they happen.
        upserts: per state table, rows to write: all columns of its schema and ``@t``; None for nothing.
        deletes: per state table, identity columns of rows to remove; None for nothing. A row is never in both. With
            ``@t``, they are all rows that were found, and each is one that the input retracts.
        missed: retractions that found nothing, because the state of their row had expired.
        late_rows: per input, or of the first ones, the rows that were dropped because they arrived after the watermark.
    """

    output: pl.DataFrame
    upserts: list[pl.DataFrame | None]
    deletes: list[pl.DataFrame | None]
    missed: int = 0
    late_rows: Sequence[pl.DataFrame] = ()

    @property
    def late(self) -> int:
        """How many rows were dropped because they arrived after the watermark."""
        return sum(rows.height for rows in self.late_rows)


def left_out(frame: pl.DataFrame, is_kept: npt.NDArray[np.bool_]) -> pl.DataFrame:
    """The rows of a frame that were not kept."""
    return frame[:0] if is_kept.all() else frame[np.flatnonzero(~is_kept)]


def lookup_frame(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame | None:
    """What :meth:`Kernel.keys` returns for the rows of ``frame``; with no columns one row of whatever there is."""
    if frame.height == 0:
        return None
    return frame[list(columns)] if columns else frame[:1]


class Alarms(Protocol):
    """Instants that the clock reaches again and again. Picklable."""

    def last(self, now: int) -> int:
        """The last of them at or before an instant, ms since 1970."""


@dataclass(frozen=True)
class PendingWork:
    """What waits for the clock, for messages.

    Attributes:
        one, many: what one and several are called.
        loss: what the result lacks without them.
        remedy: what to do.
    """

    one: str
    many: str
    loss: str
    remedy: str


WINDOWS = PendingWork(
    "window of processing time was open",
    "windows of processing time were open",
    "their final results are missing",
    "Group by event time (a column with a WATERMARK): such windows end with the input",
)
OUTER_ROWS = PendingWork(
    "row of an outer join by processing time was waiting for a match",
    "rows of an outer join by processing time were waiting for a match",
    "their rows with NULLs are missing",
    "Join by event time (a column with a WATERMARK): such rows come out when the input ends",
)


class Kernel(FrozenDataclass, ABC):
    """A stateful operator: a frozen dataclass, picklable, without any state of its own.

    A kernel declares :attr:`tables`, and says with :meth:`keys` and :meth:`process` what a micro-batch needs and does.
    The rest are capabilities, with what holds for a kernel that does not have them.
    """

    by_event_time: ClassVar[bool] = False
    """Whether the kernel is also called for a micro-batch that brings no row but a later watermark."""

    @property
    def by_clock(self) -> bool:
        """Whether, of a kernel by event time, the clock of the micro-batch takes the place of the watermark: what is
        due waits for the next micro-batch of its key group."""
        return False

    @property
    def alarms(self) -> Alarms | None:
        """Of a kernel whose state becomes due by the clock, the instants at which it may: each of them makes a
        micro-batch, and every micro-batch visits all key groups. None for a kernel that can wait for rows."""
        return None

    @property
    def awaits(self) -> PendingWork | None:
        """What comes out only when the clock has gone on, and so not at all where bounded input ends before; None if
        there is no such thing."""
        return None

    def count_pending(self, state: Frames) -> int:
        """How many of :attr:`awaits` there are, given per state table all live rows that will be due."""
        return state[0].height

    @property
    def watermark_delay(self) -> int:
        """How much later than the operator's watermark its output may be, ms."""
        return 0

    @property
    def versioned_inputs(self) -> tuple[int, ...]:
        """The inputs of which every version of a row counts, also one that holds for a part of a micro-batch only."""
        return ()

    def with_every_version(self) -> Kernel:
        """The kernel, emitting every version of a row; itself where it does so anyway, or cannot."""
        return self

    @property
    @abstractmethod
    def tables(self) -> tuple[StateTable, ...]:
        """The state tables, in a fixed order."""

    @property
    def call_texts(self) -> Sequence[str]:
        """What people call the aggregate calls that columns of state belong to."""
        return ()

    def labels(self, table: StateTable) -> dict[str, str]:
        """For the columns of a table what people call them, each name once, without those that mean nothing to
        people."""
        calls = Counter(c.call for c in table.columns.values())
        out: dict[str, str] = {}
        for name, c in table.columns.items():
            label = c.label
            if c.call is not None:
                text = self.call_texts[c.call]
                label = text if calls[c.call] == 1 else f"{text} {label}"
            while label in out.values():
                label += "_"
            if label:
                out[name] = label
        return out

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        """Per state table, the rows whose state is needed: a frame holding its ``lookup`` columns (repeats
        allowed, the runtime makes them unique), or None for no lookup; here those of the first input. ``inputs`` has
        one frame of changes per input of the operator; any but not all may be empty."""
        return [lookup_frame(inputs[0], table.lookup) for table in self.tables]

    def first_keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        """As :meth:`keys`, without the keys that only :meth:`more_keys` knows. A kernel that asks in two steps rarely
        needs the large part of its state."""
        return self.keys(inputs)

    def more_keys(self, inputs: Frames, state: Frames) -> list[pl.DataFrame | None]:
        """As :meth:`keys`, knowing the rows found for :meth:`first_keys`; for a table it was asked about there,
        None."""
        return [None] * len(self.tables)

    @abstractmethod
    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        """One micro-batch.

        Args:
            inputs: as for :meth:`keys`.
            state: per state table, the live rows for these keys: not deleted, and not expired, that is
                ``ttl == 0 or @t + ttl > now``.
            now: the micro-batch's time, milliseconds.
            ttl: per ``state`` entry of the plan, milliseconds; 0 is never.
        """

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        """As :meth:`process`, knowing how far event time has advanced.

        ``state`` holds, of tables with :attr:`StateTable.due`, also the rows that the watermark makes due.
        """
        return self.process(inputs, state, now, ttl)


@dataclass(frozen=True)
class KeyedKernel(Kernel):
    """A kernel with one input, whose rows have a key.

    Attributes:
        input_type: ROW type of the input.
        key_fields: fields of the key.
    """

    input_type: LogicalType
    key_fields: tuple[int, ...]

    @cached_property
    def _keys(self) -> tuple[str, ...]:
        return tuple(columns(self.key_fields))

    @cached_property
    def _columns(self) -> dict[str, StateColumn]:
        return field_columns(self.input_type)

    @cached_property
    def _fields(self) -> dict[str, pl.DataType]:
        return {name: c.type for name, c in self._columns.items()}

    def _lookup_keys(self, parts: Sequence[pl.DataFrame]) -> pl.DataFrame | None:
        """What :meth:`keys` returns for the rows of all parts."""
        some = [frame for part in parts if (frame := lookup_frame(part, self._keys)) is not None]
        return pl.concat(some) if len(some) > 1 and self._keys else next(iter(some), None)

    def _key_frame(self, parts: Sequence[pl.DataFrame], first: npt.NDArray[np.int64]) -> pl.DataFrame:
        """The keys at ``first`` of the rows of all parts."""
        if not self._keys:
            return pl.DataFrame(height=len(first))
        return pl.concat([p[list(self._keys)] for p in parts])[first]


class EventTimeKernel(Kernel):
    """A kernel that works by event time, in :meth:`advance`."""

    by_event_time: ClassVar[bool] = True

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        """As :meth:`advance`, while there is no watermark."""
        return self.advance(inputs, state, now, ttl, Watermark())

    @abstractmethod
    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        """One micro-batch; see :meth:`Kernel.advance`."""


class Transform(ABC):
    """A stateless operator: frame of changes and the micro-batch's time in, frame of changes out. Picklable."""

    makes_watermarks: ClassVar[bool] = False
    """Whether the rows say, by :meth:`watermark`, how far event time has advanced."""

    aligned: bool = False
    """Whether the driver wants to know these watermarks, by part of the source, to align sources."""

    @property
    def reads_watermark(self) -> bool:
        """Whether the result depends on how far event time has advanced."""
        return False

    @abstractmethod
    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        """The rows that come of ``frame``; ``now`` is the micro-batch's time, ms."""

    def at_watermark(self, frame: pl.DataFrame, now: int, watermark: int | None) -> pl.DataFrame:
        """As a call, knowing how far event time has advanced, ms since 1970; None before the first watermark."""
        return self(frame, now)

    def of_piece(self, piece: str) -> Transform:
        """The transform for a piece of the rows of a micro-batch, from whose name random values are made."""
        return self

    def watermark(self, frame: pl.DataFrame, now: int) -> int | None:
        """How far event time has advanced with the rows, ms since 1970; None if they do not say."""
        return None


@dataclass(frozen=True)
class WatermarkTap(Transform):
    """A transform that reads how far event time has advanced.

    Attributes:
        transform: the transform that does this.
        reader: its number among those of the job.
    """

    transform: Transform
    reader: int

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        """As before the first watermark."""
        return self.transform(frame, now)

    def at_watermark(self, frame: pl.DataFrame, now: int, watermark: int | None) -> pl.DataFrame:
        return self.transform.at_watermark(frame, now, watermark)

    def of_piece(self, piece: str) -> Transform:
        return WatermarkTap(self.transform.of_piece(piece), self.reader)


def fetch_state(
    kernel: Kernel,
    inputs: Frames,
    lookup: Callable[[StateTable, pl.DataFrame | None], pl.DataFrame],
    due: Callable[[StateTable], pl.DataFrame] | None = None,
) -> list[pl.DataFrame]:
    """The state that ``kernel`` needs for ``inputs``, one frame per table.

    Args:
        lookup: the live rows of a table for a frame of keys; no rows for None.
        due: the live rows of a table that have become due; None if nothing does.
    """

    def first(table: StateTable, keys: pl.DataFrame | None) -> pl.DataFrame:
        stored_rows = lookup(table, keys)
        if due is None or (table.due is None and table.alarm is None):
            return stored_rows
        rows = due(table)
        if not stored_rows.height or not rows.height or not table.identity:
            return stored_rows if stored_rows.height else rows
        return pl.concat([stored_rows, rows]).unique(subset=list(table.identity), keep="first", maintain_order=True)

    state = [first(table, keys) for table, keys in zip(kernel.tables, kernel.first_keys(inputs), strict=True)]
    more = kernel.more_keys(inputs, state)
    return [
        stored_rows if keys is None else lookup(table, keys)
        for table, stored_rows, keys in zip(kernel.tables, state, more, strict=True)
    ]
