"""CREATE TABLE and CREATE VIEW: from a syntax tree to an object of the catalog.

Follows Flink's ``MergeTableLikeUtil`` and ``DefaultSchemaResolver``: columns are merged with those of the LIKE table,
computed columns see the physical and metadata columns, the watermark sees all columns, the columns of a primary key
become NOT NULL.

Codes: CAT030 to CAT049.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import ClassVar

from sqlglot import exp

from stateplan.common.errors import CatalogError, Place, SqlError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.connectors.registry import known_connector
from stateplan.connectors.time_travel import TimeTravel
from stateplan.execnodes.specs import Distribution
from stateplan.functions.rex import Rex
from stateplan.planner.catalog.functions import Functions
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import (
    COMPUTED_COLUMN,
    METADATA,
    PHYSICAL,
    CatalogTable,
    CatalogView,
    Column,
    ObjectIdentifier,
    TableSchema,
    WatermarkSpec,
)
from stateplan.planner.catalog.serializable import serializable_sql
from stateplan.planner.dialect import logical_type, nodes
from stateplan.planner.positions import place_of, text_of

Fields = Sequence[tuple[str, LogicalType]]

_EXCLUDING, _INCLUDING, _OVERWRITING = "EXCLUDING", "INCLUDING", "OVERWRITING"

_FEATURES: dict[type[exp.Expr], str] = {nodes.ComputedColumn: "GENERATED", nodes.MetadataColumn: "METADATA"}

#: What LIKE takes over when nothing is said.
LIKE_DEFAULTS = {
    "CONSTRAINTS": _INCLUDING,
    "DISTRIBUTION": _INCLUDING,
    "GENERATED": _INCLUDING,
    "METADATA": _INCLUDING,
    "OPTIONS": _OVERWRITING,
    "PARTITIONS": _INCLUDING,
    "WATERMARKS": _INCLUDING,
}


def parts_of(table: exp.Table) -> list[str]:
    """The parts of a name, from the catalog down."""
    return [part.name for part in table.parts]


def options_of(option_nodes: Iterable[nodes.Option] | None) -> dict[str, str]:
    """The options of a WITH clause, in order. As in Flink, the last value of a key counts."""
    return {option.this.name: option.expression.name for option in option_nodes or ()}


def doubled_options(statement: exp.Expr) -> list[str]:
    """A note for each option that a WITH clause of a statement has twice."""
    notes = []
    for node in statement.walk():
        option_nodes = node.args.get("options") or ()
        keys = [option.this.name for option in option_nodes if isinstance(option, nodes.Option)]
        twice = {key: None for i, key in enumerate(keys) if key in keys[:i]}
        notes += [f"the option '{key}' is given twice; the last value counts" for key in twice]
    return notes


def places_of(option_nodes: Iterable[nodes.Option] | None, source: str, file: str | None = None) -> dict[str, Place]:
    """Where each option of a WITH clause is written."""
    return {option.this.name: place_of(option, source, file) for option in option_nodes or ()}


@dataclass
class _Draft:
    """A table's parts while they are merged; ``order`` of columns is that of the dict."""

    columns: dict[str, Column] = field(default_factory=dict)
    watermark: WatermarkSpec | None = None
    primary_key: tuple[str, ...] = ()
    primary_key_name: str | None = None


