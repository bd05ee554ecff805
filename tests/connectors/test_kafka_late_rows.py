"""Late rows of topics: what CURRENT_WATERMARK says of them, and the tables that they go to. The watermark is the least
of those of the partitions."""

from __future__ import annotations

import json

from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import Inserts, read_script
from tests.support.kafka import Kafka
from tests.support.local import printed

BASE = 1_767_225_600  # 2026-01-01
TABLES = """
CREATE TABLE o (id INT, s BIGINT, t AS TO_TIMESTAMP_LTZ(s * 1000, 3), WATERMARK FOR t AS t - INTERVAL '1' SECOND) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'scan.max-rows-per-batch' = '{most}');
CREATE TABLE snk (id BIGINT, wm TIMESTAMP_LTZ(3), late BOOLEAN) WITH ('connector' = 'print');
CREATE TABLE counts (n BIGINT) WITH ('connector' = 'print', 'print-identifier' = 'counts');
CREATE TABLE late (row_json STRING, watermark_time TIMESTAMP_LTZ(3)) WITH (
  'connector' = 'print', 'print-identifier' = 'late');
"""
WINDOWS = "TABLE(TUMBLE(TABLE o, DESCRIPTOR(t), INTERVAL '1' SECOND)) GROUP BY window_start, window_end"


def rows(*numbered: tuple[int, int]) -> list[str]:
    """Messages of (id, second)."""
    return [json.dumps({"id": number, "s": BASE + second}) for number, second in numbered]


def lines(kafka: Kafka, statement: str, *partitions: list[tuple[int, int]]) -> list[str]:
    """What a statement prints that reads a topic, a message of each partition in each micro-batch."""
    topic = kafka.topic(len(partitions))
    for number, messages in enumerate(partitions):
        kafka.produce(topic, rows(*messages), partition=number)
    env = TableEnvironment.create({"table.local-time-zone": "UTC"})
    tables = TABLES.format(topic=topic, servers=kafka.servers, most=len(partitions))
    *before, last = read_script(f"{tables} {statement}")
    for one in before:
        env.execute_statement(one)
    graph = env.session.compiler.document(Inserts.of(last.node, last.source)).graph
    return printed(translate(graph, {"table.local-time-zone": "UTC"}, 2))


AHEAD = [(1, 10), (3, 30), (5, 50), (7, 29)]
BEHIND = [(2, 5), (4, 8), (6, 20), (8, 18)]


def test_the_slowest_partition_says_what_is_late(kafka: Kafka) -> None:
    statement = "INSERT INTO snk SELECT id, CURRENT_WATERMARK(t), t <= CURRENT_WATERMARK(t) FROM o;"
    assert sorted(lines(kafka, statement, AHEAD, BEHIND)) == [
        "+I[1, null, null]",
        "+I[2, null, null]",
        "+I[3, 2026-01-01T00:00:04Z, false]",
        "+I[4, 2026-01-01T00:00:04Z, false]",
        "+I[5, 2026-01-01T00:00:07Z, false]",
        "+I[6, 2026-01-01T00:00:07Z, false]",
        "+I[7, 2026-01-01T00:00:19Z, false]",
        "+I[8, 2026-01-01T00:00:19Z, true]",
    ]


def test_rows_that_a_window_drops_are_those_behind_the_slowest_partition(kafka: Kafka) -> None:
    statement = f"INSERT INTO counts SELECT /*+ LATE_ROWS('late') */ COUNT(*) FROM {WINDOWS};"
    got = lines(kafka, statement, AHEAD, BEHIND)
    assert [line for line in got if line.startswith("late")] == [
        'late> +I[{"t":"2026-01-01T00:00:18Z"}, 2026-01-01T00:00:19Z]'
    ]
    assert len([line for line in got if line.startswith("counts")]) == 7
