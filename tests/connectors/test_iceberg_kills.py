"""A job with Iceberg sinks whose process is killed around commits."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stateplan.session.environment import TableEnvironment
from tests.conftest import ROOT
from tests.connectors.iceberg_tables import append, contents, opened

JOB = """
import sys
from stateplan.session.environment import TableEnvironment
folder = sys.argv[1]
t = TableEnvironment.create({"parallelism.default": "2", "execution.checkpointing.dir": f"{folder}/checkpoint"})
lake = f"'connector' = 'iceberg', 'warehouse' = '{folder}/lake'"
t.execute_sql("CREATE TABLE src (k BIGINT, v STRING) WITH ("
              f"{lake}, 'catalog-table' = 'src', 'streaming' = 'true', 'monitor-interval' = '100 ms',"
              "'starting-strategy' = 'INCREMENTAL_FROM_EARLIEST_SNAPSHOT', 'max-planning-snapshot-count' = '1')")
t.execute_sql(f"CREATE TABLE plain (k BIGINT, v STRING) WITH ({lake}, 'catalog-table' = 'plain')")
t.execute_sql("CREATE TABLE counts (v STRING, n BIGINT, PRIMARY KEY (v) NOT ENFORCED) "
              f"WITH ({lake}, 'catalog-table' = 'counts')")
s = t.create_statement_set()
s.add_insert_sql("INSERT INTO plain SELECT k, v FROM src")
s.add_insert_sql("INSERT INTO counts SELECT v, COUNT(*) FROM src GROUP BY v")
s.execute().wait()
"""
ROWS, KILLS = 12, 3


def snapshots(folder: Path, table: str) -> int:
    try:
        return len(opened(folder, table).snapshots())
    except Exception:  # the table has not been made
        return 0


@pytest.mark.spark
@pytest.mark.long
def test_kills_around_commits(tmp_path: Path) -> None:
    lake, dice = tmp_path / "lake", random.Random(1)
    for k in range(ROWS):
        append(lake, (k, f"v{k % 3}"), table="src")
    expected_counts = [(f"v{i}", ROWS // 3) for i in range(3)]
    for kill in range(KILLS + 1):
        before = snapshots(lake, "plain")
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", JOB, str(tmp_path)], cwd=ROOT, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + 120
        try:
            while process.poll() is None and time.monotonic() < deadline:
                if kill < KILLS and snapshots(lake, "plain") > before + dice.randrange(2):
                    time.sleep(dice.random() * 0.3)
                    break
                if kill == KILLS and snapshots(lake, "counts") and contents(lake, "counts") == expected_counts:
                    break
                time.sleep(0.01)
            assert process.poll() is None, (tmp_path / "log").read_text()[-4000:]
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert len(contents(lake, "plain")) == len(set(contents(lake, "plain")))
    assert contents(lake, "plain") == sorted([(k, f"v{k % 3}") for k in range(ROWS)], key=repr)
    assert contents(lake, "counts") == expected_counts


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_job_in_spark_writes_and_reads_iceberg(tmp_path: Path) -> None:
    env = TableEnvironment.create({"execution.checkpointing.dir": str(tmp_path / "checkpoint")})
    append(tmp_path / "lake", *((k, f"v{k % 3}") for k in range(30)), table="src")
    env.execute_sql(f"CREATE CATALOG lake WITH ('type' = 'iceberg', 'warehouse' = '{tmp_path}/lake')")
    env.use_catalog("lake")
    env.execute_sql("CREATE TABLE t (v STRING, n BIGINT, PRIMARY KEY (v) NOT ENFORCED) WITH ('sort-order' = 'v')")
    for _ in range(2):  # the second time on its checkpoint
        env.execute_sql("INSERT INTO t SELECT v, COUNT(*) FROM src WHERE k >= 3 GROUP BY v").wait()
        assert contents(tmp_path / "lake") == [("v0", 9), ("v1", 9), ("v2", 9)]
