"""Operators that change what kind of change a row is."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.execnodes.changelog import RowKind
from stateplan.execnodes.model import JsonObject
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.changelog_normalize import ChangelogNormalize as ChangelogNormalizeNode
from stateplan.execnodes.nodes.drop_update_before import DropUpdateBefore as DropUpdateBeforeNode
from stateplan.execnodes.nodes.process_table_function import ProcessTableFunction
from stateplan.execnodes.rex import Literal
from stateplan.execnodes.types import STRING, LogicalType
from stateplan.planner.algebra.relations import (
    ChangelogFunction,
    ChangelogNormalize,
    DropUpdateBefore,
    Exchange,
    field_names,
    rel_type,
)
from stateplan.planner.digest.expressions import Notation, key_names, physical_expression, record_text
from stateplan.planner.digest.literals import charset
from stateplan.planner.operators.base import (
    ALL,
    INSERT,
    MINI_BATCH,
    Lowering,
    Operator,
    deleting,
    insert_only,
    rebuilt,
    update,
    with_deletions,
)
from stateplan.planner.physical import DeleteKind, Kinds, Physical, UpdateKind


class DropUpdateBeforeOperator(Operator[DropUpdateBefore], of=DropUpdateBefore, node=DropUpdateBeforeNode):
    passes_deletions = True
    waits_for_mini_batches = False

    def update(self, rel: DropUpdateBefore, node: Physical, required: UpdateKind) -> Physical | None:
        if required == "BEFORE_AND_AFTER":
            return None
        return rebuilt(node, [update(node.input, "BEFORE_AND_AFTER")], required)

    def lower(self, rel: DropUpdateBefore, node: Physical, lowering: Lowering) -> ExecNode:
        return DropUpdateBeforeNode(**self.common(rel, node, lowering))


class ChangelogNormalizeOperator(Operator[ChangelogNormalize], of=ChangelogNormalize, node=ChangelogNormalizeNode):
    options = MINI_BATCH
    waits_for_mini_batches = False

    def describe(self, rel: ChangelogNormalize, node: Physical, notation: Notation) -> list[str]:
        out = [f"key=[{key_names(rel.key, rel)}]"]
        if rel.condition is not None:
            out.append(f"condition=[{notation.expression(rel.condition, field_names(rel))}]")
        return out

    def lower(self, rel: ChangelogNormalize, node: Physical, lowering: Lowering) -> ExecNode:
        return ChangelogNormalizeNode(
            **self.common(rel, node, lowering),
            unique_keys=rel.key,
            generate_update_before=node.generates_update_before,
            filter_condition=rel.condition,
        )

    def state_ttls(self, rel: ChangelogNormalize) -> Sequence[int | None]:
        return (None,)

    def provided(self, rel: ChangelogNormalize, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return ALL

    def delete(self, rel: ChangelogNormalize, node: Physical, required: DeleteKind) -> Physical | None:
        """The normalization; where it is not needed, the operator below its exchange."""
        if not rel.required and rel.condition is None and not node.generates_update_before:
            below = deleting(node.input, required)
            if below is not None:
                return below.input if isinstance(below.rel, Exchange) else below
        kinds: tuple[DeleteKind, ...] = ("DELETE_BY_KEY", "FULL_DELETE")
        inputs = [i for i in (deleting(node.input, kind) for kind in kinds) if i is not None]
        return with_deletions(node, inputs[:1], "FULL_DELETE")


class ChangelogFunctionOperator(Operator[ChangelogFunction], of=ChangelogFunction, node=ProcessTableFunction):
    def describe(self, rel: ChangelogFunction, node: Physical, notation: Notation) -> list[str]:
        op = "DEFAULT()" if rel.op is None else f"DESCRIPTOR({charset(rel.op)})"
        mapping = "DEFAULT()" if rel.mapping is None else physical_expression(rel.mapping, ())
        return [
            f"invocation=[{rel.name}(TABLE(#0), {op}, {mapping}, DEFAULT(), DEFAULT())]",
            "uid=[null]",
            f"select=[{','.join(n for n, _ in rel.fields)}]",
            f"rowType=[{record_text(rel)}]",
        ]

    def lower(self, rel: ChangelogFunction, node: Physical, lowering: Lowering) -> ExecNode:
        def default(kind: str) -> JsonObject:
            return {"kind": "CALL", "syntax": "SPECIAL", "internalName": "$DEFAULT$1", "type": kind}

        op = default("DESCRIPTOR")
        if rel.op is not None:
            name = Literal(LogicalType("CHAR", False, length=len(rel.op)), rel.op)
            op = {"kind": "CALL", "internalName": "$DESCRIPTOR$1", "operands": [name.to_json()]}
            op["type"] = "DESCRIPTOR NOT NULL"
        text = str(STRING)
        table = {"kind": "TABLE_ARG_CALL", "inputIndex": 0, "partitionKeys": [], "orderKeys": [], "orderDirections": []}
        call: JsonObject = {"kind": "CALL", "internalName": f"${rel.name}$1"}
        call["operands"] = [
            {**table, "type": rel_type(rel.input).not_null().to_json()},
            op,
            default(f"MAP<{text}, {text}>") if rel.mapping is None else rel.mapping.to_json(),
            default("DESCRIPTOR"),
            default(text),
        ]
        call["type"] = rel_type(rel).not_null().to_json()
        rows, changes = ("INSERT",), tuple(kind.name for kind in RowKind)
        modes = (rows, changes) if rel.name == "FROM_CHANGELOG" else (changes, rows)
        return ProcessTableFunction(
            **self.common(rel, node, lowering),
            function_call=call,
            input_changelog_modes=(modes[0],),
            output_changelog_mode=modes[1],
        )

    def provided(self, rel: ChangelogFunction, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        if rel.name == "TO_CHANGELOG":
            return INSERT
        insert_only("FROM_CHANGELOG", inputs, rel.place)
        return ALL

    def update(self, rel: ChangelogFunction, node: Physical, required: UpdateKind) -> Physical | None:
        if required == "ONLY_UPDATE_AFTER":
            return None
        return rebuilt(node, [update(node.input, "BEFORE_AND_AFTER")], required)
