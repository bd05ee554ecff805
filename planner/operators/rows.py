"""Operators that look at each row by itself, or only pass rows on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from stateplan.common.types import INT, LogicalType
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.calc import Calc as CalcNode
from stateplan.execnodes.nodes.correlate import Correlate, PythonCorrelate
from stateplan.execnodes.nodes.exchange import Exchange as ExchangeNode
from stateplan.execnodes.nodes.expand import Expand as ExpandNode
from stateplan.execnodes.nodes.mini_batch_assigner import MiniBatchAssigner as MiniBatchAssignerNode
from stateplan.execnodes.nodes.mini_batch_assigner import MiniBatchInterval
from stateplan.execnodes.nodes.python_calc import PythonAsyncCalc, PythonCalc
from stateplan.execnodes.nodes.union import Union as UnionNode
from stateplan.execnodes.nodes.values import Values as ValuesNode
from stateplan.execnodes.nodes.watermark_assigner import WatermarkAssigner as WatermarkAssignerNode
from stateplan.functions.rex import InputRef, Literal, Rex, input_refs
from stateplan.planner.algebra.relations import (
    Calc,
    ChangelogNormalize,
    Exchange,
    Expand,
    MiniBatchAssigner,
    Rel,
    Union,
    Values,
    field_names,
    refs_to,
    replace_inputs,
)
from stateplan.planner.algebra.table_functions import FunctionCorrelate, is_asynchronous, is_python
from stateplan.planner.algebra.temporal import WatermarkAssigner
from stateplan.planner.digest.expressions import (
    Notation,
    call_name,
    key_names,
    physical_expression,
    record_text,
    with_name,
)
from stateplan.planner.digest.literals import calcite_type, charset, plain_literal
from stateplan.planner.expressions.ops import refs, rewrite, substitute
from stateplan.planner.metadata.unique_keys import upsert_keys
from stateplan.planner.operators.base import Lowering, Operator, delete, deleting, with_deletions
from stateplan.planner.physical import DeleteKind, Physical, UpdateKind


class ValuesOperator(Operator[Values], of=Values, node=ValuesNode):
    def describe(self, rel: Values, node: Physical, notation: Notation) -> list[str]:
        rows = ", ".join("{ " + ", ".join(_constant(v) for v in row) + " }" for row in rel.tuples)
        types = [f"type=[{record_text(rel)}]"] if notation.prefix else []
        return [*types, f"tuples=[[{rows}]]"]

    def lower(self, rel: Values, node: Physical, lowering: Lowering) -> ExecNode:
        return ValuesNode(**self.common(rel, node, lowering), tuples=rel.tuples)

    def update(self, rel: Values, node: Physical, required_kind: UpdateKind) -> Physical | None:
        return replace(node, update=required_kind) if required_kind == "NONE" else None

    def delete(self, rel: Values, node: Physical, required_kind: DeleteKind) -> Physical | None:
        return node


def _constant(literal: Literal) -> str:
    """A constant of VALUES: text with its character set."""
    if literal.value is None:
        return "null"
    return charset(literal.value) if literal.type.is_string else plain_literal(literal)


class CalcOperator(Operator[Calc], of=Calc, node=CalcNode):
    def describe(self, rel: Calc, node: Physical, notation: Notation) -> list[str]:
        names = rel.input_names or field_names(rel.input)
        select_text = ", ".join(
            with_name(notation.expression(e, names), n) for e, n in zip(rel.exprs, rel.names, strict=True)
        )
        out = [f"select=[{select_text}]"]
        if rel.condition is not None:
            out.append(f"where=[{notation.expression(rel.condition, names)}]")
        return out

    def lower(self, rel: Calc, node: Physical, lowering: Lowering) -> ExecNode:
        if not rel.python:
            return CalcNode(**self.common(rel, node, lowering), projection=rel.exprs, condition=rel.condition)
        cls = PythonAsyncCalc if is_asynchronous(rel) else PythonCalc
        return cls(**self.common(rel, node, lowering), projection=rel.exprs)

    def update(self, rel: Calc, node: Physical, required_kind: UpdateKind) -> Physical | None:
        if required_kind == "ONLY_UPDATE_AFTER" and not _keeps_key(rel):
            return None
        return super().update(rel, node, required_kind)

    def delete(self, rel: Calc, node: Physical, required_kind: DeleteKind) -> Physical | None:
        if required_kind == "DELETE_BY_KEY" and not _keeps_key(rel):
            return None
        return with_deletions(node, [deleting(node.input, required_kind)], required_kind)


def _keeps_key(calc: Calc) -> bool:
    """Whether all changes of one key meet the condition, or none."""
    used_fields = frozenset(input_refs(calc.condition)) if calc.condition is not None else frozenset()
    return calc.condition is None or any(used_fields <= k for k in upsert_keys(calc.input))


class ExpandOperator(Operator[Expand], of=Expand, node=ExpandNode):
    def describe(self, rel: Expand, node: Physical, notation: Notation) -> list[str]:
        names = field_names(rel.input)
        projects_text = (
            "{" + ", ".join(_expanded(e, n, names, notation) for e, n in zip(row, rel.names, strict=True)) + "}"
            for row in rel.projects
        )
        return [f"projects=[{', '.join(projects_text)}]"]

    def lower(self, rel: Expand, node: Physical, lowering: Lowering) -> ExecNode:
        return ExpandNode(**self.common(rel, node, lowering), projects=rel.projects)


def _expanded(rex: Rex, name: str, names: Sequence[str], notation: Notation) -> str:
    if not isinstance(rex, Literal):
        return with_name(notation.expression(rex, names), name)
    return with_name("null" if rex.value is None else plain_literal(rex), name)


class UnionOperator(Operator[Union], of=Union, node=UnionNode):
    def describe(self, rel: Union, node: Physical, notation: Notation) -> list[str]:
        return ["all=[true]", f"union=[{', '.join(field_names(node.rel))}]"]

    def delete(self, rel: Union, node: Physical, required_kind: DeleteKind) -> Physical | None:
        return with_deletions(node, [delete(i, required_kind) for i in node.inputs], required_kind)

    def lower(self, rel: Union, node: Physical, lowering: Lowering) -> ExecNode:
        return UnionNode(**self.common(rel, node, lowering))


class ExchangeOperator(Operator[Exchange], of=Exchange, node=ExchangeNode):
    passes_deletions = True

    def describe(self, rel: Exchange, node: Physical, notation: Notation) -> list[str]:
        distribution = f"hash[{key_names(rel.keys, rel.input)}]" if rel.keys else "single"
        return [f"distribution=[{distribution}]"]

    def required_keys(self, rel: Exchange) -> Sequence[Sequence[int]]:
        return (rel.keys,)

    def lower(self, rel: Exchange, node: Physical, lowering: Lowering) -> ExecNode:
        return ExchangeNode(**self.common(rel, node, lowering))


class FunctionCorrelateOperator(Operator[FunctionCorrelate], of=FunctionCorrelate, node=Correlate):
    passes_deletions = True

    def describe(self, rel: FunctionCorrelate, node: Physical, notation: Notation) -> list[str]:
        names = field_names(rel.input)
        row = ", ".join(f"{_shown_type(t)} {n}" for n, t in rel.fields)
        if rel.is_unnest:
            return _unnest(rel, row, notation)
        name = rel.call.internal_name or call_name(rel.call)
        operand_texts = [
            physical_expression(o, [f"${i}" for i in range(len(names))], bare=True) for o in rel.call.operands
        ]
        call_operands = [notation.expression(o, names, infix=False) for o in rel.call.operands]
        return [
            f"invocation=[{name}({', '.join(operand_texts)})]",
            f"correlate=[table({name}({','.join(call_operands)}))]",
            f"select=[{','.join(field_names(rel))}]",
            f"rowType=[RecordType({row})]",
            f"joinType=[{rel.join_type}]",
        ]

    def lower(self, rel: FunctionCorrelate, node: Physical, lowering: Lowering) -> ExecNode:
        if is_python(rel):
            return PythonCorrelate(
                **self.common(rel, node, lowering), join_type=rel.join_type, function_call=rel.plan_call
            )
        return Correlate(
            **self.common(rel, node, lowering),
            join_type=rel.join_type,
            function_call=rel.plan_call,
            condition=rel.condition,
        )


def _unnest(rel: FunctionCorrelate, row: str, notation: Notation) -> list[str]:
    outer = rel.row.fields if rel.row is not None else ()
    names = [f"{rel.correl}.{f.name}" for f in outer]

    def text(operand: Callable[[Rex], str]) -> str:
        return f"{rel.call.internal_name}({', '.join(map(operand, rel.call.operands))})"

    field_texts = [f"${i}" for i in range(len(rel.call.type.fields))]
    return [
        f"invocation=[{text(lambda o: physical_expression(o, names, bare=True))}]",
        f"correlate=[table({text(lambda o: notation.expression(o, names, infix=False))})]",
        f"select=[{','.join(field_names(rel))}]",
        f"rowType=[{'RecordType' if rel.input.width else 'RecordType:peek_no_expand'}({row})]",
        f"joinType=[{rel.join_type}]",
        *(
            f"condition=[{physical_expression(rewrite(c, _bare), field_texts)}]"
            for c in [rel.condition]
            if c is not None
        ),
    ]


def _bare(rex: Rex) -> Rex | None:
    """Text of exactly its length and whole numbers, which are shown without their types."""
    if not isinstance(rex, Literal) or rex.value is None:
        return None
    if rex.type.root == "BIGINT":
        return replace(rex, type=INT.not_null())
    if not rex.type.is_string:
        return None
    length = len(str(rex.value).encode("utf-16-le")) // 2
    return replace(rex, type=LogicalType("CHAR", False, length=length))


def _shown_type(t: LogicalType) -> str:
    return calcite_type(t).replace(" NOT NULL", "")


class WatermarkAssignerOperator(Operator[WatermarkAssigner], of=WatermarkAssigner, node=WatermarkAssignerNode):
    passes_deletions = True

    def describe(self, rel: WatermarkAssigner, node: Physical, notation: Notation) -> list[str]:
        names = field_names(rel)
        return [f"rowtime=[{names[rel.rowtime]}]", f"watermark=[{notation.expression(rel.watermark, names)}]"]

    def lower(self, rel: WatermarkAssigner, node: Physical, lowering: Lowering) -> ExecNode:
        return WatermarkAssignerNode(
            **self.common(rel, node, lowering), watermark_expr=rel.watermark, rowtime_field_index=rel.rowtime
        )

    def distribute(self, rel: WatermarkAssigner, inputs: Sequence[Rel]) -> Rel:
        return _before_normalization(rel, inputs[0])


def _before_normalization(assigner: WatermarkAssigner, below: Rel) -> Rel:
    """The watermarks of a table in front of the normalization of its changes
    (``WatermarkAssignerChangelogNormalizeTransposeRule``); keys that the table's columns do not hold are added."""
    if isinstance(below, ChangelogNormalize):
        assert isinstance(below.input, Exchange)
        new_assigner = replace(assigner, input=below.input.input)
        return replace(below, input=replace(below.input, input=new_assigner))
    if not isinstance(below, Calc) or not isinstance(below.input, ChangelogNormalize):
        return replace_inputs(assigner, [below])
    normalize = below.input
    assert isinstance(normalize.input, Exchange)
    field_map = {e.index: i for i, e in reversed(list(enumerate(below.exprs))) if isinstance(e, InputRef)}
    missing_keys = [k for k in normalize.key if k not in field_map]
    if missing_keys and len({*field_map, *missing_keys}) == len(below.exprs) + len(missing_keys) == normalize.width:
        return _below_permutation(assigner, below, normalize)
    exprs, names = [*below.exprs, *refs_to(normalize, missing_keys)], [*below.names]
    for k in missing_keys:
        field_map[k] = len(names)
        names.append(field_names(normalize)[k])
    calc = replace(below, input=normalize.input.input, exprs=tuple(exprs), names=tuple(names))
    key = tuple(field_map[k] for k in normalize.key)
    new_assigner = replace(assigner, input=calc)
    new = replace(normalize, input=Exchange(new_assigner, key), key=key)
    return Calc(new, tuple(refs_to(new, range(below.width))), below.names) if missing_keys else new


