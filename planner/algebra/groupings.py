"""GROUP BY as Flink's logical plan has it, where the binder makes something else of it."""

from __future__ import annotations

from stateplan.common.lazy_dataclass import dataclass
from stateplan.functions.rex import Rex
from stateplan.planner.algebra.base import AggCall, Rel


@dataclass(frozen=True)
class Grouping:
    """A GROUP BY as Flink's logical plan has it: ``input`` grouped by its first ``keys`` fields, in ``sets`` of them.

    ``calls`` are the aggregate calls. ``window`` is the call of the window among the keys, at its place, and
    ``property_names`` the functions that return its properties: fields between the keys and the calls here, and none in
    Flink's plan.
    """

    input: Rel
    keys: int
    sets: tuple[tuple[int, ...], ...]
    calls: tuple[AggCall, ...]
    window: tuple[int, Rex] | None = None
    property_names: tuple[str, ...] = ()
