"""Changes of a PostgreSQL table, joined with a topic and written back and to Delta: while rows come, change and go, the
tables hold what the same SELECT gives in PostgreSQL."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable

from stateplan import TableEnvironment
from tests.support.kafka import Kafka
from tests.support.long_runs import LONG
from tests.support.postgres import PASSWORD, USER, Database
from tests.support.waiting import until

pytestmark = pytest.mark.spark

DEDUPLICATED = " ON CONFLICT DO DEDUPLICATE"

QUERIES = {
    # name: columns and primary key of the sinks, the SELECT, and what follows it in Flink's SQL only
    "joined": (
        "id BIGINT PRIMARY KEY, name TEXT, amount INT",
        "SELECT o.id, c.name, o.amount FROM orders AS o JOIN customers AS c ON o.customer = c.id",
        DEDUPLICATED,
    ),
    "bought": (
        "id BIGINT PRIMARY KEY, customer INT",
        "SELECT o.id, c.id FROM orders AS o LEFT JOIN customers AS c ON o.customer = c.id AND o.amount > c.tier * 10",
        DEDUPLICATED,
    ),
    "strangers": (
        "id BIGINT PRIMARY KEY",
        "SELECT o.id FROM orders AS o WHERE NOT EXISTS (SELECT 1 FROM customers AS c WHERE c.id = o.customer)",
        DEDUPLICATED,
    ),
    "elsewhere": (
        "id BIGINT PRIMARY KEY",
        "SELECT id FROM orders WHERE amount NOT IN (SELECT tier FROM customers WHERE id < 20)",
        DEDUPLICATED,
    ),
    "alike": (
        "id BIGINT PRIMARY KEY",
        "SELECT o.id FROM orders AS o "
        "WHERE EXISTS (SELECT 1 FROM customers AS c WHERE c.tier IS NOT DISTINCT FROM o.amount)",
        DEDUPLICATED,
    ),
    "cheapest": (
        "customer INT PRIMARY KEY, id BIGINT",
        "SELECT customer, id FROM (SELECT customer, id, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY amount, id) "
        "AS place FROM orders WHERE customer IS NOT NULL AND amount IS NOT NULL) AS t WHERE place = 1",
        "",
    ),
    "regions": (
        "region TEXT PRIMARY KEY, n BIGINT, total INT, most INT, buyers BIGINT",
        "SELECT c.region, COUNT(*), SUM(o.amount), MAX(o.amount), COUNT(DISTINCT o.customer) "
        "FROM orders AS o JOIN customers AS c ON o.customer = c.id WHERE c.region IS NOT NULL GROUP BY c.region",
        "",
    ),
    "best": (
        "region TEXT, place BIGINT, id INT, PRIMARY KEY (region, place)",
        "SELECT region, place, id FROM (SELECT region, id, ROW_NUMBER() OVER (PARTITION BY region "
        "ORDER BY tier DESC, id) AS place FROM customers WHERE region IS NOT NULL AND tier IS NOT NULL) AS t "
        "WHERE place <= 2",
        DEDUPLICATED,
    ),
    "newest": (
        "id INT PRIMARY KEY, name TEXT",
        "SELECT id, name FROM customers ORDER BY id DESC LIMIT 3",
        "",
    ),
    "tiers": (
        "tier INT PRIMARY KEY, lo INT, hi INT, least INT",
        "SELECT c.tier, MIN(c.id), MAX(c.id), MIN(COALESCE(o.amount, -1)) FROM customers AS c "
        "LEFT JOIN orders AS o ON o.customer = c.id WHERE c.tier IS NOT NULL GROUP BY c.tier",
        "",
    ),
    "sizes": (
        "n BIGINT PRIMARY KEY, regions BIGINT",
        "SELECT n, COUNT(*) FROM (SELECT region, COUNT(*) AS n FROM customers GROUP BY region) AS t GROUP BY n",
        "",
    ),
}


MODES = ("all", "upsert")


def queries_of(mode: str) -> list[str]:
    """All queries in a long run, else every second one: each is tried with one of the modes."""
    return list(QUERIES) if LONG else list(QUERIES)[MODES.index(mode) :: 2]


def declared(columns: str) -> str:
    """The columns of a sink as Flink's SQL has them."""
    return re.sub(r"PRIMARY KEY( \(.*\))?", r"\g<0> NOT ENFORCED", columns.replace("TEXT", "STRING"))


