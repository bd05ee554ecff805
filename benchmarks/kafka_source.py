"""How fast a Kafka topic is read, next to the same rows in JSON files: two whole jobs, in turn, in one Spark session.

    python -m benchmarks.kafka_source [--rows 1000000] [--rounds 3] [--notes 0]

Prints rows per second and processor seconds of each, and their ratios, also without the processor time of the broker,
which runs on this machine. The broker answers a fetch with all that is left of a partition, so many small partitions
come closer to Kafka than a few large ones. Rows have about 85 bytes, and 55 more for each of ``--notes``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.kafka_rates import NOTE, columns, measured, show
from stateplan import TableEnvironment
from tests.support.kafka import running

JOBS = {
    "filter": "INSERT INTO nothing SELECT order_id, num FROM {source} WHERE num > 3",
    "aggregate": "INSERT INTO sums SELECT user_id, COUNT(*), SUM(num) FROM {source} GROUP BY user_id",
}


def rows(count: int, notes: int = 0) -> Iterator[str]:
    """Orders, with so many texts each."""
    texts = {f"note{i}": NOTE for i in range(notes)}
    for i in range(count):
        numbers = {"order_id": i, "user_id": i % 1000, "product_id": i % 10007, "num": i % 7, "ts": 1700000000000 + i}
        yield json.dumps(numbers | texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parallelism", default="2")
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--notes", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running() as broker:
        data, topic = list(rows(given.rows, given.notes)), broker.topic(given.partitions)
        half = len(data) // 2
        (Path(folder) / "orders").mkdir()
        for number, part in enumerate((data[:half], data[half:])):
            (Path(folder) / "orders" / f"{number}.json").write_text("\n".join(part) + "\n")
        for number in range(given.partitions):
            broker.produce(topic, data[number :: given.partitions], partition=number)
        session = TableEnvironment.create(
            {"parallelism.default": given.parallelism, "table.exec.local.max-input-size": "0"}
        )
        schema = columns(given.notes)
        session.execute_sql(
            f"CREATE TABLE files ({schema}) WITH ('connector' = 'filesystem', 'path' = '{folder}/orders', "
            "'format' = 'json')"
        )
        session.execute_sql(
            f"CREATE TABLE topic ({schema}) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json', "
            f"'properties.bootstrap.servers' = '{broker.servers}', 'scan.startup.mode' = 'earliest-offset', "
            "'scan.bounded.mode' = 'latest-offset')"
        )
        session.execute_sql("CREATE TABLE nothing (order_id BIGINT, num INT) WITH ('connector' = 'blackhole')")
        session.execute_sql(
            "CREATE TABLE sums (user_id BIGINT, c BIGINT, s BIGINT, PRIMARY KEY (user_id) NOT ENFORCED) "
            "WITH ('connector' = 'blackhole')"
        )
        for name, statement in JOBS.items():
            print(f"\n{name}")
            jobs = {source: statement.format(source=source) for source in ("files", "topic")}
            show(measured(session, jobs, given.rounds), given.rows, "files")


if __name__ == "__main__":
    main()
