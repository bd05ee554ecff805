"""How fast a Kafka topic is written, next to the same rows in JSON files: whole jobs, in turn, in one Spark session.

    python -m benchmarks.kafka_sink [--rows 1000000] [--rounds 3]

Prints rows per second of each, and the ratio to files. The broker runs on this machine, and takes its share of it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time

from stateplan import TableEnvironment
from tests.support.kafka import Kafka, running

COLUMNS = "order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT, ts BIGINT"
EXACT = "'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'bench'"
GUARANTEES = {"at-least-once": "", "exactly-once": f", {EXACT}", "keyed, exactly-once": f", {EXACT}, {{key}}"}
KEY = "'key.format' = 'json', 'key.fields' = 'user_id'"


def sinks(session: TableEnvironment, broker: Kafka, folder: str) -> list[str]:
    """Creates the tables that are written; their names, that of the files first."""
    session.execute_sql(
        f"CREATE TABLE files ({COLUMNS}) WITH ('connector' = 'filesystem', 'path' = '{folder}/out', 'format' = 'json')"
    )
    for name, more in GUARANTEES.items():
        session.execute_sql(
            f"CREATE TABLE `{name}` ({COLUMNS}) WITH ('connector' = 'kafka', 'topic' = '{broker.topic(2)}', "
            f"'properties.bootstrap.servers' = '{broker.servers}', 'format' = 'json'{more.format(key=KEY)})"
        )
    return ["files", *GUARANTEES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parallelism", default="2")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running() as broker:
        session = TableEnvironment.create(
            {"parallelism.default": given.parallelism, "table.exec.local.max-input-size": "0"}
        )
        fields = ("order_id", "user_id", "product_id", "num", "ts")
        ranges = ", ".join(
            f"'fields.{field}.min' = '0', 'fields.{field}.max' = '{most}'"
            for field, most in zip(fields, (given.rows, 1000, 10007, 7, 1_700_000_000), strict=True)
        )
        session.execute_sql(
            f"CREATE TABLE orders ({COLUMNS}) WITH ('connector' = 'datagen', 'number-of-rows' = '{given.rows}', "
            f"{ranges})"
        )
        taken: dict[str, list[float]] = {name: [] for name in sinks(session, broker, folder)}
        for number in range(given.rounds + 1):
            for name, times in taken.items():
                began = time.perf_counter()
                job = session.execute_sql(f"INSERT INTO `{name}` SELECT * FROM orders").job
                assert job is not None and job.wait(600)
                if number:  # the first round warms up
                    times.append(time.perf_counter() - began)
        for name, times in taken.items():
            ratio = statistics.median(f / t for f, t in zip(taken["files"], times, strict=True))
            print(f"{name:20s} {given.rows / statistics.median(times):10,.0f} rows/s, ratio to files {ratio:.2f}")


if __name__ == "__main__":
    main()
