"""Operators that change what kind of change a row is."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.changelog_normalize import ChangelogNormalize as ChangelogNormalizeNode
from stateplan.execnodes.nodes.drop_update_before import DropUpdateBefore as DropUpdateBeforeNode
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.relations import (
    ChangelogNormalize,
    DropUpdateBefore,
    Exchange,
    field_names,
)
from stateplan.planner.digest.expressions import Notation, key_names
from stateplan.planner.operators.base import (
    ALL,
    MINI_BATCH,
    Lowering,
    Operator,
    deleting,
    rebuilt,
    update,
    with_deletions,
)
from stateplan.planner.physical import DeleteKind, Kinds, Physical, UpdateKind


class DropUpdateBeforeOperator(Operator[DropUpdateBefore], of=DropUpdateBefore, node=DropUpdateBeforeNode):
    passes_deletions = True

    def update(self, rel: DropUpdateBefore, node: Physical, required_kind: UpdateKind) -> Physical | None:
        if required_kind == "BEFORE_AND_AFTER":
            return None
        return rebuilt(node, [update(node.input, "BEFORE_AND_AFTER")], required_kind)

    def lower(self, rel: DropUpdateBefore, node: Physical, lowering: Lowering) -> ExecNode:
        return DropUpdateBeforeNode(**self.common(rel, node, lowering))


class ChangelogNormalizeOperator(Operator[ChangelogNormalize], of=ChangelogNormalize, node=ChangelogNormalizeNode):
    options = MINI_BATCH

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

    def state_hints(self, rel: ChangelogNormalize) -> Sequence[InputHint | None]:
        return (None,)

    def provided(self, rel: ChangelogNormalize, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return ALL

    def delete(self, rel: ChangelogNormalize, node: Physical, required_kind: DeleteKind) -> Physical | None:
        """The normalization; where it is not needed, the operator below its exchange."""
        if not rel.is_required and rel.condition is None and not node.generates_update_before:
            below = deleting(node.input, required_kind)
            if below is not None:
                return below.input if isinstance(below.rel, Exchange) else below
        kinds: tuple[DeleteKind, ...] = ("DELETE_BY_KEY", "FULL_DELETE")
        inputs = [i for i in (deleting(node.input, kind) for kind in kinds) if i is not None]
        return with_deletions(node, inputs[:1], "FULL_DELETE")
