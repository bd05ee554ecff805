"""The adapter: what dbt calls, and what its macros call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dbt.adapters.base.impl import AdapterConfig, ConstraintSupport
from dbt.adapters.base.meta import available
from dbt.adapters.capability import Capability, CapabilityDict, CapabilitySupport, Support
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.sql import SQLAdapter
from dbt.adapters.stateplan.column import StateplanColumn, quote
from dbt.adapters.stateplan.connections import StateplanConnectionManager, StateplanCredentials, options_sql, texts
from dbt.adapters.stateplan.relation import StateplanRelation
from dbt.adapters.stateplan.streaming import StreamingModel, StreamingTables
from dbt.adapters.stateplan.tables import TableDefinition, Tables
from dbt_common.contracts.constraints import ColumnLevelConstraint, ConstraintType, ModelLevelConstraint
from dbt_common.exceptions import DbtRuntimeError

if TYPE_CHECKING:
    import agate
    from dbt.adapters.base.relation import BaseRelation
    from dbt.adapters.contracts.relation import RelationConfig


@dataclass
class StateplanConfig(AdapterConfig):
    """What a model can set beside dbt's own configuration. ``docs/operate/dbt.md`` explains each."""

    options: dict[str, Any] | None = None
    primary_key: str | list[str] | None = None
    ttl: dict[str, str] | None = None
    settings: dict[str, Any] | None = None
    on_change: str | None = None
    accept: str | None = None
    plan: str | None = None
    plan_picture: str | None = None


