"""Where telemetry goes: the options and variables that say so, and exporters of OpenTelemetry's SDK that are watched.

Only imported where telemetry is switched on: it needs the extra ``opentelemetry``.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.environment_variables import OTEL_SDK_DISABLED
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from stateplan.common.errors import OptionError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.release import installed_version
from stateplan.common.secrets import resolve_references
from stateplan.common.settings import value
from stateplan.session.job_followers import JobFollower

ENDPOINT = "telemetry.opentelemetry.endpoint"
SIGNALS = "telemetry.opentelemetry.signals"

_SIGNALS = ("traces", "metrics", "logs")
_PROTOCOL = "http/protobuf"

E = TypeVar("E")


@dataclass(frozen=True)
class Receiver:
    """A receiver of OTLP.

    Attributes:
        address: without the path of a signal; None for what the variables of OpenTelemetry say.
        signals: what it gets.
    """

    address: str | None
    signals: frozenset[str]

    @staticmethod
    def of(options: Mapping[str, str]) -> Receiver | None:
        """The receiver of the jobs of a session; None where the variables of OpenTelemetry switch everything off.

        Raises:
            OptionError: OPT188, for a value that cannot be used; OPT120, OPT121 for references.
        """
        if os.environ.get(OTEL_SDK_DISABLED, "").strip().lower() == "true":
            return None
        address = options.get(ENDPOINT)
        if address is not None:
            address = resolve_references(address, ENDPOINT).rstrip("/")
            _check_address(address)
        words = [word.strip() for word in str(value(options, SIGNALS)).split(",") if word.strip()]
        for word in words:
            if word not in _SIGNALS:
                problem = f"'{SIGNALS}' has '{word}'{nearest(word, _SIGNALS)}"
                raise OptionError("OPT188", problem=problem)
        signals = frozenset(signal for signal in words if _is_on(signal))
        return Receiver(address, signals) if signals else None

    def url(self, signal: str) -> str | None:
        """The address of a signal; None for what the variables of OpenTelemetry say."""
        return None if self.address is None else f"{self.address}/v1/{signal}"


def _check_address(address: str) -> None:
    try:
        place = urlsplit(address)
        is_usable = place.scheme in ("http", "https") and bool(place.hostname) and place.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise OptionError("OPT188", problem=f"'{ENDPOINT}' is '{address}', which is not an address of HTTP")


def _is_on(signal: str) -> bool:
    """What the variables of OpenTelemetry say about a signal. Raises OptionError OPT188."""
    for name in (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = os.environ.get(name) or _PROTOCOL
        if protocol != _PROTOCOL:
            raise OptionError("OPT188", problem=f"{name} is '{protocol}', not '{_PROTOCOL}'")
        if name in os.environ:
            break
    name = f"OTEL_{signal.upper()}_EXPORTER"
    exporter = os.environ.get(name) or "otlp"
    if exporter not in ("otlp", "none"):
        raise OptionError("OPT188", problem=f"{name} is '{exporter}', not 'otlp' or 'none'")
    return exporter == "otlp"


def process_resource() -> Resource:
    """What telemetry says about the program that it is from. ``OTEL_RESOURCE_ATTRIBUTES`` and ``OTEL_SERVICE_NAME``
    override it. The SDK detects it in a thread pool, which starts no threads once the process is ending. So the thread
    of a job must not call this."""
    version = installed_version()
    own = {"service.name": "stateplan", "service.version": version, "stateplan.version": version}
    return with_attributes(Resource.create(), own)


def with_attributes(resource: Resource, attributes: Mapping[str, str]) -> Resource:
    """A resource with further attributes. ``OTEL_RESOURCE_ATTRIBUTES`` overrides them too."""
    return resource.merge(Resource({**attributes, **OTELResourceDetector().detect().attributes}))


class Arrivals:
    """Hears whether what a job sends arrives, and tells its follower. Called in the threads of the SDK.

    Attributes:
        count: how many items have arrived.
    """

    def __init__(self, follower: JobFollower | None = None) -> None:
        self.count = 0
        self._follower = follower

    def accept(self, count: int) -> None:
        """So many items have arrived."""
        self.count += count
        if self._follower is not None:
            self._follower.is_reached = True

    def delay(self) -> None:
        """An attempt has failed. Others may follow."""
        if self._follower is not None:
            self._follower.is_reached = False

    def lose(self, problem: str) -> None:
        """Items are lost, and why."""
        if self._follower is not None:
            self._follower.report(self._follower.hide(problem))


class _Attempt(threading.local):
    """The attempt of a thread.

    Attributes:
        arrivals: hear of it; None outside of an attempt.
        text: the first warning.
    """

    arrivals: Arrivals | None = None
    text: str | None = None


class _FirstWarning(logging.Handler):
    """Remembers the first warning of the SDK during an attempt: its exporters log why they fail, and do not return it.
    A thread makes one attempt at a time."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._own = _Attempt()

    def emit(self, record: logging.LogRecord) -> None:
        arrivals = self._own.arrivals
        if arrivals is not None and self._own.text is None:
            self._own.text = record.getMessage()
            arrivals.delay()

    def attempt(self, export: Callable[[], bool], arrivals: Arrivals, count: int) -> None:
        """Exports so many items. ``export`` returns whether they have arrived."""
        self._own.arrivals, self._own.text = arrivals, None
        try:
            if export():
                arrivals.accept(count)
            else:
                arrivals.lose(self._own.text or "the receiver did not accept them")
        finally:
            self._own.arrivals = None


