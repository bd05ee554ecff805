"""INSERT: the target's columns, and the casts of the query's rows to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from stateplan.common.errors import CatalogError, Place, SqlError, nearest, one_of
from stateplan.common.options import Role
from stateplan.common.types import LogicalType, parse_type
from stateplan.connectors.registry import connectors, find_connector, metadata_columns, validate_table
from stateplan.functions.literals import number_literal, string_literal
from stateplan.functions.rex import InputRef, Literal, Rex
from stateplan.functions.typerules import family, is_implicit
from stateplan.planner.algebra.relations import Project, Rel, Sink
from stateplan.planner.binding.hints import read_options_hint
from stateplan.planner.binding.queries import QueryBinder
from stateplan.planner.binding.values import Targets
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import CatalogTable, CatalogView, Column
from stateplan.planner.expressions import fold
from stateplan.planner.expressions.ops import call
from stateplan.planner.positions import place_of


def bind_insert(
    node: exp.Expr, catalog: CatalogManager, source: str, duplicates: bool = False, batch: bool = False
) -> Sink:
    """The sink of an INSERT over its query, rows cast to the target's columns.

    ``duplicates`` says whether change events of tables may come twice, ``batch`` whether it runs in batch mode.

    Raises:
        SqlError: SQL130 (column counts), SQL131 (unknown target column), SQL132 (named twice), SQL133 (a column that
            must not be NULL is omitted), SQL134 (types that do not fit), SQL135, SQL136 (PARTITION).
        CatalogError, OptionError: the target cannot be written, or not in this way (CAT104 to CAT107).
    """
    target = node.this
    table_node = target.this if isinstance(target, exp.Schema) else target
    declared_table, table = catalog.creation or (None, _target(table_node, catalog, source))
    place = place_of(table_node, source)
    columns = list(table.schema.persisted)
    physical = [(c.name, c.type) for c in table.schema.physical]
    validate_table(table.options, "sink", place, physical, table.option_places, table.schema.primary_key)
    column_positions = None
    layout = declared_table or table
    if isinstance(target, exp.Schema):
        column_positions = _positions(target.expressions, list(layout.schema.persisted), layout, source)
    partition = _partition(node.args.get("partition"), columns, table, column_positions or (), source)
    overwrite = bool(node.args.get("overwrite"))
    metadata = _check_abilities(table, overwrite, place)
    targets = None
    if column_positions is not None or partition:
        target_positions = (
            tuple(i for i in range(len(columns)) if i not in partition)
            if column_positions is None
            else column_positions
        )
        targets = _targets(target_positions, partition, list(layout.schema.persisted), layout, place)
    query = node.expression
    rel = QueryBinder(catalog, source, duplicates=duplicates, batch=batch).bind(query, targets, top=True)
    rel = _cast(rel, columns, table, query, place, source)
    rel = _metadata_last(rel, columns, metadata)
    conflict = node.args.get("conflict")
    action = None if conflict is None else conflict.args["action"].name.upper()
    static = {columns[i].name: text for i, (text, _) in partition.items()}
    static_partition = tuple((key, static[key]) for key in table.partition_keys if key in static)
    return Sink(
        rel, table, None if declared_table else column_positions, action, place, static_partition, overwrite, metadata
    )


def bind_results(
    query: exp.Expr,
    catalog: CatalogManager,
    source: str,
    table_of: Callable[[list[tuple[str, LogicalType]]], CatalogTable],
    duplicates: bool = False,
    batch: bool = False,
) -> tuple[list[tuple[str, LogicalType]], Sink]:
    """A query: name and type of its columns, and the sink of its results, which ``table_of`` makes for them.

    Raises:
        StateplanError: as :func:`bind_insert`, and what ``table_of`` raises.
    """
    rel = QueryBinder(catalog, source, duplicates=duplicates, batch=batch).bind(query, top=True)
    fields, place = list(rel.fields), place_of(query, source)
    table = table_of(fields)
    rel = _cast(rel, list(table.schema.persisted), table, query, place, source)
    return fields, Sink(rel, table, place=place)


def _check_abilities(table: CatalogTable, overwrite: bool, place: Place) -> tuple[tuple[str, LogicalType], ...]:
    """Whether the connector can do what the INSERT and the table ask for; the metadata that is written, in order.

    Source: Flink's ``DynamicSinkUtils.prepareDynamicSink``.

    Raises:
        CatalogError: CAT104 (buckets), CAT105 (OVERWRITE), CAT106 (metadata columns), CAT107 (partitions).
    """
    name, summary = table.options["connector"], table.identifier.summary
    connector = find_connector(table.options)
    abilities = connector.sink_abilities
    if table.distribution is not None and "Bucketing" not in abilities:
        raise CatalogError("CAT104", summary=summary, name=name, place=place)
    if table.partition_keys and "Partitioning" not in abilities:
        raise CatalogError("CAT107", summary=summary, name=name, keys=table.partition_keys, place=place)
    if overwrite and "Overwrite" not in abilities:
        able = [c.name for c in connectors() if "Overwrite" in c.sink_abilities]
        raise CatalogError(
            "CAT105",
            name=name,
            summary=summary,
            able=f", or a connector that overwrites: {', '.join(able)}" if able else "",
            place=place,
        )
    metadata_to_write = [c for c in table.schema.columns if c.is_metadata and not c.virtual]
    texts = dict(connector.writable_metadata(table.options))
    writable = {key: parse_type(text) for key, text in texts.items()}
    if metadata_to_write and not writable:
        raise CatalogError("CAT106", summary=summary, name=metadata_to_write[0].name, name_2=name, place=place)
    expected = ", ".join(f"{key} {text}" for key, text in texts.items())
    for column in metadata_to_write:
        key = column.metadata_key or column.name
        if key in writable and is_implicit(column.type, writable[key]):
            continue
        problem = "has no metadata" if key not in writable else f"takes {texts[key]} for the metadata"
        if key not in writable and Role.SOURCE in connector.roles and key in metadata_columns(table.options):
            problem = "reads, and cannot write, the metadata"
        raise CatalogError(
            "CAT106.unwritable",
            name=name,
            what=problem,
            key=key,
            column=column,
            summary=summary,
            place=place,
            expected=expected,
            hint=nearest(key, writable),
        )
    keys = [c.metadata_key or c.name for c in metadata_to_write]
    return tuple((key, declared_type) for key, declared_type in writable.items() if key in keys)


def _metadata_last(rel: Rel, columns: list[Column], metadata: tuple[tuple[str, LogicalType], ...]) -> Rel:
    """The rows with metadata columns behind the physical ones, in the connector's order and types."""
    if not metadata:
        return rel
    keys = {c.metadata_key or c.name: i for i, c in enumerate(columns) if c.is_metadata}
    order = [i for i, c in enumerate(columns) if not c.is_metadata] + [keys[key] for key, _ in metadata]
    types = [rel.fields[i][1] for i in order[: len(order) - len(metadata)]] + [t for _, t in metadata]
    if order == list(range(len(columns))) and all(
        rel.fields[i][1].as_nullable() == t.as_nullable() for i, t in zip(order, types, strict=True)
    ):
        return rel
    refs = [InputRef(rel.fields[i][1], i) for i in order]
    exprs = tuple(
        ref if avoids_cast(ref.type, t) else call("CAST", (ref,), t) for ref, t in zip(refs, types, strict=True)
    )
    return Project(rel, exprs, tuple(rel.fields[i][0] for i in order))


