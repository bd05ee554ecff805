"""Jobs over unbounded tables in this process, without Spark: which they are, and what they do as rows arrive."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.common.errors import DataError, OptionError, RunError
from stateplan.runtime.job import Job, JobStatus
from stateplan.runtime.local import arrivals
from stateplan.runtime.local import job as local_job
from stateplan.runtime.local.job import LocalJob
from stateplan.runtime.local.kept_runs import KeptRuns
from stateplan.runtime.metrics.prometheus import FACTORY
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs
from stateplan.session.results import TableResult
from tests.runtime.sessions_here import SparkError, job_of, refuse_spark, session, table, until, write

ROOT = Path(__file__).resolve().parents[2]
LIMIT = "table.exec.local.max-input-size"
LOOK = {"source.monitor-interval": "10 ms"}


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_spark(monkeypatch)


def arrive(folder: Path, name: str, *rows: dict[str, Any]) -> None:
    """A whole file appears."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden_file = folder.parent / f".{name}"
    hidden_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hidden_file.rename(folder / name)


def streams(env: TableEnvironment, folder: Path) -> None:
    """Tables without end, and others beside them."""
    write(folder / "rows" / "a.json", {"k": 1, "v": 2}, {"k": 2, "v": 5})
    write(folder / "names.json", {"id": 1, "name": "one"})
    table(env, "arriving", "k INT, v INT, pt AS PROCTIME()", folder / "rows", **LOOK)
    table(env, "names", "id INT, name STRING", folder / "names.json")
    env.execute_sql("CREATE TABLE endless (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100')")
    env.execute_sql("CREATE TABLE printed (k INT, v INT) WITH ('connector' = 'print')")
    env.execute_sql("CREATE TABLE counted (k INT, v INT) WITH ('connector' = 'blackhole')")
    table(env, "files", "k INT, v INT", folder / "files")


class Rows:
    """The rows of a result, as they come."""

    def __init__(self, result: TableResult) -> None:
        self.result = result
        self._rows = result.collect()

    def next(self, count: int) -> list[tuple[str, tuple[object, ...]]]:
        """So many rows, for which it waits."""
        some = [next(self._rows) for _ in range(count)]
        return [(row.get_row_kind().short, tuple(row)) for row in some]


# ---- which jobs --------------------------------------------------------------------------------------------------

HERE = {
    "SELECT k, v FROM arriving": 2,
    "SELECT COUNT(*) FROM endless": 1,
    "SELECT k, name FROM arriving JOIN names ON k = id": 1,
    "SELECT k, name FROM arriving JOIN names FOR SYSTEM_TIME AS OF pt ON k = id": 1,
    "SELECT k FROM arriving UNION ALL SELECT 7": 3,
}


@pytest.mark.parametrize("query", HERE)
def test_queries_without_spark(query: str, tmp_path: Path) -> None:
    env = session()
    streams(env, tmp_path)
    result = env.execute_sql(query)
    assert isinstance(result.job, LocalJob)
    assert len(Rows(result).next(HERE[query])) == HERE[query]
    assert not result.job.bounded
    assert result.job.status is JobStatus.RUNNING
    result.job.stop()
    assert result.job.status is JobStatus.CANCELED


