"""Metrics and logs of jobs over OTLP: the metrics are those of Prometheus, and logs refer to jobs and micro-batches."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stateplan.common.errors import DataError
from stateplan.runtime.job import Job
from stateplan.runtime.local.levels import LocalLevels
from stateplan.runtime.metrics.prometheus import exposition
from tests.session.otlp_receiver import Log, OtlpReceiver, otlp_receiver
from tests.session.traced_jobs import JOIN, run, session
from tests.support.waiting import until


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with otlp_receiver() as receiver:
        yield receiver


def last_log(receiver: OtlpReceiver) -> Log:
    """The log record of the end of a job."""
    until(lambda: any(log.text.startswith("the job has") and "started" not in log.text for log in receiver.logs), 20)
    return receiver.logs[-1]


def test_metrics_are_those_of_prometheus(tmp_path: Path, receiver: OtlpReceiver) -> None:
    env = session(tmp_path, receiver.url, **{"telemetry.opentelemetry.signals": "metrics"})
    job = env.execute_sql(JOIN).job
    assert isinstance(job, Job)
    job.wait()
    until(lambda: bool(receiver.metrics()), 20, "no metrics")
    expected = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(exposition(job.view))
        for sample in family.samples
    }
    sent = receiver.metrics()
    assert sent.keys() == expected.keys() and len(sent) > 60
    moving = ("PerSecond", "_uptime", "_running", "_load")
    assert {k: v for k, v in sent.items() if not k[0].endswith(moving)} == pytest.approx(
        {k: v for k, v in expected.items() if not k[0].endswith(moving)}
    )
    assert next(v for (name, _), v in sent.items() if name == "stateplan_running") == 0
    assert {path for path, _ in receiver.requests} == {"/v1/metrics"}


def test_counters_are_sums_and_the_resource_is_the_job(tmp_path: Path, receiver: OtlpReceiver) -> None:
    env = session(tmp_path, receiver.url)
    root = run(env, receiver)
    until(lambda: bool(receiver.metrics()), 20, "no metrics")
    (group,) = next(request for path, request in receiver.requests if path == "/v1/metrics").resource_metrics
    metrics = {metric.name: metric for scope in group.scope_metrics for metric in scope.metrics}
    assert metrics["stateplan_rows_in_total"].sum.is_monotonic
    assert metrics["stateplan_rows_in_total"].description == "Input rows by input and row kind."
    assert metrics["flink_taskmanager_job_task_operator_numRecordsIn"].HasField("gauge")
    named = {pair.key: pair.value.string_value for pair in group.resource.attributes}
    assert named["service.instance.id"] == root.resource["service.instance.id"]


def test_metrics_arrive_while_the_job_runs(
    tmp_path: Path, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
    hold = threading.Event()
    real = LocalLevels.play
    monkeypatch.setattr(LocalLevels, "play", lambda levels, blobs: (hold.wait(20), real(levels, blobs))[1])
    env = session(tmp_path, receiver.url)
    result = env.execute_sql(JOIN)
    until(lambda: "stateplan_running" in {name for name, _ in receiver.metrics()}, 20, "no metrics")
    hold.set()
    result.wait()


def test_logs_refer_to_the_job(tmp_path: Path, receiver: OtlpReceiver) -> None:
    env = session(tmp_path, receiver.url, **{"pipeline.name": "totals"})
    messages: list[str] = []
    env.session.starter.console = messages.append
    before = time.time_ns()
    env.execute_sql(JOIN).wait()
    assert last_log(receiver).text == "the job has ended: FINISHED"
    logs = sorted(receiver.logs, key=lambda log: log.instant)
    assert [log.text for log in logs][:1] == messages[:1] and "runs in this process" in messages[0]
    assert {"the job has started", "the job has ended: FINISHED"} < {log.text for log in logs}
    job_id = env.session.jobs.entries()[0].id
    for log in logs:
        assert log.severity == "INFO" and before <= log.instant <= time.time_ns()
        assert log.attributes == {"stateplan.job.name": "totals", "stateplan.job.id": job_id}
        assert log.resource["service.name"] == "stateplan"


def test_the_log_of_a_failure_refers_to_its_micro_batch(tmp_path: Path, receiver: OtlpReceiver) -> None:
    with pytest.raises(DataError):
        run(session(tmp_path, receiver.url, '{"k": "many", "v": 1}\n'), receiver)
    log = last_log(receiver)
    assert log.severity == "ERROR" and log.text.startswith('the job has failed: [DATA112] "many" is not a value')
    assert log.attributes["error.type"] == "DATA112" and log.attributes["stateplan.batch.id"] == 0
    until(lambda: bool(receiver.roots()), 20)
    (root,) = receiver.roots()
    assert (log.trace, log.span) == (root.trace, root.id)


def test_records_of_logging_refer_to_the_micro_batch_of_their_thread(
    tmp_path: Path, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready, hold = threading.Event(), threading.Event()
    real = LocalLevels.play

    def play(levels: LocalLevels, blobs: list[object]) -> object:
        ready.set()
        hold.wait(20)
        logging.getLogger("stateplan.files").warning("the folder %s is away", "f1")
        return real(levels, blobs)

    monkeypatch.setattr(LocalLevels, "play", play)
    result = session(tmp_path, receiver.url).execute_sql(JOIN)
    assert ready.wait(20)
    (handler,) = until_handlers(1)
    logging.getLogger("stateplan").error("from another thread")
    hold.set()
    result.wait()
    last_log(receiver)
    until(lambda: bool(receiver.roots()), 20)
    by_text = {log.text: log for log in receiver.logs}
    folder, other = by_text["the folder f1 is away"], by_text["from another thread"]
    assert folder.severity == "WARN" and folder.attributes["stateplan.batch.id"] == 0
    assert folder.attributes["stateplan.logger"] == "stateplan.files"
    assert folder.attributes["code.function.name"] == "play"
    assert (folder.trace, folder.span) == (receiver.roots()[0].trace, receiver.roots()[0].id)
    assert other.severity == "ERROR" and other.trace == b"" and "stateplan.job.id" in other.attributes
    assert handler not in logging.getLogger("stateplan").handlers


def test_a_record_that_may_be_of_several_jobs_is_of_none(
    tmp_path: Path, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = threading.Event()
    real = LocalLevels.play
    monkeypatch.setattr(LocalLevels, "play", lambda levels, blobs: (hold.wait(20), real(levels, blobs))[1])
    env = session(tmp_path, receiver.url)
    results = [env.execute_sql(JOIN) for _ in range(2)]
    (handler,) = until_handlers(2)
    logging.getLogger("stateplan").warning("somewhere")
    hold.set()
    for result in results:
        result.wait()
    until(lambda: any(log.text == "somewhere" for log in receiver.logs), 20)
    (log,) = (log for log in receiver.logs if log.text == "somewhere")
    assert not [name for name in log.attributes if name.startswith("stateplan.job")]
    until(lambda: not handler.jobs, 20)


def until_handlers(count: int) -> list[Any]:
    """The handler of the logs of jobs, when it has so many jobs."""

    def handlers() -> list[Any]:
        return [h for h in logging.getLogger("stateplan").handlers if len(getattr(h, "jobs", ())) == count]

    until(lambda: bool(handlers()), 20, "no handler")
    return handlers()


def test_records_are_printed_as_without_telemetry(
    tmp_path: Path, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hold = threading.Event()
    real = LocalLevels.play
    monkeypatch.setattr(LocalLevels, "play", lambda levels, blobs: (hold.wait(20), real(levels, blobs))[1])
    log = logging.getLogger("stateplan")
    monkeypatch.setattr(log, "propagate", False)  # a program that has configured nothing has no handlers above it
    result = session(tmp_path, receiver.url).execute_sql(JOIN)
    until_handlers(1)
    log.warning("for the user")
    log.info("for nobody")
    assert capsys.readouterr().err == "for the user\n"
    log.addHandler(quiet := logging.NullHandler())
    log.warning("for a handler")
    log.removeHandler(quiet)
    assert capsys.readouterr().err == ""
    hold.set()
    result.wait()
    last_log(receiver)
    assert {"for the user", "for a handler"} < {one.text for one in receiver.logs}


def test_logs_have_no_secrets(tmp_path: Path, receiver: OtlpReceiver) -> None:
    run(session(tmp_path, receiver.url, **{"pipeline.name": "'password' = 'hunter2-S3CRET'"}), receiver)
    last_log(receiver)
    until(lambda: bool(receiver.metrics()), 20, "no metrics")
    assert "hunter2" not in str(receiver.requests)
