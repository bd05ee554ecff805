"""The SQL types of the columns of state tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from stateplan.common.types import BIGINT, BOOLEAN, INT, STRING, LogicalType, RowField
from stateplan.runtime.kernel import StateTable


def field_of(table: StateTable | None, name: str, dtype: pl.DataType) -> tuple[int, int] | None:
    """The input, and the field of it, whose values a column holds; None if it holds others, or that is not known.

    Args:
        table: as its kernel has it; None if the kernel does not run here.
        dtype: the type of the column where it is stored.
    """
    column = None if table is None else table.columns.get(name)
    return None if column is None or column.type != dtype else column.field


def column_type(table: StateTable | None, name: str, dtype: pl.DataType, inputs: Sequence[LogicalType]) -> LogicalType:
    """The type of a column: of a field of an input that of the plan, of others the type that holds their values.

    Args:
        inputs: the types of the rows of the inputs of the operator. The others are those of :func:`field_of`.
    """
    field = field_of(table, name, dtype)
    if field is not None and field[1] < len(inputs[field[0]].fields):
        field_type = inputs[field[0]].fields[field[1]].type
        if field_type.polars() == dtype:
            return replace(field_type, kind=None, nullable=True)  # no time attribute
    return sql_type(dtype)


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
