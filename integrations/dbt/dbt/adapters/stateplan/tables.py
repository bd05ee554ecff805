"""Definitions of tables in the catalog of a session: what a model declares, and what is there."""

from __future__ import annotations

import datetime as dt
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dbt.adapters.stateplan.column import literal, quote
from dbt.adapters.stateplan.connections import StateplanCredentials, options_sql, texts
from dbt_common.exceptions import CompilationError, DbtRuntimeError

Rows = Callable[[str], list[tuple[Any, ...]]]
"""Runs a statement and returns its rows."""

PATHS = {"delta": "table-path", "filesystem": "path"}
"""By connector, the option with the folder of a table, which the adapter sets."""
_EVOLVING = {"delta": {"schema_evolution.mode": "newcolumn"}}
"""By connector, options with which columns can be added to a table."""
_TIME_ATTRIBUTE = re.compile(r" \*(ROWTIME|PROCTIME)\*")
_MOST_ROWS = 1000
"""An INSERT of a seed has this number of rows at most."""


@dataclass(frozen=True)
class TableColumn:
    """A column of a table, a view or a query.

    Attributes:
        name: its name.
        type: its SQL type, without NOT NULL.
        nullable: whether it may be NULL.
        comment: the comment of its declaration.
        is_key: whether it is a column of the primary key.
    """

    name: str
    type: str
    nullable: bool = True
    comment: str | None = None
    is_key: bool = False


@dataclass(frozen=True)
class TableDefinition:
    """What a model says about its table.

    Attributes:
        columns: declarations of columns and constraints; none for the columns of the query.
        primary_key: the columns of the key, where ``columns`` does not declare it.
        options: options that the model sets.
    """

    columns: tuple[str, ...]
    primary_key: tuple[str, ...]
    options: Mapping[str, str]

    @classmethod
    def of(cls, config: Mapping[str, Any], columns: Sequence[str]) -> TableDefinition:
        """From the configuration of a model. A key is ``primary_key``, or ``unique_key``."""
        key = config.get("primary_key") or config.get("unique_key") or ()
        names = (key,) if isinstance(key, str) else tuple(key)
        return cls(tuple(columns), names, texts(config.get("options") or {}))

    def clauses(self, columns: Sequence[str] = ()) -> str:
        """What is in the parentheses of CREATE TABLE, with them; empty if there is nothing."""
        parts = [*(self.columns or columns)]
        if self.primary_key and not any("PRIMARY KEY" in part.upper() for part in parts):
            parts.append(f"PRIMARY KEY ({', '.join(map(quote, self.primary_key))}) NOT ENFORCED")
        return f" ({', '.join(parts)})" if parts else ""


