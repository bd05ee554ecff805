"""Aggregates that restart while rows of their key still arrive."""

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
    """An aggregate, rank or deduplication restarts while rows of its key can still arrive.

    Anti-pattern: an aggregate has a shorter TTL than upstream state that determines how long rows of a key arrive, such
    as a deduplication or a join.

    Why: a deduplication with a TTL of 7 days expects rows of a key for 7 days, and a join emits results as long as it
    keeps rows. When a downstream aggregate has expired, it restarts at zero with the next row: 1 replaces the count of
    all days before. A top-N emits new rows without retracting the old ones, and a deduplication emits its first row
    again.

    Best practice: the aggregate lives at least as long as the upstream state. `--fix` sets this TTL. If a key is
    complete after some time, shorten the upstream state instead.

    Source: Flink's documentation of TTLs of SQL operators ("the count will start again at zero"), and FLIP-292.
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
                    f"{state} restarts after {ttl_text(state.ttl)} without rows, but {front.operator} upstream can "
                    f"emit rows of a key {for_how_long(front.ttl)}"
                )
                yield raised(subject, state, front.ttl, message)
