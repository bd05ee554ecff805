"""Columns whose value differs between an insert and its retraction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.plans.lint.determinism import varying
from stateplan.plans.lint.rule import Problem, Rule
from stateplan.plans.lint.subject import Subject


class NonDeterministicUpdate(Rule):
    """A non-deterministic column makes an update retract another row than it inserted.

    Anti-pattern: `NOW()`, `UUID()`, `RAND()`, `PROCTIME()`, changelog metadata or a looked-up row, in a query over a
    table with updates and deletions, if the column helps to identify a row: a group key, a join without a key, a sink
    without a primary key.

    Why: the column is computed for the insert and again for the retraction. The values differ, so the retraction finds
    nothing. The old row stays forever, next to the new one.

    Best practice: use a value of the row itself (its own time or id), or compute the value before the table gets
    changes. Or do not identify rows by the column: a sink with a primary key only needs the key to be deterministic. A
    lookup join can keep its results (`table.optimizer.non-deterministic-update.strategy` = `TRY_RESOLVE`).

    Source: Flink's `StreamNonDeterministicUpdatePlanVisitor` and `NonDeterministicUpdateAnalyzer` (FLIP-280), and
    Flink's documentation, "Determinism in continuous queries".
    """

    CODE: ClassVar[str] = "PLN001"
    NAME: ClassVar[str] = "non-deterministic-update"

    def check(self, subject: Subject) -> Iterator[Problem]:
        for found in varying(subject):
            what = f"the column {found.field} is {found.what}" if found.field else f"a condition uses {found.what}"
            yield Problem(
                found.node,
                f"{what}, which has another value when an update retracts the row",
                "use a value of the row itself, or compute it upstream of the updates",
                pointer=found.pointer,
            )
