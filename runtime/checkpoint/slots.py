"""Which slots of Spark's state belong to which operator, over the life of a checkpoint.

An operator has one slot per key group, in a range of its own that it keeps from plan to plan. An operator that starts
empty gets a fresh range; the range it had, as that of an operator that is gone, is *dropped*: in the first micro-batch
a message makes each of its slots remove its state, and after that the range is free again. State whose columns change
stays where it is, under a further version: runs of former versions are read as if they had the present columns.

Codes: CKPT021 to CKPT024.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType
from typing import Protocol

from pydantic import TypeAdapter

from stateplan.common.errors import CheckpointError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.history_table import HistoryTable
from stateplan.execnodes.graph import ExecGraph
from stateplan.functions.rex import Rex
from stateplan.runtime.active_plan import IdleSource
from stateplan.runtime.checkpoint.state_columns import StateColumns
from stateplan.runtime.jobgraph import (
    IDLE,
    DroppedRange,
    JobGraph,
    OperatorSpec,
    Pipeline,
    SourceSpec,
    natural_order,
)
from stateplan.runtime.kernel import FormerColumns, Kernel, StateColumn, StateTable


class ValuesOrigin(Protocol):
    """The single values of an old call; see :class:`plans.derivation.ValueOrigin`."""

    @property
    def table(self) -> str: ...

    @property
    def keys(self) -> tuple[str, ...]: ...

    @property
    def count(self) -> str | None: ...


class CallOrigin(Protocol):
    """Where an aggregate call finds what it keeps; see :class:`plans.derivation.CallSource`."""

    @property
    def call(self) -> int | None: ...

    @property
    def parts(self) -> Mapping[str, str]: ...

    @property
    def converts(self) -> bool: ...

    @property
    def factor(self) -> int: ...

    @property
    def addend(self) -> int: ...

    @property
    def values(self) -> ValuesOrigin | None: ...


class TableOrigin(Protocol):
    """Where a state table finds its rows; see :class:`plans.derivation.TableSource`."""

    @property
    def table(self) -> str: ...

    @property
    def columns(self) -> Mapping[str, str]: ...

    @property
    def counts(self) -> tuple[str, ...]: ...

    @property
    def is_not_null(self) -> str | None: ...


class Move(Protocol):
    """Where state finds what it needs in old state; see :class:`plans.derivation.StateMove`."""

    @property
    def fields(self) -> Sequence[Sequence[int | None]]: ...

    @property
    def calls(self) -> Sequence[CallOrigin]: ...

    @property
    def form(self) -> str: ...

    @property
    def inputs(self) -> Sequence[int]: ...

    @property
    def nodes(self) -> Sequence[int]: ...

    @property
    def filters(self) -> Sequence[Sequence[Rex]]: ...

    @property
    def tables(self) -> Sequence[TableOrigin]: ...

    @property
    def exprs(self) -> Sequence[Mapping[int, Rex]]: ...

    @property
    def watermark(self) -> int | None: ...


@dataclass(frozen=True)
class Continuation:
    """How a plan continues from the state of the plan that wrote a checkpoint. Nodes are named by their ids.

    Attributes:
        graph: the plan that wrote it.
        operators: for each operator that uses existing state, the old one that wrote it.
        sources: for each source, the old one whose position it continues from.
        sinks: for each sink, the old one in whose place it writes.
        moves: for each operator whose state changes, how.
        anew: the operators whose state is made from the history of their inputs.
        comparisons: for those of them that are compared with old state, the old operator, and the numbers of the calls
            of both that must keep the same.
        begins: for each source whose history begins later than the source, when; ms since 1970.
        tables: for each source whose rows another table holds, that table.
        keepers: for those of them whose state follows from rows that operators have kept, the inputs with these rows,
            as node and number.
        kept_moves: for those of these inputs whose rows an operator has kept that the plan does not continue from, how
            they come from these.
        may_begin_empty: whether those of them may begin empty whose history cannot be read again.
        corrected: for each sink whose table gets corrections, the old sink that has written it; None for none.
        leaves_sources: whether sources that the plan does not have any more may stay, as idle ones.
    """

    graph: ExecGraph
    operators: Mapping[int, int]
    sources: Mapping[int, int]
    sinks: Mapping[int, int] = field(default_factory=dict)
    moves: Mapping[int, Move] = field(default_factory=dict)
    anew: frozenset[int] = frozenset()
    comparisons: Mapping[int, tuple[int, Sequence[tuple[int, int]]]] = field(default_factory=dict)
    begins: Mapping[int, int] = field(default_factory=dict)
    tables: Mapping[int, HistoryTable] = field(default_factory=dict)
    keepers: Mapping[int, frozenset[tuple[int, int]]] = field(default_factory=dict)
    kept_moves: Mapping[tuple[int, int], Move] = field(default_factory=dict)
    may_begin_empty: bool = False
    corrected: Mapping[int, int | None] = field(default_factory=dict)
    leaves_sources: bool = False

    @property
    def old_operators(self) -> frozenset[int]:
        """The old operators whose state is used."""
        moves = [self.moves[node] for node in self.operators if node in self.moves] + [*self.kept_moves.values()]
        return frozenset(self.operators.values()).union(*(move.nodes for move in moves))

    def keepers_of(self, keepers: Iterable[tuple[int, int]]) -> frozenset[int]:
        """The old operators that have kept the rows of inputs."""
        nodes = (self.kept_moves[key].nodes if key in self.kept_moves else (self.operators[key[0]],) for key in keepers)
        return frozenset().union(*nodes)

    @staticmethod
    def same(graph: ExecGraph) -> Continuation:
        """Of the plan that wrote the checkpoint itself."""
        ids = {n.id: n.id for n in graph.nodes}
        return Continuation(graph, ids, ids, ids)


@dataclass(frozen=True)
class TableEntry:
    """A state table as it is laid out.

    Attributes:
        slot: the state of the operator that it belongs to.
        columns: column to its Polars type.
        lookup, identity: columns by which rows are found, and distinguished.
        labels: what people call the columns.
    """

    slot: int
    columns: StateColumns
    lookup: tuple[str, ...]
    identity: tuple[str, ...]
    labels: Mapping[str, str]

    @staticmethod
    def of(kernel: Kernel, table: StateTable) -> TableEntry:
        """What the checkpoint records of a table of the kernel's state."""
        return TableEntry(
            table.slot, dict(table.schema), tuple(table.lookup), tuple(table.identity), kernel.labels(table)
        )

    def keeps_the_same(self, other: TableEntry) -> bool:
        """Whether another one is laid out alike, whatever people call its columns."""
        return self == replace(other, labels=self.labels)