def test_inserts_and_plans_whose_results_are_not_stored(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    notes: list[str] = []
    env = session(console=notes.append)
    streams(env, tmp_path)
    plan = tmp_path / "plan.json"
    env.execute_sql(f"COMPILE PLAN '{plan}' FOR INSERT INTO counted SELECT k, v FROM arriving")
    for statement in ("INSERT INTO printed SELECT k, v FROM arriving", f"EXECUTE PLAN '{plan}'"):
        job = job_of(env.execute_sql(statement))
        assert isinstance(job, LocalJob)
        until(lambda job=job: job.progress.rows_out == 2, "the rows have been written")
        job.stop()
    assert sorted(capfd.readouterr().out.splitlines()) == ["+I[1, 2]", "+I[2, 5]"]
    assert notes == ["the job runs in this process: its results are not stored, so it needs no Spark"] * 2


STORED = "INSERT INTO files SELECT k, v FROM arriving"
PRINTED = "INSERT INTO printed SELECT k, v FROM arriving"

IN_SPARK: dict[str, tuple[str, dict[str, str]]] = {
    "its results are stored": (STORED, {}),
    "some of its results are stored": (f"EXECUTE STATEMENT SET BEGIN {STORED}; {PRINTED}; END", {}),
    "streams run in Spark": (PRINTED, {"table.exec.local.streams": "false"}),
    "all jobs run in Spark": (PRINTED, {LIMIT: "0"}),
    "there is much to read": (PRINTED, {LIMIT: "20 b"}),
    "it has a checkpoint": (PRINTED, {"execution.checkpointing.dir": "checkpoint"}),
    "micro-batches have an interval": (PRINTED, {"execution.checkpointing.interval": "1 s"}),
    "micro-batches have a target": (PRINTED, {"execution.micro-batch.target-latency": "1 s"}),
    "its memory has a limit": (PRINTED, {"execution.memory.total": "2 gb", "parallelism.default": "1"}),
    "its state has a budget": (PRINTED, {"table.exec.state.budget": "1 gb"}),
    "metrics are served": (PRINTED, {"metrics.reporters": "p", "metrics.reporter.p.factory.class": FACTORY}),
    "a query with a checkpoint": ("SELECT k FROM arriving", {"execution.checkpointing.dir": "checkpoint"}),
}


@pytest.mark.parametrize("why", IN_SPARK)
def test_jobs_in_spark(why: str, tmp_path: Path) -> None:
    statement, options = IN_SPARK[why]
    env = session(options)
    streams(env, tmp_path)
    with pytest.raises(SparkError):
        env.execute_sql(statement)


def test_a_shared_process_runs_no_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Jobs, "are_durable", property(lambda jobs: True))
    env = session()
    streams(env, tmp_path)
    with pytest.raises(SparkError):
        env.execute_sql("SELECT k FROM arriving")
    env.execute_sql("SET 'table.exec.local.streams' = 'true'")
    job_of(env.execute_sql("SELECT k FROM arriving")).stop()
    with pytest.raises(SparkError):
        env.execute_sql(PRINTED)


def test_it_has_no_savepoint(tmp_path: Path) -> None:
    env = session()
    streams(env, tmp_path)
    job = job_of(env.execute_sql(PRINTED))
    with pytest.raises(RunError) as refused:
        job.stop_with_savepoint(tmp_path / "savepoint")
    assert refused.value.code == "RUN059"
    assert job.status is JobStatus.RUNNING
    job.stop()


# ---- what they do ------------------------------------------------------------------------------------------------


def test_each_file_changes_the_result(tmp_path: Path) -> None:
    env = session()
    table(env, "t", "k STRING, v INT", tmp_path / "in", **LOOK)
    (tmp_path / "in").mkdir()
    rows = Rows(env.execute_sql("SELECT k, SUM(v) FROM t GROUP BY k"))
    job = job_of(rows.result)
    until(lambda: job.is_idle, "the job has found nothing")
    arrive(tmp_path / "in", "1.json", {"k": "a", "v": 1}, {"k": None, "v": 5})
    assert sorted(rows.next(2), key=str) == [("+I", ("a", 1)), ("+I", (None, 5))]
    arrive(tmp_path / "in", "2.json", {"k": "a", "v": 2})
    assert rows.next(2) == [("-U", ("a", 1)), ("+U", ("a", 3))]
    arrive(tmp_path / "in", "_hidden.json", {"k": "a", "v": 100})
    arrive(tmp_path / "in" / "below", "3.json", {"k": None, "v": 1})
    assert rows.next(2) == [("-U", (None, 5)), ("+U", (None, 6))]
    assert [record.batch for record in job.metrics] == [0, 1, 2]
    job.stop()
    assert job.has_ended
    assert list(rows.result.collect()) == []


