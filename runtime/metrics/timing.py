"""When the parts of a micro-batch ran, for traces. Only jobs whose traces somebody collects have it.

Workers import this module, so it imports no library.
"""

from __future__ import annotations

import time
from dataclasses import field

from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.metrics.figures import SPAN_BEGIN, SPAN_END, Figures

Interval = tuple[float, float]
"""Begin and end, ms since 1970."""


@dataclass
class BatchTiming:
    """When the parts of a micro-batch ran. All times are ms since 1970.

    Attributes:
        begin, end: when the driver began with it, and when it had committed the sinks.
        committing: when the driver began to commit the sinks.
        operators: by operator uid, from the begin of its first task to the end of its last one, by the clocks of the
            machines that ran them.
        planning: when Spark, or the local job, began to plan the micro-batch; None if that is not known.
    """

    begin: float
    end: float
    committing: float
    operators: dict[str, Interval] = field(default_factory=dict)
    planning: float | None = None


def stamp(figures: dict[str, float]) -> dict[str, float]:
    """Figures that a task adds for an operator at this moment, with the time that they are about."""
    if "busy_ms" in figures:
        now = 1000 * time.time()
        figures[SPAN_END] = now
        figures[SPAN_BEGIN] = figures["busy_ms"] - now
    return figures


def take_intervals(operators: Figures) -> dict[str, Interval]:
    """Takes what :func:`stamp` added out of the figures of a micro-batch: by operator uid, when it ran."""
    return {uid: (-f.pop(SPAN_BEGIN), f.pop(SPAN_END)) for uid, f in operators.items() if SPAN_BEGIN in f}
