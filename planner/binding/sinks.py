"""INSERT: the target's columns, and the casts of the query's rows to them."""

from __future__ import annotations

from sqlglot import exp

from execnodes.connectors.registry import validate_table
from execnodes.errors import CatalogError, Place, SqlError, nearest
from execnodes.functions.typerules import family, is_implicit
from execnodes.rex import InputRef, Literal, Rex
from execnodes.types import LogicalType
from planner.algebra import Project, Rel, Sink
from planner.binding.errors import counted, not_supported
from planner.binding.queries import QueryBinder, Targets
from planner.catalog import CatalogManager, CatalogTable, CatalogView, Column
from planner.expressions import fold
from planner.expressions.ops import call
from planner.positions import place_of

__all__ = ["bind_insert"]


def bind_insert(node: exp.Expr, catalog: CatalogManager, source: str) -> Sink:
    """The sink of an INSERT over its query, rows cast to the target's columns.

    Raises:
        SqlError: SQL130 (column counts), SQL131 (unknown target column), SQL132 (named twice), SQL133 (a column that
            must not be NULL is left out), SQL134 (types that do not fit), SQL150.
        CatalogError, OptionError: the target cannot be written.
    """
    target = node.this
    table_node = target.this if isinstance(target, exp.Schema) else target
    table = _target(table_node, catalog, source)
    if node.args.get("overwrite"):
        raise not_supported("INSERT OVERWRITE", place_of(table_node, source))
    if node.args.get("partition") is not None:
        raise not_supported("INSERT INTO ... PARTITION", place_of(node.args["partition"], source))
    place = place_of(table_node, source)
    columns = list(table.schema.persisted)
    for column in columns:
        if column.is_metadata:
            raise not_supported(f"writing the metadata column '{column.name}'", place, "declare the column VIRTUAL")
    validate_table(table.options, "sink", place, [(c.name, c.type) for c in table.schema.physical])
    targets = None
    positions = None
    if isinstance(target, exp.Schema):
        positions = _positions(target.expressions, columns, table, source)
        targets = _targets(positions, columns, table, place)
    query = node.expression
    rel = QueryBinder(catalog, source).bind(query, targets, top=True)
    rel = _cast(rel, columns, table, query, place, source)
    conflict = node.args.get("conflict")
    action = None if conflict is None else conflict.args["action"].name.upper()
    return Sink(rel, table, positions, action, place)


def _target(node: exp.Expr, catalog: CatalogManager, source: str) -> CatalogTable:
    parts = [p.name for p in (node.args.get(k) for k in ("catalog", "db", "this")) if p is not None]
    place = place_of(node, source)
    found = catalog.resolve(parts, place)
    if isinstance(found, CatalogView):
        raise CatalogError(
            "CAT103",
            f"'{found.identifier.summary}' is a view and cannot be written to",
            place=place,
            expected="a table",
        )
    if node.args.get("hints"):
        from planner.binding.queries import _options_hint

        return found.with_options(_options_hint(node.args["hints"], source))
    return found


def _positions(names: list[exp.Expr], columns: list[Column], table: CatalogTable, source: str) -> tuple[int, ...]:
    """Positions of the INSERT's columns in the table's schema."""
    out: list[int] = []
    known = [c.name for c in columns]
    for node in names:
        if node.name not in known:
            hidden = table.schema.column(node.name)
            hint = "it is computed and cannot be written" if hidden is not None else nearest(node.name, known)
            raise SqlError(
                "SQL131",
                f"'{table.identifier.summary}' has no column '{node.name}' to write to",
                place=place_of(node, source),
                expected="one of " + ", ".join(known),
                hint=hint,
            )
        index = known.index(node.name)
        if index in out:
            raise SqlError(
                "SQL132",
                f"the column '{node.name}' is named twice",
                place=place_of(node, source),
                expected="each column once",
            )
        out.append(index)
    return tuple(out)


def _targets(positions: tuple[int, ...], columns: list[Column], table: CatalogTable, place: Place) -> Targets:
    layout: list[int | None] = []
    for i, column in enumerate(columns):
        if i not in positions and not column.type.nullable:
            raise SqlError(
                "SQL133",
                f"the column '{column.name}' of '{table.identifier.summary}' is left out, and it must not be NULL",
                place=place,
                expected=f"'{column.name}' among the columns",
            )
        layout.append(positions.index(i) if i in positions else None)
    return Targets(tuple(layout), tuple(c.type for c in columns), len(positions), place)


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
        shown = ", ".join(f"{n}: {t.summary()}" for n, t in fields)
        raise SqlError(
            "SQL130",
            f"the query gives {counted(len(fields), 'column')}, '{summary}' takes {len(columns)}",
            place=place,
            expected=", ".join(f"{c.name}: {c.type.summary()}" for c in columns),
            hint=f"the query gives {shown}",
        )
    needed = False
    for i, ((name, t), column) in enumerate(zip(fields, columns, strict=True)):
        if not is_implicit(t, column.type) and not avoids_cast(t, column.type):
            raise SqlError(
                "SQL134",
                f"the query's column {i + 1} ('{name}') is {t.summary()}, the column '{column.name}' "
                f"of '{summary}' is {column.type.summary()}",
                place=_item_place(query, i, source) or place,
                expected=column.type.as_nullable().summary(),
                hint=f"write CAST(... AS {column.type.as_nullable().summary()})",
            )
        needed |= not avoids_cast(t, column.type)
    if not needed:
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
        folded = fold.cast_literal(rex, target)
        return folded if folded.type == target else call("CAST", (folded,), target)
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
