"""What a node says about findings that are accepted."""

from __future__ import annotations

from stateplan.execnodes.nodes.base import ExecNode
from stateplan.plans.facts import KEY, SUPPRESS

POINTER = f"/{KEY}/{SUPPRESS}"
"""Where a node has its suppressions."""


def accepted(node: ExecNode, every: bool = False) -> dict[str, str]:
    """Code to reason; without those that have no reason, unless ``every`` one is asked for."""
    entries: dict[str, str] = (node.stateplan or {}).get(SUPPRESS, {})
    return {code: reason for code, reason in entries.items() if every or is_reason(reason)}


def is_reason(reason: str) -> bool:
    """Whether a suppression says why."""
    return bool(reason.strip())
