"""The JSON writers: one object per line in the layout of Flink's (Jackson's) writer.

No spaces; NULL is written; text beyond the basic plane as two escapes; doubles as Java prints them; decimals without
trailing zeros unless ``encode.decimal-as-plain-number``; timestamps by ``timestamp-format.standard``.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from stateplan.execnodes.changelog import KIND, RowKind, column
from stateplan.execnodes.connectors.formats import json as json_format
from stateplan.execnodes.connectors.formats import op_json
from stateplan.execnodes.connectors.formats.base import Fields, check_types
from stateplan.execnodes.connectors.formats.field_text import column_field, scalar_field
from stateplan.execnodes.connectors.formats.values import raw_dtype
from stateplan.execnodes.connectors.options import Format, OptionValues
from stateplan.execnodes.errors import DataError
from stateplan.execnodes.types import INT, LogicalType

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_SPECIAL = re.compile(r'["\\\x00-\x1f\U00010000-\U0010ffff]')
_SPECIAL_RUST = r'["\\\x00-\x1f\x{10000}-\x{10ffff}]'
_QUOTED = frozenset(
    {
        "CHAR",
        "VARCHAR",
        "BINARY",
        "VARBINARY",
        "DATE",
        "TIME_WITHOUT_TIME_ZONE",
        "TIMESTAMP_WITHOUT_TIME_ZONE",
        "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
    }
)
_CONTAINERS = frozenset({"ARRAY", "MAP", "MULTISET", "ROW"})


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    if char in _ESCAPES:
        return _ESCAPES[char]
    return "".join(f"\\u{unit:04X}" for unit in memoryview(char.encode("utf-16-le")).cast("H"))


def quoted(text: str) -> str:
    """A text as a JSON string."""
    return f'"{_SPECIAL.sub(_escape, text)}"'


def _quote_column(series: pl.Series) -> pl.Series:
    if series.str.contains(_SPECIAL_RUST).any():
        return pl.Series([None if v is None else quoted(v) for v in series.to_list()], dtype=pl.String)
    return '"' + series + '"'


def lines_to_bytes(lines: pl.Series) -> bytes:
    """Lines that are not NULL as UTF-8, each with a newline."""
    out = io.BytesIO()
    lines.to_frame().write_csv(out, include_header=False, quote_style="never")
    return out.getvalue()


@dataclass
class JsonWriter:
    """Rows to JSON objects.

    Attributes:
        fields: name and type of the columns.
        standard: ``SQL`` or ``ISO-8601``.
        plain_decimals: whether decimals are written plain.
        skip_nulls: whether fields that are NULL are left out.
        null_key: what to do with a NULL key of a map: ``FAIL``, ``DROP`` or ``LITERAL``.
        null_literal: the key written for NULL with ``LITERAL``.
    """

    fields: Fields
    standard: str
    plain_decimals: bool
    skip_nulls: bool
    null_key: str
    null_literal: str

    @classmethod
    def make(cls, options: Mapping[str, str], fields: Fields, fmt: Format) -> JsonWriter:
        values = OptionValues.read(fmt.options, options, fmt.name + ".")
        check_types(fields, fmt)
        return cls(
            list(fields),
            values["timestamp-format.standard"],
            values["encode.decimal-as-plain-number"],
            values["encode.ignore-null-fields"],
            values["map-null-key.mode"],
            values["map-null-key.literal"],
        )

    def objects(self, df: pl.DataFrame) -> pl.Series:
        """One JSON object per row."""
        if not self.fields:
            return pl.Series(["{}"] * df.height, dtype=pl.String)
        texts = [self._column(df[column(i)], declared).alias(column(i)) for i, (_, declared) in enumerate(self.fields)]
        parts: list[pl.Expr] = []
        for i, (name, _) in enumerate(self.fields):
            label, value = f"{',' if i else ''}{quoted(name)}:", pl.col(column(i))
            if self.skip_nulls:
                parts.append((pl.lit("," + label.lstrip(",")) + value).fill_null(""))
            else:
                parts += [pl.lit(label), value.fill_null("null")]
        body = pl.concat_str(parts)
        if self.skip_nulls:
            body = body.str.strip_prefix(",")
        return pl.DataFrame(texts).select(pl.concat_str([pl.lit("{"), body, pl.lit("}")])).to_series()

    def _column(self, series: pl.Series, declared: LogicalType) -> pl.Series:
        if declared.root in _CONTAINERS:
            write = self._value(declared)
            raw = series.cast(raw_dtype(declared)).to_list()
            return pl.Series([None if v is None else write(v) for v in raw], dtype=pl.String)
        text = column_field(series, declared, self.standard, not self.plain_decimals)
        if declared.is_string:
            return _quote_column(text)
        if declared.root in _QUOTED:
            return '"' + text + '"'
        if declared.root in ("FLOAT", "DOUBLE") and not series.is_finite().all():
            return (
                text.to_frame("t")
                .select(
                    pl.when(pl.col("t").str.contains("[NI]"))
                    .then(pl.lit('"') + pl.col("t") + pl.lit('"'))
                    .otherwise(pl.col("t"))
                )
                .to_series()
            )
        return text

    def _value(self, declared: LogicalType) -> Callable[[Any], str]:
        """The JSON text of one raw value that is not NULL."""
        root = declared.root
        if root == "ARRAY":
            element = self._nullable(declared.children[0])
            return lambda value: "[" + ",".join(element(v) for v in value) + "]"
        if root in ("MAP", "MULTISET"):
            entry = self._nullable(declared.children[1] if root == "MAP" else INT)
            return lambda value: self._map(value, entry)
        if root == "ROW":
            inner = [(f.name, quoted(f.name), self._nullable(f.type)) for f in declared.fields]
            return lambda value: (
                "{"
                + ",".join(
                    f"{label}:{write(value[name])}"
                    for name, label, write in inner
                    if not (self.skip_nulls and value[name] is None)
                )
                + "}"
            )

        def scalar(value: Any) -> str:
            text = scalar_field(value, declared, self.standard, not self.plain_decimals)
            if root in _QUOTED or text in ("NaN", "Infinity", "-Infinity"):
                return quoted(text)
            return text

        return scalar

    def _nullable(self, declared: LogicalType) -> Callable[[Any], str]:
        write = self._value(declared)
        return lambda value: "null" if value is None else write(value)

    def _map(self, entries: list[dict[str, Any]], write: Callable[[Any], str]) -> str:
        out = {}
        for entry in entries:
            key = entry["key"]
            if key is None:
                if self.null_key == "FAIL":
                    raise DataError("DATA201")
                if self.null_key == "DROP":
                    continue
                key = self.null_literal
            out[key] = write(entry["value"])
        return "{" + ",".join(f"{quoted(k)}:{v}" for k, v in out.items()) + "}"


@dataclass
class JsonEncoder:
    """Encoder of the ``json`` format; see :class:`execnodes.connectors.formats.base.Encoder`."""

    writer: JsonWriter

    @property
    def extension(self) -> str:
        return json_format.FORMAT.extension

    @classmethod
    def make(cls, options: Mapping[str, str], fields: Fields) -> JsonEncoder:
        """See :func:`execnodes.connectors.formats.json.make_encoder`."""
        return cls(JsonWriter.make(options, fields, json_format.FORMAT))

    def encode(self, df: pl.DataFrame) -> bytes:
        """The bytes of one file."""
        return lines_to_bytes(self.writer.objects(df))


@dataclass(frozen=True)
class _EventText:
    """What stands around a row: before and behind one that is added, and one that is gone."""

    added: tuple[str, str]
    gone: tuple[str, str]


_EVENTS = {
    "debezium-json": _EventText(('{"before":null,"after":', ',"op":"c"}'), ('{"before":', ',"after":null,"op":"d"}')),
    "ogg-json": _EventText(
        ('{"before":null,"after":', ',"op_type":"I"}'), ('{"before":', ',"after":null,"op_type":"D"}')
    ),
    "maxwell-json": _EventText(('{"data":', ',"type":"insert"}'), ('{"data":', ',"type":"delete"}')),
    "canal-json": _EventText(('{"data":[', '],"type":"INSERT"}'), ('{"data":[', '],"type":"DELETE"}')),
}


@dataclass
class EventEncoder:
    """Encoder of the formats of change events: +I and +U become an event that adds a row, -U and -D one that deletes
    it."""

    writer: JsonWriter
    text: _EventText
    extension: str

    @classmethod
    def make(cls, fmt: Format, options: Mapping[str, str], fields: Fields) -> EventEncoder:
        """See :class:`execnodes.connectors.formats.base.MakeEncoder`."""
        return cls(JsonWriter.make(options, fields, fmt), _EVENTS[fmt.name], fmt.extension)

    def encode(self, df: pl.DataFrame) -> bytes:
        """The bytes of one file."""
        rows = self.writer.objects(df).alias("row").to_frame()
        added, gone = self._around(self.text.added), self._around(self.text.gone)
        if KIND not in df.columns:
            return lines_to_bytes(rows.select(added).to_series())
        kinds = rows.with_columns(df[KIND])
        return lines_to_bytes(kinds.select(pl.when(pl.col(KIND).is_in((1, 3))).then(gone).otherwise(added)).to_series())

    def _around(self, texts: tuple[str, str]) -> pl.Expr:
        start, end = texts
        if self.writer.skip_nulls:
            start, end = start.replace('"before":null,', ""), end.replace(',"after":null', "")
        return start + pl.col("row") + end


@dataclass
class OpEncoder:
    """Encoder of the ``op-json`` format: the kind of the change as the first field of the object."""

    writer: JsonWriter

    @property
    def extension(self) -> str:
        return op_json.FORMAT.extension

    @classmethod
    def make(cls, options: Mapping[str, str], fields: Fields) -> OpEncoder:
        """See :class:`execnodes.connectors.formats.base.MakeEncoder`."""
        return cls(JsonWriter.make(options, fields, op_json.FORMAT))

    def encode(self, df: pl.DataFrame) -> bytes:
        """The bytes of one file."""
        body = self.writer.objects(df).str.strip_prefix("{")
        comma = pl.when(body == "}").then(pl.lit("")).otherwise(pl.lit(","))
        names = {int(kind): kind.short for kind in RowKind}
        kinds = df[KIND] if KIND in df.columns else pl.zeros(df.height, pl.Int8, eager=True)
        op = kinds.replace_strict(names, return_dtype=pl.String)
        line = pl.concat_str([pl.lit('{"_op":"'), op, pl.lit('"'), comma, body])
        return lines_to_bytes(pl.select(line).to_series())
