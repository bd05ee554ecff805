"""Suppressions without a finding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from stateplan.plans.jsontext import join_pointer
from stateplan.plans.lint.rule import Problem, Rule, Unsuppress
from stateplan.plans.lint.subject import Subject
from stateplan.plans.lint.suppressed import POINTER, accepted


class UnusedSuppression(Rule):
    """A suppression has no finding to suppress.

    Anti-pattern: the plan suppresses a finding that does not exist, or no longer exists.

    Why: if a later edit causes the finding again, it stays hidden, although it was accepted for other reasons.

    Best practice: remove suppressions that are no longer needed. `--fix` removes them and changes nothing else.

    Source: similar rules of other linters, such as ruff's `unused-noqa`.
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
                        f"{code} has no finding here to suppress",
                        "remove the suppression",
                        pointer=POINTER + join_pointer([code]),
                        on_key=True,
                        edit=Unsuppress(node.id, code),
                    )
