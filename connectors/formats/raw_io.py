"""The reader and the writer of the ``raw`` format, for messages and for lines of files."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from stateplan.common.changelog import column
from stateplan.common.errors import DataError, Place
from stateplan.common.files import line_chunks
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import OptionValues
from stateplan.common.types import LogicalType
from stateplan.connectors.formats.base import Fields, FileColumns, countable
from stateplan.connectors.formats.json_rows import excerpt

_NUMBERS = {"BOOLEAN": "u1", "TINYINT": "i1", "SMALLINT": "i2", "INTEGER": "i4", "BIGINT": "i8", "FLOAT": "f4"} | {
    "DOUBLE": "f8"
}
"""Root of a type that has a fixed number of bytes, to NumPy's name for it without the order of bytes."""

_MARKS = {"utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)}


@dataclass(frozen=True)
class _Value:
    """How the column is written as bytes.

    Attributes:
        name: the name of the column.
        declared_type: its type.
        charset: of text, as written in the option.
        number: NumPy's type of a number; None for text and bytes.
    """

    name: str
    declared_type: LogicalType
    charset: str
    number: str | None

    @classmethod
    def of(cls, values: OptionValues, fields: Fields) -> _Value:
        ((name, data_type),) = fields
        order = ">" if values["endianness"] == "big-endian" else "<"
        number = _NUMBERS.get(data_type.root)
        return cls(name, data_type, values["charset"], None if number is None else order + number)

    @property
    def codec(self) -> str:
        """Python's name of the charset."""
        return codecs.lookup(self.charset).name

    # reading

    def column(self, data: Sequence[bytes | None], first: int, file: str | None) -> pl.Series:
        """The values of some messages; ``first`` is the line of the first one."""
        if self.number is not None:
            return self._numbers(data, first, file)
        raw = pl.Series("c0", data, dtype=pl.Binary)
        if not self.declared_type.is_string:
            return raw
        if self.codec == "utf-8":
            try:
                return raw.cast(pl.String)
            except pl.exceptions.PolarsError:
                pass
        return pl.Series("c0", [self._text(m, first + i, file) for i, m in enumerate(data)], dtype=pl.String)

    def _text(self, message: bytes | None, line: int, file: str | None) -> str | None:
        if message is None:
            return None
        codec = self.codec
        # As in Java: without a mark at the beginning the first byte is the highest.
        if codec in _MARKS and not message.startswith(_MARKS[codec]):
            codec += "-be"
        try:
            return message.decode(codec)
        except UnicodeDecodeError as error:
            at = Place(file=file, line=line)
            raise DataError(
                "DATA473", charset=self.charset, name=self.name, excerpt=excerpt(message), place=at
            ) from error

    def _numbers(self, data: Sequence[bytes | None], first: int, file: str | None) -> pl.Series:
        kind = np.dtype(self.number)
        has_message = [m is not None for m in data]
        messages = [m for m in data if m is not None]
        if any(len(m) != kind.itemsize for m in messages):
            at, bad = next((i, m) for i, m in enumerate(data) if m is not None and len(m) != kind.itemsize)
            raise DataError(
                "DATA469",
                name=self.name,
                declared=self.declared_type.summary(),
                found=len(bad),
                verb="is" if len(bad) == 1 else "are",
                size=kind.itemsize,
                place=Place(file=file, line=first + at),
            )
        read = np.frombuffer(b"".join(messages), kind)
        numbers = np.zeros(len(data), kind.newbyteorder("="))
        numbers[np.array(has_message, bool)] = read
        series = pl.Series("c0", numbers)
        if self.declared_type.root == "BOOLEAN":
            series = series != 0
        return pl.select(pl.when(pl.Series(has_message, dtype=pl.Boolean)).then(series)).to_series().alias("c0")

    # writing

    def messages(self, series: pl.Series) -> pl.Series:
        """The bytes of each value."""
        if self.number is not None:
            return self._bytes_of_numbers(series)
        if not self.declared_type.is_string:
            return series
        if self.codec == "utf-8":
            return series.cast(pl.Binary)
        return pl.Series(series.name, [self._bytes(text) for text in series.to_list()], dtype=pl.Binary)

    def _bytes(self, text: str | None) -> bytes | None:
        if text is None:
            return None
        codec, mark = self.codec, b""
        # What Java writes: UTF-16 with a mark, UTF-32 without, and the highest byte first.
        if codec in _MARKS:
            mark = codecs.BOM_UTF16_BE if codec == "utf-16" else b""
            codec += "-be"
        try:
            return mark + text.encode(codec)
        except UnicodeEncodeError as error:
            char = text[error.start]
            raise DataError("DATA471.charset", char=char, charset=self.charset, name=self.name) from error

    def _bytes_of_numbers(self, series: pl.Series) -> pl.Series:
        kind = np.dtype(self.number)
        numbers: Any = series.fill_null(False if self.declared_type.root == "BOOLEAN" else 0).to_numpy().astype(kind)
        array = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(kind.itemsize), len(series), [None, pa.py_buffer(numbers.tobytes())]
        )
        binary = pl.Series(series.name, pl.from_arrow(array.cast(pa.binary())), dtype=pl.Binary)
        return pl.select(pl.when(series.is_not_null()).then(binary)).to_series().alias(series.name)


