"""FROM with a table function: ``LATERAL TABLE(f(x)) AS s(a, b)``."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from stateplan.common.errors import Place, SqlError
from stateplan.execnodes.specs import OuterJoinType
from stateplan.functions.rex import InputRef, Literal, Rex
from stateplan.planner.algebra.relations import Filter, Rel, identity
from stateplan.planner.algebra.table_functions import FunctionCorrelate
from stateplan.planner.binding.expressions import ExpressionBinder
from stateplan.planner.binding.scope import Relation, Scope
from stateplan.planner.binding.user_functions import user_function
from stateplan.planner.catalog.correlations import Correlations
from stateplan.planner.catalog.functions import require_kind
from stateplan.planner.dialect import function_name
from stateplan.planner.expressions.ops import is_always_true, walk
from stateplan.planner.positions import not_supported, place_of


def is_function_join(node: exp.Expr) -> bool:
    """Whether an item of FROM is LATERAL TABLE(...)."""
    return isinstance(node, exp.Lateral) and isinstance(node.this, exp.TableFromRows)


def outer_join_type(join: exp.Expr, operand: str, source: str) -> OuterJoinType:
    """How the join keeps rows for which ``operand`` gives none.

    Raises:
        SqlError: SQL150, a join that is neither CROSS, INNER nor LEFT, or has USING or NATURAL.
    """
    side = join.args.get("side")
    if side not in (None, "", "LEFT") or join.args.get("using") or join.args.get("method"):
        raise not_supported(f"this join with {operand}", place_of(join, source), "use CROSS JOIN or LEFT JOIN")
    return "LEFT" if side else "INNER"


def join_condition(join: exp.Expr, scope: Scope) -> Rex | None:
    """The condition of ON; None if it keeps all rows."""
    on = join.args.get("on")
    condition = None if on is None else ExpressionBinder(scope, "ON").condition(on, "ON")
    return None if condition is None or is_always_true(condition) else condition


def require_free(title: str, scope: Scope, place: Place) -> None:
    """Raises SqlError SQL113 where an item before has the name ``title``."""
    if title and scope.relation([title]):
        raise SqlError("SQL113", name=title, place=place)


def column_aliases(alias: exp.Expr, fields: int, source: str) -> list[str]:
    """The names of columns that an alias ``s(a, b)`` gives; nothing if it names the table only.

    Raises:
        SqlError: SQL115, not one for each of ``fields``.
    """
    columns = [c.name for c in alias.args.get("columns") or ()]
    if columns and len(columns) != fields:
        raise SqlError("SQL115", name=alias.this.name, columns=columns, width=fields, place=place_of(alias, source))
    return columns


def bind_function_join(
    left: tuple[Rel, Scope], join: exp.Expr, source: str, correlations: Correlations
) -> tuple[Rel, Scope]:
    """The join of the items before with a table function, whose operands are over their columns.

    Raises:
        SqlError: SQL113 (its name is taken), SQL115 (number of column names), SQL150, SQL200, SQL212, and what
            expressions raise.
    """
    rel, scope = left
    lateral = join.this
    call = lateral.this.this
    place = place_of(call, source)
    user_match = user_function(call, place, scope.functions) if isinstance(call, exp.Anonymous) else None
    if user_match is None:
        name = function_name(call) if isinstance(call, exp.Anonymous) else type(call).__name__
        raise not_supported(f"the table function {name}", place, "CREATE FUNCTION makes one in Python")
    require_kind(user_match, "TABLE", place, "in FROM")
    kind = outer_join_type(join, "a table function", source)
    operands = ExpressionBinder(scope, "FROM").user_operands(user_match, call, place)
    function_call = user_match.call(operands)
    correlations.referred(sum(isinstance(e, InputRef) for e in walk(function_call)))
    result = function_call.type.not_null()
    correlate = FunctionCorrelate(rel, replace(function_call, type=result), kind, place)
    names = [n for n, _ in correlate.fields]
    alias = lateral.args.get("alias")
    out: Rel = correlate
    title, column_names = "", [f.name for f in result.fields]
    if alias is not None:
        title = alias.this.name
        if columns := column_aliases(alias, len(column_names), source):
            column_names = columns
            out = replace(identity(correlate), names=(*names[: rel.width], *columns))
        require_free(title, scope, place_of(alias, source))
    types = [t for _, t in correlate.fields[rel.width :]]
    joint_scope = scope.joined_with(Scope.of(source, Relation(title, tuple(zip(column_names, types, strict=True)))))
    condition = join_condition(join, joint_scope)
    if condition is None:
        return out, joint_scope
    if kind == "LEFT" and not isinstance(condition, Literal):
        raise not_supported(
            "LEFT JOIN of a Python table function with a condition",
            place_of(join.args["on"], source),
            "write ON TRUE, as Flink wants it too",
        )
    return Filter(out, condition), joint_scope