@dataclass
class Shop:
    """Customers in a database, and orders in it and in a topic.

    Attributes:
        random: says what happens.
    """

    database: Database
    kafka: Kafka
    topic: str
    random: random.Random
    customers: set[int] = field(default_factory=set)
    orders: int = 0

    def go_on(self, count: int) -> None:
        """So many things happen, in transactions of up to five."""
        statements = [statement for _ in range(count) for statement in self._one()]
        while statements:
            some = self.random.randint(1, 5)
            self.database.execute(*statements[:some])
            del statements[:some]

    def _one(self) -> Iterator[str]:
        kind, new = self.random.random(), self.random.randrange(1, 50)
        there = self.random.choice(sorted(self.customers)) if self.customers else None
        if kind < 0.35 and new not in self.customers:
            self.customers.add(new)
            yield f"INSERT INTO customers VALUES ({new}, {self._name()}, {self._region()}, {self._tier()})"
        elif kind < 0.55 and there is not None:
            column, value = self.random.choice(
                [("name", self._name()), ("region", self._region()), ("tier", self._tier())]
            )
            yield f"UPDATE customers SET {column} = {value} WHERE id = {there}"
        elif kind < 0.62 and there is not None and new not in self.customers:
            self.customers = self.customers - {there} | {new}
            yield f"UPDATE customers SET id = {new} WHERE id = {there}"
        elif kind < 0.7 and there is not None:
            self.customers.discard(there)
            yield f"DELETE FROM customers WHERE id = {there}"
        else:
            self.orders += 1
            customer, amount = self.random.choice([None, *range(1, 55)]), self.random.choice([None, *range(50)])
            row = {"id": self.orders, "customer": customer, "amount": amount}
            self.kafka.produce(self.topic, [json.dumps(row)], partition=self.orders % 2)
            yield f"INSERT INTO orders VALUES ({', '.join(map(json.dumps, row.values()))})"

    def _name(self) -> str:
        return self.random.choice(["'ann'", "'d''é'", "''", "NULL"])

    def _region(self) -> str:
        return self.random.choice(["'eu'", "'us'", "'as'", "NULL"])

    def _tier(self) -> str:
        return self.random.choice(["0", "1", "2", "NULL"])


def job(shop: Shop, folder: Path, mode: str) -> Any:
    """Starts the job, or goes on with it."""
    server, topic = shop.database.server, shop.topic
    session = TableEnvironment.create(
        {"execution.checkpointing.dir": f"{folder}/checkpoint", "parallelism.default": "2"}
    )
    session.execute_sql(
        "CREATE TABLE customers (id INT PRIMARY KEY NOT ENFORCED, name STRING, region STRING, tier INT) WITH ("
        f"'connector' = 'postgres-cdc', 'hostname' = '{server.host}', 'port' = '{server.port}', 'username' = '{USER}', "
        f"'password' = '{PASSWORD}', 'database-name' = '{shop.database.name}', 'schema-name' = 'public', "
        f"'table-name' = 'customers', 'slot.name' = '{shop.database.name}', 'changelog-mode' = '{mode}')"
    )
    session.execute_sql(
        "CREATE TABLE messages (id BIGINT, customer INT, amount INT, arrived AS PROCTIME()) WITH ("
        f"'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{shop.kafka.servers}', "
        "'format' = 'json', 'scan.startup.mode' = 'earliest-offset')"
    )
    session.execute_sql(
        "CREATE VIEW orders AS SELECT id, customer, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id "
        "ORDER BY arrived) AS n FROM messages) WHERE n = 1"
    )
    options = ", ".join(f"'{key}' = '{text}'" for key, text in shop.database.options.items())
    inserts = []
    for name in queries_of(mode):
        columns, query, more = QUERIES[name]
        places = {name: f"{options}, 'table-name' = '{name}'"}
        places[f"{name}_delta"] = f"'connector' = 'delta', 'table-path' = '{folder}/{name}'"
        for table, where in places.items():
            session.execute_sql(f"CREATE TABLE {table} ({declared(columns)}) WITH ({where})")
            inserts.append(f"INSERT INTO {table} {query}{more};")
    return session.execute_sql(f"EXECUTE STATEMENT SET BEGIN {' '.join(inserts)} END").job


def kept(path: Path) -> list[tuple[Any, ...]] | None:
    """The rows of a Delta table; None while there is none."""
    return pl.read_delta(str(path)).rows() if DeltaTable.is_deltatable(str(path)) else None


def ordered(rows: list[tuple[Any, ...]] | None) -> list[str] | None:
    return None if rows is None else sorted(map(repr, rows))


@pytest.mark.parametrize("mode", MODES)
def test_results_are_those_of_postgres(
    spark: object, kafka: Kafka, database: Database, tmp_path: Path, mode: str
) -> None:
    """``spark`` is there so that the job runs in the session of the tests."""
    database.execute(
        "CREATE TABLE customers (id INT PRIMARY KEY, name TEXT, region TEXT, tier INT)",
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer INT, amount INT)",
        *(["ALTER TABLE customers REPLICA IDENTITY FULL"] if mode == "all" else []),
        *(f"CREATE TABLE {name} ({columns})" for name, (columns, _, _) in QUERIES.items()),
    )
    shop = Shop(database, kafka, kafka.topic(2), random.Random(mode))
    tables: list[str] = []

    def same(name: str) -> bool:
        rows = ordered(database.rows(QUERIES[name][1]))
        return ordered(database.rows(f"SELECT * FROM {name}")) == ordered(kept(tmp_path / name)) == rows

    def all_same() -> bool:
        """A table that was not the same is looked at first the next time."""
        while tables and same(tables[-1]):
            tables.pop()
        return not tables and all(map(same, queries_of(mode)))

    shop.go_on(40)
    for _ in range(2):
        running = job(shop, tmp_path, mode)
        for count in (30, 60) if LONG else (60,):
            shop.go_on(count)
            tables = queries_of(mode)
            until(lambda job=running: all_same() or job.has_ended, 120)
            assert all(map(same, queries_of(mode))), running.error
        running.stop()
        shop.go_on(20)
