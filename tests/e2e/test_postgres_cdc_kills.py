"""Orders of Kafka joined with changes of PostgreSQL, upserted into PostgreSQL and into a Delta table, are what
PostgreSQL says of them, whatever was killed meanwhile."""

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
from deltalake.exceptions import TableNotFoundError

from tests.e2e.cdc_job import QUERY
from tests.support.delta import contents
from tests.support.kafka import Kafka
from tests.support.postgres import PASSWORD, USER, Database

ROOT = Path(__file__).resolve().parents[2]


def prepare(database: Database) -> None:
    database.execute(
        "CREATE TABLE orders (id int, customer int, product int, amount bigint)",
        "CREATE TABLE customers (id int PRIMARY KEY, region text)",
        'CREATE TABLE products (id int PRIMARY KEY, kind text, price bigint, note text COLLATE "C")',
        "ALTER TABLE products REPLICA IDENTITY FULL",
        "CREATE TABLE upserted (region text, kind text, n bigint, total bigint, note text, PRIMARY KEY (region, kind))",
        "INSERT INTO customers SELECT g, 'r' || g % 4 FROM generate_series(1, 40) AS g",
        "INSERT INTO products SELECT g, 'k' || g % 3, g % 17, 'n' || g FROM generate_series(1, 60) AS g",
    )


def change(database: Database, chance: random.Random) -> None:
    """One random transaction."""
    at, region, kind = chance.randint(1, 80), f"r{chance.randint(0, 5)}", f"k{chance.randint(0, 4)}"
    statements = (
        f"INSERT INTO products VALUES ({at}, '{kind}', {chance.randint(1, 99)}, 'i') "
        "ON CONFLICT (id) DO UPDATE SET price = products.price + 1",
        f"UPDATE products SET kind = '{kind}', note = note || 'x' WHERE id BETWEEN {at} AND {at + 5}",
        f"DELETE FROM products WHERE id BETWEEN {at} AND {at + 2}",
        f"UPDATE products SET id = {at} WHERE id = {at + 1} AND NOT EXISTS (SELECT 1 FROM products WHERE id = {at})",
        f"UPDATE customers SET region = '{region}' WHERE id = {at % 50}",
        f"DELETE FROM customers WHERE id = {at % 50}",
        f"INSERT INTO customers VALUES ({at % 50}, '{region}') ON CONFLICT (id) DO NOTHING",
    )
    database.execute(*chance.choices(statements, k=chance.randint(1, 4)))


def order(kafka: Kafka, topic: str, database: Database, first: int, count: int, chance: random.Random) -> None:
    """Orders, in Kafka and in a table."""
    rows = [
        (i, chance.randint(1, 50), chance.randint(1, 80), chance.randint(1, 9)) for i in range(first, first + count)
    ]
    names = ("id", "customer", "product", "amount")
    for partition in range(2):
        texts = [json.dumps(dict(zip(names, row, strict=True))) for row in rows[partition::2]]
        kafka.produce(topic, texts, partition=partition)
    database.execute(f"INSERT INTO orders VALUES {', '.join(map(str, rows))}")


@contextmanager
def running(kafka: Kafka, topic: str, database: Database, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A job with all its processes, which are killed at the end."""
    server = database.server
    command = [sys.executable, "-m", "tests.e2e.cdc_job", server.host, str(server.port), database.name, USER]
    with (folder / "log").open("a") as log:
        job = subprocess.Popen(
            [*command, kafka.servers, topic, str(folder)],
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


def changes(folder: Path) -> tuple[int, list[tuple[Any, ...]]]:
    """How many changes the job has written, and what they add up to."""
    left: Counter[tuple[Any, ...]] = Counter()
    count = 0
    for path in folder.joinpath("changes").glob("[!._]*"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            kind = row.pop("_op")
            left[tuple(row.values())] += 1 if kind in ("+I", "+U") else -1
            count += 1
    assert min(left.values(), default=0) >= 0, "a row was taken back that is not there"
    return count, sorted((+left).elements())


def merged(folder: Path) -> list[tuple[Any, ...]]:
    """The rows of the Delta table."""
    try:
        return sorted(contents(folder / "merged"))
    except TableNotFoundError:
        return []


def until(job: subprocess.Popen[str], folder: Path, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not done():
        assert job.poll() is None and time.monotonic() < deadline, folder.joinpath("log").read_text()[-5000:]
        time.sleep(0.2)


@pytest.mark.spark
@pytest.mark.long
def test_a_killed_join_of_changes_is_exact(kafka: Kafka, database: Database, tmp_path: Path) -> None:
    prepare(database)
    topic = kafka.topic(2)
    stop, turn, chance = threading.Event(), threading.Lock(), random.Random(19)
    order(kafka, topic, database, 0, 2000, chance)

    def write() -> None:
        rng, number = random.Random(20), 2000
        while not stop.is_set():
            with turn:
                change(database, rng)
                order(kafka, topic, database, number, 20, rng)
            number += 20
            time.sleep(0.1)

    def settle(job: subprocess.Popen[str]) -> None:
        expected = sorted(database.rows(QUERY))
        assert expected
        until(job, tmp_path, lambda: changes(tmp_path)[1] == expected)
        until(job, tmp_path, lambda: sorted(database.rows("SELECT * FROM upserted")) == expected)
        until(job, tmp_path, lambda: merged(tmp_path) == expected)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with running(kafka, topic, database, tmp_path) as job:
            until(job, tmp_path, lambda: changes(tmp_path)[0] > 0)
            assert database.terminate("application_name = 'stateplan'") >= 2
            with turn:
                settle(job)
            before = changes(tmp_path)[0]
            until(job, tmp_path, lambda: changes(tmp_path)[0] > before)
            time.sleep(chance.random())
        with running(kafka, topic, database, tmp_path) as job:
            stop.set()
            writer.join()
            settle(job)
            database.execute("UPDATE customers SET region = 'all'", "DELETE FROM products WHERE id % 2 = 0")
            settle(job)
    finally:
        stop.set()
        writer.join()
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert kept == []
