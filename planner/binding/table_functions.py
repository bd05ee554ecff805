"""FROM with a table function: ``LATERAL TABLE(f(x)) AS s(a, b)``."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from stateplan.execnodes.errors import SqlError
from stateplan.execnodes.rex import Literal
from stateplan.execnodes.specs import OuterJoinType
from stateplan.planner.algebra.relations import Filter, Rel, identity
from stateplan.planner.algebra.table_functions import FunctionCorrelate
from stateplan.planner.binding.errors import counted, not_supported
from stateplan.planner.binding.expressions import ExpressionBinder
from stateplan.planner.binding.scope import Relation, Scope
from stateplan.planner.binding.user_functions import user_function
from stateplan.planner.catalog.functions import require_kind
from stateplan.planner.dialect import function_name
from stateplan.planner.expressions.ops import is_always_true
from stateplan.planner.positions import place_of


def is_function_join(node: exp.Expr) -> bool:
    """Whether an item of FROM is LATERAL TABLE(...)."""
    return isinstance(node, exp.Lateral) and isinstance(node.this, exp.TableFromRows)


def bind_function_join(left: tuple[Rel, Scope], join: exp.Expr, source: str) -> tuple[Rel, Scope]:
    """The join of the items before with a table function, whose operands are over their columns.

    Raises:
        SqlError: SQL113 (its name is taken), SQL115 (number of column names), SQL150, SQL200, SQL212, and what
            expressions raise.
    """
    rel, scope = left
    lateral = join.this
    call = lateral.this.this
    place = place_of(call, source)
    found = user_function(call, place, scope.functions) if isinstance(call, exp.Anonymous) else None
    if found is None:
        name = function_name(call) if isinstance(call, exp.Anonymous) else type(call).__name__
        raise not_supported(f"the table function {name}", place, "CREATE FUNCTION makes one in Python")
    require_kind(found, "TABLE", place, "in FROM")
    kind: OuterJoinType = "LEFT" if join.args.get("side") else "INNER"
    if join.args.get("side") not in (None, "", "LEFT") or join.args.get("using") or join.args.get("method"):
        raise not_supported("this join with a table function", place_of(join, source), "use CROSS JOIN or LEFT JOIN")
    operands = ExpressionBinder(scope, "FROM").user_operands(found, call, place)
    made = found.call(operands)
    result = made.type.not_null()
    correlate = FunctionCorrelate(rel, replace(made, type=result), kind, place)
    names = [n for n, _ in correlate.fields]
    alias = lateral.args.get("alias")
    title = ""
    out: Rel = correlate
    given = [f.name for f in result.fields]
    if alias is not None:
        title = alias.this.name
        columns = [c.name for c in alias.args.get("columns") or ()]
        if columns and len(columns) != len(given):
            raise SqlError(
                "SQL115.bind_function_join",
                title=title,
                counted=counted(len(given), "column"),
                count=len(columns),
                count_2=len(given),
                place=place_of(alias, source),
            )
        if columns:
            given = columns
            out = replace(identity(correlate), names=(*names[: rel.width], *columns))
        if scope.relation([title]):
            raise SqlError("SQL113.bind_function_join", title=title, place=place_of(alias, source))
    types = [t for _, t in correlate.fields[rel.width :]]
    relation = Relation(title, tuple(zip(given, types, strict=True)), 0)
    whole = scope.joined(Scope.of(source, relation))
    on = join.args.get("on")
    if on is not None:
        condition = ExpressionBinder(whole, "ON").condition(on, "ON")
        if not is_always_true(condition):
            if kind == "LEFT" and not isinstance(condition, Literal):
                raise not_supported(
                    "LEFT JOIN of a Python table function with a condition",
                    place_of(on, source),
                    "write ON TRUE, as Flink wants it too",
                )
            out = Filter(out, condition)
    return out, whole
