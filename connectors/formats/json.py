"""The ``json`` format: one JSON object per line.

Reading takes what Flink's ``JsonRowDataDeserializationSchema`` takes: a missing field is NULL (unless
``json.fail-on-missing-field``), text is accepted for numbers and numbers for text, timestamps are read by
``json.timestamp-format.standard``. A line that cannot be read fails the job naming file, line and column, or with
``json.ignore-parse-errors`` is skipped (not JSON) or gets NULL in the field that cannot be read.

Two things differ from Flink's default reader, on purpose: of two equal keys the last counts, and with
``json.ignore-parse-errors`` a list where a number should be makes only that field NULL (Flink's other reader does both
so; the default one loses its place).

Writing gives what Flink's ``JsonRowDataSerializationSchema`` gives, one object per line.

The options are the rows of :class:`JsonFormat`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stateplan.common.options import Option, OptionType, OptionValues, Role, alike, flag
from stateplan.common.types import LogicalType
from stateplan.connectors.formats.base import (
    ERRORS_TABLE,
    IGNORE_PARSE_ERRORS,
    DecoderOfLines,
    EncoderOfLines,
    Fields,
    LineFormat,
    StampedDecoder,
)

TIMESTAMP_FORMAT = Option(
    "timestamp-format.standard",
    OptionType.ENUM,
    "Format of timestamps: 'SQL' is \"yyyy-MM-dd HH:mm:ss.s{precision}\", and 'ISO-8601' has a 'T' between date and "
    "time.",
    default="SQL",
    values=("SQL", "ISO-8601"),
    exact=True,
)
ENCODE_OPTIONS = alike(
    Option(
        "map-null-key.mode",
        OptionType.ENUM,
        "How to write a NULL key of a map: fail, drop the entry, or write 'map-null-key.literal'.",
        default="FAIL",
        values=("FAIL", "DROP", "LITERAL"),
    ),
    Option(
        "map-null-key.literal",
        OptionType.STRING,
        "Text for a NULL key if 'map-null-key.mode' is LITERAL.",
        default="null",
    ),
    flag("encode.decimal-as-plain-number", "Whether to write DECIMAL values without scientific notation."),
    flag("encode.ignore-null-fields", "Whether to omit NULL fields."),
    role=Role.SINK,
)


class JsonFormat(LineFormat):
    """One JSON object per line."""

    name = "json"
    description = "One JSON object per line."
    options = (
        flag("fail-on-missing-field", "Whether a missing field is an error instead of NULL.", Role.SOURCE),
        IGNORE_PARSE_ERRORS,
        ERRORS_TABLE,
        TIMESTAMP_FORMAT,
        flag(
            "decode.json-parser.enabled",
            "Which of Flink's two JSON parsers to use.",
            Role.SOURCE,
            default=True,
            no_effect="stateplan has one parser, which accepts the input of both",
        ),
        *ENCODE_OPTIONS,
    )
    extension = "json"
    text_keys = True
    by_name = True
    is_lines = True
    exclusive = (("json.fail-on-missing-field", "json.ignore-parse-errors"),)

    def leaves_out(self, options: Mapping[str, str]) -> bool:
        return not self.values(options)["fail-on-missing-field"]

    def make_decoder(
        self, values: OptionValues, fields: Fields, projection: Sequence[int], metadata: Sequence[str]
    ) -> DecoderOfLines:
        from stateplan.connectors.formats.json_decode import RowDecoder

        return RowDecoder.of_rows(self.name, values, [fields[i] for i in projection], metadata)

    def stamped_decoder(
        self, options: Mapping[str, str], fields: Fields, projection: Sequence[int], stamp: tuple[str, LogicalType]
    ) -> StampedDecoder:
        from stateplan.connectors.formats.json_decode import RowDecoder

        return RowDecoder.of_rows(self.name, self.values(options), [fields[i] for i in projection], (), stamp)

    def make_encoder(self, values: OptionValues, fields: Fields) -> EncoderOfLines:
        from stateplan.connectors.formats.json_encode import JsonEncoder, JsonWriter

        return JsonEncoder(JsonWriter.make(values, fields))
