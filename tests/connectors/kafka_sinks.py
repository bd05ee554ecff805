"""Sinks to topics of Kafka, and what they write."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import polars as pl

from stateplan.common.changelog import KIND, RowKind
from stateplan.common.types import parse_type
from stateplan.connectors.protocol import Sink, SinkTable
from stateplan.connectors.registry import find_connector, find_format, find_key_format
from tests.support.kafka import Kafka

PART = "0123456789ab"
EXACT = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "p"}


def make(
    servers: str,
    topic: str,
    columns: str = "k STRING, v INT",
    connector: str = "kafka",
    key: Sequence[str] = (),
    metadata: Sequence[tuple[str, str]] = (),
    uid: str = "u",
    **options: str,
) -> Sink:
    """A sink; options with ``_`` for ``.``."""
    formats = {"key.format": "json", "value.format": "json"} if connector == "upsert-kafka" else {"format": "json"}
    given = {"connector": connector, "topic": topic, "properties.bootstrap.servers": servers, **formats, **options}
    fields = tuple((f.name, f.type) for f in parse_type(f"ROW<{columns}>").fields)
    table = SinkTable(
        "t",
        find_connector(given),
        given,
        fields,
        find_format(given, "sink"),
        primary_key=tuple(key),
        uid=uid,
        metadata=tuple((name, parse_type(text)) for name, text in metadata),
        key_format=find_key_format(given, "sink"),
    )
    made = find_connector(given).sink(table)
    assert pickle.loads(pickle.dumps(made)) is not made
    return made


def rows(*values: tuple[Any, ...], kinds: Sequence[RowKind] = ()) -> pl.DataFrame:
    schema = {f"c{i}": pl.String if isinstance(v, str) else pl.Int32 for i, v in enumerate(values[0])}
    frame = pl.DataFrame(list(values), schema=schema, orient="row")
    return frame.with_columns(pl.Series(KIND, [int(k) for k in kinds], pl.Int8)) if kinds else frame


def write(sink: Sink, frame: pl.DataFrame, epoch: int = 0, part: str = PART) -> None:
    """A micro-batch of one part, as workers and driver write it."""
    sink.prepare(epoch)
    made = pickle.loads(pickle.dumps(sink)).write(frame, epoch, part)
    sink.commit([made] if made else [], epoch)


def shown(kafka: Kafka, topic: str, isolation: str = "read_committed") -> list[tuple[bytes | None, bytes | None]]:
    return [(m.key(), m.value()) for m in kafka.consume(topic, isolation)]
