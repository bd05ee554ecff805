"""Traces of jobs over OTLP, sent by threads beside the jobs with OpenTelemetry's SDK.

A job has one such thread. It reads the records of the job's micro-batches, which the job makes in any case, and makes
spans of them. The SDK sends the spans in a thread of its own, from a queue of limited length. Nothing here can slow
down a job or make it fail. This module is only imported where telemetry is switched on: it needs the extra
``opentelemetry``.
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

from stateplan.common.errors import RunError
from stateplan.common.readable import hex_id
from stateplan.common.release import installed_version
from stateplan.connectors.datasets import Dataset
from stateplan.execnodes.node_tables import table_of
from stateplan.plans.document import PlanDocument
from stateplan.session.job_followers import JobFollower, problem_of
from stateplan.session.job_spans import SpanTree, batch_spans, failed_batch
from stateplan.session.lineage_tables import table_datasets
from stateplan.session.otlp import Receiver, WatchedSpans, catch_warnings, job_resource

if TYPE_CHECKING:
    from stateplan.common.secrets import Secrets
    from stateplan.runtime.job import Job
    from stateplan.runtime.metrics.records import JobInfo
    from stateplan.session.jobs import JobRecord

_EVERY = 0.5
"""Between two looks at the records of a job, s. A job keeps the last 1000."""


def telemetry_of(options: Mapping[str, str], tell: Callable[[str], None] | None) -> Telemetry | None:
    """What sends telemetry of the jobs of a session; None where variables of OpenTelemetry switch it off.

    Args:
        options: the options of the session.
        tell: gets one warning per job for the user.

    Raises:
        OptionError: OPT178, an option or a variable of OpenTelemetry has a value that cannot be used; OPT120, OPT121
            for references.
    """
    receiver = Receiver.of(options)
    if receiver is None:
        return None
    catch_warnings()
    telemetry = Telemetry(receiver, tell)
    telemetry.check()
    return telemetry


class Telemetry:
    """Sends telemetry of jobs. See :func:`telemetry_of`.

    Attributes:
        receiver: where to.
    """

    def __init__(self, receiver: Receiver, tell: Callable[[str], None] | None) -> None:
        self.receiver = receiver
        self._tell = tell or logging.getLogger(__name__).warning

    def check(self) -> None:
        """Raises OptionError OPT178 where the SDK cannot be set up."""
        if "traces" in self.receiver.signals:
            WatchedSpans(self.receiver, Arrivals()).shutdown()

    def follow(self, job: Job, record: JobRecord, secrets: Secrets) -> None:
        """Sends the telemetry of a job that has just been started, until it has ended.

        Args:
            job: the job.
            record: its record, with its plan.
            secrets: what must not be in any span.
        """
        _Follower(self, job, record, secrets).start()

    def report(self, problem: str) -> None:
        """Tells the user why something was lost."""
        self._tell(str(RunError("RUN180", signal="traces", problem=problem)))


class _Follower(JobFollower):
    """The thread of a job.

    Attributes:
        run_id: of this run of the job: a job that continues from its checkpoint may repeat a micro-batch.
    """

    def __init__(self, telemetry: Telemetry, job: Job, record: JobRecord, secrets: Secrets) -> None:
        super().__init__(job, "telemetry", secrets, telemetry.report)
        self._receiver, self._record = telemetry.receiver, record
        self.run_id = uuid.uuid4().bytes
        self._ended = 0.0
        self._last = -1
        self._plan: tuple[str | None, str, dict[int, tuple[Dataset, ...]]] = (None, "", {})

    def end(self, job: Job) -> None:
        self._ended = 1000 * time.time()
        super().end(job)

    def run(self) -> None:
        try:
            resource = job_resource(hex_id(self.job.job_id), self._plan_hash())
            if "traces" in self._receiver.signals:
                self._trace(Traces(self._receiver, resource, self))
        except Exception as error:  # whatever it is, the job must not notice
            self.report(self.hide(problem_of(error)))

    def _trace(self, traces: Traces) -> None:
        """Sends the traces of the job until it has ended."""
        while not self.over.wait(_EVERY):
            self._look(traces)
        self._look(traces)
        self._look_at_error(traces)
        traces.close()

    def _look(self, traces: Traces) -> None:
        """Sends the spans of micro-batches that have been committed since the last look."""
        is_over = self.over.is_set()
        records = [record for record in self.job.metrics if record.batch > self._last]
        info = self._info()
        for record in records:
            is_settled = bool(record.spark) or self.job.runs_in is None
            if not is_settled and record is records[-1] and not is_over:
                break  # Spark's phases are known a moment later
            if self._last >= 0:
                traces.skip(record.batch - self._last - 1)
            plan_hash = self._plan_hash()
            tree = batch_spans(record, info, self._plan[2])
            attributes = {**tree.attributes, "stateplan.plan.hash": plan_hash}
            traces.send(replace(tree, attributes=attributes), record.batch)
            self._last = record.batch

    def _look_at_error(self, traces: Traces) -> None:
        """Sends the span of the micro-batch that made the job fail."""
        error = self.job.error
        if error is None:
            return
        view = self.job.view
        next_batch = view.info.first_batch if view.last is None else view.last.batch + 1
        batch, began = view.in_hand or (next_batch, self._ended)
        tree = failed_batch(batch, began, self._ended, self._info(), (error.code, self.hide(error.message)))
        traces.send(tree, batch)

    def _info(self) -> JobInfo:
        """The job as its telemetry names it."""
        info = self.job.view.info
        return replace(info, name=self.hide(info.name), job_id=hex_id(self.job.job_id))

    def _plan_hash(self) -> str:
        """SHA-256 of the plan that the job has now: ALTER JOB may have changed it."""
        text = self._record.plan or ""
        if self._plan[0] != text:
            datasets = {}
            for node in PlanDocument.parse(text).graph.nodes if text else ():
                table = table_of(node)
                if table is not None:
                    datasets[node.id] = tuple(
                        Dataset(*map(self.hide, dataset)) for dataset in table_datasets(table, "stateplan")
                    )
            self._plan = text, hashlib.sha256(text.encode()).hexdigest(), datasets
        return self._plan[1]


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


class Arrivals:
    """Hears whether what a job sends arrives, and tells its follower.

    Attributes:
        count: how many items have arrived.
    """

    def __init__(self, follower: JobFollower | None = None) -> None:
        self.count = 0
        self._follower = follower

    def accept(self, count: int) -> None:
        self.count += count
        if self._follower is not None:
            self._follower.is_reached = True

    def delay(self) -> None:
        if self._follower is not None:
            self._follower.is_reached = False

    def lose(self, problem: str) -> None:
        if self._follower is not None:
            self._follower.report(self._follower.hide(problem))


class Traces:
    """Sends the traces of a job.

    Args:
        receiver: where to.
        resource: where from.
        follower: the thread that calls.
    """

    def __init__(self, receiver: Receiver, resource: Resource, follower: _Follower) -> None:
        self._follower = follower
        self._ids = _Ids()
        self._total, self._arrivals = 0, Arrivals(follower)
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False, id_generator=self._ids)
        self._provider.add_span_processor(BatchSpanProcessor(WatchedSpans(receiver, self._arrivals)))
        self._tracer = self._provider.get_tracer("stateplan", installed_version())

    def send(self, tree: SpanTree, batch: int) -> None:
        """Sends the spans of a micro-batch."""
        self._ids.trace, self._ids.root = batch_ids(self._follower.run_id, batch)
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
            self._follower.report(f"{lost_spans} of {self._total} spans are lost, as the queue had no room for more")

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
