"""The vectorised JSON reader.

Lines are decoded by Arrow's JSON reader (:mod:`connectors.formats.json_arrow`), which is strict: a number is
not taken for a text, a key must not come twice, a decimal must not lose digits. Whatever it refuses goes to the line
reader (:mod:`connectors.formats.json_rows`), but only the lines around it: a piece that fails is cut in
halves until it is small.
"""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from stateplan.common.changelog import KIND, column, columns
from stateplan.common.files import Lines, line_chunks
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import OptionValues
from stateplan.common.types import LogicalType, row_type
from stateplan.connectors.formats.base import Fields, FileColumns, countable, frame_of
from stateplan.connectors.formats.json_arrow import ArrowLines
from stateplan.connectors.formats.json_rows import BadEvent, Number, RowReader

_SMALL_PIECE = 16 << 10
_PLACE = "@place"


@dataclass
class LineDecoder(FrozenDataclass):
    """Pieces of lines to frames: the strict reader where it can, the line reader where it must.

    Attributes:
        slow: the line reader.
        check_frame: whether every row of a frame of the strict reader is good; None for no check.
        fits: whether the strict reader may read a piece; None for any.
        select: of a good frame of the strict reader the rows that count; None for all.
    """

    slow: RowReader
    check_frame: Callable[[pl.DataFrame], bool] | None = None
    fits: Callable[[bytes], bool] | None = None
    select: Callable[[pl.DataFrame], pl.DataFrame] | None = None

    @cached_property
    def fast(self) -> ArrowLines:
        """The strict reader."""
        return ArrowLines(self.slow.fields, self.slow.standard, self.slow.fail_on_missing)

    def decode(self, lines: Lines, first_line: int, file: str | None) -> Iterator[pl.DataFrame]:
        """The rows of some lines, in order, without ``kind``.

        Raises:
            DataError: DATA111 to DATA114, DATA151.
        """
        df = self.fast.read(lines) if self.fits is None or self.fits(lines.data) else None
        if df is not None and (self.check_frame is None or self.check_frame(df)):
            yield df if self.select is None else self.select(df)
            return
        if len(lines.data) > _SMALL_PIECE and self.fast.usable and (halves := lines.halves()) is not None:
            yield from self.decode(halves[0], first_line, file)
            yield from self.decode(halves[1], first_line + len(halves[0]), file)
            return
        rows = self.slow.rows(lines.data.split(b"\n")[:-1], first_line, file)
        while batch := list(itertools.islice(rows, 50_000)):
            yield frame_of(batch, self.slow.fields)

    def decode_messages(
        self, data: Sequence[bytes], places: npt.NDArray[np.int64]
    ) -> Iterator[tuple[pl.DataFrame, npt.NDArray[np.int64]]]:
        """The rows of some messages, in order, without ``kind``, and for each the place of its message.

        Args:
            data: messages.
            places: of each.

        Raises:
            DataError: as :meth:`decode`; the line is the place of the message plus one.
        """
        if not data:
            return
        lines = _line_each(data)
        if lines is None:
            data = [*map(_on_one_line, data)]
            lines = _line_each(data)
        df = self.fast.read(lines) if lines is not None and (self.fits is None or self.fits(lines.data)) else None
        if df is not None and df.height == len(data) and (self.check_frame is None or self.check_frame(df)):
            if self.select is not None:
                df = self.select(df.with_columns(pl.Series(_PLACE, places)))
                places = df[_PLACE].to_numpy()
                df = df.drop(_PLACE)
            yield df, places
        elif len(data) > 1 and sum(map(len, data)) > _SMALL_PIECE and self.fast.usable:
            half = len(data) // 2
            yield from self.decode_messages(data[:half], places[:half])
            yield from self.decode_messages(data[half:], places[half:])
        else:
            some = zip(data, places.tolist(), strict=True)
            rows = [list(self.slow.rows([message], at + 1, None)) for message, at in some]
            row_places = np.repeat(places, [len(some) for some in rows])
            yield frame_of([row for some in rows for row in some], self.slow.fields), row_places

    def decode_file(self, path: str) -> Iterator[pl.DataFrame]:
        """The rows of a file, one frame per piece of it, without those that are empty."""
        first_line = 1
        for lines in line_chunks(path):
            parts = list(self.decode(lines, first_line, path))
            first_line += len(lines)
            df = parts[0] if len(parts) == 1 else pl.concat(parts) if parts else None
            if df is not None and df.height:
                yield df


