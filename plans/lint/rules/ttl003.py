"""Updates of one side of a join find nothing on the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.execnodes.ttl import outlives
from stateplan.plans.document import ttl_text
from stateplan.plans.lint.rule import Problem, Rule, Severity, raised
from stateplan.plans.lint.subject import Subject, longest, siblings


class JoinSideMissesUpdates(Rule):
    """Updates of one side of a join come later than the rows of the other side live.

    Anti-pattern: a side of a join that only gets new rows has a shorter TTL than the other side, which is updated.

    Why: a result is corrected only while both of its rows are known. Where the short side has expired, an update of
    the other side leaves the result as it was. That is often what is wanted of facts that are enriched (the value
    of then), hence advice; a reader of the table who takes it for the value of now is wrong.

    Best practice: give the short side the TTL of the other one, or join with the version of then
    (`FOR SYSTEM_TIME AS OF`), or suppress this with the reason. `--fix` sets the TTL, unless it is never: the side
    would grow without end.

    Source: FLIP-373 (a TTL for each side); Flink's `StreamingJoinOperator`.
    """

    CODE: ClassVar[str] = "TTL003"
    NAME: ClassVar[str] = "join-side-misses-updates"
    SEVERITY: ClassVar[Severity] = Severity.ADVICE
    FIXABLE: ClassVar[bool] = True

    def check(self, subject: Subject) -> Iterator[Problem]:
        for state, others in siblings(subject):
            updated = [other for other in others if subject.retracts(other.node, other.input)]
            if not updated or not subject.is_insert_only(state.node, state.input):
                continue
            other = longest(updated)
            if outlives(other.ttl, state.ttl):
                message = (
                    f"{state} forgets a row after {ttl_text(state.ttl)}; updates of {other.name} "
                    f"({ttl_text(other.ttl)}) that come later leave its results as they are"
                )
                yield raised(subject, state, other.ttl, message)
