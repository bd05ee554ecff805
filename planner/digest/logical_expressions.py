"""Expressions as Flink's ``== Abstract Syntax Tree ==`` writes them: fields by position, operators in prefix form.

Source: Calcite's ``RexCall.computeDigest``, ``RexLiteral``, ``RexWindow`` and ``RexSubQuery``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.functions.rex import Call, FieldAccess, InputRef, Literal, PatternInputRef, Rex
from stateplan.functions.typerules import same_type
from stateplan.planner.algebra.over_frames import Bound, Frame
from stateplan.planner.algebra.relations import Rel
from stateplan.planner.digest.expressions import call_name
from stateplan.planner.digest.literals import calcite_type, charset, full_type, plain_literal, typed_literal
from stateplan.planner.expressions.ops import COMPARISONS, RANKING, Over, SubQuery, outer_of

SHARED_TYPES = frozenset({*COMPARISONS, "+", "-", "*", "/"})
"""Operators whose constants are shown without the type that the other operand has as well."""

_UNFRAMED = frozenset({*RANKING, "LAG"})
"""Window functions that have no frame."""

_NAMES = {"NEGATE": "-", "REINTERPRET": "Reinterpret"}


@dataclass(frozen=True)
class LogicalNotation:
    """How expressions over a relation are written.

    Attributes:
        field: a field by its position.
        outer: a field of the row around a subquery, by the number of the subquery and the position.
        tree: the relation of a query inside an expression.
    """

    field: Callable[[int], str]
    outer: Callable[[int, int], str]
    tree: Callable[[Rel], str]

    def text(self, rex: Rex) -> str:
        """``rex`` as Calcite writes it."""
        if isinstance(rex, InputRef):
            return self.field(rex.index)
        if isinstance(rex, Literal):
            return typed_literal(rex)
        if isinstance(rex, FieldAccess):
            around = outer_of(rex)
            return f"{self.text(rex.expr)}.{rex.name}" if around is None else self.outer(*around)
        if isinstance(rex, Over):
            return self._over(rex)
        if isinstance(rex, SubQuery):
            return self._subquery(rex)
        if isinstance(rex, PatternInputRef):
            return f"{rex.alpha}.${rex.index}"
        return self._call(rex)

    def _call(self, rex: Rex) -> str:
        if isinstance(rex, Call) and rex.sql_kind == "PATTERN_CONCAT":
            return f"({', '.join(map(self.text, rex.operands))})"
        name = _NAMES.get(call_name(rex), call_name(rex))
        if name == "CAST" and _is_sum(rex.children[0]) and same_type(rex.type, rex.children[0].type):
            return self.text(rex.children[0])  # CASE makes its results of one type, which Calcite does without
        if isinstance(rex, Call) and rex.syntax == "FUNCTION_ID" and not rex.operands:
            return name
        operands = [self._operand(rex, name, i) for i in range(len(rex.children))]
        call_text = f"{name}({', '.join(operands)})"
        return f"{call_text}:{_full(rex.type)}" if name == "CAST" else call_text

    def _operand(self, rex: Rex, name: str, position: int) -> str:
        operand = rex.children[position]
        if not isinstance(operand, Literal):
            return self.text(operand)
        if name in ("AND", "OR"):
            return value(operand)
        if name in SHARED_TYPES and len(rex.children) == 2:
            other = rex.children[1 - position]
            says = not isinstance(other, Literal) or typed_literal(other) == value(other)
            if says and same_type(operand.type, other.type):
                return value(operand)
        return typed_literal(operand)

    def _over(self, rex: Over) -> str:
        arguments = ", ".join(self.text(o) for o in rex.operands)
        parts = []
        if rex.partition:
            parts.append("PARTITION BY " + ", ".join(self.text(e) for e in rex.partition))
        if rex.order:
            parts.append("ORDER BY " + ", ".join(self._collation(*o) for o in rex.order))
        frame = _frame_text(rex.frame) if rex.order and rex.function not in _UNFRAMED else ""
        window = " ".join([*parts, *([frame] if frame else [])])
        return f"{rex.function}({'DISTINCT ' if rex.distinct else ''}{arguments}) OVER ({window})"

    def _collation(self, rex: Rex, ascending: bool, last: bool) -> str:
        return f"{self.text(rex)}{'' if ascending else ' DESC'} NULLS {'LAST' if last else 'FIRST'}"

    def _subquery(self, rex: SubQuery) -> str:
        name = {"SCALAR": "$SCALAR_QUERY", "SOME": f"{rex.comparison} SOME"}.get(rex.operator, rex.operator)
        operands = "".join(f"{self.text(o)}, " for o in rex.operands)
        return f"{name}({operands}{{\n{self.tree(rex.rel)}}})"


def _is_sum(rex: Rex) -> bool:
    return isinstance(rex, Over) and rex.function == "$SUM0"


def _frame_text(frame: Frame) -> str:
    lower, upper = frame.lower, frame.upper
    if lower.kind == "UNBOUNDED_PRECEDING" and upper.kind == "CURRENT_ROW" and not frame.rows:
        return ""
    word = "ROWS" if frame.rows else "RANGE"
    if upper.kind == "CURRENT_ROW":
        return f"{word} {_bound(lower)}"
    return f"{word} BETWEEN {_bound(lower)} AND {_bound(upper)}"


def _bound(bound: Bound) -> str:
    words = bound.kind.replace("_", " ")
    return words if bound.offset is None else f"{typed_literal(bound.offset)} {words}"


def value(literal: Literal) -> str:
    """A constant whose type is known from elsewhere."""
    if literal.value is None and literal.sarg is None:
        return "null"
    return charset(literal.value) if literal.type.is_string else plain_literal(literal)


def record(fields: Iterable[tuple[str, LogicalType]]) -> str:
    """A row type as Calcite writes it."""
    return f"RecordType({', '.join(f'{calcite_type(t)} {n}' for n, t in fields)})"


def _full(t: LogicalType) -> str:
    return full_type(t) + ("" if t.nullable else " NOT NULL")
