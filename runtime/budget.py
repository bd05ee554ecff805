"""How much state a job may keep: ``table.exec.state.budget``.

After each micro-batch the stored rows or bytes of states are compared with their limits. Near a limit, a message says
which state it is, how fast it grows, and which TTL its uses need. Over one, the policy decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias

from stateplan.common.errors import CheckpointError, RunError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath
from stateplan.common.readable import ago, bytes_text
from stateplan.common.ttl import NEVER, format_ttl, outlives
from stateplan.runtime.checkpoint.live_ttl import TtlRequest, editing
from stateplan.runtime.metrics.records import BatchMetrics
from stateplan.runtime.metrics.state_uses import StateUses

BUDGET = "table.exec.state.budget"
POLICY = "table.exec.state.budget.policy"

Key: TypeAlias = tuple[str, int]
"""A state: uid of its operator, number among its states."""

JOB = "job"
WHO = "state budget"
"""Who asks for the TTLs that keep a budget, in the record of live TTLs."""

_WARN_AT = 0.8
"""The share of a limit at which the user is warned."""
_MISSED = 10_000
"""The suggested TTL misses at most one use of this number."""
_SETTLES = 32
"""How many micro-batches a state has to drop the rows that a shorter TTL expires, before its TTL is shortened again."""
_SPAN = 60_000
"""Growth is measured over about this number of ms."""
_ROOM = 0.9
"""A shorter TTL is meant to use so much of the limit."""


@dataclass(frozen=True)
class State:
    """A state that has a limit, by itself or as a part of the job.

    Attributes:
        key: which it is.
        selector: the selector of the state.
        floor: the shortest TTL that the plan allows it, ms; None if the plan says none.
    """

    key: Key
    selector: str
    floor: int | None


@dataclass(frozen=True)
class Limit:
    """How many rows, or how many bytes, some states may have together.

    Attributes:
        label: how the user named them; :data:`JOB` for all.
        states: those that count.
        amount: how many.
        unit: of what.
    """

    label: str
    states: tuple[State, ...]
    amount: int
    unit: Literal["rows", "bytes"]

    def size(self, record: BatchMetrics, state: State) -> int:
        """How many rows or bytes a state has."""
        state_size = record.state.get(state.key[0])
        values = [] if state_size is None else state_size.rows if self.unit == "rows" else state_size.bytes
        return values[state.key[1]] if state.key[1] < len(values) else 0

    def total(self, record: BatchMetrics) -> int:
        """How many all of them have; for the job, those of operators without a TTL too."""
        if self.label == JOB:
            return sum(sum(s.rows if self.unit == "rows" else s.bytes) for s in record.state.values())
        return sum(self.size(record, state) for state in self.states)

    def words(self, amount: float) -> str:
        """An amount in its unit."""
        return bytes_text(amount) if self.unit == "bytes" else f"{amount:,.0f} rows"


@dataclass(frozen=True)
class Limits:
    """What the session says of the state of a job.

    Attributes:
        limits: the limits of the job and of states.
        policy: what happens over a limit.
    """

    limits: tuple[Limit, ...]
    policy: Literal["WARN", "STOP", "SHORTEN"]

    def shares(self, record: BatchMetrics) -> dict[str, float]:
        """How much of each limit is used, by label."""
        return {limit.label: round(limit.total(record) / limit.amount, 4) for limit in self.limits}


@dataclass
class Budget:
    """Watches the limits of a running job.

    Attributes:
        limits: what the session says.
        folder: the folder of the checkpoint, where shorter TTLs are requested.
        ttl: returns the TTL that holds for a state, ms.
        recent: the records so far, oldest first.
        observed: returns the uses of states so far.
        tell: receives messages, a line each.
    """

    limits: Limits
    folder: AnyPath
    ttl: Callable[[Key], int]
    recent: Sequence[BatchMetrics]
    observed: Callable[[], StateUses]
    tell: Callable[[str], None]
    _last_warnings: dict[str, str] = field(default_factory=dict)
    _shortened_at: dict[Key, int] = field(default_factory=dict)

    def look(self, record: BatchMetrics) -> RunError | None:
        """Looks at the state after a micro-batch; the error with which the job is to stop, if it is."""
        over: RunError | None = None
        for limit in self.limits.limits:
            amount = limit.total(record)
            stage = "over" if amount > limit.amount else "near" if amount >= _WARN_AT * limit.amount else ""
            if stage and stage != self._last_warnings.get(limit.label):
                self.tell(self._words(limit, record, amount))
            self._last_warnings[limit.label] = stage
            if stage == "over" and self.limits.policy == "STOP" and over is None:
                over = RunError("RUN166", label=limit.label, used=limit.words(amount), limit=limit.words(limit.amount))
            elif stage == "over" and self.limits.policy == "SHORTEN":
                self._shorten(limit, record, amount)
        return over

    def _words(self, limit: Limit, record: BatchMetrics, amount: int) -> str:
        """What there is, what grows, and what may be done."""
        head = (
            f"state budget: {limit.label} has {limit.words(amount)}, {amount / limit.amount:.0%} of its "
            f"{limit.words(limit.amount)}"
        )
        if not limit.states:
            return f"{head}; none of its states has a TTL"
        before = self._before(record)
        growth = {s.key: limit.size(record, s) - limit.size(before, s) for s in limit.states}
        most = max(limit.states, key=lambda s: (growth[s.key], limit.size(record, s)))
        own = "" if limit.label == most.selector else f"{most.selector} has {limit.words(limit.size(record, most))}; "
        span = ago(record.started - before.started, 0)
        return f"{head}; {own}{most.selector} grew by {limit.words(growth[most.key])} in {span}; {self._advice(most)}"

    def _before(self, record: BatchMetrics) -> BatchMetrics:
        """The record from which growth is measured."""
        older = [r for r in self.recent if r.started <= record.started - _SPAN]
        return older[-1] if older else self.recent[0] if self.recent else record

    def _advice(self, state: State) -> str:
        ttl = self.ttl(state.key)
        current = "it never expires" if ttl == NEVER else f"its TTL is {format_ttl(ttl)}"
        uses = self.observed().all_uses(*state.key)
        if not uses.total:
            return f"{current}, and no use of its rows was seen"
        needed_ttl = uses.ttl_for(uses.total // _MISSED)
        return (
            f"{current}; 99.99% of {uses.total:,} uses found a row younger than {ago(needed_ttl, 0)} (see state advise)"
        )

    def _shorten(self, limit: Limit, record: BatchMetrics, amount: int) -> None:
        """Asks for shorter TTLs of the states of a limit, in proportion, not below their floors."""
        changes: dict[Key, tuple[State, int, int]] = {}
        for state in limit.states:
            since = self._shortened_at.get(state.key)
            ttl = self.ttl(state.key)
            if state.floor is None or (since is not None and record.batch < since + _SETTLES):
                continue
            span = ttl if ttl != NEVER else record.time - min((r.time for r in self.recent), default=record.time)
            short = max(state.floor, int(span * _ROOM * limit.amount / amount))
            if outlives(ttl, short):
                changes[state.key] = state, ttl, short
        if not changes:
            return
        try:
            with editing(self.folder) as record_of_ttls:
                for key, (_, _, short) in changes.items():
                    if key in record_of_ttls:
                        record_of_ttls[key] = replace(
                            record_of_ttls[key], asked=TtlRequest(short, time.time_ns() // 1_000_000, WHO)
                        )
        except CheckpointError as error:
            self.tell(f"state budget: TTLs cannot be shortened: {error.message}")
            return
        for key, (state, ttl, short) in changes.items():
            self._shortened_at[key] = record.batch
            was = "never" if ttl == NEVER else format_ttl(ttl)
            uses = self.observed().all_uses(*key)
            cost = (
                f", which would have missed {uses.missed(short):,} of {uses.total:,} uses so far" if uses.total else ""
            )
            floor = " (the floor that the plan allows)" if short == state.floor else ""
            self.tell(
                f"state budget: {limit.label} has {limit.words(amount)} of {limit.words(limit.amount)}, so the TTL of "
                f"{state.selector} is shortened from {was} to {format_ttl(short)}{floor}{cost}; results may miss rows"
            )
