"""Traces, metrics and logs of jobs over OTLP, sent by threads beside the jobs with OpenTelemetry's SDK.

A job has one such thread. It reads the records of the job's micro-batches, which the job makes in any case, and makes
spans of them. The SDK sends everything in threads of its own, from queues of limited length. Nothing here can slow
down a job or make it fail. This module is only imported where telemetry is switched on: it needs the extra
``opentelemetry``.
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from stateplan.common.errors import RunError
from stateplan.common.readable import hex_id
from stateplan.connectors.datasets import Dataset
from stateplan.execnodes.node_tables import table_of
from stateplan.plans.document import PlanDocument
from stateplan.session.job_followers import JobFollower, problem_of
from stateplan.session.job_logs import JobLogs, follow_logging, leave_logging
from stateplan.session.job_spans import batch_spans, failed_batch, job_attributes
from stateplan.session.lineage_tables import table_datasets
from stateplan.session.otlp import EXPORTERS, Arrivals, Receiver, catch_warnings, process_resource, with_attributes
from stateplan.session.otlp_metrics import JobMeter
from stateplan.session.traces import Traces

if TYPE_CHECKING:
    from stateplan.common.secrets import Secrets
    from stateplan.runtime.job import Job
    from stateplan.runtime.metrics.view import JobView
    from stateplan.session.jobs import JobRecord

_EVERY = 0.5
"""Between two looks at the records of a job, s. A job keeps the last 1000."""


def telemetry_of(options: Mapping[str, str], tell: Callable[[str], None] | None) -> Telemetry | None:
    """What sends telemetry of a job; None where variables of OpenTelemetry switch it off.

    Args:
        options: the options of the session.
        tell: gets one warning for the user.

    Raises:
        OptionError: OPT188, an option or a variable of OpenTelemetry has a value that cannot be used; OPT120, OPT121
            for references.
    """
    receiver = Receiver.of(options)
    if receiver is None:
        return None
    catch_warnings()
    for signal in receiver.signals:
        EXPORTERS[signal](receiver, Arrivals()).shutdown()
    return Telemetry(receiver, tell)


class Telemetry:
    """Sends telemetry of one job. See :func:`telemetry_of`.

    Attributes:
        receiver: where to.
        resource: where from.
    """

    def __init__(self, receiver: Receiver, tell: Callable[[str], None] | None) -> None:
        self.receiver, self.resource = receiver, process_resource()
        self._tell = tell or logging.getLogger("stateplan").warning
        self._notes: list[tuple[float, str]] = []
        self._follower: _Follower | None = None

    def hear(self, note: str) -> None:
        """The job tells its user something, perhaps while it starts."""
        if "logs" not in self.receiver.signals:
            return
        if self._follower is None:
            self._notes.append((time.time(), note))
        else:
            self._follower.hear(time.time(), note)

    def follow(self, job: Job, record: JobRecord, secrets: Secrets) -> None:
        """Sends the telemetry of a job that has just been started, until it has ended. Arguments as of
        :meth:`session.job_reports.Reporting.follow`."""
        self._follower = _Follower(self, job, record, secrets, self._notes)
        self._follower.start()

    def report(self, problem: str) -> None:
        """Tells the user why something was lost."""
        self._tell(str(RunError("RUN186", problem=problem)))


class _Follower(JobFollower):
    """The thread of a job. ``notes`` are what the job has told its user so far, and when."""

    def __init__(
        self, telemetry: Telemetry, job: Job, record: JobRecord, secrets: Secrets, notes: list[tuple[float, str]]
    ) -> None:
        super().__init__(job, "telemetry", secrets, telemetry.report)
        self._receiver, self._resource = telemetry.receiver, telemetry.resource
        self._record, self._notes = record, notes
        self._run_id = uuid.uuid4().bytes
        self._ended = 0.0
        self._last = -1
        self._logs: JobLogs | None = None
        self._plan: tuple[str | None, str, dict[int, tuple[Dataset, ...]]] = (None, "", {})

    def end(self, job: Job) -> None:
        self._ended = 1000 * time.time()
        super().end(job)

    def hear(self, instant: float, note: str) -> None:
        """The job tells its user something."""
        if self._logs is None:
            self._notes.append((instant, note))
        else:
            in_hand = self.job.view.in_hand
            self._logs.say(note, instant=instant, batch=in_hand and in_hand[0])

    def run(self) -> None:
        try:
            self._run()
        except Exception as error:  # whatever it is, the job must not notice
            self.report(self.hide(problem_of(error)))
        finally:
            if self._logs is not None:
                leave_logging(self._logs)

    def _run(self) -> None:
        signals, receiver = self._receiver.signals, self._receiver
        own = {"service.instance.id": hex_id(self.job.job_id), "stateplan.plan.hash": self._plan_hash()}
        resource = with_attributes(self._resource, own)
        logs = self._begin_logs() if "logs" in signals else None
        meter = JobMeter(receiver, resource, self._view, Arrivals(self)) if "metrics" in signals else None
        traces = Traces(receiver, resource, self._run_id, Arrivals(self)) if "traces" in signals else None
        while not self.over.wait(_EVERY):
            if traces is not None:
                self._look(traces)
        if traces is not None:
            self._look(traces)
        self._end_with(traces, logs)
        if logs is not None:
            leave_logging(logs)
        for sender in (traces, logs, meter):
            if sender is not None:
                sender.close()

    def _begin_logs(self) -> JobLogs:
        attributes = job_attributes(self._view().info, None)
        logs = JobLogs(self._receiver, self._resource, self.job, self._run_id, attributes, self.hide, Arrivals(self))
        logs.say("the job has started")
        self._logs = logs
        while self._notes:
            instant, note = self._notes.pop(0)
            logs.say(note, instant=instant)
        follow_logging(logs)
        return logs

    def _look(self, traces: Traces) -> None:
        """Sends the spans of micro-batches that have been committed since the last look."""
        is_over = self.over.is_set()
        records = [record for record in self.job.metrics if record.batch > self._last]
        if not records:
            return
        info = self._view().info
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

    def _end_with(self, traces: Traces | None, logs: JobLogs | None) -> None:
        """Sends the end of the job, and the span of the micro-batch that made it fail."""
        error, instant = self.job.error, self._ended / 1000
        if error is None:
            if logs is not None:
                logs.say(f"the job has ended: {self.job.status.value}", instant=instant)
            return
        view = self._view()
        next_batch = view.info.first_batch if view.last is None else view.last.batch + 1
        batch, began = view.in_hand or (next_batch, self._ended)
        message = self.hide(error.message)
        if traces is not None:
            traces.send(failed_batch(batch, began, self._ended, view.info, (error.code, message)), batch)
        if logs is not None:
            more = {"error.type": error.code, "exception.type": error.code, "exception.message": message}
            logs.say(f"the job has failed: [{error.code}] {message}", logging.ERROR, instant, batch, more)

    def _view(self) -> JobView:
        """The job as its telemetry names it."""
        view = self.job.view
        info = replace(view.info, name=self.hide(view.info.name), job_id=hex_id(self.job.job_id))
        return replace(view, info=info, writer=None if self.over.is_set() else view.writer)

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
