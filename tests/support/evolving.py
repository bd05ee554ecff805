"""Two plans one after the other in this process: the second one goes on from the state of the first one."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest

from stateplan.common.errors import CheckpointError
from stateplan.connectors.splits import AssignedSplit, RangeSplit
from stateplan.evolution.conversion import StateLoad, loading
from stateplan.evolution.kept_rows import KeptFile, WriteRows, kept_sources, without_ways_to
from stateplan.evolution.load_tasks import Receivers, SendState, SendTimes, current_rows
from stateplan.evolution.origins import Origins
from stateplan.execnodes.node_ttls import ttl_configs
from stateplan.plans.diff import compare
from stateplan.plans.document import PlanDocument
from stateplan.plans.plan_side import PastState
from stateplan.plans.verdicts import severity
from stateplan.runtime.checkpoint.slots import Continuation, OperatorEntry, laid_out
from stateplan.runtime.exchange import blobs_of, decode, rows_of
from stateplan.runtime.hashing import slot_label
from stateplan.runtime.inspect.stored_state import SlotStates, StoredOperator, stored_time
from stateplan.runtime.kernel import NO_WATERMARK
from stateplan.runtime.local.levels import LocalLevels
from stateplan.runtime.local.splits import micro_batches
from stateplan.runtime.state.keyed_state import KeyedState
from stateplan.runtime.translate import translate
from stateplan.runtime.watermarks import EventTime
from stateplan.session.environment import TableEnvironment
from stateplan.session.restart import evolve_from
from tests.support.long_runs import LONG

_NUMBERS = ("@occurrence", "@arrival", "@n")
"""Columns of state that only distinguish rows, or keep them in their order."""

GROUPS = 4 if LONG else 2
"""Key groups of jobs here, where nothing else is said."""


def replayed(name: str, columns: str, changes: str = "") -> str:
    """The DDL of a table whose rows arrive at given instants; with ``changes``, the mode of ``op-json``, as changes."""
    format_ = f"'op-json', 'op-json.mode' = '{changes}'" if changes else "'json'"
    path = f"{{folder}}/{name}.json"
    return f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'replay', 'path' = '{path}', 'format' = {format_});"


def sink(columns: str = "a STRING, b BIGINT, c BIGINT, d BIGINT") -> str:
    """The DDL of ``out1``, a sink of changes."""
    options = "'connector' = 'filesystem', 'path' = '{folder}/out1', 'format' = 'debezium-json'"
    return f"CREATE TABLE out1 ({columns}) WITH ({options});"


@dataclass(frozen=True)
class Tables:
    """Tables whose rows arrive at given instants.

    Attributes:
        folder: for their files.
        ddl: statements before each query; ``{folder}`` is the folder.
    """

    folder: Path
    ddl: str

    def arrive_in(self, name: str, columns: str, rows: Sequence[Sequence[Any]]) -> None:
        """The rows of a table, as values of columns; see :meth:`arrive`."""
        names = columns.split(", ")
        self.arrive(name, [dict(zip(names, row, strict=True)) for row in rows])

    def arrive(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """The rows of a table, each with its instant as ``@at``, ms."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def plan(self, sql: str) -> PlanDocument:
        """The plan of an INSERT or a statement set. ``SET`` statements may stand before it. Plans are compiled once,
        and not to be changed."""
        return _plan(self.folder, self.ddl, sql)


@lru_cache(maxsize=200)
def _plan(folder: Path, ddl: str, sql: str) -> PlanDocument:
    environment = TableEnvironment.create()
    *settings, query = [part.strip() for part in sql.split(";\n") if part.strip()]
    for statement in (*settings, *filter(str.strip, ddl.replace("{folder}", str(folder)).split(";"))):
        environment.execute_sql(statement)
    return environment.compile_plan_sql(query).document


