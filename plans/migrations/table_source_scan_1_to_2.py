"""Version 2 of the source: it keeps the uids that a connector gives its own operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stateplan.execnodes.connectors.registry import known_connector
from stateplan.plans.migrations import Effect, NodeUpgrade


def _upgrade(node: dict[str, Any]) -> Iterator[Effect]:
    table = node.get("scanTableSource", {}).get("table", {}).get("resolvedTable") or {}
    connector = known_connector(table.get("options") or {})
    if connector is not None and connector.planner_gives_uid:
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
    "Kept. In Flink, a source that its connector builds as a DataStream or a Transformation (such as Kafka) gets "
    "another uid and loses its offsets.",
    _upgrade,
)
