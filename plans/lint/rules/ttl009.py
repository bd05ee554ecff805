"""The plan says something else than the hint in the SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.plans.document import ttl_text
from stateplan.plans.lint.rule import Problem, Rule, Severity
from stateplan.plans.lint.subject import Subject


class ShadowedHint(Rule):
    """A STATE_TTL hint of the SQL does not count, as the plan has been edited.

    Anti-pattern: the SQL says `/*+ STATE_TTL('orders' = '7 d') */`, and the plan that was compiled from it says another
    TTL.

    Why: the plan counts, and a reader of the SQL is misled: changing the hint changes nothing until the plan is
    compiled again, and then the edit is gone.

    Best practice: say it in one place. Take the TTL into the hint and compile the plan again, or take the hint out of
    the SQL, or set the TTL of the plan back. Which of them is right, only its author knows, so there is no fix.

    Source: FLIP-373 and Flink's documentation of the SQL operators' TTL: a TTL in the plan goes before a hint, a hint
    before `table.exec.state.ttl`.
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
                    f"the TTL of {state} is {ttl_text(state.ttl)}, and the hint in the SQL says {ttl_text(ttl)}",
                    "say it in the hint and compile the plan again, or take the hint out, or set the TTL back",
                    state=state.index,
                )
