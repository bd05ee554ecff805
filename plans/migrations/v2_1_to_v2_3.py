"""Plans of Flink 2.1 and 2.2 as plans of 2.3: only sinks and sources differ, and these by steps of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stateplan.plans.migrations import Effect, Release


def _upgrade(node: dict[str, Any]) -> Iterator[Effect]:
    yield from ()


STEP = Release(
    "2.1",
    "2.3",
    "The keys are the same. New keys (conflictStrategy and upsertMaterializeStrategy of a sink) are optional, and "
    "their absence keeps the old meaning.",
    "Kept.",
    _upgrade,
)
