"""Where telemetry goes: the options and variables that say so, and exporters of OpenTelemetry's SDK that are watched.

Only imported where telemetry is switched on: it needs the extra ``opentelemetry``.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_SDK_DISABLED
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from stateplan.common.errors import OptionError, nearest
from stateplan.common.release import installed_version
from stateplan.common.secrets import resolve_references
from stateplan.common.settings import value

ENDPOINT = "telemetry.opentelemetry.endpoint"
SIGNALS = "telemetry.opentelemetry.signals"

_SIGNALS = ("traces", "metrics", "logs")
_PROTOCOL = "http/protobuf"

E = TypeVar("E")


class Watch(Protocol):
    """Hears whether what a job sends arrives. Called in the threads of the SDK."""

    def accept(self, count: int) -> None:
        """So many items have arrived."""

    def delay(self) -> None:
        """An attempt has failed. Others may follow."""

    def lose(self, problem: str) -> None:
        """Items are lost, and why."""


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
            OptionError: OPT178, for a value that cannot be used; OPT120, OPT121 for references.
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
                raise OptionError("OPT178", problem=problem)
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
        raise OptionError("OPT178", problem=f"'{ENDPOINT}' is '{address}', which is not an address of HTTP")


def _is_on(signal: str) -> bool:
    """What the variables of OpenTelemetry say about a signal. Raises OptionError OPT178."""
    for name in (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = os.environ.get(name) or _PROTOCOL
        if protocol != _PROTOCOL:
            raise OptionError("OPT178", problem=f"{name} is '{protocol}', not '{_PROTOCOL}'")
        if name in os.environ:
            break
    name = f"OTEL_{signal.upper()}_EXPORTER"
    exporter = os.environ.get(name) or "otlp"
    if exporter not in ("otlp", "none"):
        raise OptionError("OPT178", problem=f"{name} is '{exporter}', not 'otlp' or 'none'")
    return exporter == "otlp"


def job_resource(job_id: str, plan_hash: str) -> Resource:
    """What all signals of a job say about where they are from. ``OTEL_RESOURCE_ATTRIBUTES`` and ``OTEL_SERVICE_NAME``
    override it."""
    version = installed_version()
    own = {
        "service.name": "stateplan",
        "service.version": version,
        "service.instance.id": job_id,
        "stateplan.version": version,
        "stateplan.plan.hash": plan_hash,
    }
    return Resource.create({**own, **OTELResourceDetector().detect().attributes})


class _Attempt(threading.local):
    """The attempt of a thread.

    Attributes:
        watch: hears of it; None outside of an attempt.
        text: the first warning.
    """

    watch: Watch | None = None
    text: str | None = None


class _FirstWarning(logging.Handler):
    """Remembers the first warning of the SDK during an attempt: its exporters log why they fail, and do not return it.
    A thread makes one attempt at a time."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._own = _Attempt()

    def emit(self, record: logging.LogRecord) -> None:
        watch = self._own.watch
        if watch is not None and self._own.text is None:
            self._own.text = record.getMessage()
            watch.delay()

    def attempt(self, export: Callable[[], bool], watch: Watch, count: int) -> None:
        """Exports so many items. ``export`` returns whether they have arrived."""
        self._own.watch, self._own.text = watch, None
        try:
            if export():
                watch.accept(count)
            else:
                watch.lose(self._own.text or "the receiver did not accept them")
        finally:
            self._own.watch = None


_warnings = _FirstWarning()


def catch_warnings() -> None:
    """Warnings of the SDK are reported by us, once, and printed by nobody."""
    logging.getLogger("opentelemetry").addHandler(_warnings)  # a second time has no effect


class WatchedSpans(SpanExporter):
    """Sends spans to a receiver, and tells whether they arrive.

    Args:
        receiver: the receiver.
        watch: hears of each attempt.

    Raises:
        OptionError: OPT178, a variable of OpenTelemetry has a value that cannot be used.
    """

    def __init__(self, receiver: Receiver, watch: Watch) -> None:
        self._exporter = make_exporter(lambda: OTLPSpanExporter(endpoint=receiver.url("traces")))
        self._watch = watch

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        _warnings.attempt(lambda: self._exporter.export(spans) is SpanExportResult.SUCCESS, self._watch, len(spans))
        return SpanExportResult.SUCCESS  # the SDK does not need to know

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


def make_exporter(make: Callable[[], E]) -> E:
    """An exporter of the SDK. Raises OptionError OPT178."""
    try:
        return make()
    except Exception as error:
        raise OptionError("OPT178", problem=f"{type(error).__name__}: {error}") from error
