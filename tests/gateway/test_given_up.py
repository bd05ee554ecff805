"""An INSERT that is waited for (``table.dml-sync``) and given up: its job ends, and the session is free at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stateplan.common.errors import RunError, StateplanError
from stateplan.gateway.service.service import InProcessSession, SqlGatewayService
from stateplan.session.jobs import JobEntry
from stateplan.session.results import ResultKind, TableResult
from stateplan.session.starter import JobStarter
from tests.support.waiting import until


class SlowJob:
    """A job that ends when it is stopped, and not before :attr:`may_end`."""

    job_id = "00000000-0000-0000-0000-000000000001"

    def __init__(self) -> None:
        self.may_end, self.stopping, self._over = threading.Event(), threading.Event(), threading.Event()
        self._calls: list[Callable[[Any], None]] = []
        self.error: StateplanError | None = None

    def when_over(self, call: Callable[[Any], None]) -> None:
        self._calls.append(call)

    def wait(self, seconds: float | None = None) -> bool:
        if not self._over.wait(seconds):
            return False
        if self.error is not None:
            raise self.error
        return True

    def stop(self) -> None:
        self.stopping.set()
        self.may_end.wait(20)
        self.end()

    def end(self, error: StateplanError | None = None) -> None:
        self.error = error
        self._over.set()
        for call in self._calls:
            call(self)


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> SlowJob:
    made = SlowJob()

    def inserts(starter: JobStarter, *_: object) -> TableResult:
        starter.host.wait(made)  # type: ignore[arg-type]
        return TableResult(("o",), (), [], ResultKind.SUCCESS)

    monkeypatch.setattr(JobStarter, "inserts", inserts)
    return made


@pytest.fixture
def session() -> InProcessSession:
    found = SqlGatewayService().open_session("test")
    run(found, "CREATE TABLE o (a INT) WITH ('connector' = 'blackhole')")
    return found


def run(session: InProcessSession, statement: str) -> None:
    operation = session.submit(statement)
    until(lambda: session.fetch(operation, 0).kind.value != "NOT_READY", 5)


def started(session: InProcessSession) -> str:
    operation = session.submit("INSERT INTO o VALUES (1)")
    until(lambda: status(session, operation) == "RUNNING", 5)
    time.sleep(0.1)
    return operation


def status(session: InProcessSession, operation: str) -> str:
    return session._operation(operation).status.value


def test_cancel_ends_the_job_and_the_session_goes_on_at_once(job: SlowJob, session: InProcessSession) -> None:
    operation = started(session)
    session.cancel(operation)
    assert status(session, operation) == "CANCELED"
    assert job.stopping.wait(2)
    run(session, "SHOW TABLES")  # while the job is still in its last micro-batch
    job.may_end.set()


@pytest.mark.parametrize("way", ["close operation", "close session", "timeout"])
def test_every_other_way_to_give_it_up(job: SlowJob, session: InProcessSession, way: str) -> None:
    operation = started(session)
    if way == "close operation":
        session.close_operation(operation)
    elif way == "close session":
        session.close()
    else:
        session._operation(operation).time_out()
    assert job.stopping.wait(2)
    job.may_end.set()


def test_an_end_without_being_given_up(job: SlowJob, session: InProcessSession) -> None:
    operation = started(session)
    job.end()
    until(lambda: status(session, operation) == "FINISHED", 2)
    assert not job.stopping.is_set()


def test_a_failure_is_that_of_the_statement(job: SlowJob, session: InProcessSession) -> None:
    operation = started(session)
    job.end(RunError("RUN052", id="x", status="FAILED"))
    until(lambda: status(session, operation) == "ERROR", 2)


def test_start_failure_and_end_of_a_job_are_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = SqlGatewayService(folder=tmp_path)
    caplog.set_level("INFO", "stateplan.gateway")
    entry = JobEntry("a" * 32, "insert-into_o", "INSERT", 1, plan="{}")
    service._tell(entry)
    entry.ended, entry.status, entry.error = 2, "FAILED", "[DATA301] no number\n  at line 3, 'password'='x'"
    service._tell(entry)
    entry.status, entry.error = "CANCELED", None
    service._tell(entry)
    service.jobs.list(entry)
    service.stop()
    said = [record.getMessage() for record in caplog.records if record.name == "stateplan.gateway"]
    assert [text.split(") ")[1][:12] for text in said if "insert-into_o" in text] == [
        "runs",
        "has failed: ",
        "has ended: C",
    ]
    assert "[DATA301] no number" in said[1]
    audit = (tmp_path / "audit.log").read_text()
    assert '"action": "job ended"' in audit
    assert '"outcome": "FAILED", "error": "[DATA301] no number"' in audit


def test_sql_tells_what_a_job_failed_of(session: InProcessSession) -> None:
    env = session.environment
    now = int(time.time() * 1000)  # SHOW JOBS tells of the last ones of this process
    entry = JobEntry("b" * 32, "job", "INSERT", now, ended=now, status="FAILED", error="[DATA301] no number\n  hint")
    env.session.jobs.list(entry)
    result = env.execute_sql(f"DESCRIBE JOB '{entry.id}'")
    assert result.columns[-1] == "error"
    assert result.rows[0][-1] == entry.error
    shown = env.execute_sql("SHOW JOBS")
    assert f"job {entry.id} failed: [DATA301] no number" in shown.notes


def test_who_has_the_folder_of_a_gateway(tmp_path: Path) -> None:
    import json
    import socket

    from stateplan.common.errors import GatewayError
    from stateplan.gateway.service.job_store import LOCK, JobStore

    store = JobStore(tmp_path)
    said = json.loads((tmp_path / LOCK).read_text())
    (tmp_path / LOCK).write_text(json.dumps({**said, "pid": 15772}))
    with pytest.raises(GatewayError) as refused:
        JobStore(tmp_path)
    assert f"process 15772 on host {socket.gethostname()}" in str(refused.value)
    assert "which is this one" not in str(refused.value)
    store.release()


def test_the_folder_is_taken_until_jobs_in_the_middle_of_their_start_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that comes too early hears of the folder, and not of the checkpoints of its jobs."""
    from stateplan.common.errors import GatewayError
    from stateplan.gateway.service.job_store import JobStore
    from stateplan.session.jobs import JobRecord

    store = JobStore(tmp_path)
    store.started(JobRecord("job", "INSERT", "{}", id="c" * 32, checkpoint=str(tmp_path / "c"), started=1))
    store.release()
    begun, ends = threading.Event(), threading.Event()

    def start(*_: object) -> None:
        begun.set()
        ends.wait(20)

    monkeypatch.setattr(SqlGatewayService, "_not_started_again", start)
    service = SqlGatewayService(folder=tmp_path)
    assert begun.wait(20)
    stopping = threading.Thread(target=service.stop)
    stopping.start()
    time.sleep(0.2)
    with pytest.raises(GatewayError) as refused:
        JobStore(tmp_path)
    assert refused.value.code == "GW016"
    ends.set()
    stopping.join(20)
    JobStore(tmp_path).release()
