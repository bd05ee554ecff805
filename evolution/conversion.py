"""How the state of an operator is computed from state that another plan has written.

A *conversion* runs where the old state is read, one key group at a time. It gives rows of the new tables. Where their
key group is another one, or several rows become one, the receiver makes the state of what it was sent: see
:class:`runtime.jobgraph.Gather`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
import polars as pl

from stateplan.common.errors import CheckpointError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.evolution.single_values import CallFromValues
from stateplan.functions.rex import Rex
from stateplan.runtime.jobgraph import Gather, JobGraph, StateOnly
from stateplan.runtime.kernel import ACCESS_TIME, NO_WATERMARK, Kernel
from stateplan.runtime.kernels.common.accumulators import unscaled_decimals
from stateplan.runtime.kernels.common.join_state import COPIES
from stateplan.runtime.kernels.common.over import OverKernel
from stateplan.runtime.kernels.interval_join import IntervalJoinKernel
from stateplan.runtime.kernels.window_aggregate import WindowAggregateKernel
from stateplan.runtime.state.runs import WRITE_TIME
from stateplan.runtime.transforms.calc import CalcTransform
from stateplan.runtime.watermarks import EventTime


class NewRows(NamedTuple):
    """Rows of a new state table, or of an input.

    Attributes:
        number: the number of the table, or of the input.
        rows: a state frame; of an input, with its fields alone.
        keys: the columns whose hash is that of the key of the operator's input; None for the key group of the old rows.
        is_input: whether they pass through the operator, each at the time of its last access, as rows of an input.
    """

    number: int
    rows: pl.DataFrame
    keys: Sequence[str] | None = None
    is_input: bool = False


class Conversion(ABC):
    """Makes new state rows of the old ones of a key group. Picklable."""

    @abstractmethod
    def __call__(self, tables: Mapping[str, pl.DataFrame], time: EventTime) -> Iterator[NewRows]:
        """The new rows.

        Args:
            tables: the old tables by name, without those that have no rows: their columns and the time of access. No
                row is a tombstone, some may have expired.
            time: how far event time has come at the old operator.
        """


class OldTable(NamedTuple):
    """Where a state table finds its rows.

    Attributes:
        name: the name of the old table.
        columns: for each column the old one.
        counts: old columns, one of which is neither 0 nor false in each row; empty for all rows.
        is_not_null: an old column that is not NULL in these rows; None for all rows.
    """

    name: str
    columns: Mapping[str, str]
    counts: tuple[str, ...] = ()
    is_not_null: str | None = None

    def rows(self, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame | None:
        """Its rows; None for none."""
        rows = tables.get(self.name)
        if rows is not None and self.counts:
            rows = rows.filter(pl.any_horizontal(pl.col(name) != 0 for name in self.counts))
        return rows if rows is None or self.is_not_null is None else rows.filter(pl.col(self.is_not_null).is_not_null())


class Computation(Protocol):
    """Computes a column from the columns of old rows. Picklable."""

    def __call__(self, rows: pl.DataFrame) -> pl.Series: ...


@dataclass(frozen=True)
class ExpressionValues:
    """The values of an expression of the fields of old rows.

    Attributes:
        rex: the expression.
        time_zone: the time zone of the session.
    """

    rex: Rex
    time_zone: str

    def __call__(self, rows: pl.DataFrame) -> pl.Series:
        return CalcTransform((self.rex,), None, self.time_zone)(rows, 0).to_series()


@dataclass(frozen=True)
class InOtherType:
    """The values of an old column, in another type.

    Attributes:
        column: the old column.
        type: the other type.
    """

    column: str
    type: pl.DataType

    def __call__(self, rows: pl.DataFrame) -> pl.Series:
        return rows[self.column].cast(self.type)


@dataclass(frozen=True)
class OtherSum:
    """The sum of ``factor * value + addend``, from the sum of the values and their number.

    Attributes:
        sum, count: the old columns.
        factor, addend: for the digits of a DECIMAL.
        type: the type of the sum.
    """

    sum: str
    count: str
    factor: int
    addend: int
    type: pl.DataType

    def __call__(self, rows: pl.DataFrame) -> pl.Series:
        if isinstance(self.type, pl.Decimal):
            return unscaled_decimals(self._of(rows, pl.Int128()), self.type.scale)
        return self._of(rows, pl.Int64()).cast(self.type, wrap_numerical=True)

    def _of(self, rows: pl.DataFrame, dtype: pl.DataType) -> pl.Series:
        old = [rows[name].to_physical().cast(dtype) for name in (self.sum, self.count)]
        return old[0] * _integer(self.factor, dtype) + old[1] * _integer(self.addend, dtype)


def _integer(number: int, dtype: pl.DataType) -> pl.Series:
    """A whole number, which wraps around as those of its type do."""
    if dtype == pl.Int64():
        number = (number + 2**63) % 2**64 - 2**63
    return pl.Series([number], dtype=dtype)


@dataclass(frozen=True)
class TableRows(Conversion):
    """Rows of state tables that meet all conditions, with their columns at other places, each for the key group of its
    new key.

    Attributes:
        tables: per new table the old one.
        keys: columns of the new key, in its order, which every table has; None for rows that stay in their key group.
        filters: per new table, conditions on the old columns.
        time_zone: the time zone of the session.
        computations: per new table, how its further columns are computed; empty for none.
        calls: those whose columns in the first table are computed from single values.
        kernel: the kernel of the new operator.
    """

    tables: tuple[OldTable, ...]
    keys: tuple[str, ...] | None
    filters: tuple[tuple[Rex, ...], ...]
    time_zone: str
    computations: tuple[Mapping[str, Computation], ...] = ()
    calls: tuple[CallFromValues, ...] = ()
    kernel: Kernel | None = None

    def __call__(self, tables: Mapping[str, pl.DataFrame], time: EventTime) -> Iterator[NewRows]:
        for number, origin in enumerate(self.tables):
            rows = _passing(origin.rows(tables), self.filters[number], self.time_zone)
            if rows is None or not rows.height:
                continue
            computations = self.computations[number] if self.computations else {}
            new_rows = _with_columns(rows, origin.columns, computations, _times(rows))
            for call in () if number else self.calls:
                columns = zip(call.names, call(rows, tables.get(call.table)), strict=True)
                new_rows = new_rows.with_columns(series.alias(name) for name, series in columns)
            yield NewRows(number, new_rows, self.keys)


@dataclass(frozen=True)
class FrameRows(TableRows):
    """Rows of frames of OVER, with calls that are computed from them."""

    def __call__(self, tables: Mapping[str, pl.DataFrame], time: EventTime) -> Iterator[NewRows]:
        assert isinstance(self.kernel, OverKernel)
        frames = {new_rows.number: new_rows.rows for new_rows in super().__call__(tables, time)}
        place = len(self.tables) - 2  # the last tables are those of partitions and of rows
        if place in frames:
            schema = {**self.kernel.tables[-1].schema, ACCESS_TIME: pl.Int64()}
            rows = frames.get(place + 1, pl.DataFrame(schema=schema))
            calls, frames[place + 1] = self.kernel.replayed(frames[place], rows)
            frames[place] = frames[place].with_columns(calls.drop(frames[place].columns, strict=False).get_columns())
        yield from (NewRows(number, rows) for number, rows in frames.items() if rows.height)


@dataclass(frozen=True)
class TimedRows(TableRows):
    """Rows of a join that wait for a time, as far as the new join would have kept them.

    Attributes:
        misfit: the error where it is not known when the watermark came to where it is.
    """

    misfit: CheckpointError | None = None

    def __call__(self, tables: Mapping[str, pl.DataFrame], time: EventTime) -> Iterator[NewRows]:
        for new_rows in super().__call__(tables, time):
            rows = new_rows.rows
            if isinstance(self.kernel, IntervalJoinKernel):
                is_lost = time.advanced is None and time.watermark > NO_WATERMARK
                if is_lost and self.misfit is not None and self.kernel.has_other_times(new_rows.number, rows):
                    raise self.misfit
                rows = self.kernel.kept_rows(new_rows.number, rows, time)
            if rows.height:
                yield new_rows._replace(rows=rows)


@dataclass(frozen=True)
class SliceRows(Conversion):
    """Slices of windows that are still open, with the ends of the slices of other windows.

    Attributes:
        table: the name of the old table.
        columns: for each column the old one; that of the slice has the end of the old one.
        computations: how further columns are computed.
        kernel: the kernel of the new operator.
        watermark: the one at which no slice is missing; None for any.
        misfit: the error at another one.
    """

    table: str
    columns: Mapping[str, str]
    computations: Mapping[str, Computation]
    kernel: WindowAggregateKernel
    watermark: int | None
    misfit: CheckpointError

    def __call__(self, tables: Mapping[str, pl.DataFrame], time: EventTime) -> Iterator[NewRows]:
        rows = tables.get(self.table)
        if rows is None:
            return
        if self.watermark not in (None, time.watermark):
            raise self.misfit
        slices = _with_columns(rows, self.columns, self.computations, _times(rows))
        slices = self.kernel.with_slices(slices, time.watermark)
        if slices.height:
            yield NewRows(0, slices, self.kernel.tables[0].lookup[:-1])


@dataclass(frozen=True)
class InputRows(Conversion):
    """Rows of an input that an operator has kept, for another operator.

    Attributes:
        input: its number.
        table: the name of the old table that has its rows.
        columns: for each field the old column.
        keys: columns of the key of the input.
        filters: conditions on the old columns.
        time_zone: the time zone of the session.
        computations: how further fields are computed.
    """

    input: int
    table: str
    columns: Mapping[str, str]
    keys: tuple[str, ...]
    filters: tuple[Rex, ...]
    time_zone: str
    computations: Mapping[str, Computation]

    def __call__(self, tables: Mapping[str, pl.DataFrame], time: EventTime) -> Iterator[NewRows]:
        rows = _passing(tables.get(self.table), self.filters, self.time_zone)
        if rows is None:
            return
        if COPIES in rows.columns:  # equal rows are kept once
            rows = rows[np.repeat(np.arange(rows.height), rows[COPIES].to_numpy())]
        if rows.height:
            fields = _with_columns(rows, self.columns, self.computations, [ACCESS_TIME])
            yield NewRows(self.input, fields, self.keys, is_input=True)


def _passing(rows: pl.DataFrame | None, filters: tuple[Rex, ...], time_zone: str) -> pl.DataFrame | None:
    """The rows that meet all conditions on their columns; None for none."""
    if rows is None or not filters:
        return rows
    values = CalcTransform(filters, None, time_zone)(rows, 0)
    meets = np.ones(rows.height, bool)
    for series in values.get_columns():
        meets &= series.fill_null(value=False).to_numpy()
    return rows.filter(pl.Series(meets)) if meets.any() else None


def _times(rows: pl.DataFrame) -> list[str]:
    """The columns that say when rows were accessed, and written."""
    return [name for name in (ACCESS_TIME, WRITE_TIME) if name in rows.columns]


def _with_columns(
    rows: pl.DataFrame, columns: Mapping[str, str], computations: Mapping[str, Computation], times: Sequence[str]
) -> pl.DataFrame:
    """Rows whose columns have the values of the old ones, or are computed; the times stay as they are."""
    series = [compute(rows).alias(name) for name, compute in computations.items()]
    return rows.select(*(pl.col(old).alias(new) for new, old in columns.items()), *series, *times)


@dataclass(frozen=True)
class StateLoad:
    """Where the state of an operator comes from.

    Attributes:
        conversions: number of the old operator, and what is made of its state.
        gather: what the receiver makes of it; None for as it is sent.
    """

    conversions: tuple[tuple[int, Conversion], ...]
    gather: Gather | None = None


def loading(job: JobGraph, loads: Sequence[Sequence[StateLoad | None]]) -> JobGraph:
    """A job whose operators make the state that they begin with, and nothing else.

    Args:
        job: the job.
        loads: of each checkpoint that has state, per operator where its state comes from.
    """
    gathers = [next((load.gather for load in some if load is not None), None) for some in zip(*loads, strict=True)]
    operators = (replace(o, loading=StateOnly(gather)) for o, gather in zip(job.operators, gathers, strict=True))
    return replace(job, operators=tuple(operators))
