"""JSON lines to rows, one line at a time, with exactly the semantics of Flink's JSON reader.

Slow and obvious: the vectorised reader of :mod:`connectors.formats.json_decode` hands over the lines that
it cannot read, and is tested against this one. Source of the rules: Flink's ``JsonParserToRowDataConverters``
(default reader), observed on Flink 2.3.

Where Flink's own two readers differ because the default one loses its place (a key that comes twice, a list where a
number should be, with ``ignore-parse-errors``), this one does what the other does: the last of two equal keys
counts, and only the wrong field becomes NULL.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from stateplan.common.errors import DataError, Place
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import amount, shorten
from stateplan.common.types import CONSTRUCTED, LogicalType
from stateplan.common.values.fields import (
    INTEGER_BITS,
    describe,
    fit_decimal,
    java_trim,
    parse_boolean,
    parse_date,
    parse_decimal,
    parse_float,
    parse_float32,
    parse_integer,
    parse_time,
    timestamp_parser,
)
from stateplan.common.values.floats import double_text
from stateplan.connectors.formats.base import Fields, skipping
from stateplan.connectors.rejects import reject

_NO_VALUE = object()
_BYTES = 16
"""How many bytes are shown of a line that is not text."""


class Number(str):
    """A number of the text, as it is written."""

    __slots__ = ()


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON value")


class FieldError(Exception):
    """A value that does not fit its column.

    Attributes:
        path: names of the column and of the fields inside it.
        value: the JSON value, or the missing marker.
        data_type: the type it should have.
    """

    def __init__(self, path: tuple[str, ...], value: Any, data_type: LogicalType) -> None:
        super().__init__(path)
        self.path = path
        self.value = value
        self.data_type = data_type

    @property
    def is_missing(self) -> bool:
        return self.value is _NO_VALUE


class NotJsonError(Exception):
    """A line that is not JSON, or not an object. ``column`` counts characters from 1; None if it is not known."""

    def __init__(self, reason: str, column: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.column = column


_DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_constant, strict=False)
_NON_SPACE = re.compile(r"[^ \t\r\n]")


@dataclass(frozen=True)
class BadEvent:
    """What is wrong with a change event, and what it should be."""

    reason: str
    expected: str


def parse_objects(line: bytes, lists: bool = True) -> list[dict[str, Any]]:
    """The objects of a line: one, or with ``lists`` those of a top-level list. An empty line has none.

    What follows the first value is ignored, as in Flink.

    Raises:
        NotJsonError: when the line is not such a thing.
    """
    if not line.rstrip(b"\r"):
        return []
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise NotJsonError(
            f"not UTF-8 (byte 0x{line[error.start]:02x})", len(line[: error.start].decode()) + 1
        ) from error
    start = _NON_SPACE.search(text, 1 if text.startswith("\ufeff") else 0)
    if start is None:
        raise NotJsonError("the line is blank")
    try:
        value, _ = _DECODER.raw_decode(text, start.start())
    except json.JSONDecodeError as error:
        raise NotJsonError(error.msg[0].lower() + error.msg[1:], error.pos + 1) from error
    except RecursionError as error:
        raise NotJsonError("nested too deeply") from error
    except ValueError as error:
        raise NotJsonError(str(error)) from error
    rows = value if isinstance(value, list) and lists else [value]
    for row in rows:
        if not isinstance(row, dict):
            raise NotJsonError("not a JSON object", start.start() + 1)
    return rows


def _tree_text(value: Any) -> str:
    """A list or object as the text Jackson returns it: no spaces, floating-point numbers as Java's doubles."""
    if isinstance(value, Number):
        is_integer = not any(c in value for c in ".eE")
        if is_integer:
            return str(int(value))
        return double_text(float(value))
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{_tree_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_tree_text(v) for v in value) + "]"
    return {True: "true", False: "false", None: "null"}[value]


def _scalar_text(value: Any) -> str:
    """The text of a value that is not a container."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    raise ValueError(value)


def _well_formed(text: str) -> str:
    """Surrogates without a partner become question marks, as in Java's UTF-8 encoder."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


Converter = Callable[[Any], Any]


def _integer(bits: int, whole_only: bool) -> Converter:
    def convert(value: Any) -> int:
        if isinstance(value, Number) and not whole_only and any(c in value for c in ".eE"):
            number = float(value)
            if not -(1 << (bits - 1)) - 1 < number < 1 << (bits - 1):
                raise ValueError(value)
            integer = int(Decimal(value))
            if not -(1 << (bits - 1)) <= integer < 1 << (bits - 1):
                raise ValueError(value)
            return integer
        return parse_integer(java_trim(_scalar_text(value)), bits)

    return convert


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return isinstance(value, str) and parse_boolean(java_trim(value))


def _text(value: Any) -> str:
    if type(value) is str:
        return _well_formed(value)
    if isinstance(value, Number):
        return str(value)
    return _well_formed(_tree_text(value)) if isinstance(value, (dict, list)) else _scalar_text(value)


