"""Queries that this process runs itself, without Spark: which they are, and that they are jobs like any other."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stateplan.common.changelog import RowKind
from stateplan.common.errors import DataError, OptionError, RunError, StateplanError
from stateplan.connectors import filesystem, results
from stateplan.planner.catalog.udf import udf
from stateplan.runtime.job import Job, JobStatus, Progress
from stateplan.runtime.local.job import LocalJob
from stateplan.runtime.metrics.prometheus import FACTORY
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs
from stateplan.session.script import read_script
from tests.runtime.sessions_here import (
    SparkError,
    changes,
    job_of,
    refuse_spark,
    session,
    table,
    until,
    write,
)

ROOT = Path(__file__).resolve().parents[2]
LIMIT = "table.exec.local.max-input-size"


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_spark(monkeypatch)


# ---- which queries -------------------------------------------------------------------------------------------


def everything(env: TableEnvironment, folder: Path) -> None:
    """Tables of all kinds."""
    write(folder / "rows" / "a.json", {"k": 1, "v": 2}, {"k": 1, "v": 3}, {"k": 2, "v": 5})
    write(folder / "names.json", {"id": 1, "name": "one"})
    write(folder / "replay.json", {"@at": 1000, "k": 1}, {"@at": 2000, "k": 2})
    table(env, "rows_", "k INT, v BIGINT, pt AS PROCTIME()", folder / "rows")
    table(env, "names", "id INT, name STRING", folder / "names.json")
    table(env, "played", "k INT, pt AS PROCTIME()", folder / "replay.json", "replay")
    made = "'connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end'"
    env.execute_sql(f"CREATE TABLE few (n BIGINT) WITH ({made} = '3')")
    env.execute_sql(f"CREATE TABLE many (n BIGINT) WITH ({made} = '6000000')")
    env.create_temporary_system_function("plus", udf(lambda n: n + 1, result_type="BIGINT"))


LOOKED_UP = "SELECT k, name FROM {} JOIN names FOR SYSTEM_TIME AS OF {}.pt ON k = id"

HERE = {
    "SELECT 1": [("+I", (1,))],
    "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t(x, y)": [("+I", (1, "a")), ("+I", (2, "b"))],
    "SELECT x FROM (VALUES (1)) AS t(x) WHERE x > 1": [],
    "SELECT k, SUM(v) FROM rows_ GROUP BY k": [("+I", (1, 5)), ("+I", (2, 5))],
    "SELECT n FROM few": [("+I", (1,)), ("+I", (2,)), ("+I", (3,))],
    "SELECT plus(n) FROM few": [("+I", (2,)), ("+I", (3,)), ("+I", (4,))],
    "SELECT COUNT(*) FROM played": [("+I", (1,)), ("-U", (1,)), ("+U", (2,))],
    "SELECT k FROM played UNION ALL SELECT 7": [("+I", (1,)), ("+I", (2,)), ("+I", (7,))],
    LOOKED_UP.format("rows_", "rows_"): [("+I", (1, "one")), ("+I", (1, "one"))],
    LOOKED_UP.format("played", "played"): [("+I", (1, "one"))],
}
IN_SPARK = {
    "SELECT n FROM many": "the table is large",
    "SELECT n FROM few UNION ALL SELECT n FROM many": "one of the tables is large",
}


@pytest.mark.parametrize("query", HERE)
def test_queries_without_spark(query: str, tmp_path: Path) -> None:
    env = session()
    everything(env, tmp_path)
    result = env.execute_sql(query)
    assert isinstance(result.job, LocalJob)
    assert sorted(changes(result), key=str) == sorted(HERE[query], key=str)
    assert job_of(result).status is JobStatus.FINISHED


@pytest.mark.parametrize("query", IN_SPARK)
def test_queries_in_spark(query: str, tmp_path: Path) -> None:
    env = session()
    everything(env, tmp_path)
    with pytest.raises(SparkError):
        env.execute_sql(query)


def with_sinks(folder: Path, options: dict[str, str] | None = None, **more: Any) -> TableEnvironment:
    """A session with tables of all kinds, and tables to write to."""
    env = session({"table.dml-sync": "true", **(options or {})}, **more)
    everything(env, folder)
    table(env, "files", "k INT, v BIGINT", folder / "files")
    keyed = "k INT, n BIGINT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED"
    env.execute_sql(f"CREATE TABLE delta ({keyed}) WITH ('connector' = 'delta', 'table-path' = '{folder / 'delta'}')")
    return env


COUNTS = "INSERT INTO delta SELECT k, COUNT(*), SUM(v) FROM rows_ GROUP BY k"


def test_inserts_without_spark(tmp_path: Path) -> None:
    notes: list[str] = []
    env = with_sinks(tmp_path, console=notes.append)
    result = env.execute_sql("INSERT INTO files SELECT k, v FROM rows_")
    assert isinstance(result.job, LocalJob)
    assert result.job.status is JobStatus.FINISHED
    assert notes == ["the job runs in this process: its input is small and ends, so it needs no Spark"]
    assert sorted(changes(env.execute_sql("SELECT * FROM files"))) == [("+I", (1, 2)), ("+I", (1, 3)), ("+I", (2, 5))]
    for _ in range(2):
        env.execute_sql(COUNTS)
        assert sorted(changes(env.execute_sql("SELECT * FROM delta"))) == [("+I", (1, 2, 5)), ("+I", (2, 1, 5))]


def test_a_statement_set_and_a_plan_without_spark(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    statements = f"BEGIN STATEMENT SET; {COUNTS}; INSERT INTO files SELECT k, v FROM rows_ WHERE k = 2; END"
    env = with_sinks(tmp_path)
    *_, result = map(env.execute_statement, read_script(statements))
    assert isinstance(result.job, LocalJob)
    env.execute_sql(f"COMPILE PLAN '{plan}' FOR {COUNTS}")
    assert isinstance(env.execute_sql(f"EXECUTE PLAN '{plan}'").job, LocalJob)
    assert sorted(changes(env.execute_sql("SELECT * FROM delta"))) == [("+I", (1, 2, 5)), ("+I", (2, 1, 5))]
    assert changes(env.execute_sql("SELECT * FROM files")) == [("+I", (2, 5))]


@pytest.mark.parametrize(
    "options",
    [
        {"table.exec.state.budget": "1 gb"},
        {"metrics.reporters": "prom", "metrics.reporter.prom.factory.class": FACTORY},
        {"execution.checkpointing.dir": "checkpoint"},
        {LIMIT: "0"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_inserts_in_spark(options: dict[str, str], tmp_path: Path) -> None:
    env = with_sinks(tmp_path, options)
    with pytest.raises(SparkError):
        env.execute_sql(COUNTS)


def test_an_insert_that_fails_writes_nothing(tmp_path: Path) -> None:
    env = with_sinks(tmp_path)
    write(tmp_path / "rows" / "b.json", {"k": 3, "v": "x"})
    with pytest.raises(DataError):
        env.execute_sql("INSERT INTO files SELECT k, v FROM rows_")
    assert changes(env.execute_sql("SELECT * FROM files")) == []


def test_size_is_that_of_all_tables(tmp_path: Path) -> None:
    size = write(tmp_path / "a.json", *({"k": i} for i in range(100))).stat().st_size
    for limit, query, fits in [
        (size, "SELECT k FROM a", True),
        (size - 1, "SELECT k FROM a", False),
        (2 * size - 1, "SELECT a.k FROM a JOIN b ON a.k = b.k", False),
        (2 * size, "SELECT a.k FROM a JOIN b ON a.k = b.k", True),
        (2 * size - 1, "SELECT a.k FROM a JOIN b FOR SYSTEM_TIME AS OF a.pt ON a.k = b.k", False),
        (2 * size, "SELECT a.k FROM a JOIN b FOR SYSTEM_TIME AS OF a.pt ON a.k = b.k", True),
        (1, "SELECT 1", True),
        (0, "SELECT 1", False),
    ]:
        env = session({LIMIT: f"{limit} b"})
        table(env, "a", "k INT, pt AS PROCTIME()", tmp_path / "a.json")
        table(env, "b", "k INT", tmp_path / "a.json", **{"lookup.cache": "FULL"})
        if fits:
            assert isinstance(env.execute_sql(query).job, LocalJob)
        else:
            with pytest.raises(SparkError):
                env.execute_sql(query)


@pytest.mark.parametrize("name", ["a.json.gz", "a.parquet"])
def test_a_byte_of_a_packed_file_counts_as_eight(name: str, tmp_path: Path) -> None:
    rows = pl.DataFrame({"k": list(range(1000))}, schema={"k": pl.Int32})
    if name.endswith("gz"):
        (tmp_path / name).write_bytes(gzip.compress(rows.write_ndjson().encode()))
    else:
        rows.write_parquet(tmp_path / name)
    size = 8 * (tmp_path / name).stat().st_size
    lookup = "SELECT b.k FROM b JOIN a FOR SYSTEM_TIME AS OF b.pt ON b.k = a.k"
    for query in ("SELECT COUNT(*) FROM a", lookup):
        for limit, fits in ((size + 100, True), (size - 1, False)):
            env = session({LIMIT: f"{limit} b"})
            table(env, "a", "k INT", tmp_path / name, format=name.split(".")[1], **{"lookup.cache": "FULL"})
            table(env, "b", "k INT, pt AS PROCTIME()", write(tmp_path / "b.json", {"k": 1}))
            if fits:
                assert isinstance(env.execute_sql(query).job, LocalJob)
            else:
                with pytest.raises(SparkError):
                    env.execute_sql(query)


def test_the_memory_of_a_job_limits_its_input(tmp_path: Path) -> None:
    env = session({"execution.memory.total": "1600 mb", "parallelism.default": "1"})
    everything(env, tmp_path)
    assert isinstance(env.execute_sql("SELECT n FROM few").job, LocalJob)
    made = "'connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end'"
    env.execute_sql(f"CREATE TABLE more (n BIGINT) WITH ({made} = '4500000')")  # 450 MB, of 512 without the option
    with pytest.raises(SparkError):
        env.execute_sql("SELECT n FROM more")


def test_a_shared_process_runs_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = "'connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end'"
    monkeypatch.setattr(Jobs, "are_durable", property(lambda jobs: True))
    for options, count, fits in [({}, 3, True), ({}, 300_000, False), ({LIMIT: "40 mb"}, 300_000, True)]:
        env = session(options)
        env.execute_sql(f"CREATE TABLE made (n BIGINT) WITH ({made} = '{count}')")
        query = "SELECT COUNT(*) FROM made"
        if fits:
            assert isinstance(env.execute_sql(query).job, LocalJob)
        else:
            with pytest.raises(SparkError):
                env.execute_sql(query)


@pytest.mark.parametrize(
    "options",
    [
        {"execution.checkpointing.dir": "checkpoint"},
        {"spark.master": "spark://host:7077"},
        {"spark.master": "yarn"},
        {"spark.remote": "sc://host"},
        {"spark.hadoop.fs.defaultFS": "hdfs://host"},
    ],
    ids=str,
)
def test_options_that_ask_for_spark(options: dict[str, str]) -> None:
    with pytest.raises(SparkError):
        session(options).execute_sql("SELECT 1")


def test_a_local_master_and_settings_do_not(tmp_path: Path) -> None:
    options = {"spark.master": "local[4]", "spark.sql.ansi.enabled": "true", "spark.hadoop.fs.defaultFS": "file:///"}
    assert isinstance(session(options).execute_sql("SELECT 1").job, LocalJob)


def test_surroundings_that_ask_for_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.master yarn\n")
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>hdfs://n</value></property></configuration>"
    )
    for name, value in {
        "SPARK_CONF_DIR": str(tmp_path),
        "HADOOP_CONF_DIR": str(tmp_path),
        "PYSPARK_SUBMIT_ARGS": "--master spark://host:7077 pyspark-shell",
        "PYSPARK_GATEWAY_PORT": "1",
        "SPARK_REMOTE": "sc://host",
    }.items():
        with monkeypatch.context() as patched:
            patched.setenv(name, value)
            with pytest.raises(SparkError):
                session().execute_sql("SELECT 1")
    assert isinstance(session().execute_sql("SELECT 1").job, LocalJob)


def test_a_session_with_a_spark_of_its_own_uses_it() -> None:
    given = type("SparkSession", (), {"__module__": "pyspark.sql.session"})()
    with pytest.raises(SparkError):
        session(spark=given).execute_sql("SELECT 1")


def test_no_spark_is_loaded() -> None:
    """Nor pandas, which takes as long as all the rest: in the whole process of the command. ARRAY_AGG stores lists."""
    code = """
