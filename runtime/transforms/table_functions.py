"""Correlates: every row joined with the rows that a table function returns for it.

Source: Flink's ``CorrelateCodeGenerator`` and PyFlink's ``TableFunctionOperation``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, column
from stateplan.common.errors import PlanError, RunError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import amount
from stateplan.common.types import LogicalType
from stateplan.execnodes.node_text import joined_names
from stateplan.functions.rex import Call, CorrelVariable, FieldAccess, InputRef, Rex
from stateplan.functions.values import column_of, python_values, row_cells
from stateplan.runtime.kernel import Transform
from stateplan.runtime.transforms.calc import CalcTransform


def over_input(rex: Rex, row: LogicalType) -> Rex:
    """``rex`` with fields of the outer row (``$cor0.c``) as fields of the input ``row``.

    Raises:
        PlanError: PLAN044 for a field that the input does not have, neither by its name nor at its position.
    """
    if isinstance(rex, FieldAccess) and isinstance(rex.expr, CorrelVariable):
        names, outer_names = ([f.name for f in kind.fields] for kind in (row, rex.expr.type))
        index = names.index(rex.name) if rex.name in names else outer_names.index(rex.name)
        if index >= len(names):
            raise PlanError("PLAN044.no_outer_field", name=rex.name, index=index, count=amount(len(names), "field"))
        return InputRef(row.fields[index].type, index)
    if isinstance(rex, FieldAccess):
        return replace(rex, expr=over_input(rex.expr, row))
    if isinstance(rex, Call):
        return replace(rex, operands=tuple(over_input(o, row) for o in rex.operands))
    return rex


@dataclass(frozen=True)
class CorrelateTransform(Transform):
    """The fields of the input, then those of the function's rows.

    Args:
        input_type: ROW of the input.
        call: the function over fields of the input; its type is the ROW it gives.
        join_type: LEFT keeps rows for which the function returns none, with NULLs.
        condition: over the function's fields; rows that do not meet it do not count.
        time_zone: the time zone of the session.
        operator: the operator it runs for, as errors name it.
    """

    input_type: LogicalType
    call: Call
    join_type: str
    condition: Rex | None = None
    time_zone: str = "UTC"
    operator: str | None = None

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        """Raises the same errors as :class:`CalcTransform` does, and DataError DATA310, DATA311 for the function."""
        width = len(self.input_type.fields)
        rows, results = self._function_rows(frame, now)
        if self.condition is not None and results.height:
            refs = tuple(InputRef(f.type, i) for i, f in enumerate(self.call.type.fields))
            number = InputRef(_NUMBER, len(refs))
            numbered_rows = results.with_columns(pl.Series(column(len(refs)), np.arange(results.height)))
            names = joined_names((self.call.type,))
            passing_rows = CalcTransform((*refs, number), self.condition, self.time_zone, self.operator, names)(
                numbered_rows, now
            )
            rows = rows[passing_rows[column(len(refs))].to_numpy()]
            results = passing_rows.drop(column(len(refs)))
        if self.join_type == "LEFT":
            lone = np.setdiff1d(np.arange(frame.height), rows)
            if len(lone):
                nothing = pl.DataFrame([pl.Series(n, [None], dtype=t) for n, t in results.schema.items()])
                padding = nothing[np.zeros(len(lone), np.int64)]
                rows, results = np.r_[rows, lone], pl.concat([results, padding], rechunk=True)
                order = np.argsort(rows, kind="stable")
                rows, results = rows[order], results[order]
        left = frame[rows]
        fields = [left[column(i)] for i in range(width)]
        fields += [s.alias(column(width + i)) for i, s in enumerate(results.get_columns())]
        kind = [left[KIND]] if KIND in frame.columns else []
        return pl.DataFrame([*fields, *kind])

    def _function_rows(self, frame: pl.DataFrame, now: int) -> tuple[Any, pl.DataFrame]:
        """The function's rows, and per row the row of the input it is for."""
        if self.call.name == REPLICATE_ROWS:
            return self._replicate_rows(frame, now)
        if self.call.internal_name is not None:
            return self._collection_elements(frame, now)
        fields = self.call.type.fields
        function = self.call.function
        if function is None:
            raise RunError("RUN301.unknown_function", name=self.call.name)
        arguments: list[Sequence[Any]] = [()] * frame.height
        if self.call.operands and frame.height:
            values = self._values(frame, now)
            lists = [python_values(values[column(i)], o.type) for i, o in enumerate(self.call.operands)]
            arguments = list(zip(*lists, strict=True))
        rows: list[int] = []
        columns: list[list[Any]] = [[] for _ in fields]
        for number, row in enumerate(arguments):
            for result_row in function.rows(row):
                rows.append(number)
                for cells, cell in zip(columns, row_cells(result_row, function, self.call.type), strict=True):
                    cells.append(cell)
        out = [
            column_of(cells, f.type, function).alias(column(i))
            for i, (cells, f) in enumerate(zip(columns, fields, strict=True))
        ]
        return np.array(rows, np.int64), pl.DataFrame(out)

    def _values(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        """The arguments of the function, a column each."""
        names = joined_names((self.input_type,))
        values = CalcTransform(self.call.operands, None, self.time_zone, self.operator, names)
        return values(frame.drop(KIND, strict=False), now)

    def _replicate_rows(self, frame: pl.DataFrame, now: int) -> tuple[Any, pl.DataFrame]:
        """The arguments but the first, as often as that says (Flink's ``ReplicateRowsFunction``)."""
        values = self._values(frame, now)
        rows = np.repeat(np.arange(frame.height), np.maximum(values[column(0)].fill_null(0).to_numpy(), 0))
        repeated_values = values[rows]
        return rows, pl.DataFrame(
            [repeated_values[column(1 + i)].alias(column(i)) for i in range(len(self.call.type.fields))]
        )

    def _collection_elements(self, frame: pl.DataFrame, now: int) -> tuple[Any, pl.DataFrame]:
        """The elements of a collection (Flink's ``UnnestRowsFunction``), with their numbers where requested; a ROW that
        is NULL is passed over."""
        fields = self.call.type.fields
        (operand,) = self.call.operands
        collections = self._values(frame, now)[column(0)]
        sizes = collections.list.len().fill_null(0).to_numpy()
        rows = np.repeat(np.arange(frame.height), sizes)
        items = collections.filter(pl.Series(sizes > 0)).explode()
        numbers = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
        if operand.type.root == "MULTISET":
            parts = items.struct.unnest()
            times = parts["value"].to_numpy()
            items = parts["key"][np.repeat(np.arange(len(times)), times)]
            rows = np.repeat(rows, times)
            starts = np.flatnonzero(np.diff(rows, prepend=-1))
            numbers = np.arange(len(rows)) - np.repeat(starts, np.diff(np.r_[starts, len(rows)])) + 1
        nested = operand.type.root == "MAP" or (operand.type.root == "ARRAY" and operand.type.children[0].root == "ROW")
        if operand.type.root == "ARRAY" and nested and items.null_count():
            present = np.flatnonzero(items.is_not_null().to_numpy())
            rows, numbers, items = rows[present], numbers[present], items[present]
        columns = items.struct.unnest().get_columns() if nested else [items]
        if self.call.name == UNNEST[1]:
            columns.append(pl.Series(numbers, dtype=pl.Int32()))
        out = [s.cast(f.type.polars()).alias(column(i)) for i, (s, f) in enumerate(zip(columns, fields, strict=True))]
        return rows, pl.DataFrame(out)


REPLICATE_ROWS = "REPLICATE_ROWS"
"""The built-in table function that repeats a row."""

UNNEST = ("UNNEST_ROWS", "UNNEST_ROWS_WITH_ORDINALITY")
"""The built-in table functions: elements of a collection, and with their numbers from 1."""

_NUMBER = LogicalType("BIGINT", nullable=False)
