"""Sources over topics of Kafka, and jobs that read them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from stateplan.common.types import parse_type
from stateplan.connectors.kafka.source import KafkaSource
from stateplan.connectors.kafka.splits import merge_splits
from stateplan.connectors.protocol import Offset, SourceTable
from stateplan.connectors.registry import find_connector, find_format, find_key_format, validate_table
from tests.support.kafka import Kafka

EARLIEST = {"scan.startup.mode": "earliest-offset"}


def table(
    options: dict[str, str],
    columns: str = "a INT",
    key: Sequence[str] = (),
    read: Sequence[int] | None = None,
    metadata: Sequence[str] = (),
) -> SourceTable:
    fields = tuple((f.name, f.type) for f in parse_type(f"ROW<{columns}>").fields)
    validate_table(options, "source", schema=fields, primary_key=key)
    return SourceTable(
        "t",
        find_connector(options),
        options,
        fields,
        find_format(options, "source"),
        (),
        tuple(key),
        tuple(range(len(fields)) if read is None else read),
        tuple(metadata),
        key_format=find_key_format(options, "source"),
    )


def source(kafka: Kafka, topic: str, columns: str = "a INT", *, more: dict[str, str] | None = None, **how: Any) -> Any:
    options = {"connector": "kafka", "topic": topic, "properties.bootstrap.servers": kafka.servers, "format": "json"}
    options |= EARLIEST | (more or {})
    return made(table({k: v for k, v in options.items() if v != "-"}, columns, **how))


def made(asked: SourceTable) -> KafkaSource:
    found = asked.connector.source(asked)
    assert isinstance(found, KafkaSource)
    return found


def frames(reader: KafkaSource, start: Offset, end: Offset) -> list[pl.DataFrame]:
    """What workers read of a micro-batch: the source and its splits reach them pickled, and as JSON."""
    worker = pickle.loads(pickle.dumps(reader))
    texts = [json.dumps(split.to_json()) for split in reader.plan(start, end)]
    planned = pa.RecordBatch.from_pylist([{"split": text, "seq": f"{n}", "now": 0} for n, text in enumerate(texts)])
    splits = [at.split for at in merge_splits(worker.splits(planned))]
    worker.expect(splits)
    return [frame for split in splits for frame in worker.read(split)]


def rows(reader: KafkaSource, start: Offset, end: Offset) -> list[Any]:
    found = [row for frame in frames(reader, start, end) for row in frame.rows()]
    return [row[0] if len(row) == 1 else row for row in found]


@dataclass
class Job:
    """Micro-batches of a source, one after another."""

    reader: KafkaSource
    at: Offset | None = None

    def next(self) -> list[Any]:
        if self.at is None:
            self.at = self.reader.initial_offset()
        end = self.reader.latest_offset(self.at)
        self.at, start = json.loads(json.dumps(end)), self.at
        return rows(self.reader, start, end)


def numbers(*values: int) -> list[str]:
    return [json.dumps({"a": value}) for value in values]
