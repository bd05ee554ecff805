"""Rows looked up in a table at the moment a row asks for them.

Source of the semantics: Flink's ``LookupJoinRunner`` and ``LookupJoinWithCalcRunner``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from stateplan.common.changelog import KIND, RowKind, column, columns
from stateplan.common.errors import RunError, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.common.zone import local_time_zone
from stateplan.connectors.protocol import Lookup
from stateplan.connectors.retries import KeyRetries
from stateplan.execnodes.specs import DynamicTableSource, LookupKey, RetryOptions
from stateplan.functions.rex import Rex, input_refs, remap
from stateplan.runtime.kernel import Transform
from stateplan.runtime.plan_tables import source_table, with_abilities
from stateplan.runtime.transforms.calc import CalcTransform

_ROW = "@row"
_KEY = "@key"


@dataclass(frozen=True)
class _AcceptedRows:
    """The rows that meet filters."""

    filters: tuple[Rex, ...] = ()
    time_zone: str = "UTC"

    def __call__(self, rows: pl.DataFrame, now: int) -> pl.DataFrame:
        for predicate in self.filters if rows.height else ():
            transform = CalcTransform((predicate,), None, self.time_zone)
            holds = transform(rows.drop(KIND, strict=False), now)[column(0)]
            rows = rows.filter(holds.fill_null(False))
        return rows


@dataclass(frozen=True)
class LookupTable:
    """A table that is looked up, and the rows that meet the filters that were pushed into it."""

    name: str
    lookup: Lookup
    accepted: _AcceptedRows = _AcceptedRows()

    def rows(self, now: int, keys: pl.DataFrame | None = None) -> pl.DataFrame:
        """Its rows now, at least those with one of the ``keys``."""
        try:
            rows = self.lookup.rows(now, keys)
        except StateplanError as error:
            raise error.within(f"table {self.name}") from error
        return self.accepted(rows, now)


def lookup_table(
    source: DynamicTableSource, session: Mapping[str, str], retry: RetryOptions | None = None
) -> LookupTable:
    """The table of a plan, with the options of the session.

    Args:
        retry: how keys without rows are looked up again.

    Raises:
        RunError: RUN021, a table without its options; RUN026, one whose rows cannot be looked up.
    """
    table, predicates = with_abilities(source, source_table(source, session))
    condition_columns = {row[i] for predicate, row in predicates for i in input_refs(predicate)}
    extra = sorted(i for i in condition_columns if isinstance(i, int) and i not in table.projection)
    if (extra and table.metadata) or any(isinstance(k, str) and k not in table.metadata for k in condition_columns):
        # What is added for a filter would not stand behind the fields: Flink applies such a filter again anyway.
        predicates, extra = [], []
    table = replace(table, projection=(*table.projection, *extra))
    read: list[int | str] = [*table.projection, *table.metadata]
    place = {c: i for i, c in enumerate(read)}
    filters = tuple(remap(p, {i: place[row[i]] for i in input_refs(p)}) for p, row in predicates)
    if not table.connector.can_look_up:
        raise RunError("RUN026", name=table.name, connector=table.connector.name)
    lookup = table.connector.lookup(table)
    accepted_rows = _AcceptedRows(filters, local_time_zone(session))
    if retry is not None:
        lookup = lookup.retrying(KeyRetries(retry.max_attempts, retry.fixed_delay, accepted_rows))
    return LookupTable(table.name, lookup, accepted_rows)


@dataclass(frozen=True)
class LookupTransform(Transform):
    """Rows with those found beside them; a row that finds several comes several times, next to each other.

    Args:
        table: where rows are looked up.
        input_type: ROW of the input.
        table_type: ROW of the table, as it is read.
        found_type: ROW of what is found, filtered and projected.
        keys: field of the table -> what it is looked up by.
        outer: whether a row that finds nothing comes with NULLs.
        projection, condition: over the table.
        before: over the input; without it nothing is looked up.
        rest: over input ++ found.
        time_zone: the session's ``table.local-time-zone``.
        upserts: whether updates come without their old rows. A change that finds nothing then deletes the row of its
            key, which may have found something before; Flink leaves that row.
    """

    table: LookupTable
    input_type: LogicalType
    table_type: LogicalType
    found_type: LogicalType
    keys: Mapping[int, LookupKey]
    outer: bool
    projection: tuple[Rex, ...] | None
    condition: Rex | None
    before: Rex | None
    rest: Rex | None
    time_zone: str = "UTC"
    upserts: bool = False

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        out = self.look_up(frame, now).drop(_ROW)
        return out if KIND in frame.columns else out.drop(KIND, strict=False)

    def look_up(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        """The rows with what they find; ``@row`` is the number of the row in ``frame``."""
        width = len(self.input_type.fields)
        names = columns(width)
        found_names = [column(width + i) for i in range(len(self.found_type.fields))]
        rows = frame.with_row_index(_ROW)
        asking = rows
        if self.before is not None:
            asks = self._holds(self.before, frame, now)
            asking = rows.filter(asks)
        right = self._right_rows(now, asking)
        left_keys = [column(k.index) for k in self.keys.values() if k.index is not None]
        right_keys = [f"{_KEY}{f}" for f, k in self.keys.items() if k.index is not None]
        if left_keys:
            pairs = zip(left_keys, right_keys, strict=True)
            typed_keys = [pl.col(n).cast(right.schema[r]).alias(f"@l{r}") for n, r in pairs]
            both = asking.with_columns(typed_keys).join(
                right, left_on=[f"@l{r}" for r in right_keys], right_on=right_keys, how="inner", maintain_order="left"
            )
        else:
            both = asking.join(right, how="cross")
        both = both.select(_ROW, *names, *([KIND] if KIND in frame.columns else []), *found_names)
        if self.rest is not None and both.height:
            both = both.filter(self._holds(self.rest, both.select(*names, *found_names), now))
        deletes = self.upserts and KIND in frame.columns
        if not (self.outer or deletes):
            return both
        lone = rows.join(both.select(_ROW), on=_ROW, how="anti")
        if not self.outer:
            lone = lone.with_columns(pl.lit(RowKind.DELETE, dtype=pl.Int8).alias(KIND))
        nulls = [pl.lit(None, dtype=both.schema[n]).alias(n) for n in found_names]
        return pl.concat([both, lone.with_columns(nulls).select(both.columns)]).sort(_ROW, maintain_order=True)

    def _lookup_keys(self, asking: pl.DataFrame, now: int) -> pl.DataFrame | None:
        """The distinct values that rows ask for, and the constants that all of them ask for, under the names of the
        table's columns; None if not needed."""
        pairs = [(f, k.index) for f, k in self.keys.items() if k.index is not None]
        types = [f.type.polars() for f in self.table_type.fields]
        constant_keys = [self._constant(literal, types[f], now).alias(column(f)) for f, literal in self._constants()]
        if not self.table.lookup.by_key or not (pairs or constant_keys):
            return None
        if not pairs:
            return pl.DataFrame(constant_keys)
        key_frame = asking.select(pl.col(column(i)).cast(types[f]).alias(column(f)) for f, i in pairs).unique()
        return key_frame.with_columns(pl.lit(value[0], value.dtype).alias(value.name) for value in constant_keys)

    def _constants(self) -> list[tuple[int, Rex]]:
        """The fields of the table that are requested by a constant."""
        return [(f, k.literal) for f, k in self.keys.items() if k.index is None and k.literal is not None]

    def _constant(self, literal: Rex, dtype: pl.DataType, now: int) -> pl.Series:
        """The value of a constant, as a column of the table has it."""
        return CalcTransform((literal,), None, self.time_zone)(pl.DataFrame({"@one": [0]}), now)[column(0)].cast(dtype)

    def _right_rows(self, now: int, asking: pl.DataFrame) -> pl.DataFrame:
        """The table's rows that may be found: projected, under the names of the output, their keys beside them."""
        rows = self.table.rows(now, self._lookup_keys(asking, now))
        rows = rows.select(columns(len(self.table_type.fields)))
        for field, literal in self._constants():
            value = self._constant(literal, rows.schema[column(field)], now)
            rows = rows.filter(pl.col(column(field)) == value[0])
        if self.condition is not None and rows.height:
            rows = rows.filter(self._holds(self.condition, rows, now))
        width = len(self.input_type.fields)
        keys = [pl.col(column(f)).alias(f"{_KEY}{f}") for f, k in self.keys.items() if k.index is not None]
        projected_rows = (
            rows if self.projection is None else CalcTransform(self.projection, None, self.time_zone)(rows, now)
        )
        out = projected_rows.select(pl.col(n).alias(column(width + i)) for i, n in enumerate(projected_rows.columns))
        return pl.concat([out, rows.select(keys)], how="horizontal") if keys else out

    def _holds(self, condition: Rex, frame: pl.DataFrame, now: int) -> pl.Series:
        """Whether a condition is TRUE, per row."""
        if not frame.height:
            return pl.Series([], dtype=pl.Boolean)
        plain = frame.drop(KIND, strict=False)
        return CalcTransform((condition,), None, self.time_zone)(plain, now)[column(0)].fill_null(False)
