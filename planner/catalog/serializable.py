"""An expression as Flink writes it into a catalog and into a plan (``serializableString``).

What Calcite's ``SqlNode.unparse`` gives after Flink's validator: names in backquotes, calls of built-in functions in
capitals, parentheses only where precedence needs them, ``CASE x WHEN 1`` as ``CASE WHEN x = 1``, text outside ASCII
as ``u&'..'``. Checked against what SHOW CREATE TABLE of Flink 2.3 prints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from stateplan.common.types import MAX_LENGTH, LogicalType
from stateplan.planner.catalog.objects import quote
from stateplan.planner.dialect import function_name, logical_type, nodes, to_sql
from stateplan.planner.dialect.calls import NO_PARENTHESES

# Precedence as Calcite numbers it: a larger one binds tighter.
_OPERATORS: dict[type[exp.Expr], tuple[str, int]] = {
    exp.Or: ("OR", 22),
    exp.And: ("AND", 24),
    exp.EQ: ("=", 30),
    exp.NEQ: ("<>", 30),
    exp.LT: ("<", 30),
    exp.LTE: ("<=", 30),
    exp.GT: (">", 30),
    exp.GTE: (">=", 30),
    exp.NullSafeNEQ: ("IS DISTINCT FROM", 30),
    exp.NullSafeEQ: ("IS NOT DISTINCT FROM", 30),
    exp.Add: ("+", 40),
    exp.Sub: ("-", 40),
    exp.Mul: ("*", 60),
    exp.Div: ("/", 60),
    exp.Mod: ("%", 60),
    exp.DPipe: ("||", 60),
}
_NOT, _IS, _RANGE, _SIGN, _TIGHT = 26, 28, 32, 80, 100

_Piece = tuple[str, int]


def serializable_sql(node: exp.Expr) -> str:
    """The text of ``node`` in Flink's serializable form."""
    return _piece(node)[0]


def _piece(node: exp.Expr) -> _Piece:
    """Text and precedence of what is outermost in it."""
    if isinstance(node, exp.Paren):
        return _piece(node.this)
    operator = _OPERATORS.get(type(node))
    if operator is not None:
        word, strength = operator
        return f"{_inside(node.this, strength)} {word} {_inside(node.expression, strength + 1)}", strength
    writer = _WRITERS.get(type(node))
    if writer is not None:
        return writer(node)
    return to_sql(node), _TIGHT


def _inside(node: exp.Expr, least: int) -> str:
    """``node``, in parentheses when it binds less tightly than ``least``."""
    text, strength = _piece(node)
    return text if strength >= least else f"({text})"


def _column(node: exp.Column) -> _Piece:
    return ".".join("*" if isinstance(p, exp.Star) else quote(p.name) for p in node.parts), _TIGHT


def _dot(node: exp.Dot) -> _Piece:
    return f"{_inside(node.this, _TIGHT)}.{quote(node.expression.name)}", _TIGHT


def _literal(node: exp.Literal) -> _Piece:
    if not node.is_string:
        return node.name.upper(), _TIGHT
    text = node.name
    if text.isascii():
        return "'" + text.replace("'", "''") + "'", _TIGHT
    units = text.encode("utf-16-be")
    out = ""
    for i in range(0, len(units), 2):
        code = units[i] << 8 | units[i + 1]
        out += {0x27: "''", 0x5C: "\\\\"}.get(code, chr(code)) if 0x20 <= code < 0x7F else f"\\{code:04x}"
    return f"u&'{out}'", _TIGHT


def _call(node: exp.Anonymous) -> _Piece:
    name = function_name(node)
    arguments = node.expressions
    texts = [serializable_sql(a) for a in arguments]
    if node.meta.get("brackets"):
        return f"{name}[{', '.join(texts)}]", _TIGHT
    if not arguments and name in NO_PARENTHESES:
        return name, _TIGHT
    if name == "NULLIF" and len(arguments) == 2:
        return (
            f"CASE WHEN {_inside(arguments[0], 30)} = {_inside(arguments[1], 31)} THEN NULL ELSE {texts[0]} END",
            _TIGHT,
        )
    if name == "TRIM":
        texts = ["BOTH", "' '", *texts] if len(texts) == 1 else texts
        return f"TRIM({texts[0]} {texts[1]} FROM {texts[2]})", _TIGHT
    form = _FORMS.get((name, len(texts)))
    if form and (name not in ("CEIL", "FLOOR") or isinstance(arguments[1], exp.Var)):
        return form.format(*texts), _TIGHT
    if name.startswith("JSON_"):
        return to_sql(node), _TIGHT
    return f"{quote(name) if name in _QUOTED_FUNCTIONS else name}({', '.join(texts)})", _TIGHT


_QUOTED_FUNCTIONS = frozenset({"TO_TIMESTAMP_LTZ", "SOURCE_WATERMARK", "CURRENT_WATERMARK"})
"""Functions that Calcite has no operator of its own for (``BridgingSqlFunction``): their names are quoted."""

