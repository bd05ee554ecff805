"""ALTER JOB SET TTL, and DESCRIBE JOB EXTENDED: the plan of a job with the TTLs that hold."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stateplan.common.errors import StateplanError
from stateplan.plans.document import PlanDocument
from stateplan.plans.selectors import Selectors
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import JobEntry, Jobs
from tests.support.job_records import PLAN, job_checkpoint

ID = "9d3e6d0672fd4890adf157f3a7321ee0"


@pytest.fixture
def entry(tmp_path: Path) -> JobEntry:
    """A job that runs, as far as the session knows, with the plan of a join."""
    entry = JobEntry(ID, "deliveries", "INSERT", time.time_ns() // 1_000_000)
    entry.checkpoint, entry.plan = job_checkpoint(tmp_path / "checkpoint"), PLAN.read_text()
    return entry


@pytest.fixture
def run(entry: JobEntry) -> Callable[[str], list[tuple[Any, ...]]]:
    jobs = Jobs()
    jobs.list(entry)
    env = TableEnvironment.create(jobs=jobs)
    return lambda statement: env.execute_sql(statement).rows


def ttls(plan: str) -> dict[str, int]:
    return {view.name: view.ttl for view in Selectors(PlanDocument.parse(plan), {}).views}


def test_the_plan_of_a_job_has_the_ttls_that_hold(run: Callable[[str], list[tuple[Any, ...]]], entry: JobEntry) -> None:
    before = ttls(str(entry.plan))
    ((*facts, checkpoint, batch, is_idle, plan),) = run(f"DESCRIBE JOB EXTENDED '{ID}'")
    assert facts[:3] == [ID, "deliveries", "RUNNING"] and facts[4] is None
    assert (checkpoint, batch, is_idle, plan) == (str(entry.checkpoint), None, False, entry.plan)
    changes = run(f"ALTER JOB '{ID}' SET TTL '2 h' FOR join.left, TTL '3 d' FOR join.right")
    assert [change[0] for change in changes] == ["join[5].left", "join[5].right"]
    assert [change[3] for change in changes] == ["2 h", "3 d"]
    changed = run(f"DESCRIBE JOB EXTENDED '{ID}'")[0][-1]
    assert ttls(changed) == {**before, "leftState": 7_200_000, "rightState": 259_200_000}
    run(f"ALTER JOB '{ID}' SET TTL '{before['leftState']} ms' FOR 'join.left'")
    assert ttls(run(f"DESCRIBE JOB EXTENDED '{ID}'")[0][-1])["leftState"] == before["leftState"]
    assert PLAN.read_text() == entry.plan, "the plan that the job was started with stays as it is"


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        (f"ALTER JOB '{ID}' SET TTL '2 h' FOR deduplicate", "PLAN101"),
        (f"ALTER JOB '{ID}' SET TTL 'soon' FOR join.left", "PLAN053"),
        (f"ALTER JOB '{ID}' SET TTL '2 h' FOR join.left, TTL '3 h' FOR 'join.0'", "PLAN106"),
        ("ALTER JOB 'other' SET TTL '2 h' FOR join.left", "RUN060"),
        ("DESCRIBE JOB EXTENDED 'other'", "RUN060"),
        (f"ALTER JOB '{ID}' SET", "SQL001"),
    ],
)
def test_what_is_refused(run: Callable[[str], list[tuple[Any, ...]]], statement: str, code: str) -> None:
    with pytest.raises(StateplanError) as raised:
        run(statement)
    assert raised.value.code == code
    assert raised.value.place is not None


def test_a_job_that_has_ended_takes_no_ttl(run: Callable[[str], list[tuple[Any, ...]]], entry: JobEntry) -> None:
    entry.ended, entry.status = entry.started, "FINISHED"
    with pytest.raises(StateplanError) as ended:
        run(f"ALTER JOB '{ID}' SET TTL '2 h' FOR join.left")
    entry.ended, entry.checkpoint = None, None
    with pytest.raises(StateplanError) as without_checkpoint:
        run(f"ALTER JOB '{ID}' SET TTL '2 h' FOR join.left")
    assert (ended.value.code, without_checkpoint.value.code) == ("RUN052", "RUN056")
