"""Version 2 of the source: it keeps the uids that a connector gives its own operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stateplan.plans.migrations import Effect, NodeUpgrade

_BUILT_BY_THE_PLANNER = ("filesystem", "datagen")
"""Connectors that give a Source, a SourceFunction or an InputFormat: the plan gives the uid in both versions."""


def _upgrade(node: dict[str, Any]) -> Iterator[Effect]:
    table = node.get("scanTableSource", {}).get("table", {}).get("resolvedTable") or {}
    if (table.get("options") or {}).get("connector") in _BUILT_BY_THE_PLANNER:
        yield Effect("version 1 -> 2")
        return
    yield Effect(
        "version 1 -> 2",
        flink_state="unknown",
        flink_why="version 2 keeps the uid of a source that its connector builds as a DataStream or a Transformation, "
        "where version 1 wrote that of the plan: such a source forgets how far it has read, others go on",
    )


STEP = NodeUpgrade(
    "stream-exec-table-source-scan",
    1,
    2,
    "2.3",
    "The fields are the same.",
    "Kept. In Flink a source that its connector builds as a DataStream or a Transformation (Kafka does) gets another "
    "uid and forgets how far it has read.",
    _upgrade,
)
