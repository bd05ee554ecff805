"""Faults of Flink 2.3 that random queries meet: each with its name, and how an answer of Flink shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.support.golden import tree_of


@dataclass(frozen=True)
class Answer:
    """Flink's answer in ``folder``, as :mod:`scripts.flink_answers` puts it there."""

    folder: Path

    def said(self, name: str) -> str:
        """The text of a file; empty where there is none."""
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    @cached_property
    def plan(self) -> str:
        """The operators, as EXPLAIN shows them."""
        return tree_of(json.loads(self.said("plan.json"))) if (self.folder / "plan.json").exists() else ""

    @property
    def message(self) -> str:
        """Why Flink refused the query, or failed."""
        return self.said("refused.txt") + self.said("failed.txt")


def _plan_has(*patterns: str) -> Callable[[Answer], bool]:
    return lambda answer: all(re.search(p, answer.plan) for p in patterns)


def _says(text: str) -> Callable[[Answer], bool]:
    return lambda answer: text in answer.message


FAULTS: dict[str, Callable[[Answer], bool]] = {
    "a correlate of LATERAL or UNNEST under another subquery cannot be planned": _says("unexpected correlate variable"),
    "sets of groups over sets of groups cannot be planned": _says("IndexOutOfBoundsException"),
    "two time attributes reach a sink, which it sees only when the job starts": _says(
        "should be used as the event-time timestamp for the table sink"
    ),
    "a row without a time fails the job": _says("RowTime field should not be null"),
    "a row without a time is in the windows of 1970": lambda a: bool(
        re.search(r"19(69-12-31|70-01-01)T", a.said("changelog.txt")) and "GroupWindowAggregate" in a.plan
    ),
    "sessions are made after the sets of groups, so rows of other keys join them": _plan_has(
        r"SESSION[^\n]*\n(?:[^\n]*(?:Calc|Exchange)\([^\n]*\n)*[^\n]*Expand\("
    ),
    "a RIGHT JOIN of windows matches NULL with NULL": _plan_has(r"WindowJoin\([^\n]*joinType=\[RightOuterJoin\]"),
    "a top-N with OFFSET keeps rows that are gone": _plan_has(
        r"(offset=\[[1-9]\d*\][^\n]*strategy=\[Retract|strategy=\[Retract[^\n]*rankStart=[2-9])"
    ),
}
"""Name -> whether an answer shows it. Only answers that differ are asked."""


def fault_of(folder: Path) -> str:
    """The name of the fault in an answer that differs; empty where none is known."""
    answer = Answer(folder)
    return next((name for name, shows in FAULTS.items() if shows(answer)), "")
