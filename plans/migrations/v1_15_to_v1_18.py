"""Plans of Flink 1.15, 1.16 and 1.17 as plans of 1.18, which brought state metadata (FLIP-292)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stateplan.plans.migrations import Effect, Release

_RENAMED = {"leftUniqueKeys": "leftUpsertKeys", "rightUniqueKeys": "rightUpsertKeys"}


def _upgrade(node: dict[str, Any]) -> Iterator[Effect]:
    if node["type"] != "stream-exec-join_1" or not any(old in node for old in _RENAMED):
        return
    for old, new in _RENAMED.items():
        if old in node and new not in node:
            members = [(new if key == old else key, value) for key, value in node.items()]
            node.clear()
            node.update(members)
            yield Effect(
                f"{old} is called {new}",
                "unknown",
                "with its key a side is kept as one row for each key, and without it as rows with a count",
                "unknown",
                "Flink 1.18 and later pass over the old name: their state depends on which release wrote it",
            )


STEP = Release(
    "1.15",
    "1.18",
    "The upsert keys of join inputs are named leftUpsertKeys and rightUpsertKeys. No state entries are added. A state "
    "without an entry keeps the TTL of its node's configuration or of the session.",
    "Kept, except in joins with the old key names.",
    _upgrade,
)
