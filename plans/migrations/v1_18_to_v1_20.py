"""Plans of Flink 1.18 and 1.19 as plans of 1.20: window aggregations over changes (FLINK-20281)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stateplan.plans.migrations import Effect, Release, add

_WINDOWS = {
    "stream-exec-window-aggregate_1",
    "stream-exec-local-window-aggregate_1",
    "stream-exec-global-window-aggregate_1",
}


def _upgrade(node: dict[str, Any]) -> Iterator[Effect]:
    if node["type"] in _WINDOWS and "needRetraction" not in node:
        add(node, "needRetraction", False, before=("inputProperties", "outputType"))
        yield Effect("needRetraction: nothing -> false, as the window took insert-only rows")


STEP = Release(
    "1.18",
    "1.20",
    "Window aggregations record whether their input has retractions. Operators that exist in both 1.18 and 1.19 did "
    "not change.",
    "Kept. The missing value meant false.",
    _upgrade,
)
