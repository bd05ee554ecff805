"""The formats of changes: Debezium's, Canal's, Maxwell's and GoldenGate's events, and ``op-json``. A line is an object.

Events are written as Flink writes them: +I and +U as an event that adds a row, -U and -D as one that deletes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from stateplan.common.changelog import MODES, RETRACT, ChangelogMode
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Option, OptionType, OptionValues, Role, flag
from stateplan.common.types import LogicalType, parse_type
from stateplan.connectors.formats.base import (
    ERRORS_TABLE,
    IGNORE_PARSE_ERRORS,
    DecoderOfLines,
    EncoderOfLines,
    Fields,
    LineFormat,
    MessageDecoder,
    StampedDecoder,
)
from stateplan.connectors.formats.json import ENCODE_OPTIONS, TIMESTAMP_FORMAT

if TYPE_CHECKING:
    from stateplan.connectors.formats.json_decode import Event

_OPTIONS = (IGNORE_PARSE_ERRORS, ERRORS_TABLE, TIMESTAMP_FORMAT, *ENCODE_OPTIONS)
SOURCE_PROPERTIES = "source.properties"
"""Field of an event that holds the value of ``source`` once more: as a map, next to single fields of it."""

_OF_EVENT = "value."
"""What the metadata of events is called in a table, as tables of Flink's Kafka connector call it."""


@dataclass(frozen=True)
class Metadata:
    """A metadata column of events.

    Attributes:
        key: its name, without ``value.``.
        type: its type.
        field: the field of the event.
        read_as: type of the field; None for ``type``.
        convert: the function of :mod:`connectors.formats.change_events` from one type to the other.
        within: the field of the event whose value has ``field``; None for the event itself.
        outside: whether the field is next to the event, where the event lies in a field of the line's object.
    """

    key: str
    type: str
    field: str
    read_as: str | None = None
    convert: str | None = None
    within: str | None = None
    outside: bool = False

    def path(self, wrapper: tuple[str, ...]) -> tuple[str, ...]:
        """Where its field is in the object of a line whose event lies at ``wrapper``."""
        inner = (self.field,) if self.within is None else (self.within, self.field)
        return inner if self.outside else (*wrapper, *inner)


class ChangeFormat(LineFormat):
    """A format of changes.

    Attributes:
        event_metadata: what can be read besides the columns.
        insert_texts, delete_texts: the texts before and after a row that is added, and one that is deleted.
    """

    options: ClassVar[tuple[Option, ...]] = _OPTIONS
    source_changes = RETRACT
    sink_changes = RETRACT
    extension = "json"
    text_keys = True
    by_name = True
    is_lines = True
    event_metadata: ClassVar[tuple[Metadata, ...]] = ()
    insert_texts: ClassVar[tuple[str, str]]
    delete_texts: ClassVar[tuple[str, str]]

    def __init_subclass__(cls) -> None:
        cls.metadata = tuple((m.key, m.type) for m in cls.event_metadata)

    def event(self, values: OptionValues, names: tuple[str, ...]) -> Event:
        """How changes of rows with columns of these names are read."""
        raise NotImplementedError(self.name)

    def message_decoder(
        self, options: Mapping[str, str], fields: Fields, projection: Sequence[int], metadata: Sequence[str] = ()
    ) -> MessageDecoder:
        return super().message_decoder(options, fields, projection, [_OF_EVENT + key for key in metadata])

    def make_decoder(
        self, values: OptionValues, fields: Fields, projection: Sequence[int], metadata: Sequence[str]
    ) -> DecoderOfLines:
        from stateplan.connectors.formats import change_events
        from stateplan.connectors.formats.json_decode import EventValue, RowDecoder

        columns = _fields_to_read(fields, projection)
        event = self.event(values, _names(columns))
        own = {
            _OF_EVENT + m.key: EventValue(
                m.path(event.wrapper),
                parse_type(m.read_as or m.type),
                getattr(change_events, m.convert) if m.convert else None,
            )
            for m in self.event_metadata
        }
        sources = [own.get(key, key) for key in metadata]
        return RowDecoder.of_events(self.name, values, event, columns, len(projection), sources)

    def stamped_decoder(
        self, options: Mapping[str, str], fields: Fields, projection: Sequence[int], stamp: tuple[str, LogicalType]
    ) -> StampedDecoder:
        from stateplan.connectors.formats.json_decode import RowDecoder

        columns, values = _fields_to_read(fields, projection), self.values(options)
        event = self.event(values, _names(columns))
        return RowDecoder.of_events(self.name, values, event, columns, len(projection), (), stamp)

    def make_encoder(self, values: OptionValues, fields: Fields) -> EncoderOfLines:
        from stateplan.connectors.formats.json_encode import EventEncoder, JsonWriter

        return EventEncoder(JsonWriter.make(values, fields), self.insert_texts, self.delete_texts)


