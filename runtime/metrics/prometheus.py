"""A job's figures in Prometheus' text format, and the HTTP endpoint that Flink's options ask for.

Names, labels and types are those of Flink's ``PrometheusReporter`` where Flink has the metric; an operator here is
both operator and task there. What Flink does not have begins with ``stateplan_``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import RunError, nearest
from stateplan.common.readable import hex_id
from stateplan.runtime.metrics.figures import split_name
from stateplan.runtime.metrics.view import JobView, OperatorView

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.metrics_core import Metric

    from stateplan.runtime.metrics.records import StateSize

FACTORY = "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"
"""The value of ``metrics.reporter.<name>.factory.class`` that means this reporter."""

DEFAULT_PORTS = "9249"
"""Flink's default of ``metrics.reporter.<name>.port``."""

_FILTER = "filterLabelValueCharacters"
_OPTIONS = ("factory.class", "port", _FILTER)

_JOB = ("job_id", "job_name")
_TASK = (*_JOB, "task_id", "task_name")
_OPERATOR = (*_TASK, "operator_id", "operator_name")

_Value = Callable[[OperatorView], float | None]

_OF_OPERATORS: tuple[tuple[str, str, _Value], ...] = (
    ("numRecordsIn", "Rows that came in since the run began.", lambda o: o.totals.get("rows_in", 0)),
    ("numRecordsOut", "Rows that went out since the run began.", lambda o: o.totals.get("rows_out", 0)),
    ("numRecordsInPerSecond", "Rows that come in per second.", lambda o: o.rows_in),
    ("numRecordsOutPerSecond", "Rows that go out per second.", lambda o: o.rows_out),
    ("numLateRecordsDropped", "Rows dropped because they came late.", lambda o: o.totals.get("late_rows", 0)),
    ("currentInputWatermark", "Where event time stands, ms since 1970.", lambda o: o.watermark),
)
"""Flink's operator metrics, as gauges: Flink's reporter has no counters."""

_OF_TASKS: tuple[tuple[str, str, _Value], ...] = (
    ("numBytesIn", "Bytes that came through shuffles.", lambda o: o.totals.get("bytes_in", 0)),
    ("numBytesOut", "Bytes that went out.", lambda o: o.totals.get("bytes_out", 0)),
    ("busyTimeMsPerSecond", "Of a second, how long a task is busy with it, ms.", lambda o: 1000 * o.busy),
)

_OF_JOB = "flink_jobmanager_job_"
_CLOCK = "The clock of that micro-batch, seconds since 1970."

_COUNTERS: dict[str, tuple[str, str]] = {
    "state_bytes_written": ("state_written_bytes", "Bytes of state written, merges included."),
    "state_rows_merged": ("state_merged_rows", "State rows read by merges."),
    "retractions_missed": ("retractions_missed", "Retractions that found nothing."),
    "cache_hits": ("cache_hits", "Runs of state found in the worker's cache."),
    "cache_misses": ("cache_misses", "Runs of state read from the state store."),
    "cache_unwritten": ("cache_unwritten", "Runs of state that local disk did not take."),
}
"""Figure -> our counter and its help."""

_OF_STATES = {
    "expired_rows": "State rows removed because their TTL had passed.",
    "needed_rows": "Expired state rows that later rows needed, of the keys that an audit follows.",
}
"""Figure by state entry -> the help of our counter."""


_NOT_IN_LABELS = re.compile(r"[^a-zA-Z0-9:_]")
"""What Flink's option ``filterLabelValueCharacters`` removes from the values of labels."""


@dataclass(frozen=True)
class Reporter:
    """A Prometheus reporter: the ports it may listen on, and whether labels are filtered as Flink does."""

    ports: range
    filtered: bool = False


class _Collector:
    """What ``prometheus_client`` asks when somebody wants the figures."""

    def __init__(self, look: Callable[[], JobView | None], is_filtered: bool = False) -> None:
        self._look = look
        self._is_filtered = is_filtered

    def describe(self) -> Iterable[Metric]:
        """Nothing: what there is depends on the job."""
        return []

    def collect(self) -> Iterator[Metric]:
        view = self._look()
        if view is not None:
            for family in _metrics(view):
                if self._is_filtered:
                    family.samples = [s._replace(labels=_plain(s.labels)) for s in family.samples]
                if family.samples:
                    yield family


def _plain(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: text if name == "kind" else _NOT_IN_LABELS.sub("", text) for name, text in labels.items()}