@dataclass(frozen=True)
class OperatorEntry:
    """The state of an operator.

    Attributes:
        node, uid, name: the operator; ``node`` is its id in the plan of the layout.
        first: its first slot.
        level: of Spark's stateful operators the one that holds it, from 1.
        tables: its state tables as they are laid out.
        channels: see :attr:`OperatorSpec.channels`.
        version: how often its columns have changed.
        former_columns: the columns of all former versions.
    """

    node: int
    uid: str
    name: str
    first: int
    level: int
    tables: Mapping[str, TableEntry]
    channels: tuple[int, ...]
    version: int = 0
    former_columns: FormerColumns = field(default_factory=dict)


AT_RESTART = 1 << 62
"""In place of a micro-batch: the first one of the next run."""


@dataclass(frozen=True)
class DroppedEntry:
    """A range of slots that is dropped in micro-batch ``since``."""

    first: int
    level: int
    since: int


@dataclass(frozen=True)
class SourceEntry:
    """A source, in Spark's order. ``node`` is None for the end of bounded input, and :data:`IDLE` for a source that the
    plan does not have any more. ``markers`` names its marker files."""

    node: int | None
    uid: str = ""
    markers: str = ""


@dataclass(frozen=True)
class Layout:
    """What a checkpoint holds, and for which plan.

    Attributes:
        levels: Spark's stateful operators.
        operators, sources: those of the plan.
        sinks: under which name each sink writes, by its id in the plan.
        dropped: ranges that hold state of nobody.
        plan: hash of the text of the plan.
        readers: uids of the steps that read how far event time has advanced.
    """

    levels: int
    operators: tuple[OperatorEntry, ...]
    sources: tuple[SourceEntry, ...]
    sinks: Mapping[str, str]
    dropped: tuple[DroppedEntry, ...] = ()
    plan: str = ""
    readers: tuple[str, ...] = ()


LAYOUTS = TypeAdapter(tuple[Layout, ...])
"""The JSON of layouts."""


