"""One side of a join has updates and expires first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.execnodes.ttl import outlives
from stateplan.plans.document import ttl_text
from stateplan.plans.lint.rule import Problem, Rule, raised
from stateplan.plans.lint.subject import Subject, longest, siblings


class UpdatingSideExpiresFirst(Rule):
    """A side of a join whose rows are updated expires before the other side.

    Anti-pattern: one side of a join gets updates or deletions and has a shorter TTL than the other side.

    Why: a row of the short side that has expired no longer meets new rows of the other side. When it is then updated,
    the join takes back what the old row would match, the new rows of the other side too: results are retracted that
    have never been given. Counts behind the join are too low from then on, for good.

    Best practice: the side that is updated lives at least as long as the other one; `--fix` sets that.

    Source: FLIP-292 and FLIP-373 (a TTL for each side); Flink's `StreamingJoinOperator`, which answers a retraction
    from the other side's state alone.
    """

    CODE: ClassVar[str] = "TTL002"
    NAME: ClassVar[str] = "updating-join-side-expires-first"
    FIXABLE: ClassVar[bool] = True

    def check(self, subject: Subject) -> Iterator[Problem]:
        for state, others in siblings(subject):
            if not subject.retracts(state.node, state.input):
                continue
            other = longest(others)
            if outlives(other.ttl, state.ttl):
                message = (
                    f"{state} forgets a row after {ttl_text(state.ttl)} and gets updates of it; {other.name} keeps "
                    f"its rows longer ({ttl_text(other.ttl)})"
                )
                yield raised(subject, state, other.ttl, message)