@dataclass
class RawDecoder:
    """Decoder of the ``raw`` format; see :class:`connectors.formats.base.Decoder` and
    :class:`connectors.formats.base.MessageDecoder`."""

    value: _Value
    projection: list[int]
    metadata: tuple[str, ...]

    @classmethod
    def make(
        cls, values: OptionValues, fields: Fields, projection: Sequence[int], metadata: Sequence[str] = ()
    ) -> RawDecoder:
        return cls(_Value.of(values, fields), list(projection), tuple(metadata))

    def messages(self, data: Sequence[bytes | None]) -> tuple[pl.DataFrame, npt.NDArray[np.int64]]:
        """The rows of some messages: one of each, also of NULL."""
        return countable(self._frame(data, 1, None)), np.arange(len(data), dtype=np.int64)

    def read(self, path: str) -> Iterator[pl.DataFrame]:
        """The rows of one file: one of each line."""
        first_line, of_file = 1, FileColumns(path, self.metadata)
        for lines in line_chunks(path):
            rows = [row.removesuffix(b"\r") for row in lines.data.split(b"\n")[:-1]]
            df = self._frame(rows, first_line, path)
            first_line += len(rows)
            if df.height:
                yield countable(of_file.behind(df, len(self.projection)))

    def _frame(self, data: Sequence[bytes | None], first: int, file: str | None) -> pl.DataFrame:
        series = self.value.column(data, first, file)
        names = [column(k) for k in range(len(self.projection))]
        return pl.DataFrame([series.alias(name) for name in names]) if names else pl.DataFrame(height=len(data))


@dataclass
class RawEncoder:
    """Encoder of the ``raw`` format; see :class:`connectors.formats.base.Encoder` and
    :class:`connectors.formats.base.MessageEncoder`."""

    value: _Value

    @classmethod
    def make(cls, values: OptionValues, fields: Fields) -> RawEncoder:
        return cls(_Value.of(values, fields))

    def messages(self, df: pl.DataFrame) -> pl.Series:
        """The value of each row; NULL for NULL."""
        return self.value.messages(df[column(0)])

    def encode(self, df: pl.DataFrame) -> bytes:
        """The bytes of one file: each value with a line break. Raises DataError DATA471, for a NULL."""
        values = self.messages(df)
        if values.null_count():
            raise DataError("DATA471", name=self.value.name, value="NULL", reason="a line of a file has no NULL")
        return b"".join(value + b"\n" for value in values.to_list())