def test_a_backlog_does_not_wait(tmp_path: Path) -> None:
    """The interval is that between looks at the folder."""
    for number in range(5):
        write(tmp_path / "in" / f"{number}.json", {"v": number})
        os.utime(tmp_path / "in" / f"{number}.json", (1_000 + number,) * 2)
    env = session()
    options = {"source.monitor-interval": "1 h", "source.max-files-per-trigger": "2"}
    table(env, "t", "v INT", tmp_path / "in", **options)
    rows = Rows(env.execute_sql("SELECT SUM(v) FROM t"))
    assert rows.next(5) == [("+I", (1,)), ("-U", (1,)), ("+U", (6,)), ("-U", (6,)), ("+U", (10,))]
    job_of(rows.result).stop()


def test_the_first_of_many_files_do_not_wait_for_the_last(tmp_path: Path) -> None:
    for number in range(1_100):
        write(tmp_path / "in" / f"{number}.json", {"v": 1})
        os.utime(tmp_path / "in" / f"{number}.json", (1_000 + number,) * 2)
    env = session()
    table(env, "t", "v INT", tmp_path / "in", **{"source.monitor-interval": "1 h"})
    rows = Rows(env.execute_sql("SELECT SUM(v) FROM t"))
    assert rows.next(5) == [("+I", (500,)), ("-U", (500,)), ("+U", (1_000,)), ("-U", (1_000,)), ("+U", (1_100,))]
    job_of(rows.result).stop()


def test_each_table_is_looked_at_as_often_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    look = arrivals._Files.take

    def take(files: arrivals._Files, now: int) -> Any:
        looks.append(now)
        return look(files, now)

    monkeypatch.setattr(arrivals._Files, "take", take)
    env = session()
    streams(env, tmp_path)
    table(env, "seldom", "n BIGINT", tmp_path / "rows", **{"source.monitor-interval": "1 h"})
    job = job_of(env.execute_sql("SELECT COUNT(*) FROM (SELECT n FROM endless UNION ALL SELECT n FROM seldom)"))
    until(lambda: job.progress.batch >= 3, "rows of the other table have been read")
    assert len(looks) == 1
    job.stop()


def test_a_job_that_waits_stops_at_once(tmp_path: Path) -> None:
    env = session()
    table(env, "t", "v INT", tmp_path, **{"source.monitor-interval": "1 h"})
    job = job_of(env.execute_sql("SELECT v FROM t"))
    until(lambda: job.is_idle, "the job waits")
    job.stop()
    assert job.status is JobStatus.CANCELED


def test_a_query_that_nobody_reads_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stateplan.connectors import results

    monkeypatch.setattr(results.ResultChannel.__init__, "__defaults__", (3,))
    env = session()
    streams(env, tmp_path)
    job = job_of(env.execute_sql("SELECT n FROM endless"))
    until(lambda: job.progress.batch >= 0 or job.view.in_hand is not None, "rows have been made")
    job.stop()
    assert job.status is JobStatus.CANCELED


def test_event_time_goes_on_with_the_rows(tmp_path: Path) -> None:
    env = session()
    table(env, "t", "ts TIMESTAMP(3), v INT, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND", tmp_path / "in", **LOOK)
    (tmp_path / "in").mkdir()
    query = """SELECT window_start, SUM(v), COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        GROUP BY window_start, window_end"""
    rows = Rows(env.execute_sql(query))
    for number, second in enumerate((1, 5, 12, 3, 25)):  # the second 3 is too late
        before = len(job_of(rows.result).metrics)
        arrive(tmp_path / "in", f"{number}.json", {"ts": f"2024-01-01 00:00:{second:02}", "v": second})
        until(lambda before=before: len(job_of(rows.result).metrics) > before, "the row has been read")
    assert [row[1:] for _, row in rows.next(2)] == [(6, 2), (12, 1)]
    job_of(rows.result).stop()


def test_processing_time_goes_on_without_rows(tmp_path: Path) -> None:
    env = session()
    write(tmp_path / "in" / "a.json", {"v": 3}, {"v": 4})
    table(env, "t", "v INT, pt AS PROCTIME()", tmp_path / "in", **LOOK)
    query = """SELECT SUM(v) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(pt), INTERVAL '1' SECOND))
        GROUP BY window_start, window_end"""
    rows = Rows(env.execute_sql(query))
    assert rows.next(1) == [("+I", (7,))]
    job_of(rows.result).stop()


