"""The ``maxwell-json`` format: change events as Maxwell writes them, one JSON object per line.

``{"data": {..}, "old": {..}, "type": "insert" | "update" | "delete"}``: ``data`` is read as +I, as -D, or as +U with
``old`` before it as -U, whose missing fields are as they are in ``data``. Rows are written as Flink writes them: +I and
+U as an event insert, -U and -D as one delete.

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
    "maxwell-json",
    "Change events as Maxwell writes them, one JSON object per line.",
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
        ("database", "STRING"),
        ("table", "STRING"),
        ("primary-key-columns", "ARRAY<STRING>"),
        ("ingestion-timestamp", "TIMESTAMP_LTZ(3)"),
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
    from execnodes.connectors.formats import maxwell_decode
    from execnodes.connectors.formats.changes import ChangeDecoder

    return ChangeDecoder.make(maxwell_decode.EVENTS, options, fields, projection, metadata)


def make_encoder(options: Mapping[str, str], fields: Sequence[tuple[str, LogicalType]]) -> Encoder:
    """A picklable encoder of frames with or without ``kind``; see
    :class:`execnodes.connectors.formats.base.Encoder`."""
    from execnodes.connectors.formats.json_encode import EventEncoder

    return EventEncoder.make(FORMAT, options, fields)
