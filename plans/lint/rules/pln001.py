"""Rows are taken back that are not those that were given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.plans.lint.determinism import varying
from stateplan.plans.lint.rule import Problem, Rule
from stateplan.plans.lint.subject import Subject


class NonDeterministicUpdate(Rule):
    """An update takes back another row than was given, as a column of it is not the same each time.

    Anti-pattern: `NOW()`, `UUID()`, `RAND()`, `PROCTIME()`, metadata of a change, or a row that is looked up, in a
    query over a table with updates and deletions, where the column is part of what a row is known by: a group, a join
    without a key, a sink without a primary key.

    Why: the column is computed when a row comes, and again when it goes. The two differ, so the retraction finds
    nothing: the old row stays for ever, and the new one stands beside it.

    Best practice: take the value from the row itself (its own time or id), or compute it before the table gets
    changes, or keep it out of what rows are known by: a sink with a primary key needs the key to be the same and
    nothing else. A lookup join can keep what it has found
    (`table.optimizer.non-deterministic-update.strategy` = `TRY_RESOLVE`).

    Source: Flink's `StreamNonDeterministicUpdatePlanVisitor` and `NonDeterministicUpdateAnalyzer` (FLIP-280); its
    documentation, "Determinism in continuous queries".
    """

    CODE: ClassVar[str] = "PLN001"
    NAME: ClassVar[str] = "non-deterministic-update"

    def check(self, subject: Subject) -> Iterator[Problem]:
        for found in varying(subject):
            what = f"the column {found.field} is {found.what}" if found.field else f"a condition asks {found.what}"
            yield Problem(
                found.node,
                f"{what}, which is another when an update takes the row back",
                "take the value from the row itself, or compute it before there are updates",
                pointer=found.pointer,
            )
