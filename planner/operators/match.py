"""MATCH_RECOGNIZE."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.match import Match as MatchNode
from stateplan.execnodes.nodes.match import MatchSpec
from stateplan.execnodes.ranking import PartitionSpec
from stateplan.functions.rex import Call, FieldAccess, Literal, PatternInputRef, Rex
from stateplan.functions.typerules import same_type
from stateplan.planner.algebra.match import Match
from stateplan.planner.algebra.relations import field_names
from stateplan.planner.digest.expressions import Notation, call_name, key_names, order_text
from stateplan.planner.digest.literals import calcite_type, charset, full_type, plain_literal, typed_literal
from stateplan.planner.digest.logical_expressions import SHARED_TYPES
from stateplan.planner.operators.base import Lowering, Operator
from stateplan.planner.operators.ranking import sort_spec
from stateplan.planner.physical import Physical


class MatchOperator(Operator[Match], of=Match, node=MatchNode, clause="MATCH_RECOGNIZE"):
    hint_fields = ("hint",)
    key_field = "partition"

    def describe(self, rel: Match, node: Physical, notation: Notation) -> list[str]:
        names = field_names(rel.input)
        measures = ", ".join(f"{_measure(e, names)} AS {n}" for n, e in rel.measures)
        defines = ", ".join(f"{n}={_condition(e)}" for n, e in rel.defines)
        return [
            *([f"partitionBy=[{key_names(rel.partition, rel.input)}]"] if rel.partition else []),
            f"orderBy=[{order_text(rel.order, rel.input)}]",
            f"measures=[{measures}]",
            "rowsPerMatch=[ONE ROW PER MATCH]",
            f"after=[{_after(rel.after)}]",
            f"pattern=[{_pattern(rel.pattern)}]",
            f"define=[{{{defines}}}]",
        ]

    def lower(self, rel: Match, node: Physical, lowering: Lowering) -> ExecNode:
        spec = MatchSpec(
            pattern=rel.pattern,
            pattern_definitions=dict(sorted(rel.defines)),
            measures=dict(sorted(rel.measures)),
            after=rel.after,
            subsets={},
            all_rows=False,
            partition=PartitionSpec(fields=rel.partition),
            order_by=sort_spec(rel.order),
            interval=rel.interval,
        )
        return MatchNode(**self.common(rel, node, lowering), match_spec=spec)

    def waits_for_watermarks(self, rel: Match) -> bool:
        return rel.input.fields[rel.order[0][0]][1].kind == "ROWTIME"


def _measure(rex: Rex, names: Sequence[str]) -> str:
    """A measure, over input fields ``names``."""
    if isinstance(rex, PatternInputRef):
        return f"{rex.alpha}.{names[rex.index]}"
    if isinstance(rex, Literal):
        return plain_literal(rex)
    if isinstance(rex, FieldAccess):
        return f"{_measure(rex.expr, names)}.{rex.name}"
    op, operands = call_name(rex), [_measure(c, names) for c in rex.children]
    if op in ("CAST", "TRY_CAST"):
        return f"{op}({operands[0]} AS {calcite_type(rex.type).replace(' NOT NULL', '')})"
    return f"{_operator_text(op)}({', '.join(operands)})"


def _condition(rex: Rex) -> str:
    """A condition as Calcite shows row expressions."""
    if isinstance(rex, PatternInputRef):
        return f"{rex.alpha}.${rex.index}"
    if isinstance(rex, Literal):
        return typed_literal(rex)
    if isinstance(rex, FieldAccess):
        return f"{_condition(rex.expr)}.{rex.name}"
    op, operands = call_name(rex), list(rex.children)
    texts = [_condition(c) for c in operands]
    if op in SHARED_TYPES and len(operands) == 2:
        pairs = zip(operands, reversed(operands), texts, strict=True)
        texts = [_untyped(o, text) if _says_type(other, o) else text for o, other, text in pairs]
    if op in ("CAST", "TRY_CAST"):
        return f"{op}({texts[0]}):{full_type(rex.type)}{'' if rex.type.nullable else ' NOT NULL'}"
    return f"{_operator_text(op)}({', '.join(texts)})"


def _says_type(other: Rex, rex: Rex) -> bool:
    return isinstance(rex, Literal) and not isinstance(other, Literal) and same_type(rex.type, other.type)


def _untyped(rex: Rex, text: str) -> str:
    if not isinstance(rex, Literal) or rex.value is None:
        return text
    return charset(rex.value) if rex.type.is_string else plain_literal(rex)


def _operator_text(op: str) -> str:
    return "-" if op == "NEGATE" else op


def _pattern(rex: Rex) -> str:
    if isinstance(rex, Literal):
        return charset(rex.value) if rex.type.is_string else plain_literal(rex)
    name = "" if isinstance(rex, Call) and rex.sql_kind == "PATTERN_CONCAT" else call_name(rex)
    return f"{name}({', '.join(map(_pattern, rex.children))})"


def _after(rex: Rex) -> str:
    if isinstance(rex, Literal):
        return str(rex.value).replace("_", " ")
    return f"{call_name(rex)} {_pattern(rex.children[0])}"
