"""Changes of PostgreSQL, and rows of its tables, as the frames of a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from stateplan.common.changelog import KIND, RowKind
from stateplan.common.errors import DataError
from stateplan.common.secrets import resolved
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.jdbc.postgres import quoted
from stateplan.connectors.postgres_cdc.pgoutput import (
    DELETE,
    INSERT,
    RELATION,
    TRUNCATE,
    UPDATE,
    Changed,
    Flags,
    Integers,
    Messages,
    Relation,
    Values,
    change_times,
    changes,
    truncated,
)
from stateplan.connectors.postgres_cdc.values import TYPES, fits, values
from stateplan.connectors.splits import Split

_ORDER = "order"
_KINDS = np.array([kind.short for kind in RowKind])


@dataclass(frozen=True)
class ChangeSplit(Split):
    """A file of rows.

    Attributes:
        name: of the file.
        tables: OIDs of the tables of the source.
        types: OID of a type that users created, as text, to the internal name that counts.
        copied: whether they are rows that were there in the beginning; else changes.
    """

    name: str
    tables: Sequence[str]
    types: Mapping[str, str]
    copied: bool = False


@dataclass(frozen=True)
class Reading:
    """What a query reads of the changes. Picklable.

    Attributes:
        fields: name and type of the columns, in output order.
        metadata: keys that follow them.
        key: columns of the primary key; empty for none.
        retract: whether changes have their old rows (``changelog-mode`` = ``all``).
        skip_truncate: whether a TRUNCATE changes nothing.
        database: its name, for the metadata; may be a reference.
        types: OID of a type that users created to the internal name that counts: of a domain, that of its base.
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

    def of(self, split: ChangeSplit) -> Reading:
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
        found = [
            self._changed(changed, change_times(messages, changed.at))
            for changed in changes(messages)
            if not self.tables or changed.relation.oid in self.tables
        ]
        if not found:
            return self._empty()
        return pl.concat(found).sort(_ORDER).drop(_ORDER)

    def _check_truncates(self, messages: Messages) -> None:
        at = messages.where(TRUNCATE)
        if self.skip_truncate or not len(at):
            return
        names = {r.oid: r for r in map(Relation.of, map(messages.message, messages.where(RELATION)))}
        for index in at:
            for oid in truncated(messages.message(index)):
                if not self.tables or oid in self.tables:
                    raise DataError("DATA445", table=_path(names[oid]) if oid in names else oid)

    def _changed(self, changed: Changed, times: Integers) -> pl.DataFrame:
        relation, kinds = changed.relation, changed.kinds
        places = {name: self._place(relation, name, declared) for name, declared in self.fields}
        self._check_old(changed)
        new, moved = changed.new, np.zeros(len(kinds), bool)
        updated = np.flatnonzero(kinds[changed.old_of] == UPDATE)
        if len(updated):
            at = changed.old_of[updated]
            rows, old = np.searchsorted(changed.new_of, at), changed.old.take(updated)
            whole = changed.whole[updated]
            keys = [_find(relation, name) for name in self.key]
            for place in {*places.values(), *(k for k in keys if k is not None)}:
                new.fill(place, old.take(whole), rows[whole])
            moved[at] = self._moved(relation, new.take(rows), old)
        for name, place in places.items():
            if bool(new.left_out(place).any()):
                raise DataError("DATA442", table=_path(relation), column=name, sql=_sql(relation))
        of = changed.old_of
        shown = (kinds[of] == DELETE) | moved[of] | self.retract
        gone = np.where((kinds[of] == DELETE) | moved[of], RowKind.DELETE, RowKind.UPDATE_BEFORE)[shown]
        there = np.where((kinds == INSERT) | moved, RowKind.INSERT, RowKind.UPDATE_AFTER)[changed.new_of]
        sides = ((changed.old.take(shown), of[shown], gone, 0), (new, changed.new_of, there, 1))
        frames = []
        for side, at, row_kinds, second in sides:
            columns = [
                values(side.text(places[name]), declared, name, _path(relation)).alias(f"c{i}")
                for i, (name, declared) in enumerate(self.fields)
            ]
            columns += self._about(relation.schema, relation.name, times[at] // 1000, row_kinds)
            columns.append(pl.Series(KIND, row_kinds.astype(np.int8)))
            columns.append(pl.Series(_ORDER, changed.at[at] * 2 + second))
            frames.append(pl.DataFrame(columns))
        return pl.concat(frames)

    def _check_old(self, changed: Changed) -> None:
        """Raises DataError DATA441 where old rows do not have what changes need."""
        relation = changed.relation
        path, sql = _path(relation), _sql(relation)
        touched = changed.kinds != INSERT
        if self.retract:
            touched[changed.old_of[changed.whole]] = False
        elif relation.full:
            return
        if not touched.any():
            return
        what = "a deletion" if changed.kinds[touched][0] == DELETE else "an update"
        if self.retract:
            raise DataError("DATA441", what=what, table=path, sql=sql)
        known = [column.name for column in relation.columns if column.key]
        for name in self.key:
            place = _find(relation, name)
            if place is None or not relation.columns[place].key:
                raise DataError("DATA441.key", what=what, column=name, columns=known, table=path, sql=sql)

    def _moved(self, relation: Relation, new: Values, old: Values) -> Flags:
        """Whether an update gives a row another key: to whoever keeps rows by their keys, it is another row."""
        moved = np.zeros(len(old.kinds[0]), bool)
        for name in self.key:
            place = _find(relation, name)
            if place is None:
                raise _missing(relation, name, dict(self.fields).get(name))
            moved |= new.text(place).ne_missing(old.text(place)).to_numpy()
        return moved

    def _place(self, relation: Relation, name: str, declared: Any) -> int:
        place = _find(relation, name)
        if place is None:
            raise _missing(relation, name, declared)
        oid = relation.columns[place].type
        actual = TYPES.get(oid) or self.types.get(oid) or f"of the type with the OID {oid}"
        if not fits(actual, declared):
            raise DataError("DATA444.type", table=_path(relation), column=name, actual=actual, declared=declared)
        return place

    def _about(self, schema: str, table: str, millis: Integers, kinds: Any) -> list[pl.Series]:
        """The metadata of rows."""
        height = len(millis)
        same = {"table_name": table, "schema_name": schema}
        if "database_name" in self.metadata:
            same["database_name"] = resolved(self.database, "database-name")
        found = []
        for i, key in enumerate(self.metadata, len(self.fields)):
            if key == "op_ts":
                series = pl.Series(millis, dtype=pl.Int64()).cast(pl.Datetime("ms", "UTC"))
            elif key == "row_kind":
                series = pl.Series(_KINDS[kinds], dtype=pl.String())
            else:
                series = pl.Series([same[key]], dtype=pl.String()).new_from_index(0, height)
            found.append(series.alias(f"c{i}"))
        return found

    def _empty(self) -> pl.DataFrame:
        columns = [pl.Series(f"c{i}", [], declared.polars()) for i, (_, declared) in enumerate(self.fields)]
        none = np.empty(0, np.int64)
        return pl.DataFrame([*columns, *self._about("", "", none, none), pl.Series(KIND, [], pl.Int8())])

    # ---- the rows that were there ------------------------------------------------------------------------------

    def copied(self, table: pa.Table, schema: str, name: str) -> pl.DataFrame:
        """Rows of a table that were there when the job began, as insertions.

        Args:
            table: the columns of the table under their declared names, as text.
            schema: of the table.
            name: of the table.

        Raises:
            DataError: DATA443; DATA444, a column was declared after the rows were copied.
        """
        path = f"{schema}.{name}"
        columns = []
        for i, (column, declared) in enumerate(self.fields):
            if column not in table.column_names:
                raise DataError("DATA444", table=path, column=column, declared=declared)
            text = pl.from_arrow(table[column].combine_chunks())
            assert isinstance(text, pl.Series)
            columns.append(values(text, declared, column, path).alias(f"c{i}"))
        kinds = np.zeros(table.num_rows, np.int64)
        columns += self._about(schema, name, np.zeros(table.num_rows, np.int64), kinds)
        columns.append(pl.Series(KIND, kinds.astype(np.int8)))
        return pl.DataFrame(columns)


def find_column(names: list[str], name: str) -> int | None:
    """The position of a column: of that name, else of the name that SQL takes it for without quotes."""
    for wanted in (name, name.lower()):
        if wanted in names:
            return names.index(wanted)
    return None


def _find(relation: Relation, name: str) -> int | None:
    return find_column([column.name for column in relation.columns], name)


def _missing(relation: Relation, name: str, declared: Any) -> DataError:
    return DataError("DATA444", table=_path(relation), column=name, declared=declared or "the primary key")


def _path(relation: Relation) -> str:
    return f"{relation.schema}.{relation.name}"


def _sql(relation: Relation) -> str:
    return f"{quoted(relation.schema)}.{quoted(relation.name)}"