class TableBuilder:
    """One CREATE TABLE, or the part that ALTER TABLE shares with it.

    Attributes:
        makes_keys: whether columns that can be NULL may become the key.
    """

    makes_keys: ClassVar[bool] = False

    def __init__(
        self, node: nodes.Statement, catalog: CatalogManager, source: str, file: str | None, query: Fields | None
    ) -> None:
        self.node = node
        self.query = query
        self.catalog = catalog
        self.source = source
        self.file = file
        self.draft = _Draft()
        self.own: dict[str, exp.Expr] = {}

    def place(self, node: exp.Expr) -> Place:
        return place_of(node, self.source, self.file)

    def error(
        self, code: str, node: exp.Expr, *, expected: str | None = None, hint: str | None = None, **values: object
    ) -> CatalogError:
        return CatalogError(code, place=self.place(node), expected=expected, hint=hint, **values)

    def build(self) -> CatalogTable:
        node = self.node
        identifier = self.catalog.qualify(parts_of(node.this), self.place(node.this))
        like = node.args.get("like")
        base, strategies = (None, LIKE_DEFAULTS) if like is None else (self._base(like), _merging(like))
        if base is not None:
            self.take_over(base, strategies)
        for column in node.args.get("columns") or ():
            self._add(column, base, strategies)
        if self.query is not None:
            self._query_columns(self.query)
        self.bind_columns()
        self._keys(base, strategies)
        self._watermark(base, strategies)
        options = self._options(base, strategies)
        partitions = self._partitions(base, strategies)
        schema = self.schema()
        self._check_nulls()
        comment = node.args.get("comment")
        return CatalogTable(
            identifier,
            schema,
            options,
            partitions,
            comment.name if comment is not None else None,
            bool(node.args.get("temporary")),
            self._distribution(base, strategies),
            {
                **(base.option_places if base else {}),
                **places_of(node.args.get("options"), self.source, self.file),
            },
        )

    def _distribution(self, base: CatalogTable | None, strategies: Mapping[str, str]) -> Distribution | None:
        node = self.node.args.get("distribution")
        if node is None:
            return base.distribution if base is not None and strategies["DISTRIBUTION"] == _INCLUDING else None
        for key in node.args.get("expressions") or ():
            column = self.draft.columns.get(key.name)
            if column is None or not column.is_physical:
                column_names = [c.name for c in self.draft.columns.values() if c.is_physical]
                raise self.error(
                    "CAT037", key, name=key.name, known=", ".join(column_names), hint=nearest(key.name, column_names)
                )
        return Distribution(
            kind=node.args.get("kind") or "UNKNOWN",
            bucket_count=node.args.get("buckets"),
            bucket_keys=tuple(key.name for key in node.args.get("expressions") or ()),
        )

    # AS

    def _query_columns(self, query: Fields) -> None:
        """The columns of the query, behind those that are declared beside them, or in the order of a list of names.
        A declared column of the same name gives its type.

        Source: Flink's ``MergeTableAsUtil``.
        """
        own_columns, types = self.draft.columns, dict(query)
        listed_names = self.node.args.get("names") or []
        for i, name in enumerate(listed_names):
            if name.name not in types:
                raise self.error("CAT038", name, name=name.name, hint=nearest(name.name, types), query=list(types))
            if any(name.name == other.name for other in listed_names[:i]):
                raise self.error("CAT030", name, name=name.name, where="in the list")
        if listed_names and len(listed_names) != len(query):
            raise self.error(
                "CAT038.list_length", listed_names[-1], names=listed_names, fields=query, query=list(types)
            )
        for name, column in own_columns.items():
            if name in types and (column.is_computed or (column.is_metadata and column.virtual)):
                raise self.error("CAT030", self.own[name].this, name=name, where="in the query")
        own = {name: column for name, column in own_columns.items() if name not in types}
        order = [name.name for name in listed_names] if listed_names else list(types)
        self.draft.columns = own | {name: own_columns.get(name) or Column(name, types[name]) for name in order}

    def _check_nulls(self) -> None:
        """A declared NOT NULL must be one of the query too."""
        for name, kind in self.query or ():
            if name in self.own and kind.nullable and not self.draft.columns[name].type.nullable:
                raise self.error("CAT038.null_in_query", self.own[name], name=name)

    # LIKE

    def _base(self, like: nodes.LikeTable) -> CatalogTable:
        table = self.catalog.resolve(parts_of(like.this), self.place(like.this))
        if isinstance(table, CatalogView):
            raise self.error("CAT031", like.this, summary=table.identifier.summary)
        return table

    def take_over(self, base: CatalogTable, strategies: Mapping[str, str]) -> None:
        features = {COMPUTED_COLUMN: "GENERATED", METADATA: "METADATA"}
        for column in base.schema.columns:
            if column.kind == PHYSICAL or strategies[features[column.kind]] != _EXCLUDING:
                # The base table's own time attribute and key mark their columns; they are marked again below.
                self.draft.columns[column.name] = replace(
                    column, type=replace(column.type, kind="PROCTIME" if column.type.kind == "PROCTIME" else None)
                )
        if strategies["WATERMARKS"] != _EXCLUDING and base.schema.watermarks:
            self.draft.watermark = base.schema.watermarks[0]
        if strategies["CONSTRAINTS"] == _INCLUDING:
            self.draft.primary_key = base.schema.primary_key
            self.draft.primary_key_name = base.schema.primary_key_name

    def _options(self, base: CatalogTable | None, strategies: Mapping[str, str]) -> dict[str, str]:
        option_nodes = self.node.args.get("options")
        own = options_of(option_nodes)
        if base is None or strategies["OPTIONS"] == _EXCLUDING:
            return own
        base_options = self._options_of_base(base)
        if strategies["OPTIONS"] != _OVERWRITING:
            for option in option_nodes or ():
                key = option.this.name
                if key in base_options:
                    duplicate_part = f"an option '{key}' = '{base_options[key]}'"
                    raise self.error("CAT032", option, what=duplicate_part, feature="OPTIONS")
        return {**base_options, **own}

    def _options_of_base(self, base: CatalogTable) -> dict[str, str]:
        """The options of the base table. A catalog that holds both tables adds its own options again."""
        name = self.catalog.qualify(parts_of(self.node.this), self.place(self.node.this)).catalog
        if base.temporary or self.node.args.get("temporary") or base.identifier.catalog != name:
            connector = known_connector(base.options)
            return dict(connector.without_version(base.options) if isinstance(connector, TimeTravel) else base.options)
        return self.catalog.require_catalog(name).inherited_options(base.options)

    def _partitions(self, base: CatalogTable | None, strategies: Mapping[str, str]) -> tuple[str, ...]:
        names = self.node.args.get("partitioned_by") or []
        base_keys = base.partition_keys if base else ()
        if names and base_keys and strategies["PARTITIONS"] == _INCLUDING:
            raise self.error("CAT032", names[0], what="partition keys", feature="PARTITIONS")
        for name in names:
            column = self.draft.columns.get(name.name)
            if column is None or not column.is_physical:
                physical = [c.name for c in self.draft.columns.values() if c.is_physical]
                problem = "not a column of the table" if column is None else f"a {column.kind.lower()} column"
                raise self.error(
                    "CAT033", name, name=name.name, what=problem, physical=physical, hint=nearest(name.name, physical)
                )
        return tuple(name.name for name in names) or base_keys

    def schema(self) -> TableSchema:
        """The schema as it has been drafted."""
        draft = self.draft
        watermarks = (draft.watermark,) if draft.watermark else ()
        return TableSchema(tuple(draft.columns.values()), draft.primary_key, draft.primary_key_name, watermarks)

    # columns

    def _add(self, node: exp.Expr, base: CatalogTable | None, strategies: Mapping[str, str]) -> None:
        name = node.this.name
        earlier_column = self.draft.columns.get(name)
        is_inherited = earlier_column is not None and name not in self.own
        if earlier_column is not None:
            feature = _FEATURES.get(type(node))
            kind = {"GENERATED": COMPUTED_COLUMN, "METADATA": METADATA}.get(feature or "")
            if not is_inherited or feature is None or earlier_column.kind != kind:
                location = f"in the base table '{base.identifier.summary}'" if is_inherited and base else "in the table"
                raise self.error("CAT030", node.this, name=name, where=location)
            if strategies[feature] != _OVERWRITING:
                duplicate_part = f"a {kind.lower() if kind else ''} column '{name}'"
                raise self.error("CAT032", node.this, what=duplicate_part, feature=feature)
        self.own[name] = node
        self.draft.columns[name] = self.column(node)

    def column(self, node: exp.Expr) -> Column:
        """The column that a node declares; the expression of a computed one is not bound yet."""
        name, comment = node.this.name, node.args.get("comment")
        text = comment.name if comment is not None else None
        if isinstance(node, nodes.ComputedColumn):
            return Column(name, LogicalType("NULL"), COMPUTED_COLUMN, node.expression, comment=text)
        if isinstance(node, nodes.MetadataColumn):
            key = node.args.get("key")
            return Column(
                name,
                logical_type(node.args["kind"]),
                METADATA,
                metadata_key=key.name if key is not None else None,
                virtual=bool(node.args.get("virtual")),
                comment=text,
            )
        return Column(name, logical_type(node.args["kind"]), comment=text)

    def bind_columns(self) -> None:
        """Binds the computed columns that this statement declares. Those of the base table are bound again, for
        their input references count the columns of this table."""
        columns = self.draft.columns
        inputs = [(c.name, c.type) for c in columns.values() if not c.is_computed]
        for name, column in columns.items():
            if not column.is_computed or column.expression is None:
                continue
            rex = _bind(column.expression, inputs, self.source if name in self.own else "", self.catalog.function)
            text = serializable_sql(column.expression) if name in self.own else column.expression_sql
            columns[name] = replace(column, type=rex.type, rex=rex, expression_sql=text)

    # constraints

    def _keys(self, base: CatalogTable | None, strategies: Mapping[str, str]) -> None:
        keys: list[tuple[nodes.PrimaryKey, list[exp.Identifier]]] = [
            (key, key.expressions) for key in self.node.args.get("keys") or ()
        ]
        for column in self.node.args.get("columns") or ():
            key = column.args.get("primary_key")
            if key is not None:
                keys.append((key, [column.this]))
        if len(keys) > 1:
            raise self.error("CAT034", keys[1][0])
        if keys:
            key, names = keys[0]
            if self.draft.primary_key:
                raise self.error("CAT032", key, what="a primary key", feature="CONSTRAINTS")
            self.set_key(key, names)
        self.bind_key()

    def set_key(self, key: nodes.PrimaryKey, names: Sequence[exp.Identifier]) -> None:
        """Makes ``names`` the primary key. Raises CatalogError CAT034."""
        self._check_key(names)
        self.draft.primary_key = tuple(name.name for name in names)
        self.draft.primary_key_name = key.this.name if key.this else "PK_" + "_".join(self.draft.primary_key)

    def bind_key(self) -> None:
        """Columns of the primary key are NOT NULL."""
        for name in self.draft.primary_key:
            column = self.draft.columns[name]
            self.draft.columns[name] = replace(column, type=column.type.not_null())

    def _check_key(self, names: Sequence[exp.Identifier]) -> None:
        columns = self.draft.columns
        earlier_names: set[str] = set()
        for name in names:
            column = columns.get(name.name)
            physical = [c.name for c in columns.values() if c.is_physical]
            if column is None or not column.is_physical:
                problem = "not a column of the table" if column is None else f"a {column.kind.lower()} column"
                raise self.error(
                    "CAT034.key_column",
                    name,
                    name=name.name,
                    what=problem,
                    physical=physical,
                    hint=nearest(name.name, physical),
                )
            if name.name in earlier_names:
                raise self.error("CAT034.column_twice", name, name=name.name)
            if name.name not in self.own and column.type.nullable and not self.makes_keys:
                problem = f"from the {'base table' if self.query is None else 'query'}, where it can be NULL"
                expected = "a column that is NOT NULL there"
                raise self.error("CAT034.key_column", name, name=name.name, what=problem, expected=expected)
            earlier_names.add(name.name)

    # watermark

    def _watermark(self, base: CatalogTable | None, strategies: Mapping[str, str]) -> None:
        watermarks = self.node.args.get("watermarks") or []
        if len(watermarks) > 1:
            raise self.error("CAT035", watermarks[1])
        own = watermarks[0] if watermarks else None
        spec = self.draft.watermark
        if own is not None:
            spec = self.own_watermark(own, spec, strategies)
        self.bind_watermark(spec, own)

    def bind_watermark(self, spec: WatermarkSpec | None, own: nodes.Watermark | None) -> None:
        """Binds the watermark, which ``own`` declares where it is not one that the table has; marks its column."""
        if spec is None or spec.expression is None:
            return
        column = self.draft.columns.get(spec.column)
        if column is None:  # the base table's, whose column was omitted
            raise self.error("CAT035.column_of_base", self.node.args["like"], column=spec.column)
        fields = [(c.name, c.type) for c in self.draft.columns.values()]
        rex = _bind(spec.expression, fields, self.source if own is not None else "", self.catalog.function)
        if own is not None:
            self.check_time("the watermark's column", column.type, own.expressions[0])
            self.check_time("the watermark", rex.type, own.expression)
        self.draft.watermark = replace(spec, rex=rex)
        self.draft.columns[spec.column] = replace(column, type=replace(column.type, kind="ROWTIME"))

    def own_watermark(
        self, node: nodes.Watermark, base_watermark: WatermarkSpec | None, strategies: Mapping[str, str]
    ) -> WatermarkSpec:
        path = [part.name for part in node.expressions]
        if len(path) > 1:
            raise SqlError("SQL004", what="a watermark for a field of a row", place=self.place(node.expressions[1]))
        names = list(self.draft.columns)
        if path[0] not in names:
            raise self.error(
                "CAT035.unknown_column", node.expressions[0], path=path[0], names=names, hint=nearest(path[0], names)
            )
        if base_watermark is not None and strategies["WATERMARKS"] != _OVERWRITING:
            duplicate_part = f"a watermark for '{base_watermark.column}'"
            raise self.error("CAT032", node, what=duplicate_part, feature="WATERMARKS")
        return WatermarkSpec(path[0], node.expression, None, serializable_sql(node.expression))

    def check_time(self, subject: str, time_type: LogicalType, node: exp.Expr) -> None:
        if not time_type.is_timestamp or time_type.kind is not None or not 0 <= (time_type.precision or 0) <= 3:
            raise self.error("CAT035.type_of_time", node, what=subject, found=time_type.summary())


