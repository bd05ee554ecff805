"""The driver's part of the figures: one record per micro-batch, kept in the checkpoint and in memory."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from stateplan.common.errors import CheckpointError
from stateplan.common.paths import AnyPath
from stateplan.common.settings import parallelism
from stateplan.execnodes.graph import ExecGraph
from stateplan.runtime.budget import Limits
from stateplan.runtime.checkpoint.locks import Holder
from stateplan.runtime.jobgraph import AUDIT, CLOCK, IDLE, JobGraph
from stateplan.runtime.metrics.ages import take_ages
from stateplan.runtime.metrics.figures import PENDING, Figures, add_all, take_parts
from stateplan.runtime.metrics.log import FOLDER, MetricsLog, read_job, read_metrics, recent_metrics
from stateplan.runtime.metrics.records import BatchMetrics, JobInfo, OperatorInfo, StateSize, StateTotals
from stateplan.runtime.metrics.state_uses import StateUses
from stateplan.runtime.metrics.timing import BatchTiming, take_intervals
from stateplan.runtime.metrics.view import JobView

if TYPE_CHECKING:
    from stateplan.runtime.checkpoint.directory import Checkpoint

RECENT = 1000
"""How many records a running job keeps in memory."""

_KNOWN_RUNS = 64
_runs: dict[str, JobMetrics] = {}
"""Spark's id of a run -> its figures. Some that have ended are kept: listeners hear of the last micro-batches later."""


def metrics_of_run(run_id: str) -> JobMetrics | None:
    """The figures of the query whose run has this id; None if it is not a job of this process."""
    return _runs.get(run_id)


def job_info(graph: ExecGraph, job: JobGraph, options: Mapping[str, str], first_batch: int) -> JobInfo:
    """What the records of a job that begins now are about; its id is not known yet.

    Args:
        graph, job: the plan, and what it was translated to.
        options: the options of the session.
        first_batch: the first micro-batch of the run.
    """
    tables = [s for s in job.sources if s.node not in (CLOCK, IDLE)]
    operators = [OperatorInfo(s.uid, s.node, "source", f"{s.name}[{s.node}]") for s in tables]
    for number, spec in enumerate(job.operators):
        count = max((t.slot + 1 for t in spec.kernel.tables), default=0)
        names = graph.node(spec.node).state_names
        states = (*names, *(f"state-{i}" for i in range(len(names), count)))[:count]
        slot = job.slot(number, 0)
        operators.append(OperatorInfo(spec.uid, spec.node, "operator", spec.name, states, slot, spec.level))
    sinks = [sink for sink in job.sinks if sink.node != AUDIT and sink.is_open(job.active_plan)]
    closed_nodes = {sink.node for sink in job.sinks} - {sink.node for sink in sinks}
    for sink in sinks:
        node = -1 - sink.node if -1 - sink.node in closed_nodes else sink.node  # it stands for the sink of its plan
        operators.append(OperatorInfo(sink.uid, node, "sink", f"{sink.name}[{node}]"))
    name = options.get("pipeline.name") or "insert-into_" + ",".join(s.name for s in sinks)
    start_time = time.time_ns() // 1_000_000
    return JobInfo(
        "", name, start_time, first_batch, tuple(sorted(operators, key=lambda o: o.id)), parallelism(options)
    )


class BatchCounters(Protocol):
    """What a micro-batch is counted with: the figures of its tasks.

    Attributes:
        is_timed: whether figures say when they were made, for traces.
    """

    is_timed: bool

    def begin(self) -> None:
        """A micro-batch begins."""

    def current(self, batch: int) -> Figures:
        """The figures of the micro-batch in hand, as far as they are known."""

    def end(self, batch: int) -> Figures:
        """The figures of a micro-batch whose tasks have all ended."""

    def close(self) -> None:
        """The job has ended."""


