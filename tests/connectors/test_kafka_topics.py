"""Kafka topics that are not the ones that a job has read: deleted, created again, or those of other brokers."""

from __future__ import annotations

import pytest

from stateplan.common.errors import RunError
from stateplan.connectors.kafka import samples
from stateplan.connectors.kafka.client import close_consumers
from stateplan.connectors.protocol import Offset
from tests.connectors.kafka_sources import Job, numbers, rows, source
from tests.support.kafka import Kafka, running


def test_topics_that_were_deleted_or_created_anew(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, numbers(1, 2, 3))
    job = Job(source(kafka, topic))
    assert job.next() == [1, 2, 3]
    kafka.delete(topic)
    with pytest.raises(RunError, match=f"RUN112.*the topic '{topic}' of table t no longer exists") as gone:
        job.next()
    assert "if it is created again, start the job without its checkpoint" in str(gone.value)
    kafka.topic(2, name=topic)
    kafka.produce(topic, numbers(4))
    with pytest.raises(RunError, match=r"RUN115.*ends at offset 1, and the job is at 3") as caught:
        job.next()
    assert "start the job without its checkpoint" in str(caught.value)
    assert job.at is not None
    with pytest.raises(RunError, match=r"RUN115.*ends at offset 1"):
        rows(job.reader, {"offsets": {topic: {"0": 0}}}, {"offsets": {topic: {"0": 3}}})


def test_a_topic_that_has_fewer_partitions_while_it_is_read(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, numbers(1), partition=1)
    job = Job(source(kafka, topic, more={"properties.request.timeout.ms": "2000"}))
    assert job.next() == [1]
    kafka.delete(topic)
    kafka.topic(1, name=topic)
    with pytest.raises(RunError, match=f"RUN115.*the topic '{topic}' of table t has lost partition 1"):
        job.next()


@pytest.mark.parametrize("count", [2, 1500])
def test_a_topic_created_anew_and_longer_is_known_by_its_messages(kafka: Kafka, count: int) -> None:
    """The broker of the tests tells no ids of topics. Of many messages some are read beforehand."""
    topic = kafka.topic(2)
    kafka.produce(topic, numbers(*range(count)), partition=0)
    job = Job(source(kafka, topic))
    begin = job.reader.initial_offset()
    assert job.next() == [*range(count)]
    assert job.at is not None
    assert job.at["marks"][topic].keys() == {"0"}  # there is nothing in the other one
    kafka.delete(topic)
    kafka.topic(2, name=topic)
    kafka.produce(topic, numbers(*range(2 * count)), partition=0)
    again = Job(source(kafka, topic), job.at)
    with pytest.raises(RunError, match=f"RUN115.*the topic '{topic}' of table t was deleted and created again"):
        again.next()
    replayed = source(kafka, topic)
    marks = {"marks": job.at["marks"]}
    with pytest.raises(RunError, match=r"RUN115.*created again"):
        replayed.plan({**begin, **marks}, job.at)


def test_a_mark_stands_before_the_offset_that_is_read_next(kafka: Kafka) -> None:
    """Messages that are read beforehand are the last ones, and a micro-batch may end long before them."""
    topic = kafka.topic()
    kafka.produce(topic, numbers(*range(1500)))
    job = Job(source(kafka, topic, more={"scan.max-rows-per-batch": "10"}))
    assert job.next() == [*range(10)]
    assert job.at is not None
    assert job.at["marks"][topic]["0"][0] < 10
    kafka.delete(topic)
    kafka.topic(name=topic)
    kafka.produce(topic, numbers(*range(20)))
    with pytest.raises(RunError, match=r"RUN115.*created again"):
        Job(source(kafka, topic), job.at).next()


def test_marks_are_renewed_and_those_of_deleted_messages_say_nothing(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic()
    kafka.produce(topic, numbers(1, 2))
    job = Job(source(kafka, topic))
    assert job.next() == [1, 2]
    assert job.at is not None
    first = job.at["marks"]
    kafka.produce(topic, numbers(3))
    assert job.next() == [3]
    assert job.at["marks"] == first  # it is not a minute old
    monkeypatch.setattr(samples, "_MARKED_EVERY", 0.0)
    kafka.produce(topic, numbers(4))
    assert job.next() == [4]
    assert job.at["marks"][topic]["0"][0] == 3
    kafka.cut(topic, 0, 4)
    kafka.produce(topic, numbers(5))
    again = Job(source(kafka, topic), job.at)
    assert again.next() == [5]
    assert again.at is not None
    assert again.at["marks"][topic]["0"][0] == 4


def test_brokers_at_another_address_must_be_those_that_were_read(kafka: Kafka) -> None:
    """The broker of the tests tells no ids of topics."""
    topic = kafka.topic()
    job = Job(source(kafka, topic))
    job.at = empty = job.reader.initial_offset()
    kafka.produce(topic, numbers(1, 2))
    assert job.next() == [1, 2]
    elsewhere = kafka.servers.replace("127.0.0.1", "localhost")

    def at(servers: str, begin: Offset | None = job.at) -> Job:
        return Job(source(kafka, topic, more={"properties.bootstrap.servers": servers}), begin)

    with running() as other:
        other.topic(name=topic)
        other.produce(topic, numbers(*range(10)))
        with pytest.raises(RunError, match=f"RUN115.*the topic '{topic}' of table t was deleted and created again"):
            at(other.servers).next()
        for servers in (other.servers, elsewhere):  # no message has been read by which the topic could be known
            with pytest.raises(RunError, match=rf"RUN115.*before {kafka.servers}, now {servers}"):
                at(servers, empty).next()
        close_consumers()
    kafka.produce(topic, numbers(3))
    assert at(elsewhere).next() == [3]
    both = at(f"{elsewhere}, {kafka.servers}", empty)
    assert both.next() == [1, 2, 3]
    kafka.produce(topic, numbers(4))
    assert at(elsewhere, both.at).next() == [4]
