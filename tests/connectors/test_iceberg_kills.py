"""Iceberg sinks whose process is killed in the middle of commits, on a disk and on an object store."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from stateplan.session.environment import TableEnvironment
from tests.conftest import ROOT
from tests.connectors.iceberg_tables import append, contents

JOB = """
import json, sys
from stateplan.session.environment import TableEnvironment
folder, options = sys.argv[1], json.loads(sys.argv[2])
t = TableEnvironment.create({"parallelism.default": "2", "execution.checkpointing.dir": f"{folder}/checkpoint"})
lake = ", ".join(f"'{key}' = '{text}'" for key, text in {"connector": "iceberg", **options}.items())
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


STEPS = """
import itertools, json, os, signal, sys
import pyiceberg.table.maintenance, stateplan.connectors.iceberg.merge  # not in each child
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile
from tests.connectors.iceberg_tables import sink_of
from tests.support.delta import frame, write

options = json.loads(sys.argv[1])
create, commit_table = PyArrowFile.create, SqlCatalog.commit_table

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def run(step, key, epoch):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    count = itertools.count()
    PyArrowFile.create = lambda *a, **k: die() if next(count) == step else create(*a, **k)
    if step == "after":
        SqlCatalog.commit_table = lambda *a: die(commit_table(*a))
    columns, table = ("k BIGINT NOT NULL, v STRING", "keyed") if key else ("k BIGINT, v STRING", "plain")
    target = sink_of(options["warehouse"], columns, key, **{**options, "table": table})
    write(target, epoch, frame((1, f"v{epoch}"), (2 + epoch, "new")))
    os._exit(0)

exits = {}
for key in ([], ["k"]):
    exits[f"begin {key}"] = [run(None, key, 0)]
    exits[f"each step {key}"] = []
    while 0 not in exits[f"each step {key}"]:
        exits[f"each step {key}"].append(run(len(exits[f"each step {key}"]), key, 1))
    exits[f"after {key}"] = [run("after", key, 2), run(None, key, 2)]
print(json.dumps(exits))
"""


def snapshots(catalog: SqlCatalog, table: str) -> int:
    try:
        return len(catalog.load_table(("default", table)).snapshots())
    except Exception:  # the table has not been made
        return 0


@pytest.fixture(params=[pytest.param("disk", marks=pytest.mark.long), "store"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Options of tables whose catalog is on disk, and whose files are there or on a store."""
    (tmp_path / "lake").mkdir()
    if request.param == "disk":
        return {"warehouse": str(tmp_path / "lake")}
    server = request.getfixturevalue("object_server")
    return {
        "warehouse": f"s3://bkt/{request.node.name.partition('[')[0]}",
        "uri": f"sqlite:///{tmp_path}/lake/catalog.db",
        "s3.endpoint": server["AWS_ENDPOINT_URL"],
        "s3.access-key-id": server["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": server["AWS_SECRET_ACCESS_KEY"],
        "s3.region": "us-east-1",
    }


def stored(catalog: SqlCatalog, table: str) -> list[tuple[object, ...]]:
    """The rows of a table as the library itself reads them."""
    data = catalog.load_table(("default", table)).scan().to_arrow()
    return sorted(pl.DataFrame(pl.from_arrow(data)).rows(), key=repr)


def test_a_process_that_is_killed_before_each_object_of_a_commit(lake: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STEPS, json.dumps(lake)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-4000:]
    exits = json.loads(done.stdout)
    for key in ("[]", "['k']"):
        assert exits[f"begin {key}"] == [0] and exits[f"after {key}"] == [-signal.SIGKILL, 0]
        *kills, last = exits[f"each step {key}"]
        assert set(kills) == {-signal.SIGKILL} and last == 0
        assert len(kills) >= 4, "rows, a manifest, the list of manifests, and metadata"
    plain = [row for epoch in range(3) for row in ((1, f"v{epoch}"), (2 + epoch, "new"))]
    catalog = SqlCatalog("default", **{"uri": f"sqlite:///{tmp_path}/lake/catalog.db", **lake})
    assert stored(catalog, "plain") == sorted(plain, key=repr)
    assert stored(catalog, "keyed") == [(1, "v2"), (2, "new"), (3, "new"), (4, "new")]


@pytest.mark.spark
@pytest.mark.long
def test_kills_around_commits(lake: dict[str, str], tmp_path: Path) -> None:
    folder, dice = tmp_path / "lake", random.Random(1)
    catalog = SqlCatalog("default", **{"uri": f"sqlite:///{folder}/catalog.db", **lake})
    for k in range(ROWS):
        append(folder, (k, f"v{k % 3}"), table="src", lake=catalog)
    expected_counts = [(f"v{i}", ROWS // 3) for i in range(3)]
    for kill in range(KILLS + 1):
        before = snapshots(catalog, "plain")
        with (tmp_path / "log").open("ab") as log:
            command = [sys.executable, "-c", JOB, str(tmp_path), json.dumps(lake)]
            process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 120
        try:
            while process.poll() is None and time.monotonic() < deadline:
                if kill < KILLS and snapshots(catalog, "plain") > before + dice.randrange(2):
                    time.sleep(dice.random() * 0.3)
                    break
                if kill == KILLS and snapshots(catalog, "counts") and stored(catalog, "counts") == expected_counts:
                    break
                time.sleep(0.01)
            assert process.poll() is None, (tmp_path / "log").read_text()[-4000:]
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        rows = stored(catalog, "plain")
        assert len(rows) == len(set(rows))
    assert stored(catalog, "plain") == sorted([(k, f"v{k % 3}") for k in range(ROWS)], key=repr)
    assert stored(catalog, "counts") == expected_counts


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
