"""Rules that judge TTLs by how old rows were when they were used, as recorded in the metrics of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from stateplan.common.readable import ago
from stateplan.common.ttl import NEVER, format_ttl
from stateplan.plans.lint.rule import Problem, Rule, Severity, at_state
from stateplan.plans.lint.subject import State, Subject
from stateplan.runtime.metrics.ages import Histogram

_FEW_USES = 1_000
_MISSED = 10_000
"""One use of so many may be missed."""
_MUCH_LONGER = 4


def _states_with_uses(subject: Subject) -> Iterator[tuple[State, Histogram]]:
    """The states for which the checkpoint has recorded enough uses."""
    observed = subject.observed
    if observed is None:
        return
    for state in subject.all_states():
        uses = observed.all_uses(subject.document.uids[state.node.id], state.index)
        if uses.total >= _FEW_USES:
            yield state, uses


class ShorterThanUsed(Rule, code="TTL014", name="shorter-than-used"):
    """The TTL is shorter than the age at which rows were used.

    Anti-pattern: a checkpoint shows that one row in five of a join side was met after more than an hour, and the plan
    gives it a TTL of an hour. Lint checks this with `--checkpoint`.

    Why: jobs record the ages of rows of state at their use. A row that has expired by then is missing: the join misses
    a match, a deduplication emits a duplicate, an aggregate starts again. Later data usually resembles earlier data.

    Best practice: set a TTL that misses as few uses as you can accept. `stateplan state advise CHECKPOINT` lists TTLs
    with the uses that they miss and the rows that they keep.

    Source: the histograms of ages in the metrics of the checkpoint. Flink has no such figures.
    """

    def applies(self, subject: Subject) -> bool:
        return subject.observed is not None

    def check(self, subject: Subject) -> Iterator[Problem]:
        for state, uses in _states_with_uses(subject):
            missed = uses.missed(state.ttl)
            if missed * _MISSED > uses.total:
                min_ttl = uses.ttl_for(uses.total // _MISSED)
                yield at_state(
                    state,
                    f"{state} expires after {format_ttl(state.ttl)}, but {missed:,} of {uses.total:,} uses found a row "
                    "of that age or older",
                    f"set its TTL to about {ago(min_ttl, 0)}, or see 'stateplan state advise' for what others miss",
                )


class LongerThanUsed(Rule, code="TTL015", name="longer-than-used", severity=Severity.ADVICE):
    """The TTL is much longer than the age at which rows were used.

    Anti-pattern: a checkpoint shows that 9,999 of 10,000 uses found rows younger than two hours, and the TTL is seven
    days. Lint checks this with `--checkpoint`.

    Why: rows stay in state that nothing uses again. They take memory, disk and time in every merge. The rule is silent
    when the job was observed for less than twice the time that is needed, because older rows could not be seen.

    Best practice: shorten the TTL. `stateplan state advise CHECKPOINT` shows the rows that this frees and the uses that
    it misses. If rows are needed later only in rare cases, such as once a quarter, suppress the finding with that
    reason.

    Source: the histograms of ages in the metrics of the checkpoint. Flink has no such figures.
    """

    def applies(self, subject: Subject) -> bool:
        return subject.observed is not None

    def check(self, subject: Subject) -> Iterator[Problem]:
        span = subject.observed.span if subject.observed is not None else 0
        for state, uses in _states_with_uses(subject):
            min_ttl = uses.ttl_for(uses.total // _MISSED)
            if span < 2 * min_ttl or (state.ttl != NEVER and state.ttl < _MUCH_LONGER * min_ttl):
                continue
            span_text = "keeps rows forever" if state.ttl == NEVER else f"keeps rows for {format_ttl(state.ttl)}"
            last = span if state.ttl == NEVER else min(span, state.ttl)
            yield at_state(
                state,
                f"{state} {span_text}, but 99.99% of {uses.total:,} uses found a row younger than {ago(min_ttl, 0)}: "
                f"about {1 - min_ttl / last:.0%} of the rows that it keeps are not used again",
                f"set its TTL to about {ago(min_ttl, 0)}, or see 'stateplan state advise' for what that frees",
            )