import sys
from stateplan.cli.app import main
try:
    main(["sql", "-q", "-e", "SELECT 1 AS n; SELECT ARRAY_AGG(x) FROM (VALUES (1), (2)) AS t (x)"])
except SystemExit as e:
    assert not e.code, e.code
print(*({"pyspark", "py4j", "pandas", "asyncio", "prompt_toolkit"} & set(sys.modules)), file=sys.stderr)
"""
    path = os.pathsep.join(d for d in os.environ["PATH"].split(os.pathsep) if not Path(d, "java").exists())
    environment = {**os.environ, "PATH": path, "JAVA_HOME": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.strip()) == (0, "")
    assert "|           1 |" in done.stdout


# ---- what they give ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", ["1", "7"])
def test_micro_batches_are_those_of_the_table(parallelism: str, tmp_path: Path) -> None:
    """The oldest files first, so many at a time; each micro-batch shows what it changed."""
    for age, name in enumerate(["c", "a", "b"]):
        path = write(tmp_path / "in" / f"{name}.json", {"v": age}, {"v": age})
        os.utime(path, (1_000 + age, 1_000 + age))
    env = session({"parallelism.default": parallelism})
    table(env, "t", "v INT", tmp_path / "in", **{"source.max-files-per-trigger": "2"})
    result = env.execute_sql("SELECT SUM(v), COUNT(*) FROM t")
    assert changes(result) == [("+I", (2, 4)), ("-U", (2, 4)), ("+U", (6, 6))]
    job = job_of(result)
    assert [m.batch for m in job.metrics] == [0, 1]
    assert [int(m.total("rows_in")) for m in job.metrics] != []
    progress = job.progress
    assert (progress.batch, progress.rows_in, progress.rows_out) == (1, 6, 3)
    assert progress.sinks and progress.operators and progress.seconds > 0


def test_event_time_comes_to_its_end(tmp_path: Path) -> None:
    env = session()
    write(tmp_path / "a.json", *({"ts": f"2024-01-01 00:00:{s:02}", "v": s} for s in (1, 5, 25)))
    table(env, "t", "ts TIMESTAMP(3), v INT, WATERMARK FOR ts AS ts", tmp_path / "a.json")
    query = """SELECT window_start, SUM(v) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND))
        GROUP BY window_start, window_end"""
    assert sorted(row[1] for row in env.execute_sql(query).collect()) == [6, 25]


def test_ttl_on_the_clock_of_a_replay(tmp_path: Path) -> None:
    write(tmp_path / "a.json", *({"@at": at, "k": 1} for at in (0, 1_000, 20_000)))
    for ttl, counts in (("0 s", [1, 2, 3]), ("10 s", [1, 2, 1])):
        env = session({"table.exec.state.ttl": ttl})
        table(env, "t", "k INT", tmp_path / "a.json", "replay")
        rows = env.execute_sql("SELECT k, COUNT(*) FROM t GROUP BY k").collect()
        assert [row[1] for row in rows if not row.get_row_kind().is_retraction] == counts


def test_a_missing_retraction_is_told_as_in_spark(tmp_path: Path) -> None:
    told: list[str] = []
    env = session({"table.exec.state.ttl": "1 s"}, console=told.append)
    rows = [{"@at": 0, "op": "c", "after": {"k": 1, "v": 2}}, {"@at": 9_000, "op": "d", "before": {"k": 1, "v": 2}}]
    write(tmp_path / "a.json", *rows)
    table(env, "t", "k INT, v INT", tmp_path / "a.json", "replay", format="debezium-json")
    list(env.execute_sql("SELECT k, SUM(v) FROM t GROUP BY k").collect())
    assert [text for text in told if "1 retraction found nothing" in text], told


def test_errors_have_their_code_and_place(tmp_path: Path) -> None:
    env = session()
    (tmp_path / "a.json").write_text('{"v":1}\n{"v":"x"}\n')
    table(env, "t", "v INT", tmp_path / "a.json")
    result = env.execute_sql("SELECT v FROM t")
    with pytest.raises(DataError) as wrong:
        list(result.collect())
    assert wrong.value.code == "DATA112"
    assert wrong.value.place is not None
    assert (wrong.value.place.file, wrong.value.place.line) == (str(tmp_path / "a.json"), 2)
    assert "table default_catalog.default_database.t" in str(wrong.value)
    assert job_of(result).status is JobStatus.FAILED
    with pytest.raises(DataError, match="DATA112"):
        job_of(result).wait()
    with pytest.raises(DataError) as cell:
        list(env.execute_sql("SELECT CAST(s AS INT) FROM (VALUES ('1'), ('y')) AS t(s)").collect())
    assert cell.value.code == "DATA301"


def test_errors_before_the_start(tmp_path: Path) -> None:
    env = session()
    write(tmp_path / "a.json", {"@at": 1, "v": 1})
    table(env, "missing", "v INT", tmp_path / "none")
    table(env, "played", "v INT", tmp_path / "a.json", "replay")
    table(env, "files", "v INT", tmp_path / "a.json")
    with pytest.raises(OptionError) as missing:
        env.execute_sql("SELECT * FROM missing")
    assert missing.value.code == "OPT040"
    with pytest.raises(RunError) as mixed:
        env.execute_sql("SELECT * FROM played UNION ALL SELECT * FROM files")
    assert mixed.value.code == "RUN020"


def test_a_table_to_look_up_that_is_missing(tmp_path: Path) -> None:
    env = session()
    write(tmp_path / "a.json", {"@at": 1, "k": 1})
    table(env, "t", "k INT, pt AS PROCTIME()", tmp_path / "a.json", "replay")
    table(env, "names", "id INT", tmp_path / "none.json", "replay")
    with pytest.raises(StateplanError) as missing:
        list(env.execute_sql("SELECT k FROM t JOIN names FOR SYSTEM_TIME AS OF t.pt ON k = id").collect())
    assert missing.value.code == "DATA104" and "names" in str(missing.value)


def test_a_bug_fails_the_job_with_a_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: object) -> None:
        raise TypeError("oh")

    env = session()
    table(env, "t", "v INT", write(tmp_path / "a.json", {"v": 1}))
    monkeypatch.setattr(filesystem.Files, "read", broken)
    with pytest.raises(RunError, match="TypeError: oh") as failed:
        list(env.execute_sql("SELECT v FROM t").collect())
    assert failed.value.code == "RUN001"


# ---- jobs like any other -------------------------------------------------------------------------------------


def test_jobs_know_them() -> None:
    env = session({"pipeline.name": "mine"})
    result = env.execute_sql("SELECT 1")
    assert result.wait() and job_of(result).wait()
    (row,) = env.execute_sql("SHOW JOBS").collect()
    assert row[:3] == (job_of(result).job_id.replace("-", ""), "mine", "FINISHED")
    job = job_of(result)
    assert job.bounded and job.has_ended and not job.is_active and job.checkpoint is None
    with pytest.raises(RunError) as refused:
        result.set_ttl({"join": "1 h"})
    assert refused.value.code == "RUN057"
    heard: list[Job] = []
    job.when_over(heard.append)
    assert heard == [job]


def test_progress_is_told_while_somebody_waits(tmp_path: Path) -> None:
    seen: list[Progress] = []
    env = session(on_progress=seen.append)
    job_of(env.execute_sql("SELECT 1")).wait()
    assert seen[-1].rows_out == 1


ROWS = results.BUFFERED_ROWS
"""The reader has enough of so many."""


@pytest.fixture
def slow(tmp_path: Path) -> TableEnvironment:
    """Three micro-batches, each of which is enough for the reader."""
    for n in range(3):
        path = write(tmp_path / "in" / f"{n}.json")
        path.write_text(f'{{"v":{n}}}\n' * ROWS)
        os.utime(path, (1_000 + n, 1_000 + n))
    env = session()
    table(env, "t", "v INT", tmp_path / "in", **{"source.max-files-per-trigger": "1"})
    return env


def test_a_job_waits_for_its_reader(slow: TableEnvironment) -> None:
    result = slow.execute_sql("SELECT v FROM t")
    job = job_of(result)
    assert result.wait()
    until(lambda: job.progress.batch >= 0, "no micro-batch")
    time.sleep(0.2)
    assert job.progress.batch == 0 and job.is_active
    assert Counter(v for frame in result.frames() for v in frame["c0"].to_list()) == {0: ROWS, 1: ROWS, 2: ROWS}
    assert job.wait() and job.progress.batch == 2


def test_stopping_a_job_that_waits_for_its_reader(slow: TableEnvironment) -> None:
    result = slow.execute_sql("SELECT v FROM t")
    job = job_of(result)
    assert result.wait()
    slow.execute_sql(f"STOP JOB '{job.job_id}'")
    assert job.status is JobStatus.CANCELED and job.progress.batch < 2
    assert job.wait()


def test_closing_a_result_ends_its_job(slow: TableEnvironment) -> None:
    with slow.execute_sql("SELECT v FROM t") as result:
        assert next(result.collect()).get_row_kind() is RowKind.INSERT
    assert job_of(result).status is JobStatus.CANCELED
    assert list(result.collect()) == []


def test_many_at_once(tmp_path: Path) -> None:
    """Each thread of a gateway has its session; all of them share what this process keeps."""
    wrong: list[object] = []

    def work(number: int) -> None:
        env = session()
        folder = tmp_path / str(number)
        everything(env, folder)
        for query, rows in HERE.items():
            got = sorted(changes(env.execute_sql(query)), key=str)
            if got != sorted(rows, key=str):
                wrong.append((number, query, got))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_constants_beyond_the_dates_of_python() -> None:
    (row,) = (
        session()
        .execute_sql(
            "SELECT CAST(DATE '9999-12-31' + INTERVAL '1' DAY AS STRING), "
            "CAST(DATE '0001-01-01' - INTERVAL '1' DAY AS STRING)"
        )
        .collect()
    )
    assert tuple(row) == ("+10000-01-01", "0000-12-31")


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("r IN (CAST(0.1 AS FLOAT), 0)", [1, 2]),
        ("r IN (0.1, 0.3)", [1, 4]),
        ("r IN (CAST(0.1 AS DOUBLE), CAST(0.3 AS DOUBLE))", [1, 4]),
        ("r NOT IN (CAST(0.1 AS FLOAT), 0)", [3, 4]),
        ("r BETWEEN CAST(0.1 AS FLOAT) AND CAST(0.3 AS FLOAT)", [1, 4]),
        ("r > CAST(0.1 AS FLOAT) AND r < CAST(0.5 AS FLOAT)", [4]),
        ("r >= 0.1 AND r <= 0.3", [1]),
        ("r > 0.1 OR r < 0", [1, 3, 4]),
        ("r = 0.1", []),
    ],
)
def test_floats_are_in_ranges_of_floats(tmp_path: Path, condition: str, ids: list[int]) -> None:
    """The rows are those of Flink 2.3: 0.1 as a FLOAT is another number than 0.1 as a DOUBLE."""
    env = session()
    rows = ({"i": i, "r": r} for i, r in enumerate((0.1, 0, 0.5, 0.3), 1))
    table(env, "t", "i INT, r FLOAT", write(tmp_path / "t.json", *rows))
    assert [row[0] for row in env.execute_sql(f"SELECT i FROM t WHERE {condition}").collect()] == ids
