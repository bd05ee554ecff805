"""Suppressions that say too little."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.execnodes.errors import nearest
from stateplan.plans.jsontext import join_pointer
from stateplan.plans.lint.rule import Problem, Rule
from stateplan.plans.lint.subject import Subject
from stateplan.plans.lint.suppressed import POINTER, accepted, is_reason


class BadSuppression(Rule):
    """A suppression has no reason, or names no rule.

    Anti-pattern: `"suppress" : {"TTL001" : ""}`, or a code that no rule has.

    Why: without a reason nobody can tell whether the finding was looked at or only silenced, and nobody dares to take
    the suppression out. Such a suppression does not count: the finding is shown.

    Best practice: `stateplan plan lint PLAN --suppress TTL001 --reason 'why the result may be so'`.

    Source: as linters do, such as ruff's `blanket-type-ignore`, and reviews of teams that ask for a reason.
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
                    message = f"no rule that can be suppressed has the code {code!r:.60}"
                    yield Problem(node, message, hint, pointer=pointer, on_key=True)
                elif not is_reason(reason):
                    yield Problem(node, f"{code} is suppressed without a reason", "say why", pointer=pointer)