def _line_each(messages: Sequence[bytes]) -> Lines | None:
    """Messages as lines of text; None when one has several lines."""
    text = b"\n".join([*messages, b""])
    return Lines(text) if text.count(b"\n") == len(messages) else None


def _on_one_line(message: bytes) -> bytes:
    """A message of several lines on one line; as it is when a line breaks within a text."""
    if b"\n" not in message:
        return message
    try:
        json.loads(message)
    except ValueError:
        return message
    return message.replace(b"\n", b" ")


class Event(ABC):
    """How a format writes changes: an object per line, which holds rows and what happened to them. Picklable.

    Attributes:
        tree: as in :class:`RowReader`.
        wrapper: the fields of the line's object that lead to the event.
    """

    tree: ClassVar[bool] = True
    wrapper: tuple[str, ...] = ()

    @abstractmethod
    def fields(self, columns: Fields) -> Fields:
        """The fields to read of an event whose rows have these columns."""

    @abstractmethod
    def frame(self, df: pl.DataFrame) -> bool:
        """Whether all events of a frame are good."""

    @abstractmethod
    def row(self, row: list[Any]) -> BadEvent | None:
        """What is wrong with one event, given as raw values."""

    @abstractmethod
    def changes(self, df: pl.DataFrame, width: int) -> tuple[pl.DataFrame, pl.Series]:
        """From a frame of good events and the number of columns of a row: ``c0..`` and ``kind`` of the changes in
        order, and for each the position of its event."""

    def fits(self, piece: bytes) -> bool:
        """As in :class:`LineDecoder`."""
        return True

    def select(self, df: pl.DataFrame) -> pl.DataFrame:
        """As in :class:`LineDecoder`."""
        return df

    def prepare(self, event: dict[str, Any]) -> dict[str, Any] | BadEvent | None:
        """As in :class:`RowReader`."""
        return event


@dataclass(frozen=True)
class EventValue:
    """A metadata column that comes with every event: the field at ``path`` of the line's object, read as ``type`` and
    converted."""

    path: tuple[str, ...]
    type: LogicalType
    convert: Callable[[pl.Series], pl.Series] | None = None


