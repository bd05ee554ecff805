"""Jobs that nobody waits for, and the rows of queries while their jobs run: on real Spark."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from stateplan.common.changelog import RowKind
from stateplan.common.errors import StateplanError
from stateplan.runtime.job import JobStatus
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs

pytestmark = pytest.mark.spark

OPTIONS = {"parallelism.default": "2", "table.local-time-zone": "UTC", "table.exec.local.max-input-size": "0"}


def until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.fixture
def tables(tmp_path: Path) -> TableEnvironment:
    env = TableEnvironment.create(OPTIONS, jobs=Jobs())
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"k":1,"v":2}\n{"k":1,"v":3}\n{"k":2,"v":5}\n')
    source = f"'connector' = 'filesystem', 'path' = '{tmp_path / 'in'}', 'format' = 'json'"
    env.execute_sql(f"CREATE TABLE t (k INT, v BIGINT) WITH ({source})")
    env.execute_sql(f"CREATE TABLE arriving (k INT, v BIGINT) WITH ({source}, 'source.monitor-interval' = '200 ms')")
    env.execute_sql("CREATE TABLE nothing (k INT, v BIGINT) WITH ('connector' = 'blackhole')")
    return env


def test_rows_of_a_query(tables: TableEnvironment) -> None:
    rows = list(tables.execute_sql("SELECT k, SUM(v) AS s FROM t GROUP BY k").collect())
    final: Counter[tuple[object, ...]] = Counter()
    for row in rows:
        final[tuple(row)] += -1 if row.get_row_kind().is_retraction else 1
    assert {row for row, n in final.items() if n} == {(1, 5), (2, 5)}
    assert rows[0].s and rows[0].get_row_kind() is RowKind.INSERT


def test_a_query_that_goes_on(tables: TableEnvironment, tmp_path: Path) -> None:
    with tables.execute_sql("SELECT k, v FROM arriving") as result:
        rows = result.collect()
        assert sorted(tuple(next(rows)) for _ in range(3)) == [(1, 2), (1, 3), (2, 5)]
        partial = tmp_path / "b.json"
        partial.write_text('{"k":3,"v":null}\n')
        partial.rename(tmp_path / "in" / "b.json")
        assert tuple(next(rows)) == (3, None)
        assert result.job is not None and result.job.status is JobStatus.RUNNING
    assert result.job.status is JobStatus.CANCELED
    assert list(result.collect()) == []


def test_a_table_on_the_screen(tables: TableEnvironment, capsys: pytest.CaptureFixture[str]) -> None:
    tables.execute_sql("SELECT k, SUM(v) AS total, 'a' || CHR(10) AS note FROM t WHERE k = 2 GROUP BY k").print()
    assert capsys.readouterr().out == (
        "+----+-------------+----------------------+--------------------------------+\n"
        "| op |           k |                total |                           note |\n"
        "+----+-------------+----------------------+--------------------------------+\n"
        "| +I |           2 |                    5 |                            a\\n |\n"
        "+----+-------------+----------------------+--------------------------------+\n"
        "Received a total of 1 row\n"
    )


def test_jobs_end_without_being_waited_for(tables: TableEnvironment) -> None:
    result = tables.execute_sql("INSERT INTO nothing SELECT k, v FROM t")
    assert result.job is not None
    until(lambda: result.job.has_ended, "the job does not end")
    assert result.job.status is JobStatus.FINISHED
    (row,) = tables.execute_sql("SHOW JOBS").collect()
    assert row[0] == result.job.job_id.replace("-", "")
    assert row[1:3] == ("insert-into_default_catalog.default_database.nothing", "FINISHED")


def test_a_job_that_fails(tables: TableEnvironment, tmp_path: Path) -> None:
    (tmp_path / "in" / "bad.json").write_text("{\n")
    result = tables.execute_sql("INSERT INTO nothing SELECT k, v FROM t")
    assert result.job is not None
    until(lambda: result.job.has_ended, "the job does not end")
    assert result.job.status is JobStatus.FAILED
    assert [row[2] for row in tables.execute_sql("SHOW JOBS").collect()] == ["FAILED"]
    for _ in range(2):
        with pytest.raises(StateplanError, match=r"bad\.json"):
            result.wait()


def test_stopping_a_job(tables: TableEnvironment) -> None:
    result = tables.execute_sql("INSERT INTO nothing SELECT k, v FROM arriving")
    assert result.job is not None
    job = result.job.job_id
    assert [row[2] for row in tables.execute_sql(f"DESCRIBE JOB '{job}'").collect()] == ["RUNNING"]
    tables.execute_sql(f"STOP JOB '{job.replace('-', '')}'")
    assert [row[2] for row in tables.execute_sql(f"DESCRIBE JOB '{job}'").collect()] == ["CANCELED"]
    assert result.wait() and not result.job.is_active
    with pytest.raises(StateplanError, match="CANCELED"):
        tables.execute_sql(f"STOP JOB '{job}'")
    with pytest.raises(StateplanError, match="there is no job 'x'"):
        tables.execute_sql("STOP JOB 'x'")


def test_stopping_a_query_that_waits_for_its_reader(tables: TableEnvironment, tmp_path: Path) -> None:
    tables.execute_sql(
        "CREATE TABLE many (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '400000', "
        "'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '400000')"
    )
    result = tables.execute_sql("SELECT n FROM many")
    assert result.wait()
    tables.execute_sql(f"STOP JOB '{result.job.job_id}'")
    assert result.job.status in (JobStatus.CANCELED, JobStatus.FINISHED)


@pytest.mark.usefixtures("tables")
def test_jobs_that_start_at_once_keep_their_settings(tmp_path: Path) -> None:
    """In one Spark, each with a parallelism of its own."""
    failed: list[BaseException] = []

    def run(parallelism: int) -> None:
        try:
            env = TableEnvironment.create(
                {**OPTIONS, "parallelism.default": str(parallelism), "pipeline.max-parallelism": "8"}, jobs=Jobs()
            )
            env.execute_sql(f"SET 'execution.checkpointing.dir' = '{tmp_path / str(parallelism)}'")
            path = tmp_path / "in"
            env.execute_sql(
                f"CREATE TABLE t (k INT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json')"
            )
            env.execute_sql("CREATE TABLE nothing (k INT, n BIGINT) WITH ('connector' = 'blackhole')")
            env.execute_sql("INSERT INTO nothing SELECT k, COUNT(*) FROM t GROUP BY k").wait()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    found = {n: SparkCheckpoint.of(tmp_path / str(n)).offsets(0).partitions for n in range(1, 5)}
    assert found == {1: 1, 2: 2, 3: 3, 4: 4}
