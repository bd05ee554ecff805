"""The vectorised CSV reader.

A piece of text in which every record is plainly well formed is split by Polars into columns of text, which are then
turned into values by strict expressions. Whatever does not fit goes to the record reader
(:mod:`execnodes.connectors.formats.csv_rows`); where there are no quotes, only the lines around it.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from stateplan.execnodes.changelog import columns
from stateplan.execnodes.connectors.formats.base import Fields, counted, frame_of, with_metadata
from stateplan.execnodes.connectors.formats.csv_rows import CsvLayout, CsvRows
from stateplan.execnodes.connectors.options import OptionValues
from stateplan.execnodes.errors import DataError, Place
from stateplan.execnodes.files import line_chunks
from stateplan.execnodes.runtime.kernel import Frozen
from stateplan.execnodes.types import LogicalType
from stateplan.execnodes.values.strict import strict_value

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

    def _value(self, expr: pl.Expr, declared: LogicalType) -> pl.Expr | None:
        nulls = [self.layout.null_literal, "" if self.layout.empty_string_as_null else None]
        for text in (text for text in nulls if text is not None):
            expr = pl.when(expr == text).then(None).otherwise(expr)
        return strict_value(expr, declared, "SQL")

    def read(self, piece: bytes) -> pl.DataFrame | None:
        """The rows of some whole lines, or None when the record reader must look at them."""
        if not self.usable:
            return None
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n")
            if b"\r" in piece or (self.layout.quote and self.layout.quote.encode() in piece):
                return None
        try:
            text = piece.decode()
        except UnicodeDecodeError:
            return None
        quote = self.layout.quote if self.layout.quote and self.layout.quote in text else None
        if quote is None:
            if not self._even(piece):
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

    def _even(self, piece: bytes) -> bool:
        """Whether every line has as many fields as the table, and none is empty."""
        data = np.frombuffer(piece, np.uint8)
        ends = np.flatnonzero(data == 10)
        marks = np.flatnonzero(data == ord(self.layout.delimiter))
        counts = np.diff(np.searchsorted(marks, ends), prepend=0)
        return bool((counts == self.width - 1).all() and (self.width > 1 or (np.diff(ends, prepend=-1) > 1).all()))


@dataclass
class CsvDecoder(Frozen):
    """Decoder of the ``csv`` format; see :class:`execnodes.connectors.formats.base.Decoder` and
    :class:`execnodes.connectors.formats.base.MessageDecoder`."""

    fields: Fields
    projection: list[int]
    metadata: tuple[str, ...]
    layout: CsvLayout

    @classmethod
    def make(
        cls, values: OptionValues, fields: Fields, projection: Sequence[int], metadata: Sequence[str] = ()
    ) -> CsvDecoder:
        """As :meth:`execnodes.connectors.formats.base.Format.make_decoder`."""
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
        for first_line, piece in self._pieces(path):
            parts = [df for df in self.decode(piece, first_line, path) if df.height]
            if not parts:
                continue
            yield counted(with_metadata(pl.concat(parts), path, len(self.projection), self.metadata))

    def messages(self, data: Sequence[bytes | None]) -> tuple[pl.DataFrame, npt.NDArray[np.int64]]:
        """As :meth:`execnodes.connectors.formats.base.MessageDecoder.messages`."""
        there = np.fromiter((i for i, message in enumerate(data) if message is not None), np.int64)
        parts = list(self._messages([message for message in data if message is not None], there))
        if not parts:
            return counted(frame_of([], [self.fields[i] for i in self.projection])), there[:0]
        return counted(pl.concat([df for df, _ in parts])), np.concatenate([places for _, places in parts])

    def _messages(
        self, data: list[bytes], places: npt.NDArray[np.int64]
    ) -> Iterator[tuple[pl.DataFrame, npt.NDArray[np.int64]]]:
        """The rows of messages, and for each the place of its message."""
        if not data:
            return
        piece = b"".join([m if m.endswith(b"\n") else m + b"\n" for m in data])
        # As many line breaks as messages: none has two lines, so one that runs into the next makes a row less.
        even = piece.count(b"\n") == len(data) and b"\xef\xbb\xbf" not in piece and all(data)
        df = self.fast.read(piece) if even else None
        if df is not None and df.height == len(data):
            yield df, places
        elif len(data) > 1 and len(piece) > _SMALL_PIECE and self.fast.usable:
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
            if self.layout.ignore_parse_errors:
                return None
            raise DataError("DATA124.record", piece=message[error.start], place=Place(line=line)) from error

    def _pieces(self, path: str) -> Iterator[tuple[int, bytes]]:
        """Pieces of whole records: a piece that ends inside of a quoted field is joined with the next."""
        quote = self.layout.quote.encode() if self.layout.quote else None
        held, held_line, quotes = b"", 1, 0
        for line, chunk in line_chunks(path):
            if line == 1 and chunk.startswith(b"\xef\xbb\xbf"):
                chunk = chunk[3:]
            if quote is None:
                yield line, chunk
                continue
            held_line = held_line if held else line
            held, quotes = held + chunk, quotes + chunk.count(quote)
            if quotes % 2 == 0:
                yield held_line, held
                held, quotes = b"", 0
        if held:
            yield held_line, held

    def decode(self, piece: bytes, first_line: int, file: str | None) -> Iterator[pl.DataFrame]:
        """The rows of some whole lines, in order.

        Raises:
            DataError: DATA121 to DATA124.
        """
        df = self.fast.read(piece)
        if df is not None:
            yield df
            return
        plain = self.layout.quote is None or self.layout.quote.encode() not in piece
        cut = (
            piece.rfind(b"\n", 0, len(piece) // 2) + 1
            if len(piece) > _SMALL_PIECE and plain and self.fast.usable
            else 0
        )
        if cut:
            yield from self.decode(piece[:cut], first_line, file)
            yield from self.decode(piece[cut:], first_line + piece.count(b"\n", 0, cut), file)
            return
        rows = self.slow.rows(self._text(piece, first_line, file), first_line, file)
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
                place=Place(file=file, line=first_line + piece.count(b"\n", 0, error.start)),
            ) from error
