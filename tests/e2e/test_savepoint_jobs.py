"""STOP JOB ... WITH SAVEPOINT, and jobs that start from one: on real Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.runtime.job import Job, JobStatus
from stateplan.session.environment import TableEnvironment
from tests.e2e.arriving import COUNTS, Work, start, until

pytestmark = pytest.mark.spark


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    with Work(tmp_path / "some work #1 (50% +é)") as work:
        yield work


def stop(env: TableEnvironment, job: Job, how: str = "") -> Path:
    """Stops a job with a savepoint; its folder."""
    result = env.execute_sql(f"STOP JOB '{job.job_id}' WITH SAVEPOINT{how}")
    assert result.get_column_names() == ["savepoint path"]
    ((path,),) = [tuple(row) for row in result.collect()]
    assert path.startswith("file:/")
    return Path(path.removeprefix("file:"))


def test_a_job_goes_on_from_a_savepoint(work: Work) -> None:
    env = work.session("first")
    env.execute_sql(
        "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '10', "
        "'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '10')"
    )
    both = COUNTS.replace("FROM arriving", "FROM (SELECT k, v FROM arriving UNION ALL SELECT 7, n FROM numbers)")
    work.add("a", (1, 2, "00:00:00"), (2, 5, "00:00:01"))
    job = start(env, both)
    until(lambda: work.holds() == {(1, 1, 2), (2, 1, 5), (7, 10, 55)}, "the first rows")
    folder = stop(env, job)
    assert folder.parent == work.folder / "savepoints"
    assert folder.name.startswith(f"savepoint-{job.job_id[:6]}-")
    assert job.status is JobStatus.FINISHED
    assert [tuple(row)[2] for row in env.execute_sql(f"DESCRIBE JOB '{job.job_id}'").collect()] == ["FINISHED"]
    shutil.rmtree(work.folder / "first")
    work.add("b", (1, 3, "00:00:02"))
    folder = folder.rename(work.folder / "elsewhere")
    env.execute_sql(f"SET 'execution.checkpointing.dir' = '{work.folder / 'second'}'")
    env.execute_sql(f"SET 'execution.state-recovery.path' = '{folder}'")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    again = start(env, both)
    assert again.job_id != job.job_id
    until(lambda: work.holds() == {(1, 2, 5), (2, 1, 5), (7, 10, 55)}, "the rows that came meanwhile")
    env.execute_sql(f"STOP JOB '{again.job_id}'")
    work.add("c", (1, 4, "00:00:03"))
    once_more = start(env, both)  # from the checkpoint, not from the savepoint again
    assert once_more.job_id == again.job_id
    until(lambda: work.holds() == {(1, 3, 9), (2, 1, 5), (7, 10, 55)}, "the last row")
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_two_jobs_of_one_savepoint_and_another_parallelism(work: Work) -> None:
    env = work.session("first")
    work.add("a", *((k, 1, "00:00:00") for k in range(20)))
    job = start(env)
    until(lambda: len(work.holds()) == 20, "the first rows")
    folder = stop(env, job)
    shutil.copytree(work.folder / "counts", work.folder / "others")
    jobs = []
    for name, sink in (("second", "counts"), ("third", "others")):
        there = work.session(name, execution_state__recovery_path=str(folder), parallelism_default="3")
        there.execute_sql(f"ALTER TABLE counts SET ('path' = '{work.folder / sink}')")
        jobs.append(start(there))
    work.add("b", *((k, 2, "00:00:01") for k in range(20)))
    wanted = {(k, 2, 3) for k in range(20)}
    until(lambda: work.holds() == wanted and work.holds("others") == wanted, "both go on")
    assert len({job.job_id, *(j.job_id for j in jobs)}) == 3


WINDOWS = (
    "INSERT INTO windows SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE arriving, DESCRIPTOR(ts), "
    "INTERVAL '1' HOUR)) GROUP BY window_start, window_end"
)


def test_event_time_is_drained_or_kept(work: Work) -> None:
    env = work.session("first")
    work.add("a", (1, 2, "00:10:00"), (1, 2, "01:10:00"))
    job = start(env, WINDOWS)
    first = ("2026-01-01 00:00:00", 1)
    until(lambda: work.holds("windows") == {first}, "the first window")
    kept = stop(env, job)
    assert work.holds("windows") == {first}
    env = work.session("second", execution_state__recovery_path=str(kept))
    job = start(env, WINDOWS)
    work.add("b", (1, 2, "01:20:00"))
    until(lambda: job.progress.rows_in >= 1, "the last row")
    drained = stop(env, job, " WITH DRAIN")
    assert work.holds("windows") == {first, ("2026-01-01 01:00:00", 2)}
    assert json.loads((drained / "stateplan.json").read_text())["savepoint"]["drained"] is True
    env = work.session("third", execution_state__recovery_path=str(drained))
    job = start(env, WINDOWS)
    work.add("c", (1, 2, "01:30:00"), (1, 2, "02:10:00"))
    until(lambda: job.progress.rows_in >= 2, "rows after the first draining")
    stop(env, job, " WITH DRAIN")
    more = {("2026-01-01 01:00:00", 1), ("2026-01-01 02:00:00", 1)}
    assert work.holds("windows") == {first, ("2026-01-01 01:00:00", 2), *more}, "drained once more"


def test_a_savepoint_that_cannot_be_written(work: Work) -> None:
    env = work.session("first")
    job = work.start_counting(env)
    (work.folder / "savepoints").write_text("a file")
    with pytest.raises(StateplanError) as error:
        env.execute_sql(f"STOP JOB '{job.job_id}' WITH SAVEPOINT")
    assert error.value.code == "CKPT074"
    assert job.status is JobStatus.RUNNING
    work.add("b", (1, 3, "00:00:00"))
    until(lambda: work.holds() == {(1, 2, 5)}, "the job does not go on")
    (work.folder / "savepoints").unlink()
    assert (stop(env, job) / "plan.json").is_file()
    with pytest.raises(StateplanError) as error:
        env.execute_sql(f"STOP JOB '{job.job_id}' WITH SAVEPOINT")
    assert error.value.code == "RUN052"


def code(call: Callable[[], object]) -> str | None:
    with pytest.raises(StateplanError) as error:
        call()
    return error.value.code


def test_what_is_refused(work: Work) -> None:
    env = work.session("first")
    job = work.start_counting(env)
    env.execute_sql("RESET 'execution.checkpointing.savepoint-dir'")
    assert code(lambda: env.execute_sql(f"STOP JOB '{job.job_id}' WITH SAVEPOINT")) == "RUN058"
    assert job.status is JobStatus.RUNNING
    running = work.session("second", execution_state__recovery_path=str(work.folder / "first"))
    assert code(lambda: start(running)) == "CKPT072"
    assert not (work.folder / "second" / "stateplan.json").exists()
    folder = stop(work.session("any"), job)
    assert code(lambda: start(work.session("second", execution_state__recovery_path=f"{folder}x"))) == "CKPT070"
    with pytest.raises(StateplanError, match=f"did you mean '{folder.name}'"):
        start(work.session("second", execution_state__recovery_path=f"{folder}x"))
    assert code(lambda: start(work.session("first", execution_state__recovery_path=str(folder)))) == "CKPT071"
    inside = work.session("any", execution_checkpointing_dir=str(folder))
    assert code(lambda: start(inside)) == "CKPT073"
    other = COUNTS.replace("GROUP BY k", "WHERE v > 1 GROUP BY k")
    assert code(lambda: start(work.session("third", execution_state__recovery_path=str(folder)), other)) == "CKPT003"
