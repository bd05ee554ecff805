"""State that expires before late rows arrive."""

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
"""Operators that wait for the watermark. Downstream of them, no row is late."""


class ShorterThanWatermarkDelay(Rule):
    """The TTL is shorter than the watermark delay.

    Anti-pattern: `WATERMARK FOR ts AS ts - INTERVAL '1' DAY` accepts rows that are a day late, and state downstream of
    it has a TTL of an hour.

    Why: the state for a late row has expired when the row arrives. Aggregates restart, and deduplications treat a
    duplicate as new. A temporal join keeps each row until the watermark reaches it; rows that expire while they wait
    are never joined.

    Best practice: use a TTL longer than the watermark delay, or shorten the delay to the actual delay of the source.
    How much longer depends on how often keys repeat, so there is no fix.

    Source: Flink's `TemporalRowTimeJoinOperator` (cleanup of waiting rows). TTLs use processing time (Flink's
    documentation of state) and delays use event time, but on live data both advance at the same pace.
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
                    f"{state} expires after {format_ttl(state.ttl)}, but the watermark of {found.node.label} waits "
                    f"for rows that are up to {format_ttl(found.millis)} late",
                    f'set its TTL to more than "{format_ttl(found.millis)}", or shorten the watermark delay',
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
