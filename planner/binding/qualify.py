"""QUALIFY: a condition on window functions, which becomes a column below a filter.

So ``SELECT a FROM t QUALIFY ROW_NUMBER() OVER (...) = 1`` is the relation of
``SELECT a FROM (SELECT a, ROW_NUMBER() OVER (...) = 1 AS q FROM t) WHERE q``.

Source: Calcite's ``SqlToRelConverter``.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from stateplan.common.errors import SqlError
from stateplan.functions.rex import InputRef, Rex
from stateplan.planner.algebra.relations import Filter, Project, Rel, refs_to, unique_names
from stateplan.planner.binding.expressions import ExpressionBinder
from stateplan.planner.binding.ordering import unaliased
from stateplan.planner.expressions.ops import Over, SubQuery, walk
from stateplan.planner.positions import not_supported


def bind_qualify(
    binder: ExpressionBinder,
    query: exp.Select,
    names: Sequence[str | None],
    items: Sequence[exp.Expr | None],
) -> Rex | None:
    """The condition of QUALIFY, as an expression of the select list; None if there is no QUALIFY.

    Args:
        binder: binds the select list.
        query: the SELECT.
        names: the names of the select list, which the condition may use.
        items: the items of the select list; None for what a star stands for.

    Raises:
        SqlError: SQL103 (not BOOLEAN), SQL105 (no window function), SQL150 (a query in it), and what its parts raise.
    """
    clause = query.args.get("qualify")
    if clause is None:
        return None
    binder.place_name, binder.windows = "QUALIFY", True
    condition = binder.condition(unaliased(clause.this, names, items, binder.source), "QUALIFY")
    parts = list(walk(condition))
    if any(isinstance(p, SubQuery) for p in parts):
        raise not_supported("a query in QUALIFY", binder.place(clause.this), "filter on its result in a query around")
    if not any(isinstance(p, Over) for p in parts):
        raise SqlError(
            "SQL105", what="the condition of QUALIFY", part="a window function", place=binder.place(clause.this)
        )
    return condition


def qualified(rel: Rel, exprs: Sequence[Rex], names: Sequence[str], condition: Rex | None) -> Rel:
    """The projection of ``rel`` to ``exprs``, called ``names``, of which some may be equal; and of its rows those that
    meet ``condition``."""
    own = tuple(unique_names(names))
    select_names = None if own == (*names,) else (*names,)
    if condition is None:
        return Project(rel, tuple(exprs), own, select_names)
    all_names = unique_names([*own, "QualifyExpression"])
    project = Project(rel, (*exprs, condition), tuple(all_names))
    filtered = Filter(project, InputRef(condition.type, len(exprs)))
    return Project(filtered, tuple(refs_to(filtered, range(len(exprs)))), own, select_names)