@dataclass
class RowDecoder:
    """Decoder of the formats of lines; see :class:`connectors.formats.base.Decoder`.

    Attributes:
        lines: returns the columns, or the fields of the event and after them those of ``metadata``; the stamp comes
            last.
        width: number of columns.
        event: turns what ``lines`` gives into changes; None for plain rows.
        metadata: per metadata column a key of the file, or a value of the event.
    """

    lines: LineDecoder
    width: int
    event: Event | None
    metadata: tuple[str | EventValue, ...]

    @classmethod
    def of_rows(
        cls,
        format_name: str,
        values: OptionValues,
        columns: Fields,
        metadata: Sequence[str],
        stamp: tuple[str, LogicalType] | None = None,
    ) -> RowDecoder:
        """The decoder of lines that contain plain rows, not change events."""
        fields = [*columns, *([] if stamp is None else [stamp])]
        standard, fail_on_missing = values["timestamp-format.standard"], values["fail-on-missing-field"]
        lines = LineDecoder(RowReader(fields, format_name, standard, fail_on_missing, values["ignore-parse-errors"]))
        return cls(_stamped(lines, stamp), len(columns), None, tuple(metadata))

    @classmethod
    def of_events(
        cls,
        format_name: str,
        values: OptionValues,
        event: Event,
        columns: Fields,
        width: int,
        metadata: Sequence[str | EventValue],
        stamp: tuple[str, LogicalType] | None = None,
    ) -> RowDecoder:
        """For lines that are events with rows of ``columns``, of which the first ``width`` are wanted."""
        fields: Fields = event.fields(columns)
        for value in metadata:
            if isinstance(value, EventValue):
                fields = _with_field(fields, value.path, value.type)
        fields = [*fields, *([] if stamp is None else [stamp])]
        standard, ignore = values["timestamp-format.standard"], values["ignore-parse-errors"]
        reader = RowReader(fields, format_name, standard, False, ignore, event.tree, event.row, prepare=event.prepare)
        lines = LineDecoder(reader, event.frame, event.fits, event.select)
        return cls(_stamped(lines, stamp), width, event, tuple(metadata))

    def read(self, path: str) -> Iterator[pl.DataFrame]:
        """The rows of one file."""
        of_file = self._columns_of(path)
        for df in self.lines.decode_file(path):
            rows, origin = self._rows(df)
            if origin is None:
                yield countable(of_file.behind(rows, self.width))
            else:
                yield self._with_metadata(rows, df, origin, of_file) if self.metadata else rows

    def stamped(self, path: str) -> Iterator[tuple[pl.DataFrame, pl.Series]]:
        """The rows of one file, and for each the stamp of its line."""
        for df in self.lines.decode_file(path):
            rows, origin = self._rows(df)
            stamp = df[column(df.width - 1)]
            if origin is None:
                rows = rows.select(columns(self.width)) if self.width else countable(pl.DataFrame(height=rows.height))
            yield rows, stamp if origin is None else stamp[origin]

    def messages(self, data: Sequence[bytes | None]) -> tuple[pl.DataFrame, npt.NDArray[np.int64]]:
        """See :meth:`connectors.formats.base.MessageDecoder.messages`."""
        present = np.array([i for i, message in enumerate(data) if message is not None], np.int64)
        some = [message for message in data if message is not None]
        frames, places, of_file = [], [], self._columns_of("")
        for df, at in self.lines.decode_messages(some, present):
            rows, origin = self._rows(df)
            if origin is None:
                frames.append(countable(rows))
            else:
                frames.append(self._with_metadata(rows, df, origin, of_file) if self.metadata else rows)
                at = at[origin.to_numpy()]
            places.append(at)
        if not frames:
            empty, _ = self._rows(frame_of([], self.lines.slow.fields))
            return countable(empty), present[:0]
        return pl.concat(frames), np.concatenate(places)

    def _rows(self, df: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series | None]:
        if self.event is None:
            return df, None
        rows, origin = self.event.changes(df, max(self.width, 1))
        return rows.select(*columns(self.width), KIND), origin

    def _columns_of(self, path: str) -> FileColumns:
        return FileColumns(path, [key for key in self.metadata if isinstance(key, str)])

    def _with_metadata(
        self, rows: pl.DataFrame, df: pl.DataFrame, origin: pl.Series, of_file: FileColumns
    ) -> pl.DataFrame:
        data = of_file.behind(rows.drop(KIND) if self.width else rows, self.width)
        names = [name for name, _ in self.lines.slow.fields]
        metadata_columns = []
        for i, source in enumerate(self.metadata):
            if isinstance(source, str):
                series = data[column(self.width + of_file.keys.index(source))]
            else:
                series = df[column(names.index(source.path[0]))]
                for name in source.path[1:]:
                    series = series.struct.field(name)
                series = (series if source.convert is None else source.convert(series))[origin]
            metadata_columns.append(series.alias(column(self.width + i)))
        return pl.DataFrame([*(data[name] for name in columns(self.width)), *metadata_columns, rows[KIND]])


def _with_field(fields: Fields, path: tuple[str, ...], data_type: LogicalType) -> Fields:
    """``fields`` with one more, at ``path``: in a ROW of them where that has several names."""
    name, *inner = path
    if not inner:
        return fields if name in dict(fields) else [*fields, (name, data_type)]
    row = dict(fields).get(name, row_type([]))
    inner_row = row_type(list(_with_field([(f.name, f.type) for f in row.fields], tuple(inner), data_type)))
    return list((dict(fields) | {name: inner_row}).items())


def _stamped(lines: LineDecoder, stamp: tuple[str, LogicalType] | None) -> LineDecoder:
    if stamp is not None:
        lines.slow.guard = _Guard(stamp[0])
        lines.check_frame = _Complete(lines.check_frame)
    return lines


@dataclass(frozen=True)
class _Guard:
    """Whether an object has the stamp, a whole number of 64 bits."""

    name: str

    def __call__(self, value: dict[str, Any]) -> BadEvent | None:
        expectation = f'a field "{self.name}" with the time of arrival in milliseconds, as a whole number'
        if self.name not in value:
            return BadEvent(f'the field "{self.name}" is missing', expectation)
        at = value[self.name]
        if not isinstance(at, Number) or not at.removeprefix("-").isdigit() or not -(1 << 63) <= int(at) < 1 << 63:
            value_text = str(at) if isinstance(at, Number) else json.dumps(at, ensure_ascii=False)
            return BadEvent(f'the field "{self.name}" is {value_text[:80]}', expectation)
        return None


@dataclass(frozen=True)
class _Complete:
    """Whether every row of a frame has its stamp, and passes the format's own check."""

    inner: Callable[[pl.DataFrame], bool] | None

    def __call__(self, df: pl.DataFrame) -> bool:
        return not df[column(df.width - 1)].null_count() and (self.inner is None or self.inner(df))
