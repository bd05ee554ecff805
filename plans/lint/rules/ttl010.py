"""State that is there dies at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.execnodes.ttl import outlives
from stateplan.plans.document import ttl_text
from stateplan.plans.lint.rule import Problem, Rule
from stateplan.plans.lint.subject import Subject, states_of


class ShortenedOnCheckpoint(Rule):
    """A TTL is shorter than that of the plan whose state the job would go on from.

    Anti-pattern: a job is stopped, a TTL in its plan is shortened, and it is started again on its checkpoint. Lint sees
    this with `--checkpoint` or `--against`.

    Why: state holds when it was last written, not when it dies. Rows that were written longer ago than the new TTL are
    gone with the first micro-batch, all together: the next rows of their keys begin anew, and what was computed from
    them is never corrected. Lengthening the TTL again does not bring them back.

    Best practice: shorten a TTL when all that counts is younger than the new one, and keep a copy of the checkpoint.
    Or accept the loss, and say so: `--suppress TTL010 --reason ...`.

    Source: Flink's documentation of state TTL (the TTL is no part of a checkpoint) and FLINK-32953 on changing
    it for state that is there.
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
                    f"{state} is there with a TTL of {ttl_text(before.ttl)}; with {ttl_text(state.ttl)} everything "
                    "written longer ago is gone at once",
                    f'set its TTL back to "{ttl_text(before.ttl) if before.ttl else "0 ms"}", or wait until what is '
                    "older does not count any more",
                    state=state.index,
                )
