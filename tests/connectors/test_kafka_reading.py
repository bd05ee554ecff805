"""Ranges of offsets of a Kafka partition, as a worker reads them: their batches, and when fetching stops; and what the
process has that plans them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Generator

import pytest

from stateplan.common.types import parse_type
from stateplan.connectors.kafka import reading
from stateplan.connectors.kafka.client import Brokers, close_consumers
from stateplan.connectors.kafka.reading import Range
from stateplan.connectors.kafka.source import KafkaSource
from stateplan.connectors.protocol import SourceTable
from stateplan.connectors.registry import find_connector, find_format
from tests.support.kafka import Kafka

CLIENT = {"check.crcs": "true"}
"""A setting with which the client reads."""

TOTAL = 1000
VALUES = [str(i).encode() for i in range(TOTAL)]


def by_client(kafka: Kafka) -> Brokers:
    return Brokers("t", "kafka", {"bootstrap.servers": kafka.servers, **CLIENT})


@pytest.mark.parametrize(
    ("start", "stop", "held", "most"),
    [(0, TOTAL, TOTAL, 300), (0, TOTAL, 400, 400), (7, 993, 250, 100), (10, 11, 5, 5), (5, 5, 5, 5)],
)
def test_batches_are_small_and_hold_the_whole_range(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, start: int, stop: int, held: int, most: int
) -> None:
    topic = kafka.topic()
    kafka.produce(topic, VALUES, keys=VALUES)
    for name, value in (("_HELD", held), ("_MOST", most), ("_ASKED", 50)):
        monkeypatch.setattr(reading, name, value)
    brokers = by_client(kafka)
    found, fetching = [], []
    for batch in reading.read_range(brokers, Range(topic, 0, start, stop), ["key"]):
        assert len(batch.values) == len(batch.offsets) == len(batch.told["key"]) <= most
        assert list(batch.told["key"]) == list(batch.values)
        found += list(zip(batch.offsets, batch.values, strict=True))
        fetching.append(_fetching())
    assert found == [(i, VALUES[i]) for i in range(start, stop)]
    # Nothing is fetched while what comes last is decoded, which is all of a range that is not larger than what is held.
    assert fetching[-1:] in ([False], [])
    assert any(fetching) == (stop - start > held)
    assert not _fetching()
    close_consumers()


def _fetching() -> bool:
    """Whether a consumer of this process has a partition to fetch."""
    from stateplan.connectors.kafka.client import _shared

    return any(shared.consumer.assignment() for shared in _shared.values())


def test_a_reader_that_stops_early_stops_fetching(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = kafka.topic()
    kafka.produce(topic, VALUES)
    for name in ("_HELD", "_MOST", "_ASKED"):
        monkeypatch.setattr(reading, name, 100)
    batches = reading.read_range(by_client(kafka), Range(topic, 0, 0, TOTAL))
    assert list(next(batches).offsets) == list(range(100))
    assert _fetching()
    assert isinstance(batches, Generator)
    batches.close()
    assert not _fetching()
    close_consumers()


def test_planning_starts_without_what_reading_needs(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, VALUES[:7], partition=1)
    options = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": kafka.servers,
        "format": "json",
        "scan.startup.mode": "earliest-offset",
    }
    fields = (("a", parse_type("INT")),)
    table = SourceTable("t", find_connector(options), options, fields, find_format(options, "source"), projection=(0,))
    source = find_connector(options).source(table)
    assert isinstance(source, KafkaSource)
    source.idle_timeout = 5000
    code = (
        "import pickle, sys; source = pickle.load(sys.stdin.buffer); start = source.initial_offset(); "
        "splits = source.plan(start, source.latest_offset(start)); "
        "print(source.idle_timeout, sum(s['stop'] - s['start'] for s in splits), 'polars' in sys.modules)"
    )
    data = pickle.dumps(source.for_planning())
    run = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True, timeout=60)
    assert run.stdout.split() == [b"5000", b"7", b"False"]
    assert source.rows is not None
