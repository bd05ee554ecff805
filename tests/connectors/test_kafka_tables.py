"""Tables of Kafka as Flink's documentation has them, by SQL, against a real broker."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from stateplan import TableEnvironment
from stateplan.common.errors import OptionError
from stateplan.runtime.local.job import LocalJob
from tests.support.kafka import Kafka

ALL = {"connector": "kafka", "scan.startup.mode": "earliest-offset", "scan.bounded.mode": "latest-offset"}


def session(kafka: Kafka, columns: str, **options: str) -> TableEnvironment:
    """A session with a table ``t``; options with ``_`` for ``.``."""
    made = TableEnvironment.create({})
    given = {**ALL, "properties.bootstrap.servers": kafka.servers}
    given |= {key.replace("_", "."): text for key, text in options.items()}
    text = ", ".join(f"'{key}' = '{value.replace(chr(39), chr(39) * 2)}'" for key, value in given.items())
    made.execute_sql(f"CREATE TABLE t ({columns}) WITH ({text})")
    return made


def result(made: TableEnvironment, query: str) -> list[Any]:
    return [tuple(row) for row in made.execute_sql(query).collect()]


def test_metadata_of_debezium(kafka: Kafka) -> None:
    topic = kafka.topic()
    source = {"db": "inventory", "schema": "public", "table": "products", "ts_ms": 1_700_000_000_000, "lsn": 23}
    row = {"id": 1, "name": "bolt"}
    events = [
        {"before": None, "after": row, "op": "c", "ts_ms": 1_700_000_000_555, "source": source},
        {"before": row, "after": {**row, "name": "nut"}, "op": "u", "ts_ms": 1_700_000_000_555, "source": source},
    ]
    kafka.produce(topic, [json.dumps(event) for event in events])
    columns = (
        "origin_ts TIMESTAMP_LTZ(3) METADATA FROM 'value.ingestion-timestamp' VIRTUAL, "
        "event_time TIMESTAMP_LTZ(3) METADATA FROM 'value.source.timestamp' VIRTUAL, "
        "origin_table STRING METADATA FROM 'value.source.table' VIRTUAL, "
        "origin_properties MAP<STRING, STRING> METADATA FROM 'value.source.properties' VIRTUAL, "
        "`offset` BIGINT METADATA VIRTUAL, id BIGINT, name STRING"
    )
    made = session(kafka, columns, topic=topic, value_format="debezium-json")
    first = (datetime.fromtimestamp(1_700_000_000.555, UTC), datetime.fromtimestamp(1_700_000_000, UTC), "products")
    query = "SELECT origin_ts, event_time, origin_table, origin_properties['lsn'], `offset`, name FROM t"
    assert result(made, query) == [
        (*first, "23", 0, "bolt"),
        (*first, "23", 1, "bolt"),
        (*first, "23", 1, "nut"),
    ]


def test_little_of_a_topic_is_read_without_spark(kafka: Kafka) -> None:
    topic = kafka.topic(partitions=2)
    kafka.produce(topic, [json.dumps({"a": number}) for number in range(20)])
    made = session(kafka, "a INT", topic=topic, format="json")
    found = made.execute_sql("SELECT COUNT(*), SUM(a) FROM t")
    assert isinstance(found.job, LocalJob)
    assert tuple(list(found.collect())[-1]) == (20, 190)


def test_lists_with_blanks_and_quotes(kafka: Kafka) -> None:
    one, other = kafka.topic(), kafka.topic()
    for number, name in enumerate((one, other)):
        kafka.produce(name, [json.dumps({"a": number})], keys=[json.dumps({"b": 5, "c": number})])
    keys = {"key_format": "json", "key_fields": "c ; 'b';", "format": "json"}
    made = session(kafka, "a INT, b INT, c INT", topic=f" {one}; '{other}' ;", **keys)
    made.execute_sql("CREATE TABLE u WITH ('value.fields-include' = 'EXCEPT_KEY') LIKE t")
    assert sorted(result(made, "SELECT a, b, c FROM u")) == [(0, 5, 0), (1, 5, 1)]


def test_a_negative_offset_is_refused_where_the_table_is_named(kafka: Kafka) -> None:
    start = {"scan_startup_mode": "specific-offsets", "scan_startup_specific-offsets": "partition:0,offset:-1"}
    made = session(kafka, "a INT", topic=kafka.topic(), format="json", **start)
    with pytest.raises(OptionError, match=r"OPT134.*has the offset -1 for partition 0") as caught:
        made.explain_sql("SELECT * FROM t")
    assert caught.value.place is not None
    assert caught.value.place.line == 1