def _fields_to_read(fields: Fields, projection: Sequence[int]) -> Fields:
    """The columns to read. Without any column one is read all the same: a row that exists must be distinguished from
    one that does not."""
    return [fields[i] for i in (projection or (0,))]


def _names(fields: Fields) -> tuple[str, ...]:
    return tuple(name for name, _ in fields)


class DebeziumJson(ChangeFormat):
    """``{"before": .., "after": .., "op": "c" | "r" | "u" | "d"}``.

    ``c`` and ``r`` are read as +I, ``u`` as -U and +U, ``d`` as -D. With ``debezium-json.schema-include`` the event is
    found under ``payload``.
    """

    name = "debezium-json"
    description = "Debezium change events, one JSON object per line."
    options = (
        flag("schema-include", "Whether events contain their schema, with the data in 'payload'.", Role.SOURCE),
        *_OPTIONS,
    )
    event_metadata = (
        Metadata("schema", "STRING", "schema", outside=True),
        Metadata("ingestion-timestamp", "TIMESTAMP_LTZ(3)", "ts_ms", "BIGINT", "from_millis"),
        Metadata("source.timestamp", "TIMESTAMP_LTZ(3)", "ts_ms", "BIGINT", "from_millis", within="source"),
        Metadata("source.database", "STRING", "db", within="source"),
        Metadata("source.schema", "STRING", "schema", within="source"),
        Metadata("source.table", "STRING", "table", within="source"),
        Metadata("source.properties", "MAP<STRING, STRING>", SOURCE_PROPERTIES),
    )
    insert_texts = '{"before":null,"after":', ',"op":"c"}'
    delete_texts = '{"before":', ',"after":null,"op":"d"}'

    def event(self, values: OptionValues, names: tuple[str, ...]) -> Event:
        from stateplan.connectors.formats.change_events import BeforeAfter

        with_schema = values["schema-include"]
        elsewhere = "" if with_schema else "; 'debezium-json.schema-include' = 'true' finds it in \"payload\""
        return BeforeAfter(
            op="op",
            names={"c": "INSERT", "r": "READ", "u": "UPDATE", "d": "DELETE"},
            update="u",
            delete="d",
            expected='{"before": {..} or null, "after": {..} or null, "op": "c", "r", "u" or "d"}' + elsewhere,
            replica="the whole row before the change (in PostgreSQL: ALTER TABLE ... REPLICA IDENTITY FULL makes "
            "Debezium send it)",
            wrapper=("payload",) if with_schema else (),
            second_names={"source": SOURCE_PROPERTIES},
        )


class CanalJson(ChangeFormat):
    """``{"data": [{..}], "old": [{..}], "type": "INSERT" | "UPDATE" | "DELETE"}``, as Alibaba's Canal writes it.

    Rows of ``data`` are read as +I, as -D, or as +U with the row of ``old`` before it as -U, whose missing fields are
    as they are in ``data``. Events of type ``CREATE`` are skipped.
    """

    name = "canal-json"
    description = "Canal change events, one JSON object per line."
    options = (
        *(
            Option(
                f"{name}.include",
                OptionType.REGEX,
                f"Regular expression that the field '{name}' of an event must match completely.",
                role=Role.SOURCE,
            )
            for name in ("database", "table")
        ),
        *_OPTIONS,
    )
    event_metadata = (
        Metadata("database", "STRING", "database"),
        Metadata("table", "STRING", "table"),
        Metadata("sql-type", "MAP<STRING, INT>", "sqlType"),
        Metadata("pk-names", "ARRAY<STRING>", "pkNames"),
        Metadata("ingestion-timestamp", "TIMESTAMP_LTZ(3)", "ts", "BIGINT", "from_millis"),
        Metadata("event-timestamp", "TIMESTAMP_LTZ(3)", "es", "BIGINT", "from_millis"),
    )
    insert_texts = '{"data":[', '],"type":"INSERT"}'
    delete_texts = '{"data":[', '],"type":"DELETE"}'

    def event(self, values: OptionValues, names: tuple[str, ...]) -> Event:
        from stateplan.connectors.formats.partial_old import DataOld

        return DataOld(
            names,
            insert="INSERT",
            update="UPDATE",
            delete="DELETE",
            ignored=("CREATE",),
            has_lists=True,
            expected='{"data": [{..}], "old": [{..}] or null, "type": "INSERT", "UPDATE" or "DELETE"}',
            filters={name: p for name in ("database", "table") if (p := values[f"{name}.include"]) is not None},
        )


