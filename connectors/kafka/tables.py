"""The rules for the options of Kafka tables, and what they say: topics, where a source begins and ends, how much a
micro-batch reads, and which columns are in the key and in the value of a message.

Source: Flink's ``KafkaConnectorOptionsUtil``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field

from stateplan.common.changelog import INSERT_ONLY
from stateplan.common.errors import OptionError, Place, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import list_of
from stateplan.connectors.formats.base import Fields, Format
from stateplan.connectors.kafka.properties import PREFIX
from stateplan.connectors.protocol import SourceTable

START, END = "scan.startup", "scan.bounded"
"""What the options begin with that say where a source begins, and where it ends."""

_PAIR = re.compile(r"partition:([0-9]{1,9}),offset:(-?[0-9]+)")
_LARGEST = (1 << 63) - 1
_EXPECTED = {"timestamp-millis": "milliseconds since 1970", "specific-offsets": "partition:0,offset:42;..."}


def topics_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """The topics that a table names; empty for a table with a pattern. Raises OptionError OPT105."""
    return list_of(options, "topic")


def check_topic(options: Mapping[str, str], place: Place | None) -> None:
    """Checks that a table has topics, or a pattern. Raises OptionError OPT105, OPT133."""
    if "topic" not in options:
        if "topic-pattern" not in options:
            raise OptionError("OPT133.none", place=place)
        return
    if "topic-pattern" in options:
        raise OptionError("OPT133", place=place)
    topics = topics_of(options)
    if not topics or not all(topics):
        raise OptionError("OPT133.empty", text=options["topic"], place=place)


def check_formats(
    connector: str,
    primary_key: Sequence[str],
    formats: tuple[Format | None, Format | None],
    place: Place | None,
) -> None:
    """Checks the formats of a table against its primary key. Raises OptionError OPT137, OPT138."""
    value, key = formats
    if key is not None and INSERT_ONLY not in (key.source_changes, key.sink_changes):
        raise OptionError("OPT138", key="key.format", format=key.name, place=place)
    if connector == "upsert-kafka":
        if not primary_key:
            raise OptionError("OPT137", place=place)
    elif primary_key and value is not None and value.source_mode({}) == INSERT_ONLY:
        raise OptionError("OPT137.kafka", format=value.name, place=place)


def check_bounds(options: Mapping[str, str], begins: bool, place: Place | None) -> None:
    """Checks where a source begins and ends.

    Args:
        options: the options of the table.
        begins: whether its options say where it begins.
        place: the place of the table.

    Raises:
        OptionError: OPT134, an option is missing or malformed.
    """
    for prefix in _prefixes(begins):
        mode = mode_of(options, prefix)
        needed_option = {"timestamp": "timestamp-millis", "specific-offsets": "specific-offsets"}.get(mode)
        if needed_option is None:
            continue
        key = f"{prefix}.{needed_option}"
        if key not in options:
            expectation = _EXPECTED[needed_option]
            raise OptionError(
                "OPT134", mode=f"{prefix}.mode", value=mode, key=key, expectation=expectation, place=place
            )
        if needed_option == "specific-offsets":
            if len(topics_of(options)) != 1:
                raise OptionError("OPT134.topics", mode=f"{prefix}.mode", place=place)
            specific_offsets(options, key, place)


def check_group(options: Mapping[str, str], begins: bool) -> None:
    """Checks that there is a group where a source begins or ends at its offsets. Flink compiles plans without one.

    Args:
        options: the options of the table.
        begins: whether its options say where it begins.

    Raises:
        OptionError: OPT136.
    """
    for prefix in _prefixes(begins):
        if mode_of(options, prefix) == "group-offsets" and not options.get(f"{PREFIX}group.id"):
            hint = (
                "'scan.startup.mode' = 'earliest-offset' reads the topic from its beginning"
                if prefix == START
                else None
            )
            raise OptionError("OPT136", mode=f"{prefix}.mode", hint=hint)


def _prefixes(begins: bool) -> tuple[str, ...]:
    return (START, END) if begins else (END,)


def mode_of(options: Mapping[str, str], prefix: str) -> str:
    """Where a source begins (:data:`START`) or ends (:data:`END`)."""
    default = "group-offsets" if prefix == START else "unbounded"
    return options.get(f"{prefix}.mode", default).lower()


def specific_offsets(options: Mapping[str, str], key: str, place: Place | None = None) -> dict[int, int]:
    """Partition to offset, of an option of the form ``partition:0,offset:42;partition:1,offset:300``. Raises
    OptionError OPT134."""
    offsets: dict[int, int] = {}
    for pair in options[key].rstrip(";").split(";"):
        match = _PAIR.fullmatch(pair)
        if match is None or int(match[2]) > _LARGEST:
            raise OptionError("OPT134.form", text=options[key], key=key, place=place)
        if match[2].startswith("-"):
            raise OptionError("OPT134.negative", partition=match[1], offset=match[2], key=key, place=place)
        offsets[int(match[1])] = int(match[2])
    return offsets


@dataclass(frozen=True)
class Bound:
    """Where a source begins, or ends.

    Attributes:
        mode: the value of ``scan.startup.mode`` or ``scan.bounded.mode``.
        millis: ms since 1970, for the mode ``timestamp``.
        offsets: partition to offset, for ``specific-offsets``.
    """

    mode: str
    millis: int = 0
    offsets: Mapping[int, int] = field(default_factory=dict)

    @staticmethod
    def of(options: Mapping[str, str], prefix: str) -> Bound:
        """What the options of a table say that begin with ``prefix``, and that have been checked."""
        mode, key = mode_of(options, prefix), f"{prefix}.specific-offsets"
        if mode == "timestamp":
            return Bound(mode, int(options[f"{prefix}.timestamp-millis"]))
        return Bound(mode, offsets=specific_offsets(options, key) if mode == "specific-offsets" else {})


@dataclass(frozen=True)
class Limits:
    """The limits of a micro-batch.

    Attributes:
        max_rows: messages at most; None for any number.
        max_bytes: bytes at most, about.
        min_rows: messages at least; None for any number.
        max_delay: how many seconds after the one before it no longer waits for ``min_rows``.

    Source: Spark's ``maxOffsetsPerTrigger``, ``minOffsetsPerTrigger`` and ``maxTriggerDelay``.
    """

    max_rows: int | None
    max_bytes: int
    min_rows: int | None
    max_delay: float

    @staticmethod
    def of(table: SourceTable) -> Limits:
        """Those of a table, whose options have been checked."""
        return Limits(
            table.value("scan.max-rows-per-batch"),
            table.value("scan.max-bytes-per-batch"),
            table.value("scan.min-rows-per-batch"),
            table.value("scan.max-batch-delay") / 1000,
        )

    def waits(self, rows: int, since: float | None, idle_timeout: float) -> bool:
        """Whether a micro-batch waits for more messages.

        Args:
            rows: messages that there are.
            since: seconds since the last micro-batch; None before the first one.
            idle_timeout: seconds; 0 for never. No partition with messages may become idle meanwhile.
        """
        if self.min_rows is None or rows >= self.min_rows or since is None:
            return False
        return since < (min(self.max_delay, idle_timeout / 2) if idle_timeout else self.max_delay)


@dataclass(frozen=True)
class Layout:
    """Where the columns of a table are in its messages.

    Source: Flink's ``KafkaConnectorOptionsUtil.createKeyFormatProjection`` and ``createValueFormatProjection``.

    Attributes:
        key: positions of the columns in the key, in the order of the key.
        value: the same of the value.
        prefix: the prefix that the names of the columns in the key have in the table, and not in the key.
    """

    key: tuple[int, ...]
    value: tuple[int, ...]
    prefix: str = ""

    def key_fields(self, fields: Fields) -> Fields:
        """Name and type of the fields of a key.

        Args:
            fields: the physical columns of the table.
        """
        return tuple((fields[i][0].removeprefix(self.prefix), fields[i][1]) for i in self.key)

    def value_fields(self, fields: Fields) -> Fields:
        """The same of a value."""
        return tuple(fields[i] for i in self.value)


def layout_of(
    options: Mapping[str, str], fields: Fields, primary_key: Sequence[str] = (), place: Place | None = None
) -> Layout:
    """The layout of a table.

    Args:
        options: the options of the table, as written.
        fields: its physical columns.
        primary_key: for a table whose key is its primary key, as with ``upsert-kafka``.
        place: the place of the table.

    Raises:
        OptionError: OPT140, the options of the key do not go together, or do not fit the columns; OPT105.
    """
    names = [name for name, _ in fields]
    prefix = options.get("key.fields-prefix", "")
    key_names = list(primary_key) or list(list_of(options, "key.fields"))
    if "key.format" not in options:
        if "key.fields" in options:
            raise OptionError("OPT140", key="key.fields", what="the format of the key", place=place)
        key_names = []
    elif not key_names:
        raise OptionError("OPT140", key="key.format", what="the columns of the key", place=place)
    for name in key_names:
        if name not in names:
            raise OptionError("OPT140.unknown", name=name, names=names, place=place, hint=nearest(name, names))
        if not name.startswith(prefix):
            raise OptionError("OPT140.prefix", name=name, prefix=prefix, place=place)
    key = tuple(map(names.index, key_names))
    everything = options.get("value.fields-include", "ALL").upper() == "ALL"
    if everything and prefix:
        raise OptionError("OPT140", key="key.fields-prefix", what="values without the columns of the key", place=place)
    value = tuple(i for i in range(len(names)) if everything or i not in key)
    return Layout(key, value, prefix)


def check_sink(options: Mapping[str, str], place: Place | None = None) -> None:
    """Checks the options of a table that is written.

    Args:
        options: of the table, as written.
        place: where it is written.

    Raises:
        OptionError: OPT141, transactions without a name; OPT142, a partitioner that does not suit keys; OPT143, a
            setting that contradicts exactly-once.
    """
    if options.get("sink.partitioner") == "round-robin" and "key.fields" in options:
        raise OptionError("OPT142", place=place)
    if options.get("sink.delivery-guarantee", "").lower() != "exactly-once":
        return
    if not options.get("sink.transactional-id-prefix"):
        raise OptionError("OPT141", place=place)
    for key, text in options.items():
        name = key.removeprefix(PREFIX)
        safe = text.lower() in ("true", "all", "-1")
        if name in ("enable.idempotence", "acks", "request.required.acks") and not safe:
            raise OptionError("OPT143", key=name, text=text, place=place)