class StateplanAdapter(SQLAdapter):
    """dbt on stateplan."""

    ConnectionManager = StateplanConnectionManager
    connections: StateplanConnectionManager
    Relation = StateplanRelation
    Column = StateplanColumn
    AdapterSpecificConfigs = StateplanConfig
    CONSTRAINT_SUPPORT: ClassVar[dict[ConstraintType, ConstraintSupport]] = {  # type: ignore[misc]
        ConstraintType.check: ConstraintSupport.NOT_SUPPORTED,
        ConstraintType.not_null: ConstraintSupport.ENFORCED,
        ConstraintType.unique: ConstraintSupport.NOT_SUPPORTED,
        ConstraintType.primary_key: ConstraintSupport.NOT_ENFORCED,
        ConstraintType.foreign_key: ConstraintSupport.NOT_SUPPORTED,
    }
    _capabilities = CapabilityDict({Capability.SchemaMetadataByRelations: CapabilitySupport(support=Support.Full)})

    # names and types

    @classmethod
    def date_function(cls) -> str:
        return "CURRENT_TIMESTAMP"

    @classmethod
    def is_cancelable(cls) -> bool:
        return True

    @classmethod
    def quote(cls, identifier: str) -> str:
        return quote(identifier)

    @classmethod
    def convert_text_type(cls, agate_table: agate.Table, col_idx: int) -> str:
        return "STRING"

    @classmethod
    def convert_number_type(cls, agate_table: agate.Table, col_idx: int) -> str:
        import agate

        decimals = agate_table.aggregate(agate.MaxPrecision(col_idx))
        return "DOUBLE" if decimals else "BIGINT"

    @classmethod
    def convert_integer_type(cls, agate_table: agate.Table, col_idx: int) -> str:
        return "BIGINT"

    @classmethod
    def convert_boolean_type(cls, agate_table: agate.Table, col_idx: int) -> str:
        return "BOOLEAN"

    @classmethod
    def convert_datetime_type(cls, agate_table: agate.Table, col_idx: int) -> str:
        return "TIMESTAMP(6)"

    @classmethod
    def convert_date_type(cls, agate_table: agate.Table, col_idx: int) -> str:
        return "DATE"

    @classmethod
    def convert_time_type(cls, agate_table: agate.Table, col_idx: int) -> str:
        return "STRING"

    # statements

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement; none for one without rows. Raises DbtDatabaseError."""
        _, cursor = self.connections.add_query(statement, auto_begin=False, abridge_sql_log=True)
        with self.connections.exception_handler(statement), cursor:
            return [] if cursor.description is None else cursor.fetchall()

    @property
    def credentials(self) -> StateplanCredentials:
        """The output of the profile."""
        credentials = self.config.credentials
        assert isinstance(credentials, StateplanCredentials)
        return credentials

    @property
    def tables(self) -> Tables:
        """Definitions of tables, in the session of this thread."""
        return Tables(self.rows, self.credentials)

    @property
    def streaming_tables(self) -> StreamingTables:
        """Jobs of streaming tables, in the session of this thread."""
        return StreamingTables(self.rows, self.credentials, self.tables)

    # schemas and relations

    def list_schemas(self, database: str) -> list[str]:
        name = database if database.startswith("`") else quote(database)  # dbt quotes it, and macros do not
        return [row[0] for row in self.rows(f"SHOW DATABASES FROM {name}")]

    def check_schema_exists(self, database: str, schema: str) -> bool:
        return schema in self.list_schemas(database)

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        database, schema = str(schema_relation.database), str(schema_relation.schema)
        if not self.check_schema_exists(database, schema):
            return []
        path = f"{quote(database)}.{quote(schema)}"
        views = {row[0] for row in self.rows(f"SHOW VIEWS FROM {path}")}
        names = [row[0] for row in self.rows(f"SHOW TABLES FROM {path}")]
        return [
            self.Relation.create(
                database=database,
                schema=schema,
                identifier=name,
                type=RelationType.View if name in views else RelationType.Table,
            )
            for name in names
        ]

    def get_columns_in_relation(self, relation: BaseRelation) -> list[StateplanColumn]:
        if not self.tables.exists(relation.render()):
            return []
        return [StateplanColumn(c.name, c.type) for c in self.tables.columns(relation.render())]

    @available.parse_none
    def drop_relation(self, relation: BaseRelation) -> None:
        if relation.type == RelationType.Table:
            self.streaming_tables.stop(job_name(relation))
        super().drop_relation(relation)

    def drop_schema(self, relation: BaseRelation) -> None:
        if relation.database is None:
            relation = relation.incorporate(path={"database": self.credentials.database})
        for existing in self.list_relations_without_caching(relation):
            if existing.type == RelationType.Table:
                self.streaming_tables.stop(job_name(existing))
        super().drop_schema(relation)

    @classmethod
    def render_column_constraint(cls, constraint: ColumnLevelConstraint) -> str | None:
        rendered = super().render_column_constraint(constraint)
        return f"{rendered} NOT ENFORCED" if rendered and constraint.type == ConstraintType.primary_key else rendered

    @classmethod
    def render_model_constraint(cls, constraint: ModelLevelConstraint) -> str | None:
        rendered = super().render_model_constraint(constraint)
        return f"{rendered} NOT ENFORCED" if rendered and constraint.type == ConstraintType.primary_key else rendered

    def expand_column_types(self, goal: BaseRelation, current: BaseRelation) -> None:
        """The types of columns are never changed in place."""

    def valid_incremental_strategies(self) -> list[str]:
        return ["append", "merge"]

    # tables

    @available.parse(lambda *args, **kwargs: [])
    def query_columns(self, sql: str) -> list[StateplanColumn]:
        """The columns of a query."""
        return [StateplanColumn(c.name, c.type) for c in self.tables.query_columns(sql)]

    @available.parse(lambda *args, **kwargs: "")
    def table_statement(
        self, relation: BaseRelation, sql: str, config: Mapping[str, Any], columns: Sequence[str], exists: bool
    ) -> str:
        """The statement that fills a table: it overwrites one whose definition fits, and otherwise replaces it.

        Args:
            relation: the table.
            sql: its query.
            config: the configuration of the model.
            columns: the declared columns and constraints; none for those of the query.
            exists: whether there is a table of the name.
        """
        definition = TableDefinition.of(config, columns)
        return self.tables.filling_statement(relation.render(), str(relation.identifier), definition, sql, exists)

    @available.parse_none
    def finish_table(self, relation: BaseRelation) -> None:
        """After the statement of :meth:`table_statement`."""
        self.tables.finish(relation.render())

    @available.parse(lambda *args, **kwargs: "")
    def insert_statement(self, relation: BaseRelation, sql: str, on_schema_change: str) -> str:
        """An INSERT of the columns of a query by name. Other columns than the table has are ignored, added or an error.

        Raises:
            DbtRuntimeError: the columns differ, and ``on_schema_change`` is ``fail``, or what cannot be done.
        """
        return self.tables.insert_statement(relation.render(), sql, on_schema_change)

    @available.parse(lambda *args, **kwargs: "")
    def load_seed(
        self, relation: BaseRelation, agate_table: agate.Table, config: Mapping[str, Any], exists: bool, replace: bool
    ) -> str:
        """Writes a seed into its table, and says what it did. A table with the same rows stays as it is."""
        types = config.get("column_types") or {}
        columns = [
            (name, str(types.get(name) or self.convert_type(agate_table, index)))
            for index, name in enumerate(agate_table.column_names)
        ]
        definition = TableDefinition.of(config, [f"{quote(name)} {kind}" for name, kind in columns])
        rows = [[_seed_value(value) for value in row] for row in agate_table.rows]
        target = relation.render()
        if exists and not replace and self.tables.has_columns(target, columns):
            present = self.rows(f"SELECT * FROM {target}")
            if Counter(map(_comparable, present)) == Counter(map(_comparable, rows)):
                return "unchanged"
        self.tables.fill(target, str(relation.identifier), definition, columns, rows, exists)
        return "loaded"

    # sources

    def set_relations_cache(
        self,
        relation_configs: Iterable[RelationConfig],
        clear: bool = False,
        required_schemas: set[BaseRelation] | None = None,
    ) -> None:
        super().set_relations_cache(relation_configs, clear, required_schemas)
        manifest: Any = self.get_macro_resolver()  # it has the sources, too
        for source in manifest.sources.values() if manifest is not None else ():
            facts = source.to_dict(omit_none=True)
            if _external(facts, "options"):
                self._declare_source(facts)

    def _declare_source(self, source: Mapping[str, Any]) -> None:
        """Creates the table of a source that has ``external.options``, or replaces it if it is declared otherwise."""
        relation = self.Relation.create(
            database=source["database"], schema=source["schema"], identifier=source["identifier"]
        )
        name, columns, options = relation.render(), _source_columns(source), _external(source, "options")
        stream = _external(source, "stream") if self.credentials.is_remote else {}
        self.rows(f"CREATE DATABASE IF NOT EXISTS {relation.without_identifier().render()}")
        with self.connections.without_bounds():
            self.tables.declare(name, columns, {**options, **stream})
        if stream:
            self.connections.bound(name, f"({', '.join(columns)}) WITH {options_sql(options)}")

    # streaming tables

    @available.parse(lambda *args, **kwargs: {"message": "", "code": ""})
    def run_streaming_table(
        self,
        relation: BaseRelation,
        sql: str,
        config: Mapping[str, Any],
        columns: Sequence[str],
        exists: bool,
        full_refresh: bool,
    ) -> dict[str, str]:
        """Starts, changes or keeps the job of a streaming table. Returns a message for dbt's log, and a code."""
        model = StreamingModel.of(
            job_name(relation), relation.render(), str(relation.identifier), sql, config, columns, exists, full_refresh
        )
        with self.connections.without_bounds():
            outcome = self.streaming_tables.apply(model, Path(self.config.project_root))
        return {"message": outcome.message, "code": outcome.code}

    @available.parse(lambda *args, **kwargs: "")
    def state_relation(self, relation: BaseRelation, state: str) -> str:
        """The name of a table with the state of a streaming table, for queries: ``join.left``."""
        catalog = self.streaming_tables.state_catalog(job_name(relation), relation.render())
        return f"{catalog}.{quote('job')}.{quote(state)}"

    def _get_one_catalog_by_relations(
        self, information_schema: Any, relations: list[BaseRelation], used_schemas: frozenset[tuple[str, str]]
    ) -> agate.Table:
        return self._catalog_of(relations, used_schemas)

    def _get_one_catalog(
        self, information_schema: Any, schemas: set[str], used_schemas: frozenset[tuple[str, str]]
    ) -> agate.Table:
        database = str(information_schema.database)
        relations = [
            relation
            for schema in schemas
            for relation in self.list_relations_without_caching(self.Relation.create(database=database, schema=schema))
        ]
        return self._catalog_of(relations, used_schemas)

    def _catalog_of(self, relations: Iterable[BaseRelation], used_schemas: frozenset[tuple[str, str]]) -> agate.Table:
        """The columns of relations for the docs of a project, and the jobs of streaming tables."""
        import agate

        rows: list[dict[str, Any]] = []
        for relation in relations:
            existing = self.get_relation(str(relation.database), str(relation.schema), str(relation.identifier))
            if existing is None:
                continue
            facts = self.streaming_tables.facts(job_name(existing)) if existing.type == RelationType.Table else {}
            for index, column in enumerate(self.tables.columns(existing.render())):
                rows.append(
                    {
                        "table_database": existing.database,
                        "table_schema": existing.schema,
                        "table_name": existing.identifier,
                        "table_type": str(existing.type),
                        "table_comment": None,
                        "column_name": column.name,
                        "column_index": index,
                        "column_type": column.type,
                        "column_comment": column.comment,
                        "table_owner": None,
                        **facts,
                    }
                )
        keys = list(dict.fromkeys(key for row in rows for key in row)) or list(_CATALOG_KEYS)
        types = [
            agate.Number()
            if key == "column_index"
            else agate.Boolean()
            if key.endswith(":include")
            else agate.Text(cast_nulls=False)
            for key in keys
        ]
        table = agate.Table([[row.get(key) for key in keys] for row in rows], keys, types)
        return self._catalog_filter_table(table, used_schemas)


