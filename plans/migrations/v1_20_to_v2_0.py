"""Plans of Flink 1.20 as plans of 2.0: the shuffle of a lookup join (FLIP-462)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stateplan.plans.migrations import Effect, Release


def with_shuffle(node: dict[str, Any]) -> Iterator[Effect]:
    """Says that a lookup join leaves the distribution of its rows alone, where it says nothing."""
    if node["type"] == "stream-exec-lookup-join_1" and "preferCustomShuffle" not in node:
        node["preferCustomShuffle"] = False
        yield Effect("preferCustomShuffle: nothing -> false")


STEP = Release(
    "1.20",
    "2.0",
    "Lookup joins record whether the connector distributes its rows.",
    "Kept. The missing value meant false.",
    with_shuffle,
)
