"""Retractions come later than state lives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.execnodes.ttl import outlives
from stateplan.plans.document import ttl_text
from stateplan.plans.lint.rule import Problem, Rule, for_how_long, raised
from stateplan.plans.lint.subject import Subject


class UnalignedRetractions(Rule):
    """State behind updates is forgotten before the operator in front has stopped taking rows back.

    Anti-pattern: an operator that gets updates or deletions has a shorter TTL than the state in front of it.

    Why: the operator in front knows its rows for as long as its own TTL, and takes them back in that time. A
    retraction that finds nothing any more changes nothing, so what was computed from the old row is never corrected:
    sums keep it, joins keep its matches.

    Best practice: TTLs do not get shorter along a path that carries updates. `--fix` gives the state the longest TTL
    of the states in front of it. Shortening those is the other way out, and loses rows sooner.

    Source: FLIP-292, on TTLs of operators that are not aligned; how operators treat retractions for expired state:
    Flink's `GroupAggFunction` and `StreamingJoinOperator`.
    """

    CODE: ClassVar[str] = "TTL001"
    NAME: ClassVar[str] = "unaligned-retractions"
    FIXABLE: ClassVar[bool] = True

    def check(self, subject: Subject) -> Iterator[Problem]:
        for state in subject.all_states():
            if state.node.title == "sink" or not subject.retracts(state.node, state.input):
                continue
            front = subject.longest_in_front(state)
            if front is not None and outlives(front.ttl, state.ttl):
                message = (
                    f"{state} forgets a row after {ttl_text(state.ttl)}, and {front.operator} in front of it can take "
                    f"it back {for_how_long(front.ttl)}"
                )
                yield raised(subject, state, front.ttl, message)
