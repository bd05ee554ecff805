"""Sends the metrics of a job over OTLP: the same names, labels and values that Prometheus gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import View
from opentelemetry.sdk.resources import Resource

from stateplan.common.release import installed_version
from stateplan.runtime.metrics.registry import METRICS, Kind, Metric, Snapshot
from stateplan.runtime.metrics.view import JobView
from stateplan.session.otlp import Arrivals, Receiver, WatchedMetrics


class JobMeter:
    """Sends the metrics of a job, every minute or as ``OTEL_METRIC_EXPORT_INTERVAL`` says.

    Args:
        receiver: where to.
        resource: where from.
        look: the job as it is now.
        arrivals: hear whether metrics arrive.
    """

    def __init__(self, receiver: Receiver, resource: Resource, look: Callable[[], JobView], arrivals: Arrivals) -> None:
        self._look = look
        self._snapshot = Snapshot(look())
        reader = PeriodicExportingMetricReader(WatchedMetrics(receiver, arrivals))
        names = [
            View(instrument_name=m.name.lower(), name=m.name) for m in METRICS
        ]  # the SDK's names are in lower case
        self._provider = MeterProvider([reader], resource, shutdown_on_exit=False, views=names)
        meter = self._provider.get_meter("stateplan", installed_version())
        makers = {Kind.GAUGE: meter.create_observable_gauge, Kind.COUNTER: meter.create_observable_counter}
        for metric in METRICS:
            makers[metric.kind](metric.name, [self._observer(metric)], description=metric.text)

    def close(self) -> None:
        """Sends the last values."""
        with suppress(Exception):
            self._provider.shutdown()

    def _observer(self, metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(options: CallbackOptions) -> Iterable[Observation]:
            if metric is METRICS[0]:  # the SDK calls them in their order, and all values are to be of one moment
                self._snapshot = Snapshot(self._look())
            for labels, number in metric.samples(self._snapshot):
                yield Observation(number, dict(zip(metric.labels, labels, strict=True)))

        return observe
