"""Starts a broker and PostgreSQL from packages, for the tutorial and the demonstration, until Ctrl-C.

Run as ``python -m examples.stream.servers FILE``. The file gets the variables that the tables refer to.
"""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.kafka import Kafka
from tests.support.kafka import running as running_kafka
from tests.support.postgres import PASSWORD, USER, Database
from tests.support.postgres import running as running_postgres

TABLES = (
    "CREATE TABLE products (product_id bigint PRIMARY KEY, name text)",
    "ALTER TABLE products REPLICA IDENTITY FULL",
    "CREATE TABLE product_stats (product_id bigint PRIMARY KEY, name text, buyers bigint, orders bigint, items int)",
    "INSERT INTO products VALUES (1, 'pen'), (2, 'ink'), (3, 'paper')",
)


@contextmanager
def running() -> Iterator[tuple[Kafka, Database]]:
    """A broker with the topic ``orders``, and the database ``shop``."""
    with running_kafka() as broker, running_postgres() as server:
        broker.topic(2, "orders")
        server.execute("CREATE DATABASE shop", autocommit=True)
        yield broker, Database(server, "shop")


def variables(broker: Kafka, shop: Database) -> dict[str, str]:
    """What the tables refer to."""
    return {
        "KAFKA": broker.servers,
        "PGHOST": shop.server.host,
        "PGPORT": str(shop.server.port),
        "PGUSER": USER,
        "PGPASSWORD": PASSWORD,
    }


def main(file: Path) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with running() as (broker, shop):
        shop.execute(*TABLES)
        given = variables(broker, shop)
        partial = file.with_suffix(".tmp")
        partial.touch(0o600)
        partial.write_text("".join(f"export {name}={shlex.quote(text)}\n" for name, text in given.items()))
        partial.rename(file)
        print(f"Kafka at {broker.servers}, PostgreSQL at {shop.server.host}:{shop.server.port}")
        print(f"{file} has their addresses. Ctrl-C stops both and removes their data.", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            file.unlink(missing_ok=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
