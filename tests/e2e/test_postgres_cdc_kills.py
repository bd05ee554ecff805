"""A join of changes of PostgreSQL is what PostgreSQL says of it, whatever was killed meanwhile."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.postgres import PASSWORD, USER, Database

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = """SELECT c.region, COUNT(*), SUM(o.amount)::bigint, MAX(o.note COLLATE "C")
FROM orders AS o JOIN customers AS c ON o.customer = c.id GROUP BY c.region"""


def prepare(database: Database) -> None:
    database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, customer int, amount bigint, note text)",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
        "CREATE TABLE customers (id int PRIMARY KEY, region text)",
        "INSERT INTO customers SELECT g, 'r' || g % 4 FROM generate_series(1, 40) AS g",
        "INSERT INTO orders SELECT g, g % 50, g % 17, 'n' || g FROM generate_series(1, 3000) AS g",
    )


def change(database: Database, chance: random.Random) -> None:
    """One random transaction."""
    at = chance.randint(1, 4000)
    statements = (
        f"INSERT INTO orders VALUES ({at}, {chance.randint(1, 50)}, {chance.randint(1, 99)}, 'i') "
        "ON CONFLICT (id) DO UPDATE SET amount = orders.amount + 1",
        f"UPDATE orders SET customer = {chance.randint(1, 50)}, note = note || 'x' WHERE id BETWEEN {at} AND {at + 20}",
        f"DELETE FROM orders WHERE id BETWEEN {at} AND {at + 9}",
        f"UPDATE orders SET id = {at} WHERE id = {at + 1} AND NOT EXISTS (SELECT 1 FROM orders WHERE id = {at})",
        f"UPDATE customers SET region = 'r{chance.randint(0, 5)}' WHERE id = {at % 40}",
        f"DELETE FROM customers WHERE id = {at % 40}",
        f"INSERT INTO customers VALUES ({at % 40}, 'r{at % 3}') ON CONFLICT (id) DO NOTHING",
    )
    database.execute(*chance.choices(statements, k=chance.randint(1, 4)))


@contextmanager
def running(database: Database, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A job with all its processes, which are killed at the end."""
    given = {
        "connector": "postgres-cdc",
        "hostname": database.server.host,
        "port": str(database.server.port),
        "username": USER,
        "password": "${env:CDC_PASSWORD}",
        "database-name": database.name,
        "schema-name": "public",
    }
    command = [sys.executable, "-m", "tests.support.cdc_job", json.dumps(given)]
    command += [str(folder / "checkpoint"), str(folder / "output")]
    with (folder / "log").open("a") as log:
        job = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "CDC_PASSWORD": PASSWORD},
            stdout=log,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        try:
            yield job
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()


def results(folder: Path) -> tuple[int, list[tuple[Any, ...]]]:
    """How many changes the job has written, and what they add up to."""
    left: Counter[tuple[Any, ...]] = Counter()
    count = 0
    for path in folder.joinpath("output").glob("[!._]*"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            kind = row.pop("_op")
            left[tuple(row.values())] += 1 if kind in ("+I", "+U") else -1
            count += 1
    assert min(left.values(), default=0) >= 0, "a row was taken back that is not there"
    return count, sorted((+left).elements())


def until(job: subprocess.Popen[str], folder: Path, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not done():
        assert job.poll() is None and time.monotonic() < deadline, folder.joinpath("log").read_text()[-5000:]
        time.sleep(0.2)


@pytest.mark.spark
def test_a_killed_join_of_changes_is_exact(database: Database, tmp_path: Path) -> None:
    prepare(database)
    stop, chance = threading.Event(), random.Random(19)

    def write() -> None:
        while not stop.is_set():
            change(database, chance)
            time.sleep(0.1)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with running(database, tmp_path) as job:
            until(job, tmp_path, lambda: results(tmp_path)[0] > 0)
            assert database.terminate("application_name = 'stateplan'") == 2
            before = results(tmp_path)[0]
            until(job, tmp_path, lambda: results(tmp_path)[0] > before)
            time.sleep(chance.random())
        with running(database, tmp_path) as job:
            stop.set()
            writer.join()
            expected = sorted(database.rows(EXPECTED))
            until(job, tmp_path, lambda: results(tmp_path)[1] == expected)
            database.execute("UPDATE customers SET region = 'all'", "DELETE FROM orders WHERE id % 2 = 0")
            expected = sorted(database.rows(EXPECTED))
            until(job, tmp_path, lambda: results(tmp_path)[1] == expected)
    finally:
        stop.set()
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert kept == []