def laid_out(
    job: JobGraph,
    before: Layout | None,
    continuation: Continuation | None,
    next_batch: int,
    folder: str,
    origins: Mapping[int, OperatorEntry] = MappingProxyType({}),
) -> tuple[JobGraph, Layout]:
    """The job with its slots, and the layout that says so.

    Args:
        job: as translated.
        before: what the checkpoint holds; None for a new one.
        continuation: how the plan continues from it, or from the checkpoint of ``origins``.
        next_batch: the first micro-batch that will run.
        folder: the checkpoint, for messages.
        origins: by node of the job, operators of another checkpoint whose state is copied to a new one, slot by slot.

    Raises:
        CheckpointError: CKPT021, more levels than the checkpoint has; CKPT022, other sources; CKPT024, state that is
            laid out otherwise.
    """
    if before is None or continuation is None:
        sources = _in_natural_order(job, {s.node: s.node for s in job.sources})
        old_layout = _Existing(
            job.levels, sources, moves={} if continuation is None else continuation.moves, origins=origins
        )
    else:
        old_layout = _existing(job, before, continuation, next_batch, folder)
    entries = _entries(job, old_layout, folder)
    sinks = tuple(replace(s, uid=old_layout.sinks.get(s.node, s.uid)) for s in job.sinks)
    layout = Layout(
        old_layout.levels,
        entries,
        old_layout.sources,
        {str(s.node): s.uid for s in sinks},
        old_layout.free,
        readers=tuple(reader.uid for reader in job.readers),
    )
    return _with_slots(replace(job, sinks=sinks), layout, next_batch), layout


@dataclass(frozen=True)
class _Existing:
    """What a job finds in its checkpoint.

    Attributes:
        levels: Spark's stateful operators.
        sources: those of the job, in Spark's order.
        operators: for each operator of the job that uses existing state, the entry of that state.
        moves: for those of them whose state changes, how.
        free: ranges that hold state of nobody.
        sinks: for each sink that writes in the place of another one, the name under which that one wrote.
        origins: see :func:`laid_out`.
    """

    levels: int
    sources: tuple[SourceEntry, ...]
    operators: Mapping[int, OperatorEntry] = field(default_factory=dict)
    moves: Mapping[int, Move] = field(default_factory=dict)
    free: tuple[DroppedEntry, ...] = ()
    sinks: Mapping[int, str] = field(default_factory=dict)
    origins: Mapping[int, OperatorEntry] = field(default_factory=dict)


def _existing(job: JobGraph, before: Layout, continuation: Continuation, next_batch: int, folder: str) -> _Existing:
    """What a job continues from. Raises the same errors as :func:`laid_out`."""
    if job.levels > before.levels:
        raise _too_deep(job, before.levels, folder)
    sources = _sources(job, before, continuation, folder)
    old_entries = {o.node: o for o in before.operators}
    operators: dict[int, OperatorEntry] = {}
    for spec in job.operators:
        if spec.node in continuation.operators:
            old = old_entries.get(continuation.operators[spec.node])
            if old is None:
                raise misfit(spec, folder, "it holds nothing of it")
            operators[spec.node] = old
    remaining = {entry.first for entry in operators.values()}
    pending = [replace(d, since=next_batch) for d in before.dropped if d.since >= next_batch]
    pending += [DroppedEntry(o.first, o.level, next_batch) for o in before.operators if o.first not in remaining]
    sinks = {new: before.sinks[str(old)] for new, old in continuation.sinks.items() if str(old) in before.sinks}
    return _Existing(before.levels, sources, operators, continuation.moves, tuple(pending), sinks)


def _entries(job: JobGraph, old_layout: _Existing, folder: str) -> tuple[OperatorEntry, ...]:
    """The entries of the operators of a job: an operator that starts empty gets a free range of slots."""
    owners = (*old_layout.operators.values(), *old_layout.origins.values())
    used_slots = sorted({o.first for o in owners} | {d.first for d in old_layout.free})
    entries: list[OperatorEntry] = []
    for spec in job.operators:
        tables = {table.name: TableEntry.of(spec.kernel, table) for table in spec.kernel.tables}
        in_place = old_layout.operators.get(spec.node)
        if in_place is not None and (in_place.level != spec.level or in_place.channels != spec.channels):
            raise misfit(spec, folder, "it stands elsewhere in the job")
        old = in_place or old_layout.origins.get(spec.node)
        if old is None:
            first = _free(used_slots, job.key_groups)
            insort(used_slots, first)
            entries.append(OperatorEntry(spec.node, spec.uid, spec.name, first, spec.level, tables, spec.channels))
        else:
            entries.append(_continue_entry(spec, old, tables, old_layout.moves.get(spec.node), folder))
    return tuple(entries)


