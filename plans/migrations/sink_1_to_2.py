"""Version 2 of the sink: a materializer that keeps written metadata columns too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stateplan.plans.migrations import Effect, NodeUpgrade


def _upgrade(node: dict[str, Any]) -> Iterator[Effect]:
    abilities = node.get("dynamicTableSink", {}).get("abilities") or ()
    writes_metadata = any(ability.get("type") == "WritingMetadata" for ability in abilities)
    if node.get("requireUpsertMaterialize") and writes_metadata:
        yield Effect(
            "version 1 -> 2",
            flink_state="reset",
            flink_why="in Flink version 1 keeps the physical columns of a row only, version 2 the written metadata too",
        )
    else:
        yield Effect("version 1 -> 2")


STEP = NodeUpgrade(
    "stream-exec-sink",
    1,
    2,
    "2.3",
    "The fields are the same.",
    "Kept. In stateplan, both versions keep whole rows. In Flink, a sink with state and metadata columns loses its "
    "state.",
    _upgrade,
)