def test_state_expires(tmp_path: Path) -> None:
    env = session({"table.exec.state.ttl": "300 ms"})
    table(env, "t", "k INT, pt AS PROCTIME()", tmp_path / "in", **LOOK)
    (tmp_path / "in").mkdir()
    first = "SELECT k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt) AS n FROM t) WHERE n = 1"
    rows = Rows(env.execute_sql(first))
    job = job_of(rows.result)
    for number in range(3):
        before = len(job.metrics)
        arrive(tmp_path / "in", f"{number}.json", {"k": 1})
        until(lambda before=before: len(job.metrics) > before, "the row has been read")
        if number == 1:
            time.sleep(0.4)
    assert rows.next(2) == [("+I", (1,)), ("+I", (1,))]
    until(lambda: job.is_idle, "nothing more has come")
    assert job.progress.rows_out == 2
    job.stop()


def test_generated_rows_come_at_their_rate(tmp_path: Path) -> None:
    env = session()
    env.execute_sql("CREATE TABLE endless (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '200')")
    job = job_of(env.execute_sql("SELECT n FROM endless"))
    until(lambda: job.progress.rows_in >= 100, "rows have been made")
    assert job.progress.rows_in <= 200 * (job.progress.seconds + 1)
    job.stop()


def test_a_program_that_ends_stops_its_jobs() -> None:
    code = """
import time
from stateplan import TableEnvironment
env = TableEnvironment.create()
env.execute_sql("CREATE TABLE made (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100000')")
env.execute_sql("CREATE TABLE printed (n BIGINT) WITH ('connector' = 'print')")
job = env.execute_sql("INSERT INTO printed SELECT n FROM made").job
while not job.progress.rows_out:
    time.sleep(0.01)
print("the end")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("the end") == 1
    assert all(line == "the end" or line.startswith("+I[") for line in done.stdout.splitlines())


# ---- what goes wrong ---------------------------------------------------------------------------------------------


def test_a_bad_row_ends_the_job_with_its_place(tmp_path: Path) -> None:
    env = session()
    table(env, "t", "v INT", tmp_path / "in", **LOOK)
    (tmp_path / "in").mkdir()
    rows = Rows(env.execute_sql("SELECT v FROM t"))
    arrive(tmp_path / "in", "1.json", {"v": 1})
    assert rows.next(1) == [("+I", (1,))]
    arrive(tmp_path / "in", "2.json", {"v": 2}, {"v": "x"})
    with pytest.raises(DataError) as wrong:
        rows.next(1)
    assert wrong.value.code == "DATA112"
    assert wrong.value.place is not None
    assert (wrong.value.place.file, wrong.value.place.line) == (str(tmp_path / "in" / "2.json"), 2)
    assert job_of(rows.result).status is JobStatus.FAILED


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    env = session()
    table(env, "t", "v INT", tmp_path / "none", **LOOK)
    with pytest.raises(OptionError) as missing:
        env.execute_sql("SELECT v FROM t")
    assert missing.value.code == "OPT040"


def test_a_folder_that_goes_away(tmp_path: Path) -> None:
    env = session()
    write(tmp_path / "in" / "a.json", {"v": 1})
    table(env, "t", "v INT", tmp_path / "in", **LOOK)
    rows = Rows(env.execute_sql("SELECT v FROM t"))
    assert rows.next(1) == [("+I", (1,))]
    (tmp_path / "in").rename(tmp_path / "elsewhere")
    job = job_of(rows.result)
    until(lambda: job.has_ended or job.is_idle, "the job has looked")
    if job.has_ended:
        assert job.error is not None
        assert "default_catalog.default_database.t" in str(job.error)
    job.stop()


# ---- large state -------------------------------------------------------------------------------------------------

COLUMNS = "k INT, v INT, pt AS PROCTIME()"
QUERIES = (
    "SELECT k, COUNT(*), SUM(v), MAX(v) FROM t GROUP BY k",
    "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM t) WHERE n <= 2",
    "SELECT a.k, a.v, b.v FROM t AS a JOIN t AS b ON a.k = b.k AND a.v < b.v",
)
Arrival = list[tuple[int | None, int]]


def table_of(changes: Iterable[Any]) -> Counter[tuple[object, ...]]:
    """What rows a changelog leaves."""
    rows: Counter[tuple[object, ...]] = Counter()
    for row in changes:
        rows[tuple(row)] += -1 if row.get_row_kind().is_retraction else 1
    return +rows


@settings(max_examples=10)
@given(
    query=st.sampled_from(QUERIES),
    arrivals=st.lists(st.lists(st.tuples(st.none() | st.integers(0, 3), st.integers(0, 9)), max_size=6), max_size=5),
    in_memory=st.sampled_from([0, 1 << 40]),
)
def test_a_stream_ends_where_bounded_input_does(
    query: str, arrivals: list[Arrival], in_memory: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """However the rows arrive, and wherever the state is."""
    folder = tmp_path_factory.mktemp("rows") / "in"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(local_job, "KeptRuns", lambda: KeptRuns(in_memory))
        patched.setattr("stateplan.runtime.local.kept_runs._SMALL", 0)
        env = session()
        table(env, "t", COLUMNS, folder, **LOOK)
        result = env.execute_sql(query)
        job = job_of(result)
        for number, rows in enumerate(arrivals):
            arrive(folder, f"{number}.json", *({"k": k, "v": v} for k, v in rows))
            wait_for(job, sum(map(len, arrivals[: number + 1])))
        job.stop()
        stream = table_of(result.collect())
    bounded = session()
    table(bounded, "t", COLUMNS, folder)
    assert stream == table_of(bounded.execute_sql(query).collect())


def wait_for(job: Job, rows: int) -> None:
    """Waits until each table of a job has read so many rows."""
    tables = sum(operator.kind == "source" for operator in job.view.info.operators)
    until(lambda: job.progress.rows_in == rows * tables and job.is_idle, "all rows have been read")


def test_state_that_disk_does_not_take_stays_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_job, "KeptRuns", lambda: KeptRuns(0))
    monkeypatch.setattr("stateplan.runtime.local.kept_runs._SMALL", 0)
    monkeypatch.setattr(KeptRuns, "_make_room", _refuse_space)
    notes: list[str] = []
    env = session(console=notes.append)
    table(env, "t", "k INT", tmp_path / "in", **LOOK)
    (tmp_path / "in").mkdir()
    rows = Rows(env.execute_sql("SELECT k, COUNT(*) FROM t GROUP BY k"))
    for number in range(3):
        arrive(tmp_path / "in", f"{number}.json", {"k": 1})
        assert rows.next(1 + (number > 0))[-1][1] == (1, number + 1)
    job_of(rows.result).stop()
    assert notes == []


def _refuse_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_large_state_is_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[KeptRuns] = []

    def keep() -> KeptRuns:
        kept.append(KeptRuns(1 << 20))
        return kept[-1]

    monkeypatch.setattr(local_job, "KeptRuns", keep)
    env = session()
    table(env, "t", "k BIGINT", tmp_path / "in", **LOOK)
    (tmp_path / "in").mkdir()
    rows = Rows(env.execute_sql("SELECT COUNT(*), COUNT(DISTINCT k) FROM t"))
    picks = random.Random(7)
    for number in range(4):
        arrive(tmp_path / "in", f"{number}.json", *({"k": picks.randrange(1 << 40)} for _ in range(100_000)))
    final: tuple[object, ...] = ()
    while final != (400_000, 400_000):
        final = rows.next(1)[0][1]
    folder = kept[0].folder
    assert folder is not None
    assert sum(file.stat().st_size for file in folder.iterdir()) > 4 << 20
    job_of(rows.result).stop()
    until(lambda: not folder.exists(), "the files are gone")
