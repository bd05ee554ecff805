"""The rules for the options of Kafka tables, and what they say: topics, where a source begins and where it ends.

Source: Flink's ``KafkaConnectorOptionsUtil``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stateplan.execnodes.changelog import INSERT_ONLY
from stateplan.execnodes.connectors.formats.base import Format
from stateplan.execnodes.connectors.kafka.properties import PREFIX
from stateplan.execnodes.errors import OptionError, Place

START, END = "scan.startup", "scan.bounded"
"""What the options begin with that say where a source begins, and where it ends."""

_EXPECTED = {"timestamp-millis": "milliseconds since 1970", "specific-offsets": "partition:0,offset:42;..."}


def topics_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """The topics that a table names; empty for a table with a pattern."""
    return tuple(options["topic"].split(";")) if "topic" in options else ()


def check_topic(options: Mapping[str, str], place: Place | None) -> None:
    """Checks that a table has topics, or a pattern. Raises OptionError OPT133."""
    topics = topics_of(options)
    if topics and "topic-pattern" in options:
        raise OptionError("OPT133", place=place)
    if not topics and "topic-pattern" not in options:
        raise OptionError("OPT133.none", place=place)
    if not all(topics):
        raise OptionError("OPT133.empty", text=options["topic"], place=place)


def check_formats(
    connector: str,
    options: Mapping[str, str],
    primary_key: Sequence[str],
    formats: tuple[Format | None, Format | None],
    place: Place | None,
) -> None:
    """Checks that formats and primary key of a table go together. Raises OptionError OPT137, OPT138."""
    value, key = formats
    if key is not None and INSERT_ONLY not in (key.source_changes, key.sink_changes):
        raise OptionError("OPT138", key="key.format", format=key.name, place=place)
    if connector == "upsert-kafka":
        if not primary_key:
            raise OptionError("OPT137", place=place)
    elif primary_key and value is not None and value.source_mode({}) == INSERT_ONLY:
        raise OptionError("OPT137.kafka", format=value.name, place=place)


def check_bounds(options: Mapping[str, str], begins: bool) -> None:
    """Checks where a source begins and ends.

    Args:
        options: of the table.
        begins: whether its options say where it begins.

    Raises:
        OptionError: OPT134, an option is missing or malformed; OPT136, there is no group.
    """
    for prefix in (START, END) if begins else (END,):
        mode = mode_of(options, prefix)
        if mode == "group-offsets" and not options.get(f"{PREFIX}group.id"):
            raise OptionError("OPT136.start" if prefix == START else "OPT136", mode=f"{prefix}.mode")
        needed = {"timestamp": "timestamp-millis", "specific-offsets": "specific-offsets"}.get(mode)
        if needed is None:
            continue
        key = f"{prefix}.{needed}"
        if key not in options:
            raise OptionError("OPT134", mode=f"{prefix}.mode", value=mode, key=key, expectation=_EXPECTED[needed])
        if needed == "specific-offsets":
            if len(topics_of(options)) != 1:
                raise OptionError("OPT134.topics", mode=f"{prefix}.mode")
            specific_offsets(options, key)


def mode_of(options: Mapping[str, str], prefix: str) -> str:
    """Where a source begins (:data:`START`) or ends (:data:`END`)."""
    default = "group-offsets" if prefix == START else "unbounded"
    return options.get(f"{prefix}.mode", default).lower()


def specific_offsets(options: Mapping[str, str], key: str) -> dict[int, int]:
    """Partition to offset, of an option of the form ``partition:0,offset:42;partition:1,offset:300``. Raises
    OptionError OPT134."""
    found: dict[int, int] = {}
    for pair in options[key].split(";"):
        partition, _, offset = pair.partition(",")
        number, at = partition.removeprefix("partition:"), offset.removeprefix("offset:")
        if f"partition:{number},offset:{at}" != pair or not number.isdecimal() or not at.lstrip("-").isdecimal():
            raise OptionError("OPT134.form", text=options[key], key=key)
        found[int(number)] = int(at)
    return found
