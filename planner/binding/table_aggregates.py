"""FROM with a table aggregate function: ``f(TABLE t PARTITION BY k, DESCRIPTOR(x, y))``.

Source: the syntax of functions over tables with set semantics (FLIP-440). Flink's SQL has no way to call a table
aggregate function; this one is ours.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from stateplan.functions.rex import InputRef, Rex
from stateplan.planner.algebra.relations import AggCall, Project, Rel, is_identity, refs_to, unique_names
from stateplan.planner.algebra.table_functions import TableAggregate
from stateplan.planner.binding.expressions import ExpressionBinder
from stateplan.planner.binding.scope import Relation, Scope
from stateplan.planner.binding.table_calls import TableCall, descriptor
from stateplan.planner.binding.user_functions import fitted
from stateplan.planner.catalog.functions import FoundFunction, require_kind
from stateplan.planner.positions import place_of


def bind_table_aggregate(
    function_match: FoundFunction,
    node: exp.Anonymous,
    table: Callable[[exp.Expr], tuple[Rel, Scope]],
    source: str,
) -> tuple[TableAggregate, Relation]:
    """The table aggregate that a call stands for, its TTL open, and the table it is over.

    Args:
        table: binds the table of a table argument.
        source: the text that positions point into.

    Raises:
        SqlError: SQL119, for arguments that are none; SQL202, SQL203, for columns that the function does not take;
            SQL212, for a function of another kind.
    """
    place = place_of(node, source)
    function = require_kind(function_match, "TABLE_AGGREGATE", place, "in FROM over a table")
    table_call = TableCall(node, function.name, source, f"{function.name}(TABLE t PARTITION BY k, DESCRIPTOR(x, ..))")
    arguments = table_call.arguments(("input", "args"))
    inner = table_call.table(arguments.get("input"))
    if arguments["input"].args.get("order"):
        raise table_call.wrong(f"the table of {function.name} cannot be ordered", arguments["input"].args["order"])
    rel, scope = table(inner)
    argument_columns = descriptor(arguments.get("args"))
    if "args" in arguments and not argument_columns:
        raise table_call.wrong(
            f"{function.name} takes the columns that it aggregates as a descriptor", arguments["args"]
        )
    keys = [_column(k, scope, table_call) for k in arguments["input"].args.get("partition_by") or ()]
    columns = [_column(c, scope, table_call) for c in argument_columns]
    operands = fitted(function_match, refs_to(rel, columns), place)
    group = list(dict.fromkeys(keys))
    exprs: list[Rex] = list(refs_to(rel, group))
    for operand in operands:
        if operand not in exprs:
            exprs.append(operand)
    call = AggCall(
        function.name,
        tuple(exprs.index(o) for o in operands),
        function.result,
        function.name,
        system_name=function_match.system_name,
        catalog_name=function_match.catalog_name,
    )
    aggregate = TableAggregate(_projected(rel, exprs), tuple(range(len(group))), call, place=place)
    return aggregate, scope.relations[0]


def _projected(rel: Rel, exprs: list[Rex]) -> Rel:
    """``rel`` with nothing but what the function needs."""
    if is_identity(exprs, rel) and len(exprs) == rel.width:
        return rel
    names = [rel.fields[e.index][0] if isinstance(e, InputRef) else f"$f{i}" for i, e in enumerate(exprs)]
    return Project(rel, tuple(exprs), tuple(unique_names(names)))


def _column(node: exp.Expr, scope: Scope, table_call: TableCall) -> int:
    bound_column = ExpressionBinder(scope, "an argument").bind(node) if isinstance(node, exp.Column) else None
    if not isinstance(bound_column, InputRef):
        hint = "compute it in a query: TABLE (SELECT .. AS x FROM t)"
        raise table_call.wrong(f"{table_call.name} takes columns, and this is none", node, hint=hint)
    return bound_column.index