class MaxwellJson(ChangeFormat):
    """``{"data": {..}, "old": {..}, "type": "insert" | "update" | "delete"}``.

    ``data`` is read as +I, as -D, or as +U with ``old`` before it as -U, whose missing fields are as they are in
    ``data``.
    """

    name = "maxwell-json"
    description = "Maxwell change events, one JSON object per line."
    event_metadata = (
        Metadata("database", "STRING", "database"),
        Metadata("table", "STRING", "table"),
        Metadata("primary-key-columns", "ARRAY<STRING>", "primary_key_columns"),
        Metadata("ingestion-timestamp", "TIMESTAMP_LTZ(3)", "ts", "BIGINT", "from_seconds"),
    )
    insert_texts = '{"data":', ',"type":"insert"}'
    delete_texts = '{"data":', ',"type":"delete"}'

    def event(self, values: OptionValues, names: tuple[str, ...]) -> Event:
        from stateplan.connectors.formats.partial_old import DataOld

        return DataOld(
            names,
            insert="insert",
            update="update",
            delete="delete",
            ignored=(),
            has_lists=False,
            expected='{"data": {..}, "old": {..} or null, "type": "insert", "update" or "delete"}',
        )


class OggJson(ChangeFormat):
    """``{"before": {..}, "after": {..}, "op_type": "I" | "U" | "D"}``, as Oracle GoldenGate writes it.

    ``I`` is read as +I, ``U`` as -U and +U, ``D`` as -D.
    """

    name = "ogg-json"
    description = "Oracle GoldenGate change events, one JSON object per line."
    event_metadata = (
        Metadata("table", "STRING", "table"),
        Metadata("primary-keys", "ARRAY<STRING>", "primary_keys"),
        Metadata("ingestion-timestamp", "TIMESTAMP_LTZ(6)", "current_ts", "STRING", "from_iso_text"),
        Metadata("event-timestamp", "TIMESTAMP_LTZ(6)", "op_ts", "STRING", "from_sql_text"),
    )
    insert_texts = '{"before":null,"after":', ',"op_type":"I"}'
    delete_texts = '{"before":', ',"after":null,"op_type":"D"}'

    def event(self, values: OptionValues, names: tuple[str, ...]) -> Event:
        from stateplan.connectors.formats.change_events import BeforeAfter

        return BeforeAfter(
            op="op_type",
            names={"I": "INSERT", "U": "UPDATE", "D": "DELETE"},
            update="U",
            delete="D",
            expected='{"before": {..} or null, "after": {..} or null, "op_type": "I", "U" or "D"}',
            replica="the whole row before the change (in PostgreSQL: ALTER TABLE ... REPLICA IDENTITY FULL)",
        )


class OpJson(ChangeFormat):
    """Rows as in ``json``, with the kind of the change in a field ``"_op"``: +I, -U, +U or -D.

    It is not one of Flink's: it makes files of a table's changes, upserts among them, without a broker.
    ``op-json.mode`` says which kinds a table has, so what it asks of a query that reads or writes it. The field may
    appear anywhere in the object; a row without it is a +I. It is written first. Keys of maps have any type, also those
    that Flink's ``json`` refuses: a key is the text of its JSON value.
    """

    name = "op-json"
    description = (
        "One JSON object per line, with the row kind (+I, -U, +U or -D) in the field '_op'. This format exists only in "
        "stateplan, because Flink has no format for upserts in files."
    )
    options = (
        Option(
            "mode",
            OptionType.ENUM,
            "Changelog mode: all changes (retract), no -U (upsert), no -U and only keys in -D (upsert-key-delete), or "
            "only +I (append).",
            default="upsert",
            values=("upsert", "upsert-key-delete", "retract", "append"),
            exact=True,
        ),
        *_OPTIONS,
    )
    by_name = False
    text_keys = False
    reserved: ClassVar[Mapping[str, str]] = {"_op": "the kind of the change"}

    def source_mode(self, options: Mapping[str, str]) -> ChangelogMode:
        return MODES[self.values(options)["mode"]]

    def sink_mode(self, options: Mapping[str, str], changelog_mode: ChangelogMode) -> ChangelogMode:
        return self.source_mode(options)

    def key_deletes(self, options: Mapping[str, str]) -> bool:
        return bool(self.values(options)["mode"] == "upsert-key-delete")

    def event(self, values: OptionValues, names: tuple[str, ...]) -> Event:
        from stateplan.connectors.formats.change_events import OpField

        return OpField(len(names), values["mode"])

    def make_encoder(self, values: OptionValues, fields: Fields) -> EncoderOfLines:
        from stateplan.connectors.formats.json_encode import JsonWriter, OpEncoder

        return OpEncoder(JsonWriter.make(values, fields))