def _text_of_tree(value: Any) -> str:
    return _tree_text(value) if isinstance(value, Number) else _text(value)


def _float(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError(value)
    return parse_float(_scalar_text(value))


def _float32(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError(value)
    return parse_float32(_scalar_text(value))


_BASE64 = re.compile(r"(?:[\x00-\x20]*[A-Za-z0-9+/=]{4})*[\x00-\x20]*")


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str) or isinstance(value, Number) or not _BASE64.fullmatch(value):
        raise ValueError(value)
    try:
        return base64.b64decode(re.sub(r"[\x00-\x20]", "", value), validate=True)
    except binascii.Error as error:
        raise ValueError(value) from error


def _bytes_of_tree(value: Any) -> bytes | None:
    return _bytes(value) if isinstance(value, str) and not isinstance(value, Number) else None


def _of_text(convert: Converter) -> Converter:
    """What reads the JSON value that a text holds."""

    def read(text: str) -> Any:
        try:
            value = _DECODER.decode(text)
        except RecursionError as error:
            raise ValueError(text) from error
        return convert(value)

    return read


def _string_only(parse: Callable[[str], Any]) -> Converter:
    def convert(value: Any) -> Any:
        return parse(_scalar_text(value))

    return convert


@dataclass
class RowReader(FrozenDataclass):
    """Rows of one table from JSON objects. Picklable.

    Attributes:
        fields: name and type of the columns to read, in output order.
        format_name: for messages.
        standard: ``SQL`` or ``ISO-8601``, how timestamps are written.
        fail_on_missing: whether a field that is not there is an error.
        ignore_errors: whether a value that does not fit returns NULL instead of an error.
        tree: whether to do what Flink's other reader does, which the formats of change events use: numbers become
            text as Java prints them (1.10 as 1.1), bytes that are not text become NULL, and a line has one object.
        check: returns what is wrong with a row of raw values; None for nothing.
        guard: returns what is wrong with an object, which is then an error even with ``ignore_errors``.
        prepare: makes of an object the one that is read, or returns what is wrong with it; None for an object that is
            skipped.
    """

    fields: Fields
    format_name: str
    standard: str
    fail_on_missing: bool
    ignore_errors: bool
    tree: bool = False
    check: Callable[[list[Any]], BadEvent | None] | None = None
    guard: Callable[[dict[str, Any]], BadEvent | None] | None = None
    prepare: Callable[[dict[str, Any]], dict[str, Any] | BadEvent | None] | None = None

    @cached_property
    def columns(self) -> list[tuple[str, Converter]]:
        """What makes a raw value of the value of each column."""
        return [(name, self._nullable(data_type, (name,))) for name, data_type in self.fields]

    def row(self, value: dict[str, Any]) -> list[Any]:
        """Raw values of one object, one per column; see :mod:`common.values.fields`.

        Raises:
            FieldError: for a value that does not fit, or a missing one that must be there.
        """
        row: list[Any] = []
        for name, convert in self.columns:
            field = value.get(name, _NO_VALUE)
            if field is _NO_VALUE and self.fail_on_missing:
                raise FieldError((name,), _NO_VALUE, dict(self.fields)[name])
            row.append(None if field is _NO_VALUE or field is None else convert(field))
        return row

    def rows(self, lines: list[bytes], first_line: int, file: str | None) -> Iterator[list[Any]]:
        """Raw values of the rows of some lines.

        Raises:
            DataError: DATA111 a line that is not JSON, DATA112 a value that does not fit, DATA113 a missing field,
                DATA114 a row that ``check`` refuses; none of them with ``ignore_errors``. DATA151 an object that
                ``guard`` refuses.
        """
        for number, line in enumerate(lines, first_line):
            place = Place(file=file, line=number)
            try:
                objects = parse_objects(line, lists=not self.tree)
            except NotJsonError as error:
                place = replace(place, column=error.column)
                data_error = DataError("DATA111", reason=error.reason, place=place, hint=self._hint(line))
                if self.ignore_errors:
                    reject(data_error, line)
                    continue
                raise data_error from error
            for value in objects:
                wrong = self.guard(value) if self.guard is not None else None
                if wrong is not None:
                    raise DataError(
                        "DATA151", place=place, problem=wrong.reason, expected=wrong.expected, excerpt=excerpt(line)
                    )
                ready = self.prepare(value) if self.prepare is not None else value
                if ready is None:
                    continue
                bad, row = (ready, []) if isinstance(ready, BadEvent) else (None, [])
                try:
                    if not isinstance(ready, BadEvent):
                        row = self.row(ready)
                        bad = self.check(row) if self.check is not None else None
                except FieldError as error:
                    if self.ignore_errors:
                        reject(self._field_error(error, line, place), line)
                        continue
                    raise self._field_error(error, line, place) from error
                if bad is None:
                    yield row
                    continue
                hint = self._hint(line)
                rejection = DataError("DATA114", reason=bad.reason, place=place, expected=bad.expected, hint=hint)
                if not self.ignore_errors:
                    raise rejection
                reject(rejection, line)

    def _hint(self, line: bytes) -> str:
        return f"{skipping(f'{self.format_name}.', self.fail_on_missing, 'such input')}; the line is: {excerpt(line)}"

    def _field_error(self, error: FieldError, line: bytes, place: Place) -> DataError:
        """The error of a value that does not fit its column, or of a missing one."""
        name = ".".join(error.path)
        if error.is_missing:
            return DataError("DATA113", name=name, format_name=self.format_name, excerpt=excerpt(line), place=place)
        value = error.value
        return DataError(
            "DATA112",
            shown=shorten(str(value) if isinstance(value, Number) else json.dumps(value, ensure_ascii=False), 80),
            name=name,
            declared=error.data_type.summary(),
            place=place,
            expected=describe(error.data_type, self.standard),
            hint=self._hint(line),
        )

    def _nullable(self, data_type: LogicalType, path: tuple[str, ...]) -> Converter:
        convert = self._converter(data_type, path)
        ignore = self.ignore_errors

        def nullable(value: Any) -> Any:
            if value is None:
                return None
            try:
                return convert(value)
            except FieldError:
                if ignore:
                    return None
                raise
            except (ValueError, OverflowError, ArithmeticError) as error:
                if ignore:
                    return None
                raise FieldError(path, value, data_type) from error

        return nullable

    def _converter(self, data_type: LogicalType, path: tuple[str, ...]) -> Converter:
        root = data_type.root
        if root in INTEGER_BITS:
            return _integer(INTEGER_BITS[root], whole_only=root in ("TINYINT", "SMALLINT"))
        text, data = (_text_of_tree, _bytes_of_tree) if self.tree else (_text, _bytes)
        simple: dict[str, Converter] = {
            "BOOLEAN": _boolean,
            "CHAR": text,
            "VARCHAR": text,
            "FLOAT": _float32,
            "DOUBLE": _float,
            "BINARY": data,
            "VARBINARY": data,
            "DATE": _string_only(parse_date),
            "TIME_WITHOUT_TIME_ZONE": _string_only(parse_time),
            "NULL": lambda value: None,
        }
        if root in simple:
            return simple[root]
        if data_type.is_timestamp:
            return _string_only(timestamp_parser(data_type, self.standard))
        if root == "DECIMAL":
            return _decimal(data_type.precision or 10, data_type.scale or 0)
        if root == "ARRAY":
            return self._array(self._nullable(data_type.children[0], path))
        if root in ("MAP", "MULTISET"):
            value_type = data_type.children[1] if root == "MAP" else LogicalType("INTEGER")
            key = self._nullable(data_type.children[0], path)
            has_nested_keys = data_type.children[0].root in CONSTRUCTED
            return self._map(_of_text(key) if has_nested_keys else key, self._nullable(value_type, path))
        if root == "ROW":
            return self._row(data_type, path)
        raise ValueError(f"no JSON reader for {data_type}")

    @staticmethod
    def _array(convert: Converter) -> Converter:
        def read(value: Any) -> list[Any]:
            if not isinstance(value, list):
                raise ValueError(value)
            return [convert(v) for v in value]

        return read

    @staticmethod
    def _map(key: Converter, convert: Converter) -> Converter:
        def read(value: Any) -> list[dict[str, Any]]:
            if not isinstance(value, dict):
                raise ValueError(value)
            return [{"key": key(k), "value": convert(v)} for k, v in value.items()]

        return read

    def _row(self, data_type: LogicalType, path: tuple[str, ...]) -> Converter:
        inner = [(f.name, f.type, self._nullable(f.type, (*path, f.name))) for f in data_type.fields]

        def read(value: Any) -> dict[str, Any]:
            if not isinstance(value, dict):
                raise ValueError(value)
            out = {}
            for name, field_type, convert in inner:
                field = value.get(name, _NO_VALUE)
                if field is _NO_VALUE and self.fail_on_missing:
                    raise FieldError((*path, name), _NO_VALUE, field_type)
                out[name] = None if field is _NO_VALUE else convert(field)
            return out

        return read


def _decimal(precision: int, scale: int) -> Converter:
    def convert(value: Any) -> Decimal | None:
        if isinstance(value, Number):
            return fit_decimal(Decimal(value), precision, scale)
        if isinstance(value, str):
            return parse_decimal(java_trim(value), precision, scale)
        raise ValueError(value)

    return convert


def excerpt(line: bytes, limit: int = 200) -> str:
    """The beginning of a line, for a message: of one that is not text its first bytes in hexadecimal digits."""
    line = line.rstrip(b"\r\n")
    text = line[: 4 * limit].decode("utf-8", "replace")
    if "\ufffd" in text[:limit]:
        return f"x'{line[:_BYTES].hex()}{'...' if len(line) > _BYTES else ''}' ({amount(len(line), 'byte')})"
    return shorten(text, limit)
