"""Counts start again while rows of their key still come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.execnodes.ttl import outlives
from stateplan.plans.document import ttl_text
from stateplan.plans.lint.rule import Problem, Rule, for_how_long, raised
from stateplan.plans.lint.subject import Subject

_RESTART = frozenset(
    {
        "group-aggregate",
        "python-group-aggregate",
        "global-group-aggregate",
        "incremental-group-aggregate",
        "group-table-aggregate",
        "rank",
        "limit",
        "sort-limit",
        "deduplicate",
        "over-aggregate",
    }
)
"""Operators that begin anew when their state has expired."""


class CountsAgain(Rule):
    """An aggregate, rank or deduplication starts from zero while rows of its key can still come.

    Anti-pattern: an aggregate has a shorter TTL than the state in front of it that says how long rows of a key may
    come, such as a deduplication or a join.

    Why: a deduplication with a TTL of 7 days expects rows of a key for 7 days, and a join gives results for as long
    as it keeps rows. An aggregate behind it that has expired begins at zero with the next of them: the count of the
    days before is replaced by 1. A top-N gives further rows without taking back the ones it gave, a deduplication
    gives its first row a second time.

    Best practice: the aggregate lives at least as long as the state in front of it; `--fix` sets that. Where a key is
    closed for good after a while, shorten the state in front instead.

    Source: Flink's documentation of the SQL operators' TTL ("the count will start again at zero"); FLIP-292.
    """

    CODE: ClassVar[str] = "TTL004"
    NAME: ClassVar[str] = "counts-again"
    FIXABLE: ClassVar[bool] = True

    def check(self, subject: Subject) -> Iterator[Problem]:
        for state in subject.all_states():
            if state.node.title not in _RESTART or not subject.is_insert_only(state.node, state.input):
                continue
            front = subject.longest_in_front(state)
            if front is not None and outlives(front.ttl, state.ttl):
                message = (
                    f"{state} starts anew after {ttl_text(state.ttl)} without rows, and {front.operator} in front of "
                    f"it expects rows of a key {for_how_long(front.ttl)}"
                )
                yield raised(subject, state, front.ttl, message)