def _target(node: exp.Expr, catalog: CatalogManager, source: str) -> CatalogTable:
    parts = [p.name for p in (node.args.get(k) for k in ("catalog", "db", "this")) if p is not None]
    place = place_of(node, source)
    table = catalog.resolve(parts, place)
    if isinstance(table, CatalogView):
        raise CatalogError("CAT103", summary=table.identifier.summary, place=place)
    if node.args.get("hints"):
        options = read_options_hint(node.args["hints"], source)
        catalog.check_table(options, place)
        return table.with_options(options)
    return table


def _positions(names: list[exp.Expr], columns: list[Column], table: CatalogTable, source: str) -> tuple[int, ...]:
    """Positions of the INSERT's columns in the table's schema."""
    out: list[int] = []
    column_names = [c.name for c in columns]
    for node in names:
        if node.name not in column_names:
            computed_column = table.schema.column(node.name)
            hint = (
                "it is computed and cannot be written"
                if computed_column is not None
                else nearest(node.name, column_names)
            )
            raise SqlError(
                "SQL131",
                table=table.identifier,
                name=node.name,
                known=column_names,
                place=place_of(node, source),
                hint=hint,
            )
        index = column_names.index(node.name)
        if index in out:
            raise _twice(node, source)
        out.append(index)
    return tuple(out)


