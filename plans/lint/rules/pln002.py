"""Suppressions that suppress nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from stateplan.plans.jsontext import join_pointer
from stateplan.plans.lint.rule import Problem, Rule, Unsuppress
from stateplan.plans.lint.subject import Subject
from stateplan.plans.lint.suppressed import POINTER, accepted


class UnusedSuppression(Rule):
    """A suppression suppresses nothing.

    Anti-pattern: the plan says that a finding is accepted, and there is no such finding (any more).

    Why: when the finding comes back with a later edit, nobody is told: it was accepted, once, for other reasons.

    Best practice: suppressions go when what they suppress is gone; `--fix` takes them out of the plan, and leaves every
    other byte as it is.

    Source: as linters do, such as ruff's `unused-noqa`.
    """

    CODE: ClassVar[str] = "PLN002"
    NAME: ClassVar[str] = "unused-suppression"
    FIXABLE: ClassVar[bool] = True
    SUPPRESSIBLE: ClassVar[bool] = False

    def review(self, subject: Subject, found: Mapping[str, Sequence[Problem]]) -> Iterator[Problem]:
        at = {(code, problem.node.id) for code, problems in found.items() for problem in problems}
        for node in subject.nodes:
            for code in accepted(node):
                if code in found and (code, node.id) not in at:
                    yield Problem(
                        node,
                        f"{code} has found nothing here that could be suppressed",
                        "take the suppression out",
                        pointer=POINTER + join_pointer([code]),
                        on_key=True,
                        edit=Unsuppress(node.id, code),
                    )
