"""Restart strategies, with a clock of the test; and a gateway whose Spark is killed."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from stateplan.common.errors import DataError, OptionError, RunError, StateplanError
from stateplan.common.settings import Configuration
from stateplan.gateway.service.restarts import ExponentialDelay, Restarts, strategy_of
from stateplan.runtime.job import JobStatus
from stateplan.runtime.metrics.records import JobInfo
from stateplan.runtime.metrics.view import JobView
from stateplan.session.jobs import JobRecord, Jobs, to_blame
from tests.gateway.gateway_server import GatewayServer
from tests.support.waiting import until

FAMILY = "restart-strategy."


def waits(options: dict[str, str], *failures: float) -> list[float | None]:
    """The wait after each failure, for options without the name of the family."""
    strategy = strategy_of({FAMILY + key: text for key, text in options.items()})
    return [strategy.wait(at) for at in failures]


@pytest.mark.parametrize("kind", ["none", "off", "disable"])
def test_none_never_restarts(kind: str) -> None:
    assert waits({"type": kind}, 0, 1) == [None, None]


def test_fixed_delay_has_so_many_attempts_in_all() -> None:
    assert waits({"type": "fixed-delay"}, 0, 1e6) == [1, None]
    options = {"type": "FixedDelay", "fixed-delay.attempts": "3", "fixed-delay.delay": "7 s"}
    assert waits(options, 0, 1, 2, 3, 1e6) == [7, 7, 7, None, None]
    assert waits({"type": "fixed-delay", "fixed-delay.attempts": "0"}, 0) == [None]


def test_failure_rate_counts_within_its_interval() -> None:
    options = {
        "type": "failure-rate",
        "failure-rate.max-failures-per-interval": "2",
        "failure-rate.failure-rate-interval": "10 s",
        "failure-rate.delay": "3 s",
    }
    assert waits(options, 0, 4, 10) == [3, 3, None]
    assert waits(options, 0, 4, 10.5, 15) == [3, 3, 3, 3]
    assert waits(options, 0, 4, 10.5, 13) == [3, 3, 3, None]


def test_exponential_delay_grows_to_its_longest_wait_and_begins_anew() -> None:
    options = {
        "exponential-delay.backoff-multiplier": "2",
        "exponential-delay.max-backoff": "5 s",
        "exponential-delay.jitter-factor": "0",
        "exponential-delay.reset-backoff-threshold": "1 min",
        "exponential-delay.attempts-before-reset-backoff": "4",
    }
    assert waits(options, 0, 2, 5, 10, 16) == [1, 2, 4, 5, None]
    assert waits(options, 0, 2, 64.1, 66) == [1, 2, 1, 2]
    assert waits(options, 0, 2, 63.9) == [1, 2, 4]  # less than a minute after the start at 4


def test_jitter_stays_within_its_share() -> None:
    for chance, first in ((0.0, 9.0), (0.5, 10.0), (1.0, 11.0)):
        strategy = ExponentialDelay(10, 60, 1.5, 3600, 0.1, 5, lambda at=chance: at)  # type: ignore[misc]
        assert strategy.wait(0) == pytest.approx(first)


def test_there_is_a_limit_by_default() -> None:
    found = waits({}, *(100.0 * n for n in range(30)))
    assert [wait is not None for wait in found] == [True] * 20 + [False] * 10
    assert found[0] == pytest.approx(1, abs=0.11)


@pytest.mark.parametrize(
    ("key", "text"),
    [("type", "sometimes"), ("fixed-delay.attempts", "-1"), ("failure-rate.max-failures-per-interval", "0")],
)
def test_what_no_strategy_takes_is_refused_when_it_is_set(key: str, text: str) -> None:
    with pytest.raises(OptionError, match="OPT105"):
        Configuration().set(FAMILY + key, text)


def test_the_older_key_still_names_the_strategy() -> None:
    options = Configuration()
    options.set("restart-strategy", "off")
    assert strategy_of(options.to_dict()).wait(0) is None


def test_only_failures_that_may_be_over_soon_are_tried_again() -> None:
    stopped = threading.Event()
    now = 0.0
    restarts = Restarts(stopped, lambda: now)
    options = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "2"}
    gone = RunError("RUN019", how="status -9")
    wrong = DataError("DATA111", reason="x")
    assert restarts.wait("a", options, wrong) is None
    assert [restarts.wait("a", options, gone) for _ in range(3)] == [1, 1, None]
    assert restarts.wait("b", options, gone) == 1
    stopped.set()
    assert restarts.wait("b", options, gone) is None


def test_a_failure_that_does_not_count_uses_nothing_up() -> None:
    restarts = Restarts(threading.Event(), lambda: 0.0)
    gone = RunError("RUN019", how="status -9")
    for kind, first in (("fixed-delay", 1.0), ("failure-rate", 1.0), ("exponential-delay", 1.0), ("none", None)):
        options = {f"{FAMILY}type": kind}
        assert [restarts.wait(kind, options, gone, counts=False) for _ in range(50)] == [first] * 50
    assert restarts.wait("fixed-delay", {f"{FAMILY}type": "fixed-delay"}, gone) == 1
    assert restarts.wait("never", {f"{FAMILY}type": "fixed-delay", f"{FAMILY}fixed-delay.attempts": "0"}, gone) is None


@pytest.mark.parametrize(
    ("jobs", "blamed"),
    [
        ({"a": (0, True), "b": (0, False), "c": (7, True)}, {"a"}),
        ({"a": (0, True), "b": (0, True), "c": (7, True)}, {"a", "b"}),
        ({"a": (3, True), "b": (0, False), "c": (7, True)}, {"a", "c"}),
        ({"a": (3, False), "b": (0, False)}, {"a", "b"}),
    ],
)
def test_a_job_in_its_first_micro_batch_is_to_blame(jobs: dict[str, tuple[int, bool]], blamed: set[str]) -> None:
    assert to_blame(jobs) == blamed


@pytest.mark.parametrize("attempts", [1, 6])
def test_a_job_that_ends_spark_whenever_it_runs_uses_up_its_own_restarts(attempts: int) -> None:
    """The others start at the same time as it at first."""
    restarts, gone = Restarts(threading.Event()), RunError("RUN019", how="status 3")
    options = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": str(attempts),
        "restart-strategy.fixed-delay.delay": "50 ms",
    }
    names, innocent = ("bad", "good", "fine"), set[str]()
    running: dict[str, int] = {"bad": 0, "good": 5, "fine": 1}
    left, failed, lock = dict.fromkeys(names, attempts), threading.Event(), threading.RLock()

    def start(name: str) -> None:
        with lock:
            running[name] = 0
        if name == "bad":
            die()
        else:
            time.sleep(0.2)  # its first micro-batch
            with lock:
                running[name] += name in running

    def die() -> None:
        with lock:
            blamed = to_blame({name: (finished, True) for name, finished in running.items()})
            ended = list(running)
            running.clear()
            innocent.clear()
            innocent.update(set(ended) - blamed)
        for name in ended:
            left[name] -= name in blamed
            wait = restarts.wait(name, options, gone, name in blamed)
            if wait is None:
                assert name == "bad"
                failed.set()
            else:
                restarts.in_turn(name, wait, partial(start, name), cleared, partial(settled, name))

    def settled(name: str) -> bool:
        return running.get(name, 0) > 0

    def cleared() -> bool:
        with lock:
            return all(map(settled, innocent))

    die()
    assert failed.wait(30)
    until(lambda: settled("good") and settled("fine"), 10)
    assert left == {"bad": -1, "good": attempts, "fine": attempts}


def test_jobs_are_judged_by_the_spark_that_they_ran_in() -> None:
    jobs, told, ends = Jobs(), dict[str, bool](), dict[str, Callable[[Any], None]]()

    def restarts(record: JobRecord, error: StateplanError, counts: bool) -> bool:
        told[record.name] = counts
        return True

    def add(
        name: str, spark: str | None, batches: int, in_hand: bool, code: str = "RUN019", is_idle: bool = False
    ) -> Any:
        error = RunError(code, how="status 3") if code == "RUN019" else RunError(code, detail="x")
        info = JobInfo(name, name, 0, 0, ())
        now = 0 if is_idle else 20_000
        view = JobView(info, now, batches=batches, in_hand=(batches, 0) if in_hand else None)
        job: Any = SimpleNamespace(
            job_id=name * 32,
            checkpoint=None,
            runs_in=spark,
            error=error,
            view=view,
            status=JobStatus.FAILED,
            is_idle=is_idle,
        )
        job.when_over = lambda call: ends.__setitem__(name, lambda _: call(job))
        jobs.add(job, JobRecord(name, "", plan="{}"))
        return job

    jobs.restarts = restarts
    for name, spark, batches, in_hand in (("a", "one", 0, True), ("b", "one", 4, True), ("c", "one", 2, False)):
        add(name, spark, batches, in_hand)
    add("d", "one", 3, True, code="RUN001")
    add("e", "two", 3, True)
    assert jobs.are_settled()
    for name in ("c", "d", "b"):
        ends[name](None)
    assert told == {"b": False, "c": False, "d": True}
    assert not jobs.are_settled(), "the others have not started again"
    add("b", "three", 1, True)
    add("c", "three", 0, True)
    assert not jobs.are_settled()
    add("c", "three", 0, False)
    add("d", "three", 0, False, is_idle=True)
    assert jobs.are_settled(), "the last ones have no input"
    for name in ("e", "a"):
        ends[name](None)
    assert (told["a"], told["e"]) == (True, True)


SMALL = {"parallelism.default": "1", "pipeline.max-parallelism": "1"}
TABLES = (
    "CREATE TABLE t (k INT) WITH ('connector' = 'filesystem', 'path' = '{0}/in', 'format' = 'json', "
    "'source.monitor-interval' = '200 ms')",
    "CREATE TABLE {1} (k INT, n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'debezium-json', "
    "'path' = '{0}/{1}')",
)


def counted(folder: Path) -> Counter[int]:
    """The counts that a sink has ever written."""
    lines = (line for path in folder.glob("part-*") for line in path.read_text().splitlines())
    return Counter(json.loads(line)["after"]["n"] for line in lines if json.loads(line)["after"])


@pytest.mark.spark
def test_jobs_go_on_when_the_process_of_spark_is_killed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text('{"k": 1}\n')
    server = GatewayServer(tmp_path / "gateway")
    try:
        jobs = {}
        for name, strategy in (("kept", "fixed-delay"), ("lost", "none")):
            session = server.session({"restart-strategy.type": strategy, **SMALL})
            for statement in TABLES:
                session.run(statement.format(tmp_path, name))
            jobs[name] = session.start(f"INSERT INTO {name} SELECT k, COUNT(*) FROM t GROUP BY k")

        def states() -> dict[str, str]:
            rows = session.run("SHOW JOBS")
            return {name: next(row[2] for row in rows if row[0] == job) for name, job in jobs.items()}

        until(lambda: all(counted(tmp_path / name)[1] for name in jobs), 120)
        for below in psutil.Process(server.process.pid).children(recursive=True):
            if "java" in below.name():
                below.kill()
        until(lambda: states()["lost"] == "FAILED", 60)
        (tmp_path / "in" / "1.json").write_text('{"k": 1}\n')
        until(lambda: counted(tmp_path / "kept")[2], 120)
        assert states() == {"kept": "RUNNING", "lost": "FAILED"}
        assert counted(tmp_path / "kept") == {1: 1, 2: 1}
        stored = tmp_path / "gateway" / "state" / "jobs" / jobs["lost"] / "job.json"
        assert "[RUN019]" in json.loads(stored.read_text())["error"]
        assert "Traceback" not in server.log.read_text()
        session.run(f"STOP JOB '{jobs['kept']}'")
        assert states()["kept"] == "CANCELED"
    finally:
        server.stop()
