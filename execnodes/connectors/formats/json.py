"""The ``json`` format: one JSON object per line.

Reading takes what Flink's ``JsonRowDataDeserializationSchema`` takes: a missing field is NULL (unless
``json.fail-on-missing-field``), text is accepted for numbers and numbers for text, timestamps are read by
``json.timestamp-format.standard``. A line that cannot be read fails the job naming file, line and column, or with
``json.ignore-parse-errors`` is skipped (not JSON) or gets NULL in the field that cannot be read.

Two things differ from Flink's default reader, on purpose: of two equal keys the last counts, and with
``json.ignore-parse-errors`` a list where a number should be makes only that field NULL (Flink's other reader does both
so; the default one loses its place). TIMESTAMP(7) to (9) reach from 1678 to 2261.

Writing gives what Flink's ``JsonRowDataSerializationSchema`` gives, one object per line.

The options are the rows of :data:`FORMAT`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stateplan.execnodes.changelog import INSERT_ONLY
from stateplan.execnodes.connectors.options import Format, Option, OptionType, Role
from stateplan.execnodes.types import LogicalType

if TYPE_CHECKING:
    from stateplan.execnodes.connectors.formats.base import Decoder, Encoder

TIMESTAMP_FORMAT = Option(
    "timestamp-format.standard",
    OptionType.ENUM,
    "How timestamps are written: 'SQL' is \"yyyy-MM-dd HH:mm:ss.s{precision}\", 'ISO-8601' has a 'T' in the middle.",
    default="SQL",
    values=("SQL", "ISO-8601"),
    exact=True,
)
IGNORE_PARSE_ERRORS = Option(
    "ignore-parse-errors",
    OptionType.BOOLEAN,
    "Skip rows and fields that cannot be read instead of failing; such fields become NULL.",
    default=False,
    role=Role.SOURCE,
)
ENCODE_OPTIONS = (
    Option(
        "map-null-key.mode",
        OptionType.ENUM,
        "What to do with a NULL key of a map: fail, drop the entry, or write 'map-null-key.literal'.",
        default="FAIL",
        values=("FAIL", "DROP", "LITERAL"),
        role=Role.SINK,
    ),
    Option(
        "map-null-key.literal",
        OptionType.STRING,
        "The key written for NULL when 'map-null-key.mode' is LITERAL.",
        default="null",
        role=Role.SINK,
    ),
    Option(
        "encode.decimal-as-plain-number",
        OptionType.BOOLEAN,
        "Write every DECIMAL as a plain number, never in scientific notation.",
        default=False,
        role=Role.SINK,
    ),
    Option(
        "encode.ignore-null-fields",
        OptionType.BOOLEAN,
        "Leave out fields that are NULL.",
        default=False,
        role=Role.SINK,
    ),
)

FORMAT = Format(
    "json",
    "One JSON object per line.",
    (
        Option(
            "fail-on-missing-field",
            OptionType.BOOLEAN,
            "Fail when a field is missing instead of reading NULL.",
            default=False,
            role=Role.SOURCE,
        ),
        IGNORE_PARSE_ERRORS,
        TIMESTAMP_FORMAT,
        Option(
            "decode.json-parser.enabled",
            OptionType.BOOLEAN,
            "Which of Flink's two JSON readers to use.",
            default=True,
            role=Role.SOURCE,
            no_effect="there is one reader here; it reads what both of Flink's read",
        ),
        *ENCODE_OPTIONS,
    ),
    source_changes=INSERT_ONLY,
    sink_changes=INSERT_ONLY,
    extension="json",
    text_keys=True,
)


def make_decoder(
    options: Mapping[str, str],
    fields: Sequence[tuple[str, LogicalType]],
    projection: Sequence[int],
    metadata: Sequence[str] = (),
) -> Decoder:
    """A picklable decoder; see :class:`execnodes.connectors.formats.base.Decoder`.

    Args:
        options: the table's options as written.
        fields: name and type of every physical column of the table.
        projection: positions in ``fields`` of the columns to read, in output order.
        metadata: metadata keys whose values follow the projected columns.
    """
    from stateplan.execnodes.connectors.formats.json_decode import JsonDecoder

    return JsonDecoder.make(options, fields, projection, metadata)


def make_encoder(options: Mapping[str, str], fields: Sequence[tuple[str, LogicalType]]) -> Encoder:
    """A picklable encoder; see :class:`execnodes.connectors.formats.base.Encoder`."""
    from stateplan.execnodes.connectors.formats.json_encode import JsonEncoder

    return JsonEncoder.make(options, fields)