class Play:
    """A plan over the rows of its tables, a micro-batch per instant.

    Args:
        document: the plan.
        key_groups: of its state.
        continuation: how it continues from the plan of ``copies``.
        copies: by node, operators of another plan whose state is copied to this one.
    """

    def __init__(
        self,
        document: PlanDocument,
        key_groups: int = GROUPS,
        continuation: Continuation | None = None,
        copies: Mapping[int, OperatorEntry] = MappingProxyType({}),
    ) -> None:
        self.document = document
        job = translate(document.graph, {}, key_groups, job_id="job")
        self.job, self.layout = laid_out(job, None, continuation, 0, "memory", copies)
        self.levels = LocalLevels(self.job)
        self.stop: int | None = 0

    def run(self, start: int = 0, stop: int | None = None) -> list[list[str]]:
        """The changes that each micro-batch gives, sorted: ``sink kind row``."""
        out = []
        self.stop = stop
        for number, part in list(enumerate(micro_batches(self.job)))[start:stop]:
            self.levels.begin(number, {})
            blobs = [blob for source, splits in part.splits.items() for blob in self.levels.read(source, splits)]
            out.append(self._changes(self.levels.play(blobs)))
        return out

    def _changes(self, blobs: Any) -> list[str]:
        changes: list[str] = []
        for sink in range(len(self.job.sinks)):
            mine = rows_of(b for b in blobs if b.slot == slot_label(self.job.sink_slot(sink)))
            if mine:
                rows = decode([r.data for r in mine]).rows(named=True)
                for row in rows:
                    kind = row.pop("kind", 0)
                    changes.append(f"{sink} {('+I', '-U', '+U', '-D')[kind]} {tuple(row.values())}")
        return sorted(changes)

    def states(self, without: Collection[str] = (), now: int | None = None) -> dict[str, list[str]]:
        """The rows of each state table that has any, but for deleted ones, as text and sorted, with their age if it
        matters, ``without`` these columns, and without rows that have expired ``now``."""
        out: dict[str, list[str]] = {}
        for spec, state in self._states():
            ages = ["@t"] if any(config.ttl for config in spec.ttl) else []
            for table in spec.kernel.tables:
                rows = current_rows(table, state)
                ttl = spec.ttl[table.slot].ttl if table.slot < len(spec.ttl) else 0
                if rows.height and ttl and now is not None:
                    rows = rows.filter(rows["@t"] + ttl > now)
                names = [name for name in (*table.schema, *ages) if name not in (*_NUMBERS, *without)]
                texts = [str(row) for row in rows[names].rows()] if rows.height else []
                out.setdefault(f"{spec.name}.{table.name}", []).extend(texts)
        return {name: sorted(rows) for name, rows in out.items() if rows}

    def _states(self) -> Any:
        for label, (operator, _) in self.levels.slots.items():
            spec = self.job.operators[operator]
            if label in self.levels.stores:
                store, columns = self.levels.stores[label], (spec.version, spec.former_columns)
                yield spec, KeyedState(store, self.levels.cache, spec.kernel.tables, "test", *columns)

    def past(self, ttls: Mapping[int, Sequence[int]]) -> PastState:
        """What a checkpoint would say of its operators."""
        watermarks = {spec.node: NO_WATERMARK for spec in self.job.operators if spec.event_time}
        for label, (operator, _) in self.levels.slots.items():
            store = self.levels.stores.get(label)
            if store is not None and store.text is not None and (time := stored_time(str(store.text))) is not None:
                watermarks[self.job.operators[operator].node] = EventTime.from_json(json.loads(time)).watermark
        return PastState(ttls, watermarks)

    def evolve(
        self, document: PlanDocument, accept: str = "none", past_ttls: Mapping[int, Sequence[int]] | None = None
    ) -> tuple[Play, list[str]]:
        """Another plan with what it can use of this state, and the notes on that. ``past_ttls`` as for
        :class:`plans.plan_side.PastState`.

        Raises:
            CheckpointError: CKPT003, state would be lost.
            AssertionError: copied state is not what tasks send.
        """
        notes: list[str] = []
        options = {"execution.state-recovery.accept": accept}
        continuation = evolve_from(self.document.text, document, options, "memory", notes, self.past(past_ttls or {}))
        stocks = []
        from_history = continuation.anew - continuation.keepers.keys()
        if from_history:
            history = Play(document, self.job.key_groups)
            history.run(0, self.stop)
            own_operators = {node: node for node in from_history}
            same = Continuation(document.graph, own_operators, {}, comparisons=continuation.comparisons)
            stocks.append((history, same))
        if continuation.keepers:
            same = Continuation(document.graph, {node: node for node in continuation.keepers}, {})
            stocks.append((self._from_kept_rows(document, continuation), same))
        new = Play(document, self.job.key_groups)
        copies = Origins(continuation, self.layout.operators, "memory").copies(new.job)
        _send(new, [(self, continuation), *stocks])
        if not copies:
            return new, notes
        others = {node: old for node, old in continuation.operators.items() if node not in copies}
        with_copies = Play(document, self.job.key_groups, continuation, copies)
        for label in (slot_label(entry.first + g) for entry in copies.values() for g in range(self.job.key_groups)):
            if label in self.levels.stores:
                with_copies.levels.stores[label] = copy.deepcopy(self.levels.stores[label])
        _send(with_copies, [(self, replace(continuation, operators=others)), *stocks])
        assert with_copies.states() == new.states(), "state is the same whether it is copied or sent"
        return with_copies, notes

    def _from_kept_rows(self, document: PlanDocument, continuation: Continuation) -> Play:
        """Another plan after the rows that its operators have kept here, and the history of the other inputs."""
        new = Play(document, self.job.key_groups)
        keepers = frozenset[tuple[int, int]]().union(*continuation.keepers.values())
        specs = enumerate(new.job.operators)
        numbers = [(number, i) for number, spec in specs for i in range(spec.inputs) if (spec.node, i) in keepers]
        slots, runs, _ = _stored(self)
        loads = Origins(continuation, self.layout.operators, "memory").kept_inputs(new.job, keepers, "UTC")
        with tempfile.TemporaryDirectory() as folder:
            task = WriteRows(slots, new.job.operators, loads, Path(folder))
            listed = [row for batch in task(runs) for row in batch.to_pylist()]
            files = [KeptFile(row["operator"], row["input"], Path(folder) / row["name"], row["size"]) for row in listed]
            sources = kept_sources(new.job, numbers, files)
            others = without_ways_to(numbers, new.job)
            new.job = replace(others, sources=(*others.sources, *sources))
            new.levels = LocalLevels(new.job)
            new.levels.begin(0, {})
            for number, source in enumerate(sources, len(others.sources)):
                splits = [AssignedSplit(RangeSplit(0, len(source.reader.files)), "", 1)]
                new.levels.play(list(new.levels.read(number, splits)))
            new.job = others
            new.run(0, self.stop)
        return new


