"""The columns that a state table has in SQL: names, types, and which of them decide the key group of a row."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from stateplan.common.errors import StateplanError
from stateplan.common.types import (
    BIGINT,
    BOOLEAN,
    INT,
    STRING,
    LogicalType,
    RowField,
)
from stateplan.execnodes.graph import ExecGraph
from stateplan.runtime.inspect.inspection import OperatorState, TableState
from stateplan.runtime.kernel import StateTable
from stateplan.runtime.operators import Stateful, operator_of

INSTANT = LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=3)
"""The type of times of access and expiry."""


@dataclass(frozen=True)
class StateColumnInfo:
    """A column of a state table.

    Attributes:
        name: what people call it.
        type: its SQL type; nullable.
        column: its name in the table.
        is_key: whether rows are found by it.
    """

    name: str
    type: LogicalType
    column: str
    is_key: bool


@dataclass(frozen=True)
class StateSchema:
    """The columns of a state table.

    Attributes:
        columns: those that mean something to people: those of the key first.
        routing: the columns of the table whose values decide the key group of a row; None if that is not known.
    """

    columns: tuple[StateColumnInfo, ...]
    routing: tuple[str, ...] | None

    @staticmethod
    def of(graph: ExecGraph, operator: OperatorState, table: TableState) -> StateSchema:
        """The columns of a table.

        Args:
            graph: the plan of the checkpoint.
            operator: the operator that has the table.
            table: the table.
        """
        part = _part(graph, operator)
        types = {name: _column_type(graph, operator, part, table.table, name) for name in table.labels}
        lookup = set(table.table.lookup)
        columns = [StateColumnInfo(label, types[name], name, name in lookup) for name, label in table.labels.items()]
        columns.sort(key=lambda c: not c.is_key)
        return StateSchema(tuple(columns), _routing(part, table.table))


def _part(graph: ExecGraph, operator: OperatorState) -> Stateful | None:
    """The operator as this version runs it; None if it cannot, for example without a function of the user."""
    inputs = [node.output_type for node in graph.inputs(operator.node)]
    try:
        part = operator_of(operator.node, inputs, {})
    except StateplanError:
        return None
    return part if isinstance(part, Stateful) else None


def _kernel_table(part: Stateful | None, table: StateTable) -> StateTable | None:
    """The table as the kernel has it."""
    return None if part is None else next((t for t in part.kernel.tables if t.name == table.name), None)


def _field(part: Stateful | None, table: StateTable, name: str) -> tuple[int, int] | None:
    """The input, and the field of it, whose values a column holds; None if it holds others, or that is not known."""
    kernel_table = _kernel_table(part, table)
    column = None if kernel_table is None else kernel_table.columns.get(name)
    return None if column is None or column.type != table.schema[name] else column.field


def _column_type(
    graph: ExecGraph, operator: OperatorState, part: Stateful | None, table: StateTable, name: str
) -> LogicalType:
    """The type of a column: of a field of an input that of the plan, of others the type that holds their values."""
    dtype = table.schema[name]
    field = _field(part, table, name)
    if field is not None:
        row = graph.inputs(operator.node)[field[0]].output_type
        if field[1] < len(row.fields):
            field_type = row.fields[field[1]].type
            if field_type.polars() == dtype:
                return _plain(field_type)
    return sql_type(dtype)


def _plain(field_type: LogicalType) -> LogicalType:
    """A type without what makes it a time attribute."""
    return replace(field_type, kind=None, nullable=True)


def _routing(part: Stateful | None, table: StateTable) -> tuple[str, ...] | None:
    """The columns that hold the fields by which rows come to a key group."""
    kernel_table = _kernel_table(part, table)
    if part is None or kernel_table is None:
        return None
    columns = {c.field: name for name, c in kernel_table.columns.items() if c.field is not None}
    for number, key in enumerate(part.keys):
        if key and all((number, field) in columns for field in key):
            names = tuple(columns[number, field] for field in key)
            if all(name in table.lookup for name in names):
                return names
    return None


def sql_type(dtype: pl.DataType) -> LogicalType:
    """The SQL type of the values of a column that only the runtime has."""
    simple = {
        pl.Boolean: BOOLEAN,
        pl.Int8: LogicalType("TINYINT"),
        pl.Int16: LogicalType("SMALLINT"),
        pl.Int32: INT,
        pl.Int64: BIGINT,
        pl.UInt64: LogicalType("DECIMAL", precision=20, scale=0),
        pl.Float32: LogicalType("FLOAT"),
        pl.Float64: LogicalType("DOUBLE"),
        pl.String: STRING,
        pl.Binary: LogicalType("VARBINARY", length=2**31 - 1),
        pl.Date: LogicalType("DATE"),
        pl.Time: LogicalType("TIME_WITHOUT_TIME_ZONE", precision=3),
        pl.Int128: LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=9),
        pl.Duration: LogicalType("INTERVAL_DAY_TIME", resolution="DAY(6) TO SECOND(3)"),
    }
    if isinstance(dtype, pl.Decimal):
        return LogicalType("DECIMAL", precision=dtype.precision or 38, scale=dtype.scale)
    if isinstance(dtype, pl.Datetime):
        root = "TIMESTAMP_WITHOUT_TIME_ZONE" if dtype.time_zone is None else "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
        return LogicalType(root, precision=3 if dtype.time_unit == "ms" else 6)
    if isinstance(dtype, pl.List):
        return LogicalType("ARRAY", children=(sql_type(_instance(dtype.inner)),))
    if isinstance(dtype, pl.Struct):
        fields = tuple(RowField(f.name, sql_type(_instance(f.dtype))) for f in dtype.fields)
        return LogicalType("ROW", fields=fields)
    return simple.get(dtype.base_type(), STRING)


def _instance(dtype: object) -> pl.DataType:
    return dtype() if isinstance(dtype, type) else dtype  # type: ignore[return-value] # a type of Polars
