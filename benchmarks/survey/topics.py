"""Kafka topics: the latency of their rows, also over an hour, and how fast topics with many partitions are read.

    python -m benchmarks.survey.topics PARTITIONS spark|here

reads a topic of 1,000,000 rows twice, and prints the figures of the second time. The broker runs on the same machine,
and its processor time is not left out. The peers need a connector that is not in their packages.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.survey.peers import STREAM, python_figures, stateplan
from benchmarks.survey.streams import PATIENCE, latency_of
from stateplan import TableEnvironment
from tests.support.kafka import SILENT, Kafka, running

PARTITIONS = (1, 16, 100, 1000)
ROWS = 1_000_000
RATE = 1_000
"""Rows a second."""

TICK = 0.01
"""Seconds between two sends."""

_SOURCE = (
    "'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}', 'format' = 'json', "
    "'scan.startup.mode' = 'earliest-offset'"
)


class Messages:
    """Rows that go to the partitions of a topic in turn."""

    def __init__(self, broker: Kafka, topic: str, partitions: int) -> None:
        self._producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 0, **SILENT})
        self._topic = topic
        self._partitions = partitions
        self._ids = itertools.count(1)

    def send(self, count: int) -> None:
        """Rows with new ids, without waiting for the broker."""
        sent = int(time.time() * 1000)
        for _ in range(count):
            number = next(self._ids)
            value = json.dumps({"order_id": number, "sent": sent})
            self._producer.produce(self._topic, value, partition=number % self._partitions)
        self._producer.poll(0)


def latency(in_spark: bool, partitions: int, seconds: float, work: Path) -> dict[str, float]:
    """Median and 99th percentile from the send of a message to the print of its row."""
    with running() as broker:
        topic = broker.topic(partitions)
        messages = Messages(broker, topic, partitions)
        messages.send(10)
        statements = STREAM.format(source=_SOURCE.format(topic=topic, servers=broker.servers))
        with stateplan(statements, work, in_spark) as program:
            program.wait_for_row(PATIENCE)
            return latency_of(program, messages.send, RATE, seconds, TICK)


def of_partitions(in_spark: bool, partitions: int, _: Path) -> dict[str, float]:
    """Rows per second out of a topic with so many partitions."""
    return python_figures("topics", str(partitions), "spark" if in_spark else "here")


def _read(partitions: int, in_spark: bool) -> dict[str, float]:
    with running() as broker:
        topic = broker.topic(partitions)
        for partition in range(partitions):
            numbers = range(partition, ROWS, partitions)
            broker.produce(topic, [json.dumps({"k": n, "v": n}) for n in numbers], partition=partition)
        session = TableEnvironment.create(
            {"parallelism.default": "2", "table.exec.local.max-input-size": "0" if in_spark else "512 mb"}
        )
        source = _SOURCE.format(topic=topic, servers=broker.servers) + ", 'scan.bounded.mode' = 'latest-offset'"
        session.execute_sql(f"CREATE TABLE messages (k BIGINT, v BIGINT, pt AS PROCTIME()) WITH ({source})")
        session.execute_sql("CREATE TABLE firsts (k BIGINT, v BIGINT) WITH ('connector' = 'blackhole')")
        for _ in range(2):
            began = time.monotonic()
            session.execute_sql(
                "INSERT INTO firsts SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER "
                "(PARTITION BY k ORDER BY pt) AS n FROM messages) WHERE n = 1"
            ).wait()
        return {"rows/s": ROWS / (time.monotonic() - began)}


def main(partitions: str, where: str) -> None:
    """Reads a topic, and prints how fast that was."""
    print(json.dumps(_read(int(partitions), where == "spark")), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