def _partition(
    node: exp.Expr | None, columns: list[Column], table: CatalogTable, column_positions: tuple[int, ...], source: str
) -> dict[int, tuple[str, Literal]]:
    """By position of its column, each value of PARTITION (..), as text and as a constant.

    Raises:
        SqlError: SQL131 (unknown column), SQL132 (a column twice), SQL135 (not a partition column), SQL136 (a value
            that is not a text or a number).
    """
    out: dict[int, tuple[str, Literal]] = {}
    for item in node.expressions if node is not None else ():
        column, value = item.this, item.expression
        (position,) = _positions([column], columns, table, source)
        if position in out or position in column_positions:
            raise _twice(column, source)
        text = _partition_text(item, table, source, insert=True)
        is_string = isinstance(value, exp.Literal) and value.is_string
        out[position] = (text, string_literal(text) if is_string else number_literal(text, place_of(value, source)))
    return out


def partition_texts(node: exp.Expr | None, table: CatalogTable, source: str) -> dict[str, str]:
    """The values of PARTITION (..) as text, by column.

    Raises:
        SqlError: SQL132 (a column twice), SQL135 (not a partition column), SQL136 (a value that is not a text or a
            number).
    """
    out: dict[str, str] = {}
    for item in node.expressions if node is not None else ():
        if item.this.name in out:
            raise _twice(item.this, source)
        out[item.this.name] = _partition_text(item, table, source, insert=False)
    return out


def _partition_text(item: exp.Expr, table: CatalogTable, source: str, insert: bool) -> str:
    """The value of ``column = value``. Raises SqlError SQL135, SQL136."""
    column, value = item.this, item.expression
    if column.name not in table.partition_keys:
        keys = table.partition_keys
        raise SqlError(
            "SQL135",
            name=column.name,
            table=table.identifier,
            place=place_of(column, source),
            expected=one_of(keys) or "an INSERT without PARTITION",
            hint=nearest(column.name, keys),
        )
    negative = isinstance(value, exp.Neg)
    inner = value.this if negative else value
    if not isinstance(inner, exp.Literal) or (negative and inner.is_string):
        hint = "a column that PARTITION does not name comes from the query" if insert else None
        raise SqlError("SQL136", name=column.name, place=place_of(value, source), hint=hint)
    return ("-" if negative else "") + inner.name


def _twice(node: exp.Expr, source: str) -> SqlError:
    return SqlError("SQL132", name=node.name, place=place_of(node, source))


def _targets(
    positions: tuple[int, ...],
    partition: dict[int, tuple[str, Literal]],
    columns: list[Column],
    table: CatalogTable,
    place: Place,
) -> Targets:
    layout: list[int | Rex] = []
    for i, column in enumerate(columns):
        if i in partition:
            layout.append(_constant(partition[i][1], column.type))
            continue
        if i not in positions and not column.type.nullable:
            raise SqlError("SQL133", name=column.name, summary=table.identifier.summary, place=place)
        layout.append(positions.index(i) if i in positions else Literal(column.type.as_nullable(), None))
    return Targets(tuple(layout), len(positions), place)


