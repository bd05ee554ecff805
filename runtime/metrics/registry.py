"""The metrics of a job that other systems get: names, types, labels, and how each is read from a look at the job.

Prometheus, OTLP, the dashboard and the documentation are all made of :data:`METRICS`. Names, labels and types are those
of Flink's ``PrometheusReporter`` where Flink has the metric; an operator here is both operator and task there. What
Flink does not have begins with ``stateplan_``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import hex_id
from stateplan.runtime.metrics.figures import split_name
from stateplan.runtime.metrics.view import JobView, OperatorView

if TYPE_CHECKING:
    from stateplan.runtime.metrics.records import StateSize

Sample = tuple[tuple[str, ...], float]
"""The values of the labels, and the value."""


class Kind(Enum):
    """The type of a metric."""

    GAUGE = "gauge"
    COUNTER = "counter"


class Snapshot:
    """A look at a job, with the labels that metrics need.

    Attributes:
        view: the job.
        status: its status, where a gateway knows it; a status of Flink's ``JobStatus``.
        job: its values of :data:`JOB_LABELS`.
        operators: each operator with its values of :data:`OPERATOR_LABELS`.
    """

    def __init__(self, view: JobView, status: str | None = None) -> None:
        self.view, self.status = view, status
        self.job = (hex_id(view.info.job_id), view.info.name)
        self.operators = [(o, (*self.job, *[o.info.uid, o.info.name] * 2)) for o in view.operators()]


@dataclass(frozen=True)
class Metric:
    """A metric.

    Attributes:
        name: as Prometheus has it; that of a counter ends in ``_total``.
        text: what it means, a sentence.
        labels: their names.
        read: its samples.
        kind: its type. Source: Flink's reporter exports its counters as gauges.
    """

    name: str
    text: str
    labels: tuple[str, ...]
    read: Callable[[Snapshot], Iterable[tuple[tuple[str, ...], float | None]]]
    kind: Kind = Kind.GAUGE

    def samples(self, snapshot: Snapshot) -> Iterator[Sample]:
        """Its samples; values that are not known are missing."""
        for labels, number in self.read(snapshot):
            if number is not None:
                yield labels, number


JOB_LABELS = ("job_id", "job_name")
TASK_LABELS = (*JOB_LABELS, "task_id", "task_name")
OPERATOR_LABELS = (*TASK_LABELS, "operator_id", "operator_name")

_TASK = "flink_taskmanager_job_task_"
_JOB = "flink_jobmanager_job_"


def _of_job(name: str, text: str, value: Callable[[JobView], float | None]) -> Metric:
    return Metric(name, text, JOB_LABELS, lambda s: [(s.job, value(s.view))])


def _of_operator(name: str, text: str, value: Callable[[OperatorView], float | None]) -> Metric:
    full = f"{_TASK}operator_{name}"
    return Metric(full, text, OPERATOR_LABELS, lambda s: [(labels, value(o)) for o, labels in s.operators])


def _of_task(name: str, text: str, value: Callable[[OperatorView], float | None]) -> Metric:
    return Metric(_TASK + name, text, TASK_LABELS, lambda s: [(labels[:4], value(o)) for o, labels in s.operators])


def _counter(name: str, text: str, labels: tuple[str, ...], read: Callable[[OperatorView], Iterable[Sample]]) -> Metric:
    """A counter of operators. ``read`` returns samples of one, without the labels that all operators have."""

    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for operator, own in snapshot.operators:
            for parts, number in read(operator):
                yield (*own, *parts), number

    return Metric(f"stateplan_{name}_total", text, (*OPERATOR_LABELS, *labels), samples, Kind.COUNTER)


def _size(name: str, text: str, sizes: Callable[[StateSize], list[int]]) -> Metric:
    """The size of each state of the operators."""

    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for operator, own in snapshot.operators:
            if operator.state is not None:
                for state, number in zip(operator.info.states, sizes(operator.state), strict=False):
                    yield (*own, state), number

    return Metric(f"stateplan_state_{name}", text, (*OPERATOR_LABELS, "state"), samples)


def _parts(figure: str, depth: int, operator: OperatorView) -> Iterator[Sample]:
    """The figures of an operator that have so many parts behind their name."""
    for name, number in sorted(operator.totals.items()):
        first, rest = split_name(name)
        if first == figure and len(rest) == depth:
            yield rest, number


def _by_state(figure: str, operator: OperatorView) -> Iterator[Sample]:
    """The figures of an operator by state entry."""
    states = operator.info.states
    for (index,), number in _parts(figure, 1, operator):
        yield ((states[int(index)] if int(index) < len(states) else index,), number)


def _phases(operator: OperatorView) -> Iterator[Sample]:
    """The time of an operator by phase, s."""
    for name, number in sorted(operator.totals.items()):
        if name.endswith("_ms") and "." not in name and name not in ("busy_ms", "watermark_ms", "now_ms"):
            yield (name.removesuffix("_ms"),), number / 1000


def _figure(figure: str, operator: OperatorView) -> Iterator[Sample]:
    """A figure of an operator, if it has it."""
    if figure in operator.totals:
        yield (), operator.totals[figure]


def _budgets(snapshot: Snapshot) -> Iterator[Sample]:
    last = snapshot.view.last
    for name, share in (last.budgets if last else {}).items():
        yield (*snapshot.job, name), share


def _bytes_written(view: JobView) -> float | None:
    return view.last.total("state_bytes_written") if view.last else None


STATUS = Metric(
    "stateplan_job_status",
    "1 for the current status of a job of a gateway.",
    (*JOB_LABELS, "status"),
    lambda s: [] if s.status is None else [((*s.job, s.status), 1)],
)
"""The only metric of jobs that do not run."""

METRICS: tuple[Metric, ...] = (
    STATUS,
    _of_operator("numRecordsIn", "Input rows since the run began.", lambda o: o.totals.get("rows_in", 0)),
    _of_operator("numRecordsOut", "Output rows since the run began.", lambda o: o.totals.get("rows_out", 0)),
    _of_operator("numRecordsInPerSecond", "Input rows per second.", lambda o: o.rows_in),
    _of_operator("numRecordsOutPerSecond", "Output rows per second.", lambda o: o.rows_out),
    _of_operator(
        "numLateRecordsDropped",
        "Rows dropped because they were behind the watermark.",
        lambda o: o.totals.get("late_rows", 0),
    ),
    _of_operator("currentInputWatermark", "Current watermark, ms since 1970.", lambda o: o.watermark),
    _of_task("numBytesIn", "Bytes received through shuffles.", lambda o: o.totals.get("bytes_in", 0)),
    _of_task("numBytesOut", "Bytes sent to operators and sinks.", lambda o: o.totals.get("bytes_out", 0)),
    _of_task("busyTimeMsPerSecond", "Share of a second for which its tasks are busy, ms.", lambda o: 1000 * o.busy),
    Metric(
        "stateplan_state_budget_used",
        "Used share of a state budget; over 1 is over the budget.",
        (*JOB_LABELS, "budget"),
        _budgets,
    ),
    _of_job(
        f"{_JOB}lastCheckpointDuration",
        "Duration of the last micro-batch, ms.",
        lambda view: view.last.ms if view.last else None,
    ),
    _of_job(f"{_JOB}lastCheckpointSize", "Bytes of state that the last micro-batch wrote.", _bytes_written),
    _of_job(
        f"{_JOB}numberOfCompletedCheckpoints",
        "Micro-batches committed since the run began.",
        lambda view: view.batches,
    ),
    _of_job(
        f"{_JOB}uptime",
        "Time since the job started, ms.",
        lambda view: view.now - view.info.started if view.writer else 0,
    ),
    _of_job(
        "stateplan_batch",
        "Id of the last micro-batch that was committed.",
        lambda view: view.last.batch if view.last else None,
    ),
    _of_job(
        "stateplan_batch_time_seconds",
        "Time of the last micro-batch, s since 1970; virtual with replay tables.",
        lambda view: view.last.time / 1000 if view.last else None,
    ),
    _of_job(
        "stateplan_running", "1 while a process runs the job, else 0.", lambda view: float(view.writer is not None)
    ),
    _of_job(
        "stateplan_last_commit_seconds",
        "When the last micro-batch was committed, s since 1970.",
        lambda view: (view.last.started + view.last.ms) / 1000 if view.last else None,
    ),
    _of_job(
        "stateplan_batch_running_seconds",
        "Time since the current micro-batch began, s; 0 between two of them.",
        lambda view: max(0, view.now - view.in_hand[1]) / 1000 if view.in_hand and view.writer else 0,
    ),
    _of_job(
        "stateplan_load",
        "Share of the last ten seconds in which a micro-batch was running, 0 to 1.",
        lambda view: view.load if view.writer else 0,
    ),
    _of_job("stateplan_backlog_batches", "Remaining micro-batches of replay tables.", lambda view: view.backlog),
    _counter("rows_in", "Input rows by input and row kind.", ("input", "kind"), partial(_parts, "rows_in", 2)),
    _counter("rows_out", "Output rows by row kind.", ("kind",), partial(_parts, "rows_out", 1)),
    _counter(
        "state_expired_rows",
        "Expired rows removed from state.",
        ("state",),
        partial(_by_state, "expired_rows"),
    ),
    _counter(
        "state_needed_rows",
        "Expired rows that later rows needed, of the keys that an audit follows.",
        ("state",),
        partial(_by_state, "needed_rows"),
    ),
    _counter("phase_seconds", "Time of tasks by phase, s.", ("phase",), _phases),
    _counter(
        "state_written_bytes", "Bytes of state written, including merges.", (), partial(_figure, "state_bytes_written")
    ),
    _counter("state_merged_rows", "Rows of state read by merges.", (), partial(_figure, "state_rows_merged")),
    _counter(
        "retractions_missed",
        "Retractions whose row was not found, because it had expired.",
        (),
        partial(_figure, "retractions_missed"),
    ),
    _counter("cache_hits", "Runs of state found in the cache of the worker.", (), partial(_figure, "cache_hits")),
    _counter("cache_misses", "Runs of state read from the state store.", (), partial(_figure, "cache_misses")),
    _counter(
        "cache_unwritten",
        "Runs of state that could not be cached on local disk.",
        (),
        partial(_figure, "cache_unwritten"),
    ),
    _size(
        "stored_rows",
        "Stored rows of state: with older versions, deletion marks and expired rows.",
        lambda size: size.rows,
    ),
    _size("bytes", "Bytes of state.", lambda size: size.bytes),
    _size("runs", "Runs of state.", lambda size: size.runs),
)
"""All metrics."""
