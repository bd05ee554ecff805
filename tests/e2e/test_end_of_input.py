"""Event time ends with the last micro-batch of bounded input, where it is known which one that is."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stateplan.common.errors import RunError, StateplanError
from stateplan.runtime.file_lists import FileLists
from stateplan.runtime.job import Job
from stateplan.runtime.sinks import SinkDriver
from stateplan.runtime.spark import tweaks
from stateplan.runtime.spark.tweaks import LAST_BATCH
from stateplan.session.environment import TableEnvironment
from tests.conftest import ROOT
from tests.e2e.window_job import Work

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


KILLED = """
import os, signal, sys
from pathlib import Path
from stateplan.runtime.sinks import SinkDriver
from tests.e2e.window_job import Work

folder, number = Path(sys.argv[1]), int(sys.argv[2])
commit = SinkDriver.commit

def committing(driver, parts, epoch):
    commit(driver, parts, epoch)
    if number == epoch:
        os.kill(os.getpid(), signal.SIGKILL)

SinkDriver.commit = committing
Work(folder).run()
"""


def kill(work: Work, micro_batch: int) -> None:
    """Runs the job until kill -9, after its sinks have committed a micro-batch."""
    command = [sys.executable, "-c", KILLED, str(work.folder), str(micro_batch)]
    with (work.folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        try:
            assert process.wait(300) == -signal.SIGKILL, (work.folder / "log").read_text()[-3000:]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path / "some work #1 (50% +é)")


def test_the_last_micro_batch_ends_event_time(work: Work) -> None:
    work.add(0, 1)
    work.add(1, 2)
    work.add(2)
    job = work.run()
    assert len(job.metrics) == 3
    assert work.holds() == Counter([("00", 1), ("01", 2), ("02", 2)])
    assert len(work.run().metrics) == 0, "nothing new"
    work.add(3)
    work.add(3, 4)
    assert len(work.run().metrics) == 2
    assert work.holds() == Counter([("00", 1), ("01", 2), ("02", 2), ("03", 2), ("04", 1)])


def test_input_without_files_ends_too(work: Work) -> None:
    assert len(work.run().metrics) == 1
    work.add(1)
    assert len(work.run().metrics) == 1
    assert work.holds() == Counter([("01", 1)])


def test_an_end_that_no_micro_batch_was_told_is_put_off(work: Work) -> None:
    work.add(0, 1)
    damaged = work.add(1, damaged=True)
    work.add(1, 2)
    work.fail()
    assert not work.holds()
    work.mend(damaged)
    work.add(2)
    assert len(work.run().metrics) == 3
    assert work.holds() == Counter([("00", 1), ("01", 3), ("02", 2)])


def test_an_end_that_a_micro_batch_was_told_stays(work: Work) -> None:
    work.add(0, 1)
    damaged = work.add(1, 2, damaged=True)
    work.fail()
    work.mend(damaged)
    work.add(2, 3)
    assert len(work.run().metrics) == 2
    assert work.holds() == Counter([("00", 1), ("01", 2), ("02", 1), ("02", 1), ("03", 1)]), "as with a run before it"


def fail(work: Work, micro_batch: int, is_committed: bool = False) -> None:
    """Runs the job until it fails, before or after its sinks have committed a micro-batch."""
    commit = SinkDriver.commit

    def committing(driver: SinkDriver, parts: Any, epoch: int) -> None:
        if epoch != micro_batch or is_committed:
            commit(driver, parts, epoch)
        if epoch == micro_batch:
            raise RunError("RUN030", cause=OSError("away"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SinkDriver, "commit", committing)
        with pytest.raises(RunError, match="away"):
            work.run()


@pytest.mark.parametrize("is_killed", [False, pytest.param(True, marks=pytest.mark.long)])
def test_ends_in_the_last_micro_batch(work: Work, is_killed: bool) -> None:
    """Which fails before its sinks commit it, and then after that, or is killed then."""
    for hours in ((0, 1), (1, 2), (2, 3)):
        work.add(*hours)
    fail(work, 2)
    if is_killed:
        kill(work, 2)
    else:
        fail(work, 2, is_committed=True)
    job = work.run()
    assert [m.batch for m in job.metrics] == [2]
    assert work.holds() == Counter([("00", 1), ("01", 2), ("02", 2), ("03", 1)])
    work.add(4)
    work.run()
    assert work.holds() == Counter([("00", 1), ("01", 2), ("02", 2), ("03", 1), ("04", 1)])


def test_a_table_that_is_watched_first_and_then_read_to_its_end(work: Work) -> None:
    work.add(0, 1)
    job = work.start(work.session(source_monitor_interval="100 ms"))
    _await(job, 2)
    job.stop()
    assert not work.holds()
    work.add(1)
    assert len(work.run().metrics) == 2, "a query of its own ends event time: Spark has listed the files so far"
    assert work.holds() == Counter([("00", 1), ("01", 2)])


def test_a_table_that_is_read_to_its_end_and_then_watched(work: Work) -> None:
    work.add(0, 1)
    work.run()
    job = work.start(work.session(source_monitor_interval="100 ms"))
    work.add(5)
    work.add(6)
    _await(job, 2)
    job.stop()
    assert work.holds() == Counter([("00", 1), ("01", 1)])
    work.run()
    assert work.holds() == Counter([("00", 1), ("01", 1), ("05", 1), ("06", 1)])


def _await(job: Job, rows: int) -> None:
    deadline = time.monotonic() + 60
    while job.progress.rows_in < rows or job.progress.batch < 0:
        assert time.monotonic() < deadline
        time.sleep(0.05)


JOINED = (
    "INSERT INTO joined SELECT l.w, l.n, r.v FROM (SELECT window_start AS w, window_time AS t, COUNT(*) AS n FROM "
    "TABLE(TUMBLE(TABLE arriving, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, window_time) "
    "AS l JOIN other AS r ON l.n = r.n AND r.ts BETWEEN l.t - INTERVAL '1' HOUR AND l.t"
)


class TwoTables(Work):
    """Windows at the first level, joined at the second one with rows of another table, which enter there."""

    off = ""

    def session(self, **source: str) -> TableEnvironment:
        env = super().session(source_max_files_per_trigger="2")
        env.execute_sql(
            "CREATE TABLE other (ts TIMESTAMP(3), n BIGINT, v INT, WATERMARK FOR ts AS ts) WITH "
            f"('connector' = 'filesystem', 'path' = '{self.folder / 'other'}', 'format' = 'json', "
            "'source.max-files-per-trigger' = '2')"
        )
        env.execute_sql(
            "CREATE TABLE joined (w TIMESTAMP(3), n BIGINT, v INT) WITH ('connector' = 'filesystem', "
            f"'path' = '{self.folder / 'joined'}', 'format' = 'json')"
        )
        return env

    def start(self, env: TableEnvironment) -> Job:
        if self.off:
            env.execute_sql(f"SET 'spark.stateplan.tweaks.off' = '{self.off}'")
        job = env.execute_sql(JOINED).job
        assert job is not None
        return job

    def more(self, name: str, *rows: tuple[int, int, int]) -> None:
        (self.folder / "other").mkdir(exist_ok=True)
        text = "".join(json.dumps({"ts": f"2026-01-01 {at:02}:30:00", "n": n, "v": v}) + "\n" for at, n, v in rows)
        (self.folder / "other" / name).write_text(text)

    def found(self) -> list[tuple[str, int, int]]:
        lines = (line for path in (self.folder / "joined").glob("part-*") for line in path.read_text().splitlines())
        return sorted((row["w"][11:13], row["n"], row["v"]) for row in map(json.loads, lines))


@pytest.fixture
def two(tmp_path: Path) -> TwoTables:
    return TwoTables(tmp_path / "two")


def test_the_only_micro_batch_of_two_tables_ends_event_time(two: TwoTables) -> None:
    two.add(0, 1)
    two.add(1)
    two.more("a", (0, 1, 10), (1, 2, 20))
    assert len(two.run().metrics) == 1
    assert two.found() == [("00", 1, 10), ("01", 2, 20)]
    assert len(two.run().metrics) == 0
    two.more("b", (5, 1, 50))
    assert len(two.run().metrics) == 1, "new files of one table"
    two.add(6)
    two.more("c", (6, 1, 60))
    assert len(two.run().metrics) == 1
    assert two.found() == [("00", 1, 10), ("01", 2, 20), ("06", 1, 60)]


def test_two_tables_with_more_than_one_micro_batch(two: TwoTables) -> None:
    for hour in range(3):
        two.add(hour)
    two.more("a", (0, 1, 10), (2, 1, 30))
    assert len(two.run().metrics) == 2
    assert two.found() == [("00", 1, 10), ("02", 1, 30)]
    assert len(two.run().metrics) == 0
    two.add(4, 4)
    for number in range(5):
        two.more(f"b{number}", (4, number, number))
    assert len(two.run().metrics) == 3, "the table that enters at the second level is the longer one"
    assert two.found() == [("00", 1, 10), ("02", 1, 30), ("04", 2, 2)]


def test_a_query_of_its_own_ends_two_tables_without_the_tweak(two: TwoTables) -> None:
    two.off = LAST_BATCH
    for hour in range(3):
        two.add(hour)
    two.more("a", (0, 1, 10), (2, 1, 30))
    assert len(two.run().metrics) == 3
    assert two.found() == [("00", 1, 10), ("02", 1, 30)]
    assert len(two.run().metrics) == 0


def test_an_end_that_comes_too_early_is_taken_back(two: TwoTables, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if Spark made more micro-batches than were counted."""
    batches = FileLists.batches.fget
    assert batches is not None
    monkeypatch.setattr(FileLists, "batches", property(lambda self: min(2, batches(self))))
    monkeypatch.setattr(tweaks, "_failures", {})
    two.add(0, 1)
    for number in range(8):
        two.more(f"b{number}", (number // 4, 1, number))
    job = two.run()
    assert len(job.metrics) == 5, "four of the longer table, and the end"
    assert two.found() == [*(("00", 1, n) for n in range(4)), *(("01", 1, n) for n in range(4, 8))]
    assert list(tweaks._failures) == [LAST_BATCH]
    assert len(two.run().metrics) == 0


def test_an_end_of_two_tables_that_a_micro_batch_was_told_stays(two: TwoTables) -> None:
    two.add(0)
    two.more("a", (0, 1, 10), (1, 1, 20))
    session, damaged = two.session(), two.add(1, damaged=True)
    with pytest.raises(StateplanError):
        two.start(session).wait()
    two.mend(damaged)
    for hour in (3, 4, 5):
        two.add(hour)
    two.more("b", (5, 1, 60))
    two.run()
    assert two.found() == [("00", 1, 10), ("01", 1, 20), ("05", 1, 60)]
