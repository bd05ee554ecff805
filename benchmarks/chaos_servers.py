"""Kafka and PostgreSQL to Kafka, PostgreSQL and Delta, while all of them are killed: is a row lost, or doubled?

    python -m benchmarks.chaos_servers [--kills 50] [--limit MINUTES] [--rows 500] [--changes 5] [--seed 1]
        [--keep FOLDER]

After ``--limit`` nothing more is killed; ``--keep`` works in a folder that stays.

One job reads orders from Kafka (``--rows`` a second, one in five of them twice) and the changes of a table of products
by ``postgres-cdc`` (``--changes`` transactions a second). It writes five sinks exactly once:

- orders with many items to a topic, by ``kafka``;
- the statistics of each product to a topic, by ``upsert-kafka``, and to a table, by ``jdbc``;
- the sales of each product, which are orders joined with products, to a table, by ``jdbc``, and to a Delta table.

TTLs are changed in the plan file between runs, and live; all of them are longer than the run, so that what the job must
give follows from the input alone. Every kill is at a random moment:

- whole job: driver, JVM and Python workers, kill -9;
- Python worker: one or all of them, kill -9;
- driver alone: kill -9;
- commit: the whole job, after it has written its state, or the commit to the Delta table, and before the micro-batch
  is done;
- start: the whole job, while it starts;
- broker: it stops, while no transaction has messages, and comes back after up to five seconds;
- frozen broker: it does not answer for up to five seconds, at any moment;
- database: it crashes and comes back after up to five seconds;
- connections: the database ends all connections.

The broker is ``noida-db``, which loses what it was told in the three seconds before a kill -9, so it is told to stop.
When it stops, it forgets the messages of open transactions, and yet commits such a transaction afterwards, without
them. So the job is frozen, between such transactions, until the broker has stopped.
In the end, the orders are loaded into a table of PostgreSQL. The topics, read with ``read_committed``, and the tables
must have what the same SELECT gives there. Linux only. Exit code 1 when a row is lost or doubled.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import psutil
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from benchmarks.chaos import WORKERS, batches, kill, kill_all, kill_some, require_hits, start, wait_until
from benchmarks.chaos_jobs import MINUTE, edit_plan
from benchmarks.chaos_traffic import PARTITIONS, Orders, Products
from benchmarks.harness import process_tree, run, work_folder
from stateplan.common.ttl import format_ttl
from stateplan.plans.live import set_live_ttls
from tests.support.kafka import Kafka
from tests.support.postgres import PASSWORD, USER, Database, Postgres
from tests.support.postgres import running as running_postgres

Row: TypeAlias = tuple[Any, ...]

STATS = """SELECT product_id, COUNT(DISTINCT user_id) AS buyers, COUNT(order_id) AS orders,
    CAST(SUM(num) AS BIGINT) AS items FROM first_orders GROUP BY product_id"""
SALES = """SELECT p.product_id, p.category, COUNT(*) AS orders, CAST(SUM(o.num) AS BIGINT) AS items,
    CAST(SUM(o.num * p.price) AS BIGINT) AS revenue
  FROM first_orders AS o JOIN products AS p ON o.product_id = p.product_id GROUP BY p.product_id, p.category"""
"""Both run here and in PostgreSQL."""

COUNTS = "product_id BIGINT, buyers BIGINT, orders BIGINT, items BIGINT"
_SOLD = "product_id BIGINT, category STRING, orders BIGINT, items BIGINT, revenue BIGINT"
ON_KAFKA = "'properties.bootstrap.servers' = '${env:KAFKA}'"
_EXACT = "'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix'"
LOGIN = "'username' = '${env:PGUSER}', 'password' = '${env:PGPASSWORD}'"
_JDBC = f"'connector' = 'jdbc', 'url' = '${{env:DATABASE}}', {LOGIN}, 'table-name'"
SCRIPT = f"""
    CREATE TABLE orders (order_id BIGINT, user_id BIGINT, product_id BIGINT, num BIGINT, arrived AS PROCTIME()) WITH (
      'connector' = 'kafka', 'topic' = 'orders', {ON_KAFKA}, 'properties.group.id' = 'chaos',
      'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
    CREATE TABLE products (product_id BIGINT, category STRING, price BIGINT, PRIMARY KEY (product_id) NOT ENFORCED)
      WITH ('connector' = 'postgres-cdc', 'hostname' = '${{env:PGHOST}}', 'port' = '${{env:PGPORT}}', {LOGIN},
      'database-name' = '${{env:PGDATABASE}}', 'schema-name' = 'public', 'table-name' = 'products',
      'slot.name' = 'chaos');
    CREATE TABLE many (order_id BIGINT, num BIGINT) WITH (
      'connector' = 'kafka', 'topic' = 'many', {ON_KAFKA}, {_EXACT} = 'many', 'format' = 'json');
    CREATE TABLE stats_table ({COUNTS}, PRIMARY KEY (product_id) NOT ENFORCED) WITH ({_JDBC} = 'stats');
    CREATE TABLE stats_topic ({COUNTS}, PRIMARY KEY (product_id) NOT ENFORCED) WITH (
      'connector' = 'upsert-kafka', 'topic' = 'stats', {ON_KAFKA}, {_EXACT} = 'stats',
      'key.format' = 'json', 'value.format' = 'json');
    CREATE TABLE sales_table ({_SOLD}, PRIMARY KEY (product_id, category) NOT ENFORCED) WITH ({_JDBC} = 'sales');
    CREATE TABLE sales_delta ({_SOLD}, PRIMARY KEY (product_id, category) NOT ENFORCED) WITH (
      'connector' = 'delta', 'table-path' = '{{folder}}/sales');
    CREATE VIEW first_orders AS SELECT * FROM (
      SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY arrived ASC) AS n FROM orders) WHERE n = 1;
    CREATE VIEW stats AS {STATS};
    CREATE VIEW sales AS {SALES};
    COMPILE PLAN '{{folder}}/plan.json' FOR STATEMENT SET BEGIN
      INSERT INTO many SELECT order_id, num FROM orders WHERE num > 4;
      INSERT INTO stats_table SELECT * FROM stats;
      INSERT INTO sales_delta SELECT * FROM sales;
      INSERT INTO sales_table SELECT * FROM sales;
      INSERT INTO stats_topic SELECT * FROM stats;
    END;"""
STATES = ("deduplicate[*]", "group-aggregate[*]", "join.left", "join.right")
TTLS = tuple(hours * 60 * MINUTE for hours in (12, 24, 48, 0))
KINDS = {
    "whole job": 9,
    "Python worker": 9,
    "driver alone": 4,
    "commit": 9,
    "start": 4,
    "broker": 4,
    "frozen broker": 3,
    "database": 4,
    "connections": 4,
}
"""What is killed, and in how many of 50 kills."""


@dataclass
class Storm:
    """The job, and what is done to it.

    Attributes:
        script: what compiles ``{folder}/plan.json``.
        states: what is given TTLs, as selectors.
        folder: with the plan, the checkpoint, the Delta table and the log of all starts.
        kills: how many.
        limit: the minutes after which nothing more is killed.
    """

    script: ClassVar[str] = SCRIPT
    states: ClassVar[tuple[str, ...]] = STATES

    folder: Path
    kills: int
    limit: float
    rng: random.Random
    broker: Kafka
    server: Postgres
    database: Database
    orders: Orders
    products: Products
    done: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    process: subprocess.Popen[bytes] | None = None

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self) -> subprocess.Popen[bytes]:
        if self.starts and self.rng.random() < 0.3:
            edit_plan(self.folder / "plan.json", {self.rng.choice(self.states): self.rng.choice(TTLS)})
        self.starts += 1
        options = {
            "execution.checkpointing.dir": str(self.checkpoint),
            "execution.checkpointing.interval": "500 ms",
            "parallelism.default": str(self.rng.choice((1, 2, 2, 3)) if self.starts > 1 else 2),
        }
        pairs = [text for key, value in options.items() for text in ("-D", f"{key}={value}")]
        self.process = start(["plan", "execute", str(self.folder / "plan.json"), *pairs], self.log)
        return self.process

    def run(self) -> None:
        todo = [kind for kind, share in KINDS.items() for _ in range(round(share * self.kills / 50))]
        todo += self.rng.choices(list(KINDS), list(KINDS.values()), k=max(0, self.kills - len(todo)))
        self.rng.shuffle(todo)
        process = self.start()
        until = time.monotonic() + 60 * self.limit
        for kind in todo[: self.kills]:
            misses = 0
            while time.monotonic() < until:
                self.orders.check()
                self.products.check()
                if process.poll() is not None:
                    self._require(process)
                    process = self.start()
                if self._strike(process, kind):
                    break
                if process.poll() is None:
                    misses += 1
                    require_hits(kind, misses)
            else:
                break
            self.done[kind] += 1
            begun, done = batches(self.checkpoint, "offsets"), batches(self.checkpoint, "commits")
            told = f"{sum(self.done.values()):3} {kind:14} micro-batches {done} done, {begun - done} in hand"
            print(told, file=sys.stderr, flush=True)
        self.orders.finish()
        self.products.finish()
        self._finish(process)

    def _finish(self, process: subprocess.Popen[bytes]) -> None:
        """Lets the job read to the end, and stops it."""
        self.orders.load(self.database)
        deadline = time.monotonic() + 600
        while self._read() < self.orders.total or not self.has_all_changes():
            if process.poll() is not None:
                self._require(process)
                process = self.start()
            if time.monotonic() > deadline:
                print(f"the job has read {self._read()} of {self.orders.total} orders, and not all changes")
                break
            time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.wait(120)

    def has_all_changes(self) -> bool:
        """Whether the sinks have what follows from all changes of products."""
        return sorted(self.database.rows("SELECT * FROM sales")) == sorted(self.database.rows(SALES))

    def _read(self) -> int:
        """How many orders the micro-batches have read that are done."""
        done = batches(self.checkpoint, "commits")
        path = self.checkpoint / "spark" / "offsets" / str(done - 1)
        with contextlib.suppress(OSError, ValueError):
            for line in path.read_text().splitlines()[2:]:
                found = json.loads(line)
                if isinstance(found, dict) and "offsets" in found:
                    return sum(int(offset) for offset in found["offsets"]["orders"].values())
        return 0

    def _require(self, process: subprocess.Popen[bytes]) -> None:
        """The job has ended: it was killed, or what it needs was away for too long, which it has to say."""
        if process.returncode in (0, -signal.SIGKILL):
            return
        text = self.log.read_text(errors="replace")[-3000:]
        code = ["", *re.findall(r"error: \[([A-Z]+\d+)\]", text)][-1]
        # RUN001 has no cause that the job understands: a worker that was killed more often than a task is tried.
        expected = (
            code[:3] in ("RUN", "DAT", "OPT") if code != "RUN001" else self.failures[code] <= self.done["Python worker"]
        )
        if process.returncode != 1 or "Traceback" in text or not expected:
            raise SystemExit(f"the job ended with code {process.returncode}:\n{text}")
        self.failures[code] += 1
        said = ["", *re.findall(r"error: (\[.*)", text)][-1]
        print(f"    the job ended: {said:.300}", file=sys.stderr, flush=True)

    def _strike(self, process: subprocess.Popen[bytes], kind: str) -> bool:
        """Waits for a moment, and kills; False when the job ended before."""
        if kind == "start":
            kill_all(process)
            again = self.start()
            time.sleep(self.rng.random() * 6)
            return kill_all(again)
        begun = batches(self.checkpoint, "offsets")
        if not wait_until(process, lambda: batches(self.checkpoint, "offsets") > begun, 120, 0.01):
            return False
        if self.rng.random() < 0.3:
            set_live_ttls(self.checkpoint, {self.rng.choice(self.states): format_ttl(self.rng.choice(TTLS))})
        time.sleep(self.rng.random() * 2)
        if process.poll() is not None:
            return False
        if kind == "commit":
            versions = self.versions() if self.rng.random() < 0.5 else -1
            return wait_until(process, lambda: self._writes(versions), 60, 0) and kill_all(process)
        if kind == "whole job":
            return kill_all(process)
        if kind == "driver alone":
            hit = kill(process.pid)
            process.wait()
            return hit
        if kind == "Python worker":
            hit = kill_some(process_tree(process.pid), WORKERS, self.rng)
        elif kind == "connections":
            hit = self.database.terminate(f"pid <> pg_backend_pid() AND usename = '{USER}'") > 0
        elif kind == "database":
            hit = True
            self.server.stop(crash=True)
            time.sleep(self.rng.random() * 5)
            self.server.start()
        elif kind == "frozen broker":
            with self.broker.frozen():
                time.sleep(self.rng.random() * 5)
            hit = True
        else:
            hit = self._stop_broker(process)
        done = batches(self.checkpoint, "commits")
        wait_until(process, lambda: batches(self.checkpoint, "commits") > done, 30, 0.05)
        return hit

    def _stop_broker(self, process: subprocess.Popen[bytes]) -> bool:
        """Stops the broker while no transaction has messages, and starts it again; False when the job ended before."""
        with self.orders.paused():
            while not (stopped := self._stop_between(process)):
                if process.poll() is not None:
                    return False
                time.sleep(0.2)
            time.sleep(self.rng.random() * 5)
            self.broker.start()
        return stopped

    def _stop_between(self, process: subprocess.Popen[bytes]) -> bool:
        """Stops the broker unless a transaction may have messages. The job is frozen meanwhile."""
        job = process_tree(process.pid)
        try:
            for part in job:
                with contextlib.suppress(psutil.NoSuchProcess):
                    part.suspend()
            if self._writes(-1):
                return False
            self.broker.stop()
            return True
        finally:
            for part in job:
                with contextlib.suppress(psutil.NoSuchProcess):
                    part.resume()

    def _writes(self, versions: int) -> bool:
        """Whether a micro-batch has written its state, and the table of the lake has more ``versions`` than that, but
        the micro-batch is not done."""
        begun, done = batches(self.checkpoint, "offsets"), batches(self.checkpoint, "commits")
        deltas = (self.checkpoint / "spark" / "state").glob(f"*/*/{begun}[._]*changelog")
        return begun > done and next(deltas, None) is not None and self.versions() > versions

    def versions(self) -> int:
        """How many versions the table of the lake has had."""
        return sum(1 for _ in (self.folder / "sales" / "_delta_log").glob("*.json"))

    # ---- what came of it ---------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """What is lost, doubled or wrong."""
        many: Counter[tuple[int, int]] = Counter()
        for message in self.broker.consume("many"):
            row = json.loads(message.value() or b"")
            many[row["order_id"], row["num"]] += 1
        yield from self.counted("`many`", many)
        stats, sales = self.database.rows(STATS), self.database.rows(SALES)
        yield from self.compared("`stats` in Kafka", 1, stats, self._topic())
        yield from self.compared("`stats` in PostgreSQL", 1, stats, self.database.rows("SELECT * FROM stats"))
        yield from self.compared("`sales` in PostgreSQL", 2, sales, self.database.rows("SELECT * FROM sales"))
        yield from self.compared("`sales` in Delta", 2, sales, self._delta())

    def counted(self, name: str, many: Counter[tuple[int, int]]) -> Iterator[str]:
        """Prints a line of the table for orders with many items; what is wrong of them."""
        wanted = self.orders.many
        lost, doubled = wanted - many, many - wanted
        print(f"| {name} | {wanted.total():,} | {many.total():,} | {lost.total():,} | {doubled.total():,} |")
        for what, rows in (("lost", lost), ("doubled", doubled)):
            for row, count in sorted(rows.items())[:5]:
                yield f"{name}, {what} {count} times: {row}"

    def compared(self, name: str, keys: int, wanted: list[Row], found: list[Row]) -> Iterator[str]:
        """Prints a line of the table; what is wrong of the rows, whose first ``keys`` values are their key."""
        expected, there = ({row[:keys]: row[keys:] for row in rows} for rows in (wanted, found))
        lost = expected.keys() - there.keys()
        more = len(found) - len(expected.keys() & there.keys())
        wrong = [key for key in expected.keys() | there.keys() if expected.get(key) != there.get(key)]
        print(f"| {name} | {len(wanted):,} | {len(found):,} | {len(lost):,} | {more + len(wrong) - len(lost):,} |")
        if len(found) > len(there):
            yield f"{name} has a key twice"
        for key in sorted(wrong)[:5]:
            yield f"{name}, {key}: {there.get(key)} instead of {expected.get(key)}"

    def _topic(self) -> list[Row]:
        rows: dict[int, Row] = {}
        for message in self.broker.consume("stats"):
            key = json.loads(message.key() or b"")["product_id"]
            value = message.value()
            rows.pop(key, None)
            if value is not None:
                rows[key] = tuple(json.loads(value)[name] for name in ("product_id", "buyers", "orders", "items"))
        return list(rows.values())

    def _delta(self) -> list[Row]:
        try:
            rows = pa.table(DeltaTable(str(self.folder / "sales")).scan()).to_pylist()
        except TableNotFoundError:
            return []
        return [tuple(row.values()) for row in rows]


def compile_plan(folder: Path, script: str) -> None:
    from stateplan.session.environment import TableEnvironment
    from stateplan.session.script import read_script

    session = TableEnvironment.create()
    for statement in read_script(script.replace("{folder}", str(folder))):
        session.execute_statement(statement)


def main(
    kills: int = 50, limit: float = float("inf"), rows: int = 500, changes: float = 5, seed: int = 1, keep: str = ""
) -> int:
    return play(Storm, kills, limit, rows, changes, seed, keep)


def play(storm_type: type[Storm], kills: int, limit: float, rows: int, changes: float, seed: int, keep: str) -> int:
    """Runs the job of a storm and its servers; 1 if a row is lost or doubled."""
    with contextlib.ExitStack() as stack:
        folder = Path(keep or stack.enter_context(work_folder("chaos-servers")))
        server = stack.enter_context(running_postgres())
        database = server.database()
        database.execute(
            "CREATE TABLE stats (product_id bigint PRIMARY KEY, buyers bigint, orders bigint, items bigint)",
            "CREATE TABLE sales (product_id bigint, category text, orders bigint, items bigint, revenue bigint, "
            "PRIMARY KEY (product_id, category))",
        )
        broker = Kafka(folder / "broker")
        broker.start()
        stack.callback(broker.stop)
        for topic in ("orders", "many", "stats"):
            broker.topic(PARTITIONS, topic)
        os.environ |= {"KAFKA": broker.servers, "DATABASE": database.url, "PGUSER": USER, "PGPASSWORD": PASSWORD}
        os.environ |= {"PGHOST": server.host, "PGPORT": str(server.port), "PGDATABASE": database.name}
        compile_plan(folder, storm_type.script)
        orders = Orders(broker, rows, random.Random(f"{seed}-orders"))
        products = Products(database, changes, random.Random(f"{seed}-products"))
        orders.start()
        products.start()
        began = time.monotonic()
        storm = storm_type(folder, kills, limit, random.Random(seed), broker, server, database, orders, products)
        try:
            storm.run()
        finally:
            if storm.process is not None:
                kill_all(storm.process)
        took = time.monotonic() - began
        print(f"{sum(storm.done.values())} kills in {took / 60:.1f} minutes: {dict(storm.done)}")
        print(f"{storm.starts} starts, {batches(storm.checkpoint, 'commits')} micro-batches")
        if storm.failures:
            print(f"the job ended by itself, to be started again: {dict(storm.failures)}")
        print(
            f"{orders.total:,} orders, {len(orders.first):,} of them different; {products.done:,} changes of products"
        )
        print("\n| sink | rows expected | rows found | lost | doubled or wrong |\n|---|--:|--:|--:|--:|")
        problems = list(storm.problems())
        if PASSWORD in storm.log.read_text(errors="replace"):
            problems.append("the password is in the output of the job")
        print("\n" + ("\n".join(problems) or "no row is lost, none is doubled"))
        return int(bool(problems))


if __name__ == "__main__":
    run(main, __doc__)
