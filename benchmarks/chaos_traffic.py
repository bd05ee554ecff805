"""What flows into the job of :mod:`benchmarks.chaos_servers`: orders into Kafka, and changes of a table of PostgreSQL.

Both threads run until they are told to stop. The run fails if one of them cannot write. Only changes that the database
did not take because it was killed are tried again.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from typing import Any

import adbc_driver_manager
import pyarrow as pa

from tests.support.kafka import Kafka
from tests.support.postgres import Database

PARTITIONS = 4
"""Of the topic with the orders."""

PRODUCTS, CATEGORIES = 1000, 8
TABLE = "CREATE TABLE products (product_id bigint PRIMARY KEY, category text NOT NULL, price bigint NOT NULL)"


class Traffic(threading.Thread, ABC):
    """Does one thing after another until it is told to stop.

    Attributes:
        turn: held while it does something, so that others can keep it waiting.
        failed: why it has ended too early.
    """

    def __init__(self, pause: float) -> None:
        super().__init__(daemon=True)
        self.turn = threading.Lock()
        self.failed: BaseException | None = None
        self._pause = pause
        self._ends = threading.Event()

    @abstractmethod
    def step(self) -> None:
        """Does one thing."""

    def run(self) -> None:
        try:
            while not self._ends.is_set():
                with self.turn:
                    self.step()
                self._ends.wait(self._pause)
        except BaseException as error:
            self.failed = error

    def finish(self) -> None:
        """Lets it end what it does.

        Raises:
            RuntimeError: it has failed.
        """
        self._ends.set()
        self.join()
        self.check()

    def check(self) -> None:
        """Raises RuntimeError if it has failed."""
        if self.failed is not None:
            raise RuntimeError(f"{type(self).__name__.lower()} cannot be written: {self.failed}") from self.failed


class Orders(Traffic):
    """Produces orders, one in five of them a second time, and remembers them.

    Args:
        broker: gets them.
        rows: orders a second.

    Attributes:
        many: (order id, items) of the rows with many items, each as often as it was produced.
        first: the first row of each order: order, user, product, items.
        total: rows produced.
    """

    def __init__(self, broker: Kafka, rows: int, rng: random.Random) -> None:
        super().__init__(0.1)
        self.broker = broker
        self.many: Counter[tuple[int, int]] = Counter()
        self.first: list[tuple[int, int, int, int]] = []
        self.total = 0
        self._rows = max(1, rows // 10)
        self._rng = rng
        self._recent: list[tuple[int, int, int, int]] = []
        self._made: Any = None
        self._refused: list[object] = []

    def step(self) -> None:
        producer = self._producer()
        for _ in range(self._rows):
            again = bool(self._recent) and self._rng.random() < 0.2
            row = self._rng.choice(self._recent) if again else self._order()
            self._recent = [*self._recent[-500:], row]
            self.total += 1
            if row[3] > 4:
                self.many[row[0], row[3]] += 1
            text = json.dumps(dict(zip(("order_id", "user_id", "product_id", "num"), row, strict=True)))
            producer.produce("orders", text.encode(), partition=row[0] % PARTITIONS, on_delivery=self._delivered)
        left = producer.flush(60)
        if left or self._refused:
            raise RuntimeError(str(self._refused[0]) if self._refused else f"{left} messages are not delivered")

    def _order(self) -> tuple[int, int, int, int]:
        rng = self._rng
        row = (len(self.first), rng.randrange(500), rng.randrange(PRODUCTS), rng.randint(1, 9))
        self.first.append(row)
        return row

    def _producer(self) -> Any:
        from confluent_kafka import Producer

        if self._made is None:
            self._made = Producer({"bootstrap.servers": self.broker.servers, "log_level": 0, "linger.ms": 0})
        return self._made

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._refused.append(error)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Within the block nothing is produced, and everything before it has arrived: the broker forgets, when it
        stops, which rows an idempotent producer has sent."""
        with self.turn:
            self._made = None
            yield

    def load(self, database: Database) -> None:
        """Writes the first row of each order into a table ``first_orders``."""
        database.execute(
            "CREATE TABLE first_orders (order_id bigint PRIMARY KEY, user_id bigint, product_id bigint, num bigint)"
        )
        columns = [pa.array(column, pa.int64()) for column in zip(*self.first, strict=True)]
        rows = pa.table(columns, names=["order_id", "user_id", "product_id", "num"])
        with database.connect() as connection, connection.cursor() as cursor:
            cursor.adbc_ingest("first_orders", rows, mode="append")
            connection.commit()


class Products(Traffic):
    """Inserts, updates and deletes products, a few in each transaction; some transactions are rolled back.

    Args:
        database: has the table.
        changes: transactions a second.

    Attributes:
        done: transactions that were committed.
    """

    def __init__(self, database: Database, changes: float, rng: random.Random) -> None:
        super().__init__(1 / changes)
        self.database = database
        self.done = 0
        self._rng = rng
        self._connection: Any = None
        database.execute(
            TABLE,
            "ALTER TABLE products REPLICA IDENTITY FULL",
            f"INSERT INTO products SELECT g, 'c' || g % {CATEGORIES}, g % 97 + 1 "
            f"FROM generate_series(0, {PRODUCTS * 3 // 4}) AS g",
        )

    def step(self) -> None:
        statements = [self._statement() for _ in range(self._rng.randint(1, 4))]
        until = time.monotonic() + 60
        while True:
            try:
                self._transaction(statements)
                return
            except adbc_driver_manager.Error:  # the database is away, or has ended the connection
                self._close()
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def finish(self) -> None:
        super().finish()
        self._close()

    def _transaction(self, statements: list[str]) -> None:
        if self._connection is None:
            self._connection = self.database.connect()
        with self._connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        if self._rng.random() < 0.1:
            self._connection.rollback()
        else:
            self._connection.commit()
            self.done += 1

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(adbc_driver_manager.Error):
                connection.close()

    def _statement(self) -> str:
        rng = self._rng
        key, other = rng.randrange(PRODUCTS), rng.randrange(PRODUCTS)
        row = f"({key}, 'c{rng.randrange(CATEGORIES)}', {rng.randint(1, 99)})"
        return rng.choice(
            (
                f"INSERT INTO products VALUES {row} ON CONFLICT (product_id) DO NOTHING",
                f"INSERT INTO products VALUES {row} ON CONFLICT (product_id) DO UPDATE SET price = EXCLUDED.price",
                f"UPDATE products SET price = price + 1 WHERE product_id BETWEEN {key} AND {key + 4}",
                f"UPDATE products SET category = 'c{rng.randrange(CATEGORIES)}' WHERE product_id = {key}",
                f"UPDATE products SET product_id = {key} WHERE product_id = {other} "
                f"AND NOT EXISTS (SELECT 1 FROM products WHERE product_id = {key})",
                f"DELETE FROM products WHERE product_id BETWEEN {key} AND {key + 2}",
            )
        )
