"""The operators of the algebra that are about time: watermarks, and versions of rows."""

from __future__ import annotations

from dataclasses import field, replace

from stateplan.common.errors import Place
from stateplan.common.lazy_dataclass import dataclass
from stateplan.execnodes.specs import JoinType, RetryOptions
from stateplan.functions.rex import Rex
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.relations import Calc, Field, Join, JoinRelation, Rel, Scan, Single


@dataclass(frozen=True)
class TemporalJoin(JoinRelation):
    """Each row of the left input with the version of a row of the right one that held at its time (FOR SYSTEM_TIME AS
    OF); ``condition`` is over left ++ right.

    ``left_time`` is the time attribute of the left input, ``right_time`` that of the versions; None when the left one
    is processing time. ``primary_key`` are the fields of the right input by which versions are distinguished, once
    known.
    """

    condition: Rex
    join_type: JoinType
    left_time: int
    right_time: int | None
    primary_key: tuple[int, ...] = ()
    left_hint: InputHint | None = None
    right_hint: InputHint | None = None
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class IntervalJoin(JoinRelation):
    """A join of rows whose times are near each other: ``lower`` <= left time - right time <= ``upper``, in ms.

    ``condition`` is the whole one, over left ++ right; ``rest`` is what the bounds do not say.
    """

    condition: Rex
    rest: Rex
    join_type: JoinType
    event_time: bool
    lower: int
    upper: int
    left_time: int
    right_time: int
    place: Place | None = field(default=None, compare=False, repr=False)
    left_hint: InputHint | None = None
    right_hint: InputHint | None = None


@dataclass(frozen=True)
class WatermarkAssigner(Single):
    """The time attribute of a table: the field ``rowtime`` becomes one, ``watermark`` (over the input) is how far event
    time has advanced with a row."""

    rowtime: int
    watermark: Rex

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(
            (n, replace(t, kind="ROWTIME") if i == self.rowtime else t) for i, (n, t) in enumerate(self.input.fields)
        )


@dataclass(frozen=True)
class Snapshot(Single):
    """A table as it is when a row of the other side of a join looks it up. ``retry`` defines further attempts.

    ``time`` is the field of the other side that says when that is.
    """

    retry: RetryOptions | None = None
    time: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class LookupJoin(Single):
    """Each row with the rows found in a table by key.

    ``table`` is read at ``keys`` (field of the table -> field of the input) and ``constants``; ``calc`` over it filters
    and projects what is found. ``before`` is a condition on the input alone, without which nothing is looked up;
    ``rest`` one on input ++ what was found. ``materialize`` says that it keeps what it found for each row, ``retry``
    how a row that found nothing is looked up again.
    """

    table: Scan
    calc: Calc | None
    join_type: JoinType
    keys: tuple[tuple[int, int], ...]
    constants: tuple[tuple[int, Rex], ...] = ()
    before: Rex | None = None
    rest: Rex | None = None
    materialize: bool = False
    hint: InputHint | None = None
    retry: RetryOptions | None = None

    @property
    def lookup_result(self) -> Rel:
        """What is found of the table, filtered and projected."""
        return self.table if self.calc is None else self.calc

    @property
    def fields(self) -> tuple[Field, ...]:
        from stateplan.planner.expressions.ops import TRUE

        return Join(self.input, self.lookup_result, TRUE, self.join_type).fields
