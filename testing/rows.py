"""Rows between the texts of a test file and the frames of the runtime.

Both go through the format ``op-json``: a text that is a value there is a value in a test, and two texts are equal if
they are the same value of the column's type.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

from stateplan.common.errors import DataError, Place, StateplanError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.connectors.formats.change_formats import OpJson
from stateplan.testing.story import Block, Row

if TYPE_CHECKING:
    import polars as pl

OPTIONS = {"op-json.mode": "retract", "op-json.encode.decimal-as-plain-number": "true"}
"""The options of the format."""

_NESTED = ("ARRAY", "MAP", "MULTISET", "ROW", "STRUCTURED_TYPE", "VARIANT")
_LOCAL = "TIMESTAMP_WITH_LOCAL_TIME_ZONE"


class Change(NamedTuple):
    """A change: its kind, and the text of each cell, None for NULL."""

    kind: str
    cells: tuple[str | None, ...]


@dataclass(frozen=True)
class Fields:
    """The columns of a table, as texts see them.

    Attributes:
        fields: name and type of each.
        zone: the time zone of the session.
    """

    fields: tuple[tuple[str, LogicalType], ...]
    zone: str = "UTC"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.fields)

    @cached_property
    def nullable(self) -> tuple[tuple[str, LogicalType], ...]:
        """The columns as tests write them: each may be NULL, and none is a time attribute."""
        return tuple((name, replace(kind, nullable=True, kind=None)) for name, kind in self.fields)

    def only(self, names: Sequence[str]) -> Fields:
        """Some of the columns, in this order."""
        by_name = dict(self.fields)
        return Fields(tuple((name, by_name[name]) for name in names), self.zone)

    def json_lines(self, block: Block, file: str, table: str) -> list[bytes]:
        """The rows of a block as lines of ``op-json``. Raises StateplanError TEST002, for an unknown column."""
        types = dict(self.fields)
        for name in block.columns:
            if name not in types:
                problem, hint = f"table '{table}' has no column '{name}'", nearest(name, self.names)
                place = Place(file=file, line=block.first)
                raise StateplanError("TEST002", problem=problem, place=place, expected=", ".join(self.names), hint=hint)
        return [self._line(block.columns, types, row) for row in block.rows]

    def _line(self, columns: Sequence[str], types: dict[str, LogicalType], row: Row) -> bytes:
        cells = (f"{json.dumps(n)}: {self._value(types[n], c)}" for n, c in zip(columns, row.cells, strict=True))
        return f"{{{', '.join((json.dumps('_op') + ': ' + json.dumps(row.kind), *cells))}}}".encode()

    def _value(self, kind: LogicalType, cell: str | None) -> str:
        """The JSON text of a cell."""
        if cell is None:
            return "null"
        if kind.root in _NESTED:
            return cell
        if len(cell) > 1 and cell[0] == cell[-1] == '"':
            return cell
        if kind.is_timestamp and cell[10:11] == "T":
            cell = f"{cell[:10]} {cell[11:]}"
        if kind.root == _LOCAL and not cell.endswith("Z"):
            cell = self._utc(cell)
        return json.dumps(cell, ensure_ascii=False)

    def _utc(self, text: str) -> str:
        """A time of the session's zone as the format wants it."""
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            return text
        zoned = (time if time.tzinfo else time.replace(tzinfo=ZoneInfo(self.zone))).astimezone(UTC)
        return zoned.replace(tzinfo=None).isoformat(" ") + "Z"

    def checked_frame(self, lines: Sequence[bytes], rows: Sequence[int], file: str) -> pl.DataFrame:
        """The rows of lines, of which these are the lines in the test file, as a frame of changes.

        Raises:
            StateplanError: TEST002, a value that is none of its column's type; with its line in the test file.
        """
        try:
            return self.frame(lines)
        except DataError as error:
            number = (error.place.line if error.place and error.place.line else 1) - 1
            column = error.place.pointer if error.place else None
            problem = error.message if column is None else f"{error.message} ({column})"
            place = Place(file=file, line=rows[min(number, len(rows) - 1)])
            raise StateplanError("TEST002", problem=problem, place=place, expected=error.expected) from None

    def frame(self, lines: Sequence[bytes]) -> pl.DataFrame:
        """The rows of lines as a frame of changes. Raises DataError."""
        decoder = OpJson().message_decoder(OPTIONS, self.nullable, range(len(self.fields)))
        return decoder.messages(list(lines))[0]

    def changes(self, frames: Iterable[pl.DataFrame]) -> list[Change]:
        """The changes of frames, as texts."""
        encoder = OpJson().message_encoder(OPTIONS, self.nullable)
        out: list[Change] = []
        for frame in frames:
            if frame.height == 0:
                continue
            for line in encoder.messages(frame).to_list():
                value = json.loads(line, parse_float=_Text, parse_int=_Text)
                kind = value.pop("_op")
                out.append(Change(str(kind), tuple(_cell(value.get(n), t) for n, t in self.fields)))
        return out

    def expected(self, block: Block, file: str, table: str) -> list[Change]:
        """The rows of a block, as texts in the spelling of :meth:`changes`. The columns are those of the block."""
        lines = self.json_lines(block, file, table)
        mine = self.only(block.columns)
        return mine.changes([mine.checked_frame(lines, [row.line for row in block.rows], file)]) if lines else []


class _Text(str):
    """A number as it is written."""

    __slots__ = ()


def _cell(value: Any, kind: LogicalType) -> str | None:
    """The text of a cell: a text in double quotes where it would be read as something else."""
    if value is None:
        return None
    if kind.root in _NESTED:
        return _dumps(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, _Text) or not isinstance(value, str):
        return str(value)
    text = value.removesuffix("Z") if kind.root == _LOCAL else value
    is_plain = text == text.strip() and text not in ("", "NULL") and not text.startswith('"') and text.isprintable()
    return text if is_plain and "|" not in text else json.dumps(text, ensure_ascii=False)


def _dumps(value: Any) -> str:
    """JSON with numbers as they were written."""
    if isinstance(value, _Text):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k, ensure_ascii=False)}: {_dumps(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_dumps, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