def _with_slots(job: JobGraph, layout: Layout, next_batch: int) -> JobGraph:
    """The job with the slots of a layout."""
    places = {s.node: i for i, s in enumerate(job.sources)}
    marks = {s.node: s.markers for s in layout.sources}
    order: list[int | None] = []
    idle_sources: list[SourceSpec] = []
    for entry in layout.sources:
        if entry.node == IDLE:
            order.append(len(job.sources) + len(idle_sources))
            idle_sources.append(_idle(entry))
        else:
            order.append(None if entry.node is None else places[entry.node])
    used_slots = [o.first for o in layout.operators] + [d.first for d in layout.dropped]
    return replace(
        job,
        sources=(*(replace(s, marks=marks[s.node]) for s in job.sources), *idle_sources),
        operators=tuple(
            replace(spec, version=entry.version, former_columns=entry.former_columns)
            for spec, entry in zip(job.operators, layout.operators, strict=True)
        ),
        slots=tuple(entry.first for entry in layout.operators),
        sink_slots=max((first + job.key_groups for first in used_slots), default=0),
        unused_ranges=tuple(DroppedRange(d.first, d.level) for d in layout.dropped),
        least_levels=layout.levels,
        order=tuple(order),
        first_batch=next_batch,
    )


def _idle(entry: SourceEntry) -> SourceSpec:
    return SourceSpec(entry.uid, "", "", IdleSource(), Pipeline((), ()), IDLE, entry.markers)


def _free(used_slots: Sequence[int], groups: int) -> int:
    """The first slot of the lowest range that nobody has; ``used_slots`` are the first slots of ranges, ascending."""
    at = 0
    for first in used_slots:
        if first - at >= groups:
            break
        at = max(at, first + groups)
    return at


def _continue_entry(
    spec: OperatorSpec, old: OperatorEntry, tables: Mapping[str, TableEntry], move: Move | None, folder: str
) -> OperatorEntry:
    """The entry of an operator that uses the state of ``old``, in its slots."""
    entry = replace(old, node=spec.node, uid=spec.uid, name=spec.name, level=spec.level, tables=tables)
    if move is None and _keep_the_same(old.tables, tables):
        return entry
    columns = source_columns(spec, old, tables, move, folder)
    former_columns: dict[int, Mapping[str, Mapping[str, str]]] = {
        version: {t: {new: names[t][was] for new, was in columns[t].items() if was in names[t]} for t in columns}
        for version, names in old.former_columns.items()
    }
    return replace(entry, version=old.version + 1, former_columns={**former_columns, old.version: columns})


def _keep_the_same(old: Mapping[str, TableEntry], new: Mapping[str, TableEntry]) -> bool:
    return old.keys() == new.keys() and all(table.keeps_the_same(new[name]) for name, table in old.items())


def name_before(name: str, column_: StateColumn, move: Move) -> str:
    """The name of a column in the state before ``move``."""
    if column_.field is not None:
        number, field = column_.field
        return f"c{move.fields[number if len(move.fields) > 1 else 0][field]}"
    if column_.call is not None and move.calls:
        origin = move.calls[column_.call]
        label = origin.parts.get(column_.label, column_.label)
        return label if origin.call is None else f"{label}{origin.call}"
    return name


def is_computed(column_: StateColumn, move: Move | None) -> bool:
    """Whether a column has values that no column of the state before ``move`` has."""
    if move is None:
        return False
    if column_.field is not None and move.exprs:
        number, field = column_.field
        return field in move.exprs[number if len(move.fields) > 1 else 0]
    return column_.call is not None and bool(move.calls) and move.calls[column_.call].converts


def source_columns(
    spec: OperatorSpec, old: OperatorEntry, tables: Mapping[str, TableEntry], move: Move | None, folder: str
) -> dict[str, dict[str, str]]:
    """Per table of an operator, for each column that is not computed the one that holds it in the state of ``old``.

    Args:
        spec: the operator.
        old: the entry of the state that it uses.
        tables: the tables of the operator, as they are to be laid out.
        move: how the state is rewritten; None where it is used as it is.
        folder: the checkpoint of ``old``, for messages.

    Raises:
        CheckpointError: CKPT024, the state does not fit.
    """
    if move is not None:
        return _move_tables(spec, old, tables, move, folder)
    if not _keep_the_same(old.tables, {t.name: _as_before(tables[t.name], old, t) for t in spec.kernel.tables}):
        raise misfit(spec, folder, f"it holds {_columns(old.tables)}, and {_columns(tables)} is kept")
    return {name: {c: c for c in table.columns if c in old.tables[name].columns} for name, table in tables.items()}


