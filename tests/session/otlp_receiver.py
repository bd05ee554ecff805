"""A receiver of OTLP over HTTP that decodes and keeps what it gets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tests.support.waiting import until

_REQUESTS: dict[str, Any] = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
}


@dataclass(frozen=True)
class Span:
    """A span that has arrived.

    Attributes:
        name: of the span.
        id, parent, trace: ids; no parent is empty.
        begin, end: ns since 1970.
        attributes, resource: by name.
        proto: the span as it arrived.
    """

    name: str
    id: bytes
    parent: bytes
    trace: bytes
    begin: int
    end: int
    attributes: dict[str, Any]
    resource: dict[str, Any]
    proto: Any

    @property
    def batch(self) -> int:
        return int(self.attributes["stateplan.batch.id"])


@dataclass(frozen=True)
class Log:
    """A log record that has arrived.

    Attributes:
        text, severity: of the record.
        attributes, resource: by name.
        trace, span: what it refers to; empty for nothing.
        instant: ns since 1970.
    """

    text: str
    severity: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    trace: bytes
    span: bytes
    instant: int


class OtlpReceiver:
    """A receiver.

    Attributes:
        url: of the receiver.
        requests: path and decoded request, of all so far.
        headers: of the last request.
        seconds: how long each answer takes.
        status: of each answer.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any]] = []
        self.headers: dict[str, str] = {}
        self.seconds = 0.0
        self.status = 200
        self.closing = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                owner.headers = dict(self.headers)
                owner.closing.wait(owner.seconds)
                if owner.status == 200:
                    owner.requests.append((self.path, _REQUESTS[self.path].FromString(body)))
                self.send_response(owner.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def spans(self) -> list[Span]:
        """The spans so far."""
        return [
            Span(
                span.name,
                span.span_id,
                span.parent_span_id,
                span.trace_id,
                span.start_time_unix_nano,
                span.end_time_unix_nano,
                attributes_of(span.attributes),
                attributes_of(group.resource.attributes),
                span,
            )
            for path, request in list(self.requests)
            if path == "/v1/traces"
            for group in request.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]

    @property
    def logs(self) -> list[Log]:
        """The log records so far."""
        return [
            Log(
                record.body.string_value,
                record.severity_text,
                attributes_of(record.attributes),
                attributes_of(group.resource.attributes),
                record.trace_id,
                record.span_id,
                record.time_unix_nano,
            )
            for path, request in list(self.requests)
            if path == "/v1/logs"
            for group in request.resource_logs
            for scope in group.scope_logs
            for record in scope.log_records
        ]

    def metrics(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """The last values of all metrics, by name and labels."""
        out: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        for path, request in list(self.requests):
            groups = request.resource_metrics if path == "/v1/metrics" else ()
            for metric in (m for group in groups for scope in group.scope_metrics for m in scope.metrics):
                for point in (metric.sum if metric.HasField("sum") else metric.gauge).data_points:
                    labels = tuple(sorted(attributes_of(point.attributes).items()))
                    out[metric.name, labels] = point.as_double if point.HasField("as_double") else point.as_int
        return out

    def roots(self) -> list[Span]:
        """The spans of whole micro-batches, by micro-batch."""
        return sorted((span for span in self.spans if not span.parent), key=lambda span: span.batch)

    def children(self, parent: Span) -> list[Span]:
        """The spans right below one, by their begin."""
        return sorted((s for s in self.spans if s.parent == parent.id), key=lambda span: span.begin)

    def outline(self, span: Span, depth: int = 0) -> list[str]:
        """The names of a span and those within it, with indents."""
        lines = ["  " * depth + span.name]
        return lines + [line for child in self.children(span) for line in self.outline(child, depth + 1)]

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


def attributes_of(pairs: Any) -> dict[str, Any]:
    """Attributes by name."""
    return {pair.key: _value(pair.value) for pair in _typed(pairs)}


def _typed(pairs: Any) -> list[KeyValue]:
    return list(pairs)


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return None if kind is None else getattr(value, kind)


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """A receiver. It answers until all jobs have sent what they had to, so that no test hears of those before it."""
    receiver = OtlpReceiver()
    try:
        yield receiver
        receiver.closing.set()
        until(lambda: not any(t.name.startswith("telemetry of") for t in threading.enumerate()), 30, "still sending")
    finally:
        receiver.close()


def options_for(url: str) -> dict[str, str]:
    """The options of a session that sends its telemetry to a receiver."""
    return {"telemetry.opentelemetry.enabled": "true", "telemetry.opentelemetry.endpoint": url}
