"""Faults of Flink 2.3 that random queries meet: each with its name, and how an answer of Flink shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.support.golden import tree_of


@dataclass(frozen=True)
class Answer:
    """Flink's answer in ``folder``, as :mod:`scripts.flink_answers` puts it there.

    Attributes:
        more: rows that are left here only.
        fewer: rows that are left in Flink only.
    """

    folder: Path
    more: Sequence[str] = ()
    fewer: Sequence[str] = ()

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


def _says(text: str, script: str = "", times: int = 1) -> Callable[[Answer], bool]:
    """Flink's message has ``text``, and the script ``script`` so often."""
    return lambda a: text in a.message and len(re.findall(script, a.said("script.sql"))) >= times


def _in_1970(answer: Answer) -> bool:
    """Whether all rows that differ are Flink's, and of windows about the time 0."""
    return (
        "GroupWindowAggregate" in answer.plan
        and not answer.more
        and bool(answer.fewer)
        and all(re.search(r"19(69-12-31|70-01-01)T", row) for row in answer.fewer)
    )


_VIEW_OF_SESSIONS = r"(?m)^CREATE TEMPORARY VIEW .*TABLE\(SESSION\(TABLE \w+ PARTITION BY \("


FAULTS: dict[str, Callable[[Answer], bool]] = {
    "a correlate of LATERAL or UNNEST under another subquery cannot be planned": _says("unexpected correlate variable"),
    "sets of groups over sets of groups cannot be planned": _says(
        "java.lang.IndexOutOfBoundsException", r"GROUP BY (ROLLUP|CUBE|GROUPING SETS)", times=2
    ),
    "a rule of the planner gives rows of another type": lambda a: bool(
        re.search(
            "Cannot add expression of different type to set|Error while applying rule .*Type mismatch", a.message, re.S
        )
    ),
    "the keys of sessions lose their parentheses in the text of a view": lambda a: bool(
        re.search(r"arguments to function 'SESSION'|Column '\w+' not found in any table", a.message)
        and re.search(_VIEW_OF_SESSIONS, a.said("script.sql"))
    ),
    "windows over renamed starts of windows have two fields of one name": _says(
        "Field names must be unique. Found duplicates: [window_", r"window_(start|end) AS x"
    ),
    "columns of two OVER windows have one name": _says("Field names must be unique. Found duplicates: [w0$o"),
    "variables of a pattern are lost in WITH": _says("Table 'A' not found", r"WITH \w+ AS [^;]*MATCH_RECOGNIZE"),
    "a time that an outer join may leave empty is no time attribute": _says(
        "requires the timecol is a time attribute type", r"(LEFT|RIGHT|FULL) JOIN"
    ),
    "MIN and MAX of a time stay time attributes in a UNION with another time": _says(
        "Union fields with time attributes requires same types", r"(MIN|MAX)\((\w\.)?(\w+)\)[^;]* UNION "
    ),
    "a hint of STATE_TTL on a deduplication is refused": _says("in `STATE_TTL`", r"STATE_TTL\('\w+' = '2 h'\)"),
    "SUM(DISTINCT) of hopping windows fails the job": _says("does not support retraction", r"HOP\("),
    "two time attributes reach a sink, which it sees only when the job starts": _says(
        "should be used as the event-time timestamp for the table sink"
    ),
    "a row without a time fails the job": _says("should not be null, please convert it to a non-null long value"),
    "a row without a time is in the windows of 1970": _in_1970,
    "sessions are made after the sets of groups, so rows of other keys join them": _plan_has(
        r"SESSION[^\n]*\n(?:[^\n]*(?:Calc|Exchange)\([^\n]*\n)*[^\n]*Expand\("
    ),
    "CURRENT_WATERMARK behind a mini-batch of processing time is the time of the clock": _plan_has(
        r"CURRENT_WATERMARK\([^\n]*\n[^\n]*MiniBatchAssigner\([^\n]*mode=\[ProcTime\]"
    ),
    "a RIGHT JOIN of windows matches NULL with NULL": _plan_has(r"WindowJoin\([^\n]*joinType=\[RightOuterJoin\]"),
    # Flink generates the code of a Calc for the first input of the Union below it, where the marker is never NULL.
    "INTERSECT ALL of a time attribute takes NULL for TRUE": _plan_has(
        r"Calc\([^\n]*AS TIMESTAMP[^\n]*vcol_left_marker, vcol_right_marker\]\)\n[^\n]*Union\("
    ),
    "a top-N with OFFSET keeps rows that are gone": _plan_has(
        r"(offset=\[[1-9]\d*\][^\n]*strategy=\[Retract|strategy=\[Retract[^\n]*rankStart=[2-9])"
    ),
    # No faults: there the rows depend on the clock, or on an order that nothing fixes.
    "rows that differ only by the clock are two": _plan_has(
        r"GroupAggregate\(groupBy=\[[^\]]*\bpt\b", r"PROCTIME_MATERIALIZE\(pt\)|PROCTIME\(\) AS pt"
    ),
    "a session begins with the one of several rows of a window that comes first": _plan_has(
        r"SessionGroupWindow[^\n]*\n(?:[^\n]*(?:Calc|Exchange)\([^\n]*\n)*[^\n]*Window(Rank|Aggregate|Deduplicate)\("
    ),
}
"""Name -> whether an answer shows it. Only answers that differ are asked."""


def fault_of(answer: Answer) -> str:
    """The name of the fault in an answer that differs; empty where none is known."""
    return next((name for name, shows in FAULTS.items() if shows(answer)), "")
