"""Plans whose TTL differs from the hint in the SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.plans.document import ttl_text
from stateplan.plans.lint.rule import Problem, Rule, Severity
from stateplan.plans.lint.subject import Subject


class ShadowedHint(Rule):
    """An edit of the plan overrides a STATE_TTL hint in the SQL.

    Anti-pattern: the SQL has `/*+ STATE_TTL('orders' = '7 d') */`, and the plan compiled from it has another TTL.

    Why: the plan wins, so the hint misleads readers of the SQL. Changing the hint has no effect until the plan is
    compiled again, and then the edit is lost.

    Best practice: set the TTL in one place. Move it into the hint and compile the plan again, or remove the hint from
    the SQL, or reset the TTL of the plan. Only the author knows which is right, so there is no fix.

    Source: FLIP-373 and Flink's documentation of TTLs of SQL operators: a TTL in the plan overrides a hint, and a hint
    overrides `table.exec.state.ttl`.
    """

    CODE: ClassVar[str] = "TTL009"
    NAME: ClassVar[str] = "shadowed-hint"
    SEVERITY: ClassVar[Severity] = Severity.ADVICE

    def check(self, subject: Subject) -> Iterator[Problem]:
        for state in subject.all_states():
            compiled = state.node.compiled_ttls
            if state.index >= len(compiled):
                continue
            ttl, whence = compiled[state.index]
            if whence == "hint" and ttl != state.ttl:
                yield Problem(
                    state.node,
                    f"the TTL of {state} is {ttl_text(state.ttl)}, but the hint in the SQL sets {ttl_text(ttl)}",
                    "move the TTL into the hint and compile the plan again, or remove the hint, or reset the TTL",
                    state=state.index,
                )