def _merging(like: nodes.LikeTable) -> dict[str, str]:
    """How each part of the base table is merged. ALL first, whatever the order in the text."""
    word_lists = [option.name.split(" ") for option in like.args.get("expressions") or ()]
    out = dict(LIKE_DEFAULTS)
    for strategy, feature in word_lists:
        if feature == "ALL":
            out = dict.fromkeys(out, strategy)
    out.update({feature: strategy for strategy, feature in word_lists if feature != "ALL"})
    return out


def _bind(expression: exp.Expr, fields: Fields, source: str, functions: Functions) -> Rex:
    from stateplan.planner.binding.expressions import bind_expression

    return bind_expression(expression, fields, source, functions)


def create_table(
    node: nodes.CreateTable,
    catalog: CatalogManager,
    source: str,
    file: str | None = None,
    query: Fields | None = None,
) -> CatalogTable:
    """The table that CREATE TABLE declares; it is not added to the catalog.

    Options are checked when the table is used, for only then it is known whether it is read or written. ``query`` are
    the columns of the query behind AS.

    Raises:
        CatalogError: CAT038, columns that do not fit the query.
        CatalogError: CAT030 duplicate column, CAT031 LIKE of a view, CAT032 something is in the base table already,
            CAT033 partition key, CAT034 primary key, CAT035 watermark; CAT001 to CAT004 from the names.
        SqlError: whatever binding the expressions finds.
    """
    return TableBuilder(node, catalog, source, file, query).build()


