"""Kafka to PostgreSQL and to Kafka, while the job, the broker and the database are killed: is a row lost, or doubled?

    python -m benchmarks.chaos_servers [--kills 50] [--rows 2000] [--seed 1] [--keep FOLDER]

One job reads orders from Kafka and writes them exactly once three times: those with many items to a topic, the
statistics of each product to a table of PostgreSQL by ``jdbc``, and the same statistics to a topic by ``upsert-kafka``.
Orders are produced all the time, one in five of them twice. TTLs are changed in the plan file between runs, and live;
all of them are longer than the run, so that what the job must give follows from the orders alone. Every kill is at a
random moment:

- whole job: driver, JVM and Python workers, kill -9;
- Python worker: one or all of them, kill -9;
- driver alone: kill -9;
- commit: the whole job, while it writes to its sinks;
- start: the whole job, while it starts;
- broker: it stops and comes back after up to five seconds;
- database: it crashes and comes back after up to five seconds;
- connections: the database ends all connections.

The broker is ``noida-db``, which loses what it was told in the three seconds before a kill -9, so it is told to stop.
In the end, the topics are read with ``read_committed``. Linux only. Exit code 1 when a row is lost or doubled.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.chaos import batches, edit_plan, kill, kill_all, kill_some, start, wait_until
from benchmarks.harness import process_tree, run, work_folder
from stateplan.plans.live import set_live_ttls
from tests.support.kafka import Kafka
from tests.support.postgres import PASSWORD, USER, Database, Postgres
from tests.support.postgres import running as running_postgres

MINUTE = 60_000
SCRIPT = """
    CREATE TABLE orders (order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT, arrived AS PROCTIME()) WITH (
      'connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = '${env:KAFKA}',
      'properties.group.id' = 'chaos', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
    CREATE TABLE many (order_id BIGINT, num INT) WITH (
      'connector' = 'kafka', 'topic' = 'many', 'properties.bootstrap.servers' = '${env:KAFKA}',
      'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'many', 'format' = 'json');
    CREATE TABLE stats_table (product_id BIGINT, buyers BIGINT, orders BIGINT, items BIGINT,
      PRIMARY KEY (product_id) NOT ENFORCED) WITH (
      'connector' = 'jdbc', 'url' = '${env:DATABASE}', 'username' = '${env:PGUSER}', 'password' = '${env:PGPASSWORD}',
      'table-name' = 'stats');
    CREATE TABLE stats_topic (product_id BIGINT, buyers BIGINT, orders BIGINT, items BIGINT,
      PRIMARY KEY (product_id) NOT ENFORCED) WITH (
      'connector' = 'upsert-kafka', 'topic' = 'stats', 'properties.bootstrap.servers' = '${env:KAFKA}',
      'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'stats',
      'key.format' = 'json', 'value.format' = 'json');
    CREATE VIEW stats AS SELECT product_id, COUNT(DISTINCT user_id) AS buyers, COUNT(order_id) AS orders,
      SUM(CAST(num AS BIGINT)) AS items FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY arrived ASC) AS n FROM orders)
      WHERE n = 1 GROUP BY product_id;
    COMPILE PLAN '{folder}/plan.json' FOR STATEMENT SET BEGIN
      INSERT INTO many SELECT order_id, num FROM orders WHERE num > 4;
      INSERT INTO stats_table SELECT * FROM stats;
      INSERT INTO stats_topic SELECT * FROM stats;
    END;"""
STATES = ("deduplicate", "group-aggregate")
TTLS = tuple(hours * 60 * MINUTE for hours in (12, 24, 48, 0))
KINDS = {
    "whole job": 9,
    "Python worker": 9,
    "driver alone": 4,
    "commit": 9,
    "start": 4,
    "broker": 5,
    "database": 5,
    "connections": 5,
}
"""What is killed, and in how many of 50 kills."""

PARTITIONS = 4
PRODUCTS = 200


@dataclass
class Feed(threading.Thread):
    """Produces orders until it is told to stop, and remembers them.

    Attributes:
        broker: gets them.
        rows: orders a second.
        many: (order id, items) of the rows with many items, each as often as it was produced.
        first: the first row of each order.
    """

    broker: Kafka
    rows: int
    rng: random.Random
    many: Counter[tuple[int, int]] = field(default_factory=Counter)
    first: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    total: int = 0
    ends: threading.Event = field(default_factory=threading.Event)
    failed: list[BaseException] = field(default_factory=list)
    turn: threading.Lock = field(default_factory=threading.Lock)
    _made: Any = None

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.failed.append(error)

    def _run(self) -> None:
        recent: list[dict[str, int]] = []
        while not self.ends.is_set():
            with self.turn:
                producer = self._producer()
                for _ in range(max(1, self.rows // 10)):
                    again = bool(recent) and self.rng.random() < 0.2
                    row = self.rng.choice(recent) if again else self._order()
                    recent = [*recent[-500:], row]
                    self._note(row)
                    place = row["order_id"] % PARTITIONS
                    producer.produce("orders", json.dumps(row).encode(), partition=place, on_delivery=self._delivered)
                assert producer.flush(60) == 0, "orders could not be produced"
            time.sleep(0.1)

    def _producer(self) -> Any:
        from confluent_kafka import Producer

        if self._made is None:
            self._made = Producer({"bootstrap.servers": self.broker.servers, "log_level": 0, "linger.ms": 0})
        return self._made

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Within the block nothing is produced, and everything before it has arrived: the broker forgets, when it
        stops, which rows an idempotent producer has sent."""
        with self.turn:
            self._made = None
            yield

    def _order(self) -> dict[str, int]:
        number = len(self.first)
        return {
            "order_id": number,
            "user_id": self.rng.randrange(500),
            "product_id": self.rng.randrange(PRODUCTS),
            "num": self.rng.randint(1, 9),
        }

    def _note(self, row: dict[str, int]) -> None:
        self.total += 1
        self.first.setdefault(row["order_id"], (row["product_id"], row["user_id"], row["num"]))
        if row["num"] > 4:
            self.many[row["order_id"], row["num"]] += 1

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(RuntimeError(str(error)))

    def stats(self) -> dict[int, tuple[int, int, int]]:
        """Product -> buyers, orders and items."""
        buyers: dict[int, set[int]] = {}
        orders: Counter[int] = Counter()
        items: Counter[int] = Counter()
        for product, user, num in self.first.values():
            buyers.setdefault(product, set()).add(user)
            orders[product] += 1
            items[product] += num
        return {product: (len(buyers[product]), orders[product], items[product]) for product in orders}


