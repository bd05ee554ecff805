"""FROM with a query that refers to the items before it: ``t, LATERAL (SELECT b FROM u WHERE u.a = t.a) AS x``."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from stateplan.functions.rex import Rex, input_refs
from stateplan.planner.algebra.relations import Correlate, Filter, Rel, Values, walk
from stateplan.planner.binding.expressions import ExpressionBinder
from stateplan.planner.binding.hints import TtlHints
from stateplan.planner.binding.joins import bind_join
from stateplan.planner.binding.scope import Scope
from stateplan.planner.binding.table_functions import join_condition, outer_join_type, require_free
from stateplan.planner.expressions.ops import seen_from_right
from stateplan.planner.positions import not_supported, place_of


def is_lateral_query(node: exp.Expr) -> bool:
    """Whether an item of FROM is LATERAL (query)."""
    return isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery)


def bind_lateral(
    left: tuple[Rel, Scope],
    join: exp.Expr,
    hints: TtlHints,
    source: str,
    subquery: Callable[[exp.Expr, Callable[[exp.Expr], Rex]], tuple[Rel, int]],
    aliased: Callable[[Rel, exp.Expr | None], tuple[Rel, Scope]],
) -> tuple[Rel, Scope]:
    """The join of the items before with a query over their columns.

    Args:
        subquery: binds a query; see :meth:`planner.binding.queries.QueryBinder.subquery`.
        aliased: names what the query returns.

    Raises:
        SqlError: SQL113 (its name is taken), SQL115 (number of column names), SQL150, a join that is neither CROSS,
            INNER nor LEFT; and as :func:`planner.binding.joins.bind_join`.
    """
    rel, scope = left
    lateral = join.this
    outer_exprs: list[Rex] = []

    def around(column: exp.Expr) -> Rex:
        outer_exprs.append(ExpressionBinder(scope, "FROM").bind(column))
        return outer_exprs[-1]

    rows_of_query, number = subquery(lateral.this, around)
    right = aliased(rows_of_query, lateral.args.get("alias"))
    if not any(True for rex in outer_exprs for _ in input_refs(rex)):
        return bind_join(left, right, join, hints, source)
    kind = outer_join_type(join, "LATERAL", source)
    place = place_of(lateral, source)
    if all(isinstance(r, Values) for r in walk(rows_of_query) if not r.inputs):
        raise not_supported("LATERAL without a table in it", place, "write the expressions into the select list")
    (relation,) = right[1].relations
    require_free(relation.name, scope, place)
    joint_scope = scope.joined_with(right[1])
    condition = join_condition(join, joint_scope)
    rows = rows_of_query if condition is None else Filter(rows_of_query, seen_from_right(condition, rel.width, number))
    ttls = hints.of(hints.key_of(scope.relations)), hints.of(hints.key_of(right[1].relations))
    correlate = Correlate(rel, rows, number, kind, hints=ttls, place=place)
    return correlate, joint_scope.with_padding(len(scope.relations), False, kind == "LEFT")
