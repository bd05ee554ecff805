"""What a node says about findings that are accepted."""

from __future__ import annotations

from typing import Any

from execnodes.nodes.base import ExecNode
from plans.facts import KEY, SUPPRESS

__all__ = ["POINTER", "accepted", "given", "is_reason"]

POINTER = f"/{KEY}/{SUPPRESS}"
"""Where a node has its suppressions."""


def given(node: ExecNode) -> Any:
    """The suppressions of a node as they are written; None where there are none."""
    return (node.stateplan or {}).get(SUPPRESS)


def accepted(node: ExecNode, every: bool = False) -> dict[str, Any]:
    """Code to reason; without those that have no reason, unless ``every`` one is asked for."""
    found = given(node)
    entries = found.items() if isinstance(found, dict) else ()
    return {code: reason for code, reason in entries if every or is_reason(reason)}


def is_reason(reason: object) -> bool:
    """Whether a suppression says why."""
    return isinstance(reason, str) and bool(reason.strip())