_CATALOG_KEYS = (
    "table_database",
    "table_schema",
    "table_name",
    "table_type",
    "table_comment",
    "column_name",
    "column_index",
    "column_type",
    "column_comment",
    "table_owner",
)


def job_name(relation: BaseRelation) -> str:
    """The name of the job of a streaming table, by which runs find it."""
    return f"dbt.{relation.database}.{relation.schema}.{relation.identifier}"


def _external(source: Mapping[str, Any], part: str) -> dict[str, str]:
    """Options of a source: ``options`` of its table, or ``stream`` for streaming tables."""
    external = source.get("external") or {}
    return texts(external.get(part) or {})


def _source_columns(source: Mapping[str, Any]) -> list[str]:
    """The declaration of the columns of a source. Raises DbtRuntimeError, a column has no type."""
    columns = [*source["columns"].values()]
    for column in columns:
        if not column.get("data_type"):
            raise DbtRuntimeError(
                f"the column '{column['name']}' of the source '{source['name']}' has no data_type: a source with "
                "external.options needs the type of each column"
            )
    declarations = [f"{quote(column['name'])} {column['data_type']}" for column in columns]
    external = source.get("external") or {}
    if external.get("watermark"):
        declarations.append(f"WATERMARK FOR {external['watermark']}")
    if key := external.get("primary_key"):
        names = ", ".join(map(quote, [key] if isinstance(key, str) else key))
        declarations.append(f"PRIMARY KEY ({names}) NOT ENFORCED")
    return declarations


def _seed_value(value: Any) -> Any:
    """A value of a CSV file for a parameter."""
    return str(value) if isinstance(value, (list, dict)) else value


def _comparable(row: Sequence[Any]) -> tuple[Any, ...]:
    """A row to compare with others: numbers by their value."""
    return tuple(
        float(value)
        if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
        else str(value)
        if value is not None
        else None
        for value in row
    )