def _family(
    name: str,
    help_text: str,
    labels: tuple[str, ...],
    values: Iterable[tuple[Any, float | None]],
    family: type[GaugeMetricFamily | CounterMetricFamily] | None = None,
) -> Metric:
    """A family of metrics, a gauge by default, without the values that are not known."""
    from prometheus_client.core import GaugeMetricFamily

    metric_family = (family or GaugeMetricFamily)(name, help_text, labels=labels)
    for texts, value in values:
        if value is not None:
            metric_family.add_metric(texts, value)
    return metric_family


def _counter(name: str, help_text: str, labels: tuple[str, ...], values: Iterable[tuple[Any, float]]) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    return _family(f"stateplan_{name}", help_text, labels, values, CounterMetricFamily)


def _metrics(view: JobView) -> Iterator[Metric]:
    """All metrics of a job."""
    job = (hex_id(view.info.job_id), view.info.name)
    operators = [(o, (*job, *[o.info.uid, o.info.name] * 2)) for o in view.operators()]
    yield from _as_flink(operators)
    yield from _of_job(view, job)
    yield from _of_rows(operators)
    yield from _of_state(operators)


def _as_flink(operators: _Labelled) -> Iterator[Metric]:
    """Flink's metrics of operators and tasks."""
    for name, text, value in _OF_OPERATORS:
        full = f"flink_taskmanager_job_task_operator_{name}"
        yield _family(full, text, _OPERATOR, [(labels, value(o)) for o, labels in operators])
    for name, text, value in _OF_TASKS:
        full = f"flink_taskmanager_job_task_{name}"
        yield _family(full, text, _TASK, [(labels[:4], value(o)) for o, labels in operators])


def _of_job(view: JobView, job: tuple[str, str]) -> Iterator[Metric]:
    """Metrics of the job as a whole."""
    info, last = view.info, view.last
    bytes_written = last.total("state_bytes_written") if last else None
    jobs: list[tuple[str, str, float | None]] = [
        (f"{_OF_JOB}lastCheckpointDuration", "How long the last micro-batch took, ms.", last.ms if last else None),
        (f"{_OF_JOB}lastCheckpointSize", "Bytes of state that it wrote.", bytes_written),
        (f"{_OF_JOB}numberOfCompletedCheckpoints", "Micro-batches committed since the run began.", view.batches),
        (f"{_OF_JOB}uptime", "How long the job has run, ms.", view.now - info.started if view.writer else 0),
        ("stateplan_batch", "Id of the last micro-batch that was committed.", last.batch if last else None),
        ("stateplan_batch_time_seconds", _CLOCK, last.time / 1000 if last else None),
        ("stateplan_running", "Whether a process runs the job.", float(view.writer is not None)),
        ("stateplan_backlog_batches", "Micro-batches that the input is good for.", view.backlog),
    ]
    budgets = [((*job, name), share) for name, share in (last.budgets if last else {}).items()]
    yield _family("stateplan_state_budget_used", "Share of a state budget that is used.", (*_JOB, "budget"), budgets)
    for name, text, number in jobs:
        yield _family(name, text, _JOB, [(job, number)])


def _of_rows(operators: _Labelled) -> Iterator[Metric]:
    """Counters of operators: rows, and time by phase."""
    rows_in = _parts(operators, "rows_in", 2)
    yield _counter("rows_in", "Rows by input and row kind.", (*_OPERATOR, "input", "kind"), rows_in)
    yield _counter("rows_out", "Rows by row kind.", (*_OPERATOR, "kind"), _parts(operators, "rows_out", 1))
    for name, text in _OF_STATES.items():
        counts = [
            ((*labels, _state_name(o, part[0])), value)
            for o, labels in operators
            for part, value in _figures(o, name, 1)
        ]
        yield _counter(f"state_{name}", text, (*_OPERATOR, "state"), counts)
    phases = [
        ((*labels, name.removesuffix("_ms")), value / 1000)
        for o, labels in operators
        for name, value in sorted(o.totals.items())
        if name.endswith("_ms") and "." not in name and name not in ("busy_ms", "watermark_ms", "now_ms")
    ]
    yield _counter("phase_seconds", "Time of tasks by what they did.", (*_OPERATOR, "phase"), phases)
    for figure, (name, text) in _COUNTERS.items():
        values = [(labels, o.totals[figure]) for o, labels in operators if figure in o.totals]
        yield _counter(name, text, _OPERATOR, values)


_SIZES: tuple[tuple[str, Callable[[StateSize], list[int]], str], ...] = (
    (
        "stored_rows",
        lambda size: size.rows,
        "Rows that state consists of, with older versions, deletion marks and expired rows.",
    ),
    ("bytes", lambda size: size.bytes, "Bytes of state."),
    ("runs", lambda size: size.runs, "Runs that state consists of."),
)


