"""The rows of a state table as somebody outside wants them: named columns, when each row was last accessed and when
its time is up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import NEVER
from stateplan.common.types import LogicalType
from stateplan.common.values.codecs import codec
from stateplan.common.values.nanoseconds import stored_dtype
from stateplan.runtime.inspect.state_figures import UNDATED, current_rows
from stateplan.runtime.kernel import ACCESS_TIME, StateTable

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

ACCESSED, EXPIRES, EXPIRED = "access_time", "expires_at", "expired"
"""Columns beside those of the state."""

_END_OF_DATES = 253_402_300_799_999
"""The last millisecond of the year 9999."""
_BATCH = 65_536


@dataclass(frozen=True)
class RowFilter:
    """Only rows with ``value``, of the column's type, in ``column``; None is NULL."""

    column: str
    value: Any


@dataclass(frozen=True)
class RowRequest:
    """Which rows of a table are wanted.

    Attributes:
        table: the table.
        labels: which of its columns, and what they are called.
        ttl: how long its rows live, ms; 0 is never.
        expired: whether rows whose time is up are wanted too.
        filters: all of which a row has to pass.
        limit: this number of rows at most, of each key group.
    """

    table: StateTable
    labels: Mapping[str, str]
    ttl: int
    expired: bool = False
    filters: tuple[RowFilter, ...] = ()
    limit: int | None = None

    @property
    def extra(self) -> tuple[str, str, str]:
        """The names of the columns that are not of the table, distinguished from those that are."""
        names = []
        for name in (ACCESSED, EXPIRES, EXPIRED):
            while name in self.labels.values():
                name += "_"
            names.append(name)
        return names[0], names[1], names[2]


def table_rows(request: RowRequest, runs: Sequence[pl.DataFrame], cut: int | None) -> pl.DataFrame:
    """The rows of a table in one key group.

    Args:
        runs: oldest first.
        cut: rows that were last accessed at or before this instant (ms) have expired; None for none.
    """
    table = request.table
    tests = [pl.col(f.column).eq_missing(pl.lit(f.value, table.schema[f.column])) for f in request.filters]
    early = [t for f, t in zip(request.filters, tests, strict=True) if f.column in (table.identity or table.lookup)]
    matching_runs = [run.filter(*early) for run in runs] if early else list(runs)
    matching_runs = [run for run in matching_runs if run.height]
    if not matching_runs:
        return _shaped(request, pl.DataFrame(schema={**table.schema, ACCESS_TIME: pl.Int64()}), cut)
    rows = current_rows(table, matching_runs)
    if tests:
        rows = rows.filter(*tests)
    if not request.expired and cut is not None:
        rows = rows.filter(pl.col(ACCESS_TIME) > cut)
    return _shaped(request, rows if request.limit is None else rows.head(request.limit), cut)


def _shaped(request: RowRequest, rows: pl.DataFrame, cut: int | None) -> pl.DataFrame:
    access_name, expires, expired_name = request.extra
    time = pl.when(pl.col(ACCESS_TIME) < UNDATED).then(pl.col(ACCESS_TIME))
    late = pl.lit(None, pl.Int64)
    if request.ttl != NEVER and request.ttl < _END_OF_DATES:
        end = time + request.ttl
        late = pl.when(end.is_between(0, _END_OF_DATES)).then(end)
    old = pl.lit(False) if cut is None else pl.col(ACCESS_TIME) <= cut
    columns = [_with_texts(pl.col(name), dtype).cast(_portable(dtype)) for name, dtype in _row_types(request).items()]
    columns = [_text_of_time(e, request.table.schema[n]) for e, n in zip(columns, _row_types(request), strict=True)]
    return rows.select(
        *(e.alias(request.labels[n]) for e, n in zip(columns, _row_types(request), strict=True)),
        pl.from_epoch(time, "ms").cast(pl.Datetime("us")).dt.replace_time_zone("UTC").alias(access_name),
        pl.from_epoch(late, "ms").cast(pl.Datetime("us")).dt.replace_time_zone("UTC").alias(expires),
        *([old.alias(expired_name)] if request.expired else []),
    )


def _row_types(request: RowRequest) -> dict[str, pl.DataType]:
    return {name: dtype for name, dtype in request.table.schema.items() if name in request.labels}


def _portable(dtype: pl.DataType) -> pl.DataType:
    """The type nearest to ``dtype`` that Spark has."""
    if isinstance(dtype, pl.Datetime):
        return pl.Datetime("us", dtype.time_zone)
    if isinstance(dtype, pl.Duration):
        return pl.Duration("us")
    if isinstance(dtype, pl.List):
        return pl.List(_portable(dtype.inner))  # type: ignore[arg-type] # an instance in a schema
    if isinstance(dtype, pl.Struct):
        return pl.Struct({f.name: _portable(f.dtype) for f in dtype.fields})  # type: ignore[arg-type] # an instance in a schema
    return pl.String() if dtype in (pl.Int128, pl.Null) else dtype


_NANOSECONDS = codec(LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=9))


def _with_texts(e: pl.Expr, dtype: Any) -> pl.Expr:
    """A column whose timestamps of nanoseconds, wherever they are, are texts: Spark's have microseconds."""
    if dtype == pl.Int128:
        return _NANOSECONDS.sql(e, "UTC")
    if stored_dtype(dtype) == dtype:
        return e
    if isinstance(dtype, pl.List):
        return e.list.eval(_with_texts(pl.element(), dtype.inner))
    fields = [_with_texts(e.struct.field(f.name), f.dtype).alias(f.name) for f in dtype.fields]
    return pl.when(e.is_not_null()).then(pl.struct(fields))


def _text_of_time(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """TIME as text: Spark has no such type in most places."""
    return column.dt.to_string("%H:%M:%S%.f") if isinstance(dtype, pl.Time) else column


def arrow_schema(request: RowRequest) -> pa.Schema:
    """The columns of :func:`table_rows` as they travel."""
    empty = table_rows(request, [], None)
    return pa.schema([pa.field(f.name, _small(f.type)) for f in empty.to_arrow(compat_level=_OLDEST).schema])


_OLDEST = pl.CompatLevel.oldest()


def _small(dtype: pa.DataType) -> pa.DataType:
    """The Arrow type that Spark knows in place of one with 64-bit offsets."""
    if pa.types.is_large_string(dtype):
        return pa.string()
    if pa.types.is_large_binary(dtype):
        return pa.binary()
    if pa.types.is_large_list(dtype):
        return pa.list_(_small(dtype.value_type))
    if pa.types.is_struct(dtype):
        return pa.struct([pa.field(f.name, _small(f.type)) for f in dtype])
    return dtype


def arrow_batches(rows: pl.DataFrame, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Rows as Arrow batches of ``schema``, none of them large."""
    out: list[pa.RecordBatch] = []
    for start in range(0, rows.height, _BATCH):
        table = rows.slice(start, _BATCH).to_arrow(compat_level=_OLDEST).cast(schema)
        out.extend(table.combine_chunks().to_batches())
    return out


def spark_schema(schema: pa.Schema) -> StructType:
    """The same as Spark's type."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
