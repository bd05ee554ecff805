"""Join sides that are updated and expire first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.execnodes.ttl import outlives
from stateplan.plans.document import ttl_text
from stateplan.plans.lint.rule import Problem, Rule, raised
from stateplan.plans.lint.subject import Subject, longest, siblings


class UpdatingSideExpiresFirst(Rule):
    """A join side with updates expires before the other side.

    Anti-pattern: one side of a join receives updates or deletions and has a shorter TTL than the other side.

    Why: an expired row of the short side no longer matches new rows of the other side. If the row is then updated, the
    join retracts all matches of the old row, including new rows that it never matched. It retracts results that were
    never emitted, and counts downstream of the join stay too low.

    Best practice: the side with updates lives at least as long as the other side. `--fix` sets this TTL.

    Source: FLIP-292 and FLIP-373 (a TTL for each side). Flink's `StreamingJoinOperator` processes a retraction from the
    state of the other side alone.
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
                    f"{state} receives updates and expires after {ttl_text(state.ttl)}, before {other.name} "
                    f"({ttl_text(other.ttl)})"
                )
                yield raised(subject, state, other.ttl, message)