def _below_permutation(assigner: WatermarkAssigner, calc: Calc, normalize: ChangelogNormalize) -> Rel:
    """The watermarks in front of the normalization, and the calc behind it: all that it leaves out are keys."""
    assert isinstance(normalize.input, Exchange)
    time = refs(calc.exprs[assigner.rowtime])[0]
    watermark = substitute(assigner.watermark, list(calc.exprs))
    new_assigner = replace(assigner, input=normalize.input.input, rowtime=time, watermark=watermark)
    new = replace(normalize, input=replace(normalize.input, input=new_assigner))
    new_refs = refs_to(new)
    condition = None if calc.condition is None else substitute(calc.condition, new_refs)
    return replace(calc, input=new, exprs=tuple(substitute(e, new_refs) for e in calc.exprs), condition=condition)


class MiniBatchAssignerOperator(Operator[MiniBatchAssigner], of=MiniBatchAssigner, node=MiniBatchAssignerNode):
    passes_deletions = True

    def describe(self, rel: MiniBatchAssigner, node: Physical, notation: Notation) -> list[str]:
        return [f"interval=[{rel.interval}ms]", f"mode=[{'RowTime' if rel.rowtime else 'ProcTime'}]"]

    def lower(self, rel: MiniBatchAssigner, node: Physical, lowering: Lowering) -> ExecNode:
        interval = MiniBatchInterval(interval=rel.interval, mode="RowTime" if rel.rowtime else "ProcTime")
        return MiniBatchAssignerNode(**self.common(rel, node, lowering), mini_batch_interval=interval)
