"""A job's metrics in Prometheus' text format, and the HTTP endpoint that Flink's options ask for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from stateplan.common.errors import RunError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.metrics.registry import METRICS, STATUS, Kind, Metric, Snapshot
from stateplan.runtime.metrics.view import JobView

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric as MetricFamily

FACTORY = "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"
"""The value of ``metrics.reporter.<name>.factory.class`` that means this reporter."""

DEFAULT_PORTS = "9249"
"""Flink's default of ``metrics.reporter.<name>.port``."""

_FILTER = "filterLabelValueCharacters"
_OPTIONS = ("factory.class", "port", _FILTER)

_NOT_IN_LABELS = re.compile(r"[^a-zA-Z0-9:_]")
"""What Flink's option ``filterLabelValueCharacters`` removes from the values of labels."""


@dataclass(frozen=True)
class Reporter:
    """A Prometheus reporter: the ports it may listen on, and whether labels are filtered as Flink does."""

    ports: range
    filtered: bool = False


class _Gateway:
    """As :class:`_Collector`, for the jobs of a gateway.

    Args:
        jobs: those that run.
        ended_jobs: the others, of which there is only the status.
    """

    def __init__(self, jobs: Sequence[Snapshot], ended_jobs: Sequence[Snapshot]) -> None:
        self._jobs, self._ended_jobs = jobs, ended_jobs

    def collect(self) -> Iterator[MetricFamily]:
        yield from _families([*self._jobs, *self._ended_jobs], [STATUS])
        families = _families(self._jobs, [metric for metric in METRICS if metric is not STATUS])
        yield from (family for family in families if family.samples)


class _Collector:
    """What ``prometheus_client`` asks when somebody wants the figures."""

    def __init__(self, look: Callable[[], JobView | None], is_filtered: bool = False) -> None:
        self._look = look
        self._is_filtered = is_filtered

    def describe(self) -> Iterable[MetricFamily]:
        """Nothing: what there is depends on the job."""
        return []

    def collect(self) -> Iterator[MetricFamily]:
        view = self._look()
        if view is not None:
            for family in _families([Snapshot(view)]):
                if self._is_filtered:
                    family.samples = [s._replace(labels=_plain(s.labels)) for s in family.samples]
                if family.samples:
                    yield family


def _plain(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: text if name == "kind" else _NOT_IN_LABELS.sub("", text) for name, text in labels.items()}


def _families(snapshots: Sequence[Snapshot], metrics: Sequence[Metric] = METRICS) -> Iterator[MetricFamily]:
    """Metrics of jobs."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    types = {Kind.GAUGE: GaugeMetricFamily, Kind.COUNTER: CounterMetricFamily}
    for metric in metrics:
        family = types[metric.kind](metric.name, metric.text, labels=metric.labels)
        for snapshot in snapshots:
            for labels, number in metric.samples(snapshot):
                family.add_metric(labels, number)
        yield family


def _registry(look: Callable[[], JobView | None], is_filtered: bool = False) -> CollectorRegistry:
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(look, is_filtered))
    return registry


def exposition(view: JobView) -> str:
    """The figures in Prometheus' text format."""
    from prometheus_client import generate_latest

    return str(generate_latest(_registry(lambda: view)), "utf-8")


def gateway_exposition(jobs: Sequence[Snapshot], ended_jobs: Sequence[Snapshot]) -> str:
    """The figures of all jobs of a gateway in Prometheus' text format.

    Args:
        jobs: those that run.
        ended_jobs: the others, of which there is only the status.
    """
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Gateway(jobs, ended_jobs))
    return str(generate_latest(registry), "utf-8")


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
