"""The vectorised CSV reader.

A piece of text in which every record is plainly well formed is split by Polars into columns of text, which are then
turned into values by strict expressions. Whatever does not fit goes to the record reader
(:mod:`connectors.formats.csv_rows`); where there are no quotes, only the lines around it.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from stateplan.common.changelog import columns
from stateplan.common.errors import DataError, Place
from stateplan.common.files import Lines, line_chunks
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import OptionValues
from stateplan.common.types import LogicalType
from stateplan.common.values.strict import strict_value
from stateplan.connectors.formats.base import Fields, FileColumns, countable, frame_of
from stateplan.connectors.formats.csv_rows import CsvLayout, CsvRows
from stateplan.connectors.rejects import reject

_SMALL_PIECE = 16 << 10


class _FastText:
    """The strict reader: pieces of text to frames, or a refusal."""

    def __init__(self, fields: Fields, projection: list[int], layout: CsvLayout) -> None:
        self.layout = layout
        self.width = len(fields)
        self.projection = projection
        self.names = columns(self.width)
        self.schema = {f"c{k}": fields[i][1].polars() for k, i in enumerate(projection)}
        conversions = [self._value(pl.col(f"c{i}"), fields[i][1]) for i in projection]
        self.usable = (
            layout.escape is None
            and not layout.allow_comments
            and not layout.trim_spaces
            and layout.delimiter < "\x7f"
            and (layout.quote is None or layout.quote < "\x7f")
            and all(c is not None for c in conversions)
            and bool(projection)
            and not layout.ignore_trailing_unmappable
        )
        self.conversions = [c.alias(f"c{k}") for k, c in enumerate(conversions) if c is not None]
        if layout.quote is not None:
            quote, delimiter = re.escape(layout.quote), re.escape(layout.delimiter)
            cell = rf"(?:{quote}(?:[^{quote}]|{quote}{quote})*{quote}|[^{quote}{delimiter}\r\n]*)"
            self.shape = rf"\A(?:{cell}(?:{delimiter}{cell}){{{self.width - 1}}}\n)*\z"

    def _value(self, expr: pl.Expr, data_type: LogicalType) -> pl.Expr | None:
        nulls = [self.layout.null_literal, "" if self.layout.empty_string_as_null else None]
        for text in (text for text in nulls if text is not None):
            expr = pl.when(expr == text).then(None).otherwise(expr)
        return strict_value(expr, data_type, "SQL")

    def read(self, lines: Lines) -> pl.DataFrame | None:
        """The rows of some lines, or None when the record reader must look at them."""
        if not self.usable:
            return None
        piece = lines.data
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n")
            lines = Lines(piece)
            if b"\r" in piece or (self.layout.quote and self.layout.quote.encode() in piece):
                return None
        try:
            text = piece.decode()
        except UnicodeDecodeError:
            return None
        quote = self.layout.quote if self.layout.quote and self.layout.quote in text else None
        if quote is None:
            if not self._even(lines):
                return None
        elif self.width == 1 or not pl.Series([text]).str.contains(self.shape).item():
            return None
        try:
            df = pl.read_csv(
                io.BytesIO(piece),
                has_header=False,
                separator=self.layout.delimiter,
                quote_char=quote,
                schema=dict.fromkeys(self.names, pl.String),
                empty_string_is_null=False,
            )
            return df.select(self.conversions).cast(pl.Schema(self.schema))
        except pl.exceptions.PolarsError:
            return None

    def _even(self, lines: Lines) -> bool:
        """Whether every line has as many fields as the table, and none is empty."""
        ends = lines.ends
        marks = np.flatnonzero(np.frombuffer(lines.data, np.uint8) == ord(self.layout.delimiter))
        counts = np.diff(np.searchsorted(marks, ends), prepend=0)
        return bool((counts == self.width - 1).all() and (self.width > 1 or (np.diff(ends, prepend=-1) > 1).all()))


@dataclass
class CsvDecoder(FrozenDataclass):
    """Decoder of the ``csv`` format; see :class:`connectors.formats.base.Decoder` and
    :class:`connectors.formats.base.MessageDecoder`."""

    fields: Fields
    projection: list[int]
    metadata: tuple[str, ...]
    layout: CsvLayout

    @classmethod
    def make(
        cls, values: OptionValues, fields: Fields, projection: Sequence[int], metadata: Sequence[str] = ()
    ) -> CsvDecoder:
        """See :meth:`connectors.formats.base.Format.make_decoder`."""
        return cls(list(fields), list(projection), tuple(metadata), CsvLayout.of(values))

    @cached_property
    def fast(self) -> _FastText:
        """The strict reader."""
        return _FastText(self.fields, self.projection, self.layout)

    @cached_property
    def slow(self) -> CsvRows:
        """The record reader."""
        return CsvRows(self.fields, self.projection, self.layout)

    def read(self, path: str) -> Iterator[pl.DataFrame]:
        """The rows of one file."""
        first_line, of_file = 1, FileColumns(path, self.metadata)
        for lines in self._pieces(path):
            parts = [df for df in self.decode(lines, first_line, path) if df.height]
            first_line += len(lines)
            if not parts:
                continue
            yield countable(of_file.behind(pl.concat(parts), len(self.projection)))

    def messages(self, data: Sequence[bytes | None]) -> tuple[pl.DataFrame, npt.NDArray[np.int64]]:
        """See :meth:`connectors.formats.base.MessageDecoder.messages`."""
        present = np.fromiter((i for i, message in enumerate(data) if message is not None), np.int64)
        parts = list(self._messages([message for message in data if message is not None], present))
        if not parts:
            return countable(frame_of([], [self.fields[i] for i in self.projection])), present[:0]
        return countable(pl.concat([df for df, _ in parts])), np.concatenate([places for _, places in parts])

    def _messages(
        self, data: list[bytes], places: npt.NDArray[np.int64]
    ) -> Iterator[tuple[pl.DataFrame, npt.NDArray[np.int64]]]:
        """The rows of messages, and for each the place of its message."""
        if not data:
            return
        lines = Lines(b"".join([m if m.endswith(b"\n") else m + b"\n" for m in data]))
        # As many line breaks as messages: none has two lines, so one that runs into the next makes a row less.
        even = len(lines) == len(data) and b"\xef\xbb\xbf" not in lines.data and all(data)
        df = self.fast.read(lines) if even else None
        if df is not None and df.height == len(data):
            yield df, places
        elif len(data) > 1 and len(lines.data) > _SMALL_PIECE and self.fast.usable:
            half = len(data) // 2
            yield from self._messages(data[:half], places[:half])
            yield from self._messages(data[half:], places[half:])
        else:
            rows = [self._record(message, at + 1) for message, at in zip(data, places.tolist(), strict=True)]
            good = [row for row in rows if row is not None]
            yield frame_of(good, [self.fields[i] for i in self.projection]), places[[row is not None for row in rows]]

    def _record(self, message: bytes, line: int) -> list[Any] | None:
        try:
            return self.slow.message(message.decode(), line)
        except UnicodeDecodeError as error:
            data_error = DataError("DATA124", piece=message[error.start], what="a message", place=Place(line=line))
            if self.layout.ignore_parse_errors:
                reject(data_error, message)
                return None
            raise data_error from error

    def _pieces(self, path: str) -> Iterator[Lines]:
        """Pieces of whole records: a piece that ends inside of a quoted field is joined with the next."""
        quote = self.layout.quote.encode() if self.layout.quote else None
        pending, quotes = b"", 0
        for number, lines in enumerate(line_chunks(path)):
            chunk = lines.data.removeprefix(b"\xef\xbb\xbf") if number == 0 else lines.data
            if quote is None:
                yield Lines(chunk)
                continue
            pending, quotes = pending + chunk, quotes + chunk.count(quote)
            if quotes % 2 == 0:
                yield Lines(pending)
                pending, quotes = b"", 0
        if pending:
            yield Lines(pending)

    def decode(self, lines: Lines, first_line: int, file: str | None) -> Iterator[pl.DataFrame]:
        """The rows of some lines, in order.

        Raises:
            DataError: DATA121 to DATA124.
        """
        df = self.fast.read(lines)
        if df is not None:
            yield df
            return
        plain = self.layout.quote is None or self.layout.quote.encode() not in lines.data
        halves = lines.halves() if len(lines.data) > _SMALL_PIECE and plain and self.fast.usable else None
        if halves is not None:
            yield from self.decode(halves[0], first_line, file)
            yield from self.decode(halves[1], first_line + len(halves[0]), file)
            return
        rows = self.slow.rows(self._text(lines.data, first_line, file), first_line, file)
        while batch := list(itertools.islice(rows, 50_000)):
            yield frame_of(batch, [self.fields[i] for i in self.projection])

    def _text(self, piece: bytes, first_line: int, file: str | None) -> str:
        try:
            return piece.decode()
        except UnicodeDecodeError as error:
            if self.layout.ignore_parse_errors:
                return piece.decode("utf-8", "replace")
            raise DataError(
                "DATA124",
                piece=piece[error.start],
                what="a file",
                place=Place(file=file, line=first_line + piece.count(b"\n", 0, error.start)),
            ) from error