def _as_before(entry: TableEntry, old: OperatorEntry, table: StateTable) -> TableEntry:
    """A table without the columns that it has had only since the state of ``old`` was written."""
    was = old.tables.get(table.name)
    later_columns = {c for c in table.later_columns if was is not None and c not in was.columns}
    return replace(
        entry,
        columns={name: dtype for name, dtype in entry.columns.items() if name not in later_columns},
        identity=tuple(name for name in entry.identity if name not in later_columns),
    )


def _fits(old: TableEntry | None, new: TableEntry, names: Mapping[str, str]) -> bool:
    """Whether the rows of a table can stay where they are. ``names`` are the old columns of the new ones."""
    identity = {names[n] for n in new.identity}
    return old is not None and tuple(names[n] for n in new.lookup) == old.lookup and identity == set(old.identity)


def _move_tables(
    spec: OperatorSpec, old: OperatorEntry, tables: Mapping[str, TableEntry], move: Move, folder: str
) -> dict[str, dict[str, str]]:
    """Per table, for each column the one that holds it in the state of ``old``."""
    out: dict[str, dict[str, str]] = {}
    for table in spec.kernel.tables:
        was, now = old.tables.get(table.name), _as_before(tables[table.name], old, table)
        names = {
            name: name_before(name, c, move)
            for name, c in table.columns.items()
            if name in now.columns and not is_computed(c, move)
        }
        holds = was is not None and all(was.columns.get(old) == now.columns[new] for new, old in names.items())
        if not holds or (move.form == "columns" and not _fits(was, now, names)):
            raise misfit(spec, folder, f"{table.name} cannot be rewritten from what it holds")
        out[table.name] = names
    return out


def _sources(job: JobGraph, before: Layout, continuation: Continuation, folder: str) -> tuple[SourceEntry, ...]:
    """The sources in the order in which the checkpoint counts them."""
    came = {**continuation.sources, **{s.node: s.node for s in job.sources if s.node < 0}}  # no nodes of the plan
    now = {came[s.node]: s for s in job.sources if s.node in came}
    out = []
    for entry in before.sources:
        if entry.node is None or entry.node == IDLE:
            out.append(entry)
        elif entry.node in now:
            spec = now.pop(entry.node)
            out.append(SourceEntry(spec.node, spec.uid, entry.markers))
        elif continuation.leaves_sources:
            out.append(replace(entry, node=IDLE))
    closes = any(e.node is None for e in before.sources)
    placed_count = sum(e.node is not None and e.node != IDLE for e in out)
    if len(out) < len(before.sources) or placed_count < len(job.sources) or (job.event_time and not closes):
        old = len(before.sources) - closes
        counts = (
            f"{old} {'source' if old == 1 else 'sources'}{', by event time' if closes else ''}",
            f"{len(job.sources)}{', by event time' if job.event_time else ''}",
        )
        raise CheckpointError("CKPT022", folder=folder, what=counts)
    return tuple(out)


def _too_deep(job: JobGraph, levels: int, folder: str) -> CheckpointError:
    deep = next(o for o in job.operators if o.level > levels)
    return CheckpointError("CKPT021", name=deep.name, level=deep.level - 1, folder=folder, levels=levels)


def misfit(spec: OperatorSpec, folder: str, why: str) -> CheckpointError:
    """CKPT024: the state of an operator does not fit."""
    return CheckpointError("CKPT024", name=spec.name, folder=folder, why=why)


def _columns(tables: Mapping[str, TableEntry]) -> str:
    return "; ".join(f"{name}({', '.join(table.labels.values())})" for name, table in tables.items())


def _in_natural_order(job: JobGraph, nodes: Mapping[int, int]) -> tuple[SourceEntry, ...]:
    """The sources of a job, under the ids that ``nodes`` gives for theirs."""
    sources = (None if i is None else job.sources[i] for i in natural_order(job))
    return tuple(SourceEntry(None) if s is None else SourceEntry(nodes[s.node], s.uid, s.marks) for s in sources)
