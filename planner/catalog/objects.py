"""Tables and views as a catalog keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import TypeAlias

from sqlglot import exp

from stateplan.common.errors import Place
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType, RowField
from stateplan.execnodes.specs import Distribution
from stateplan.functions.rex import Rex

DEFAULT_CATALOG = "default_catalog"
DEFAULT_DATABASE = "default_database"
PHYSICAL, COMPUTED_COLUMN, METADATA = "PHYSICAL", "COMPUTED", "METADATA"


def quote(name: str) -> str:
    """``name`` in backquotes, as Flink writes identifiers."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, order=True)
class ObjectIdentifier:
    """The full name of a table or view."""

    catalog: str
    database: str
    name: str

    def __str__(self) -> str:
        return f"{quote(self.catalog)}.{quote(self.database)}.{quote(self.name)}"

    @property
    def summary(self) -> str:
        """The name as Flink's messages show it: without backquotes."""
        return f"{self.catalog}.{self.database}.{self.name}"

    @property
    def parts(self) -> tuple[str, str, str]:
        return (self.catalog, self.database, self.name)


@dataclass(frozen=True)
class Column:
    """A column of a resolved schema.

    Attributes:
        name: as declared; case matters.
        type: the type of the column in the table's full row (for COMPUTED the type of its expression).
        kind: ``PHYSICAL``, ``COMPUTED`` or ``METADATA``.
        expression: of a COMPUTED column, as parsed; positions point into the DDL's script.
        rex: of a COMPUTED column, over the table's physical and metadata columns, in their order.
        expression_sql: of a COMPUTED column, Flink's ``serializableString`` (every name backquoted).
        metadata_key: the metadata key of a METADATA column whose key is not its name (``FROM 'key'``).
        virtual: of a METADATA column: read only, omitted when writing.
        comment: COMMENT text.
    """

    name: str
    type: LogicalType
    kind: str = PHYSICAL
    expression: exp.Expression | None = field(default=None, compare=False, repr=False)
    rex: Rex | None = field(default=None, compare=False, repr=False)
    expression_sql: str | None = None
    metadata_key: str | None = None
    virtual: bool = False
    comment: str | None = None

    @property
    def is_physical(self) -> bool:
        return self.kind == PHYSICAL

    @property
    def is_computed(self) -> bool:
        return self.kind == COMPUTED_COLUMN

    @property
    def is_metadata(self) -> bool:
        return self.kind == METADATA

    @property
    def is_persisted(self) -> bool:
        """Whether INSERT writes it."""
        return self.kind == PHYSICAL or (self.kind == METADATA and not self.virtual)


@dataclass(frozen=True)
class WatermarkSpec:
    """``WATERMARK FOR column AS expression``; ``rex`` is over all columns of the table, in order."""

    column: str
    expression: exp.Expression | None = field(default=None, compare=False, repr=False)
    rex: Rex | None = field(default=None, compare=False, repr=False)
    expression_sql: str = ""


@dataclass(frozen=True)
class TableSchema:
    """Columns in declared order, with keys and watermarks.

    ``primary_key_name`` is the constraint's name; Flink invents ``PK_<columns joined by _>`` when none is
    given.
    """

    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    primary_key_name: str | None = None
    watermarks: tuple[WatermarkSpec, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @property
    def physical(self) -> tuple[Column, ...]:
        """The columns the connector reads from its format."""
        return tuple(c for c in self.columns if c.is_physical)

    @property
    def persisted(self) -> tuple[Column, ...]:
        """The columns INSERT writes: physical and non-virtual metadata ones."""
        return tuple(c for c in self.columns if c.is_persisted)

    @property
    def fields(self) -> list[tuple[str, LogicalType]]:
        """All columns as (name, type)."""
        return [(c.name, c.type) for c in self.columns]

    @property
    def row_type(self) -> LogicalType:
        """All columns as a ROW type."""
        return _row(self.columns)

    def column(self, name: str) -> Column | None:
        """The column of this exact name, or None."""
        return next((c for c in self.columns if c.name == name), None)

    def index(self, name: str) -> int:
        """Position of the column in :attr:`columns`.

        Raises:
            KeyError: it does not exist.
        """
        for i, column in enumerate(self.columns):
            if column.name == name:
                return i
        raise KeyError(name)

    # PyFlink's names

    def get_field_names(self) -> list[str]:
        return list(self.names)

    def get_field_data_types(self) -> list[LogicalType]:
        return [column.type for column in self.columns]

    def get_field_data_type(self, field: int | str) -> LogicalType | None:
        """The type of a column by its name or position, from 0; None if there is no such column."""
        if isinstance(field, str):
            column = self.column(field)
            return None if column is None else column.type
        return self.columns[field].type if 0 <= field < len(self.columns) else None

    def get_field_count(self) -> int:
        return len(self.columns)

    def __str__(self) -> str:
        """The columns as Flink's ``ResolvedSchema`` writes them, a line each."""
        return "(\n" + ",\n".join(f"  {quote(c.name)} {c.type.summary()}" for c in self.columns) + "\n)"


def _row(columns: Iterable[Column]) -> LogicalType:
    return LogicalType("ROW", nullable=False, fields=tuple(RowField(c.name, c.type) for c in columns))


@dataclass(frozen=True)
class CatalogTable:
    """A table as CREATE TABLE declared it. ``options`` keeps the order of the WITH clause; ``option_places`` says where
    an option is written, if that is known."""

    identifier: ObjectIdentifier
    schema: TableSchema
    options: Mapping[str, str] = field(repr=False)
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None
    temporary: bool = False
    distribution: Distribution | None = None
    option_places: Mapping[str, Place] = field(default_factory=dict, compare=False, repr=False)

    kind = "TABLE"

    def with_options(self, changes: Mapping[str, str], places: Mapping[str, Place] | None = None) -> CatalogTable:
        """The same table with ``changes``, written at ``places``, laid over its options (an OPTIONS hint, ALTER TABLE
        SET)."""
        kept_places = {key: place for key, place in self.option_places.items() if key not in changes}
        return replace(self, options={**self.options, **changes}, option_places={**kept_places, **(places or {})})


@dataclass(frozen=True)
class CatalogView:
    """A view: its query as parsed (positions point into the script that made it) and the schema of its rows.

    ``query_names`` are the names that the query gave its columns when the view was made, so that a ``*`` in it stays
    what it was (``CatalogView.getExpandedQuery``); nothing for a view of before they were kept.

    ``source`` is the whole text that the positions in ``query`` point into. ``catalog`` and ``database`` are
    what was current when the view was made: names inside ``query`` are resolved there.
    """

    identifier: ObjectIdentifier
    query: exp.Expr = field(compare=False, repr=False)
    sql: str = field(repr=False)
    schema: TableSchema
    temporary: bool = False
    comment: str | None = None
    source: str = field(default="", compare=False, repr=False)
    catalog: str = DEFAULT_CATALOG
    database: str = DEFAULT_DATABASE
    query_names: tuple[str, ...] = ()

    kind = "VIEW"


CatalogObject: TypeAlias = CatalogTable | CatalogView
