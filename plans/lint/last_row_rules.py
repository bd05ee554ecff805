"""Rules about operators that hold the last row of a key, and forget it before those that have received it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stateplan.common.changelog import RowKind
from stateplan.common.ttl import outlives
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.plans.document import ttl_text
from stateplan.plans.lint.rule import Problem, Rule, for_how_long, short_ttl_problem
from stateplan.plans.lint.subject import State, Subject


class CountedTwice(Rule, code="TTL012", name="counted-twice", fixable=True):
    """The last row of a key expires before the aggregate that counted it.

    Anti-pattern: a normalization of upserts, or a deduplication that keeps the last row, has a shorter TTL than the
    downstream aggregate or rank.

    Why: the next row of an expired key looks like the first one. It is emitted as an insert, and the row that the
    aggregate already counted is not retracted. The sum contains the key twice until the sum expires.

    Best practice: give the operator that holds the rows at least the TTL of the results computed from them. `--fix`
    sets this TTL, unless it is never and nothing else removes the rows. Shorten the aggregate in that case.

    Source: FLIP-292 (unaligned TTLs). Flink's `ProcTimeDeduplicateKeepLastRowFunction` and
    `StreamExecChangelogNormalize` emit an expired key as +I.
    """

    def check(self, subject: Subject) -> Iterator[Problem]:
        for front, counting in _kept_longer(subject, lambda s: s.node.COUNTS_ROWS):
            message = (
                f"{front} expires after {ttl_text(front.ttl)}, but {counting.operator} downstream counts its row "
                f"{for_how_long(counting.ttl)}, and then also counts the next row of the key"
            )
            yield short_ttl_problem(subject, front, counting.ttl, message)


class JoinedTwice(Rule, code="TTL016", name="joined-twice", fixable=True):
    """The last row of a key expires before the join that keeps it.

    Anti-pattern: `STATE_TTL('customers' = '0')` on a join, next to a `table.exec.state.ttl` of a day. The hint is for
    the join. A normalization of upserts or a deduplication in front of it, which holds the last row of each key, has
    the TTL of a day.

    Why: the next row of an expired key looks like the first one. It is emitted as an insert, and the old row is not
    retracted. The join keeps both, and its results contain both.

    Best practice: give the operator that holds the rows at least the TTL of the join. `--fix` sets this TTL. The
    compiler does so for normalizations and sinks next to a hint of 0, unless `table.optimizer.flink-faults` is
    `as-flink`. Flink does not.

    Source: FLIP-373 (hints name inputs of joins and aggregates). A run with Flink 2.3 showed both rows.
    """

    def check(self, subject: Subject) -> Iterator[Problem]:
        for front, side in _kept_longer(subject, lambda s: s.node.title in ("join", "multi-join")):
            if side.node.title == "join" and not _retracted(subject, front.node):
                continue
            message = (
                f"{front} expires after {ttl_text(front.ttl)}, but {side.operator} downstream keeps its row "
                f"{for_how_long(side.ttl)}, and then also keeps the next row of the key"
            )
            yield short_ttl_problem(subject, front, side.ttl, message)


def _retracted(subject: Subject, node: ExecNode) -> bool:
    """Whether an operator emits the old rows of updates: without them, a join replaces the row of a key."""
    mode = subject.modes.get(node.id)
    return mode is None or RowKind.UPDATE_BEFORE in mode


def _kept_longer(subject: Subject, judged: Callable[[State], bool]) -> Iterator[tuple[State, State]]:
    """The states of last rows that expire before a judged one that keeps these rows, each with the longest of them."""
    behind: dict[tuple[int, int], State] = {}
    for state in filter(judged, subject.all_states()):
        if not subject.retracts(state.node, state.input):
            continue
        for front in subject.in_front(state):
            key = front.node.id, front.index
            if front.node.HOLDS_LAST_ROW and outlives(state.ttl, front.ttl):
                longest_so_far = behind.get(key)
                if longest_so_far is None or outlives(state.ttl, longest_so_far.ttl):
                    behind[key] = state
    for front in subject.all_states():
        longer = behind.get((front.node.id, front.index))
        if longer is not None:
            yield front, longer
