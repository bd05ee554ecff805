"""Where the operators of a job get their state from: which operators of the old plan, and by which conversion."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from stateplan.common.changelog import column
from stateplan.common.lazy_dataclass import dataclass
from stateplan.evolution.comparison import comparison_of
from stateplan.evolution.conversion import (
    Computation,
    Conversion,
    ExpressionValues,
    FrameRows,
    InOtherType,
    InputRows,
    OldTable,
    OtherSum,
    SliceRows,
    StateLoad,
    TableRows,
    TimedRows,
)
from stateplan.evolution.gathers import FirstRows, MergeGroups, group_kernel
from stateplan.evolution.single_values import CallFromValues, MergeValues
from stateplan.functions.rex import Rex
from stateplan.runtime.checkpoint.slots import (
    Continuation,
    Layout,
    Move,
    OperatorEntry,
    is_computed,
    misfit,
    name_before,
    source_columns,
)
from stateplan.runtime.jobgraph import Gather, JobGraph, OperatorSpec
from stateplan.runtime.kernel import StateColumn, StateTable
from stateplan.runtime.kernels.common.topn import SEQUENCE
from stateplan.runtime.kernels.window_aggregate import DUE, NEXT, WindowAggregateKernel
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

    def copies(self, job: JobGraph) -> dict[int, OperatorEntry]:
        """By node of the new plan, the old operators whose state can be used as it is stored, at most with other
        columns. What several operators use stays as it is for one of them."""
        entries: dict[int, OperatorEntry] = {}
        for spec in job.operators:
            number = self.of(spec)
            entry = None if number is None else self.entries[number]
            if entry is None or entry in entries.values() or entry.channels != spec.channels:
                continue
            move = self.continuation.moves.get(spec.node)
            columns = [column for table in spec.kernel.tables for column in table.columns.values()]
            has_same_rows = move is None or (
                move.form == "columns"
                and len(entry.tables) == len(spec.kernel.tables)
                and not any(is_computed(column, move) for column in columns)
            )
            if has_same_rows:
                entries[spec.node] = entry
        return entries

    def old_state(self, spec: OperatorSpec, index: int) -> tuple[str, int] | None:
        """The old state whose rows a state of an operator takes over, by uid and number; None for none."""
        number, move = self.of(spec), self.continuation.moves.get(spec.node)
        if number is None:
            return None
        if move is not None and move.nodes:
            number = self._number(move.nodes[index])
        return self.entries[number].uid, move.inputs[index] if move is not None and move.inputs else index

    def _number(self, node: int) -> int:
        """The number of the old operator with this id in its plan."""
        return next(number for number, entry in enumerate(self.entries) if entry.node == node)

    def loads(self, job: JobGraph, layout: Layout, time_zone: str) -> tuple[StateLoad | None, ...]:
        """Per operator where its state comes from; None for one that begins empty. Raises CheckpointError CKPT024."""
        return tuple(
            self._comparison(spec) if (number := self.of(spec)) is None else self._load(spec, entry, number, time_zone)
            for spec, entry in zip(job.operators, layout.operators, strict=True)
        )

    def _comparison(self, spec: OperatorSpec) -> StateLoad | None:
        """What compares state of an operator that is made anew with the old one; None for nothing."""
        node, calls = self.continuation.comparisons.get(spec.node, (None, ()))
        number = next((n for n, entry in enumerate(self.entries) if entry.node == node), None)
        comparison = None if number is None else comparison_of(spec, self.entries[number], calls)
        return None if number is None or comparison is None else StateLoad(((number, comparison[0]),), comparison[1])

    def kept_inputs(
        self, job: JobGraph, keepers: Collection[tuple[int, int]], time_zone: str
    ) -> tuple[StateLoad | None, ...]:
        """Per operator the rows of those of its inputs that are in ``keepers``, as node and number; None for none.

        Raises:
            CheckpointError: CKPT024, the state does not fit.
        """
        numbers = [[i for i in range(spec.inputs) if (spec.node, i) in keepers] for spec in job.operators]
        return tuple(
            StateLoad(tuple(self._kept_input(spec, i, time_zone) for i in some)) if some else None
            for spec, some in zip(job.operators, numbers, strict=True)
        )

    def _kept_input(self, spec: OperatorSpec, number: int, time_zone: str) -> tuple[int, InputRows]:
        """The old operator that has kept the rows of an input, and how they come from these."""
        own_move = self.continuation.kept_moves.get((spec.node, number))
        move, position = (own_move, 0) if own_move is not None else (self.continuation.moves.get(spec.node), number)
        origin = self._number(move.nodes[position]) if move is not None and move.nodes else self.of(spec)
        assert origin is not None  # else its rows are not kept
        schema = spec.input_schemas[number]
        tables = {table.slot: (name, table) for name, table in self.entries[origin].tables.items()}
        name, table = tables[move.inputs[position] if move is not None and move.inputs else number]
        places = range(len(schema)) if move is None else move.fields[position]
        columns = {column(i): column(was) for i, was in enumerate(places) if was is not None}
        columns = {now: was for now, was in columns.items() if was in table.columns}
        if any(table.columns[was] != schema[now] for now, was in columns.items()):
            raise misfit(spec, self.folder, f"{name} does not hold the rows of input {number}")
        further = _computed_fields(move, position, time_zone)
        return origin, InputRows(number, name, columns, (), _filters(move, position), time_zone, further)

    def _load(self, spec: OperatorSpec, entry: OperatorEntry, number: int, time_zone: str) -> StateLoad:
        """What is made of the state of the old operator with this number. Raises CheckpointError CKPT024."""
        old, move = self.entries[number], self.continuation.moves.get(spec.node)
        form = "columns" if move is None else move.form
        conversions: Sequence[Conversion]
        if move is not None and form == "rows":
            numbers = [self._number(node) for node in move.nodes] or [number] * len(move.inputs)
            return StateLoad(tuple((n, self._rows(spec, i, n, move, time_zone)) for i, n in enumerate(numbers)))
        if move is not None and form == "slices":
            conversions = [self._slices(spec, old, move, time_zone)]
        else:
            keys = None if form in ("columns", "frames", "timed") else spec.kernel.tables[0].lookup
            computations = tuple(_computations(table.columns, move, time_zone) for table in spec.kernel.tables)
            tables = self._tables(spec, entry, old, move)
            calls = _calls_from_values(spec, move)
            filters = tuple(
                _filters(move, table.slot if form == "timed" else 0) if _has_fields(table) else ()
                for table in spec.kernel.tables
            )
            parts = tables, keys, filters, time_zone, computations, calls
            other_release = misfit(spec, self.folder, "it does not say since when its watermark holds")
            conversions = [
                FrameRows(*parts, spec.kernel)
                if form == "frames"
                else TimedRows(*parts, spec.kernel, other_release)
                if form == "timed"
                else TableRows(*parts)
            ]
        gather = _GATHERS[form](spec.kernel) if form in _GATHERS else None
        return StateLoad(tuple((number, conversion) for conversion in conversions), gather)

    def _tables(
        self, spec: OperatorSpec, entry: OperatorEntry, old: OperatorEntry, move: Move | None
    ) -> tuple[OldTable, ...]:
        """The old table of each state table. Raises CheckpointError CKPT024."""
        tables = spec.kernel.tables
        if move is not None and move.tables:
            for table, source in zip(tables, move.tables, strict=True):
                origin = old.tables.get(source.table)
                types = {old: table.schema[new] for new, old in source.columns.items()}
                if origin is None or any(origin.columns.get(name) != dtype for name, dtype in types.items()):
                    raise misfit(spec, self.folder, f"{table.name} cannot be made of what it holds")
            return tuple(OldTable(s.table, s.columns, s.counts, s.is_not_null) for s in move.tables)
        columns = source_columns(spec, old, entry.tables, move, self.folder)
        if move is not None and move.form == "first":
            for name, names in columns.items():
                if SEQUENCE in old.tables[name].columns:  # the first rows in order of arrival
                    names[SEQUENCE] = SEQUENCE
        return tuple(OldTable(table.name, columns[table.name]) for table in tables)

    def _rows(self, spec: OperatorSpec, position: int, number: int, move: Move, time_zone: str) -> InputRows:
        """The rows of an input that the old operator with a number has kept. Raises CheckpointError CKPT024."""
        old_tables = {table.slot: (name, table) for name, table in self.entries[number].tables.items()}
        name, table = old_tables[move.inputs[position]]
        columns = {column(i): column(old) for i, old in enumerate(move.fields[position]) if old is not None}
        schema = spec.input_schemas[position]
        if any(table.columns.get(old) != schema[new] for new, old in columns.items()):
            raise misfit(spec, self.folder, f"{name} does not hold the rows of input {position}")
        keys = tuple(spec.fields.keys[position])
        further = _computed_fields(move, position, time_zone)
        return InputRows(position, name, columns, keys, _filters(move, position), time_zone, further)

    def _slices(self, spec: OperatorSpec, old: OperatorEntry, move: Move, time_zone: str) -> SliceRows:
        """The slices of windows that the old operator has kept. Raises CheckpointError CKPT024."""
        assert isinstance(spec.kernel, WindowAggregateKernel)
        (table,), origin = spec.kernel.tables, old.tables.get(spec.kernel.tables[0].name)
        if origin is None or len(old.tables) > 1:
            raise misfit(spec, self.folder, f"{table.name} cannot be made of what it holds")
        *keys, end = table.lookup
        columns = {
            key: origin.lookup[place] for key, place in zip(keys, move.fields[0], strict=True) if place is not None
        }
        columns[end] = origin.lookup[-1]
        for name, column_ in table.columns.items():
            if name not in (*columns, NEXT, DUE) and not is_computed(column_, move):
                columns[name] = name_before(name, column_, move)
        if any(origin.columns.get(before) != table.schema[name] for name, before in columns.items()):
            raise misfit(spec, self.folder, f"{table.name} cannot be made of what it holds")
        others = {name: c for name, c in table.columns.items() if name not in columns}
        computations = _computations(others, move, time_zone)
        other_time = misfit(spec, self.folder, "event time stands elsewhere than the metrics of its job say")
        return SliceRows(table.name, columns, computations, spec.kernel, move.watermark, other_time)

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
                event_time = EventTime(event_time.watermark, event_time.since, advanced=event_time.advanced)
            times[number] = json.dumps(event_time.to_json())
        return times


def _has_fields(table: StateTable) -> bool:
    """Whether rows of a table have fields of an input."""
    return any(column_.field is not None for column_ in table.columns.values())


def _filters(move: Move | None, number: int) -> tuple[Rex, ...]:
    """The conditions on rows of an input of the old operator."""
    return tuple(move.filters[number]) if move is not None and move.filters else ()


def _computed_fields(move: Move | None, number: int, time_zone: str) -> dict[str, ExpressionValues]:
    """What computes the fields of an input that the old operator has not kept as they are."""
    expressions = move.exprs[number] if move is not None and move.exprs else {}
    return {column(i): ExpressionValues(rex, time_zone) for i, rex in expressions.items()}


def _computations(columns: Mapping[str, StateColumn], move: Move | None, time_zone: str) -> dict[str, Computation]:
    """What computes the columns of a table that the old state does not have."""
    computations: dict[str, Computation] = {}
    for name, column_ in columns.items():
        if move is None or not is_computed(column_, move):
            continue
        source = None if column_.call is None else move.calls[column_.call]
        if source is not None and (source.values is not None or move.form == "frames"):
            continue
        if source is not None and column_.label == "sum":
            columns_of_call = f"sum{source.call}", f"count{source.call}"
            computations[name] = OtherSum(*columns_of_call, source.factor, source.addend, column_.type)
        elif column_.field is None:
            computations[name] = InOtherType(name_before(name, column_, move), column_.type)
        else:
            number, field = column_.field
            computations[name] = ExpressionValues(move.exprs[number if len(move.fields) > 1 else 0][field], time_zone)
    return computations


def _calls_from_values(spec: OperatorSpec, move: Move | None) -> tuple[CallFromValues, ...]:
    """The calls of an aggregate whose columns are computed from single values."""
    sources = [] if move is None else [(i, source.values) for i, source in enumerate(move.calls)]
    return tuple(
        CallFromValues(group_kernel(spec.kernel), number, values.table, values.keys, values.count)
        for number, values in sources
        if values is not None
    )


_GATHERS: Mapping[str, Callable[[Any], Gather]] = {
    "first": FirstRows,
    "groups": MergeGroups.of,
    "merged values": MergeValues.of,
    "slices": MergeGroups.of_windows,
}
"""By the form of a move, what the receiver makes of the rows, by its kernel; nothing for the others."""
