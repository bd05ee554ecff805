"""Rows as messages: key, value, time, headers and topic of each, in a frame.

Source: Flink's ``DynamicKafkaRecordSerializationSchema`` and ``ReducingUpsertWriter``.
"""

from __future__ import annotations

import re

import polars as pl

from stateplan.common.changelog import KIND, RowKind, column
from stateplan.common.errors import DataError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.formats.base import MessageEncoder, format_options
from stateplan.connectors.kafka.tables import layout_of
from stateplan.connectors.protocol import SinkTable

KEY, VALUE, TIMESTAMP, HEADERS, TOPIC = "key", "value", "timestamp", "headers", "topic"
"""Columns of a frame of messages. ``key`` and ``value`` are Binary, NULL if a message has none; a value of NULL is a
tombstone. ``timestamp`` (Int64, ms) and ``headers`` (list of key and value) are there where the table writes them, and
``topic`` where the topic differs from row to row."""


@dataclass(frozen=True)
class RowEncoder:
    """Makes messages of the rows of a table. Picklable.

    Attributes:
        value: encodes values.
        value_columns: positions of the columns in a value.
        key: encodes keys; None where messages have none.
        key_columns: positions of the columns in a key.
        upsert: whether deleted rows are tombstones, and only the last change of each key counts.
        metadata: keys of the metadata behind the physical columns of a row.
        width: number of physical columns.
        topics: the topics that rows may name; empty if all go to one.
        pattern: the pattern that topics of rows match; None for a list.
    """

    value: MessageEncoder
    value_columns: tuple[int, ...]
    key: MessageEncoder | None
    key_columns: tuple[int, ...]
    upsert: bool
    metadata: tuple[str, ...]
    width: int
    topics: tuple[str, ...] = ()
    pattern: str | None = None

    @staticmethod
    def of(table: SinkTable, upsert: bool, topics: tuple[str, ...] = (), pattern: str | None = None) -> RowEncoder:
        """The encoder of a table. Raises the same errors as :func:`layout_of`, and as
        :meth:`Format.message_encoder`."""
        assert table.format is not None
        layout = layout_of(table.options, table.fields, table.primary_key if upsert else ())
        own = format_options(table.options, table.connector.format_key(table.options))
        if topics:
            own = table.format.for_topic(own, topics[0], "value")
        value = table.format.message_encoder(own, layout.value_fields(table.fields))
        key = None
        if table.key_format is not None:
            own = format_options(table.options, "key.format")
            if topics:
                own = table.key_format.for_topic(own, topics[0], "key")
            key = table.key_format.message_encoder(own, layout.key_fields(table.fields))
        metadata = tuple(name for name, _ in table.metadata)
        return RowEncoder(value, layout.value, key, layout.key, upsert, metadata, len(table.fields), topics, pattern)

    def messages(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The messages of some rows, in their order.

        Args:
            frame: ``c0, c1, ...``; ``kind`` where they are changes.

        Raises:
            DataError: DATA2xx, for a value that a format cannot hold; DATA420, for a topic that is not one of the
                table's; DATA423, for a time that a message cannot have.
        """
        if self.upsert:
            frame = self._last_changes(frame)
        out = {KEY: self._keys(frame), VALUE: self._values(frame)}
        for position, name in enumerate(self.metadata):
            metadata_column = frame[column(self.width + position)]
            if name == TIMESTAMP:
                out[name] = _times(metadata_column)
            elif name == HEADERS:
                out[name] = metadata_column
            elif name == TOPIC:
                out[name] = self._topics(metadata_column)
        return pl.DataFrame([series.alias(name) for name, series in out.items()])

    def _last_changes(self, frame: pl.DataFrame) -> pl.DataFrame:
        keys = [column(i) for i in self.key_columns]
        return frame.unique(keys, keep="last", maintain_order=True)

    def _keys(self, frame: pl.DataFrame) -> pl.Series:
        if self.key is None:
            return pl.Series([None], dtype=pl.Binary).new_from_index(0, frame.height)
        return self.key.messages(_pick_columns(frame, self.key_columns))

    def _values(self, frame: pl.DataFrame) -> pl.Series:
        if not self.upsert:
            kinds = [frame[KIND]] if KIND in frame.columns else []
            return self.value.messages(_pick_columns(frame, self.value_columns).with_columns(kinds))
        rows = _pick_columns(frame, self.value_columns)
        if KIND not in frame.columns:
            return self.value.messages(rows)
        is_delete = frame[KIND].is_in([RowKind.DELETE, RowKind.UPDATE_BEFORE])
        if not is_delete.any():
            return self.value.messages(rows)
        encoded_values = self.value.messages(rows.filter(~is_delete))
        places = (~is_delete).cum_sum().cast(pl.Int64) - 1
        return encoded_values.gather(pl.select(pl.when(is_delete).then(None).otherwise(places)).to_series())

    def _topics(self, topic_names: pl.Series) -> pl.Series:
        for topic in topic_names.unique(maintain_order=True):
            is_known = topic is not None and (
                re.fullmatch(self.pattern, topic) if self.pattern is not None else topic in self.topics
            )
            if not is_known:
                topic_text = "NULL" if topic is None else f"'{topic}'"
                raise DataError("DATA420", topic=topic_text, topics=self.pattern or ", ".join(self.topics))
        return topic_names


def _times(instants: pl.Series) -> pl.Series:
    """Times of messages, in ms since 1970. Kafka knows none before, and librdkafka takes 0 for a message without a
    time, and writes that of sending. Raises DataError DATA423."""
    millis = instants.dt.epoch("ms")
    least = millis.min()
    if isinstance(least, int) and least <= 0:
        raise DataError("DATA423", column=TIMESTAMP, time=instants.min(), millis=least)
    return millis


def _pick_columns(frame: pl.DataFrame, positions: tuple[int, ...]) -> pl.DataFrame:
    """Some columns, as the columns of a message."""
    if not positions:
        return pl.DataFrame(height=frame.height)
    return frame.select(pl.col(column(i)).alias(column(n)) for n, i in enumerate(positions))
