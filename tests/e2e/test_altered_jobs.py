"""ALTER JOB ... USING PLAN: a running job continues with another plan, or stays as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stateplan.common.errors import CheckpointError, RunError, StateplanError
from stateplan.evolution import evolve
from stateplan.gateway.service.service import SqlGatewayService
from stateplan.runtime.job import JobStatus
from stateplan.session.environment import TableEnvironment
from stateplan.session.job_alteration import beside
from stateplan.session.jobs import JobEntry, PlanChange
from stateplan.session.starter import JobStarter
from tests.e2e.arriving import COUNTS, Work, start, until

pytestmark = pytest.mark.spark

SECOND = "INSERT INTO values_seen SELECT v, COUNT(*) FROM arriving GROUP BY v"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    with Work(tmp_path / "a job") as work:
        yield work


def write_plan(work: Work, env: TableEnvironment, *inserts: str) -> Path:
    path = work.folder / "new.json"
    env.compile_plan_sql(f"EXECUTE STATEMENT SET BEGIN {'; '.join(inserts)}; END").write_to_file(path)
    return path


def test_a_job_goes_on_with_another_plan_and_its_state(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    changes: list[PlanChange | None] = []

    def note(entry: JobEntry, name: str, value: object) -> None:
        if name == "change" and (value is None or isinstance(value, PlanChange)):
            changes.append(value)
        object.__setattr__(entry, name, value)

    monkeypatch.setattr(JobEntry, "__setattr__", note, raising=False)
    env = work.session("first")
    env.execute_sql("SET 'pipeline.name' = 'counts of k'")
    work.add("a", (1, 2, "00:00:00"), (2, 5, "00:00:01"))
    job = start(env)
    until(lambda: work.holds() == {(1, 1, 2), (2, 1, 5)}, "the first rows")
    until(lambda: job.is_idle, "no more input")
    plan = write_plan(work, env, COUNTS, SECOND)
    env.execute_sql("RESET 'pipeline.name'")
    result = env.execute_sql(f"ALTER JOB '{job.job_id}' USING PLAN '{plan}'")
    ((new_id, folder),) = [tuple(row) for row in result.collect()]
    assert folder == str(work.folder / "first-2")
    assert any("history" in note for note in result.notes)
    assert job.status is JobStatus.FINISHED
    jobs = {row[0]: tuple(row)[1:3] for row in env.execute_sql("SHOW JOBS").collect()}
    assert jobs == {job.job_id.replace("-", ""): ("counts of k", "FINISHED"), new_id: ("counts of k", "RUNNING")}
    assert work.jobs.successors() == {job.job_id.replace("-", ""): work.jobs.find(new_id)}
    stages = list(dict.fromkeys(change.stage for change in changes if change is not None))
    assert stages[0] == "stopping the job at the end of its micro-batch" and stages[-1] == "starting the new plan"
    backfill, loading = (next(n for n, stage in enumerate(stages) if word in stage) for word in ("history", "writing"))
    assert 0 < backfill < loading < len(stages) - 1
    rows = [(change.stage, change.progress.rows_in) for change in changes if change and change.progress]
    assert rows[-1] == (stages[backfill], 2), "two rows of history are read again"
    assert changes[-1] is None
    work.add("b", (1, 2, "00:00:02"))
    until(lambda: work.holds() == {(1, 2, 4), (2, 1, 5)}, "the counts continue")
    until(lambda: list(work.changes("values_seen")), "the second sink")
    before, after = zip(*work.changes("values_seen"), strict=True)
    assert [row for row in before if row] == [{"v": 2, "n": 1}], "the first rows are in the state"
    assert [row for row in after if row] == [{"v": 2, "n": 2}]


def test_new_directories_are_numbered_and_begun_ones_are_continued(tmp_path: Path) -> None:
    first, second = tmp_path / "ck", tmp_path / "ck-2"
    first.mkdir()
    assert beside(first) == second
    second.mkdir()
    (second / "recovering").write_text(f"{first}\n")
    assert beside(first) == second, "it was begun from the same checkpoint"
    (second / "stateplan.json").write_text("{}")
    assert beside(first) == beside(second) == tmp_path / "ck-3"
    year = tmp_path / "of-2024"
    year.mkdir()
    assert beside(year) == tmp_path / "of-2024-2"


def test_a_job_that_would_lose_state_runs_on(work: Work) -> None:
    env = work.session("first", execution_state__recovery_accept="derive")
    job = work.start_counting(env)
    plan = write_plan(work, env, COUNTS.replace("arriving", "arriving WHERE v > 1"))
    with pytest.raises(CheckpointError) as error:
        env.execute_sql(f"ALTER JOB '{job.job_id}' USING PLAN '{plan}'")
    assert error.value.code == "CKPT003"
    assert job.status is JobStatus.RUNNING
    assert not (work.folder / "first-2").exists()


@pytest.mark.parametrize("failing", ["the evolution", "the start"])
def test_a_job_whose_new_plan_does_not_start_goes_on_with_the_old_one(
    failing: str, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = work.session("first")
    job = work.start_counting(env)
    plan = write_plan(work, env, COUNTS, SECOND)
    owner, name = (evolve._Evolution, "_load") if failing == "the evolution" else (JobStarter, "_start")
    whole, calls = getattr(owner, name), []

    def fail(*args: Any, **options: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise CheckpointError("CKPT053", folder="the new one", reason="there is no space")
        return whole(*args, **options)

    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(CheckpointError) as error:
        env.execute_sql(f"ALTER JOB '{job.job_id}' USING PLAN '{plan}'")
    assert error.value.code == "CKPT053" and "continues with its old plan" in str(error.value)
    assert job.status is JobStatus.FINISHED
    ((listed_id, _, status, _),) = [tuple(row) for row in env.execute_sql("SHOW JOBS").collect()]
    assert (listed_id, status) == (job.job_id.replace("-", ""), "RUNNING")
    work.add("b", (1, 3, "00:00:01"))
    until(lambda: work.holds() == {(1, 2, 5)}, "the old plan continues")
    env.execute_sql(f"ALTER JOB '{job.job_id}' USING PLAN '{plan}'")
    work.add("c", (1, 3, "00:00:02"))
    until(lambda: work.holds() == {(1, 3, 8)}, "the new plan continues")


def test_a_job_without_a_directory_or_that_has_ended_is_not_altered(work: Work) -> None:
    env = work.session("first")
    plan = write_plan(work, env, COUNTS)
    env.execute_sql("RESET 'execution.checkpointing.dir'")
    job = start(env)
    for code in ("RUN056", "RUN052"):
        with pytest.raises(RunError) as error:
            env.execute_sql(f"ALTER JOB '{job.job_id}' USING PLAN '{plan}'")
        assert error.value.code == code
        job.stop()
    with pytest.raises(StateplanError, match="there is no job"):
        env.execute_sql(f"ALTER JOB 'x' USING PLAN '{plan}'")


def test_a_gateway_gives_the_job_a_directory_of_its_own(work: Work) -> None:
    state = work.folder / "gateway"
    service = SqlGatewayService(options={"parallelism.default": "2"}, folder=state)
    try:
        env = service.open_session().environment
        work.declare(env)
        job = work.start_counting(env)
        plan = write_plan(work, env, COUNTS, SECOND)
        ((new_id, folder),) = [
            tuple(row) for row in env.execute_sql(f"ALTER JOB '{job.job_id}' USING PLAN '{plan}'").collect()
        ]
        assert folder == str(state / "jobs" / new_id / "checkpoint")
        work.add("b", (1, 3, "00:00:01"))
        until(lambda: work.holds() == {(1, 2, 5)}, "the new plan continues")
        stored = {p.parent.name: json.loads(p.read_text())["status"] for p in (state / "jobs").glob("*/job.json")}
        assert stored == {job.job_id.replace("-", ""): "FINISHED", new_id: "RUNNING"}
    finally:
        service.stop()
