"""Late rows as rows of their table: what operators hand to a side output."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, RowKind, column
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.common.values.atomic import FieldStyle
from stateplan.connectors.formats.json_encode import JsonWriter
from stateplan.connectors.rejects import Reject
from stateplan.execnodes.side_outputs import ERROR_COLUMNS, LATE_COLUMNS
from stateplan.functions.rex import Call, InputRef
from stateplan.runtime.kernel import NO_WATERMARK, Transform
from stateplan.runtime.kernels.window_slices import SliceTransform, Slicing
from stateplan.runtime.transforms.calc import CalcTransform

ROW_STYLE = FieldStyle(standard="ISO-8601", decimals="plain", skip_nulls=False, null_key="LITERAL", null_literal="null")
"""How a row is written as JSON in a column of a table."""
_SHORT = {int(kind): kind.short for kind in RowKind}


@dataclass(frozen=True)
class LateRows(FrozenDataclass):
    """Where the late rows of an input of an operator go, and what of them.

    Attributes:
        sink: number of the sink.
        operator: as people know it.
        input: its number, from 0.
        row: type of the rows.
        columns: names of the columns of the table, in order.
        instants: whether event time is TIMESTAMP_LTZ, and so a watermark an instant.
        time_zone: the time zone of the session.
    """

    sink: int
    operator: str
    input: int
    row: LogicalType
    columns: tuple[str, ...]
    instants: bool
    time_zone: str

    @cached_property
    def _time(self) -> int | None:
        """The field with the event time of a row: its first time attribute."""
        kinds = [field.type.kind for field in self.row.fields]
        return kinds.index("ROWTIME") if "ROWTIME" in kinds else None

    def of(self, frame: pl.DataFrame, watermark: int) -> pl.DataFrame:
        """The rows of the table.

        Args:
            frame: late rows; the fields of :attr:`row` come first, as ``c0, c1, ...``, and perhaps ``kind``.
            watermark: the watermark that they arrived after, ms.
        """
        writer = JsonWriter([(f.name, f.type) for f in self.row.fields], ROW_STYLE)
        kinds = frame[KIND].to_list() if KIND in frame.columns else [int(RowKind.INSERT)] * frame.height
        mark = pl.Series([None if watermark == NO_WATERMARK else watermark] * frame.height, dtype=pl.Int64)
        values = {
            "operator": pl.Series([self.operator] * frame.height, dtype=pl.String),
            "input": pl.Series([self.input] * frame.height, dtype=pl.Int32),
            "row_time": self._instants(None if self._time is None else frame[column(self._time)], frame.height),
            "watermark_time": self._instants(self._like_rows(mark), frame.height),
            "row_kind": pl.Series([_SHORT[kind] for kind in kinds], dtype=pl.String),
            "row_json": writer.objects(frame),
        }
        return pl.DataFrame([values[name].alias(column(i)) for i, name in enumerate(self.columns)])

    def _like_rows(self, millis: pl.Series) -> pl.Series:
        """A watermark as a value of the time attribute."""
        return millis.cast(pl.Datetime("ms", "UTC" if self.instants else None))

    def _instants(self, values: pl.Series | None, height: int) -> pl.Series:
        """Values of the time attribute as TIMESTAMP_LTZ(3)."""
        time_type = LATE_COLUMNS["row_time"]
        if values is None:
            return pl.Series([None] * height, dtype=time_type.polars())
        if self.instants:
            return values.cast(time_type.polars())
        plain = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=3)
        cast = Call(time_type, (InputRef(plain, 0),), "$CAST$1", "SPECIAL")
        frame = pl.DataFrame([values.cast(plain.polars()).alias(column(0))])
        return CalcTransform((cast,), None, self.time_zone)(frame, 0)[column(0)]


@dataclass(frozen=True)
class Errors:
    """Where the input of a table goes that its format skips.

    Attributes:
        sink: number of the sink.
        table: the table that the input belongs to.
        columns: names of the columns of the sink's table, in order.
    """

    sink: int
    table: str
    columns: tuple[str, ...]

    def of(self, rejects: Sequence[Reject]) -> pl.DataFrame:
        """The rows of the sink's table."""
        values: dict[str, list[Any]] = {
            "source_table": [self.table] * len(rejects),
            "error_text": [r.error for r in rejects],
            "message_text": [r.data.decode("utf-8", "replace") for r in rejects],
            "message_bytes": [r.data for r in rejects],
            "file_path": [r.file for r in rejects],
            "line_number": [r.line for r in rejects],
            "topic_name": [r.topic for r in rejects],
            "partition_number": [r.partition for r in rejects],
            "offset_number": [r.offset for r in rejects],
        }
        types = {name: ERROR_COLUMNS[name].polars() for name in self.columns}
        return pl.DataFrame([pl.Series(column(i), values[n], types[n]) for i, n in enumerate(self.columns)])


@dataclass(frozen=True)
class SplitLate(FrozenDataclass, Transform):
    """Takes late rows out before they become partial results.

    Attributes:
        slicing: the slicing of the windows.
        end: the column with the end of the slice of a row.
        late: where they go.
    """

    slicing: Slicing
    end: str
    late: LateRows

    @property
    def reads_watermark(self) -> bool:
        return True

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        return frame

    def split(self, frame: pl.DataFrame, watermark: int | None) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows that are in time, and the others as rows of their table."""
        if watermark is None:
            return frame, frame[:0]
        late = self.slicing.late(frame[self.end].to_numpy(), watermark)
        if not late.any():
            return frame, frame[:0]
        return frame[np.flatnonzero(~late)], self.late.of(frame[np.flatnonzero(late)], watermark)


def with_split(steps: Sequence[Transform], late: LateRows) -> tuple[Transform, ...]:
    """The steps that make partial results, with late rows taken out behind the one that finds the slices."""
    out: list[Transform] = []
    for step in steps:
        out.append(step)
        if isinstance(step, SliceTransform):
            out.append(SplitLate(step.slicing, column(step.width), late))
    return tuple(out)
