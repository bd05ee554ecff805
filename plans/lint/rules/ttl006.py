"""State is forgotten before late rows come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.execnodes.rex import Call, Literal, Rex
from stateplan.execnodes.ttl import NEVER, format_ttl
from stateplan.plans.lint.rule import Problem, Rule
from stateplan.plans.lint.subject import Origin, Subject

_IN_ORDER = frozenset(
    {
        "window-aggregate",
        "global-window-aggregate",
        "group-window-aggregate",
        "window-join",
        "window-rank",
        "window-deduplicate",
        "temporal-sort",
        "over-aggregate",
        "match",
    }
)
"""Operators that wait for the watermark: behind them, rows do not come late any more."""


class ShorterThanWatermarkDelay(Rule):
    """State lives shorter than rows are waited for.

    Anti-pattern: `WATERMARK FOR ts AS ts - INTERVAL '1' DAY` says that rows may come a day late, and state behind it
    has a TTL of an hour.

    Why: what a late row belongs to has been forgotten when it comes. Aggregates start anew, deduplications take its
    twin for new. A temporal join keeps each row until the watermark has come to it: rows that expire while they
    wait are never joined.

    Best practice: the TTL is longer than the delay of the watermark, or the delay is shortened to what is true of the
    source. How much longer depends on how often keys come, so there is no fix.

    Source: Flink's `TemporalRowTimeJoinOperator` (cleanup of rows that wait); the state TTL is by processing time
    (Flink's documentation of state), the delay by event time, and live they go at the same pace.
    """

    CODE: ClassVar[str] = "TTL006"
    NAME: ClassVar[str] = "shorter-than-watermark-delay"

    def check(self, subject: Subject) -> Iterator[Problem]:
        delays = subject.carried(
            lambda node: _delay(getattr(node, "watermark_expr", None) or _pushed(node)),
            stops=lambda node: node.title in _IN_ORDER,
        )
        for state in subject.all_states():
            found: Origin | None = delays.get(state.node.id)
            if found is not None and state.ttl != NEVER and state.ttl < found.millis:
                yield Problem(
                    state.node,
                    f"{state} forgets after {format_ttl(state.ttl)}, and the watermark of {found.node.label} waits "
                    f"for rows that come up to {format_ttl(found.millis)} late",
                    f'set its TTL to more than "{format_ttl(found.millis)}", or let the watermark wait for less',
                    state=state.index,
                )


def _pushed(node: object) -> Rex | None:
    """The watermark that a source makes itself."""
    spec = getattr(node, "scan_table_source", None)
    found = [getattr(ability, "watermark_expr", None) for ability in (spec.abilities if spec is not None else ())]
    return next((rex for rex in found if rex is not None), None)


def _delay(rex: Rex | None) -> int:
    """How far the watermark is behind the largest time, ms; 0 for anything but a time minus an interval."""
    if isinstance(rex, Call) and rex.name in ("-", "MINUS") and len(rex.operands) == 2:
        interval = rex.operands[1]
        if isinstance(interval, Literal) and "INTERVAL" in interval.type.root and "YEAR" not in interval.type.root:
            return int(interval.value) if str(interval.value).lstrip("-").isdigit() else 0
    return 0
