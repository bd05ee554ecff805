"""The JSON writers: one object per line in the layout of Flink's (Jackson's) writer.

No spaces; NULL is written; text beyond the basic plane as two escapes; doubles as Java prints them; decimals without
trailing zeros unless ``encode.decimal-as-plain-number``; timestamps by ``timestamp-format.standard``.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod

import polars as pl

from stateplan.common.changelog import KIND, RowKind, column
from stateplan.common.errors import DataError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import OptionValues
from stateplan.common.values.atomic import FieldStyle
from stateplan.common.values.codecs import codec, json_object
from stateplan.connectors.formats.base import Fields


def lines_to_bytes(lines: pl.Series) -> bytes:
    """Lines that are not NULL as UTF-8, each with a newline."""
    out = io.BytesIO()
    lines.to_frame().write_csv(out, include_header=False, quote_style="never")
    return out.getvalue()


class LineEncoder(ABC):
    """Encoder of the formats of lines; see :class:`connectors.formats.base.Encoder`."""

    @abstractmethod
    def lines(self, df: pl.DataFrame) -> pl.Series:
        """A line of text for each row, without the line break."""

    def encode(self, df: pl.DataFrame) -> bytes:
        """The bytes of one file."""
        return lines_to_bytes(self.lines(df))

    def messages(self, df: pl.DataFrame) -> pl.Series:
        """A message for each row."""
        return self.lines(df).cast(pl.Binary)


@dataclass
class JsonWriter:
    """Rows to JSON objects.

    Attributes:
        fields: name and type of the columns.
        style: how values are written.
    """

    fields: Fields
    style: FieldStyle

    @classmethod
    def make(cls, values: OptionValues, fields: Fields) -> JsonWriter:
        style = FieldStyle(
            standard=values["timestamp-format.standard"],
            decimals="plain" if values["encode.decimal-as-plain-number"] else "scientific",
            skip_nulls=values["encode.ignore-null-fields"],
            null_key=values["map-null-key.mode"],
            null_literal=values["map-null-key.literal"],
        )
        return cls(list(fields), style)

    def objects(self, df: pl.DataFrame) -> pl.Series:
        """One JSON object per row. Raises DataError DATA201, for a map with a NULL key."""
        if not self.fields:
            return pl.Series(["{}"] * df.height, dtype=pl.String)
        columns = [(codec(t), pl.col(column(i))) for i, (_, t) in enumerate(self.fields)]
        if self.style.null_key == "FAIL":
            keys = zip(self.fields, (c.null_keys(e) for c, e in columns), strict=True)
            for name, has_null_key in [(field[0], e) for field, e in keys if e is not None]:
                if df.select(has_null_key.any()).item():
                    raise DataError("DATA201", name=name)
        values = [c.json(e, self.style) for c, e in columns]
        return df.select(json_object([name for name, _ in self.fields], values, self.style)).to_series()


@dataclass
class JsonEncoder(LineEncoder):
    """Encoder of the ``json`` format; see :class:`connectors.formats.base.Encoder`."""

    writer: JsonWriter

    def lines(self, df: pl.DataFrame) -> pl.Series:
        return self.writer.objects(df)


@dataclass
class EventEncoder(LineEncoder):
    """Encoder of the formats of change events: +I and +U become an event that adds a row, -U and -D one that deletes
    it. ``insert_texts`` and ``delete_texts`` are those before and after the row in each."""

    writer: JsonWriter
    insert_texts: tuple[str, str]
    delete_texts: tuple[str, str]

    def lines(self, df: pl.DataFrame) -> pl.Series:
        rows = self.writer.objects(df).alias("row").to_frame()
        insert_line, delete_line = self._around(self.insert_texts), self._around(self.delete_texts)
        if KIND not in df.columns:
            return rows.select(insert_line).to_series()
        kinds = rows.with_columns(df[KIND])
        return kinds.select(pl.when(pl.col(KIND).is_in((1, 3))).then(delete_line).otherwise(insert_line)).to_series()

    def _around(self, texts: tuple[str, str]) -> pl.Expr:
        start, end = texts
        if self.writer.style.skip_nulls:
            start, end = start.replace('"before":null,', ""), end.replace(',"after":null', "")
        return start + pl.col("row") + end


@dataclass
class OpEncoder(LineEncoder):
    """Encoder of the ``op-json`` format: the kind of the change as the first field of the object."""

    writer: JsonWriter

    def lines(self, df: pl.DataFrame) -> pl.Series:
        body = self.writer.objects(df).str.strip_prefix("{")
        comma = pl.when(body == "}").then(pl.lit("")).otherwise(pl.lit(","))
        names = {int(kind): kind.short for kind in RowKind}
        kinds = df[KIND] if KIND in df.columns else pl.zeros(df.height, pl.Int8, eager=True)
        op = kinds.replace_strict(names, return_dtype=pl.String)
        line = pl.concat_str([pl.lit('{"_op":"'), op, pl.lit('"'), comma, body])
        return pl.select(line).to_series()
