"""The rules for the options of Kafka tables, and what they say: topics, where a source begins and where it ends.

Source: Flink's ``KafkaConnectorOptionsUtil``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from stateplan.common.changelog import INSERT_ONLY
from stateplan.common.errors import OptionError, Place
from stateplan.common.options import list_of
from stateplan.connectors.formats.base import Format
from stateplan.connectors.kafka.properties import PREFIX

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


def check_bounds(options: Mapping[str, str], begins: bool, place: Place | None) -> None:
    """Checks where a source begins and ends.

    Args:
        options: of the table.
        begins: whether its options say where it begins.
        place: of the table.

    Raises:
        OptionError: OPT134, an option is missing or malformed.
    """
    for prefix in _prefixes(begins):
        mode = mode_of(options, prefix)
        needed = {"timestamp": "timestamp-millis", "specific-offsets": "specific-offsets"}.get(mode)
        if needed is None:
            continue
        key = f"{prefix}.{needed}"
        if key not in options:
            expectation = _EXPECTED[needed]
            raise OptionError(
                "OPT134", mode=f"{prefix}.mode", value=mode, key=key, expectation=expectation, place=place
            )
        if needed == "specific-offsets":
            if len(topics_of(options)) != 1:
                raise OptionError("OPT134.topics", mode=f"{prefix}.mode", place=place)
            specific_offsets(options, key, place)


def check_group(options: Mapping[str, str], begins: bool) -> None:
    """Checks that there is a group where a source begins or ends at its offsets. Flink compiles plans without one.

    Args:
        options: of the table.
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
    found: dict[int, int] = {}
    for pair in options[key].rstrip(";").split(";"):
        match = _PAIR.fullmatch(pair)
        if match is None or int(match[2]) > _LARGEST:
            raise OptionError("OPT134.form", text=options[key], key=key, place=place)
        if match[2].startswith("-"):
            raise OptionError("OPT134.negative", partition=match[1], offset=match[2], key=key, place=place)
        found[int(match[1])] = int(match[2])
    return found
