"""FROM with a table aggregate function: ``f(TABLE t PARTITION BY k, DESCRIPTOR(x, y))``.

Source: the syntax of functions over tables with set semantics (FLIP-440). Flink's SQL has no way to call a table
aggregate function; this one is ours.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from stateplan.execnodes.errors import SqlError, nearest
from stateplan.execnodes.functions.user import UserFunction
from stateplan.execnodes.rex import InputRef, Rex
from stateplan.planner.algebra.relations import AggCall, Project, Rel, is_identity, refs_to, unique_names
from stateplan.planner.algebra.table_aggregates import TableAggregate
from stateplan.planner.binding.expressions import ExpressionBinder
from stateplan.planner.binding.scope import Relation, Scope
from stateplan.planner.binding.user_functions import fitted
from stateplan.planner.catalog.functions import FoundFunction, require_kind
from stateplan.planner.dialect import function_name, nodes
from stateplan.planner.positions import place_of

_ARGUMENTS = ("input", "args")


def bind_table_aggregate(
    found: FoundFunction,
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
    function = require_kind(found, "TABLE_AGGREGATE", place, "in FROM over a table")
    given = _arguments(node, function, source)
    argument = given.get("input")
    if not isinstance(argument, (nodes.TableArgument, exp.Subquery)):
        raise _wrong(f"the first argument of {function.name} must be a table", argument or node, source, function)
    if argument.args.get("order"):
        raise _wrong(f"the table of {function.name} cannot be ordered", argument.args["order"], source, function)
    rel, scope = table(argument if isinstance(argument, exp.Subquery) else argument.this)
    keys = [_column(k, scope, source, function) for k in argument.args.get("partition_by") or ()]
    columns = [_column(c, scope, source, function) for c in _descriptor(given.get("args"), source, function)]
    operands = fitted(found, refs_to(rel, columns), place)
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
        system_name=found.system_name,
        catalog_name=found.catalog_name,
    )
    made = TableAggregate(_projected(rel, exprs), tuple(range(len(group))), call, place=place)
    return made, scope.relations[0]


def _projected(rel: Rel, exprs: list[Rex]) -> Rel:
    """``rel`` with nothing but what the function needs."""
    if is_identity(exprs, rel) and len(exprs) == rel.width:
        return rel
    names = [rel.fields[e.index][0] if isinstance(e, InputRef) else f"$f{i}" for i, e in enumerate(exprs)]
    return Project(rel, tuple(exprs), tuple(unique_names(names)))


def _wrong(what: str, where: exp.Expr, source: str, function: UserFunction, hint: str | None = None) -> SqlError:
    expected = f"{function.name}(TABLE t PARTITION BY k, DESCRIPTOR(x, ..))"
    return SqlError("SQL119", problem=what, place=place_of(where, source), expected=expected, hint=hint)


def _arguments(node: exp.Anonymous, function: UserFunction, source: str) -> dict[str, exp.Expr]:
    out: dict[str, exp.Expr] = {}
    for position, argument in enumerate(node.expressions):
        named = isinstance(argument, exp.Kwarg)
        if not named and position >= len(_ARGUMENTS):
            raise _wrong(f"{function.name} has too many arguments", argument, source, function)
        key = argument.this.name if named else _ARGUMENTS[position]
        if key not in _ARGUMENTS or key in out:
            what = f"'{key}' comes twice" if key in out else f"{function.name} has no argument '{key}'"
            raise _wrong(what, argument, source, function, nearest(key, _ARGUMENTS))
        out[key] = argument.expression if named else argument
    return out


def _descriptor(node: exp.Expr | None, source: str, function: UserFunction) -> list[exp.Expr]:
    if node is None:
        return []
    if isinstance(node, exp.Anonymous) and function_name(node) == "DESCRIPTOR" and node.expressions:
        return list(node.expressions)
    raise _wrong(f"{function.name} takes the columns that it aggregates as a descriptor", node, source, function)


def _column(node: exp.Expr, scope: Scope, source: str, function: UserFunction) -> int:
    found = ExpressionBinder(scope, "an argument").bind(node) if isinstance(node, exp.Column) else None
    if not isinstance(found, InputRef):
        raise _wrong(
            f"{function.name} takes columns, and this is none",
            node,
            source,
            function,
            "compute it in a query: TABLE (SELECT .. AS x FROM t)",
        )
    return found.index
