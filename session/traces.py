"""Sends the traces of a job over OTLP, with OpenTelemetry's SDK."""

from __future__ import annotations

import hashlib
from contextlib import suppress

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

from stateplan.common.release import installed_version
from stateplan.session.job_spans import SpanTree
from stateplan.session.otlp import Arrivals, Receiver, WatchedSpans


def batch_ids(run_id: bytes, batch: int) -> tuple[int, int]:
    """The ids of the trace of a micro-batch, and of its root span. Logs refer to them before the spans are made."""
    digest = hashlib.sha256(run_id + batch.to_bytes(8, "big")).digest()
    return int.from_bytes(digest[:16], "big"), int.from_bytes(digest[16:24], "big")


class _Ids(RandomIdGenerator):
    """Random ids, but for root spans.

    Attributes:
        trace, root: the ids of the next root span.
    """

    def __init__(self) -> None:
        self.trace, self.root = 0, 0

    def generate_trace_id(self) -> int:
        return self.trace or super().generate_trace_id()

    def generate_span_id(self) -> int:
        root, self.root = self.root, 0
        return root or super().generate_span_id()


class Traces:
    """Sends the traces of a job.

    Args:
        receiver: where to.
        resource: where from.
        run_id: of the run of the job: one that continues from a checkpoint may repeat a micro-batch.
        arrivals: hear whether spans arrive.
    """

    def __init__(self, receiver: Receiver, resource: Resource, run_id: bytes, arrivals: Arrivals) -> None:
        self._run_id = run_id
        self._ids = _Ids()
        self._total, self._arrivals = 0, arrivals
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False, id_generator=self._ids)
        self._provider.add_span_processor(BatchSpanProcessor(WatchedSpans(receiver, self._arrivals)))
        self._tracer = self._provider.get_tracer("stateplan", installed_version())

    def send(self, tree: SpanTree, batch: int) -> None:
        """Sends the spans of a micro-batch."""
        self._ids.trace, self._ids.root = batch_ids(self._run_id, batch)
        self._send(tree, Context())

    def skip(self, count: int) -> None:
        """The records of so many micro-batches were gone before their spans were made."""
        self._total += count

    def close(self) -> None:
        """Sends what has not been sent yet."""
        with suppress(Exception):
            self._provider.shutdown()
        lost_spans = self._total - self._arrivals.count
        if lost_spans > 0:
            self._arrivals.lose(f"{lost_spans} of {self._total} spans are lost, as the queue had no room for more")

    def _send(self, tree: SpanTree, context: Context) -> None:
        span = self._tracer.start_span(
            tree.name, context, SpanKind[tree.kind], tree.attributes, start_time=_nanoseconds(tree.begin)
        )
        self._total += span.is_recording()
        if tree.error is not None:
            code, message = tree.error
            details = {"exception.type": code, "exception.message": message}
            span.add_event("exception", details, _nanoseconds(tree.end))
            span.set_status(Status(StatusCode.ERROR, f"[{code}] {message}"))
        inner = set_span_in_context(span, context)
        for child in tree.children:
            self._send(child, inner)
        span.end(_nanoseconds(tree.end))


def _nanoseconds(milliseconds: float) -> int:
    return int(milliseconds * 1000) * 1000
