"""What ``plan evolve`` would do with each operator that keeps state, why, and at what cost: before it does anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import CheckpointError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import amount, bytes_text, roughly
from stateplan.plans.diff import OperatorDiff
from stateplan.plans.verdicts import Verdict
from stateplan.session.restart import Evolution

if TYPE_CHECKING:
    from stateplan.evolution.estimate import Cost, Estimate

OUTCOMES: Mapping[Verdict, str] = {
    "identical": "carried",
    "ttl-only": "carried",
    "stateless": "carried",
    "rewrite": "carried",
    "derive": "derived",
    "backfill": "backfilled",
    "reset": "reset",
    "unknown": "reset",
}
"""What becomes of the state of an operator."""

_UNCHANGED = {
    "identical": "the operator is the same",
    "ttl-only": "only TTLs changed",
    "stateless": "its state does not depend on the change",
}


@dataclass(frozen=True)
class OperatorPreview:
    """An operator that keeps state.

    Attributes:
        operator: in both plans.
        outcome: what becomes of its state: ``carried``, ``derived``, ``backfilled``, ``reset``; ``empty``, of one that
            has no state to know; ``removed``, of one that the new plan does not have.
        reasons: why.
        cost: what is read for it; None where nothing is.
    """

    operator: OperatorDiff
    outcome: str
    reasons: tuple[str, ...]
    cost: Cost | None


@dataclass(frozen=True)
class EvolutionPreview:
    """What would become of a checkpoint.

    Attributes:
        origin: the old checkpoint.
        operators: the stateful ones of the new plan in its order, then those that are gone.
        estimate: the costs.
        refusal: why the checkpoint would not be made; None where it would.
    """

    origin: str
    operators: tuple[OperatorPreview, ...]
    estimate: Estimate
    refusal: CheckpointError | None = None

    @staticmethod
    def of(evolution: Evolution, estimate: Estimate, origin: str) -> EvolutionPreview:
        """The preview of an evolution. Arguments as :meth:`Evolution.check`."""
        refusal: CheckpointError | None = None
        try:
            evolution.check(origin)
        except CheckpointError as error:
            refusal = error
        operators = tuple(_preview(o, evolution, estimate) for o in evolution.diff.operators if o.stateful)
        return EvolutionPreview(origin, operators, estimate, refusal)

    def to_text(self) -> str:
        """For people: the operators, and what is read in all."""
        lines = [f"from {self.origin}, as after micro-batch {self.estimate.batch}"]
        for preview in self.operators:
            lines += ["", f"{preview.operator.title}  {preview.outcome}"]
            lines += [f"  {reason}" for reason in preview.reasons]
            if preview.cost is not None:
                lines.append(f"  reads {_cost_text(preview.cost)}")
        if not self.operators:
            lines += ["", "no operator keeps state"]
        lines += ["", f"reads in all: {_cost_text(self.estimate.total)}"]
        return "\n".join(lines) + "\n"

    def to_json(self) -> dict[str, Any]:
        """As JSON-ready data."""
        return {
            "checkpoint": self.origin,
            "micro-batch": self.estimate.batch,
            "accepted": self.refusal is None,
            "operators": [
                {
                    "old": preview.operator.old and vars(preview.operator.old),
                    "new": preview.operator.new and vars(preview.operator.new),
                    "outcome": preview.outcome,
                    "verdict": preview.operator.verdict,
                    "reasons": list(preview.reasons),
                    "cost": None if preview.cost is None else _cost_json(preview.cost),
                }
                for preview in self.operators
            ],
            "cost": _cost_json(self.estimate.total),
        }


def _preview(operator: OperatorDiff, evolution: Evolution, estimate: Estimate) -> OperatorPreview:
    if operator.new is None:
        return OperatorPreview(operator, "removed", operator.reasons, None)
    loss = estimate.losses.get(operator.new.id)
    if loss is not None:
        return OperatorPreview(operator, "reset", (*operator.reasons, loss), None)
    cost = estimate.costs.get(operator.new.id)
    if cost is None and not evolution.is_fed(operator):
        return OperatorPreview(operator, "empty", operator.reasons or ("it reads only new sources",), None)
    reason = _UNCHANGED.get(operator.verdict)
    reasons = operator.reasons or (() if reason is None else (reason,))
    return OperatorPreview(operator, OUTCOMES[operator.verdict], reasons, cost)


def _cost_text(cost: Cost) -> str:
    parts = " and ".join(cost_parts(cost)) or "nothing"
    return parts if cost.seconds is None or cost.seconds < 1 else f"{parts}, in about {roughly(cost.seconds)}"


def cost_parts(cost: Cost) -> Iterator[str]:
    """What is read, in words."""
    if cost.rows or cost.state_bytes:
        yield f"{amount(cost.rows, 'row')} of state ({bytes_text(cost.state_bytes)})"
    if cost.files:
        yield f"{amount(cost.files, 'file')} of history ({bytes_text(cost.history_bytes)})"
    if cost.table_rows:
        yield f"{amount(cost.table_rows, 'row')} of history in tables ({bytes_text(cost.table_bytes)})"
    if cost.parts:
        yield f"{amount(cost.parts, 'part')} of history"


def _cost_json(cost: Cost) -> dict[str, float | None]:
    return {
        "stateRows": cost.rows,
        "stateBytes": cost.state_bytes,
        "historyFiles": cost.files,
        "historyTableRows": cost.table_rows,
        "historyTableBytes": cost.table_bytes,
        "historyParts": cost.parts,
        "historyBytes": cost.history_bytes,
        "seconds": None if cost.seconds is None else round(cost.seconds, 3),
    }
