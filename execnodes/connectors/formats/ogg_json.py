"""The ``ogg-json`` format: change events as Oracle GoldenGate writes them, one JSON object per line.

``{"before": {..}, "after": {..}, "op_type": "I" | "U" | "D"}``: ``I`` is read as +I, ``U`` as -U and +U, ``D`` as -D.
Rows are written as Flink writes them: +I and +U as an event I, -U and -D as one D.

The options are the rows of :data:`FORMAT`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from execnodes.changelog import RETRACT
from execnodes.connectors.formats.json import ENCODE_OPTIONS, IGNORE_PARSE_ERRORS, TIMESTAMP_FORMAT
from execnodes.connectors.options import Format
from execnodes.types import LogicalType

if TYPE_CHECKING:
    from execnodes.connectors.formats.base import Decoder, Encoder

__all__ = ["FORMAT", "make_decoder", "make_encoder"]

FORMAT = Format(
    "ogg-json",
    "Change events as Oracle GoldenGate writes them, one JSON object per line.",
    (
        IGNORE_PARSE_ERRORS,
        TIMESTAMP_FORMAT,
        *ENCODE_OPTIONS,
    ),
    source_changes=RETRACT,
    sink_changes=RETRACT,
    extension="json",
    text_keys=True,
    metadata=(
        ("table", "STRING"),
        ("primary-keys", "ARRAY<STRING>"),
        ("ingestion-timestamp", "TIMESTAMP_LTZ(6)"),
        ("event-timestamp", "TIMESTAMP_LTZ(6)"),
    ),
)


def make_decoder(
    options: Mapping[str, str],
    fields: Sequence[tuple[str, LogicalType]],
    projection: Sequence[int],
    metadata: Sequence[str] = (),
) -> Decoder:
    """A picklable decoder whose frames have ``kind``; arguments as in
    :func:`execnodes.connectors.formats.json.make_decoder`."""
    from execnodes.connectors.formats import ogg_decode
    from execnodes.connectors.formats.changes import ChangeDecoder

    return ChangeDecoder.make(ogg_decode.EVENTS, options, fields, projection, metadata)


def make_encoder(options: Mapping[str, str], fields: Sequence[tuple[str, LogicalType]]) -> Encoder:
    """A picklable encoder of frames with or without ``kind``; see
    :class:`execnodes.connectors.formats.base.Encoder`."""
    from execnodes.connectors.formats.json_encode import EventEncoder

    return EventEncoder.make(FORMAT, options, fields)
