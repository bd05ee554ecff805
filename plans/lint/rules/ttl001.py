"""Retractions that arrive after state has expired."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.execnodes.ttl import outlives
from stateplan.plans.document import ttl_text
from stateplan.plans.lint.rule import Problem, Rule, for_how_long, raised
from stateplan.plans.lint.subject import Subject


class UnalignedRetractions(Rule):
    """State downstream of updates expires before the upstream operator stops retracting rows.

    Anti-pattern: an operator receives updates or deletions and has a shorter TTL than the state upstream of it.

    Why: the upstream operator remembers its rows for its own TTL, and can retract them until then. A retraction that
    finds nothing has no effect, so results computed from the old row are never corrected: sums include it, and joins
    keep its matches.

    Best practice: TTLs do not decrease along a path with updates. `--fix` sets the longest TTL of the upstream states.
    The alternative is to shorten the upstream TTLs, which loses rows earlier.

    Source: FLIP-292 on unaligned TTLs. Flink's `GroupAggFunction` and `StreamingJoinOperator` show how operators treat
    retractions of expired rows.
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
                    f"{state} expires after {ttl_text(state.ttl)}, but {front.operator} upstream can retract its rows "
                    f"{for_how_long(front.ttl)}"
                )
                yield raised(subject, state, front.ttl, message)
