"""How a state table is read by a query: the micro-batches, the key groups that can have its rows, and their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from stateplan.common.errors import CheckpointError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import INSTANT, INT, STRING, LogicalType
from stateplan.connectors.protocol import Offset, OffsetSource, SourceTable
from stateplan.connectors.splits import Split
from stateplan.plans.state.kept_batches import commit_times
from stateplan.plans.state.key_filters import values_by_field
from stateplan.plans.state.reader import CheckpointReader
from stateplan.plans.state.show import StateOf
from stateplan.plans.state.state_columns import StateSchema
from stateplan.plans.state.state_options import (
    AT,
    BATCH,
    CHANGES,
    FROM,
    READS,
    TABLE,
    TO,
    UID,
    WITH_EXPIRED,
)
from stateplan.runtime.inspect.inspection import TableState
from stateplan.runtime.inspect.state_scan import ACCESSED, EXPIRES, GROUP, KIND, Instant, Partitions, Slots, StateScan
from stateplan.runtime.inspect.stored_state import StoredOperator
from stateplan.runtime.spark.checkpoint_files import spark_operator

_LARGE_ROW = 1024
"""Bytes of a row of state, for those who want a few."""


@dataclass(frozen=True)
class TableColumn:
    """A column of a table of the catalog.

    Attributes:
        name: its name.
        type: its type.
        column: its name in the state table, or that of :mod:`runtime.inspect.state_scan`.
        comment: what it holds.
    """

    name: str
    type: LogicalType
    column: str
    comment: str | None = None


def table_columns(schema: StateSchema, is_changes: bool) -> list[TableColumn]:
    """The columns of a table of the catalog: of changes their kind, those of the key, the others of the state, and
    what the runtime records of a row."""
    columns = [TableColumn(c.name, c.type, c.column, "key" if c.is_key else None) for c in schema.columns]
    own = [
        TableColumn("access_time", INSTANT, ACCESSED, "last access"),
        TableColumn("expires_at", INSTANT, EXPIRES, "NULL if the row never expires"),
        TableColumn("key_group", INT, GROUP),
    ]
    kind = [TableColumn("rowkind", STRING, KIND, "+I, -U, +U or -D")] if is_changes else []
    names = {c.name for c in columns}
    extra = []
    for column in (*kind, *own):
        name = column.name
        while name in names:
            name += "_"
        extra.append(replace(column, name=name))
    return [*extra[: len(kind)], *columns, *extra[len(kind) :]]


def find_state(reader: CheckpointReader, uid: str, table: str) -> tuple[StateOf, TableState]:
    """A state table by the uid of its operator. Raises CheckpointError CKPT044, CKPT047."""
    states = [state for state in reader.states if state.operator.entry.uid == uid]
    if not states:
        raise CheckpointError(
            "CKPT047", folder=reader.snapshot.folder, views=[uid], states=[s.selector for s in reader.states]
        )
    state_table = states[0].operator.table(table)
    state = next((s for s in states if s.index == state_table.table.slot), states[0])
    return state, state_table


@dataclass(frozen=True, kw_only=True)
class StateSplit(Split):
    """Some key groups after a micro-batch, or before and after several.

    Attributes:
        instants: each micro-batch, and the instant that ages are counted from.
        slots: of each :class:`Slots`, the stores, the key groups, and the bytes.
    """

    instants: list[list[int]]
    slots: list[list[Any]]

    @staticmethod
    def of(instants: list[list[int]], slots: Sequence[Slots]) -> StateSplit:
        return StateSplit(instants=instants, slots=[[[*map(list, s.stores)], list(s.groups), s.bytes] for s in slots])

    @property
    def key_groups(self) -> Iterator[Slots]:
        for stores, groups, size in self.slots:
            yield Slots(tuple((int(n), str(writer)) for n, writer in stores), tuple(groups), size)


class StateSource(OffsetSource[StateSplit]):
    """A state table that is read once.

    Args:
        scan: what is read of it.
        instants: the micro-batch that is read; of changes, that before them and the last one.
    """

    split_type = StateSplit

    def __init__(self, scan: StateScan, instants: tuple[Instant, ...]) -> None:
        self.scan = scan
        self.instants = instants
        self._partitions = Partitions(reads_ahead=True)

    def initial_offset(self) -> Offset:
        return {}

    def latest_offset(self, start: Offset) -> Offset:
        return start or {"instants": [[at.batch, at.now] for at in self.instants]}

    def plan(self, start: Offset, end: Offset) -> list[StateSplit]:
        """Raises CheckpointError CKPT045."""
        if start == end:
            return []
        slots = self._plan(_instants(end["instants"]))
        if self.scan.limit is not None:
            return [StateSplit.of(end["instants"], slots)]
        return [StateSplit.of(end["instants"], [some]) for some in slots]

    def size(self) -> int:
        """Bytes of the columns."""
        size = sum(slots.bytes for slots in self._plan(self.instants))
        return size if self.scan.limit is None else min(size, self.scan.limit * _LARGE_ROW)

    def _plan(self, instants: tuple[Instant, ...]) -> list[Slots]:
        return self.scan.plan(instants, self._partitions)

    def close(self) -> None:
        self._partitions.clear()

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_partitions": Partitions()}

    def read(self, split: StateSplit) -> Iterator[pl.DataFrame]:
        """Raises CheckpointError CKPT010 to CKPT013, CKPT045."""
        yield from self.scan.frames(split.key_groups, _instants(split.instants), self._partitions)


def _instants(pairs: list[list[int]]) -> tuple[Instant, ...]:
    return tuple(Instant(batch, now) for batch, now in pairs)


def source_of(reader: CheckpointReader, table: SourceTable) -> StateSource:
    """The source of a table.

    Args:
        reader: the checkpoint after the micro-batch that is read.
        table: the table.

    Raises:
        CheckpointError: CKPT043, CKPT044, CKPT047, CKPT048.
    """
    state, state_table = find_state(reader, table.value(UID), table.value(TABLE))
    schema = StateSchema.of(reader.document.graph, state.operator, state_table)
    is_changes = table.value(READS) == CHANGES
    columns = {c.name: c.column for c in table_columns(schema, is_changes)}
    for name, _ in table.fields:
        if name not in columns:
            raise CheckpointError("CKPT048", name=name, by_label=", ".join(columns), hint=nearest(name, columns))
    fields = [(columns[name], data_type.polars()) for name, data_type in table.fields]
    own_columns = {c.column for c in schema.columns}
    choices = {fields[i][0]: values for i, values in values_by_field(table.filters).items()}
    keys = {name: values for name, values in choices.items() if name in own_columns}
    entry = state.operator.entry
    tables = [t.table.name for t in state.operator.tables]
    scan = StateScan(
        reader.snapshot.folder,
        spark_operator(entry.level, reader.snapshot.layout.levels),
        entry.first,
        reader.snapshot.key_groups,
        StoredOperator.of(state.operator),
        tables.index(state_table.table.name),
        tuple(fields[i] for i in table.projection),
        table.value(WITH_EXPIRED),
        schema.routing,
        keys,
        table.limit if not table.filters else None,
        frozenset(choices[GROUP]) if GROUP in choices else None,
    )
    return StateSource(scan, _instants_of(reader, table, is_changes))


def _instants_of(reader: CheckpointReader, table: SourceTable, is_changes: bool) -> tuple[Instant, ...]:
    """The micro-batches that are read. Ages are counted from now for the last one, else from its commit."""
    snapshot = reader.snapshot
    last = snapshot.batch
    is_latest = table.value(BATCH) is None and (table.value(TO) is None or snapshot.newest)
    from_now = is_latest or table.value(AT) is not None
    if not is_changes:
        return (Instant(last, snapshot.now if from_now else commit_times(snapshot, last)[last]),)
    times = commit_times(snapshot)
    now = snapshot.now if from_now else times[last]
    first = table.value(FROM) if table.value(FROM) is not None else max(last - 1, min(times))
    if first not in times or first > last:
        raise CheckpointError("CKPT043", folder=snapshot.folder, batch=first, first=min(times), last=last)
    return Instant(first, times[first]), Instant(last, now)