def _of_state(operators: _Labelled) -> Iterator[Metric]:
    """The sizes of states."""
    for name, size_of, text in _SIZES:
        sizes = [
            ((*labels, state), value)
            for o, labels in operators
            if o.state is not None
            for state, value in zip(o.info.states, size_of(o.state), strict=False)
        ]
        yield _family(f"stateplan_state_{name}", text, (*_OPERATOR, "state"), sizes)


_Labelled = list[tuple[OperatorView, tuple[str, ...]]]


def _figures(operator: OperatorView, figure: str, depth: int) -> Iterator[tuple[tuple[str, ...], float]]:
    for name, value in sorted(operator.totals.items()):
        first, rest = split_name(name)
        if first == figure and len(rest) == depth:
            yield rest, value


def _parts(operators: _Labelled, figure: str, depth: int) -> list[tuple[tuple[str, ...], float]]:
    return [((*labels, *part), value) for o, labels in operators for part, value in _figures(o, figure, depth)]


def _state_name(operator: OperatorView, index: str) -> str:
    states = operator.info.states
    return states[int(index)] if int(index) < len(states) else index


def _registry(look: Callable[[], JobView | None], is_filtered: bool = False) -> CollectorRegistry:
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(look, is_filtered))
    return registry


def exposition(view: JobView) -> str:
    """The figures in Prometheus' text format."""
    from prometheus_client import generate_latest

    return str(generate_latest(_registry(lambda: view)), "utf-8")


def reporters(options: Mapping[str, str]) -> list[Reporter]:
    """The Prometheus reporters that ``metrics.reporters`` names; without it, all that have a ``factory.class``.

    Raises:
        RunError: RUN080, a reporter that is not this one; RUN081, a port that is none; RUN082, a name without
            options; RUN083, an option that a reporter does not have, or a value that it cannot have.
    """
    prefix = "metrics.reporter."
    options_by_reporter: dict[str, dict[str, str]] = {}
    for key, text in options.items():
        if key.startswith(prefix):
            name, _, rest = key[len(prefix) :].partition(".")
            options_by_reporter.setdefault(name, {})[rest] = text
    names_text = options.get("metrics.reporters", "")
    names = [n.strip() for n in names_text.replace(";", ",").split(",") if n.strip()]
    out = []
    for name in names or [n for n, own in options_by_reporter.items() if "factory.class" in own]:
        own = options_by_reporter.get(name)
        if own is None or "factory.class" not in own:
            raise RunError("RUN082", name=name, prefix=prefix, factory=FACTORY, hint=nearest(name, options_by_reporter))
        if own["factory.class"] != FACTORY:
            raise RunError(
                "RUN080",
                name=name,
                factory_class=own["factory.class"],
                factory=FACTORY,
                hint=nearest(own["factory.class"], [FACTORY]),
            )
        unknown_key = next((k for k in own if k not in _OPTIONS), None)
        if unknown_key is not None:
            raise RunError(
                "RUN083",
                name=name,
                unknown=unknown_key,
                options=", ".join(_OPTIONS),
                hint=nearest(unknown_key, _OPTIONS),
            )
        filter_text = own.get(_FILTER, "false").strip().lower()
        if filter_text not in ("true", "false"):
            raise RunError("RUN083.filter", prefix=prefix, name=name, filter=_FILTER, own=own[_FILTER])
        out.append(Reporter(_ports(f"{prefix}{name}.port", own.get("port", DEFAULT_PORTS)), filter_text == "true"))
    return out


def _ports(key: str, text: str) -> range:
    """``9250`` or ``9250-9260``; 0 is any free port."""
    first, dash, last = (part.strip() for part in text.partition("-"))
    if first.isdecimal() and (last.isdecimal() or not dash):
        start, stop = int(first), int(last or first)
        if start <= stop <= 65535:
            return range(start, stop + 1)
    raise RunError("RUN081", key=key, text=text)


class Endpoint:
    """An HTTP server that gives the figures to Prometheus, at every path, until :meth:`close`.

    Args:
        reporter: of its ports the first free one is taken.
        look: the job as it is now.

    Attributes:
        port: where it listens, on all interfaces, as Flink's reporter does.

    Raises:
        RunError: RUN084, none of the ports is free.
    """

    def __init__(self, reporter: Reporter, look: Callable[[], JobView | None]) -> None:
        from prometheus_client import start_http_server

        ports, registry = reporter.ports, _registry(look, reporter.filtered)
        for port in ports:
            try:
                self._server, self._thread = start_http_server(port, registry=registry)
            except OSError as failure:
                cause = failure
                continue
            self.port = int(self._server.server_port)
            return
        many = f"none of the ports {ports[0]} to {ports[-1]}" if len(ports) > 1 else f"the port {ports[0]}"
        raise RunError("RUN084", many=many, wording="is free" if len(ports) > 1 else "is not free") from cause

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
