"""Changes of PostgreSQL, and rows of its tables, as the frames of a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from stateplan.common.changelog import KIND, RowKind
from stateplan.common.errors import DataError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.secrets import resolve_references
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.jdbc.postgres import quote_name
from stateplan.connectors.postgres_cdc.pgoutput import (
    DELETE,
    INSERT,
    RELATION,
    TRUNCATE,
    UPDATE,
    ChangeBatch,
    Flags,
    Integers,
    Messages,
    Relation,
    Values,
    change_times,
    changes,
    truncated_tables,
)
from stateplan.connectors.postgres_cdc.values import TYPES, fits, values
from stateplan.connectors.splits import Split

_ORDER = "order"
_KINDS = np.array([kind.short for kind in RowKind])


@dataclass(frozen=True)
class ChangeSplit(Split):
    """A file of rows.

    Attributes:
        name: the name of the file.
        tables: OIDs of the tables of the source.
        types: OID of a type that users created, as text, to the internal name that counts.
        is_copy: whether they are rows that were there in the beginning; else changes.
    """

    name: str
    tables: Sequence[str]
    types: Mapping[str, str]
    is_copy: bool = False


@dataclass(frozen=True)
class RowReader:
    """The columns, rows and tables of the changes that a query reads. Picklable.

    Attributes:
        fields: name and type of the columns, in output order.
        metadata: keys of the metadata columns that follow them.
        key: columns of the primary key; empty for none.
        retract: whether updates also produce the old row (``changelog-mode`` = ``all``).
        skip_truncate: whether a TRUNCATE is ignored.
        database: the name of the database, for the metadata; may be a reference.
        types: maps the OID of a user-defined type to the internal name of the type that decodes it. For a domain, that
            is its base type.
        tables: OIDs of the tables; empty for all.
    """

    fields: Fields
    metadata: tuple[str, ...]
    key: tuple[str, ...]
    retract: bool
    skip_truncate: bool
    database: str
    types: Mapping[int, str] = field(default_factory=dict)
    tables: frozenset[int] = frozenset()

    def of(self, split: ChangeSplit) -> RowReader:
        """The same, with what a split says about the database."""
        types = {int(oid): name for oid, name in split.types.items()}
        return replace(self, types=types, tables=frozenset(map(int, split.tables)))

    # ---- changes -----------------------------------------------------------------------------------------------

    def changes(self, array: pa.Array[Any]) -> pl.DataFrame:
        """The rows of messages, in their order, with the column ``kind``.

        Raises:
            DataError: DATA440 to DATA445.
        """
        messages = Messages(array)
        self._check_truncates(messages)
        frames = [
            self._changed_rows(change, change_times(messages, change.at))
            for change in changes(messages)
            if not self.tables or change.relation.oid in self.tables
        ]
        if not frames:
            return self._empty()
        return pl.concat(frames).sort(_ORDER).drop(_ORDER)

    def _check_truncates(self, messages: Messages) -> None:
        at = messages.positions_of(TRUNCATE)
        if self.skip_truncate or not len(at):
            return
        names = {r.oid: r for r in map(Relation.of, map(messages.message, messages.positions_of(RELATION)))}
        for index in at:
            for oid in truncated_tables(messages.message(index)):
                if not self.tables or oid in self.tables:
                    raise DataError("DATA445", table=_path(names[oid]) if oid in names else oid)

    def _changed_rows(self, change: ChangeBatch, times: Integers) -> pl.DataFrame:
        relation, kinds = change.relation, change.kinds
        places = {name: self._place(relation, name, data_type) for name, data_type in self.fields}
        self._check_old(change)
        new, has_new_key = change.new, np.zeros(len(kinds), bool)
        updates = np.flatnonzero(kinds[change.old_of] == UPDATE)
        if len(updates):
            at = change.old_of[updates]
            rows, old = np.searchsorted(change.new_of, at), change.old.take(updates)
            is_whole = change.is_whole[updates]
            keys = [_find(relation, name) for name in self.key]
            for place in {*places.values(), *(k for k in keys if k is not None)}:
                new.fill(place, old.take(is_whole), rows[is_whole])
            has_new_key[at] = self._has_new_key(relation, new.take(rows), old)
        for name, place in places.items():
            if bool(new.left_out(place).any()):
                raise DataError("DATA442", table=_path(relation), column=name, sql=_sql(relation))
        of = change.old_of
        has_old_row = (kinds[of] == DELETE) | has_new_key[of] | self.retract
        old_kinds = np.where((kinds[of] == DELETE) | has_new_key[of], RowKind.DELETE, RowKind.UPDATE_BEFORE)[
            has_old_row
        ]
        added_kinds = np.where((kinds == INSERT) | has_new_key, RowKind.INSERT, RowKind.UPDATE_AFTER)[change.new_of]
        sides = ((change.old.take(has_old_row), of[has_old_row], old_kinds, 0), (new, change.new_of, added_kinds, 1))
        frames = []
        for side, at, row_kinds, second in sides:
            columns = [
                values(side.text(places[name]), data_type, name, _path(relation)).alias(f"c{i}")
                for i, (name, data_type) in enumerate(self.fields)
            ]
            columns += self._about(relation.schema, relation.name, times[at] // 1000, row_kinds)
            columns.append(pl.Series(KIND, row_kinds.astype(np.int8)))
            columns.append(pl.Series(_ORDER, change.at[at] * 2 + second))
            frames.append(pl.DataFrame(columns))
        return pl.concat(frames)

    def _check_old(self, change: ChangeBatch) -> None:
        """Raises DataError DATA441 where old rows do not have what changes need."""
        relation = change.relation
        path, sql = _path(relation), _sql(relation)
        needs_key = change.kinds != INSERT
        if self.retract:
            needs_key[change.old_of[change.is_whole]] = False
        elif relation.full:
            return
        if not needs_key.any():
            return
        operation = "a deletion" if change.kinds[needs_key][0] == DELETE else "an update"
        if self.retract:
            raise DataError("DATA441", what=operation, table=path, sql=sql)
        key_columns = [column.name for column in relation.columns if column.key]
        for name in self.key:
            place = _find(relation, name)
            if place is None or not relation.columns[place].key:
                raise DataError("DATA441.key", what=operation, column=name, columns=key_columns, table=path, sql=sql)

    def _has_new_key(self, relation: Relation, new: Values, old: Values) -> Flags:
        """Whether an update gives a row another key: to whoever keeps rows by their keys, it is another row."""
        differs = np.zeros(len(old.kinds[0]), bool)
        for name in self.key:
            place = _find(relation, name)
            if place is None:
                raise _missing_column(relation, name, dict(self.fields).get(name))
            differs |= new.text(place).ne_missing(old.text(place)).to_numpy()
        return differs

    def _place(self, relation: Relation, name: str, data_type: Any) -> int:
        place = _find(relation, name)
        if place is None:
            raise _missing_column(relation, name, data_type)
        oid = relation.columns[place].type
        actual = TYPES.get(oid) or self.types.get(oid) or f"of the type with the OID {oid}"
        if not fits(actual, data_type):
            raise DataError("DATA444.type", table=_path(relation), column=name, actual=actual, declared=data_type)
        return place

    def _about(self, schema: str, table: str, millis: Integers, kinds: Any) -> list[pl.Series]:
        """The metadata of rows."""
        height = len(millis)
        same = {"table_name": table, "schema_name": schema}
        if "database_name" in self.metadata:
            same["database_name"] = resolve_references(self.database, "database-name")
        columns = []
        for i, key in enumerate(self.metadata, len(self.fields)):
            if key == "op_ts":
                series = pl.Series(millis, dtype=pl.Int64()).cast(pl.Datetime("ms", "UTC"))
            elif key == "row_kind":
                series = pl.Series(_KINDS[kinds], dtype=pl.String())
            else:
                series = pl.Series([same[key]], dtype=pl.String()).new_from_index(0, height)
            columns.append(series.alias(f"c{i}"))
        return columns

    def _empty(self) -> pl.DataFrame:
        columns = [pl.Series(f"c{i}", [], data_type.polars()) for i, (_, data_type) in enumerate(self.fields)]
        none = np.empty(0, np.int64)
        return pl.DataFrame([*columns, *self._about("", "", none, none), pl.Series(KIND, [], pl.Int8())])

    # ---- the rows that were there ------------------------------------------------------------------------------

    def copied_rows(self, table: pa.Table, schema: str, name: str) -> pl.DataFrame:
        """Rows of a table that were there when the job began, as insertions.

        Args:
            table: the columns of the table under their declared names, as text.
            schema: the schema of the table.
            name: the name of the table.

        Raises:
            DataError: DATA443; DATA444, a column was declared after the rows were copied.
        """
        path = f"{schema}.{name}"
        columns = []
        for i, (column, data_type) in enumerate(self.fields):
            if column not in table.column_names:
                raise DataError("DATA444", table=path, column=column, declared=data_type)
            text = pl.from_arrow(table[column].combine_chunks())
            assert isinstance(text, pl.Series)
            columns.append(values(text, data_type, column, path).alias(f"c{i}"))
        kinds = np.zeros(table.num_rows, np.int64)
        columns += self._about(schema, name, np.zeros(table.num_rows, np.int64), kinds)
        columns.append(pl.Series(KIND, kinds.astype(np.int8)))
        return pl.DataFrame(columns)


def find_column(names: list[str], name: str) -> int | None:
    """The position of the column with this name, or if there is no such column, with the name in lower case."""
    for spelling in (name, name.lower()):
        if spelling in names:
            return names.index(spelling)
    return None


def _find(relation: Relation, name: str) -> int | None:
    return find_column([column.name for column in relation.columns], name)


def _missing_column(relation: Relation, name: str, data_type: Any) -> DataError:
    return DataError("DATA444", table=_path(relation), column=name, declared=data_type or "the primary key")


def _path(relation: Relation) -> str:
    return f"{relation.schema}.{relation.name}"


def _sql(relation: Relation) -> str:
    return f"{quote_name(relation.schema)}.{quote_name(relation.name)}"