def _stored(old: Play) -> tuple[SlotStates, list[pa.RecordBatch], dict[int, str]]:
    """The state of a plan as Spark reads it, and how far event time has come by operator."""
    stores = {label: store for label, store in old.levels.stores.items() if store.text is not None}
    operators = tuple(
        StoredOperator(
            spec.name,
            spec.kernel.tables,
            ttl_configs(old.document.graph.node(spec.node), {}),
            spec.version,
            spec.former_columns,
        )
        for spec in old.job.operators
    )
    slots = SlotStates(operators, old.levels.slots, {k: str(s.text) for k, s in stores.items()}, 0)
    runs = [(label, key, data) for label, store in stores.items() for key, data in store.values.items()]
    times = {old.levels.slots[k][0]: t for k, s in stores.items() if (t := stored_time(str(s.text))) is not None}
    columns = [pa.array(c) for c in zip(*runs, strict=True)]
    return slots, [pa.RecordBatch.from_arrays(columns, ["slot", "id", "data"])] if runs else [], times


def _send(new: Play, stocks: Sequence[tuple[Play, Continuation]]) -> None:
    """Puts state into a new plan, by the tasks of a cluster."""
    parts = [_sent(old, new, continuation) for old, continuation in stocks]
    loader = LocalLevels(loading(new.job, [loads for _, loads in parts]))
    loader.stores = new.levels.stores
    left = loader.play(blob for batches, _ in parts for part in batches for blob in blobs_of(part))
    assert left == [], "nothing reaches a sink"


def _sent(
    old: Play, new: Play, continuation: Continuation
) -> tuple[list[Iterator[pa.RecordBatch]], Sequence[StateLoad | None]]:
    """What tasks send of the state of a plan to a new one, and where each operator of that has its state from."""
    entries = old.layout.operators
    origins = Origins(continuation, entries, "memory")
    loads = origins.loads(new.job, new.layout, "UTC")
    receivers = Receivers(tuple(new.job.slot(n, 0) for n in range(len(new.job.operators))), new.job.key_groups)
    slots, runs, times = _stored(old)
    batches = [SendTimes(receivers, origins.times(new.job, times))([pa.record_batch({"marker": [1]})])]
    if runs:
        batches.append(SendState(slots, receivers, loads)(runs))
    return batches, loads


def goes_on(tables: Tables, old_sql: str, new_sql: str, accept: str = "none", stops: Sequence[int] = (1, 3)) -> str:
    """Checks that the plan of other SQL goes on as :func:`plan_goes_on` says. Returns and raises as that."""
    return plan_goes_on(tables.plan(old_sql), tables.plan(new_sql), accept, stops)


def plan_goes_on(
    old_plan: PlanDocument,
    new_plan: PlanDocument,
    accept: str = "none",
    stops: Sequence[int] = (1, 3),
) -> str:
    """Checks that a new plan, taking over from an old one after so many micro-batches, has the state and gives the
    changes of one that has run from the start. Rows that another operator has kept do not say since when their group
    exists. Returns the worst verdict on state.

    Raises:
        AssertionError: it differs.
        CheckpointError: CKPT003, state would be lost.
    """
    old, whole = Play(old_plan), Play(new_plan)
    begun, changes = 0, list[list[str]]()
    refusal: CheckpointError | None = None
    followers: dict[int, Play] = {}
    for stop in sorted(stops):
        old.run(begun, stop)
        changes += whole.run(begun, stop)
        begun = stop
        try:
            new, notes = old.evolve(new_plan, accept)
        except CheckpointError as error:
            refusal = error
            break
        without = ["first_row_at"] if any("computed from the rows that" in note for note in notes) else []
        assert new.states(without) == whole.states(without), f"the state after {stop} micro-batches"
        followers[stop] = new
    if followers:
        changes += whole.run(begun)
    for stop, new in followers.items():
        assert new.run(stop) == changes[stop:], f"the changes after {stop} micro-batches"
    if refusal is not None:
        raise refusal
    states = [o.verdict for o in compare(old_plan, new_plan, old.past({})).operators if o.stateful]
    return max(states, key=severity, default="identical")


def is_refused(tables: Tables, old_sql: str, new_sql: str, reason: str) -> None:
    """Checks that a new plan cannot derive its state from that of an old one, for this reason.

    Raises:
        AssertionError: it can, or cannot for another reason.
    """
    with pytest.raises(CheckpointError) as error:
        goes_on(tables, old_sql, new_sql, accept="derive")
    assert error.value.code == "CKPT003"
    assert reason in error.value.message
