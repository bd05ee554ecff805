"""A checkpoint as somebody who only looks at it sees it: its plan, its last micro-batch, its operators with state.

Nothing here needs Spark; :mod:`runtime.inspect.stored_state` reads the state itself. Nothing is ever written to a
checkpoint, and no lock is taken: a running job is not disturbed.

Codes: CKPT024, CKPT041 to CKPT044, and CKPT001, CKPT002, CKPT005 of :mod:`runtime.checkpoint.directory`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from stateplan.common.errors import CheckpointError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath
from stateplan.common.ttl import TtlConfig
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_ttls import ttl_configs
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.runtime.checkpoint.directory import Checkpoint
from stateplan.runtime.checkpoint.live_ttl import Record
from stateplan.runtime.checkpoint.slots import Layout, OperatorEntry
from stateplan.runtime.hashing import slot_label
from stateplan.runtime.inspect.stored_tables import short_names, stored_tables
from stateplan.runtime.kernel import StateTable
from stateplan.runtime.spark.checkpoint_files import INSTANTS, BatchOffsets, SparkCheckpoint


@dataclass(frozen=True)
class Snapshot:
    """A checkpoint after one micro-batch.

    Attributes:
        folder: the checkpoint.
        plan_text: the plan that it belongs to.
        layout: which slots belong to which operator of the plan.
        key_groups: into which state is split.
        batch: the micro-batch after which state is looked at.
        batch_time: when Spark began that micro-batch, ms since 1970.
        now: the instant that ages are counted from, ms since 1970.
        clock: what ``now`` is: ``wall clock``, ``replay clock`` (the last instant played) or ``given``.
        newest: whether ``batch`` is the last committed one.
    """

    folder: AnyPath
    plan_text: str
    layout: Layout
    key_groups: int
    batch: int
    batch_time: int
    now: int
    clock: str
    newest: bool

    @property
    def spark(self) -> SparkCheckpoint:
        """Spark's part of the checkpoint."""
        return SparkCheckpoint.of(self.folder)

    @staticmethod
    def open(folder: AnyPath, batch: int | None = None, at: int | None = None) -> Snapshot:
        """A checkpoint after its last micro-batch, or after ``batch``.

        Args:
            folder: its directory.
            batch: a micro-batch whose state Spark still has.
            at: the instant to count ages from, ms since 1970.

        Raises:
            CheckpointError: CKPT001, CKPT002, it is not a checkpoint; CKPT041, it has no finished micro-batch;
                CKPT043, no such micro-batch; CKPT005, it is damaged or of another version.
        """
        facts = Checkpoint.look(folder)
        spark = facts.spark
        batches = spark.committed_batches
        if not batches or not facts.layouts:
            raise CheckpointError("CKPT041", folder=folder)
        if batch is None:
            batch = batches[-1]
        elif batch not in batches:
            raise CheckpointError("CKPT043", folder=folder, batch=batch, first=batches[0], last=batches[-1])
        layout = facts.layouts[0]
        offsets = _offsets(spark, batch)
        replays = _replays(layout)
        replay_time = _instant(replays, offsets, _instants(folder)) if replays else None
        now, clock = (at, "given") if at is not None else (replay_time, "replay clock")
        if now is None:
            now, clock = time.time_ns() // 1_000_000, "wall clock"
        newest = batch == batches[-1]
        return Snapshot(folder, facts.plan_text, layout, facts.key_groups, batch, offsets.time, now, clock, newest)

    def played(self, batches: Iterable[int]) -> dict[int, int]:
        """The last instant that a replay had played, of each of some micro-batches. Raises CheckpointError CKPT005."""
        replays, instants = _replays(self.layout), _instants(self.folder)
        return {batch: _instant(replays, _offsets(self.spark, batch), instants) for batch in batches}

    def newer(self) -> Snapshot | None:
        """The checkpoint now, when another micro-batch has finished since; else None."""
        snapshot = Snapshot.open(self.folder, None, self.now if self.clock == "given" else None)
        return snapshot if snapshot.batch != self.batch else None


def _offsets(spark: SparkCheckpoint, batch: int) -> BatchOffsets:
    """What was planned for a micro-batch. Raises CheckpointError CKPT005."""
    try:
        return spark.offsets(batch)
    except (OSError, ValueError) as cause:
        raise CheckpointError("CKPT005.damaged_file", file=spark.offset_log / str(batch), why=cause) from cause


