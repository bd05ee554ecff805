"""A sink forgets its rows too early."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.execnodes.ttl import outlives
from stateplan.plans.document import ttl_text
from stateplan.plans.lint.rule import Problem, Rule, for_how_long, raised
from stateplan.plans.lint.subject import Subject


class SinkForgetsFirst(Rule):
    """A sink forgets which row its table shows before the query has stopped changing it.

    Anti-pattern: a sink that keeps the rows of each primary key (`requireUpsertMaterialize`) has a shorter TTL than
    the state in front of it.

    Why: the sink orders the changes of rows that share a primary key, and needs the rows for that. A deletion of a row
    it has forgotten writes nothing: the table shows the row for ever. Where two rows share a key, the one that
    remains is not brought back.

    Best practice: the sink lives at least as long as all the state in front of it; `--fix` sets that. Better still is
    a primary key that is the key of the query, for which the sink needs no state.

    Source: Flink's `SinkUpsertMaterializer`, and its warning that the state is cleared too early
    ("The state is cleared because of state ttl. This will result in incorrect result.").
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
                    f"{state} forgets the rows of a primary key after {ttl_text(state.ttl)}, and {front.operator} in "
                    f"front of it can change them {for_how_long(front.ttl)}"
                )
                yield raised(subject, state, front.ttl, message)
