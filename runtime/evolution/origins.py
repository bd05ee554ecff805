"""Where the operators of a job get their state from: which operators of the old plan, and by which conversion."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stateplan.common.changelog import column
from stateplan.runtime.checkpoint.slots import Continuation, Layout, Move, OperatorEntry, misfit, source_columns
from stateplan.runtime.evolution.conversion import Conversion, SameRows, StateLoad
from stateplan.runtime.evolution.groups import Groups, MergeGroups
from stateplan.runtime.evolution.keyed_rows import FirstRows, KeyedRows, ranked_columns
from stateplan.runtime.evolution.rows import InputRows
from stateplan.runtime.jobgraph import JobGraph, OperatorSpec
from stateplan.runtime.kernel import Kernel
from stateplan.runtime.kernels.common.topn import TopN
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from stateplan.runtime.watermarks import EventTime


@dataclass(frozen=True)
class Origins:
    """The old operators whose state a job uses.

    Attributes:
        continuation: which operator uses which.
        entries: of these old operators; their numbers stand for them elsewhere.
        folder: the old checkpoint, for messages.
    """

    continuation: Continuation
    entries: Sequence[OperatorEntry]
    folder: str

    def of(self, spec: OperatorSpec) -> int | None:
        """The number of the old operator whose state an operator uses; None for none."""
        node = self.continuation.operators.get(spec.node)
        return next((number for number, entry in enumerate(self.entries) if entry.node == node), None)

    def old_state(self, spec: OperatorSpec, index: int) -> tuple[str, int] | None:
        """The old state whose rows a state of an operator takes over, by uid and number; None for none."""
        number, move = self.of(spec), self.continuation.moves.get(spec.node)
        if number is None:
            return None
        return self.entries[number].uid, move.inputs[index] if move is not None and move.inputs else index

    def loads(self, job: JobGraph, layout: Layout, time_zone: str) -> tuple[StateLoad | None, ...]:
        """Per operator where its state comes from; None for one that begins empty. Raises CheckpointError CKPT024."""
        loads: list[StateLoad | None] = []
        for spec, entry in zip(job.operators, layout.operators, strict=True):
            number = self.of(spec)
            if number is None:
                loads.append(None)
                continue
            move = self.continuation.moves.get(spec.node)
            if move is not None and move.form == "rows":
                loads.append(self._rows(spec, number, move, time_zone))
                continue
            if move is not None and move.form == "values":
                loads.append(self._values(spec, number, move, time_zone))
                continue
            columns = source_columns(spec, self.entries[number], entry.tables, move, self.folder)
            if move is not None and move.form in ("keys", "first"):
                loads.append(self._keyed(spec, number, columns, move, time_zone))
                continue
            load = _load(spec.kernel, number, columns, move, time_zone)
            loads.append(replace(load, as_stored=move is None and self.entries[number].rewrite is None))
        return tuple(loads)

    def _keyed(
        self,
        spec: OperatorSpec,
        number: int,
        columns: Mapping[str, Mapping[str, str]],
        move: Move,
        time_zone: str,
    ) -> StateLoad:
        """The rows that the old operator has kept, by their new key."""
        kernel, gather = spec.kernel, None
        if move.form == "first":
            assert isinstance(kernel, TopN)
            old_tables = self.entries[number].tables
            columns = {name: ranked_columns(some, old_tables[name].columns) for name, some in columns.items()}
            gather = FirstRows(kernel)
        tables = tuple((table.name, columns[table.name]) for table in kernel.tables)
        filters = tuple(move.filters[0]) if move.filters else ()
        rows = KeyedRows(tables, kernel.tables[0].lookup, filters, time_zone)
        return StateLoad(((number, rows),), gather)

    def _values(self, spec: OperatorSpec, number: int, move: Move, time_zone: str) -> StateLoad:
        """Groups with their single values. Raises CheckpointError CKPT024."""
        old_tables = self.entries[number].tables
        for table, source in zip(spec.kernel.tables, move.tables, strict=True):
            origin = old_tables.get(source.table)
            if origin is None or any(origin.columns.get(source.columns[n]) != t for n, t in table.schema.items()):
                raise misfit(spec, self.folder, f"{table.name} cannot be made of what it holds")
        tables = tuple((source.table, source.columns) for source in move.tables)
        filters = tuple(move.filters[0]) if move.filters else ()
        return StateLoad(((number, KeyedRows(tables, spec.kernel.tables[0].lookup, filters, time_zone)),))

    def _rows(self, spec: OperatorSpec, number: int, move: Move, time_zone: str) -> StateLoad:
        """The rows of its inputs that the old operator has kept. Raises CheckpointError CKPT024."""
        old_tables = {table.slot: (name, table) for name, table in self.entries[number].tables.items()}
        conversions: list[tuple[int, Conversion]] = []
        for position, old_input in enumerate(move.inputs):
            name, table = old_tables[old_input]
            columns = {column(i): column(old) for i, old in enumerate(move.fields[position]) if old is not None}
            schema = spec.input_schemas[position]
            if any(table.columns.get(old) != schema[new] for new, old in columns.items()):
                raise misfit(spec, self.folder, f"{name} does not hold the rows of input {position}")
            keys = spec.fields.keys[position]
            filters = tuple(move.filters[position]) if move.filters else ()
            conversions.append((number, InputRows(position, name, columns, tuple(keys), filters, time_zone)))
        return StateLoad(tuple(conversions))

    def times(self, job: JobGraph, stored_times: Mapping[int, str]) -> dict[int, str]:
        """Per operator how far event time has come, as JSON. Where rows come on other ways than before, only the
        watermark of the operator is known.

        Args:
            job: the job.
            stored_times: the same by number of the old operator.
        """
        times: dict[int, str] = {}
        for number, spec in enumerate(job.operators):
            origin = self.of(spec)
            if origin is None or origin not in stored_times or not spec.event_time:
                continue
            event_time = EventTime.from_json(json.loads(stored_times[origin]))
            if self.entries[origin].channels != spec.channels:
                event_time = EventTime(event_time.watermark, event_time.since)
            times[number] = json.dumps(event_time.to_json())
        return times


def _load(
    kernel: Kernel, origin: int, columns: Mapping[str, Mapping[str, str]], move: Move | None, time_zone: str
) -> StateLoad:
    """What is made of the state of an old operator.

    Args:
        kernel: of the new operator.
        origin: the number of the old one.
        columns: per table, for each column the one of the old table of the same name.
        move: how the old state is moved; None where it stays as it is.
        time_zone: of the session.
    """
    if move is not None and move.form == "groups":
        assert isinstance(kernel, GroupAggregateKernel)
        table = kernel.tables[0]
        filters = tuple(move.filters[0]) if move.filters else ()
        groups = Groups(table.name, columns[table.name], table.lookup, filters, time_zone)
        return StateLoad(((origin, groups),), MergeGroups(kernel))
    return StateLoad(((origin, SameRows(tuple((t.name, columns[t.name]) for t in kernel.tables))),))
