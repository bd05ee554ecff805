"""The vectorised JSON reader.

Lines are decoded by Arrow's JSON reader (:mod:`execnodes.connectors.formats.json_arrow`), which is strict: a number is
not taken for a text, a key must not come twice, a decimal must not lose digits. Whatever it refuses goes to the line
reader (:mod:`execnodes.connectors.formats.json_rows`), but only the lines around it: a piece that fails is cut in
halves until it is small.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from stateplan.execnodes.changelog import KIND, columns
from stateplan.execnodes.connectors.files import line_chunks
from stateplan.execnodes.connectors.formats import json as json_format
from stateplan.execnodes.connectors.formats.base import Fields, check_types, frame_schema, with_metadata
from stateplan.execnodes.connectors.formats.json_arrow import ArrowLines
from stateplan.execnodes.connectors.formats.json_rows import BadEvent, RowReader
from stateplan.execnodes.connectors.formats.values import build_series
from stateplan.execnodes.connectors.options import OptionValues

_SMALL_PIECE = 16 << 10


@dataclass
class LineDecoder:
    """Pieces of lines to frames: the strict reader where it can, the line reader where it must.

    Attributes:
        fields: name and type of the columns to read.
        format_name: for messages.
        standard: ``SQL`` or ``ISO-8601``.
        fail_on_missing: whether a missing field is an error.
        ignore_errors: whether what cannot be read is skipped.
        tree: as in :class:`RowReader`.
        check_frame: whether every row of a frame of the strict reader is good; None for no check.
        check_row: as ``check`` in :class:`RowReader`.
        guard: as in :class:`RowReader`.
        fits: whether the strict reader may read a piece; None for any.
        select: of a good frame of the strict reader the rows that count; None for all.
        prepare: as in :class:`RowReader`.
    """

    fields: Fields
    format_name: str
    standard: str
    fail_on_missing: bool
    ignore_errors: bool
    tree: bool = False
    check_frame: Callable[[pl.DataFrame], bool] | None = None
    check_row: Callable[[list[Any]], BadEvent | None] | None = None
    guard: Callable[[dict[str, Any]], BadEvent | None] | None = None
    fits: Callable[[bytes], bool] | None = None
    select: Callable[[pl.DataFrame], pl.DataFrame] | None = None
    prepare: Callable[[dict[str, Any]], dict[str, Any] | BadEvent | None] | None = None
    _readers: tuple[ArrowLines, RowReader] | None = field(default=None, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_readers": None}

    def readers(self) -> tuple[ArrowLines, RowReader]:
        if self._readers is None:
            self._readers = (
                ArrowLines(self.fields, self.standard, self.fail_on_missing),
                RowReader(
                    self.fields,
                    self.fail_on_missing,
                    self.ignore_errors,
                    self.standard,
                    self.tree,
                    self.check_row,
                    self.guard,
                    self.prepare,
                ),
            )
        return self._readers

    def decode(self, piece: bytes, first_line: int, file: str | None) -> Iterator[pl.DataFrame]:
        """The rows of some whole lines, in order, without ``kind``.

        Raises:
            DataError: DATA111 to DATA114, DATA151.
        """
        fast, slow = self.readers()
        df = fast.read(piece) if self.fits is None or self.fits(piece) else None
        if df is not None and (self.check_frame is None or self.check_frame(df)):
            yield df if self.select is None else self.select(df)
            return
        cut = piece.rfind(b"\n", 0, len(piece) // 2) + 1 if len(piece) > _SMALL_PIECE and fast.usable else 0
        if cut:
            yield from self.decode(piece[:cut], first_line, file)
            yield from self.decode(piece[cut:], first_line + piece.count(b"\n", 0, cut), file)
            return
        lines = piece.split(b"\n")[:-1]
        rows = slow.rows(lines, first_line, file, self.format_name)
        while batch := list(itertools.islice(rows, 50_000)):
            yield self.frame(batch)

    def decode_file(self, path: str) -> Iterator[pl.DataFrame]:
        """The rows of a file, one frame per piece of it, without those that are empty."""
        for first_line, piece in line_chunks(path):
            parts = list(self.decode(piece, first_line, path))
            df = parts[0] if len(parts) == 1 else pl.concat(parts) if parts else None
            if df is not None and df.height:
                yield df

    def frame(self, rows: list[list[Any]]) -> pl.DataFrame:
        """Rows of raw values as a frame."""
        if not self.fields:
            return pl.DataFrame(height=len(rows))
        data = zip(*rows, strict=True) if rows else ((),) * len(self.fields)
        names = columns(len(self.fields))
        return pl.DataFrame(
            [
                build_series(n, list(values), declared)
                for n, values, (_, declared) in zip(names, data, self.fields, strict=True)
            ]
        )


def make_lines(options: Mapping[str, str], fields: Fields) -> LineDecoder:
    """The line decoder of a table of the ``json`` format."""
    values = OptionValues.read(json_format.FORMAT.options, options, "json.")
    check_types(fields, json_format.FORMAT)
    return LineDecoder(
        fields,
        "json",
        values["timestamp-format.standard"],
        values["fail-on-missing-field"],
        values["ignore-parse-errors"],
    )


@dataclass
class JsonDecoder:
    """Decoder of the ``json`` format; see :class:`execnodes.connectors.formats.base.Decoder`."""

    lines: LineDecoder
    metadata: tuple[str, ...]
    with_kind: bool

    @classmethod
    def make(
        cls, options: Mapping[str, str], fields: Fields, projection: Sequence[int], metadata: Sequence[str] = ()
    ) -> JsonDecoder:
        """See :func:`execnodes.connectors.formats.json.make_decoder`."""
        lines = make_lines(options, [fields[i] for i in projection])
        return cls(lines, tuple(metadata), KIND in frame_schema(fields, projection, metadata))

    def read(self, path: str) -> Iterator[pl.DataFrame]:
        """The rows of one file."""
        for df in self.lines.decode_file(path):
            df = with_metadata(df, path, len(self.lines.fields), self.metadata)
            yield pl.DataFrame({KIND: pl.zeros(df.height, pl.Int8, eager=True)}) if self.with_kind else df
