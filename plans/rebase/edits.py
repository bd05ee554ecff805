"""What somebody edited in a plan, found by comparing it with the plan as it was compiled, value by value."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from stateplan.common.errors import PlanError
from stateplan.common.redaction import redacted, redacted_value
from stateplan.common.ttl import format_ttl, parse_ttl
from stateplan.execnodes.node_ttls import compiled_ttls
from stateplan.execnodes.nodes.base import TTL_OPTIONS, ExecNode
from stateplan.plans.changes import is_rex
from stateplan.plans.plan_metadata import KEY

ABSENT: Any = object()
"""In place of a value: there is none."""

Path = tuple[str, ...]
Values = Mapping[str, Any]
"""The JSON of a node as it is compared, its states by index."""

_COMPILED = ("uid", "compiledTtl", "sideOutput", "lateRows", "formatVersion", "sql", "sqlHash", "schemaHashes")
"""Keys of our additions that the compiler writes and nobody edits."""

_STATE_FIELDS = {
    "updateType": "OnCreateAndWrite",
    "visibility": "NeverReturnExpired",
    "timeCharacteristic": "ProcessingTime",
}
"""Fields of a state entry besides its TTL, with their defaults (FLIP-25)."""


def values(node: ExecNode) -> Values:
    """A node as it is compared: without its id and what the compiler notes; of states what counts now."""
    data = {key: value for key, value in node.to_json().items() if key not in ("id", "state", KEY)}
    data["state"] = _states(node, node.ttls())
    data[KEY] = {key: value for key, value in (node.stateplan or {}).items() if key not in _COMPILED}
    return data


def compiled_values(node: ExecNode) -> Values:
    """The same node as the compiler wrote it, as far as it says so itself: TTLs, and what no compiler writes."""
    compiled_entries = compiled_ttls(node)
    ttls = tuple(entry.ttl for entry in compiled_entries) if compiled_entries else node.ttls()
    state = {index: {**_STATE_FIELDS, "ttl": entry["ttl"]} for index, entry in _states(node, ttls).items()}
    own = {key: value for key, value in (node.stateplan or {}).items() if key not in (*_COMPILED, "suppress")}
    return {**values(node), "state": state, KEY: own}


def _states(node: ExecNode, ttls: tuple[int, ...]) -> dict[str, dict[str, Any]]:
    values_by_index = {}
    for index, ttl in enumerate(ttls):
        entry = node.states[index].to_json() if index < len(node.states) else {}
        fields = {key: entry.get(key) or default for key, default in _STATE_FIELDS.items()}
        values_by_index[str(index)] = {"ttl": format_ttl(ttl), **fields}
    return values_by_index


def find(base: Values, ours: Values) -> Iterator[tuple[Path, Any, Any]]:
    """(path, value in base, value in ours) of what differs: the innermost values; expressions and lists whole."""
    yield from _differences(base, ours, ())


def _differences(base: Any, ours: Any, path: Path) -> Iterator[tuple[Path, Any, Any]]:
    if _is_object(ours) and (_is_object(base) or base is ABSENT):
        inner = {} if base is ABSENT else base
        for key in dict.fromkeys((*inner, *ours)):
            yield from _differences(inner.get(key, ABSENT), ours.get(key, ABSENT), (*path, key))
    elif not means_same(base, ours, path):
        yield path, base, ours


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and not is_rex(value)


def means_same(one: Any, other: Any, path: Path) -> bool:
    """Whether two values mean the same: TTLs by their length, others by type and value."""
    if one is ABSENT or other is ABSENT:
        return one is other
    if path[-1] in TTL_OPTIONS and isinstance(one, str) and isinstance(other, str):
        with contextlib.suppress(PlanError):  # of an operator without state, where nobody reads it
            return parse_ttl(one) == parse_ttl(other)
    return type(one) is type(other) and bool(one == other)


_LABELS: tuple[tuple[Path, str], ...] = (
    (("scanTableSource", "table", "resolvedTable", "options"), "option "),
    (("dynamicTableSink", "table", "resolvedTable", "options"), "option "),
    (("configuration",), "configuration "),
    ((KEY, "suppress"), "suppression of "),
)
"""Names for people of the first keys of a path."""


def label(path: Path, node: ExecNode) -> str:
    """What a value is called: the name of a state for its TTL, ``option path``, else the keys on the way to it."""
    if path[0] == "state" and len(path) == 3:
        index = int(path[1])
        name = node.state_names[index] if index < len(node.state_names) else f"state {index}"
        return name if path[2] == "ttl" else f"{name} {path[2]}"
    for start, words in _LABELS:
        if path[: len(start)] == start and len(path) > len(start):
            return words + ".".join(path[len(start) :])
    return ".".join(path)


def text(value: Any, path: Path) -> str:
    """A value for people, at most 80 characters, without secrets."""
    if value is ABSENT:
        return "nothing"
    is_text = isinstance(value, str) and value
    words = redacted(redacted_value(path[-1], value) if is_text else json.dumps(value, ensure_ascii=False))
    return words if len(words) <= 80 else words[:77] + "..."
