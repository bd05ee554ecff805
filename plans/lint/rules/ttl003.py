"""Updates of a join side that miss expired rows of the other side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.execnodes.ttl import outlives
from stateplan.plans.document import ttl_text
from stateplan.plans.lint.rule import Problem, Rule, Severity, raised
from stateplan.plans.lint.subject import Subject, longest, siblings


class JoinSideMissesUpdates(Rule):
    """Updates of one join side arrive after the rows of the other side have expired.

    Anti-pattern: an append-only side of a join has a shorter TTL than the other side, which has updates.

    Why: the join corrects a result only while it knows both rows. If the row of the short side has expired, an update
    of the other side does not change the result. This is often intended when facts are enriched with the value at that
    time, so the finding is advice. It is wrong for readers who expect current values.

    Best practice: give the short side the TTL of the other side, or use a temporal join (`FOR SYSTEM_TIME AS OF`), or
    suppress the finding with the reason. `--fix` sets the TTL, unless it is never, because the side would then grow
    without bound.

    Source: FLIP-373 (a TTL for each side) and Flink's `StreamingJoinOperator`.
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
                    f"{state} expires after {ttl_text(state.ttl)}; later updates of {other.name} "
                    f"({ttl_text(other.ttl)}) do not correct its results"
                )
                yield raised(subject, state, other.ttl, message)
