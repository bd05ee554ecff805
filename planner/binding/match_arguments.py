"""Arguments of LAST, FIRST, PREV and NEXT in MATCH_RECOGNIZE, as Calcite reads them.

Source: Calcite's ``SqlValidatorImpl.PatternValidator``, which takes constants for variables unless they are the last
operand of a call, and ``NavigationExpander``, which cannot be applied to calls with operands that are not expressions.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from stateplan.planner.dialect import function_name, nodes
from stateplan.planner.positions import bare

ANY_VARIABLE = "*"
"""The variable of a column that is written without one."""

_CONSTANTS = (exp.Literal, nodes.TypedLiteral, exp.Interval, exp.Boolean, exp.HexString)
_INDIVISIBLE: dict[type[exp.Expr], str] = {exp.Case: "CASE", exp.Cast: "CAST", exp.TryCast: "TRY_CAST", exp.In: "IN"}
_REWRITTEN_FUNCTIONS = (
    *("NULLIF", "YEAR", "QUARTER", "MONTH", "WEEK", "DAYOFYEAR", "DAYOFMONTH", "DAYOFWEEK"),
    *("HOUR", "MINUTE", "SECOND"),
)
"""Functions that Calcite writes as CASE or EXTRACT."""


def is_constant(node: exp.Expr) -> bool:
    """Whether it is a constant, perhaps with a sign."""
    return isinstance(node, _CONSTANTS) or (isinstance(node, exp.Neg) and is_constant(bare(node.this)))


def indivisible_name(node: exp.Expr) -> str | None:
    """What a call is whose operands cannot be taken from another row one by one; None for others."""
    if type(node) in _INDIVISIBLE:
        return _INDIVISIBLE[type(node)]
    if not isinstance(node, exp.Anonymous):
        return None
    name = function_name(node)
    with_unit = name != "TRIM" and any(isinstance(e, exp.Var) for e in node.expressions)
    return name if name in _REWRITTEN_FUNCTIONS or with_unit else None


def taken_for_variables(node: exp.Expr, variables: Sequence[str]) -> dict[str, None]:
    """The variables of the columns in an argument, and the constants that are taken for variables, in order."""
    return _argument_variables(node, variables, True)


def _argument_variables(node: exp.Expr, variables: Sequence[str], counts: bool) -> dict[str, None]:
    """Likewise, of a part of an argument.

    Args:
        counts: whether a constant is taken for a variable here.
    """
    node = bare(node)
    if isinstance(node, exp.Column):
        first = next(p for p in (node.args.get(k) for k in ("catalog", "db", "table", "this")) if p)
        return {first.name if first.name in variables and first is not node.this else ANY_VARIABLE: None}
    if is_constant(node) or isinstance(node, exp.Var):
        return {_text(node): None} if counts else {}
    out: dict[str, None] = {}
    operands = _operands(node)
    for i, operand in enumerate(operands):
        out |= _argument_variables(operand, variables, len(operands) == 1 or i < len(operands) - 1)
    return out


def _text(node: exp.Expr) -> str:
    if isinstance(node, exp.Neg):
        return f"-{_text(bare(node.this))}"
    if isinstance(node, exp.Boolean):
        return str(bool(node.args.get("this"))).upper()
    return node.name or _text(node.this)


def _operands(node: exp.Expr) -> list[exp.Expr]:
    """The operands of a call in Calcite's order; of a list of operands, its last one."""
    if isinstance(node, exp.Anonymous):
        arguments = list(node.expressions)
        is_short = function_name(node) == "TRIM" and len(arguments) == 1
        return [exp.Var(this="BOTH"), exp.Literal.string(" "), *arguments] if is_short else arguments
    if isinstance(node, exp.Case):
        last = node.args["ifs"][-1]
        test = last.this if node.this is None else exp.EQ(this=node.this.copy(), expression=last.this.copy())
        return [test, last.args["true"], node.args.get("default") or exp.Null()]
    if isinstance(node, (exp.Is, exp.Not, exp.Neg)):
        return [node.this]
    if isinstance(node, exp.Escape):
        return [node.this.this, node.this.expression, node.expression]
    if isinstance(node, (exp.Cast, exp.TryCast)):
        return [node.this, exp.Null()]
    if isinstance(node, exp.In):
        return [node.this, *node.expressions[-1:]]
    return list(node.iter_expressions())
