"""Calls of process table functions: their arguments from frames, and the frame of the rows that they yield."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from stateplan.common.changelog import INSERT_ONLY, KIND, RowKind, column, columns
from stateplan.common.errors import DataError
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.common.values.row import Row
from stateplan.functions.process import (
    ProcessContext,
    ProcessDeclaration,
    TableSemantics,
)
from stateplan.functions.rex import Rex
from stateplan.functions.user import UserFunction
from stateplan.functions.values import column_of, python_values, row_cells, vector_column
from stateplan.runtime.kernel import Frames, Transform
from stateplan.runtime.transforms.calc import CalcTransform

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class BoundTable:
    """A table argument of a call.

    Attributes:
        name: the name of the argument.
        row: ROW of the table.
        partition: fields of PARTITION BY.
        order: fields of ORDER BY; whether ascending, and whether NULLs come last.
        time: the field of ``on_time``; None without one.
        semantics: what the function learns of it.
    """

    name: str
    row: LogicalType
    partition: tuple[int, ...] = ()
    order: tuple[tuple[int, bool, bool], ...] = ()
    time: int | None = None
    semantics: TableSemantics = field(default=TableSemantics(LogicalType("ROW")), compare=False)


@dataclass(frozen=True)
class ProcessCall(FrozenDataclass):
    """A call as a plan has it.

    Attributes:
        function: a process table function.
        tables: per input, in their order.
        scalars: per scalar argument a constant expression; None for its default.
        rowtime: the type of the last field, which is the time; None without ``on_time``.
        zone: time zone of the session.
        operator: the operator it runs for, as errors name it.
    """

    function: UserFunction
    tables: tuple[BoundTable, ...]
    scalars: tuple[Rex | None, ...] = ()
    rowtime: LogicalType | None = None
    zone: str = "UTC"
    operator: str | None = None

    @property
    def process(self) -> ProcessDeclaration:
        assert self.function.process is not None
        return self.function.process

    @property
    def zoned(self) -> bool:
        """Whether times are of a time zone, and not local."""
        types = [t.row.fields[t.time].type for t in self.tables if t.time is not None]
        types += [t.row.fields[t.order[0][0]].type for t in self.tables if t.order]
        return bool(types) and types[0].root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE"


class Run:
    """The calls of a micro-batch.

    Args:
        rows: per input, the rows that there may be calls for.
        now: the micro-batch's time, ms.

    Raises:
        DataError: DATA301, for a scalar argument whose expression fails.
    """

    def __init__(self, call: ProcessCall, rows: Frames, now: int) -> None:
        self.call = call
        semantics = {table.name: table.semantics for table in call.tables}
        self.context = ProcessContext(semantics, call.process.mode, call.zoned)
        self._methods = {"eval": call.function.method("eval")}
        if call.process.timers:
            self._methods["on_timer"] = call.function.method("on_timer")
        self._frames = rows
        self._times = [self._times_of(t, f) for t, f in zip(call.tables, rows, strict=True)]
        self._rows: list[list[Row]] = []
        if call.function.vector == "general":
            self._rows = [list(self._rows_of(t, f)) for t, f in zip(call.tables, rows, strict=True)]
        scalar_pairs = zip(call.process.scalars, call.scalars, strict=True)
        scalars = {a.name: a.default if rex is None else self._value(rex, now) for a, rex in scalar_pairs}
        names = [a.name for a in call.process.arguments]
        self._template = [scalars.get(name) for name in names]
        self._places = [names.index(table.name) for table in call.tables]

    def _value(self, rex: Rex, now: int) -> Any:
        constant = CalcTransform((rex,), None, self.call.zone, self.call.operator)(pl.DataFrame({"@one": [0]}), now)
        return python_values(constant[column(0)], rex.type)[0]

    def _arguments(self, table: int, value: Any) -> list[Any]:
        """The arguments of a call for a row, or rows, of one input."""
        out = self._template.copy()
        out[self._places[table]] = value
        return out

    def calls(self, table: int, members: Ints) -> Iterator[tuple[int, int | None, list[Any], list[Any]]]:
        """The calls for rows of an input, in order: the row, its time, the arguments, and those that errors show."""
        times = self._times[table]
        if self.call.function.vector == "general":
            for n in members.tolist():
                arguments = self._arguments(table, self._rows[table][n])
                yield n, None if times is None else times[n], arguments, arguments
        elif len(members):
            latest = None if times is None else max(times[n] for n in members.tolist())
            vector = self._vector(self.call.tables[table], self._frames[table][members])
            arguments = self._arguments(table, vector)
            yield int(members[-1]), latest, arguments, [f"{len(members)} rows" if a is vector else a for a in arguments]

    def call_rows(self, method: str, arguments: Sequence[Any], shown_arguments: Sequence[Any]) -> Iterable[Any]:
        """The rows of one call. Raises DataError DATA310."""
        function, whole_arguments = self.call.function, (self.context, *arguments)
        if function.vector == "general":
            return function.yielded(self._methods[method], whole_arguments, shown_arguments)
        return list(function.rows(whole_arguments, method, shown_arguments))

    def _times_of(self, table: BoundTable, frame: pl.DataFrame) -> list[int] | None:
        """The times of rows, ms since 1970; None if they have none."""
        if table.time is None:
            return None
        return frame[column(table.time)].cast(pl.Datetime("ms")).to_physical().to_list()

    def _rows_of(self, table: BoundTable, frame: pl.DataFrame) -> Iterator[Row]:
        """Rows as the function is given them."""
        names = [f.name for f in table.row.fields]
        lists = [python_values(frame[column(i)], f.type) for i, f in enumerate(table.row.fields)]
        kinds = frame[KIND].to_list() if KIND in frame.columns else [0] * frame.height
        for kind, *cells in zip(kinds, *lists, strict=True):
            row = Row.of(names, cells)
            yield row.of_kind(RowKind(kind)) if kind else row

    def _vector(self, table: BoundTable, frame: pl.DataFrame) -> Any:
        """Rows as a ``pandas.DataFrame`` or a ``pyarrow.Table``, with the names of the table."""
        import pyarrow as pa

        fields = table.row.fields
        arrays = [vector_column(frame[column(i)].rechunk(), f.type) for i, f in enumerate(fields)]
        arrow = pa.Table.from_arrays(arrays, names=[f.name for f in fields])
        return arrow.to_pandas() if self.call.function.vector == "pandas" else arrow


class Emission:
    """The rows that a micro-batch yields.

    Raises:
        DataError: DATA311, for a row that is none of the declared type; DATA313, for a kind that is not declared.
    """

    def __init__(self, call: ProcessCall) -> None:
        self._call = call
        self._names = {f.name for f in call.function.result.fields}
        self._origins: list[tuple[int, tuple[int, int] | None, int | None, RowKind]] = []
        self._rows: list[Sequence[Any]] = []

    def add(self, values: Iterable[Any], owner: int, time: int | None, source: tuple[int, int] | None) -> None:
        """Rows of one call: of the partition ``owner``, at ``time``, made of the row ``source`` (input, position)."""
        function, mode = self._call.function, self._call.process.mode
        for value in values:
            kind = value.get_row_kind() if isinstance(value, Row) else RowKind.INSERT
            if kind not in mode:
                raise DataError(
                    "DATA313",
                    name=function.name,
                    kind=kind.name,
                    where=f", called by {function.operator}" if function.operator else "",
                    expected=", ".join(k.name for k in RowKind if k in mode),
                )
            if isinstance(value, dict) and not value.keys() <= self._names:
                raise function.wrong_result(value, function.result)
            self._origins.append((owner, source, time, kind))
            self._rows.append(row_cells(value, function, function.result))

    def frame(self, keys: pl.DataFrame, rows: Frames) -> pl.DataFrame:
        """The rows: the partition once per table, or the columns passed through; those of the function; the time."""
        call, function = self._call, self._call.function
        owners = np.array([owner for owner, _, _, _ in self._origins], np.int64)
        out: list[pl.Series] = []
        if call.process.passes_through:
            places = [source[1] for _, source, _, _ in self._origins if source is not None]
            out += rows[0].select(columns(len(call.tables[0].row.fields)))[places].get_columns()
        else:
            own = keys[owners].get_columns() if keys.width else []
            out += own * len(call.tables)
        fields = function.result.fields
        for cells, f in zip(zip(*self._rows, strict=True) if self._rows else [()] * len(fields), fields, strict=True):
            out.append(column_of(cells, f.type, function))
        if call.rowtime is not None:
            times = [time for _, _, time, _ in self._origins]
            out.append(pl.Series(times, dtype=pl.Int64).cast(pl.Datetime("ms")).cast(call.rowtime.polars()))
        frame = pl.DataFrame([s.alias(column(i)) for i, s in enumerate(out)])
        if call.process.mode == INSERT_ONLY:
            return frame
        return frame.hstack([pl.Series(KIND, [int(kind) for _, _, _, kind in self._origins], dtype=pl.Int8)])


@dataclass(frozen=True)
class ProcessRowsTransform(FrozenDataclass, Transform):
    """Calls a function with row semantics: for each row by itself, or for all rows of a frame.

    Attributes:
        call: the function, and what the call passes to it.
    """

    call: ProcessCall

    @property
    def reads_watermark(self) -> bool:
        return self.call.tables[0].time is not None

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        return self.at_watermark(frame, now, None)

    def at_watermark(self, frame: pl.DataFrame, now: int, watermark: int | None) -> pl.DataFrame:
        """The rows that the function yields. Raises DataError DATA310, DATA311, DATA313."""
        run = Run(self.call, [frame], now)
        run.context.session, run.context.watermark = _NO_PARTITION, watermark
        emission = Emission(self.call)
        for source, time, arguments, shown_arguments in run.calls(0, np.arange(frame.height)):
            run.context.millis = time
            emission.add(run.call_rows("eval", arguments, shown_arguments), 0, time, (0, source))
        return emission.frame(pl.DataFrame(height=1), [frame])


class _NoPartition:
    """What a function with row semantics has of states and timers: nothing."""

    def register(self, name: str | None, time: int) -> None:
        raise ValueError("timers are kept by partition, and the function has row semantics")

    def clear_timer(self, timer: str | int) -> None:
        """There is none."""

    def clear_timers(self) -> None:
        """There are none."""

    def clear_state(self, name: str | None) -> None:
        if name is not None:
            raise ValueError(f"the function has no state '{name}'")


_NO_PARTITION = _NoPartition()
