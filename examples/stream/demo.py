"""``make demo-stream``: orders from Kafka, products from PostgreSQL with their changes, statistics into PostgreSQL.

Starts a broker and a database from packages, runs example 1 of FLIP-292 over them, and edits a TTL while the job runs.
Each command is printed as a user would type it in the folder of the project.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from examples.demo import STATEPLAN, edit, heading, say, stateplan, table
from examples.stream.servers import TABLES, running, variables
from tests.support.postgres import PASSWORD, Database

OUT = Path("examples/out/stream")
PLAN, CHECKPOINT, LOG = OUT / "plan.json", OUT / "checkpoint", OUT / "job.log"

COLUMNS = ("product_id", "name", "buyers", "orders", "items")
STATS = "SELECT product_id, name, buyers, orders, items FROM product_stats ORDER BY product_id"

Order = tuple[int, int, int, int]
"""Order, user, product, number of items."""

FIRST: list[Order] = [(1, 10, 1, 2), (2, 11, 1, 1), (3, 10, 2, 5), (1, 10, 1, 2)]
"""Order 1 is delivered twice."""

SHORT = 3
"""Seconds of the TTL that the job gets while it runs."""


def sql(database: Database, statement: str) -> None:
    """Runs a statement in PostgreSQL after printing it."""
    print(f"\n$ psql shop -c {shlex.quote(statement)}", flush=True)
    database.execute(statement)


def rows_of(database: Database) -> list[tuple[Any, ...]]:
    return database.rows(STATS)


class Demo:
    """The job and what it reads and writes."""

    def __init__(self, stack: ExitStack) -> None:
        say("Starting a Kafka broker (noida-db) and PostgreSQL 18, both from packages.")
        self.broker, self.shop = stack.enter_context(running())
        os.environ |= variables(self.broker, self.shop)
        say(f"Kafka: {self.broker.servers}    PostgreSQL: {self.shop.server.host}:{self.shop.server.port}")
        for statement in TABLES:
            sql(self.shop, statement)
        self._stack = stack

    def send(self, orders: Sequence[Order]) -> None:
        """Produces orders, those of one order to one partition."""
        names = ("order_id", "user_id", "product_id", "num")
        texts = [json.dumps(dict(zip(names, order, strict=True))) for order in orders]
        print("\n$ kcat -P -t orders <<END", *texts, "END", sep="\n", flush=True)
        for order, text in zip(orders, texts, strict=True):
            self.broker.produce("orders", [text], partition=order[0] % 2)

    def start(self) -> None:
        """Starts the job in the background."""
        arguments = ["plan", "execute", str(PLAN), "-D", f"execution.checkpointing.dir={CHECKPOINT}"]
        print(f"\n$ stateplan {shlex.join(arguments)} &", flush=True)
        with LOG.open("ab") as log:
            self.job = subprocess.Popen([*STATEPLAN, *arguments], stdout=log, stderr=log)
        self._stack.callback(self.stop)

    def stop(self) -> None:
        """Stops the job as Ctrl-C does."""
        if self.job.poll() is None:
            self.job.send_signal(signal.SIGINT)
            self.job.wait(120)

    def expect(self, what: str, wanted: Sequence[tuple[Any, ...]], seconds: float = 120) -> None:
        """Waits until PostgreSQL has the rows, and shows them; ends the demonstration when it does not get them."""
        self.wait(lambda: rows_of(self.shop) == list(wanted), seconds)
        print(f"\n$ psql shop -c {shlex.quote(STATS)}")
        table(COLUMNS, rows_of(self.shop))
        if rows_of(self.shop) != list(wanted):
            say("Expected:")
            table(COLUMNS, wanted)
            sys.exit(f"demo: {what}: the rows are not as predicted. The log of the job is {LOG}.")
        say(f"OK: {what}.")

    def wait(self, reached: Callable[[], bool], seconds: float) -> None:
        """Waits until something is reached, the time is over, or the job has ended."""
        until = time.monotonic() + seconds
        while not reached() and time.monotonic() < until:
            if self.job.poll() is not None:
                sys.exit(f"demo: the job has ended: {LOG.read_text()[-2000:]}")
            time.sleep(0.2)


def main() -> None:
    began = time.monotonic()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    with ExitStack() as stack:
        heading("Orders from Kafka, products from PostgreSQL, statistics into PostgreSQL")
        demo = Demo(stack)
        script = "examples/stream/product_stats.sql"
        stateplan("plan", "compile", "-i", "examples/stream/tables.sql", "-f", script, "-o", str(PLAN))
        stateplan("plan", "explain", str(PLAN))
        edit(PLAN, {"deduplicateState": "1 h", "groupAggregateState": "24 h"})
        if PASSWORD in PLAN.read_text():
            sys.exit("demo: the password is in the plan")

        heading("The job runs: each order counts once")
        demo.start()
        demo.send(FIRST)
        demo.expect("order 1 came twice and counts once", [(1, "pen", 2, 2, 3), (2, "ink", 1, 1, 5)])

        heading("A product gets another name: its row follows")
        sql(demo.shop, "UPDATE products SET name = 'fountain pen' WHERE product_id = 1")
        demo.expect("the row has the new name", [(1, "fountain pen", 2, 2, 3), (2, "ink", 1, 1, 5)])

        heading(f"The job goes on with another TTL: it forgets an order after {SHORT} seconds")
        stateplan("state", "set-ttl", str(CHECKPOINT), f"deduplicate={SHORT} s")
        demo.send([(4, 12, 3, 1)])
        demo.expect("a new order counts", [(1, "fountain pen", 2, 2, 3), (2, "ink", 1, 1, 5), (3, "paper", 1, 1, 1)])
        time.sleep(SHORT + 2)
        demo.send([(4, 12, 3, 1)])
        demo.expect(
            "order 4 was forgotten, so it counts again",
            [(1, "fountain pen", 2, 2, 3), (2, "ink", 1, 1, 5), (3, "paper", 1, 2, 2)],
        )

        heading("A stop and a start: the job continues where it was")
        print("\n^C", flush=True)
        demo.stop()
        demo.send([(5, 13, 2, 4)])
        demo.start()
        demo.expect(
            "what came meanwhile counts, and nothing counts twice",
            [(1, "fountain pen", 2, 2, 3), (2, "ink", 2, 2, 9), (3, "paper", 1, 2, 2)],
        )
        print("\n^C", flush=True)
        demo.stop()
        if PASSWORD in LOG.read_text():
            sys.exit("demo: the password is in the log of the job")
    say(f"All rows are as predicted. {time.monotonic() - began:.0f} s.")


if __name__ == "__main__":
    main()
