"""Plans of Flink 2.0 as plans of 2.1: flags of deduplicate and OVER, and no empty lists (FLINK-37957)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stateplan.plans.migrations import Effect, Release, add
from stateplan.plans.migrations.v1_20_to_v2_0 import with_shuffle


def _upgrade(node: dict[str, Any]) -> Iterator[Effect]:
    kind = node["type"]
    yield from with_shuffle(node)  # plans of 2.0 before its release have no such key
    if kind == "stream-exec-deduplicate_1" and "outputInsertOnly" not in node:
        add(node, "outputInsertOnly", False, before=("generateUpdateBefore", "state", "inputProperties", "outputType"))
        yield Effect("outputInsertOnly: nothing -> false, so that rows are corrected by later ones as before")
    if kind == "stream-exec-over-aggregate_1" and "unboundedOverVersion" not in node:
        node["unboundedOverVersion"] = 1
        yield Effect("unboundedOverVersion: nothing -> 1, the layout of state that the plan has had")
    dropped = dict.fromkeys(_drop_empty(node))
    if not node.get("inputProperties", True):
        del node["inputProperties"]
        dropped["inputProperties"] = None
    if dropped:
        yield Effect(f"empty lists are left out: {', '.join(dropped)}")


def _drop_empty(value: Any) -> Iterator[str]:
    """Takes the empty lists out of tables and calls; yields their keys."""
    if isinstance(value, list):
        for item in value:
            yield from _drop_empty(item)
        return
    if not isinstance(value, dict):
        return
    keys: tuple[str, ...] = ()
    if value.get("kind") == "CALL":
        keys = ("operands",)
    elif "schema" in value:
        keys = ("partitionKeys",)
    elif isinstance(value.get("columns"), list):
        keys = ("watermarkSpecs",)
    for key in keys:
        if value.get(key) == []:
            del value[key]
            yield key
    for member in value.values():
        yield from _drop_empty(member)


STEP = Release(
    "2.0",
    "2.1",
    "deduplicate records whether it waits for the watermark and emits each key once (FLINK-37005). OVER records the "
    "layout of its state (FLINK-37213). Empty lists of tables, calls and sources are omitted.",
    "Kept. Each flag gets the value that its absence meant. New plans of Flink 2.1 have the other value and another "
    "state.",
    _upgrade,
)
