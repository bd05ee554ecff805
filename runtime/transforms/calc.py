"""Calc: projection and filter of a frame of changes, as Polars expressions made from the plan's row expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import polars as pl

from stateplan.common.changelog import column
from stateplan.common.errors import DataError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.functions.program import Program
from stateplan.functions.rex import Rex
from stateplan.runtime.kernel import Transform


@dataclass(frozen=True)
class CalcTransform(Program, Transform):
    """A projection and filter (a program) as a step of a stateless pipeline."""

    def at_watermark(self, frame: pl.DataFrame, now: int, watermark: int | None) -> pl.DataFrame:
        return self(frame, now, watermark)

    def of_piece(self, piece: str) -> Transform:
        if not self.is_random:
            return self
        return _CalcOfPiece(self, piece)


@dataclass(frozen=True)
class _CalcOfPiece(Transform):
    """A calc with random values, over one piece of the rows of a micro-batch."""

    calc: CalcTransform
    piece: str

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        return self.calc.in_piece(frame, now, None, self.piece)

    def at_watermark(self, frame: pl.DataFrame, now: int, watermark: int | None) -> pl.DataFrame:
        return self.calc.in_piece(frame, now, watermark, self.piece)


@dataclass(frozen=True)
class ExpandTransform(Transform):
    """Every row once per projection; the rows of one row are together, as in Flink."""

    projections: tuple[CalcTransform, ...]

    @classmethod
    def of(cls, projections: Sequence[tuple[Rex, ...]], time_zone: str = "UTC") -> ExpandTransform:
        """One :class:`CalcTransform` per projection."""
        return cls(tuple(CalcTransform(p, None, time_zone) for p in projections))

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        """Raises the same errors as :class:`CalcTransform` does."""
        parts = [p(frame, now) for p in self.projections]
        all_rows = pl.concat(parts, how="vertical_relaxed", rechunk=True)
        order = np.arange(frame.height * len(parts)).reshape(len(parts), -1).T.ravel()
        return all_rows[order]


@dataclass(frozen=True)
class WatermarkTransform(Transform):
    """Leaves rows as they are; :meth:`watermark` is how far event time has advanced with them.

    Args:
        expression: the watermark of a row, over its fields.
        rowtime: the field that is the time of a row; None if it is computed later.
        name: the name of that field, for errors.
        time_zone: the session's ``table.local-time-zone``.
        aligned: see :class:`Transform`.
    """

    makes_watermarks: ClassVar[bool] = True

    expression: Rex
    rowtime: int | None
    name: str
    time_zone: str = "UTC"
    aligned: bool = False

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        """The same frame. Raises DataError DATA330 for a row without a time."""
        if self.rowtime is not None and frame[column(self.rowtime)].null_count():
            raise DataError("DATA330", name=self.name)
        return frame

    def watermark(self, frame: pl.DataFrame, now: int) -> int | None:
        """The largest watermark of the rows, in milliseconds since 1970; None if no row has one."""
        values = CalcTransform((self.expression,), None, self.time_zone)(frame, now)[column(0)]
        top = values.cast(pl.Datetime("ms")).to_physical().max() if values.dtype.is_temporal() else values.max()
        return int(top) if isinstance(top, int) else None
