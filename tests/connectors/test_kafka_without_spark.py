"""Queries over topics in this process, without Spark: messages as they come, and the offsets of a group."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer, TopicPartition

from stateplan.runtime.job import Job
from stateplan.runtime.local.job import LocalJob
from stateplan.session.environment import TableEnvironment
from tests.runtime.sessions_here import create, job_of, refuse_spark, session, until
from tests.support.kafka import SILENT, Kafka


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_spark(monkeypatch)


def topic_table(env: TableEnvironment, kafka: Kafka, topic: str, columns: str, **more: str) -> None:
    create(env, "t", columns, {**kafka.json_table(topic), **more})


def committed_offset(kafka: Kafka, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": group, **SILENT})
    try:
        (partition,) = consumer.committed([TopicPartition(topic, 0)], timeout=20)
        return int(partition.offset)
    finally:
        consumer.close()


def test_messages_are_seen_as_they_come(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, [json.dumps({"k": "a", "v": v}) for v in (1, 2)])
    env = session()
    topic_table(env, kafka, topic, "k STRING, v INT")
    result = env.execute_sql("SELECT k, SUM(v) FROM t GROUP BY k")
    assert isinstance(result.job, LocalJob)
    rows = result.collect()
    last = next(rows)
    while last[1] != 3:  # one or two micro-batches
        last = next(rows)
    kafka.produce(topic, [json.dumps({"k": "a", "v": 4}), json.dumps({"k": None, "v": 5})])
    table: dict[object, object] = {"a": 3}
    while table != {"a": 7, None: 5}:
        change = next(rows)
        if not change.get_row_kind().is_retraction:
            table[change[0]] = change[1]
    result.job.stop()


@pytest.mark.parametrize("start", ["latest-offset", "group-offsets"])
def test_a_group_learns_how_far_the_job_has_come(kafka: Kafka, start: str) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [json.dumps({"v": v}) for v in range(3)])
    group = f"group-{topic}"
    reset = {"properties.auto.offset.reset": "earliest"} if start == "group-offsets" else {}
    env = session()
    topic_table(env, kafka, topic, "v INT", **{"scan.startup.mode": start, "properties.group.id": group}, **reset)

    def query(*wanted_values: int) -> Job:
        job = job_of(result := env.execute_sql("SELECT v FROM t"))
        assert isinstance(job, LocalJob)
        until(lambda: job.is_idle, "the job waits for messages")
        kafka.produce(topic, [json.dumps({"v": wanted_values[-1]})])
        rows = result.collect()
        assert [next(rows)[0] for _ in wanted_values] == list(wanted_values)
        return job

    values = (0, 1, 2, 10) if start == "group-offsets" else (10,)
    job = query(*values)
    until(lambda: committed_offset(kafka, group, topic) == 4, "the offset is committed")
    job.stop()
    if start == "group-offsets":
        query(11).stop()


def test_partitions_have_their_own_watermarks(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    base = 1_700_000_000_000

    def produce(partition: int, *seconds: int) -> None:
        kafka.produce(topic, [json.dumps({"ts": base + 1000 * s}) for s in seconds], partition=partition)

    env = session()
    columns = "ts BIGINT, t AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR t AS t"
    topic_table(env, kafka, topic, columns)
    windows = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(t), INTERVAL '10' SECOND))"
    result = env.execute_sql(f"SELECT COUNT(*) FROM {windows} GROUP BY window_start, window_end")
    job = job_of(result)
    produce(0, 1, 2, 50)
    until(lambda: job.progress.rows_in == 3, "the messages have been read")
    produce(1, 3, 4)
    until(lambda: job.progress.rows_in == 5, "the messages have been read")
    assert job.progress.rows_out == 0, "the other partition is not that far"
    produce(1, 12)
    assert next(result.collect())[0] == 4
    job.stop()