class Tables:
    """Tables of a catalog, through a session.

    Args:
        rows: runs a statement.
        credentials: the output of the profile.
    """

    def __init__(self, rows: Rows, credentials: StateplanCredentials) -> None:
        self._rows = rows
        self._credentials = credentials

    # columns

    def columns(self, name: str) -> list[TableColumn]:
        """Of a table or a view."""
        rows = ((*row, *[None] * (7 - len(row))) for row in self._rows(f"DESCRIBE {name}"))
        return [
            TableColumn(column, _TIME_ATTRIBUTE.sub("", kind), bool(nullable), comment, bool(key))
            for column, kind, nullable, key, _, _, comment in rows
        ]

    def query_columns(self, sql: str) -> list[TableColumn]:
        """Of a query, in the mode of the session."""
        view = quote(f"__dbt_query_{secrets.token_hex(4)}")
        place = f"{quote(self._credentials.database)}.{quote(self._credentials.schema)}"
        self._rows(f"CREATE TEMPORARY VIEW {place}.{view} AS\n{sql}")
        try:
            return self.columns(f"{place}.{view}")
        finally:
            self._rows(f"DROP TEMPORARY VIEW {place}.{view}")

    def has_columns(self, name: str, columns: Sequence[tuple[str, str]]) -> bool:
        """Whether a table has these columns, each with its name and type."""
        view_columns = self.query_columns(
            f"SELECT {', '.join(f'CAST(NULL AS {kind}) AS {quote(column)}' for column, kind in columns)}"
        )
        return [(c.name, c.type) for c in self.columns(name)] == [(c.name, c.type) for c in view_columns]

    def trial_columns(self, declarations: Sequence[str], options: Mapping[str, str]) -> list[TableColumn]:
        """The columns of a table with these declarations."""
        place = f"{quote(self._credentials.database)}.{quote(self._credentials.schema)}"
        trial = f"{place}.{quote(f'__dbt_trial_{secrets.token_hex(4)}')}"
        self.create(trial, declarations, options, "TEMPORARY TABLE")
        try:
            return self.columns(trial)
        finally:
            self._rows(f"DROP TEMPORARY TABLE {trial}")

    # definitions

    def new_options(self, name: str, options: Mapping[str, str], mark: str | None = None) -> dict[str, str]:
        """The options of a new table: those of the profile and the model, and a folder of its own."""
        defaults = texts(self._credentials.table_options) or {"connector": "delta"}
        merged = (
            dict(options)
            if "connector" in options
            else {**_EVOLVING.get(defaults["connector"], {}), **defaults, **options}
        )
        key = PATHS.get(merged.get("connector", ""))
        if key is not None and key not in merged:
            merged[key] = self.folder("tables", name, mark)
        return merged

    def folder(self, kind: str, name: str, mark: str | None = None) -> str:
        """A folder for a new table or a new checkpoint."""
        schema = self._credentials.schema
        return f"{self._credentials.root}/{kind}/{schema}/{name}/{mark or secrets.token_hex(4)}"

    def create(self, name: str, declarations: Sequence[str], options: Mapping[str, str], kind: str = "TABLE") -> None:
        """Creates a table."""
        self._rows(f"CREATE {kind} {name} ({', '.join(declarations)}) WITH {options_sql(options)}")

    def definition(self, name: str) -> str:
        """The statement that creates a table, without its name and the name of its key."""
        text = str(self._rows(f"SHOW CREATE TABLE {name}")[0][0])
        return re.sub(r"CONSTRAINT `[^`]*` ", "", text[text.index("(") :])

    def options(self, name: str) -> dict[str, str]:
        """The options of a table."""
        text = str(self._rows(f"SHOW CREATE TABLE {name}")[0][0])
        body = text[text.rindex("\nWITH (") :]
        return {
            key.replace("''", "'"): value.replace("''", "'")
            for key, value in re.findall(r"'((?:[^']|'')*)' = '((?:[^']|'')*)'", body)
        }

    def declare(self, name: str, declarations: Sequence[str], options: Mapping[str, str]) -> None:
        """A table exists with this definition from now on. Its data stays."""
        self.create(name, declarations, options, "TEMPORARY TABLE")
        try:
            wanted = self.definition(name)
        finally:
            self._rows(f"DROP TEMPORARY TABLE {name}")
        if not self.exists(name):
            self.create(name, declarations, options)
        elif self.definition(name) != wanted:
            self._rows(f"DROP TABLE {name}")
            self.create(name, declarations, options)

    def exists(self, name: str) -> bool:
        """Whether there is a table or view of this name."""
        path, _, last = name.rpartition(".")
        identifier = last.strip("`").replace("``", "`")
        return identifier in {row[0] for row in self._rows(f"SHOW TABLES FROM {path}")}

    # rows

    def filling_statement(self, name: str, identifier: str, definition: TableDefinition, sql: str, exists: bool) -> str:
        """See :meth:`StateplanAdapter.table_statement`."""
        # The columns of a contract may have another order than those of the query.
        names = f" ({', '.join(quote(c.name) for c in self.query_columns(sql))})" if definition.columns else ""
        if exists and self._fits(name, identifier, definition, sql):
            return f"INSERT OVERWRITE {name}{names}\n{sql}"
        options = options_sql(self.new_options(identifier, definition.options))
        clauses = definition.clauses(self._query_declarations(definition, sql))
        if not (definition.columns or definition.primary_key):
            return f"CREATE OR REPLACE TABLE {name}{clauses} WITH {options} AS\n{sql}"
        # CREATE TABLE AS refuses a query that may have NULL where a column is NOT NULL. An INSERT checks the rows.
        successor = _successor(name)
        self._rows(f"DROP TABLE IF EXISTS {successor}")
        self._rows(f"CREATE TABLE {successor}{clauses} WITH {options}")
        return f"INSERT INTO {successor}{names}\n{sql}"

    def finish(self, name: str) -> None:
        """After the statement of :meth:`filling_statement`: a table that was filled beside another one replaces it."""
        if self.exists(_successor(name)):
            self._rows(f"DROP TABLE IF EXISTS {name}")
            self._rows(f"ALTER TABLE {_successor(name)} RENAME TO {name}")

    def _query_declarations(self, definition: TableDefinition, sql: str) -> list[str]:
        """The declarations of the columns of a query. Only those of the key are NOT NULL, because a later query of the
        model may have NULL."""
        key = set(definition.primary_key)
        return [f"{quote(c.name)} {c.type}{' NOT NULL' if c.name in key else ''}" for c in self.query_columns(sql)]

    def insert_statement(self, name: str, sql: str, on_schema_change: str) -> str:
        """See :meth:`StateplanAdapter.insert_statement`."""
        existing = [c.name for c in self.columns(name)]
        columns = self.query_columns(sql)
        added = [c for c in columns if c.name not in existing]
        removed = [column for column in existing if column not in {c.name for c in columns}]
        if added or removed:
            if on_schema_change not in ("ignore", "append_new_columns"):
                more, fewer = (", ".join(names) or "none" for names in ([c.name for c in added], removed))
                raise CompilationError(
                    f"{name} and its query are out of sync. Only the query has: {more}. Only the table has: {fewer}. "
                    f"on_schema_change is '{on_schema_change}': use 'ignore', 'append_new_columns' or --full-refresh"
                )
            if on_schema_change == "append_new_columns":
                for column in added:
                    self._rows(f"ALTER TABLE {name} ADD {quote(column.name)} {column.type}")
                existing += [c.name for c in added]
                # The query may read the table, which gets its columns when a job starts.
                nulls = ", ".join(f"CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in self.columns(name))
                self._rows(f"INSERT INTO {name} SELECT {nulls} WHERE FALSE")
        names = ", ".join(quote(c.name) for c in columns if c.name in existing)
        return f"INSERT INTO {name} ({names})\nSELECT {names} FROM (\n{sql}\n)"

    def _fits(self, name: str, identifier: str, definition: TableDefinition, sql: str) -> bool:
        """Whether the definition of a table is what its model would create, but for the folder."""
        declarations = definition.columns or tuple(self._query_declarations(definition, sql))
        return self.fits(name, identifier, definition, declarations)

    def fits(self, name: str, identifier: str, definition: TableDefinition, declarations: Sequence[str]) -> bool:
        """Whether a table is what these declarations would create, but for its folder."""
        path = name.rpartition(".")[0]
        trial = f"{path}.{quote(f'__dbt_trial_{secrets.token_hex(4)}')}"
        options = self.new_options(identifier, definition.options)
        key = PATHS.get(options.get("connector", ""))
        self._rows(f"CREATE TEMPORARY TABLE {trial}{definition.clauses(declarations)} WITH {options_sql(options)}")
        try:
            texts_of = [self._without(self.definition(table), key) for table in (trial, name)]
        finally:
            self._rows(f"DROP TEMPORARY TABLE {trial}")
        return texts_of[0] == texts_of[1]

    @staticmethod
    def _without(definition: str, key: str | None) -> list[str]:
        lines = [line.strip().rstrip(",") for line in definition.splitlines()]
        return sorted(line for line in lines if key is None or not line.startswith(f"'{key}'"))

    def fill(
        self,
        name: str,
        identifier: str,
        definition: TableDefinition,
        columns: Sequence[tuple[str, str]],
        rows: Sequence[Sequence[Any]],
        exists: bool,
    ) -> None:
        """Replaces the rows of a table by values. A table with other columns is replaced."""
        declarations = [f"{quote(column)} {kind}" for column, kind in columns]
        if not (exists and self.fits(name, identifier, definition, declarations)):
            self._rows(f"DROP TABLE IF EXISTS {name}")
            options = options_sql(self.new_options(identifier, definition.options))
            self._rows(f"CREATE TABLE {name}{definition.clauses(declarations)} WITH {options}")
        word = "OVERWRITE"
        for start in range(0, len(rows), _MOST_ROWS) or (0,):
            chunk = rows[start : start + _MOST_ROWS]
            self._rows(f"INSERT {word} {name} {_values(columns, chunk)}")
            word = "INTO"


def _successor(name: str) -> str:
    """The table that replaces another one when it has its rows."""
    return f"{name[:-1]}__dbt_new`"


def _values(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]]) -> str:
    """Rows as a query with the types of the columns."""
    names = [quote(name) for name, _ in columns]
    casts = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, (_, kind) in zip(names, columns, strict=True))
    if not rows:
        nulls = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, (_, kind) in zip(names, columns, strict=True))
        return f"SELECT {nulls} WHERE FALSE"
    lines = ",\n".join(f"({', '.join(map(_literal, row))})" for row in rows)
    return f"SELECT {casts} FROM (VALUES\n{lines}) AS seed ({', '.join(names)})"


def _literal(value: Any) -> str:
    """A value of a CSV file in SQL: as text, which CAST reads exactly."""
    if value is None:
        return "CAST(NULL AS STRING)"
    if isinstance(value, bool):
        return f"'{str(value).lower()}'"
    if isinstance(value, dt.datetime):
        return literal(value.isoformat(" "))
    if isinstance(value, (int, float, Decimal, dt.date)):
        return literal(str(value))
    if isinstance(value, str):
        return literal(value)
    raise DbtRuntimeError(f"a seed cannot contain the value {value!r}")