_warnings = _FirstWarning()


def catch_warnings() -> None:
    """Warnings of the SDK are reported by us, once, and printed by nobody."""
    logging.getLogger("opentelemetry").addHandler(_warnings)  # a second time has no effect


def _make(exporter: Callable[[], E]) -> E:
    """An exporter of the SDK. Raises OptionError OPT188."""
    try:
        return exporter()
    except Exception as error:
        raise OptionError("OPT188", problem=f"{type(error).__name__}: {error}") from error


class WatchedSpans(SpanExporter):
    """Sends spans to a receiver, and tells whether they arrive. The SDK hears of success, as it could do nothing else.

    Args:
        receiver: the receiver.
        arrivals: hear of each attempt.

    Raises:
        OptionError: OPT188, a variable of OpenTelemetry has a value that cannot be used.
    """

    def __init__(self, receiver: Receiver, arrivals: Arrivals) -> None:
        self._exporter = _make(lambda: OTLPSpanExporter(endpoint=receiver.url("traces")))
        self._arrivals = arrivals

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        _warnings.attempt(lambda: self._exporter.export(spans) is SpanExportResult.SUCCESS, self._arrivals, len(spans))
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


class WatchedMetrics(MetricExporter):
    """As :class:`WatchedSpans`, for metrics."""

    def __init__(self, receiver: Receiver, arrivals: Arrivals) -> None:
        self._exporter = _make(lambda: OTLPMetricExporter(endpoint=receiver.url("metrics")))
        super().__init__(
            preferred_temporality=self._exporter._preferred_temporality,  # noqa: SLF001 - as the SDK's readers do
            preferred_aggregation=self._exporter._preferred_aggregation,  # noqa: SLF001
        )
        self._arrivals = arrivals

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **more: Any) -> MetricExportResult:
        _warnings.attempt(
            lambda: self._exporter.export(metrics_data, timeout_millis, **more) is MetricExportResult.SUCCESS,
            self._arrivals,
            1,
        )
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **more: Any) -> None:
        self._exporter.shutdown(timeout_millis, **more)


class WatchedLogs(LogRecordExporter):
    """As :class:`WatchedSpans`, for logs."""

    def __init__(self, receiver: Receiver, arrivals: Arrivals) -> None:
        self._exporter = _make(lambda: OTLPLogExporter(endpoint=receiver.url("logs")))
        self._arrivals = arrivals

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        _warnings.attempt(
            lambda: self._exporter.export(batch) is LogRecordExportResult.SUCCESS, self._arrivals, len(batch)
        )
        return LogRecordExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 10_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


EXPORTERS: dict[str, Callable[[Receiver, Arrivals], Any]] = {
    "traces": WatchedSpans,
    "metrics": WatchedMetrics,
    "logs": WatchedLogs,
}
"""By signal, what sends it."""
