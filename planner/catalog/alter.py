"""ALTER TABLE ... ADD, MODIFY, DROP and RENAME: a table with other columns, watermarks and keys.

Source: Flink's ``AlterSchemaConverter``.

Codes: CAT013.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import ClassVar

from sqlglot import exp

from stateplan.common.errors import CatalogError, nearest
from stateplan.planner.catalog.ddl import LIKE_DEFAULTS, TableBuilder
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import CatalogTable, Column
from stateplan.planner.dialect import nodes


def alter_table(
    table: CatalogTable, node: nodes.AlterTable, catalog: CatalogManager, source: str, file: str | None = None
) -> CatalogTable:
    """The table that an ADD, MODIFY, DROP or RENAME leaves; the catalog still has the old one.

    Raises:
        CatalogError: CAT013, what is changed is not there, or is there already, or something depends on it; CAT030 a
            column of that name; CAT034 a key, CAT035 a watermark that cannot be.
        SqlError: whatever binding the expressions finds.
    """
    return _Alteration(table, node, catalog, source, file).altered()


class _Alteration(TableBuilder):
    makes_keys: ClassVar[bool] = True

    def __init__(
        self, table: CatalogTable, node: nodes.AlterTable, catalog: CatalogManager, source: str, file: str | None
    ) -> None:
        super().__init__(node, catalog, source, file, None)
        self.table = table
        self.take_over(table, LIKE_DEFAULTS)
        self.watermark: nodes.Watermark | None = None

    def altered(self) -> CatalogTable:
        action: str = self.node.args["action"]
        changes: dict[str, Callable[[], None]] = {"RENAME": self._rename, "DROP": self._drop}
        changes.get(action, lambda: self._put(modifies=action == "MODIFY"))()
        self.bind_columns()
        self.bind_key()
        spec = self.draft.watermark
        if spec is not None and spec.column in self.own:
            self.check_time("the watermark's column", self.draft.columns[spec.column].type, self.own[spec.column])
        self.bind_watermark(spec, self.watermark)
        return replace(self.table, schema=self.schema())

    # ADD, MODIFY

    def _put(self, modifies: bool) -> None:
        for element in self.node.args["elements"]:
            if isinstance(element, nodes.PlacedColumn):
                self._put_column(element, modifies)
        for element in self.node.args["elements"]:
            if isinstance(element, nodes.Watermark):
                self._check_there("watermark", self.draft.watermark is not None, modifies, element)
                self.draft.watermark = self.own_watermark(element, None, LIKE_DEFAULTS)
                self.watermark = element
            elif isinstance(element, nodes.PrimaryKey):
                self._put_key(element, element.expressions, modifies)

    def _put_column(self, placed_column: nodes.PlacedColumn, modifies: bool) -> None:
        column = placed_column.this
        name: str = column.this.name
        if modifies:
            self._require(column.this)
        elif name in self.draft.columns:
            raise self.error("CAT030", column.this, name=name, where="in the table")
        self.own[name] = column
        order = list(self.draft.columns)
        columns: dict[str, Column] = {**self.draft.columns, name: self.column(column)}
        after = placed_column.args.get("after")
        if placed_column.args.get("first") or after is not None:
            order = [other for other in order if other != name]
            if after is not None and after.name not in order:
                raise self._missing_column(after, order)
            order.insert(0 if after is None else order.index(after.name) + 1, name)
        self.draft.columns = {other: columns[other] for other in dict.fromkeys([*order, name])}
        key = column.args.get("primary_key")
        if key is not None:
            self._put_key(key, [column.this], modifies)

    def _put_key(self, key: nodes.PrimaryKey, names: list[exp.Identifier], modifies: bool) -> None:
        self._check_there("primary key", bool(self.draft.primary_key), modifies, key)
        self.set_key(key, names)

    def _check_there(self, part: str, exists: bool, must_exist: bool, node: exp.Expr) -> None:
        if must_exist and not exists:
            raise self.error("CAT013.missing_part", node, what=part)
        if exists and not must_exist:
            raise self.error("CAT013.existing_part", node, what=part)

    # DROP, RENAME

    def _drop(self) -> None:
        part, draft = self.node.args.get("part"), self.draft
        if part == "WATERMARK":
            self._check_there("watermark", draft.watermark is not None, True, self.node.this)
            draft.watermark = None
        elif part is not None:
            self._check_there("primary key", bool(draft.primary_key), True, self.node.this)
            name = self.node.args.get("target")
            if name is not None and name.name != draft.primary_key_name:
                constraint, key_name = f"constraint '{name.name}'", draft.primary_key_name
                raise self.error("CAT013.missing_part", name, what=constraint, expected=key_name)
            draft.primary_key, draft.primary_key_name = (), None
        else:
            names: list[exp.Identifier] = self.node.args["names"]
            for column in names:
                self._require(column)
            dropped_names = {column.name for column in names}
            for column in names:
                self._check_free(column, dropped_names)
            draft.columns = {name: c for name, c in draft.columns.items() if name not in dropped_names}

    def _rename(self) -> None:
        old, new = self.node.args["column"], self.node.args["target"]
        self._require(old)
        if new.name in self.draft.columns:
            raise self.error("CAT030", new, name=new.name, where="in the table")
        self._check_free(old, set(), keys=False)
        names = {old.name: new.name}
        self.draft.columns = {
            names.get(name, name): replace(column, name=names.get(name, name))
            for name, column in self.draft.columns.items()
        }
        self.draft.primary_key = tuple(names.get(name, name) for name in self.draft.primary_key)

    def _require(self, column: exp.Identifier) -> None:
        if column.name not in self.draft.columns:
            raise self._missing_column(column, self.draft.columns)

    def _missing_column(self, column: exp.Identifier, names: Iterable[str]) -> CatalogError:
        known_names = list(names)
        return self.error("CAT013", column, name=column.name, names=known_names, hint=nearest(column.name, known_names))

    def _check_free(self, column: exp.Identifier, dropped_names: set[str], keys: bool = True) -> None:
        """Whether nothing refers to a column, but columns that go with it."""
        name = column.name
        for other in self.draft.columns.values():
            if other.is_computed and other.name not in dropped_names and name in _names(other.expression):
                raise self.error("CAT013.column_in_use", column, name=name, where=f"the computed column '{other.name}'")
        spec = self.draft.watermark
        if spec is not None and (name == spec.column or name in _names(spec.expression)):
            raise self.error("CAT013.column_in_use", column, name=name, where="the watermark")
        if keys and name in self.draft.primary_key:
            raise self.error("CAT013.column_in_use", column, name=name, where="the primary key")
        if name in self.table.partition_keys:
            raise self.error("CAT013.column_in_use", column, name=name, where="PARTITIONED BY")


def _names(expression: exp.Expr | None) -> set[str]:
    """The columns that an expression may refer to: ``a.b`` may be a field of ``a``."""
    columns = expression.find_all(exp.Column) if expression is not None else ()
    return {part.name for column in columns for part in column.parts}
