"""Sinks that forget rows too early."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.execnodes.ttl import outlives
from stateplan.plans.document import ttl_text
from stateplan.plans.lint.rule import Problem, Rule, for_how_long, raised
from stateplan.plans.lint.subject import Subject


class SinkForgetsFirst(Rule):
    """A sink forgets the current row of a key while the query can still change it.

    Anti-pattern: a sink that keeps the rows of each primary key (`requireUpsertMaterialize`) has a shorter TTL than the
    state upstream of it.

    Why: the sink needs these rows to order changes with the same primary key. The deletion of a forgotten row writes
    nothing, and the table shows the row forever. If two rows share a key, the remaining one does not come back.

    Best practice: the sink lives at least as long as all upstream state. `--fix` sets this TTL. A better way is a
    primary key that is also the key of the query. The sink then needs no state.

    Source: Flink's `SinkUpsertMaterializer` and its warning ("The state is cleared because of state ttl. This will
    result in incorrect result.").
    """

    CODE: ClassVar[str] = "TTL005"
    NAME: ClassVar[str] = "sink-forgets-first"
    FIXABLE: ClassVar[bool] = True

    def check(self, subject: Subject) -> Iterator[Problem]:
        for state in subject.all_states():
            if state.node.title != "sink":
                continue
            front = subject.longest_in_front(state)
            if front is not None and outlives(front.ttl, state.ttl):
                message = (
                    f"{state} forgets the rows of a primary key after {ttl_text(state.ttl)}, but {front.operator} "
                    f"upstream can change them {for_how_long(front.ttl)}"
                )
                yield raised(subject, state, front.ttl, message)
