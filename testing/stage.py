"""A plan in this process, one micro-batch at a time: what a job without Spark does, with a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import polars as pl

from stateplan.common.errors import RunError, StateplanError, find_encoded
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import NEVER
from stateplan.connectors.protocol import InstantSource, RangeSource
from stateplan.connectors.splits import AssignedSplit, InstantSplit, RangeSplit
from stateplan.plans.document import PlanDocument
from stateplan.plans.edit import plan_edit
from stateplan.plans.selector_text import Assignment, parse_selector
from stateplan.plans.selectors import Selectors
from stateplan.plans.states import StateView
from stateplan.runtime.checkpoint.slots import Continuation, Layout, laid_out
from stateplan.runtime.delivery import closing_marks, marks_of, send_marks
from stateplan.runtime.exchange import Blob, decode, rows_of
from stateplan.runtime.hashing import slot_label
from stateplan.runtime.inspect.state_figures import current_rows, cut_of
from stateplan.runtime.inspect.stored_tables import MAIN_TABLE, short_names
from stateplan.runtime.jobgraph import JobGraph, OperatorSpec
from stateplan.runtime.kernel import ACCESS_TIME, StateTable
from stateplan.runtime.local.counters import LocalCounters
from stateplan.runtime.local.levels import LocalLevels
from stateplan.runtime.metrics.figures import PENDING, Figures, add_all
from stateplan.runtime.notices import Notices
from stateplan.runtime.readers import Readers
from stateplan.runtime.state.keyed_state import KeyedState
from stateplan.runtime.translate import translate
from stateplan.runtime.user_functions import bind_functions, calls_functions
from stateplan.runtime.worker import WorkerError
from stateplan.session.restart import continue_from
from stateplan.testing.story_plan import Preparation, StoryPlan
from stateplan.testing.taps import Taps

_STATE = "the state of the test"

_MOST_INSTANTS = 256

NOTHING = -1
"""Names the rows of a micro-batch without any."""


@dataclass
class Ran:
    """What one micro-batch did.

    Attributes:
        number: its number, from 0.
        now: its time, ms.
        changes: per node of a sink, the frames that it rows.
        figures: of each operator, by uid.
    """

    number: int
    now: int
    changes: dict[int, list[pl.DataFrame]]
    figures: Figures = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """How a plan runs.

    Attributes:
        clock: where the clock begins, ms.
        folder: the files of the tables.
        key_groups: into which state is split.
        taps: gets the rows between operators.
        lasting: states that never expire, by node and number.
    """

    clock: int
    folder: Path
    key_groups: int = 1
    taps: Taps | None = None
    lasting: frozenset[tuple[int, int]] = frozenset()


class Stage:
    """A plan that runs.

    Args:
        plan: the plan.
        session: the session of the test, for functions of the user.
        settings: how it runs.

    Attributes:
        plan: the plan that runs now.
        now: the time, ms.
        number: of the last micro-batch; -1 before the first one.
        notes: what a user of the job would be told.
        total: the figures of each operator so far, by uid.
    """

    def __init__(self, plan: StoryPlan, session: Preparation, settings: Settings) -> None:
        self.now = settings.clock
        self.number = -1
        self.notes: list[str] = list(plan.notes)
        self.total: Figures = {}
        self.failed = False
        self._session = session
        self._settings = settings
        self._counters = LocalCounters()
        self._layout: Layout | None = None
        self._readers = Readers(())
        self._levels: LocalLevels | None = None
        self._install(plan, None)

    # plans

    def _install(self, plan: StoryPlan, continuation: Continuation | None) -> None:
        """Makes a plan the one that runs; nothing changes if it cannot run."""
        graph = plan.over(self._settings.folder)
        if calls_functions(graph):
            functions = self._session.environment.catalog.functions.of_plan
            graph = bind_functions(graph, functions, runs_here=True)
        job = translate(graph, plan.options, self._settings.key_groups, job_id="test", start_time=self._settings.clock)
        job, layout = laid_out(job, self._layout, continuation, self.number + 1, _STATE)
        job = replace(job, operators=tuple(map(self._lasting, job.operators)))
        if self._settings.taps is not None:
            job = self._settings.taps.tapped(job)
        levels = LocalLevels(job, self._counters)
        if self._levels is not None:
            levels.stores = self._levels.stores
        if [r.uid for r in self._readers.readers] != [r.uid for r in job.readers]:
            self._readers = Readers(job.readers)
        self.plan, self._layout, self._levels = plan, layout, levels
        self._notices = Notices(job.operators, None, self.notes.append)

    @property
    def has_constant_rows(self) -> bool:
        """Whether the plan has rows of its own, which arrive in its first micro-batch."""
        return any(isinstance(source.reader, RangeSource) for source in self.job.sources)

    def _lasting(self, spec: OperatorSpec) -> OperatorSpec:
        """An operator whose states do not expire that never should."""
        numbers = {index for node, index in self._settings.lasting if node == spec.node}
        ttl = tuple(replace(c, ttl=NEVER) if i in numbers else c for i, c in enumerate(spec.ttl))
        return replace(spec, ttl=ttl) if numbers else spec

    @property
    def job(self) -> JobGraph:
        """What the plan is for the runtime."""
        assert self._levels is not None
        return self._levels.graph

    def restart(self, plan: StoryPlan | None = None) -> None:
        """Stops, and continues from the state, also with another plan.

        Raises:
            StateplanError: the plan cannot continue from the state. The plan before continues to run then.
        """
        new = plan or self.plan
        if self.number < 0:
            if plan is not None:
                self._layout = None
                self._install(new, None)
            return
        notes: list[str] = []
        continuation = continue_from(self.plan.document.text, new.document, new.options, notes)
        self._install(new, continuation)
        self.notes += notes

    def set_ttls(self, ttls: Mapping[str, int]) -> None:
        """Edits TTLs of the plan, and restarts. Raises PlanError."""
        self.restart(self.plan.having(with_ttls(self.plan.document, ttls, self.plan.options)))

    # time

    def advance(self, ms: int) -> list[Ran]:
        """Lets time pass. Operators by processing time look at what is due at each instant that they wait for; at the
        end only, if there are very many."""
        end = self.now + ms
        batches = []
        for instant in self._instants(end):
            self.now = instant
            batches.append(self.batch())
        self.now = end
        return batches

    def _instants(self, end: int) -> list[int]:
        """The instants from now to the end that operators wait for, ascending."""
        all_alarms = [spec.kernel.alarms for spec in self.job.operators if spec.kernel.alarms is not None]
        instants: set[int] = set()
        for alarms in all_alarms:
            at = alarms.last(end)
            while at > self.now and len(instants) <= _MOST_INSTANTS:
                instants.add(at)
                at = alarms.last(at - 1)
        return sorted(instants) if len(instants) <= _MOST_INSTANTS else [end]

    def batch(self, at: int = NOTHING, watermark: tuple[str, int] | None = None, ends: bool = False) -> Ran:
        """Runs one micro-batch.

        Args:
            at: names the rows in the files of the tables that arrive in it.
            watermark: a table, and the watermark to which it advances.
            ends: whether all input ends.

        Raises:
            StateplanError: what would make the job fail.
        """
        if self.failed:
            raise RunError("RUN001.local", detail="the job has failed before")
        self.number += 1
        try:
            return self._batch(at, watermark, ends)
        except WorkerError as failure:
            self.failed = True
            text = str(failure)
            raise find_encoded(text) or RunError("RUN001.local", detail=text.splitlines()[0]) from failure
        except StateplanError:
            self.failed = True
            raise

    def _batch(self, at: int, watermark: tuple[str, int] | None, ends: bool) -> Ran:
        levels = self._levels
        assert levels is not None
        job = levels.graph
        self._counters.begin()
        levels.begin(self.number, self._readers.begin(self.number))
        blobs: list[Blob] = []
        for index, splits in self._splits(job, at):
            blobs += levels.read(index, splits)
        if watermark is not None:
            blobs += send_marks(job, self._marks(*watermark), self.now)
        if ends:
            blobs += send_marks(job, closing_marks(job), self.now)
        out = levels.play(blobs)
        labels = {slot_label(job.sink_slot(i)): i for i in range(len(job.sinks))}
        mine: dict[int, list[Blob]] = {}
        others: list[Blob] = []
        for blob in sorted(out, key=lambda blob: blob.seq):
            sink = labels.get(blob.slot)
            if sink is None:
                others.append(blob)
            else:
                mine.setdefault(job.sinks[sink].node, []).append(blob)
        self._readers.end(self.number, others)
        ran = Ran(self.number, self.now, {n: [decode([r.data]) for r in rows_of(some)] for n, some in mine.items()})
        ran.figures = self._counters.end(self.number)
        self._look(ran, ends)
        return ran

    def _splits(self, job: JobGraph, at: int) -> Iterable[tuple[int, list[AssignedSplit[Any]]]]:
        for index, source in enumerate(job.sources):
            order = f"{index:04d}/{self.number:010d}"
            if isinstance(source.reader, InstantSource):
                yield index, [AssignedSplit(InstantSplit(at), order, self.now)]
            elif isinstance(source.reader, RangeSource) and source.reader.total and self.number == 0:
                yield index, [AssignedSplit(RangeSplit(0, source.reader.total), order, self.now)]

    def uses_event_time(self, table: str) -> bool:
        """Whether a watermark of a table has an effect."""
        return bool(self._marks(table, 0))

    def _marks(self, table: str, value: int) -> dict[Any, int]:
        sources = [s for s in self.job.sources if s.name.split(".")[-1] == table.split(".")[-1]]
        return {mark: value for source in sources for mark in marks_of(source.pipeline)}

    def _look(self, ran: Ran, ends: bool) -> None:
        """Tells what the figures of a micro-batch say."""
        add_all(self.total, ran.figures)
        self._notices.look(self.total)
        for spec in self.job.operators:
            late = int(ran.figures.get(spec.uid, {}).get("late_rows", 0))
            if late:
                rows = "row was" if late == 1 else "rows were"
                self.notes.append(f"{spec.name}: {late} {rows} dropped, because the watermark had passed")
        if ends:
            pending = {uid: int(figures.get(PENDING, 0)) for uid, figures in ran.figures.items()}
            self._notices.at_end(pending, keeps_checkpoint=False)

    # state

    def select(self, selector: str) -> tuple[StateView, ...]:
        """The states that a selector points at. Raises PlanError."""
        return Selectors(self.plan.document, self.plan.options).select(selector)

    def state_rows(self, selector: str) -> int:
        """The live rows of a state. Raises PlanError."""
        return sum(self._rows(view)[0] for view in self.select(selector))

    def expired_rows(self, view: StateView) -> int:
        """The rows of a state that have expired and were not removed yet."""
        return self._rows(view)[1]

    def _rows(self, view: StateView) -> tuple[int, int]:
        """The live and the expired rows of a state."""
        live = expired = 0
        for number, spec in enumerate(self.job.operators):
            for state in self._states(number, spec) if spec.node == view.node_id else ():
                for table in _main_tables(spec, view.index):
                    rows, live_rows = self._count(state, table, spec)
                    live, expired = live + live_rows, expired + rows - live_rows
        return live, expired

    def _states(self, number: int, spec: OperatorSpec) -> Iterable[KeyedState]:
        """The state of each key group of an operator."""
        assert self._levels is not None
        for group in range(self._settings.key_groups):
            store = self._levels.stores.get(slot_label(self.job.slot(number, group)))
            if store is not None:
                tables = spec.kernel.tables
                yield KeyedState(store, self._levels.cache, tables, _STATE, spec.version, spec.former_columns)

    def _count(self, state: KeyedState, table: StateTable, spec: OperatorSpec) -> tuple[int, int]:
        """All rows of a table, and the live ones."""
        runs = [frame for _, frame in state.runs(table)]
        if not runs:
            return 0, 0
        rows = current_rows(table, runs)
        cut = cut_of(spec.ttl[table.slot], self.now, state.time.watermark) if table.slot < len(spec.ttl) else None
        return rows.height, rows.height if cut is None else rows.filter(pl.col(ACCESS_TIME) > cut).height


def _main_tables(spec: OperatorSpec, index: int) -> list[StateTable]:
    """The tables whose rows count as those of a state: its main table, else those with several rows."""
    names = short_names(spec.kernel.tables)
    tables = [t for t in spec.kernel.tables if t.slot == index]
    return [t for t in tables if names[t.name] == MAIN_TABLE] or [t for t in tables if t.identity]


def with_ttls(document: PlanDocument, ttls: Mapping[str, int], options: Mapping[str, str]) -> PlanDocument:
    """A copy of a plan with other TTLs. Raises PlanError."""
    assignments = [Assignment(parse_selector(selector), ttl) for selector, ttl in ttls.items()]
    edit = plan_edit(document, assignments, options)
    return document.with_splices(edit.splices) if edit.splices else document
