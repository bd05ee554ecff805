"""The ``raw`` format: the bytes of a message, or of a line of a file, are the value of the only column.

Source: Flink's ``RawFormatFactory``, and its schemas as Flink 2.3 runs them. A message that is NULL is a row of NULL.
Bytes that are not text in the charset, and characters that the charset does not have, are errors; Flink replaces them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stateplan.common.errors import CatalogError, OptionError, Place
from stateplan.common.options import Option, OptionType, OptionValues
from stateplan.connectors.formats.base import (
    DecoderOfLines,
    EncoderOfLines,
    Fields,
    LineFormat,
)

_TYPES = frozenset(
    {"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "CHAR", "VARCHAR", "BINARY", "VARBINARY"}
)


class RawFormat(LineFormat):
    """The bytes of a message as the only column."""

    name = "raw"
    description = (
        "The value of a message, or a line of a file, as the only column of the table: text, bytes, a number or a "
        "truth value. A message without a value is a row of NULL."
    )
    options = (
        Option(
            "charset",
            OptionType.STRING,
            "Charset of text. Bytes that are not text in it, and characters that it does not have, are errors.",
            default="UTF-8",
        ),
        Option(
            "endianness",
            OptionType.ENUM,
            "Order of the bytes of numbers.",
            default="big-endian",
            values=("big-endian", "little-endian"),
        ),
    )
    extension = "raw"

    def check_columns(self, options: Mapping[str, str], fields: Fields, place: Place | None = None) -> None:
        if len(fields) != 1:
            columns = ", ".join(name for name, _ in fields) or "none"
            raise CatalogError("CAT102.one_column", count=len(fields), columns=columns, place=place)
        name, data_type = fields[0]
        if data_type.root not in _TYPES:
            raise self.type_error(name, data_type, "a column of text, bytes, numbers or truth values", place)
        charset = self.values(options)["charset"]
        try:
            "".encode(charset)
        except LookupError as error:
            raise OptionError("OPT180", text=charset, place=place) from error

    def make_decoder(
        self, values: OptionValues, fields: Fields, projection: Sequence[int], metadata: Sequence[str]
    ) -> DecoderOfLines:
        from stateplan.connectors.formats.raw_io import RawDecoder

        return RawDecoder.make(values, fields, projection, metadata)

    def make_encoder(self, values: OptionValues, fields: Fields) -> EncoderOfLines:
        from stateplan.connectors.formats.raw_io import RawEncoder

        return RawEncoder.make(values, fields)
