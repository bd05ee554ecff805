"""A job from PostgreSQL to PostgreSQL that is killed in commits, and whose connections are ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.postgres import PASSWORD, Database

JOB = """
import os, signal, sys
from stateplan.connectors.jdbc import scan, sink
from stateplan.session.environment import TableEnvironment

checkpoint, url, how = sys.argv[1:]
commit, source_of = sink.JdbcSink._written, scan.source_of
left = {"log": 2, "totals": 2}

def small(table, server):
    made = source_of(table, server)
    made.batch_bytes = 1  # a range of the table in each micro-batch
    return made

def killing(self, frame, epoch):
    left[self.name] -= 1
    now = left[self.name] == 0 and how.endswith(self.name)
    if now and how.startswith("before"):
        os.killpg(0, signal.SIGKILL)
    if now and how.startswith("ended"):
        ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
        with self.server.connection() as other:
            sink.rows(other, ends + "AND datname = current_database()")
    commit(self, frame, epoch)
    if now and how.startswith("after"):
        os.killpg(0, signal.SIGKILL)

sink.JdbcSink._written, scan.source_of = killing, small
t = TableEnvironment.create({"pipeline.max-parallelism": "2", "execution.checkpointing.dir": checkpoint})

def create(name, columns, **more):
    options = {"connector": "jdbc", "url": url, "table-name": name, "username": "postgres",
               "password": "${env:DB_PASSWORD}", **more}
    pairs = ", ".join(f"'{k}' = '{v}'" for k, v in options.items())
    t.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ({pairs})")

create("entries", "id INT, product INT, amount BIGINT, p AS PROCTIME()", **{
    "scan.partition.column": "id", "scan.partition.num": "4",
    "scan.partition.lower-bound": "1", "scan.partition.upper-bound": "600"})
create("products", "id INT, name STRING", **{"lookup.cache": "PARTIAL", "lookup.partial-cache.max-rows": "100"})
create("log", "id INT, name STRING")
create("totals", "name STRING PRIMARY KEY NOT ENFORCED, n BIGINT, amount BIGINT")
t.execute_sql("CREATE VIEW named AS SELECT e.id, e.amount, n.name FROM entries AS e "
              "JOIN products FOR SYSTEM_TIME AS OF e.p AS n ON e.product = n.id")
both = t.create_statement_set()
both.add_insert_sql("INSERT INTO log SELECT id, name FROM named")
both.add_insert_sql("INSERT INTO totals SELECT name, COUNT(*), SUM(amount) FROM named GROUP BY name")
both.execute().wait()
"""


def run(database: Database, checkpoint: Path, how: str) -> tuple[int, str]:
    """Exit code and output of a job that is killed ``before`` or ``after`` a commit of a sink, or whose connections
    are ``ended`` in one."""
    done = subprocess.run(
        [sys.executable, "-c", JOB, str(checkpoint), database.url, how],
        cwd=ROOT,
        env={**os.environ, "DB_PASSWORD": PASSWORD},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.spark
@pytest.mark.long
def test_kills_in_commits(database: Database, tmp_path: Path) -> None:
    database.execute(
        "CREATE TABLE entries AS "
        "SELECT i AS id, i % 7 AS product, i::bigint AS amount FROM generate_series(1, 600) AS i",
        "CREATE TABLE products AS SELECT i AS id, 'p' || i AS name FROM generate_series(0, 6) AS i",
        "CREATE TABLE log (id int, name text)",
        "CREATE TABLE totals (name text PRIMARY KEY, n bigint, amount bigint)",
        "CREATE TABLE expected AS SELECT name, count(*) AS n, sum(amount)::bigint AS amount "
        "FROM entries JOIN products ON product = products.id GROUP BY name",
    )
    output = []
    for how, code in (("before log", -9), ("after totals", -9), ("ended log", 0)):
        found, text = run(database, tmp_path / "ck", how)
        output.append(text)
        assert found == code, text[-4000:]
        # What the table has by now is not what the job began to read.
        database.execute("DELETE FROM entries WHERE id % 2 = 0", "UPDATE entries SET amount = -1")
        assert database.rows("SELECT count(*) - count(DISTINCT id) FROM log") == [(0,)]
    assert database.rows("SELECT count(*), min(id), max(id) FROM log") == [(600, 1, 600)]
    assert database.rows("SELECT * FROM totals EXCEPT SELECT * FROM expected") == []
    assert database.rows("SELECT count(*) FROM totals") == [(7,)]
    assert PASSWORD not in "".join(output)
    for path in (tmp_path / "ck").rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes(), path
