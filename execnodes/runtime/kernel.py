"""What a stateful operator is to the runtime: pure functions over frames.

A *frame of changes* is a ``polars.DataFrame`` with the fields of the row as ``c0, c1, ...`` (see
:func:`execnodes.changelog.column`) and, unless the stream is insert-only, the row kind as Int8 column
``kind``. Row order is arrival order; for one key it is the order in which the changes happened.

A *state frame* holds rows of one :class:`StateTable`: its columns, plus the last-access time ``@t``
(Int64, milliseconds).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeGuard, runtime_checkable

import polars as pl

ACCESS_TIME = "@t"
"""Column of a state frame: when the row was last accessed, in milliseconds since the epoch."""

NO_WATERMARK = -(2**63)
"""The watermark before the first one."""
END_OF_TIME = 2**63 - 1
"""The watermark after the last row of bounded input."""


@dataclass(frozen=True)
class Watermark:
    """How far event time has come, in milliseconds since 1970: no row with a time at or before it is expected.

    Attributes:
        before: at the start of the micro-batch; decides which of its rows are late.
        now: after its rows; what it releases is processed in the same micro-batch.
    """

    before: int = NO_WATERMARK
    now: int = NO_WATERMARK


@dataclass(frozen=True)
class Access:
    """Which rows of the input access which rows of a table; only state whose TTL has other than default semantics
    (see :mod:`execnodes.runtime.state.ttl_access`) asks.

    Of an operator with several inputs, a table keeps rows of the one that has the number of its slot. A row of another
    input accesses all rows with its key.

    Attributes:
        entry: columns that a row of state agrees in with the rows of its input that write it; by default its identity,
            as far as it has fields of the input.
        origin: the field of the input that a column holds, where they do not have the same name.
        once: of the rows of a micro-batch that agree with it, only the first one writes the entry.
        shared: rows of other inputs write it too.
        entries: rows of its own input read no rows but those that agree with them; else all that are looked up.
        reads: whether looking a row up is an access.
        lasting: its rows never expire by event time, in which other rows of the state may outlive them.
    """

    entry: tuple[str, ...] = ()
    origin: Mapping[str, str] = field(default_factory=dict)
    once: bool = False
    shared: bool = False
    entries: bool = False
    reads: bool = True
    lasting: bool = False


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
        schema: name to Polars type of every column but ``@t``; contains ``lookup`` and ``identity``.
        due: of a kernel with event time, the Int64 column that says when a row is due, ms since 1970: once the
            watermark comes to it, the kernel is given the row, whatever keys it asks for. NULL is never.
        access: which rows of the input access which of its rows.
    """

    name: str
    slot: int
    lookup: tuple[str, ...]
    identity: tuple[str, ...]
    schema: dict[str, pl.DataType] = field(hash=False)
    due: str | None = None
    access: Access = field(default=Access(), hash=False, compare=False)


@dataclass
class Step:
    """What one micro-batch of one key group gives.

    Attributes:
        output: frame of changes; for one key in the order in which they happen.
        upserts: per state table, rows to write: all columns of its schema and ``@t``; None for nothing.
        deletes: per state table, identity columns of rows to remove; None for nothing. A row is never in both.
        missed: retractions that found nothing, because the state of their row had expired.
        late: rows that were dropped because they came after the watermark.
    """

    output: pl.DataFrame
    upserts: list[pl.DataFrame | None]
    deletes: list[pl.DataFrame | None]
    missed: int = 0
    late: int = 0


@runtime_checkable
class Kernel(Protocol):
    """A stateful operator, picklable, without any state of its own."""

    @property
    def tables(self) -> tuple[StateTable, ...]:
        """The state tables, in a fixed order."""
        ...

    def keys(self, inputs: Sequence[pl.DataFrame]) -> list[pl.DataFrame | None]:
        """Per state table, the rows whose state is needed: a frame holding its ``lookup`` columns (repeats
        allowed, the runtime makes them unique), or None for no lookup. ``inputs`` has one frame of changes per
        input of the operator; any but not all may be empty."""
        ...

    def process(
        self, inputs: Sequence[pl.DataFrame], state: Sequence[pl.DataFrame], now: int, ttl: Sequence[int]
    ) -> Step:
        """One micro-batch.

        Args:
            inputs: as for :meth:`keys`.
            state: per state table, the live rows for these keys: not deleted, and not expired, that is
                ``ttl == 0 or @t + ttl > now``.
            now: the micro-batch's time, milliseconds.
            ttl: per ``state`` entry of the plan, milliseconds; 0 is never.
        """
        ...


