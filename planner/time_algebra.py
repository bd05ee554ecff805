"""The operators of the algebra that are about time: watermarks, and versions of rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from execnodes.errors import Place
from execnodes.rex import Rex
from planner.algebra import Field, Join, Pair, Single

__all__ = ["TemporalJoin", "WatermarkAssigner"]


@dataclass(frozen=True)
class TemporalJoin(Pair):
    """Each row of the left input with the version of a row of the right one that held at its time (FOR SYSTEM_TIME AS
    OF); ``condition`` is over left ++ right.

    ``left_time`` is the time attribute of the left input, ``right_time`` that of the versions; None when the left one
    is processing time. ``primary_key`` are the fields of the right input by which versions are told apart, once known.
    """

    condition: Rex
    join_type: str
    left_time: int
    right_time: int | None
    primary_key: tuple[int, ...] = ()
    left_ttl: int | None = None
    right_ttl: int | None = None
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        return Join(self.left, self.right, self.condition, self.join_type).fields


@dataclass(frozen=True)
class WatermarkAssigner(Single):
    """The time attribute of a table: the field ``rowtime`` becomes one, ``watermark`` (over the input) is how far event
    time has come with a row."""

    rowtime: int
    watermark: Rex

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(
            (n, replace(t, kind="ROWTIME") if i == self.rowtime else t) for i, (n, t) in enumerate(self.input.fields)
        )
