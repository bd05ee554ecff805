"""FROM with UNNEST: ``t CROSS JOIN UNNEST(t.items) WITH ORDINALITY AS i(item, number)``.

Source: Calcite's ``SqlUnnestOperator`` and ``SqlToRelConverter.convertUnnest``; Flink's ``LogicalUnnestRule`` and
``UnnestRowsFunctionBase``.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from stateplan.common.errors import SqlError
from stateplan.common.types import INT, LogicalType, row_type
from stateplan.functions.rex import Call, InputRef, input_refs, shift
from stateplan.planner.algebra.relations import Filter, Rel, Values, identity, transform_up, unique_names
from stateplan.planner.algebra.table_functions import FunctionCorrelate
from stateplan.planner.binding.expressions import ExpressionBinder
from stateplan.planner.binding.hints import TtlHints
from stateplan.planner.binding.joins import bind_join
from stateplan.planner.binding.scope import Relation, Scope
from stateplan.planner.binding.table_functions import column_aliases, join_condition, outer_join_type, require_free
from stateplan.planner.catalog.correlations import Correlations
from stateplan.planner.catalog.functions import Functions
from stateplan.planner.expressions.ops import outer_of, walk
from stateplan.planner.positions import not_supported, place_of


def nothing(source: str, functions: Functions | None) -> tuple[Rel, Scope]:
    """What an UNNEST that comes first is joined with: one row without fields."""
    return Values((), ((),)), Scope(source, functions=functions)


def bind_unnest(
    left: tuple[Rel, Scope],
    join: exp.Expr,
    node: exp.Unnest,
    hints: TtlHints,
    source: str,
    correlations: Correlations,
    in_view: bool,
) -> tuple[Rel, Scope]:
    """The join of the items before with the elements of a collection: of one over their columns a correlation, of
    another a join as with any table.

    Args:
        join: the ``exp.Join``, or the item itself where it comes first.
        hints: the hints of the SELECT.
        correlations: the names of rows around.
        in_view: whether this is in the query of a view, which Flink keeps with the tables of all columns.

    Raises:
        SqlError: SQL113 (its name is taken), SQL115 (number of column names), SQL150, SQL203 (no collection), and what
            expressions raise.
    """
    rel, scope = left
    place = place_of(node, source)
    if len(node.expressions) != 1:
        raise not_supported("UNNEST of several collections", place)
    binder = ExpressionBinder(scope, "UNNEST")
    operand = binder.bind(node.expressions[0])
    correlated = any(isinstance(e, InputRef) or outer_of(e) is not None for e in walk(operand))
    if rel.width and not correlated:
        alone = bind_unnest(nothing(source, scope.functions), node, node, hints, source, correlations, in_view)
        return bind_join(
            (with_names_of_scope(*left), scope), (with_names_of_scope(*alone), alone[1]), join, hints, source
        )
    kind = outer_join_type(join, "UNNEST", source)
    has_qualified_names = in_view or all(column.args.get("table") for column in node.find_all(exp.Column))
    if correlated and not has_qualified_names and isinstance(operand, Call) and operand.name in ("ARRAY", "MAP"):
        # Flink writes the tables to the columns that have none, and loses the casts of the elements by that.
        operand = replace(operand, operands=tuple(map(binder.bind, node.expressions[0].expressions)))
    numbered = bool(node.args.get("offset"))
    element_type = _row(operand.type, numbered)
    if element_type is None:
        raise SqlError("SQL203", name="UNNEST", types=operand.type, place=place_of(node.expressions[0], source))
    name = "UNNEST_ROWS_WITH_ORDINALITY" if numbered else "UNNEST_ROWS"
    call = Call(element_type, (operand,), f"${name}$1")
    references = sum(isinstance(e, InputRef) for e in walk(operand))
    correl = correlations.referred(references) if references else ""
    title, columns = _alias_and_columns(node, element_type, operand.type.root == "MAP", source)
    names = tuple(columns) if references else ()
    correlate = FunctionCorrelate(rel, call, kind, place, correl, columns=names)
    require_free(title, scope, place_of(node, source))
    types = [t for _, t in correlate.fields[rel.width :]]
    joint_scope = scope.joined_with(Scope.of(source, Relation(title, tuple(zip(columns, types, strict=True)))))
    return _with_condition(correlate, join, joint_scope, source), joint_scope


def _with_condition(correlate: FunctionCorrelate, join: exp.Expr, scope: Scope, source: str) -> Rel:
    """A correlation with the condition of its join. Raises SqlError, as expressions do."""
    condition, width = join_condition(join, scope), correlate.input.width
    if condition is None:
        return correlate
    if correlate.join_type == "INNER":
        return Filter(correlate, condition)
    if any(i < width for i in input_refs(condition)):
        raise not_supported(
            "LEFT JOIN UNNEST with a condition on the other side",
            place_of(join.args["on"], source),
            "join in a subquery",
        )
    return replace(correlate, condition=shift(condition, -width))


def _row(t: LogicalType, numbered: bool) -> LogicalType | None:
    """The row that UNNEST of a value of this type returns."""
    if t.root in ("ARRAY", "MULTISET"):
        element = t.children[0]
        if element.root == "ROW":
            fields, nullable = [(f.name, f.type) for f in element.fields], element.nullable
        else:
            fields, nullable = [("EXPR$0" if numbered else "f0", element)], True
    elif t.root == "MAP":
        fields, nullable = [("f0", t.children[0]), ("f1", t.children[1])], False
    else:
        return None
    if numbered:
        return row_type([*fields, ("ORDINALITY", INT.not_null())], False)
    return row_type(fields, nullable)


def _alias_and_columns(node: exp.Unnest, element_type: LogicalType, is_map: bool, source: str) -> tuple[str, list[str]]:
    """The name of the elements' table, and those of its columns."""
    fields = [f.name for f in element_type.fields]
    if is_map:
        fields[:2] = ["KEY", "VALUE"]
    alias = node.args.get("alias")
    if alias is None:
        return "", ["EXPR$0" if f == "f0" and len(fields) == 1 else f for f in fields]
    title = alias.this.name
    columns = column_aliases(alias, len(fields), source)
    return title, columns or ([title] if fields == ["f0"] else fields)


def with_names_of_scope(rel: Rel, scope: Scope) -> Rel:
    """``rel`` with its fields called as the scope does, where it ends with an UNNEST."""
    names = unique_names([n for r in scope.relations for n, _ in r.fields])
    inner = rel.input if isinstance(rel, Filter) else rel
    if not isinstance(inner, FunctionCorrelate) or inner.call.internal_name is None:
        return rel
    return rel if names == [n for n, _ in rel.fields] else replace(identity(rel), names=tuple(names))


def with_outer_rows(rel: Rel, scope: Scope) -> Rel:
    """``rel``, a whole FROM, with its correlations to rows of all its columns, as Flink's plans have them."""
    fields = [(n, t) for r in scope.relations for n, t in r.fields]
    names = unique_names([n for n, _ in fields])
    row = row_type([(n, t) for n, (_, t) in zip(names, fields, strict=True)], False)

    def with_row(r: Rel) -> Rel | None:
        if isinstance(r, FunctionCorrelate) and r.correl and r.row is None:
            return replace(r, row=row)
        return None

    return transform_up(rel, with_row)