def _constant(value: Literal, target: LogicalType) -> Rex:
    """A value of PARTITION in the type of its column."""
    if value.type.as_nullable() == target.as_nullable():
        return value
    return call("CAST", (value,), replace(target, nullable=False))


def avoids_cast(source: LogicalType, target: LogicalType) -> bool:
    """Whether a value of ``source`` is stored as ``target`` without a CAST (``LogicalTypeCasts.supportsAvoidingCast``);
    nullability is not looked at."""
    a, b = source.as_nullable(), target.as_nullable()
    if a == b:
        return True
    if source.is_timestamp and source.root == target.root:
        return source.precision == target.precision
    if family(source) in ("CHARACTER", "BINARY") and family(source) == family(target):
        grows = (source.length or 1) <= (target.length or 1)
        return grows and target.root.startswith("VAR")
    if source.root == target.root and source.children:
        return all(
            avoids_cast(x, y) and (y.nullable or not x.nullable)
            for x, y in zip(source.children, target.children, strict=True)
        )
    if source.root == target.root == "ROW" and len(source.fields) == len(target.fields):
        return all(
            avoids_cast(x.type, y.type) and (y.type.nullable or not x.type.nullable)
            for x, y in zip(source.fields, target.fields, strict=True)
        )
    return False


def _cast(rel: Rel, columns: list[Column], table: CatalogTable, query: exp.Expr, place: Place, source: str) -> Rel:
    fields = rel.fields
    summary = table.identifier.summary
    if len(fields) != len(columns):
        field_texts = ", ".join(f"{n}: {t.summary()}" for n, t in fields)
        raise SqlError(
            "SQL130",
            taker=f"'{summary}'",
            taken=columns,
            returned=fields,
            place=place,
            expected=", ".join(f"{c.name}: {c.type.summary()}" for c in columns),
            hint=f"the query returns {field_texts}",
        )
    needs_cast = False
    for i, ((name, t), column) in enumerate(zip(fields, columns, strict=True)):
        if not is_implicit(t, column.type) and not avoids_cast(t, column.type):
            raise SqlError(
                "SQL134",
                position=i + 1,
                name=name,
                given=t,
                column=column,
                summary=summary,
                wanted=column.type.as_nullable(),
                place=_item_place(query, i, source) or place,
            )
        needs_cast |= not avoids_cast(t, column.type)
    if not needs_cast:
        return rel
    exprs = rel.exprs if isinstance(rel, Project) else tuple(InputRef(t, i) for i, (_, t) in enumerate(fields))
    below = rel.input if isinstance(rel, Project) else rel
    return Project(
        below,
        tuple(_ensure(e, c.type.as_nullable()) for e, c in zip(exprs, columns, strict=True)),
        tuple(c.name for c in columns),
    )


def _ensure(rex: Rex, target: LogicalType) -> Rex:
    if rex.type == target or (
        rex.type.is_timestamp and avoids_cast(rex.type, target) and rex.type.nullable and rex.type.kind is None
    ):
        return rex
    if isinstance(rex, Literal):
        literal = fold.cast_literal(rex, target)
        return literal if literal.type == target else call("CAST", (literal,), target)
    return call("CAST", (rex,), target)


def _item_place(query: exp.Expr, index: int, source: str) -> Place | None:
    while isinstance(query, exp.Subquery):
        query = query.this
    if (
        isinstance(query, exp.Select)
        and index < len(query.expressions)
        and not any(isinstance(e, exp.Star) or isinstance(e.this, exp.Star) for e in query.expressions[: index + 1])
    ):
        return place_of(query.expressions[index], source)
    return None
