"""How fast a Kafka topic is written, next to the same rows in JSON files: whole jobs, in turn, in one Spark session.

    python -m benchmarks.kafka_sink [--rows 1000000] [--rounds 3] [--notes 0]

Prints rows per second and processor seconds of each, and their ratios to files, also without the processor time of the
broker, which runs on this machine. Rows have about 85 bytes, and 55 more for each of ``--notes``.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping

from confluent_kafka import OFFSET_END

from benchmarks.kafka_rates import COLUMNS, NOTE, columns, measured, show
from stateplan import TableEnvironment
from tests.support.kafka import running

EXACT = "'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'bench'"
GUARANTEES = {"at-least-once": "", "exactly-once": f", {EXACT}", "keyed, exactly-once": f", {EXACT}, {{key}}"}
KEY = "'key.format' = 'json', 'key.fields' = 'user_id'"


PARTITIONS = 2


def sinks(session: TableEnvironment, topics: Mapping[str, str], servers: str, folder: str, notes: int) -> list[str]:
    """Creates the tables that are written; their names, that of the files first.

    Args:
        session: of the tables.
        topics: of each of :data:`GUARANTEES`.
        servers: the broker.
        folder: for the files.
        notes: texts of a row.
    """
    session.execute_sql(
        f"CREATE TABLE files ({columns(notes)}) WITH ('connector' = 'filesystem', 'path' = '{folder}/out', "
        "'format' = 'json')"
    )
    for name, more in GUARANTEES.items():
        session.execute_sql(
            f"CREATE TABLE `{name}` ({columns(notes)}) WITH ('connector' = 'kafka', 'topic' = '{topics[name]}', "
            f"'properties.bootstrap.servers' = '{servers}', 'format' = 'json'{more.format(key=KEY)})"
        )
    return ["files", *GUARANTEES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parallelism", default="2")
    parser.add_argument("--notes", type=int, default=0)
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
        selected = ", ".join(["*", *[f"'{NOTE}'"] * given.notes])
        topics = {name: broker.topic(PARTITIONS) for name in GUARANTEES}
        tables = sinks(session, topics, broker.servers, folder, given.notes)

        def tidy() -> None:
            for topic in topics.values():
                for partition in range(PARTITIONS):
                    broker.cut(topic, partition, OFFSET_END)

        jobs = {name: f"INSERT INTO `{name}` SELECT {selected} FROM orders" for name in tables}
        show(measured(session, jobs, given.rounds, tidy), given.rows, "files")


if __name__ == "__main__":
    main()
