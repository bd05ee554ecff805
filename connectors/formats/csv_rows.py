"""CSV text to rows, one record at a time, with exactly the semantics of Flink's CSV reader.

Slow and obvious: the vectorised reader of :mod:`connectors.formats.csv_decode` hands over what it cannot
read, and is tested against this one. Source of the rules: Flink's ``CsvToRowDataConverters`` on Jackson's CSV parser,
observed on Flink 2.3.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

from stateplan.common.errors import DataError, Place
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import OptionValues
from stateplan.common.readable import shorten
from stateplan.common.types import LogicalType
from stateplan.common.values.fields import (
    INTEGER_BITS,
    describe,
    java_trim,
    parse_boolean,
    parse_date,
    parse_decimal,
    parse_float,
    parse_float32,
    parse_integer,
    parse_iso_time,
    timestamp_parser,
)
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.formats.json_rows import excerpt
from stateplan.connectors.rejects import reject


@dataclass(frozen=True)
class CsvLayout:
    """How fields are written, in the words of the options of :class:`connectors.formats.csv.CsvFormat`.

    Attributes:
        quote: around a field; None for none.
        elements: between the elements of a list or the fields of a row.
    """

    delimiter: str
    quote: str | None
    escape: str | None
    elements: str
    allow_comments: bool
    trim_spaces: bool
    null_literal: str | None
    empty_string_as_null: bool
    allow_trailing_comma: bool
    ignore_trailing_unmappable: bool
    fail_on_missing_columns: bool
    ignore_parse_errors: bool

    @classmethod
    def of(cls, values: OptionValues) -> CsvLayout:
        """The layout that the options of a table say."""
        return cls(
            values["field-delimiter"],
            None if values["disable-quote-character"] else values["quote-character"],
            values["escape-character"],
            values["array-element-delimiter"],
            *(values[f.name.replace("_", "-")] for f in fields(cls)[4:]),
        )


class RecordError(Exception):
    """A record that is not well formed.

    Attributes:
        reason: what is wrong with it.
        column: character of its first line where that shows, from 1; None if it is not known.
    """

    def __init__(self, reason: str, column: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.column = column


_UNESCAPED = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}
_END = ("\n", "\r")
_BLANK = re.compile(r"[\x00-\x20]*")


class _Scanner:
    """Records of a text: a hand-written reader, one character class at a time."""

    def __init__(self, text: str, layout: CsvLayout) -> None:
        self.text = text
        self.layout = layout
        self.pos = 0
        self.line = 1
        stop = re.escape(layout.delimiter) + r"\r\n" + (re.escape(layout.escape) if layout.escape else "")
        self.plain = re.compile(f"[^{stop}]*")
        inside = (re.escape(layout.quote) if layout.quote else "") + (re.escape(layout.escape) if layout.escape else "")
        self.quoted_text = re.compile(f"[^{inside}]*")

    def skip_comments(self) -> None:
        """Past blank lines, comment lines and the spaces before the next record."""
        while True:
            match = _BLANK.match(self.text, self.pos)
            assert match is not None
            self.line += match.group().count("\n")
            self.pos = match.end()
            if not self.text.startswith("#", self.pos):
                return
            end = self.text.find("\n", self.pos)
            self.pos = len(self.text) if end < 0 else end

    def end_line(self) -> None:
        """Past the line break at the current position."""
        if self.text.startswith("\r\n", self.pos):
            self.pos += 2
            self.line += 1
        else:
            self.line += self.text[self.pos] == "\n"
            self.pos += 1

    def escaped(self) -> str:
        self.pos += 1
        char = self.text[self.pos : self.pos + 1]
        self.pos += 1
        return _UNESCAPED.get(char, char)

    def field(self, line_start: int) -> str:
        layout, text = self.layout, self.text
        if layout.trim_spaces:
            while text[self.pos : self.pos + 1] in (" ", "\t") and text[self.pos : self.pos + 1] != layout.delimiter:
                self.pos += 1
        if layout.quote and text.startswith(layout.quote, self.pos):
            return self.quoted_field(line_start)
        parts = []
        while True:
            match = self.plain.match(text, self.pos)
            parts.append(match.group() if match else "")
            self.pos = match.end() if match else self.pos
            if layout.escape and text.startswith(layout.escape, self.pos):
                parts.append(self.escaped())
                continue
            value = "".join(parts)
            return value.rstrip(" \t") if layout.trim_spaces else value

    def quoted_field(self, line_start: int) -> str:
        layout, text = self.layout, self.text
        assert layout.quote is not None
        begin, first_line = self.pos, self.line
        self.pos += 1
        parts = []
        while True:
            match = self.quoted_text.match(text, self.pos)
            body = match.group() if match else ""
            parts.append(body)
            self.line += body.count("\n")
            self.pos += len(body)
            if self.pos >= len(text):
                self.line = first_line
                raise RecordError("a quoted field is not closed", begin - line_start + 1)
            if layout.escape and text.startswith(layout.escape, self.pos):
                parts.append(self.escaped())
            elif text.startswith(layout.quote * 2, self.pos):
                parts.append(layout.quote)
                self.pos += 2
            else:
                self.pos += 1
                break
        while text[self.pos : self.pos + 1] in (" ", "\t") and text[self.pos : self.pos + 1] != layout.delimiter:
            self.pos += 1
        if self.pos < len(text) and text[self.pos] not in (layout.delimiter, *_END):
            raise RecordError(f"unexpected '{text[self.pos]}' after a quoted field", self.pos - line_start + 1)
        return "".join(parts)

    def records(self) -> Iterator[tuple[int, int, int, list[str] | RecordError]]:
        """(line number, start, end, fields) of each record; after a bad one, reading continues at the next line."""
        while True:
            if self.layout.allow_comments:
                self.skip_comments()
            if self.pos >= len(self.text):
                return
            line, start = self.line, self.pos
            try:
                fields = [self.field(start)]
                while self.text.startswith(self.layout.delimiter, self.pos):
                    self.pos += 1
                    fields.append(self.field(start))
                end = self.pos
                if self.pos < len(self.text):
                    self.end_line()
                yield line, start, end, fields
            except RecordError as error:
                end = self.text.find("\n", max(self.pos, start))
                end = len(self.text) if end < 0 else end
                yield line, start, end, error
                self.line += self.text.count("\n", self.pos, end) + 1
                self.pos = end + 1


Converter = Callable[[str], Any]


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(re.sub(r"[\x00-\x20]", "", text), validate=True)
    except binascii.Error as error:
        raise ValueError(text) from error


_SQL_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")


def _sql_date(text: str) -> int:
    """``java.sql.Date.valueOf``: one-digit months and days; a day past the end of its month goes into the next."""
    match = _SQL_DATE.fullmatch(text)
    if not match or not 1 <= int(match.group(2)) <= 12 or not 1 <= int(match.group(3)) <= 31:
        raise ValueError(text)
    return parse_date(f"{match.group(1)}-{int(match.group(2)):02d}-01") + int(match.group(3)) - 1


_DELIMITERS = (",", ";", "\t", "|")
"""Those that files usually have."""


class CsvRows:
    """Rows of one table from CSV text.

    Args:
        fields: name and type of every column of the table; fields are matched by position.
        projection: positions of the columns to read, in output order.
        layout: how fields are written.
    """

    def __init__(self, fields: Fields, projection: list[int], layout: CsvLayout) -> None:
        self.fields = fields
        self.projection = projection
        self.layout = layout
        self.converters = [(i, fields[i][0], fields[i][1], self.nullable(fields[i][1])) for i in projection]

    def rows(self, text: str, first_line: int, file: str | None) -> Iterator[list[Any]]:
        """Raw values (see :mod:`common.values.fields`) of the records of a text.

        Raises:
            DataError: DATA121 a record that is not well formed, DATA122 a value that does not fit, DATA123 too few
                or too many fields; none of them with ``csv.ignore-parse-errors``.
        """
        for line, start, end, record in _Scanner(text.removeprefix("\ufeff"), self.layout).records():
            row = self._read(record, line + first_line - 1, text[start:end], file)
            if row is not None:
                yield row

    def message(self, text: str, line: int) -> list[Any] | None:
        """Raw values of the record of a message; None for one that is skipped.

        Args:
            text: the text of the message.
            line: position of the message plus one, for errors.

        Raises:
            DataError: as :meth:`rows`, and DATA472 where the message is not one record. With
                ``csv.ignore-parse-errors`` its first record counts, as always in Flink's
                ``CsvRowDataDeserializationSchema``.
        """
        records = _Scanner(text.removeprefix("\ufeff"), self.layout).records()
        first = next(records, None)
        if first is None:
            empty = DataError("DATA472", problem="is empty", place=Place(line=line))
            if self.layout.ignore_parse_errors:
                reject(empty, text.encode())
                return None
            raise empty
        _, start, end, record = first
        row = self._read(record, line, text[start:end], None)
        if not self.layout.ignore_parse_errors and next(records, None) is not None:
            raise DataError(
                "DATA472", excerpt=excerpt(text.encode()), problem="has more than one record", place=Place(line=line)
            )
        return row

    def _read(self, record: list[str] | RecordError, line: int, text: str, file: str | None) -> list[Any] | None:
        try:
            if isinstance(record, RecordError):
                raise record
            return self.row(record)
        except RecordError as error:
            data_error = self._data_error("DATA123" if record is not error else "DATA121", error, line, text, file)
            if self.layout.ignore_parse_errors:
                reject(data_error, text.encode())
                return None
            raise data_error from error
        except _ValueError as error:
            raise self._value_error(error, line, text, file) from error

    def row(self, record: list[str]) -> list[Any]:
        """Raw values of the projected columns of one record.

        Raises:
            RecordError: when there are too few or too many fields.
        """
        width, layout = len(self.fields), self.layout
        if (
            len(record) > width
            and not layout.ignore_trailing_unmappable
            and not (layout.allow_trailing_comma and len(record) == width + 1 and record[-1] == "")
        ):
            raise RecordError(f"there are {len(record)} fields")
        if len(record) < width and (layout.fail_on_missing_columns or not layout.ignore_parse_errors):
            raise RecordError(f"there {'is 1 field' if len(record) == 1 else f'are {len(record)} fields'}")
        out = []
        for i, name, data_type, convert in self.converters:
            text = record[i] if i < len(record) else None
            try:
                out.append(None if text is None else convert(text))
            except (ValueError, OverflowError) as error:
                if not layout.ignore_parse_errors:
                    raise _ValueError(name, data_type, text or "") from error
                out.append(None)
        return out

    def nullable(self, data_type: LogicalType) -> Converter:
        """Text to raw value, with the texts that stand for NULL; in lists and rows they stand for NULL elements."""
        layout, convert = self.layout, self.converter(data_type)
        if data_type.root in ("ARRAY", "ROW"):
            return convert

        def read(text: str) -> Any:
            if text == layout.null_literal or (text == "" and layout.empty_string_as_null):
                return None
            return convert(text)

        return read

    def converter(self, data_type: LogicalType) -> Converter:
        root = data_type.root
        if root in INTEGER_BITS:
            bits = INTEGER_BITS[root]
            return lambda text: parse_integer(java_trim(text), bits)
        simple: dict[str, Converter] = {
            "BOOLEAN": lambda text: parse_boolean(java_trim(text)),
            "CHAR": str,
            "VARCHAR": str,
            "FLOAT": parse_float32,
            "DOUBLE": parse_float,
            "BINARY": _bytes,
            "VARBINARY": _bytes,
            "DATE": _sql_date,
        }
        if root in simple:
            return simple[root]
        if root == "DECIMAL":
            precision, scale = data_type.precision or 10, data_type.scale or 0
            return lambda text: parse_decimal(text, precision, scale)
        if root == "TIME_WITHOUT_TIME_ZONE":
            unit = 10 ** (9 - min(data_type.precision or 0, 3))
            return lambda text: parse_iso_time(text) // unit * unit
        if data_type.is_timestamp:
            parse = timestamp_parser(data_type, "SQL")
            return lambda text: parse(java_trim(text))
        if root == "ARRAY":
            element = self._ignoring(self.converter(data_type.children[0]))
            return lambda text: [element(part) for part in self.split(text)]
        if root == "ROW":
            return self._row(data_type)
        raise ValueError(f"no CSV reader for {data_type}")

    def split(self, text: str) -> list[str]:
        return text.split(self.layout.elements) if text else []

    def _ignoring(self, convert: Converter) -> Converter:
        """Inside of a container: the NULL literal, and with ``ignore_errors`` NULL for what cannot be read."""
        layout = self.layout

        def read(text: str) -> Any:
            if text == layout.null_literal:
                return None
            try:
                return convert(text)
            except (ValueError, OverflowError):
                if layout.ignore_parse_errors:
                    return None
                raise

        return read

    def _row(self, data_type: LogicalType) -> Converter:
        inner = [(f.name, self._ignoring(self.converter(f.type))) for f in data_type.fields]

        def read(text: str) -> dict[str, Any] | None:
            parts = self.split(text)
            if not parts:
                return None
            if len(parts) < len(inner) and not self.layout.ignore_parse_errors:
                raise ValueError(text)
            return {name: convert(parts[i]) if i < len(parts) else None for i, (name, convert) in enumerate(inner)}

        return read

    def _hint(self, text: str) -> str:
        skips = f"'csv.ignore-parse-errors' = 'true' skips such input; the record is: {excerpt(text.encode())}"
        return "; ".join(filter(None, [self._likely_cause(text), skips]))

    def _likely_cause(self, text: str) -> str | None:
        """What else a record may be: the names of the columns, or fields with another delimiter."""
        names = [name.lower() for name, _ in self.fields]
        delimiter = self.layout.delimiter
        if [field.strip(' "').lower() for field in text.strip().split(delimiter)] == names:
            return "the line has the names of the columns: the format reads no header, so remove it"
        others = [d for d in _DELIMITERS if d != delimiter and len(text.split(d)) == len(names) > 1]
        if delimiter not in text and others:
            return f"'csv.field-delimiter' = '{others[0]}' reads the record as {len(names)} fields"
        return None

    def _data_error(self, code: str, error: RecordError, line: int, text: str, file: str | None) -> DataError:
        count = len(self.fields)
        return DataError(
            code,
            reason=error.reason,
            count=count,
            plural="s" if count != 1 else "",
            place=Place(file=file, line=line, column=error.column),
            hint=self._hint(text),
        )

    def _value_error(self, error: _ValueError, line: int, text: str, file: str | None) -> DataError:
        empty = error.text == "" and self.layout.null_literal != ""
        return DataError(
            "DATA122",
            shown=shorten(error.text, 80),
            name=error.name,
            declared=error.declared_type.summary(),
            place=Place(file=file, line=line),
            expected=describe(error.declared_type),
            hint=("'csv.null-literal' = '' reads empty fields as NULL; " if empty else "") + self._hint(text),
        )


class _ValueError(Exception):
    def __init__(self, name: str, data_type: LogicalType, text: str) -> None:
        super().__init__(name)
        self.name = name
        self.declared_type = data_type
        self.text = text
