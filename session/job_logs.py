"""Sends what a job says over OTLP: notes for its user, warnings of Python's logging, its start and its end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from stateplan.common.release import installed_version
from stateplan.session.job_spans import Value
from stateplan.session.otlp import Arrivals, Receiver, WatchedLogs
from stateplan.session.traces import batch_ids

if TYPE_CHECKING:
    from stateplan.runtime.job import Job

_SEVERITIES = {
    logging.DEBUG: ("DEBUG", SeverityNumber.DEBUG),
    logging.INFO: ("INFO", SeverityNumber.INFO),
    logging.WARNING: ("WARN", SeverityNumber.WARN),
    logging.ERROR: ("ERROR", SeverityNumber.ERROR),
    logging.CRITICAL: ("FATAL", SeverityNumber.FATAL),
}
"""By Python's level, OpenTelemetry's. Source: the data model of its logs."""


class JobLogs:
    """Sends the logs of a job.

    Args:
        receiver: where to.
        resource: where from.
        job: the job.
        run_id: as of :class:`session.traces.Traces`.
        attributes: the attributes of the job, without a micro-batch.
        hide: takes secrets out of texts.
        arrivals: hear whether records arrive.
    """

    def __init__(
        self,
        receiver: Receiver,
        resource: Resource,
        job: Job,
        run_id: bytes,
        attributes: Mapping[str, Value],
        hide: Callable[[str], str],
        arrivals: Arrivals,
    ) -> None:
        self.job = job
        self._run_id, self._attributes, self._hide = run_id, attributes, hide
        self._provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_log_record_processor(BatchLogRecordProcessor(WatchedLogs(receiver, arrivals)))
        self._logger = self._provider.get_logger("stateplan", installed_version())

    def say(
        self,
        text: str,
        level: int = logging.INFO,
        instant: float | None = None,
        batch: int | None = None,
        more: Mapping[str, Value] | None = None,
        is_of_job: bool = True,
    ) -> None:
        """Sends a record.

        Args:
            text: its body.
            level: a level of Python.
            instant: when, seconds since 1970; by default now.
            batch: the micro-batch that it is about; None for the job as a whole.
            more: further attributes.
            is_of_job: whether it is known to be about this job.
        """
        attributes: dict[str, Value] = dict(self._attributes) if is_of_job else {}
        context = Context()
        if batch is not None:
            attributes["stateplan.batch.id"] = batch
            trace, span = batch_ids(self._run_id, batch)
            of_batch = SpanContext(trace, span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
            context = set_span_in_context(NonRecordingSpan(of_batch), context)
        name, severity = _SEVERITIES[max((one for one in _SEVERITIES if one <= level), default=logging.DEBUG)]
        record = LogRecord(
            timestamp=int((instant or time.time()) * 1e6) * 1000,
            observed_timestamp=time.time_ns(),
            context=context,
            severity_text=name,
            severity_number=severity,
            body=self._hide(text),
            attributes={**attributes, **(more or {})},
        )
        self._logger.emit(record)

    def close(self) -> None:
        """Sends what has not been sent yet."""
        with suppress(Exception):
            self._provider.shutdown()


class _Handler(logging.Handler):
    """Hands records of Python's logging to the logs of the job that they are about.

    Attributes:
        jobs: those that run.
    """

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[JobLogs] = []

    def emit(self, record: logging.LogRecord) -> None:
        if logging.lastResort is not None and record.levelno >= logging.lastResort.level and self._is_alone(record):
            logging.lastResort.handle(record)
        self._send(record)

    def _is_alone(self, record: logging.LogRecord) -> bool:
        """Whether Python would print the record if this handler were not there."""
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return False
            logger = logger.parent if logger.propagate else None
        return True

    def _send(self, record: logging.LogRecord) -> None:
        # A job that has ended may be here a moment longer, and its thread's id may be that of another thread now.
        logs = [one for one in self.jobs if one.job.is_active]
        if not logs:
            return
        try:
            more: dict[str, Value] = {
                "code.file.path": record.pathname,
                "code.line.number": record.lineno,
                "code.function.name": record.funcName or "",
                "stateplan.logger": record.name,
            }
            text = record.getMessage()
            views = [(one, one.job.view) for one in logs]
            of_thread = [(one, view) for one, view in views if view.thread == record.thread and view.in_hand]
            if of_thread:
                one, view = of_thread[0]
                assert view.in_hand is not None
                one.say(text, record.levelno, record.created, view.in_hand[0], more)
            else:
                logs[0].say(text, record.levelno, record.created, None, more, is_of_job=len(logs) == 1)
        except Exception:
            self.handleError(record)


_handler = _Handler()


def follow_logging(logs: JobLogs) -> None:
    """From now on, records of Python's logging go to a job, too."""
    _handler.jobs.append(logs)
    logging.getLogger("stateplan").addHandler(_handler)  # a second time has no effect


def leave_logging(logs: JobLogs) -> None:
    """The end of :func:`follow_logging`."""
    _handler.jobs[:] = [one for one in _handler.jobs if one is not logs]
    if not _handler.jobs:
        logging.getLogger("stateplan").removeHandler(_handler)
