"""The ``csv`` format: RFC 4180 with Flink's options (``CsvFormatFactory``).

Fields are matched by position; there is no header line. A message is one record, with or without a line break at
its end. Without ``csv.null-literal`` an empty field is the empty
string for text and an error for every other type. A line that cannot be read fails the job naming file, line and
column, or with ``csv.ignore-parse-errors`` is skipped or gets NULL in the field that cannot be read.

The options are the rows of :class:`CsvFormat`.
"""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.common.options import Option, OptionType, OptionValues, Role, flag
from stateplan.connectors.formats.base import (
    ERRORS_TABLE,
    IGNORE_PARSE_ERRORS,
    NO_VALUE_TYPES,
    DecoderOfLines,
    EncoderOfLines,
    Fields,
    LineFormat,
)


class CsvFormat(LineFormat):
    """Comma-separated values."""

    name = "csv"
    description = "Comma-separated values (RFC 4180) without a header line. Columns are matched by position."
    options = (
        Option("field-delimiter", OptionType.CHARACTER, "Field delimiter.", default=","),
        flag("disable-quote-character", "Whether quoting is disabled. Excludes 'csv.quote-character'."),
        Option("quote-character", OptionType.CHARACTER, "Quote character.", default='"'),
        flag("allow-comments", "Whether to skip lines that start with '#'.", Role.SOURCE),
        IGNORE_PARSE_ERRORS,
        ERRORS_TABLE,
        Option(
            "array-element-delimiter",
            OptionType.STRING,
            "Delimiter between the elements of an array or a row.",
            default=";",
        ),
        Option("escape-character", OptionType.CHARACTER, "Escape character."),
        Option("null-literal", OptionType.STRING, "Text that represents NULL."),
        flag(
            "write-bigdecimal-in-scientific-notation",
            "Whether to write a DECIMAL that is a multiple of 10 as 1E+5 instead of 100000.",
            Role.SINK,
            default=True,
        ),
        flag("allow-trailing-comma", "Whether to accept a delimiter after the last field.", Role.SOURCE, default=True),
        flag("trim-spaces", "Whether to remove spaces around unquoted values.", Role.SOURCE),
        flag("ignore-trailing-unmappable", "Whether to ignore fields after the last column.", Role.SOURCE),
        flag("empty-string-as-null", "Whether to read an empty string as NULL.", Role.SOURCE),
        flag(
            "fail-on-missing-columns",
            "Whether a line with too few fields is an error instead of NULL values.",
            Role.SOURCE,
        ),
    )
    extension = "csv"
    unheld = NO_VALUE_TYPES | {"MAP", "MULTISET", "INTERVAL_DAY_TIME", "INTERVAL_YEAR_MONTH"}
    exclusive = (("csv.disable-quote-character", "csv.quote-character"),)

    def make_decoder(
        self, values: OptionValues, fields: Fields, projection: Sequence[int], metadata: Sequence[str]
    ) -> DecoderOfLines:
        from stateplan.connectors.formats.csv_decode import CsvDecoder

        return CsvDecoder.make(values, fields, projection, metadata)

    def make_encoder(self, values: OptionValues, fields: Fields) -> EncoderOfLines:
        from stateplan.connectors.formats.csv_encode import CsvEncoder

        return CsvEncoder.make(values, fields)