@dataclass
class Storm:
    """The job, and what is done to it.

    Attributes:
        folder: with the plan, the checkpoint and the log of all starts.
        kills: how many.
    """

    folder: Path
    kills: int
    rng: random.Random
    broker: Kafka
    server: Postgres
    database: Database
    feed: Feed
    done: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self) -> subprocess.Popen[bytes]:
        if self.starts and self.rng.random() < 0.3:
            edit_plan(self.folder / "plan.json", {self.rng.choice(STATES): self.rng.choice(TTLS)})
        self.starts += 1
        options = {
            "execution.checkpointing.dir": str(self.checkpoint),
            "execution.checkpointing.interval": "500 ms",
            "parallelism.default": str(self.rng.choice((1, 2, 2, 3)) if self.starts > 1 else 2),
        }
        pairs = [text for key, value in options.items() for text in ("-D", f"{key}={value}")]
        return start(["plan", "execute", str(self.folder / "plan.json"), *pairs], self.log)

    def run(self) -> None:
        todo = [kind for kind, share in KINDS.items() for _ in range(round(share * self.kills / 50))]
        todo += self.rng.choices(list(KINDS), list(KINDS.values()), k=max(0, self.kills - len(todo)))
        self.rng.shuffle(todo)
        process = self.start()
        for kind in todo[: self.kills]:
            while True:
                if self.feed.failed:
                    raise SystemExit(f"orders could not be produced: {self.feed.failed[0]}")
                if process.poll() is not None:
                    self._require(process)
                    process = self.start()
                if self._strike(process, kind):
                    break
            self.done[kind] += 1
            begun, done = batches(self.checkpoint, "offsets"), batches(self.checkpoint, "commits")
            told = f"{sum(self.done.values()):3} {kind:14} micro-batches {done} done, {begun - done} in hand"
            print(told, file=sys.stderr, flush=True)
        self.feed.ends.set()
        self.feed.join()
        self._finish(process)

    def _finish(self, process: subprocess.Popen[bytes]) -> None:
        """Lets the job read to the end, and stops it."""
        deadline = time.monotonic() + 300
        while sum(self._read().values()) < self.feed.total:
            if process.poll() is not None:
                self._require(process)
                process = self.start()
            if time.monotonic() > deadline:
                kill_all(process)
                raise SystemExit(f"the job has read {sum(self._read().values())} of {self.feed.total} orders")
            time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.wait(120)

    def _read(self) -> dict[str, int]:
        """Partition -> offset, up to which the last micro-batch that is done has read."""
        done = batches(self.checkpoint, "commits")
        path = self.checkpoint / "spark" / "offsets" / str(done - 1)
        with contextlib.suppress(OSError, ValueError):
            for line in path.read_text().splitlines()[2:]:
                found = json.loads(line)
                if isinstance(found, dict) and "offsets" in found:
                    topics = found["offsets"]
                    return {str(k): int(v) for k, v in topics["orders"].items()}
        return {}

    def _require(self, process: subprocess.Popen[bytes]) -> None:
        """The job has ended: it was killed, or what it needs was away for too long, which it has to say."""
        if process.returncode in (0, -signal.SIGKILL):
            return
        text = self.log.read_text(errors="replace")[-3000:]
        code = text.rpartition("[")[2].partition("]")[0]
        # RUN001 has no cause that the job understands: a worker that was killed more often than a task is tried.
        expected = (
            code[:3] in ("RUN", "DAT", "OPT") if code != "RUN001" else self.failures[code] <= self.done["Python worker"]
        )
        if process.returncode != 1 or "Traceback" in text or not expected:
            raise SystemExit(f"the job ended with code {process.returncode}:\n{text}")
        self.failures[code] += 1

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
            set_live_ttls(self.checkpoint, {self.rng.choice(STATES): self.rng.choice(TTLS)})
        time.sleep(self.rng.random() * 2)
        if process.poll() is not None:
            return False
        if kind == "commit":
            return wait_until(process, self._writes, 60, 0) and kill_all(process)
        if kind == "whole job":
            return kill_all(process)
        if kind == "driver alone":
            hit = kill(process.pid)
            process.wait()
            return hit
        if kind == "Python worker":
            hit = kill_some(process_tree(process.pid), "pyspark.daemon", self.rng)
        elif kind == "connections":
            hit = self.database.terminate(f"pid <> pg_backend_pid() AND usename = '{USER}'") > 0
        else:
            hit = True
            self._bounce(kind)
        done = batches(self.checkpoint, "commits")
        wait_until(process, lambda: batches(self.checkpoint, "commits") > done, 30, 0.05)
        return hit

    def _bounce(self, kind: str) -> None:
        if kind == "database":
            self.server.stop(crash=True)
            time.sleep(self.rng.random() * 5)
            self.server.start()
            return
        with self.feed.paused():
            self.broker.stop()
            time.sleep(self.rng.random() * 5)
            self.broker.start()

    def _writes(self) -> bool:
        """Whether a micro-batch is through but for its sinks: its state is written, and it is not done."""
        begun, done = batches(self.checkpoint, "offsets"), batches(self.checkpoint, "commits")
        deltas = (self.checkpoint / "spark" / "state").glob(f"*/*/{begun}[._]*changelog")
        return begun > done and next(deltas, None) is not None

    # ---- what came of it ---------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """What is lost, doubled or wrong."""
        many: Counter[tuple[int, int]] = Counter()
        for message in self.broker.consume("many"):
            row = json.loads(message.value())
            many[row["order_id"], row["num"]] += 1
        print(f"topic 'many': {many.total()} rows of {self.feed.many.total()}")
        for row, count in sorted((self.feed.many - many).items())[:5]:
            yield f"lost {count} times: {row}"
        for row, count in sorted((many - self.feed.many).items())[:5]:
            yield f"doubled {count} times: {row}"
        wanted = self.feed.stats()
        table = {row[0]: tuple(row[1:]) for row in self.database.rows("SELECT * FROM stats")}
        topic: dict[int, tuple[int, ...]] = {}
        for message in self.broker.consume("stats"):
            key = json.loads(message.key())["product_id"]
            value = message.value()
            if value is None:
                topic.pop(key, None)
            else:
                row = json.loads(value)
                topic[key] = (row["buyers"], row["orders"], row["items"])
        for name, found in (("table", table), ("topic", topic)):
            print(f"{name} 'stats': {len(found)} products of {len(wanted)}")
            wrong = [k for k in wanted.keys() | found.keys() if wanted.get(k) != found.get(k)]
            for key in sorted(wrong)[:5]:
                yield f"{name} 'stats', product {key}: {found.get(key)} instead of {wanted.get(key)}"


