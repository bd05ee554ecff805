"""Kafka sources that do not get going: offsets that do not exist or are missing, messages that cannot be read."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from stateplan.common.errors import DataError, RunError
from stateplan.connectors.kafka.planning import offsets_of
from tests.connectors.kafka_sources import Job, numbers, source
from tests.support.kafka import Kafka


@pytest.mark.parametrize("offset", [1, 11])
def test_offsets_to_begin_at_that_do_not_exist(kafka: Kafka, offset: int) -> None:
    topic = kafka.topic()
    kafka.produce(topic, numbers(*range(10)))
    kafka.cut(topic, 0, 4)
    known = {"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": f"partition:0,offset:{offset}"}
    there = rf"offset {offset} for topic {topic}, partition 0 of table t, which begins at offset 4 and ends at 10"
    with pytest.raises(RunError, match=f"RUN117.*'scan.startup.specific-offsets' has {there}") as caught:
        source(kafka, topic, more=known).initial_offset()
    assert caught.value.expected == "an offset from 4 to 10"
    reset = {**known, "properties.auto.offset.reset": "earliest"}
    assert offsets_of(source(kafka, topic, more=reset).initial_offset()) == {(topic, 0): 4}

    group = {"scan.startup.mode": "-", "properties.group.id": f"g-{topic}"}
    client = Consumer({"bootstrap.servers": kafka.servers, "group.id": f"g-{topic}"})
    client.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    client.close()
    with pytest.raises(RunError, match=f"RUN117.*the group 'g-{topic}' has {there}"):
        source(kafka, topic, more=group).initial_offset()


def test_a_group_that_does_not_say_where_to_end(kafka: Kafka) -> None:
    topic = kafka.topic()
    more = {"scan.bounded.mode": "group-offsets", "properties.group.id": f"none-{topic}"}
    with pytest.raises(RunError, match=r"RUN116.*has no offset at which to end, for topic .*, partition 0") as caught:
        Job(source(kafka, topic, more=more)).next()
    assert "choose another 'scan.bounded.mode'" in str(caught.value)
    assert "auto.offset.reset" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "code", "hint"),
    [
        ("{}", "DATA113", "without 'value.json.fail-on-missing-field', a missing field is NULL"),
        (
            "{",
            "DATA111",
            "'value.json.ignore-parse-errors' = 'true' without 'value.json.fail-on-missing-field' skips messages that "
            "cannot be read",
        ),
    ],
)
def test_hints_do_not_contradict_the_options_of_the_table(kafka: Kafka, value: str, code: str, hint: str) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [value])
    strict = {"format": "-", "value.format": "json", "value.json.fail-on-missing-field": "true"}
    with pytest.raises(DataError) as caught:
        Job(source(kafka, topic, more=strict)).next()
    assert (caught.value.code, caught.value.hint) == (code, hint)


def test_a_message_counts_as_a_kibibyte(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.produce(topic, numbers(*range(7)))
    bounded = {"scan.bounded.mode": "latest-offset"}
    assert source(kafka, topic, more=bounded).size() == 7 << 10
    some = {"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0,offset:5"}
    assert source(kafka, topic, more={**bounded, **some}).size() == 2 << 10
    in_group = {"properties.group.id": f"g-{topic}"}
    assert source(kafka, topic, more=in_group).size() == 7 << 10
    in_group |= bounded
    assert source(kafka, topic, more=in_group).size() is None, "its group learns how far the job has come"
