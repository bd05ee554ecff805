"""Suppressions without a reason or with an unknown code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.execnodes.errors import nearest
from stateplan.plans.jsontext import join_pointer
from stateplan.plans.lint.rule import Problem, Rule
from stateplan.plans.lint.subject import Subject
from stateplan.plans.lint.suppressed import POINTER, accepted, is_reason


class BadSuppression(Rule):
    """A suppression has no reason, or names an unknown rule.

    Anti-pattern: `"suppress" : {"TTL001" : ""}`, or a code that no rule has.

    Why: without a reason, nobody can tell whether the finding was reviewed or only silenced, and nobody dares to remove
    the suppression. Such a suppression has no effect, and the finding is reported.

    Best practice: `stateplan plan lint PLAN --suppress TTL001 --reason 'why this result is acceptable'`.

    Source: similar rules of other linters, such as ruff's `blanket-type-ignore`, and review practice.
    """

    CODE: ClassVar[str] = "PLN003"
    NAME: ClassVar[str] = "bad-suppression"
    SUPPRESSIBLE: ClassVar[bool] = False

    def check(self, subject: Subject) -> Iterator[Problem]:
        from stateplan.plans.lint.rules import all_rules

        known = [code for code, rule in all_rules().items() if rule.SUPPRESSIBLE]
        for node in subject.nodes:
            for code, reason in accepted(node, every=True).items():
                pointer = POINTER + join_pointer([code])
                if code not in known:
                    hint = nearest(code, known) or "the codes are " + ", ".join(known)
                    message = f"{code!r:.60} is not the code of a rule that can be suppressed"
                    yield Problem(node, message, hint, pointer=pointer, on_key=True)
                elif not is_reason(reason):
                    yield Problem(node, f"{code} is suppressed without a reason", "add the reason", pointer=pointer)
