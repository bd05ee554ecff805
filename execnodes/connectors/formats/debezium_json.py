"""The ``debezium-json`` format: one change event per line, ``{"before": .., "after": .., "op": "c"|"r"|"u"|"d"}``.

``c`` and ``r`` are read as +I, ``u`` as -U and +U, ``d`` as -D. With ``debezium-json.schema-include`` the event is
found under ``payload``. Rows are written as Flink writes them: +I and +U as an event with op ``c``, -U and -D as one
with op ``d``.

The options are the rows of :data:`FORMAT`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from execnodes.changelog import RETRACT
from execnodes.connectors.formats.json import ENCODE_OPTIONS, IGNORE_PARSE_ERRORS, TIMESTAMP_FORMAT
from execnodes.connectors.options import Format, Option, OptionType, Role
from execnodes.types import LogicalType

if TYPE_CHECKING:
    from execnodes.connectors.formats.base import Decoder, Encoder

__all__ = ["FORMAT", "make_decoder", "make_encoder"]

FORMAT = Format(
    "debezium-json",
    "Change events as Debezium writes them, one JSON object per line.",
    (
        Option(
            "schema-include",
            OptionType.BOOLEAN,
            "Whether events come with their schema, under 'payload'.",
            default=False,
            role=Role.SOURCE,
        ),
        IGNORE_PARSE_ERRORS,
        TIMESTAMP_FORMAT,
        *ENCODE_OPTIONS,
    ),
    source_changes=RETRACT,
    sink_changes=RETRACT,
    extension="json",
    text_keys=True,
)


def make_decoder(
    options: Mapping[str, str],
    fields: Sequence[tuple[str, LogicalType]],
    projection: Sequence[int],
    metadata: Sequence[str] = (),
) -> Decoder:
    """A picklable decoder whose frames have ``kind``; arguments as in
    :func:`execnodes.connectors.formats.json.make_decoder`."""
    from execnodes.connectors.formats import debezium_decode
    from execnodes.connectors.formats.changes import ChangeDecoder

    return ChangeDecoder.make(debezium_decode.EVENTS, options, fields, projection, metadata)


def make_encoder(options: Mapping[str, str], fields: Sequence[tuple[str, LogicalType]]) -> Encoder:
    """A picklable encoder of frames with or without ``kind``; see
    :class:`execnodes.connectors.formats.base.Encoder`."""
    from execnodes.connectors.formats.json_encode import EventEncoder

    return EventEncoder.make(FORMAT, options, fields)
