"""Existing state that expires at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.execnodes.ttl import outlives
from stateplan.plans.document import ttl_text
from stateplan.plans.lint.rule import Problem, Rule
from stateplan.plans.lint.subject import Subject, states_of


class ShortenedOnCheckpoint(Rule):
    """The TTL is shorter than the one that existing state was written with.

    Anti-pattern: you stop a job, shorten a TTL in its plan, and start it again on its checkpoint. Lint checks this with
    `--checkpoint` or `--against`.

    Why: state stores the time of the last write, not the time of expiry. With the first micro-batch, all rows older
    than the new TTL expire together. The next rows of their keys start again, and results computed from the old rows
    are never corrected. A longer TTL does not bring them back.

    Best practice: shorten a TTL only if no row older than the new TTL matters, and keep a copy of the checkpoint. Or
    accept the loss with `--suppress TTL010 --reason ...`.

    Source: Flink's documentation of state TTL (the TTL is not part of a checkpoint), and FLINK-32953 on changing the
    TTL of existing state.
    """

    CODE: ClassVar[str] = "TTL010"
    NAME: ClassVar[str] = "shortened-on-checkpoint"

    def applies(self, subject: Subject) -> bool:
        return subject.against is not None

    def check(self, subject: Subject) -> Iterator[Problem]:
        if subject.against is None:
            return
        names = subject.against.uids
        old = {
            (names[node_id], state.index): state
            for node_id, states in states_of(subject.against.graph, subject.session).items()
            for state in states
        }
        for state in subject.all_states():
            before = old.get((subject.document.uids[state.node.id], state.index))
            if before is not None and outlives(before.ttl, state.ttl):
                yield Problem(
                    state.node,
                    f"{state} was written with the TTL {ttl_text(before.ttl)}; with {ttl_text(state.ttl)}, all older "
                    "rows expire at once",
                    f'set its TTL back to "{ttl_text(before.ttl) if before.ttl else "0 ms"}", or wait until '
                    "older rows no longer matter",
                    state=state.index,
                )