class JobMetrics:
    """Makes the record of every micro-batch of a run.

    Nothing here makes a job fail: records that cannot be written are missing.

    Attributes:
        recent: the last records, oldest first.
        batches: micro-batches committed in this run.
        begun: the last micro-batch that has begun in this run; -1 for none.
        total: the sums of their figures.
        current_batch: the micro-batch in hand: id, when it began (ms since 1970), and when by a monotonic clock (s).
        first: when the first micro-batch of this run began, by that clock; None before.
        parts: the parts of the last micro-batch, the watermarks of the parts of aligned sources: source uid -> part ->
            ms.
        pending: by operator uid, how much of what waits for the clock there is, over bounded input.
        thread: the id of the thread that runs micro-batches; None before the first.

    Args:
        info: what the records are about.
        counters: what workers add to.
        checkpoint: keeps the records, unless it is a temporary one; None for a job without one.
        tell: receives one message when they cannot be written.
        limits: the limits of the state; records say how much of each is used.
    """

    def __init__(
        self,
        info: JobInfo,
        counters: BatchCounters,
        checkpoint: Checkpoint | None,
        tell: Callable[[str], None],
        limits: Limits | None = None,
    ) -> None:
        self.info = info
        self.counters = counters
        self.recent: deque[BatchMetrics] = deque(maxlen=RECENT)
        self.batches = 0
        self.begun = -1
        self.total: Figures = {}
        self.current_batch: tuple[int, int, float] | None = None
        self.first: float | None = None
        self.parts: Mapping[str, Mapping[str, int]] = {}
        self.pending: dict[str, int] = {}
        self.thread: int | None = None
        self._tell = tell
        self._limits = limits
        self._lock = threading.RLock()
        self._log: MetricsLog | None = None
        self._folder: AnyPath | None = None
        states = {o.uid: len(o.states) for o in info.operators if o.kind == "operator"}
        base: Mapping[str, StateSize] | None = {}
        if checkpoint is not None and not checkpoint.temporary:
            base = self._base(checkpoint)
            self._log = MetricsLog(checkpoint.folder / FOLDER)
            self._folder = checkpoint.folder
        self._totals = StateTotals(states, base)
        self._open_batch: BatchMetrics | None = None
        self._planning: float | None = None
        self._committing = 0.0

    def _base(self, checkpoint: Checkpoint) -> Mapping[str, StateSize] | None:
        """The state that the run finds; None when the records do not say."""
        if self.info.first_batch == 0:
            return {}
        last = checkpoint.last_batch()
        before = next((r for r in recent_metrics(checkpoint.folder) if r.batch == last), None)
        if before is None:
            return None
        same_states = self.info.same_state(read_job(checkpoint.folder))
        return {uid: before.state[uid] for uid in same_states if uid in before.state}

    def observed(self) -> StateUses:
        """How states were used, as far as the records go back that can be read."""
        if self._folder is not None:
            with contextlib.suppress(CheckpointError):
                return StateUses.of(read_metrics(self._folder))
        return StateUses.of(tuple(self.recent))

    def identify(self, job_id: str, run_id: str) -> None:
        """A query of the run has begun; these are Spark's ids of it."""
        _runs[run_id] = self
        while len(_runs) > _KNOWN_RUNS:
            _runs.pop(next(iter(_runs)), None)
        self.info = replace(self.info, job_id=job_id)
        self._write(lambda log: log.begin(self.info))

    def follow(self, info: JobInfo) -> None:
        """From now on the job runs another plan, which has no other operators; ``info`` is about that."""
        own = self.info
        self.info = replace(info, job_id=own.job_id, started=own.started, first_batch=own.first_batch)
        with self._lock:
            self._totals.keep({operator.uid for operator in info.operators})
        self._write(lambda log: log.begin(self.info))

    def record(self, batch: int) -> BatchMetrics | None:
        """The record of a micro-batch that was committed not long ago."""
        return next((r for r in reversed(tuple(self.recent)) if r.batch == batch), None)

    def begin(self, batch: int, query: Any) -> None:
        """Micro-batch ``batch`` begins; of the one before, ``query`` knows Spark's phases."""
        self.settle(query)
        self.counters.begin()
        self.begun = batch
        self.thread = threading.get_ident()
        self.current_batch = (batch, time.time_ns() // 1_000_000, time.perf_counter())
        self.first = self.first or self.current_batch[2]

    def plan(self) -> None:
        """The next micro-batch is about to be planned. Of a job of Spark, Spark says when."""
        self._planning = 1000 * time.time()

    def commit(self) -> None:
        """The tasks of the micro-batch in hand have ended, and its sinks are about to be committed."""
        self._committing = time.time()

    def end(self, batch: int) -> BatchMetrics:
        """The sinks of micro-batch ``batch`` have been committed."""
        assert self.current_batch is not None
        _, start_time, began = self.current_batch
        with self._lock:
            operators = self.counters.end(batch)
            intervals = take_intervals(operators)
            ages = take_ages(operators)
            self.pending |= {uid: int(f.pop(PENDING)) for uid, f in operators.items() if PENDING in f}
            add_all(self.total, operators)
        self._totals.take(operators)
        self.parts = take_parts(operators)
        now = max((int(f.pop("now_ms")) for f in operators.values() if "now_ms" in f), default=start_time)
        marks = {uid: int(f.pop("watermark_ms")) for uid, f in operators.items() if "watermark_ms" in f}
        ms = 1000 * (time.perf_counter() - began)
        record = BatchMetrics(batch, now, start_time, ms, operators, self._totals.sizes(), marks, ages=ages)
        if self.counters.is_timed:
            end = 1000 * time.time()
            record.timing = BatchTiming(end - ms, end, 1000 * self._committing, intervals, self._planning)
            self._planning = None
        if self._limits is not None:
            record.budgets = self._limits.shares(record)
        self.recent.append(record)
        self.batches += 1
        self.current_batch = None
        self._open_batch = record
        self._write(lambda log: log.append(record))
        return record

    def settle(self, query: Any) -> None:
        """Adds Spark's phases to the last record, once Spark knows them."""
        record = self._open_batch
        progress = None if record is None or query is None else query.lastProgress
        if record is None or progress is None or progress.batchId < record.batch:
            return
        with self._lock:
            if self._open_batch is not record:
                return  # another thread was here
            self._open_batch = None
            if progress.batchId == record.batch:
                if record.timing is not None:
                    record.timing.planning = 1000 * datetime.fromisoformat(progress.timestamp).timestamp()
                record.spark = {name: float(ms) for name, ms in progress.durationMs.items()}
                self._write(lambda log: log.annotate(record.batch, record.spark))

    def _write(self, write: Callable[[MetricsLog], None]) -> None:
        with self._lock:
            if self._log is None:
                return
            try:
                write(self._log)
            except OSError as cause:
                self._log = None
                self._tell(f"metrics of this run are no longer recorded: {cause}")

    def view(self) -> JobView:
        """The job as it is now. May be called in any thread."""
        current_batch = self.current_batch
        recent, totals = tuple(self.recent), self._copy_figures()
        now = time.time_ns() // 1_000_000
        in_hand = current_batch and current_batch[:2]
        return JobView(self.info, now, Holder.me(), recent, totals, self.batches, in_hand, thread=self.thread)

    def figures(self) -> tuple[Figures, Figures]:
        """The sums over the micro-batches that have ended, and what is known of the one in hand. May be called in any
        thread."""
        with self._lock:
            current_batch = self.current_batch
            return self._copy_figures(), self.counters.current(current_batch[0]) if current_batch else {}

    def _copy_figures(self) -> Figures:
        with self._lock:
            return add_all({}, self.total)

    def close(self, query: Any) -> None:
        """The run has ended; ``query`` is its last one."""
        with contextlib.suppress(Exception):  # of a query that failed nothing more is known
            self.settle(query)
        self._log = None
        self.counters.close()
