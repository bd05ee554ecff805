"""Plans the tests of this folder read, and small ways to change them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

FROZEN = Path(__file__).resolve().parent.parent / "frozen"

REMOVE = object()
"""As a value of :func:`edited`: take the key away."""


def frozen(node_type: str, name: str) -> dict[str, Any]:
    """The JSON of a plan kept in the tests."""
    data: dict[str, Any] = json.loads((FROZEN / node_type / f"{name}.json").read_text(encoding="utf-8"))
    return data


def join_plan() -> dict[str, Any]:
    """A join of two tables with state TTLs of 7 and 1 days. Its join is node 5, at ``/nodes/4``."""
    return frozen("stream-exec-join_1", "inner-ttl-hint")


def aggregate_plan() -> dict[str, Any]:
    """A GROUP BY over a retracting input. Its aggregate is at ``/nodes/2``."""
    return frozen("stream-exec-group-aggregate_1", "retract")


def edited(plan: dict[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    """A copy with ``value`` at a JSON pointer; a last step of ``-`` appends, REMOVE removes."""
    out = copy.deepcopy(plan)
    *path, last = pointer.split("/")[1:]
    target: Any = out
    for step in path:
        target = target[int(step)] if isinstance(target, list) else target[step]
    key: Any = len(target) if last == "-" else int(last) if isinstance(target, list) else last
    if value is REMOVE:
        del target[key]
    elif last == "-":
        target.append(value)
    else:
        target[key] = value
    return out


def without_empty(value: Any) -> Any:
    """JSON without the empty lists that plans before Flink 2.3 write and later ones leave out."""
    gone = ("watermarkSpecs", "partitionKeys", "inputProperties", "operands")
    if isinstance(value, dict):
        return {k: without_empty(v) for k, v in value.items() if not (k in gone and v == [])}
    return [without_empty(v) for v in value] if isinstance(value, list) else value


def text(value: Any) -> str:
    """JSON text, to compare values together with the order of their keys."""
    return json.dumps(value, indent=1)
