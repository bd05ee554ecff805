"""Hands the condition of a calc to the source below it, where no filter reached the source before.

Source: Flink's ``PushFilterInCalcIntoTableSourceScanRule``.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.planner.algebra.relations import Calc, Filter, Rel, Scan
from stateplan.planner.expressions.ops import is_always_true
from stateplan.planner.passes.push_filters_into_scans import push_filter_into_scan


def push_calc_filter_into_scan(rel: Rel) -> Rel | None:
    if not isinstance(rel, Calc) or rel.condition is None or not isinstance(rel.input, Scan):
        return None
    pushed = push_filter_into_scan(Filter(rel.input, rel.condition))
    if pushed is None:
        return None
    if isinstance(pushed, Filter):
        condition = None if is_always_true(pushed.condition) else pushed.condition
        return replace(rel, input=pushed.input, condition=condition)
    return replace(rel, input=pushed, condition=None)