def view_schema(
    fields: Fields,
    columns: Sequence[exp.Identifier] | None,
    node: exp.Expr,
    source: str,
    file: str | None = None,
) -> TableSchema:
    """The schema of a view over a query with these fields.

    Raises:
        CatalogError: CAT036, when the list of columns does not fit; CAT030, when two columns have one name.
    """
    names: list[tuple[str, exp.Expr]] = [(name, node) for name, _ in fields]
    if not columns:
        _check_names(_written_names(node), source, file)
    if columns:
        if len(columns) != len(fields):
            raise CatalogError(
                "CAT036",
                columns=columns,
                fields=fields,
                names=[name for name, _ in fields],
                place=place_of(columns[-1], source, file),
            )
        names = [(column.name, column) for column in columns]
    _check_names(names, source, file)
    return TableSchema(tuple(Column(name, kind) for (name, _), (_, kind) in zip(names, fields, strict=True)))


def _written_names(query: exp.Expr) -> list[tuple[str, exp.Expr]]:
    """The names that a query gives its columns itself; a binder makes them distinct, a view must not need that."""
    while isinstance(query, (exp.SetOperation, exp.Subquery)):
        query = query.this
    items = query.expressions if isinstance(query, exp.Select) else []
    return [
        (item.alias_or_name, item) for item in items if isinstance(item, (exp.Alias, exp.Column)) and not item.is_star
    ]


def _check_names(names: Sequence[tuple[str, exp.Expr]], source: str, file: str | None) -> None:
    earlier_names: set[str] = set()
    for name, node in names:
        if name in earlier_names:
            raise CatalogError("CAT030.view_columns", name=name, place=place_of(node, source, file))
        earlier_names.add(name)


def create_view(
    node: nodes.CreateView, catalog: CatalogManager, fields: Fields, source: str, file: str | None = None
) -> CatalogView:
    """The view that CREATE VIEW declares over a query with these ``fields``; it is not added to the catalog.

    Raises:
        CatalogError: CAT030, CAT036.
    """
    query = node.expression
    comment = node.args.get("comment")
    identifier: ObjectIdentifier = catalog.qualify(parts_of(node.this), place_of(node.this, source, file))
    return CatalogView(
        identifier,
        query,
        text_of(query, source),
        view_schema(fields, node.args.get("columns"), query, source, file),
        bool(node.args.get("temporary")),
        comment.name if comment is not None else None,
        source,
        catalog.current_catalog,
        catalog.current_database,
        tuple(name for name, _ in fields),
    )
