"""Functions from tables to tables as operators: process table functions, ``FROM_CHANGELOG`` and ``TO_CHANGELOG``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateplan.common.changelog import RowKind
from stateplan.common.errors import SqlError
from stateplan.common.types import STRING, LogicalType
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.process_table_function import ProcessTableFunction
from stateplan.execnodes.specs import StateMetadata
from stateplan.functions.process import ArgumentTrait
from stateplan.functions.rex import Call, Literal, Rex, TableArgument
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.relations import ChangelogFunction, Rel, rel_type
from stateplan.planner.algebra.table_functions import ProcessTable, TableInput
from stateplan.planner.digest.expressions import Notation, physical_expression, record_text
from stateplan.planner.digest.literals import charset
from stateplan.planner.metadata.unique_keys import upsert_keys
from stateplan.planner.operators.base import (
    ALL,
    INSERT,
    Lowering,
    Operator,
    TtlOrigin,
    deleting,
    exchanged,
    insert_only,
    rebuilt,
    update,
    with_deletions,
)
from stateplan.planner.physical import DeleteKind, Kinds, Physical, UpdateKind, changelog_mode, kinds_of

_DESCRIPTOR = LogicalType("DESCRIPTOR")


def _hint_ttl(rel: ProcessTable) -> int | None:
    """The TTL that a hint gives all states, ms; None for none."""
    return None if rel.hint is None else rel.hint.ttl


class ProcessTableOperator(Operator[ProcessTable], of=ProcessTable, node=ProcessTableFunction):
    def describe(self, rel: ProcessTable, node: Physical, notation: Notation) -> list[str]:
        return _call_details(rel, rel.identifier)

    def lower(self, rel: ProcessTable, node: Physical, lowering: Lowering) -> ExecNode:
        call = replace(rel.function_match.call(_operands(rel)), type=rel_type(rel).not_null())
        names = [s.name for s in rel.process.states]
        return ProcessTableFunction(
            **self.common(rel, node, lowering),
            uid=rel.identifier,
            function_call=call,
            input_changelog_modes=tuple(changelog_mode(i) for i in node.inputs),
            output_changelog_mode=changelog_mode(node),
            state=tuple(StateMetadata(index=i, ttl=0, name=name) for i, name in enumerate(names)),
        )

    def state_hints(self, rel: ProcessTable) -> Sequence[InputHint | None]:
        hint_ttl = _hint_ttl(rel)
        late = None if rel.hint is None else rel.hint.late
        return [InputHint(s.ttl if hint_ttl is None else hint_ttl, late) for s in rel.process.states]

    def late_hints(self, rel: ProcessTable) -> Sequence[InputHint | None]:
        return [rel.hint]

    def ttl_origin(self, rel: ProcessTable) -> TtlOrigin:
        return "function" if _hint_ttl(rel) is None else "hint"

    def identifier(self, rel: ProcessTable) -> str | None:
        return rel.identifier

    def provided(self, rel: ProcessTable, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        for table, source in zip(rel.tables, inputs, strict=True):
            if not table.argument.has(ArgumentTrait.SUPPORT_UPDATES):
                name = f"the table '{table.argument.name}' of {rel.function_match.function.name}"
                insert_only(name, [source], rel.place)
            elif table.order and not source.is_insert_only:
                insert_only(f"ORDER BY in the table '{table.argument.name}'", [source], rel.place)
        return kinds_of(rel.process.mode)

    def update(self, rel: ProcessTable, node: Physical, required_kind: UpdateKind) -> Physical | None:
        old_rows = RowKind.UPDATE_BEFORE in rel.process.mode
        if required_kind == "ONLY_UPDATE_AFTER" and old_rows:
            return None
        if required_kind == "BEFORE_AND_AFTER" and not old_rows:
            raise SqlError("SQL217", name=rel.function_match.function.name, place=rel.place)
        inputs = [_updating(table, source) for table, source in zip(rel.tables, node.inputs, strict=True)]
        return rebuilt(node, inputs, required_kind)

    def delete(self, rel: ProcessTable, node: Physical, required_kind: DeleteKind) -> Physical | None:
        inputs: list[Physical | None] = []
        for table, source in zip(rel.tables, node.inputs, strict=True):
            new_source = None
            if not table.argument.has(ArgumentTrait.REQUIRE_FULL_DELETE):
                new_source = deleting(source, "DELETE_BY_KEY")
            inputs.append(new_source or deleting(source, "FULL_DELETE"))
        return with_deletions(node, inputs, "FULL_DELETE")

    def distribute(self, rel: ProcessTable, inputs: Sequence[Rel]) -> Rel:
        if not rel.process.has_sets:
            return replace(rel, sources=tuple(inputs))
        exchanges = (exchanged(i, t.partition) for i, t in zip(inputs, rel.tables, strict=True))
        return replace(rel, sources=tuple(exchanges))

    def waits_for_watermarks(self, rel: ProcessTable) -> bool:
        return True


class ChangelogFunctionOperator(Operator[ChangelogFunction], of=ChangelogFunction, node=ProcessTableFunction):
    def describe(self, rel: ChangelogFunction, node: Physical, notation: Notation) -> list[str]:
        return _call_details(rel, None)

    def lower(self, rel: ChangelogFunction, node: Physical, lowering: Lowering) -> ExecNode:
        rows, changes = ("INSERT",), tuple(kind.name for kind in RowKind)
        modes = (rows, changes) if rel.name == "FROM_CHANGELOG" else (changelog_mode(node.inputs[0]), rows)
        return ProcessTableFunction(
            **self.common(rel, node, lowering),
            function_call=Call(rel_type(rel).not_null(), _changelog_operands(rel), f"${rel.name}$1"),
            input_changelog_modes=(modes[0],),
            output_changelog_mode=modes[1],
        )

    def provided(self, rel: ChangelogFunction, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        if rel.name == "TO_CHANGELOG":
            return INSERT
        insert_only("FROM_CHANGELOG", inputs, rel.place)
        return ALL

    def waits_for_watermarks(self, rel: ChangelogFunction) -> bool:
        return True

    def update(self, rel: ChangelogFunction, node: Physical, required_kind: UpdateKind) -> Physical | None:
        if required_kind == "ONLY_UPDATE_AFTER":
            return None
        return rebuilt(node, [update(node.input, "BEFORE_AND_AFTER")], required_kind)


def _changelog_operands(rel: ChangelogFunction) -> tuple[Rex, ...]:
    return (
        TableArgument(rel_type(rel.input).not_null(), 0),
        _descriptor(() if rel.op is None else (rel.op,)),
        _default(LogicalType("MAP", children=(STRING, STRING))) if rel.mapping is None else rel.mapping,
        _default(_DESCRIPTOR),
        _default(STRING),
    )


def invocation(rel: ProcessTable | ChangelogFunction) -> str:
    """The call as EXPLAIN shows it: ``f(TABLE(#0) PARTITION BY($0), 2, DEFAULT(), DEFAULT())``."""
    if isinstance(rel, ChangelogFunction):
        return f"{rel.name}({', '.join(map(_text, _changelog_operands(rel)))})"
    return f"{rel.function_match.function.name}({', '.join(map(_text, _operands(rel)))})"


def _call_details(rel: ProcessTable | ChangelogFunction, uid: str | None) -> list[str]:
    return [
        f"invocation=[{invocation(rel)}]",
        f"uid=[{uid or 'null'}]",
        f"select=[{','.join(n for n, _ in rel.fields)}]",
        f"rowType=[{record_text(rel)}]",
    ]


def _updating(table: TableInput, source: Physical) -> Physical | None:
    """An input whose updates have their old rows, unless they are upserts by the key of the partition."""
    has_key = frozenset(table.partition) in upsert_keys(source.rel) and bool(table.partition)
    if has_key and not table.argument.has(ArgumentTrait.REQUIRE_UPDATE_BEFORE):
        upserts = update(source, "ONLY_UPDATE_AFTER")
        if upserts is not None:
            return upserts
    return update(source, "BEFORE_AND_AFTER")


def _default(t: LogicalType) -> Call:
    return Call(t.as_nullable(), (), internal_name="$DEFAULT$1", syntax="SPECIAL")


def _descriptor(names: Sequence[str]) -> Call:
    """``DESCRIPTOR(a, b)``; the default without names."""
    if not names:
        return _default(_DESCRIPTOR)
    return Call(_DESCRIPTOR.not_null(), tuple(_text_literal(n) for n in names), "$DESCRIPTOR$1")


def _text_literal(text: str) -> Literal:
    return Literal(LogicalType("CHAR", False, length=len(text)), text)


def _operands(rel: ProcessTable) -> list[Rex]:
    """The operands of the call in a plan: the function's own, ``on_time`` and ``uid``."""
    tables = iter(
        TableArgument(rel_type(source).not_null(), i, t.partition, t.order, t.directions)
        for i, (t, source) in enumerate(zip(rel.tables, rel.sources, strict=True))
    )
    scalars = iter(zip(rel.process.scalars, rel.scalars, strict=True))
    out: list[Rex] = []
    for argument in rel.process.arguments:
        if argument.is_table:
            out.append(next(tables))
            continue
        scalar, operand = next(scalars)
        assert scalar.type is not None
        out.append(_default(scalar.type) if operand is None else operand)
    out.append(_descriptor(rel.times or ()))
    out.append(_default(STRING) if rel.uid is None else _text_literal(rel.uid))
    return out


def _text(operand: Rex) -> str:
    """An operand in the description of the node."""
    if isinstance(operand, TableArgument):
        text = f"TABLE(#{operand.index})"
        if operand.partition_keys:
            text += f" PARTITION BY({', '.join(f'${k}' for k in operand.partition_keys)})"
        if operand.order_keys:
            pairs = zip(operand.order_keys, operand.directions, strict=True)
            text += f" ORDER BY({', '.join(f'${k} {word}' for k, word in pairs)})"
        return text
    if isinstance(operand, Call) and operand.name == "DESCRIPTOR":
        return f"DESCRIPTOR({', '.join(charset(str(o.value)) for o in operand.operands if isinstance(o, Literal))})"
    return physical_expression(operand, ())
