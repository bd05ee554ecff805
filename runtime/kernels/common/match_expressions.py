"""Conditions and measures of MATCH_RECOGNIZE over the rows of a match.

An expression is split: what looks at one row is computed for all rows at once, in columns; what puts together the
values of several rows is computed per match, for conditions by plain Python where that can be done exactly.

Source of the semantics: Flink's ``MatchCodeGenerator``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from stateplan.common.changelog import column
from stateplan.common.errors import StateplanError
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.execnodes.specs import AggCall
from stateplan.functions.rex import Call, FieldAccess, InputRef, Literal, PatternInputRef, Rex
from stateplan.runtime.kernels.common.accumulators import Changes, Fold, align
from stateplan.runtime.kernels.common.functions import ACCUMULATORS, accumulator
from stateplan.runtime.kernels.common.key_ids import Ints, nulls
from stateplan.runtime.kernels.common.match_scalars import Inexact, Scalar, compiled, total
from stateplan.runtime.transforms.calc import CalcTransform

_ANY = "*"
_MOVES = ("LAST", "FIRST", "PREV", "NEXT")
_TIMES = ("MATCH_ROWTIME", "MATCH_PROCTIME")


class Place(NamedTuple):
    """A row of a match: of a variable (by position, -1 for all), counted from its first or its last row."""

    variable: int
    first: bool
    offset: int


_LAST = Place(-1, False, 0)


@dataclass(frozen=True)
class Value:
    """What an expression says of the row at ``place``: the value of column ``number``."""

    place: Place
    number: int
    type: LogicalType


@dataclass(frozen=True)
class Total:
    """An aggregate of columns (by number; none for COUNT(*)) over the rows of a variable."""

    variable: int
    function: str
    numbers: tuple[int, ...]
    arguments: tuple[LogicalType, ...]
    type: LogicalType

    @cached_property
    def fold(self) -> Fold:
        """What computes it for many groups of rows."""
        call = AggCall(internal_name=f"${self.function}$1", arg_list=self.numbers, type=self.type)
        fold = accumulator(0, call, self.arguments, False)
        assert isinstance(fold, Fold)
        return fold

    def of(self, values: Sequence[pl.Series], codes: Ints, groups: int) -> pl.Series:
        """Per group the result.

        Args:
            values: the values of all rows, a series per argument.
            codes: the group of each row.
        """
        fold = self.fold
        if values and not fold.sees_nulls:
            present = values[0].is_not_null().to_numpy()
            values, codes = [v.filter(pl.Series(present)) for v in values], codes[present]
        first, second, third = (*values, None, None, None)[:3]
        state = fold.partial(Changes(groups, codes, first, None, second, third))
        return fold.value(pl.DataFrame(state)).cast(self.type.polars())


@dataclass(frozen=True)
class Time:
    """The time of the match: of its last row, or that of the clock."""

    name: str
    type: LogicalType


Leaf = Value | Total | Time


@dataclass
class _Split:
    """Takes expressions apart: ``rows`` are the columns per row, ``leaves`` the fields of what is left."""

    names: Sequence[str]
    rows: list[Rex] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)

    def of(self, rex: Rex) -> Rex:
        """``rex`` over the leaves."""
        if not isinstance(rex, (Call, FieldAccess, PatternInputRef)):
            return rex
        if isinstance(rex, Call):
            if rex.name == "FINAL":
                return self.of(rex.operands[0])
            if rex.name in _TIMES:
                return self._leaf(Time(rex.name, rex.type), rex.type)
            if rex.name in ACCUMULATORS:
                return self._total(rex)
        places = self._places(rex)
        if places is not None and len(places) == 1:
            (place,) = places
            return self._leaf(Value(place, self._row(_row_part(rex)), rex.type), rex.type)
        if isinstance(rex, FieldAccess):
            return FieldAccess(rex.type, rex.name, self.of(rex.expr))
        assert isinstance(rex, Call)
        if rex.name in _MOVES:
            return self.of(rex.operands[0])
        return _with_operands(rex, [self.of(o) for o in rex.operands])

    def _leaf(self, leaf: Leaf, type_: LogicalType) -> Rex:
        if leaf not in self.leaves:
            self.leaves.append(leaf)
        return InputRef(type_.as_nullable(), self.leaves.index(leaf))

    def _row(self, rex: Rex) -> int:
        if rex not in self.rows:
            self.rows.append(rex)
        return self.rows.index(rex)

    def _total(self, rex: Call) -> Rex:
        variables = {e.alpha for e in _walk(rex) if isinstance(e, PatternInputRef)}
        variable = self._number(next(iter(variables), _ANY))
        arguments = [_row_part(o) for o in rex.operands]
        numbers, types = tuple(map(self._row, arguments)), tuple(a.type for a in arguments)
        return self._leaf(Total(variable, rex.name, numbers, types, rex.type), rex.type)

    def _number(self, alpha: str) -> int:
        return -1 if alpha == _ANY else self.names.index(alpha)

    def _places(self, rex: Rex, first: bool = False, offset: int = 0) -> set[Place] | None:
        """The rows that ``rex`` looks at; None if it holds an aggregate or the time of the match."""
        if isinstance(rex, PatternInputRef):
            return {Place(self._number(rex.alpha), first, offset)}
        if isinstance(rex, Call):
            if rex.name in ACCUMULATORS or rex.name in _TIMES:
                return None
            if rex.name in _MOVES:
                return self._places(rex.operands[0], rex.name == "FIRST", _offset(rex) or 0)
        out: set[Place] = set()
        for child in rex.children:
            child_places = self._places(child, first, offset)
            if child_places is None:
                return None
            out |= child_places
        return out


def unsupported(rex: Rex, names: Sequence[str]) -> str | None:
    """What part of an expression cannot run, in words; None if all of it can."""
    for e in _walk(rex):
        if isinstance(e, InputRef):
            return "a field of the input without a variable in MATCH_RECOGNIZE"
        if isinstance(e, PatternInputRef) and e.alpha != _ANY and e.alpha not in names:
            return f"a column of '{e.alpha}', which is not in the pattern,"
        if not isinstance(e, Call):
            continue
        if e.is_user_defined:
            return "a Python function in MATCH_RECOGNIZE"
        if e.name in ("RUNNING", "CLASSIFIER", "MATCH_NUMBER"):
            return f"{e.name} in MATCH_RECOGNIZE"
        if e.name == "FINAL" and len(e.operands) != 1:
            return "FINAL without its argument"
        if e.name in _MOVES:
            offset = _offset(e)
            if offset is None or offset < 0 or (offset and e.name in ("PREV", "NEXT")):
                return f"{e.name} with this offset"
            if any(isinstance(i, Call) and i.name in (*_MOVES, *ACCUMULATORS, *_TIMES) for i in _walk(e.operands[0])):
                return f"a call in {e.name} that goes to rows"
        if e.name in ACCUMULATORS:
            inner = [i for o in e.operands for i in _walk(o)]
            if not e.operands and e.name != "COUNT":
                return f"{e.name} without an argument"
            if any(isinstance(i, Call) and i.name in (*ACCUMULATORS, *_TIMES) for i in inner):
                return f"a call in {e.name} that goes to rows"
            if e.operands and len({i.alpha for i in inner if isinstance(i, PatternInputRef)}) != 1:
                return f"{e.name} of columns of other than one variable"
    return None


def _offset(rex: Call) -> int | None:
    if len(rex.operands) != 2 or not isinstance(rex.operands[1], Literal):
        return None
    value = rex.operands[1].value
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _walk(rex: Rex) -> Iterator[Rex]:
    yield rex
    for child in rex.children:
        yield from _walk(child)


def _with_operands(rex: Call, operands: Sequence[Rex]) -> Call:
    return replace(rex, operands=tuple(operands))


def _row_part(rex: Rex) -> Rex:
    """``rex``, which looks at one row, over the fields of that row; any of them may be NULL."""
    if isinstance(rex, PatternInputRef):
        return InputRef(rex.type.as_nullable(), rex.index)
    if isinstance(rex, FieldAccess):
        return FieldAccess(rex.type, rex.name, _row_part(rex.expr))
    if not isinstance(rex, Call):
        return rex
    if rex.name in _MOVES or rex.name == "FINAL":
        return _row_part(rex.operands[0])
    return _with_operands(rex, [_row_part(o) for o in rex.operands])


class Columns:
    """What expressions say of each row, computed when it is requested.

    A column that cannot be computed for some row (as a division by zero) is computed row by row, so that it fails only
    where Flink's job would.

    Args:
        transforms: one for each column.
        rows: all rows.
        now: the time of the micro-batch, ms.
    """

    def __init__(self, transforms: Sequence[CalcTransform], rows: pl.DataFrame, now: int) -> None:
        self._transforms, self._rows, self._now = transforms, rows, now
        self._series: dict[int, pl.Series | None] = {}
        self._lists: dict[int, list[Any]] = {}
        self._defaults: dict[int, Any] = {}

    def series(self, number: int) -> pl.Series | None:
        """A column; None if it cannot be computed for all rows."""
        if number not in self._series:
            try:
                self._series[number] = self._transforms[number](self._rows, self._now)[column(0)]
            except StateplanError:
                self._series[number] = None
        return self._series[number]

    def value(self, number: int, row: int) -> Any:
        """Of one row; -1 for no row, whose fields are all NULL. Raises what the expression raises."""
        if row < 0:
            if number not in self._defaults:
                self._defaults[number] = self._transforms[number](self._no_row, self._now)[column(0)][0]
            return self._defaults[number]
        cells = self._lists.get(number)
        if cells is None:
            series = self.series(number)
            if series is None:
                return self._transforms[number](self._rows[row : row + 1], self._now)[column(0)][0]
            cells = self._lists[number] = series.to_list()
        return cells[row]

    @cached_property
    def _no_row(self) -> pl.DataFrame:
        return pl.DataFrame([nulls(s.name, s.dtype, 1) for s in self._rows[:0].get_columns()])

    def gather_rows(self, number: int, rows: Ints) -> pl.Series:
        """Of several rows. Raises what the expression raises."""
        series = self.series(number)
        if series is None:
            return self._transforms[number](self._rows[rows], self._now)[column(0)]
        if not (rows < 0).any():
            return series[rows]
        default = pl.Series(series.name, [self.value(number, -1)], dtype=series.dtype)
        return align(pl.concat([series, default]), np.where(rows < 0, len(series), rows))


@dataclass(frozen=True)
class _Expressions(FrozenDataclass):
    """Expressions over the rows of a match.

    Attributes:
        expressions: as the plan has them.
        names: the names of the variables.
        row: type of the rows.
        zone: the session's time zone.
    """

    expressions: tuple[Rex, ...]
    names: tuple[str, ...]
    row: LogicalType
    zone: str = "UTC"

    @cached_property
    def _taken_apart(self) -> tuple[tuple[Rex, ...], _Split]:
        split = _Split(self.names)
        return tuple(split.of(e) for e in self.expressions), split

    @property
    def leaves(self) -> Sequence[Leaf]:
        """The fields of the rests."""
        return self._taken_apart[1].leaves

    @property
    def rests(self) -> tuple[Rex, ...]:
        """The expressions over the leaves."""
        return self._taken_apart[0]

    @cached_property
    def _transforms(self) -> list[CalcTransform]:
        names = tuple(f.name for f in self.row.fields)
        return [CalcTransform((r,), None, self.zone, "Match", names) for r in self._taken_apart[1].rows]

    @cached_property
    def _rest(self) -> CalcTransform:
        return CalcTransform(self.rests, None, self.zone, "Match")

    def columns(self, rows: pl.DataFrame, now: int) -> Columns:
        """What they say of rows by themselves."""
        return Columns(self._transforms, rows, now)


class Measures(_Expressions):
    """The measures, for many matches at once."""

    def of(self, columns: Columns, begins: Ints, counts: Ints, times: Ints, now: int) -> list[pl.Series]:
        """One series for each measure.

        Args:
            columns: the columns of the rows of all matches.
            begins: per match, the position of its first row.
            counts: per match and variable, the number of rows.
            times: per match, ms.
            now: the time of the micro-batch, ms.
        """
        leaf_values = (self._leaf(leaf, columns, begins, counts, times) for leaf in self.leaves)
        series = [s.alias(column(i)) for i, s in enumerate(leaf_values)]
        frame = pl.DataFrame(series) if series else pl.DataFrame({"@match": begins})
        out = self._rest(frame, now)
        return [out[column(i)] for i in range(len(self.rests))]

    @staticmethod
    def _leaf(leaf: Leaf, columns: Columns, begins: Ints, counts: Ints, times: Ints) -> pl.Series:
        if isinstance(leaf, Time):
            dtype = leaf.type.polars()
            if leaf.name == "MATCH_PROCTIME":  # what reads it asks for the time itself
                return pl.Series("", [None] * len(begins), dtype=dtype)
            return pl.Series("", times, dtype=pl.Int64).cast(pl.Datetime("ms")).cast(dtype)
        variable = leaf.place.variable if isinstance(leaf, Value) else leaf.variable
        if variable < 0:
            starts, rows = begins, counts.sum(axis=1)
        else:
            starts, rows = begins + counts[:, :variable].sum(axis=1), counts[:, variable]
        if isinstance(leaf, Value):
            place = leaf.place
            at = starts + place.offset if place.first else starts + rows - 1 - place.offset
            return columns.gather_rows(leaf.number, np.where(rows > place.offset, at, -1))
        codes = np.repeat(np.arange(len(begins)), rows)
        within = np.arange(len(codes)) - np.repeat(np.cumsum(rows) - rows, rows)
        every = np.repeat(starts, rows) + within
        return leaf.of([columns.gather_rows(n, every) for n in leaf.numbers], codes, len(begins))


@dataclass(frozen=True)
class Condition(FrozenDataclass):
    """The condition of a variable, which may look at the current row and the rows that are matched so far."""

    rex: Rex
    variable: str
    names: tuple[str, ...]
    row: LogicalType
    zone: str = "UTC"

    @cached_property
    def _inner(self) -> _Expressions:
        return _Expressions((self.rex,), self.names, self.row, self.zone)

    @cached_property
    def _own(self) -> int:
        return self.names.index(self.variable)

    def _is_current(self, leaf: Leaf) -> bool:
        """Whether it is a value of the current row."""
        if not isinstance(leaf, Value):
            return False
        return leaf.place == _LAST or leaf.place == Place(self._own, False, 0)

    @cached_property
    def of_row(self) -> bool:
        """Whether it looks at the current row alone."""
        leaves = self._inner.leaves
        return not leaves or (len(leaves) == 1 and self._is_current(leaves[0]) and self._plain)

    @cached_property
    def _plain(self) -> bool:
        """Whether nothing is left but one leaf."""
        return isinstance(self._inner.rests[0], InputRef)

    @cached_property
    def _scalar(self) -> Scalar | None:
        types = [leaf.type for leaf in self._inner.leaves]
        return compiled(self._inner.rests[0], types)

    def over(self, rows: pl.DataFrame, now: int) -> EvaluatedCondition:
        """It, over all rows of a micro-batch."""
        return EvaluatedCondition(self, self._inner.columns(rows, now), rows, now)


class EvaluatedCondition:
    """A condition over rows: which of them meet it, given the rows that were matched before.

    Args:
        condition: what to ask.
        columns: its columns over the rows.
        rows: all rows.
        now: the time of the micro-batch, ms.
    """

    def __init__(self, condition: Condition, columns: Columns, rows: pl.DataFrame, now: int) -> None:
        self._condition, self._columns, self._now = condition, columns, now
        inner = condition._inner  # noqa: SLF001 - of the same module
        self._leaves, self._rest, self._own = inner.leaves, inner._rest, condition._own  # noqa: SLF001
        self._scalar = condition._scalar  # noqa: SLF001
        self._of_row = [n.number if isinstance(n, Value) and condition._is_current(n) else None for n in self._leaves]  # noqa: SLF001
        self._height = rows.height

    @cached_property
    def flags(self) -> list[bool] | None:
        """Per row whether it meets the condition, where that does not depend on other rows and can be determined of
        all."""
        if not self._condition.of_row:
            return None
        if not self._leaves:
            holds = bool(self._rest(pl.DataFrame({"@one": [0]}), self._now)[column(0)][0])
            return [holds] * self._height
        leaf = self._leaves[0]
        assert isinstance(leaf, Value)
        series = self._columns.series(leaf.number)
        return None if series is None else series.fill_null(False).to_list()

    def holds(self, row: int, first: int, counts: Sequence[int]) -> bool:
        """Whether the row at a position meets it.

        Args:
            first: the position of the first row of the match.
            counts: how many rows each variable has, without this row.
        """
        flags = self.flags
        if flags is not None:
            return flags[row]
        value = self._columns.value
        values = [
            self._leaf(leaf, row, first, counts) if number is None else value(number, row)
            for leaf, number in zip(self._leaves, self._of_row, strict=True)
        ]
        if self._scalar is not None:
            try:
                return self._scalar(values) is True
            except Inexact:
                pass
        pairs = enumerate(zip(values, self._leaves, strict=True))
        series = [pl.Series(column(i), [v], dtype=leaf.type.polars()) for i, (v, leaf) in pairs]
        return self._rest(pl.DataFrame(series), self._now)[column(0)][0] is True

    def _leaf(self, leaf: Leaf, row: int, first: int, counts: Sequence[int]) -> Any:
        assert not isinstance(leaf, Time)
        variable = leaf.place.variable if isinstance(leaf, Value) else leaf.variable
        if variable < 0:
            start, rows = first, row - first
        else:
            start, rows = first + sum(counts[:variable]), counts[variable]
        current = variable in (-1, self._own)
        if isinstance(leaf, Total):
            return self._total(leaf, start, rows, row if current else -1)
        _, from_first, offset = leaf.place
        place = offset if from_first else rows + current - 1 - offset
        if not 0 <= place < rows + current:
            return self._columns.value(leaf.number, -1)
        return self._columns.value(leaf.number, row if place == rows else start + place)

    def _total(self, leaf: Total, start: int, rows: int, current: int) -> Any:
        at = [*range(start, start + rows), *([current] if current >= 0 else [])]
        if not leaf.numbers:
            return len(at)
        values = [[self._columns.value(n, i) for i in at] for n in leaf.numbers]
        try:
            return total(leaf.function, values[0], leaf.type)
        except Inexact:
            pairs = zip(values, leaf.arguments, strict=True)
            series = [pl.Series("", v, dtype=t.polars()) for v, t in pairs]
            return leaf.of(series, np.zeros(len(at), np.int64), 1)[0]
