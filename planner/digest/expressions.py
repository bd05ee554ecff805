"""The texts by which Flink's plans describe expressions, aggregate calls and orders.

Source: Flink's ``RelExplainUtil`` and ``FlinkRexUtil``; Calcite's ``RexLiteral``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stateplan.common.lazy_dataclass import dataclass
from stateplan.functions.rex import Call, FieldAccess, InputRef, Literal, Rex
from stateplan.planner.algebra.relations import AggCall, Order, Rel, field_names
from stateplan.planner.digest.literals import calcite_type, full_type, plain_literal, typed_literal
from stateplan.planner.expressions.ops import kind

_INFIX = frozenset({"=", "<>", "<", "<=", ">", ">=", "AND", "OR", "+", "-", "*", "/", "/INT"})


_POSTFIX = frozenset({"IS NULL", "IS NOT NULL", "IS TRUE", "IS FALSE", "IS NOT TRUE", "IS NOT FALSE"})


_CASTS = frozenset({"CAST", "TRY_CAST"})


@dataclass(frozen=True)
class Notation:
    """How descriptions write expressions: as plans do (``(a > 1)``), or in prefix form (``>(a, 1)``), as EXPLAIN's
    physical plan does."""

    prefix: bool

    def expression(self, rex: Rex, names: Sequence[str], infix: bool = True) -> str:
        """``rex`` in the description of an operator whose input fields are ``names``.

        Args:
            infix: whether operators are between their operands; those of a table function are before them.
        """
        if self.prefix:
            return physical_expression(rex, names)
        if isinstance(rex, InputRef):
            return names[rex.index]
        if isinstance(rex, Literal):
            return plain_literal(rex)
        if isinstance(rex, FieldAccess):
            return f"{self.expression(rex.expr, names, infix)}.{rex.name}"
        op = call_name(rex)
        operands = [self.expression(c, names, infix) for c in rex.children]
        if op in _CASTS and isinstance(rex, Call):
            target = calcite_type(rex.type)
            return f"{op}({operands[0]} AS {target if self.prefix else target.replace(' NOT NULL', '')})"
        if infix and op in _POSTFIX:
            return f"{operands[0]} {op}"
        if infix and op in _INFIX and len(operands) > 1:
            return "(" + f" {op} ".join(operands) + ")"
        return f"{_operator(op)}({', '.join(operands)})"

    def conjunction(self, texts: Sequence[str]) -> str:
        """Conditions that all hold."""
        if len(texts) == 1:
            return texts[0]
        return f"AND({', '.join(texts)})" if self.prefix else f"({' AND '.join(texts)})"


OF_PLAN, OF_PHYSICAL_PLAN = Notation(prefix=False), Notation(prefix=True)


def call_name(rex: Rex) -> str:
    """The name of a call; of a user-defined function without its database."""
    if isinstance(rex, Call) and rex.catalog_name is not None:
        return rex.catalog_name.rpartition("`.`")[2].rstrip("`")
    return kind(rex)


def _operator(op: str) -> str:
    return {"NEGATE": "-", "REINTERPRET": "Reinterpret"}.get(op, op)


def physical_expression(rex: Rex, names: Sequence[str], *, bare: bool = False) -> str:
    """``rex`` in prefix form, over input fields ``names``: in the filter of a scan, and in EXPLAIN's physical plan.

    Args:
        bare: CAST as Calcite writes it: ``CAST(a):BIGINT``.
    """
    if isinstance(rex, InputRef):
        return names[rex.index]
    if isinstance(rex, Literal):
        return typed_literal(rex)
    if isinstance(rex, FieldAccess):
        return f"{physical_expression(rex.expr, names, bare=bare)}.{rex.name}"
    op = call_name(rex)
    operands = [physical_expression(c, names, bare=bare) for c in rex.children]
    if op in _CASTS:
        suffix = "" if rex.type.nullable else " NOT NULL"
        target = full_type(rex.type) + suffix
        return f"{op}({operands[0]}):{target}" if bare else f"{op}({operands[0]} AS {target})"
    return f"{_operator(op)}({', '.join(operands)})"


def call_text(c: AggCall, names: Sequence[str], retract: bool) -> str:
    """An aggregate call over fields ``names``."""
    arguments = ", ".join(names[a] for a in c.args) or "*"
    text = f"{c.function}{'_RETRACT' if retract else ''}({'DISTINCT ' if c.distinct and c.args else ''}{arguments})"
    return text + (f" FILTER {names[c.filter]}" if c.filter >= 0 else "")


JOIN_NAMES = {
    "INNER": "InnerJoin",
    "LEFT": "LeftOuterJoin",
    "RIGHT": "RightOuterJoin",
    "FULL": "FullOuterJoin",
    "SEMI": "LeftSemiJoin",
    "ANTI": "LeftAntiJoin",
}


def order_text(order: Order, rel: Rel) -> str:
    names = field_names(rel)
    return ", ".join(f"{names[i]} {'ASC' if ascending else 'DESC'}" for i, ascending, _ in order)


def with_name(text: str, name: str) -> str:
    """``text AS name``; the name alone where both are the same."""
    return text if text == name else f"{text} AS {name}"


def record_text(rel: Rel) -> str:
    """The row type of ``rel`` as Calcite writes it."""
    return "RecordType(" + ", ".join(f"{calcite_type(t)} {n}" for n, t in rel.fields) + ")"


def key_names(keys: Iterable[int], rel: Rel) -> str:
    """The names of the fields ``keys`` of ``rel``."""
    names = field_names(rel)
    return ", ".join(names[k] for k in keys)