_FORMS: dict[tuple[str, int], str] = {
    ("EXTRACT", 2): "EXTRACT({0} FROM {1})",
    ("CEIL", 2): "CEIL({0} TO {1})",
    ("FLOOR", 2): "FLOOR({0} TO {1})",
    ("POSITION", 2): "POSITION({0} IN {1})",
    ("POSITION", 3): "POSITION({0} IN {1} FROM {2})",
    ("OVERLAY", 3): "OVERLAY({0} PLACING {1} FROM {2})",
    ("OVERLAY", 4): "OVERLAY({0} PLACING {1} FROM {2} FOR {3})",
}


def _cast(node: exp.Cast) -> _Piece:
    word = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
    return f"{word}({serializable_sql(node.this)} AS {_type(logical_type(node.args['to']))})", _TIGHT


def _type(logical: LogicalType) -> str:
    if logical.root == "ROW":
        fields = ", ".join(f"{quote(f.name)} {_type(f.type)}" for f in logical.fields)
        text = f"ROW< {fields} >"
    elif logical.children:
        text = f"{logical.root}< {', '.join(_type(c) for c in logical.children)} >"
    else:
        text = logical.as_nullable().summary()
        text = {"INT": "INTEGER"}.get(text, text)
    if logical.root in ("VARCHAR", "VARBINARY") and logical.length == MAX_LENGTH:
        text = "STRING" if logical.root == "VARCHAR" else "BYTES"
    return text + ("" if logical.nullable else " NOT NULL")


def _case(node: exp.Case) -> _Piece:
    subject = node.args.get("this")
    out = "CASE"
    for branch in node.args["ifs"]:
        condition = branch.this
        if subject is None:
            text = serializable_sql(condition)
        elif isinstance(condition, exp.Tuple):
            text = f"{_inside(subject, _RANGE)} IN ({', '.join(serializable_sql(e) for e in condition.expressions)})"
        else:
            text = f"{_inside(subject, 30)} = {_inside(condition, 31)}"
        out += f" WHEN {text} THEN {serializable_sql(branch.args['true'])}"
    default = node.args.get("default")
    return f"{out} ELSE {'NULL' if default is None else serializable_sql(default)} END", _TIGHT


def _not(node: exp.Not) -> _Piece:
    inner = node.this
    if isinstance(inner, exp.Is):
        return f"{_inside(inner.this, _IS)} IS NOT {to_sql(inner.expression)}", _IS
    if isinstance(inner, (exp.In, exp.Between, exp.Like, exp.SimilarTo, exp.Escape)):
        return _range(inner, "NOT ")
    return f"NOT {_inside(inner, _NOT)}", _NOT


def _range(node: exp.Expr, negation: str = "") -> _Piece:
    if isinstance(node, exp.Escape):
        return f"{_range(node.this, negation)[0]} ESCAPE {_inside(node.expression, _RANGE)}", _RANGE
    left = _inside(node.this, _RANGE)
    if isinstance(node, exp.Between):
        kind = "SYMMETRIC" if node.args.get("symmetric") else "ASYMMETRIC"
        low, high = (_inside(node.args[k], _RANGE) for k in ("low", "high"))
        return f"{left} {negation}BETWEEN {kind} {low} AND {high}", _RANGE
    if isinstance(node, exp.In):
        if node.args.get("query") is not None:
            return to_sql(node), _RANGE
        return f"{left} {negation}IN ({', '.join(serializable_sql(e) for e in node.expressions)})", _RANGE
    word = "LIKE" if isinstance(node, exp.Like) else "SIMILAR TO"
    return f"{left} {negation}{word} {_inside(node.expression, _RANGE + 1)}", _RANGE


_WRITERS: dict[type[exp.Expr], Callable[[Any], _Piece]] = {
    exp.Column: _column,
    exp.Dot: _dot,
    exp.Literal: _literal,
    exp.Anonymous: _call,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Case: _case,
    exp.Not: _not,
    exp.Is: lambda node: (f"{_inside(node.this, _IS)} IS {to_sql(node.expression)}", _IS),
    exp.In: _range,
    exp.Between: _range,
    exp.Like: _range,
    exp.SimilarTo: _range,
    exp.Escape: _range,
    exp.Neg: lambda node: (
        (to_sql(node), _TIGHT) if isinstance(node.this, exp.Interval) else (f"- {_inside(node.this, _SIGN)}", _SIGN)
    ),
    exp.Tuple: lambda node: (f"ROW({', '.join(serializable_sql(e) for e in node.expressions)})", _TIGHT),
    exp.Bracket: lambda node: (
        f"{_inside(node.this, _TIGHT)}[{', '.join(serializable_sql(e) for e in node.expressions)}]",
        _TIGHT,
    ),
    nodes.TypedLiteral: lambda node: (to_sql(node), _TIGHT),
}