def _replays(layout: Layout) -> list[int]:
    """Which sources say what a replay plays; none of a job on the wall clock."""
    return [i for i, source in enumerate(layout.sources) if source.markers == INSTANTS]


def _instants(folder: AnyPath) -> list[str]:
    """All instants of a replay, ms since 1970, in order."""
    names = sorted(p.name for p in (folder / "splits" / INSTANTS).glob("[0-9]*_*"))
    return [name.split("_", 1)[1] for name in names]


def _instant(replays: Sequence[int], offsets: BatchOffsets, instants: Sequence[str]) -> int:
    """The last instant that a replay has played."""
    played = instants[: max(map(offsets.log_offset, replays)) + 1]
    return int(played[-1]) if played else 0


# ---- operators -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableState:
    """One table of state of an operator.

    Attributes:
        table: as its kernel has it.
        name: short: ``rows`` for the main table of a state, else what sets it apart from that.
        labels: for each column that means something to people, its name.
    """

    table: StateTable
    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True)
class OperatorState:
    """An operator that keeps state.

    Attributes:
        node: the node of the plan.
        entry: where its state is.
        tables: its tables, in the order of its kernel.
        ttl: per ``state`` entry of the plan, how it ages.
    """

    node: ExecNode
    entry: OperatorEntry
    tables: tuple[TableState, ...]
    ttl: tuple[TtlConfig, ...]

    @property
    def name(self) -> str:
        return self.entry.name

    def of_state(self, index: int) -> tuple[TableState, ...]:
        """The tables that age by the ``state`` entry ``index`` of the plan."""
        return tuple(t for t in self.tables if t.table.slot == index)

    def labels(self, key_groups: int) -> dict[int, int]:
        """Spark's grouping keys of its key groups."""
        return {slot_label(self.entry.first + group): group for group in range(key_groups)}

    def table(self, name: str, index: int | None = None) -> TableState:
        """A table by its short or its full name.

        Raises:
            CheckpointError: CKPT044, it does not exist.
        """
        pool = self.tables if index is None else self.of_state(index)
        state_table = next((t for t in pool if name in (t.name, t.table.name)), None)
        if state_table is None:
            names = [t.name for t in pool]
            raise CheckpointError(
                "CKPT044", state=self.name, table=name, expected=", ".join(names), hint=nearest(name, names)
            )
        return state_table


def operator_states(
    snapshot: Snapshot, graph: ExecGraph, session: Mapping[str, str], record: Record | None = None
) -> tuple[OperatorState, ...]:
    """The operators of a plan whose state a checkpoint holds, in the order of the plan.

    Args:
        graph: the plan of the checkpoint.
        session: options of the session, for TTLs that the plan does not say.
        record: which TTL holds since which micro-batch, where that is not what the plan says.

    Raises:
        CheckpointError: CKPT024, the state of an operator is laid out otherwise than by this version.
    """
    entries = {e.node: e for e in snapshot.layout.operators}
    out = []
    for node in graph.nodes:
        entry = entries.get(node.id)
        if entry is None:
            continue
        tables = _tables(snapshot, entry)
        out.append(
            OperatorState(
                node, entry, tables, _configs(snapshot, entry, ttl_configs(node, session), record or Record())
            )
        )
    return tuple(out)


def _configs(
    snapshot: Snapshot, entry: OperatorEntry, configs: Sequence[TtlConfig], record: Record
) -> tuple[TtlConfig, ...]:
    """How the states of an operator age in the micro-batch of the snapshot."""
    live_configs = []
    for index, config in enumerate(configs or (TtlConfig(),)):
        live = record.get((entry.uid, index))
        live_configs.append(config if live is None else replace(config, ttl=live.during(snapshot.batch)))
    return tuple(live_configs)


def _tables(snapshot: Snapshot, entry: OperatorEntry) -> tuple[TableState, ...]:
    """The tables of an operator as the checkpoint notes them: functions that its kernel needs may be those of another
    session."""
    tables = stored_tables(entry.tables)
    names = short_names(tables)
    return tuple(TableState(t, names[t.name], dict(entry.tables[t.name].labels)) for t in tables)
