"""Rows that expire before results computed from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.execnodes.ttl import outlives
from stateplan.plans.document import ttl_text
from stateplan.plans.lint.rule import Problem, Rule, for_how_long, raised
from stateplan.plans.lint.subject import State, Subject

_LAST_ROWS = frozenset({"changelog-normalize", "deduplicate"})
_SUMS = frozenset(
    {"group-aggregate", "python-group-aggregate", "global-group-aggregate", "group-table-aggregate", "rank"}
)


class CountedTwice(Rule):
    """The last row of a key expires before the aggregate that counted it.

    Anti-pattern: a normalization of upserts, or a deduplication that keeps the last row, has a shorter TTL than the
    downstream aggregate or rank.

    Why: the next row of an expired key looks like the first one. It is emitted as an insert, and the row that the
    aggregate already counted is not retracted. The sum contains the key twice until the sum expires.

    Best practice: the operator that holds the rows lives at least as long as the results computed from them. `--fix`
    sets this TTL, unless it is never and nothing else removes the rows. Shorten the aggregate in that case.

    Source: FLIP-292 (unaligned TTLs). Flink's `ProcTimeDeduplicateKeepLastRowFunction` and
    `StreamExecChangelogNormalize` emit an expired key as +I.
    """

    CODE: ClassVar[str] = "TTL012"
    NAME: ClassVar[str] = "counted-twice"
    FIXABLE: ClassVar[bool] = True

    def check(self, subject: Subject) -> Iterator[Problem]:
        behind: dict[tuple[int, int], State] = {}
        for state in subject.all_states():
            if state.node.title not in _SUMS or not subject.retracts(state.node, state.input):
                continue
            for front in subject.in_front(state):
                key = front.node.id, front.index
                if front.node.title in _LAST_ROWS and outlives(state.ttl, front.ttl):
                    known = behind.get(key)
                    if known is None or outlives(state.ttl, known.ttl):
                        behind[key] = state
        for front in subject.all_states():
            found = behind.get((front.node.id, front.index))
            if found is not None:
                message = (
                    f"{front} expires after {ttl_text(front.ttl)}, but {found.operator} downstream counts its row "
                    f"{for_how_long(found.ttl)}, and then also counts the next row of the key"
                )
                yield raised(subject, front, found.ttl, message)
