"""The connectors ``kafka`` and ``upsert-kafka``: topics of Apache Kafka and of brokers that speak its protocol.

The options are the rows of :class:`Kafka` and :class:`UpsertKafka`, with the keys, defaults and rules of Flink's
connectors. :mod:`.source` reads, :mod:`.sink` writes, :mod:`.client` makes the clients.

Source: Flink's ``KafkaDynamicTableFactory``, ``UpsertKafkaDynamicTableFactory`` and ``KafkaConnectorOptions``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from stateplan.common.changelog import INSERT_ONLY, UPSERT, ChangelogMode
from stateplan.common.errors import OptionError, Place
from stateplan.common.options import WATERMARK_OPTIONS, Option, OptionType, Role, alike, options_below, parallelism
from stateplan.connectors.alignment import check_alignment
from stateplan.connectors.datasets import Dataset
from stateplan.connectors.formats.base import Fields, Format
from stateplan.connectors.history import BACKFILL_FROM, BACKFILL_TABLE, IGNORE_GAPS
from stateplan.connectors.kafka.properties import NO_EFFECT, PREFIX, REFUSED_KEYS, check, places_of, programs_of
from stateplan.connectors.kafka.tables import (
    check_bounds,
    check_formats,
    check_group,
    check_sink,
    check_topic,
    layout_of,
    topics_of,
)
from stateplan.connectors.protocol import Connector, Sink, SinkTable, Source, SourceTable

_TEXT, _LONG, _TIME, _ENUM = OptionType.STRING, OptionType.LONG, OptionType.DURATION, OptionType.ENUM
_LIST = OptionType.LIST
_SETTING = "A setting of Kafka's Java client."
_SPECIFIC = "partition:0,offset:42;partition:1,offset:300"

_COMMON = (
    Option(
        "topic",
        _LIST,
        "The topic. A source may read several, separated by `;`. Either this or `topic-pattern` is required.",
    ),
    Option(
        "topic-pattern",
        OptionType.REGEX,
        "Regular expression that the names of the topics of a source match as a whole. Topics that appear later are "
        "read too.",
    ),
    Option(
        f"{PREFIX}bootstrap.servers",
        _TEXT,
        "Addresses of brokers, `host:port`, separated by commas.",
        is_required=True,
    ),
    Option(
        "key.fields-prefix",
        _TEXT,
        "Prefix of the names of the key's columns in the table. The names in the key do not have it. Needs "
        "`value.fields-include` = `EXCEPT_KEY`.",
    ),
    Option(
        "value.fields-include",
        _ENUM,
        "Whether the value also has the columns of the key.",
        default="ALL",
        values=("ALL", "EXCEPT_KEY"),
    ),
)

_BOUNDS = alike(
    Option(
        "scan.bounded.mode",
        _ENUM,
        "Where a source ends. The end is determined when the job starts.",
        default="unbounded",
        values=("unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets"),
    ),
    Option(
        "scan.bounded.specific-offsets",
        _TEXT,
        f"End of each partition for the mode `specific-offsets`: `{_SPECIFIC}`. The offsets themselves are not read.",
    ),
    Option(
        "scan.bounded.timestamp-millis",
        _LONG,
        "End for the mode `timestamp`, ms since 1970. Reading ends before the first message of that time or later.",
        minimum=0,
    ),
    parallelism(Role.SOURCE, "partitions are spread over the tasks of the job, and large ones over several"),
    Option(
        "scan.max-rows-per-batch",
        _LONG,
        "Maximum number of messages of a micro-batch. An option of stateplan.",
        minimum=1,
    ),
    Option(
        "scan.max-bytes-per-batch",
        OptionType.MEMORY_SIZE,
        "Maximum number of bytes of a micro-batch, estimated from the size of recent messages. An option of stateplan.",
        default=256 << 20,
        minimum=1,
    ),
    Option(
        "scan.min-rows-per-batch",
        _LONG,
        "Number of messages for which a micro-batch waits, at most for `scan.max-batch-delay`. It has no effect on "
        "a bounded source. An option of stateplan, as Spark's `minOffsetsPerTrigger`.",
        minimum=1,
    ),
    Option(
        "scan.max-batch-delay",
        _TIME,
        "Maximum time after the previous micro-batch to wait for `scan.min-rows-per-batch`. An option "
        "of stateplan, as Spark's `maxTriggerDelay`.",
        default=900_000,
        minimum=1,
    ),
    role=Role.SOURCE,
)

_STARTS = alike(
    Option(
        "scan.startup.mode",
        _ENUM,
        "Where a source begins when the job has no checkpoint.",
        default="group-offsets",
        values=("group-offsets", "earliest-offset", "latest-offset", "timestamp", "specific-offsets"),
    ),
    Option(
        "scan.startup.specific-offsets",
        _TEXT,
        f"Begin of each partition for the mode `specific-offsets`: `{_SPECIFIC}`. Other partitions begin at the "
        "offset of the group, else at their first message.",
    ),
    Option(
        "scan.startup.timestamp-millis",
        _LONG,
        "Begin for the mode `timestamp`, ms since 1970.",
        minimum=0,
    ),
    role=Role.SOURCE,
)

_DISCOVERY = Option(
    "scan.topic-partition-discovery.interval",
    _TIME,
    "How often to look for new topics and partitions, which are read from their first message. `0` is never.",
    default=300_000,
    role=Role.SOURCE,
)

_GROUP = Option(
    f"{PREFIX}group.id",
    _TEXT,
    "The consumer group, for its offsets. They are committed after each micro-batch, unless "
    "`properties.commit.offsets.on.checkpoint` is `false`. The job itself continues from its checkpoint.",
    role=Role.SOURCE,
)

_SINKS = alike(
    Option(
        "sink.delivery-guarantee",
        _ENUM,
        "Guarantee for written messages if the job fails.",
        default="at-least-once",
        values=("exactly-once", "at-least-once", "none"),
    ),
    Option(
        "sink.transactional-id-prefix",
        _TEXT,
        "Prefix of the id of the transactions. Required for `exactly-once`.",
    ),
    Option(
        "sink.transaction-naming-strategy",
        _ENUM,
        "How transactional ids are named.",
        default="DEFAULT",
        values=("DEFAULT", "INCREMENTING", "POOLING"),
        no_effect="a sink has one transactional id",
    ),
    parallelism(Role.SINK, "the number of writers depends on the partitions of the micro-batch"),
    role=Role.SINK,
)

_PROPERTIES = (
    *(Option(PREFIX + name, _TEXT, _SETTING, no_effect=reason) for name, reason in NO_EFFECT.items()),
    *(Option(PREFIX + name, _TEXT, _SETTING, only_default=reason) for name, reason in REFUSED_KEYS.items()),
    Option(
        f"{PREFIX}*",
        _TEXT,
        "Any setting of Kafka's consumer or producer, or of librdkafka. Settings with another name in librdkafka are "
        "translated.",
    ),
)

_METADATA = (
    ("topic", "STRING NOT NULL"),
    ("partition", "INT NOT NULL"),
    ("headers", "MAP<STRING, BYTES> NOT NULL"),
    ("leader-epoch", "INT"),
    ("offset", "BIGINT NOT NULL"),
    ("timestamp", "TIMESTAMP_LTZ(3) NOT NULL"),
    ("timestamp-type", "STRING NOT NULL"),
)


class _Topics(Connector):
    """What both connectors have in common."""

    messaging_system = "kafka"

    roles = (Role.SOURCE, Role.SINK)
    formatted = True
    key_format = "key.format"
    abilities = frozenset({"ProjectPushDown", "ReadingMetadata", "WatermarkPushDown"})
    metadata = _METADATA
    writable = (("headers", "MAP<STRING, BYTES>"), ("timestamp", "TIMESTAMP_LTZ(3)"))
    keeps_invalid = True
    history_gap = None
    upsert = False

    def takes_format(self, fmt: Format, role: Role) -> bool:
        return fmt.has_messages

    def writable_metadata(self, options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        return self.writable if len(topics_of(options)) == 1 else (("topic", "STRING NOT NULL"), *self.writable)

    def is_bounded(self, options: Mapping[str, str]) -> bool:
        return options.get("scan.bounded.mode", "unbounded").lower() != "unbounded"

    def until_now(self, options: Mapping[str, str]) -> Mapping[str, str]:
        return options if self.is_bounded(options) else {**options, "scan.bounded.mode": "latest-offset"}

    def places(self, options: Mapping[str, str]) -> Iterator[str]:
        return places_of(options_below(options, PREFIX))

    def programs(self, options: Mapping[str, str]) -> Iterator[str]:
        return programs_of(options_below(options, PREFIX))

    def identity(self, options: Mapping[str, str]) -> Mapping[str, str] | None:
        topic_options = {key: options[key] for key in ("topic", "topic-pattern") if key in options}
        with suppress(OptionError):
            return (
                {**topic_options, "topic": ";".join(sorted(topics_of(options)))}
                if "topic" in topic_options
                else topic_options
            )
        return topic_options

    def datasets(self, options: Mapping[str, str]) -> tuple[Dataset, ...]:
        servers = options.get(f"{PREFIX}bootstrap.servers", "")
        topics: Sequence[str] = ()
        with suppress(OptionError):
            topics = topics_of(options) or tuple(filter(None, (options.get("topic-pattern"),)))
        first = servers.split(",")[0].strip().rpartition("@")[2]
        return tuple(Dataset(f"{self.messaging_system}://{first}", topic) for topic in topics) if first else ()

    def position(self, options: Mapping[str, str]) -> Mapping[str, str]:
        start = {key: text for key, text in options.items() if key.startswith("scan.startup.")}
        return {"scan.startup.mode": "group-offsets", **(self.identity(options) or {}), **start}

    def check_schema(self, options: Mapping[str, str], fields: Fields, place: Place | None) -> None:
        servers = f"{PREFIX}bootstrap.servers"
        if "@" in options.get(servers, ""):
            login = [f"{PREFIX}sasl.username", f"{PREFIX}sasl.password"]
            raise OptionError("OPT147.user", key=servers, options=login, place=place)
        check(options_below(options, PREFIX), place)

    def check_role(self, options: Mapping[str, str], role: Role, place: Place | None) -> None:
        check_topic(options, place)
        if role is Role.SOURCE:
            check_alignment(options, place)
            check_bounds(options, not self.upsert, place)
        else:
            check_sink(options, place)

    def check_keys(
        self,
        options: Mapping[str, str],
        fields: Fields,
        primary_key: Sequence[str],
        formats: tuple[Format | None, Format | None],
        place: Place | None,
    ) -> None:
        check_formats(self.name, primary_key, formats, place)
        layout_of(options, fields, primary_key if self.upsert else (), place)

    def source(self, table: SourceTable) -> Source[Any]:
        from stateplan.connectors.kafka.source import KafkaSource

        check_group(table.options, not self.upsert)
        return KafkaSource.of(table, self.upsert)

    def sink(self, table: SinkTable) -> Sink:
        from stateplan.connectors.kafka.sink import KafkaSink

        return KafkaSink.of(table, self.upsert)


class Kafka(_Topics):
    """Topics whose messages are rows, or changes in a format of changes."""

    name = "kafka"
    description = "Topics of Apache Kafka. Each message is a row, or a change with formats of change events."
    format_keys = ("format", "value.format")
    options = (
        *_COMMON[:3],
        _GROUP,
        Option("key.fields", _LIST, "Columns that the key of a message has, separated by `;`. Needs `key.format`."),
        *_COMMON[3:],
        BACKFILL_FROM,
        BACKFILL_TABLE,
        IGNORE_GAPS,
        *_STARTS,
        *_BOUNDS,
        _DISCOVERY,
        *WATERMARK_OPTIONS,
        Option(
            "sink.partitioner",
            _ENUM,
            "Which partition a message goes to. `default`: by the hash of its key, as Kafka's own producer. `fixed`: "
            "each writer writes to one partition. `round-robin`: to all in turn; not with `key.fields`.",
            default="default",
            values=("default", "fixed", "round-robin"),
            role=Role.SINK,
        ),
        *_SINKS,
        *_PROPERTIES,
    )


class UpsertKafka(_Topics):
    """Topics whose messages say what the row of a key is now; a message without a value says that there is none."""

    name = "upsert-kafka"
    description = (
        "Topics of Apache Kafka whose messages are the rows of a table with a primary key: a message replaces the row "
        "of its key, and a message without a value deletes it. A source reads from the first message."
    )
    format_keys = ("value.format",)
    own_changes = True
    upsert = True
    options = (
        *_COMMON[:3],
        _GROUP,
        *_COMMON[3:],
        BACKFILL_FROM,
        *_BOUNDS,
        *WATERMARK_OPTIONS,
        *alike(
            Option(
                "sink.buffer-flush.max-rows",
                OptionType.INTEGER,
                "How many messages a writer keeps at most before it writes them.",
                default=0,
                minimum=0,
            ),
            Option("sink.buffer-flush.interval", _TIME, "How long a writer keeps messages at most.", default=0),
            role=Role.SINK,
            no_effect="of each key the last change of a micro-batch is written",
        ),
        *_SINKS,
        *_PROPERTIES,
    )

    def takes_format(self, fmt: Format, role: Role) -> bool:
        able = fmt.source_changes if role is Role.SOURCE else fmt.sink_changes
        return fmt.has_messages and able == INSERT_ONLY

    def source_mode(self, options: Mapping[str, str]) -> ChangelogMode:
        return UPSERT - INSERT_ONLY

    def sink_mode(self, options: Mapping[str, str], changelog_mode: ChangelogMode) -> ChangelogMode:
        return UPSERT

    def gives_key_deletes(self, options: Mapping[str, str]) -> bool:
        return True

    def takes_key_deletes(self, options: Mapping[str, str]) -> bool:
        return True

    def check_schema(self, options: Mapping[str, str], fields: Fields, place: Place | None) -> None:
        if "key.format" not in options:
            raise OptionError("OPT137.format", place=place)
        super().check_schema(options, fields, place)