def compile_plan(folder: Path) -> None:
    from stateplan.planner.session.environment import TableEnvironment
    from stateplan.planner.session.script import read_script

    session = TableEnvironment.create()
    for statement in read_script(SCRIPT.replace("{folder}", str(folder))):
        session.execute_statement(statement)


def main(kills: int = 50, rows: int = 2000, seed: int = 1, keep: str = "") -> int:
    with contextlib.ExitStack() as stack:
        folder = Path(keep or stack.enter_context(work_folder("chaos-servers")))
        server = stack.enter_context(running_postgres())
        database = server.database()
        database.execute(
            "CREATE TABLE stats (product_id bigint PRIMARY KEY, buyers bigint, orders bigint, items bigint)"
        )
        broker = Kafka(folder / "broker")
        broker.start()
        stack.callback(broker.stop)
        for topic in ("orders", "many", "stats"):
            broker.topic(PARTITIONS, topic)
        os.environ |= {"KAFKA": broker.servers, "DATABASE": database.url, "PGUSER": USER, "PGPASSWORD": PASSWORD}
        compile_plan(folder)
        feed = Feed(broker, rows, random.Random(f"{seed}-orders"))
        feed.start()
        began = time.monotonic()
        storm = Storm(folder, kills, random.Random(seed), broker, server, database, feed)
        try:
            storm.run()
        finally:
            feed.ends.set()
        took = time.monotonic() - began
        if feed.failed:
            raise SystemExit(f"orders could not be produced: {feed.failed[0]}")
        print(f"{sum(storm.done.values())} kills in {took:.0f} s, {storm.starts} starts: {dict(storm.done)}")
        if storm.failures:
            print(f"the job ended by itself, to be started again: {dict(storm.failures)}")
        print(f"{feed.total} orders, {len(feed.first)} of them different")
        problems = list(storm.problems())
        secrets = [PASSWORD] if PASSWORD in storm.log.read_text(errors="replace") else []
        problems += ["the password is in the output of the job" for _ in secrets]
        print("\n".join(problems) or "no row is lost, none is doubled")
        return int(bool(problems))


if __name__ == "__main__":
    run(main, __doc__)
