"""A row is forgotten before what was computed from it."""

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
    """The last row of a key is forgotten before the aggregate that has counted it.

    Anti-pattern: a normalization of upserts, or a deduplication that keeps the last row, has a shorter TTL than the
    aggregate or rank behind it.

    Why: the next row of a key that has been forgotten is taken for the first: it is given as an insertion, and the row
    that the aggregate has counted is not taken back. The key is in the sum twice, for as long as the sum is kept.

    Best practice: the operator that holds the rows lives at least as long as what is computed from them; `--fix` sets
    that, unless it is never and nothing else removes the rows: then shorten the aggregate instead.

    Source: FLIP-292 (TTLs that are not aligned); Flink's `ProcTimeDeduplicateKeepLastRowFunction` and
    `StreamExecChangelogNormalize`, which emit an expired key as +I.
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
                    f"{front} forgets a row after {ttl_text(front.ttl)}, and {found.operator} behind it has it in its "
                    f"result {for_how_long(found.ttl)}: the next row of the key is counted, too"
                )
                yield raised(subject, front, found.ttl, message)
