"""The steps that bring older plans to the current format, in their order.

FLIP-190 versions a plan twice, and so there are two kinds of steps:

- A :class:`Release` step brings a plan from one release's format to that of a later one: keys that the later release
  writes and the older one does not. It may skip releases whose format is the same.
- A :class:`NodeUpgrade` brings one node type to its next version.

A step works on the JSON as it was read, and not on the node models, so that later changes of the models do not change
its meaning. It adds, drops or renames keys of nodes; it never adds, drops or reorders nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.registry import known_connector
from stateplan.execnodes.graph import FLINK_VERSIONS
from stateplan.plans.verdicts import Verdict

OLDEST = "1.15"
"""The oldest plans that can be migrated: the versions of nodes begin with Flink 1.15."""

JsonNode = dict[str, Any]


@dataclass(frozen=True)
class Effect:
    """One thing that a step changes in a node.

    Attributes:
        change: in words, with the JSON key.
        state: what happens to state in a checkpoint of stateplan.
        why: the reason, where it is not identical.
        flink_state: the same for a savepoint of Flink.
        flink_why: the reason, where it is not identical.
    """

    change: str
    state: Verdict = "identical"
    why: str = ""
    flink_state: Verdict = "identical"
    flink_why: str = ""


@dataclass(frozen=True)
class Release:
    """What plans of ``to`` have and plans of ``start`` and of the releases in between have not.

    Attributes:
        start, to: Flink versions.
        about: what changed, in words.
        state: what happens to state, in words.
        upgrade: changes one node in place and returns what it changed; it does nothing to a node that is current.
    """

    start: str
    to: str
    about: str
    state: str
    upgrade: Callable[[JsonNode], Iterator[Effect]]

    @property
    def name(self) -> str:
        return f"Flink {self.start} to {self.to}"


@dataclass(frozen=True)
class NodeUpgrade:
    """The next version of a node type.

    Attributes:
        node: the type without its version.
        start, to: versions of the node.
        since: the Flink version that has ``to``.
        about, state, upgrade: as for :class:`Release`; the version itself is raised by the caller.
    """

    node: str
    start: int
    to: int
    since: str
    about: str
    state: str
    upgrade: Callable[[JsonNode], Iterator[Effect]]

    @property
    def name(self) -> str:
        return f"{self.node}_{self.start} to _{self.to}"


def is_before(one: str, other: str) -> bool:
    """Whether a Flink version is older than another."""
    return FLINK_VERSIONS.index(one) < FLINK_VERSIONS.index(other)


def add(node: JsonNode, key: str, value: Any, before: tuple[str, ...]) -> None:
    """Puts ``key`` where Flink writes it: in front of the first key of ``before`` that the node has, else last."""
    next_key = next((k for k in before if k in node), None)
    if next_key is None:
        node[key] = value
        return
    members = list(node.items())
    node.clear()
    for name, member in members:
        if name == next_key:
            node[key] = value
        node[name] = member


_UPSERT_KEYS = {"leftUniqueKeys": "leftUpsertKeys", "rightUniqueKeys": "rightUpsertKeys"}


def _to_1_18(node: JsonNode) -> Iterator[Effect]:
    """Plans of Flink 1.15, 1.16 and 1.17 as plans of 1.18, which brought state metadata (FLIP-292)."""
    if node["type"] != "stream-exec-join_1" or not any(old in node for old in _UPSERT_KEYS):
        return
    for old, new in _UPSERT_KEYS.items():
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


_WINDOWS = {
    "stream-exec-window-aggregate_1",
    "stream-exec-local-window-aggregate_1",
    "stream-exec-global-window-aggregate_1",
}


def _to_1_20(node: JsonNode) -> Iterator[Effect]:
    """Plans of Flink 1.18 and 1.19 as plans of 1.20: window aggregations over changes (FLINK-20281)."""
    if node["type"] in _WINDOWS and "needRetraction" not in node:
        add(node, "needRetraction", False, before=("inputProperties", "outputType"))
        yield Effect("needRetraction: nothing -> false, as the window took insert-only rows")


def _to_2_0(node: JsonNode) -> Iterator[Effect]:
    """Plans of Flink 1.20 as plans of 2.0: the shuffle of a lookup join (FLIP-462)."""
    if node["type"] == "stream-exec-lookup-join_1" and "preferCustomShuffle" not in node:
        node["preferCustomShuffle"] = False
        yield Effect("preferCustomShuffle: nothing -> false")


def _to_2_1(node: JsonNode) -> Iterator[Effect]:
    """Plans of Flink 2.0 as plans of 2.1: flags of deduplicate and OVER, and no empty lists (FLINK-37957)."""
    kind = node["type"]
    yield from _to_2_0(node)  # plans of 2.0 before its release have no such key
    if kind == "stream-exec-deduplicate_1" and "outputInsertOnly" not in node:
        add(node, "outputInsertOnly", False, before=("generateUpdateBefore", "state", "inputProperties", "outputType"))
        yield Effect("outputInsertOnly: nothing -> false, so that rows are corrected by later ones as before")
    if kind == "stream-exec-over-aggregate_1" and "unboundedOverVersion" not in node:
        node["unboundedOverVersion"] = 1
        yield Effect("unboundedOverVersion: nothing -> 1, the layout of state that the plan has had")
    removed_keys = dict.fromkeys(_drop_empty(node))
    if not node.get("inputProperties", True):
        del node["inputProperties"]
        removed_keys["inputProperties"] = None
    if removed_keys:
        yield Effect(f"empty lists are left out: {', '.join(removed_keys)}")


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


def _to_2_3(node: JsonNode) -> Iterator[Effect]:
    """Plans of Flink 2.1 and 2.2 as plans of 2.3: only sinks and sources differ, and these by steps of nodes."""
    yield from ()


def _sink_2(node: JsonNode) -> Iterator[Effect]:
    """Version 2 of the sink: a materializer that keeps written metadata columns too."""
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


def _table_source_scan_2(node: JsonNode) -> Iterator[Effect]:
    """Version 2 of the source: it keeps the uids that a connector gives its own operators."""
    table = node.get("scanTableSource", {}).get("table", {}).get("resolvedTable") or {}
    connector = known_connector(table.get("options") or {})
    if connector is not None and connector.planner_gives_uid:
        yield Effect("version 1 -> 2")
        return
    yield Effect(
        "version 1 -> 2",
        flink_state="unknown",
        flink_why="version 2 keeps the uid of a source that its connector builds as a DataStream or a Transformation, "
        "where version 1 wrote that of the plan: such a source forgets how far it has read, others continue",
    )


RELEASES: tuple[Release, ...] = (
    Release(
        "1.15",
        "1.18",
        "The upsert keys of join inputs are named leftUpsertKeys and rightUpsertKeys. No state entries are added. A "
        "state without an entry keeps the TTL of its node's configuration or of the session.",
        "Kept, except in joins with the old key names.",
        _to_1_18,
    ),
    Release(
        "1.18",
        "1.20",
        "Window aggregations record whether their input has retractions. Operators that exist in both 1.18 and 1.19 "
        "did not change.",
        "Kept. The missing value meant false.",
        _to_1_20,
    ),
    Release(
        "1.20",
        "2.0",
        "Lookup joins record whether the connector distributes its rows.",
        "Kept. The missing value meant false.",
        _to_2_0,
    ),
    Release(
        "2.0",
        "2.1",
        "deduplicate records whether it waits for the watermark and emits each key once (FLINK-37005). OVER records "
        "the layout of its state (FLINK-37213). Empty lists of tables, calls and sources are omitted.",
        "Kept. Each flag gets the value that its absence meant. New plans of Flink 2.1 have the other value and "
        "another state.",
        _to_2_1,
    ),
    Release(
        "2.1",
        "2.3",
        "The keys are the same. New keys (conflictStrategy and upsertMaterializeStrategy of a sink) are optional, and "
        "their absence keeps the old meaning.",
        "Kept.",
        _to_2_3,
    ),
)
"""The steps from release to release, oldest first."""

_NODES = (
    NodeUpgrade(
        "stream-exec-sink",
        1,
        2,
        "2.3",
        "The fields are the same.",
        "Kept. In stateplan, both versions keep whole rows. In Flink, a sink with state and metadata columns loses its "
        "state.",
        _sink_2,
    ),
    NodeUpgrade(
        "stream-exec-table-source-scan",
        1,
        2,
        "2.3",
        "The fields are the same.",
        "Kept. In Flink, a source that its connector builds as a DataStream or a Transformation (such as Kafka) gets "
        "another uid and loses its offsets.",
        _table_source_scan_2,
    ),
)

NODE_UPGRADES = {(step.node, step.start): step for step in _NODES}
"""The steps of nodes, by type and the version they start from."""
