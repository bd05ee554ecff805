"""The ``csv`` format: RFC 4180 with Flink's options (``CsvFormatFactory``).

Fields are matched by position; there is no header line. Without ``csv.null-literal`` an empty field is the empty
string for text and an error for every other type. A line that cannot be read fails the job naming file, line and
column, or with ``csv.ignore-parse-errors`` is skipped or gets NULL in the field that cannot be read.

The options are the rows of :class:`CsvFormat`.
"""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.execnodes.connectors.formats.base import NO_VALUE_TYPES, Decoder, Encoder, Fields, Format
from stateplan.execnodes.connectors.options import Option, OptionType, OptionValues, Role


class CsvFormat(Format):
    """Comma-separated values."""

    name = "csv"
    description = "Comma-separated values (RFC 4180), matched by position; no header line."
    options = (
        Option("field-delimiter", OptionType.CHARACTER, "Character between two fields.", default=","),
        Option(
            "disable-quote-character",
            OptionType.BOOLEAN,
            "No character encloses field values; 'csv.quote-character' cannot be set then.",
            default=False,
        ),
        Option("quote-character", OptionType.CHARACTER, "Character that encloses field values.", default='"'),
        Option(
            "allow-comments", OptionType.BOOLEAN, "Skip lines that start with '#'.", default=False, role=Role.SOURCE
        ),
        Option(
            "ignore-parse-errors",
            OptionType.BOOLEAN,
            "Skip rows and fields that cannot be read instead of failing; such fields become NULL.",
            default=False,
            role=Role.SOURCE,
        ),
        Option(
            "array-element-delimiter", OptionType.STRING, "Text between the elements of an array or a row.", default=";"
        ),
        Option("escape-character", OptionType.CHARACTER, "Character that escapes the next one."),
        Option("null-literal", OptionType.STRING, "Text that is read and written as NULL."),
        Option(
            "write-bigdecimal-in-scientific-notation",
            OptionType.BOOLEAN,
            "Write a DECIMAL that is a multiple of 10 as 1E+5 instead of 100000.",
            default=True,
            role=Role.SINK,
        ),
        Option(
            "allow-trailing-comma",
            OptionType.BOOLEAN,
            "Accept a delimiter after the last field.",
            default=True,
            role=Role.SOURCE,
        ),
        Option(
            "trim-spaces", OptionType.BOOLEAN, "Remove spaces around unquoted values.", default=False, role=Role.SOURCE
        ),
        Option(
            "ignore-trailing-unmappable",
            OptionType.BOOLEAN,
            "Ignore fields after the last column.",
            default=False,
            role=Role.SOURCE,
        ),
        Option(
            "empty-string-as-null", OptionType.BOOLEAN, "Read an empty text as NULL.", default=False, role=Role.SOURCE
        ),
        Option(
            "fail-on-missing-columns",
            OptionType.BOOLEAN,
            "Fail when a line has fewer fields than the table has columns instead of reading NULL.",
            default=False,
            role=Role.SOURCE,
        ),
    )
    extension = "csv"
    unheld = NO_VALUE_TYPES | {"MAP", "MULTISET", "INTERVAL_DAY_TIME", "INTERVAL_YEAR_MONTH"}
    exclusive = (("csv.disable-quote-character", "csv.quote-character"),)

    def make_decoder(
        self, values: OptionValues, fields: Fields, projection: Sequence[int], metadata: Sequence[str]
    ) -> Decoder:
        from stateplan.execnodes.connectors.formats.csv_decode import CsvDecoder

        return CsvDecoder.make(values, fields, projection, metadata)

    def make_encoder(self, values: OptionValues, fields: Fields) -> Encoder:
        from stateplan.execnodes.connectors.formats.csv_encode import CsvEncoder

        return CsvEncoder.make(values, fields)