@runtime_checkable
class StagedKernel(Kernel, Protocol):
    """A kernel that can say in two steps what state it needs, so that it rarely needs the large part.

    :meth:`Kernel.keys` alone still asks for all that may be needed; :func:`fetch_state` uses the steps.
    """

    def first_keys(self, inputs: Sequence[pl.DataFrame]) -> list[pl.DataFrame | None]:
        """As :meth:`Kernel.keys`, without what only :meth:`more_keys` can tell."""
        ...

    def more_keys(self, inputs: Sequence[pl.DataFrame], state: Sequence[pl.DataFrame]) -> list[pl.DataFrame | None]:
        """As :meth:`Kernel.keys`, knowing the rows found for :meth:`first_keys`; for a table it was asked about
        there, None."""
        ...


@runtime_checkable
class EventTimeKernel(Kernel, Protocol):
    """A kernel that works by event time: the runtime calls :meth:`advance` in place of :meth:`Kernel.process`, also for
    a micro-batch that brings no row but a later watermark.

    Two attributes are optional: ``by_clock``, whether the clock of the micro-batch takes the place of the watermark
    (what is due waits for the next micro-batch of its key group), and ``watermark_delay``, how much later than the
    watermark its output may be, ms.
    """

    def advance(
        self,
        inputs: Sequence[pl.DataFrame],
        state: Sequence[pl.DataFrame],
        now: int,
        ttl: Sequence[int],
        watermark: Watermark,
    ) -> Step:
        """As :meth:`Kernel.process`, knowing how far event time has come.

        ``state`` holds, of tables with :attr:`StateTable.due`, also the rows that the watermark makes due.
        """
        ...


_conforms: dict[tuple[type, type], bool] = {}


def _is(kernel: Kernel | None, protocol: type) -> bool:
    """As ``isinstance``, asked once for each type of kernel: Python looks at all that a protocol has, every time."""
    key = type(kernel), protocol
    if key not in _conforms:
        _conforms[key] = isinstance(kernel, protocol)
    return _conforms[key]


def works_by_event_time(kernel: Kernel | None) -> TypeGuard[EventTimeKernel]:
    """Whether it is an :class:`EventTimeKernel`."""
    return _is(kernel, EventTimeKernel)


def is_staged(kernel: Kernel) -> TypeGuard[StagedKernel]:
    """Whether it is a :class:`StagedKernel`."""
    return _is(kernel, StagedKernel)


def fetch_state(
    kernel: Kernel,
    inputs: Sequence[pl.DataFrame],
    lookup: Callable[[StateTable, pl.DataFrame | None], pl.DataFrame],
    due: Callable[[StateTable], pl.DataFrame] | None = None,
) -> list[pl.DataFrame]:
    """The state that ``kernel`` needs for ``inputs``, one frame per table.

    Args:
        lookup: the live rows of a table for a frame of keys; no rows for None.
        due: the live rows of a table that have become due; None without event time.
    """

    def first(table: StateTable, keys: pl.DataFrame | None) -> pl.DataFrame:
        found = lookup(table, keys)
        if due is None or table.due is None:
            return found
        rows = due(table)
        if not found.height or not rows.height or not table.identity:
            return found if found.height else rows
        return pl.concat([found, rows]).unique(subset=list(table.identity), keep="first", maintain_order=True)

    if not is_staged(kernel):
        return [first(table, keys) for table, keys in zip(kernel.tables, kernel.keys(inputs), strict=True)]
    state = [first(table, keys) for table, keys in zip(kernel.tables, kernel.first_keys(inputs), strict=True)]
    more = kernel.more_keys(inputs, state)
    return [
        found if keys is None else lookup(table, keys)
        for table, found, keys in zip(kernel.tables, state, more, strict=True)
    ]
