"""The CSV writer, in the layout of Flink's (Jackson's) writer.

Numbers and truth values are never quoted. A text is quoted when it is longer than 24 characters or has a character
that comes before the delimiter or the quote in Unicode, such as a space; quotes in it are doubled.
"""

from __future__ import annotations

import re

import polars as pl

from stateplan.common.changelog import column
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import OptionValues
from stateplan.common.types import LogicalType
from stateplan.common.values.atomic import FieldStyle
from stateplan.common.values.codecs import codec
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.formats.csv_rows import CsvLayout
from stateplan.connectors.formats.json_encode import lines_to_bytes

_QUOTE_BEYOND = 24
_UNQUOTED = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"})


@dataclass
class CsvEncoder:
    """Encoder of the ``csv`` format; see :class:`connectors.formats.base.Encoder` and
    :class:`connectors.formats.base.MessageEncoder`."""

    fields: Fields
    layout: CsvLayout
    scientific: bool

    @classmethod
    def make(cls, values: OptionValues, fields: Fields) -> CsvEncoder:
        """See :meth:`connectors.formats.base.Format.make_encoder`."""
        return cls(list(fields), CsvLayout.of(values), values["write-bigdecimal-in-scientific-notation"])

    def encode(self, df: pl.DataFrame) -> bytes:
        """The bytes of one file."""
        return lines_to_bytes(self._records(df))

    def messages(self, df: pl.DataFrame) -> pl.Series:
        """A message for each row: its record without a line break."""
        return self._records(df).cast(pl.Binary)

    def _records(self, df: pl.DataFrame) -> pl.Series:
        null = self.layout.null_literal or ""
        cells = [
            self._column(df[column(i)], data_type).fill_null(null).alias(column(i))
            for i, (_, data_type) in enumerate(self.fields)
        ]
        return pl.DataFrame(cells).select(pl.concat_str(pl.all(), separator=self.layout.delimiter)).to_series()

    def _column(self, series: pl.Series, data_type: LogicalType) -> pl.Series:
        decimals = "scientific" if self.scientific else "plain" if data_type.root in ("ARRAY", "ROW") else "short"
        style = FieldStyle(decimals=decimals, null=self.layout.null_literal or "", separator=self.layout.elements)
        text = series.to_frame("v").select(codec(data_type).field(pl.col("v"), style)).to_series()
        return text if data_type.root in _UNQUOTED or self.layout.quote is None else self._with_quotes(text)

    def _with_quotes(self, text: pl.Series) -> pl.Series:
        quote, escape = self.layout.quote or "", self.layout.escape
        safe = max(ord(self.layout.delimiter), ord(quote), ord("\r"))
        unsafe = rf"[\x{{0}}-\x{{{safe:x}}}{re.escape(escape) if escape else ''}]"
        cell = pl.col("t")
        body = cell.str.replace_all(escape, escape * 2, literal=True) if escape else cell
        body = body.str.replace_all(quote, quote * 2, literal=True)
        return (
            text.to_frame("t")
            .select(
                pl.when((cell.str.len_chars() > _QUOTE_BEYOND) | cell.str.contains(unsafe))
                .then(pl.lit(quote) + body + pl.lit(quote))
                .otherwise(cell)
            )
            .to_series()
        )
