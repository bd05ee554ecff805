"""The TTLs of a node: where a plan says them, how its states age, and what the compiler wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from stateplan.common.ttl import TtlConfig, parse_ttl
from stateplan.execnodes.nodes.base import STATE_TTL, CompiledTtl, ExecNode, StatefulNode, TimeBoundNode
from stateplan.execnodes.specs import StateMetadata


def ttl_home(node: ExecNode) -> Literal["state", "configuration"] | None:
    """The key under which the TTLs of a node are written; None if a plan cannot say them."""
    if not node.state_names:
        return None
    if "state" not in type(node).model_fields:
        return "configuration"
    # Flink has no list of states for a node that drops them by time, though the option gives some of them a TTL.
    by_option = isinstance(node, TimeBoundNode) and node.ttl_option == STATE_TTL and not node.states
    return "configuration" if by_option else "state"


def ttl_configs(node: ExecNode, session: Mapping[str, str] | None = None) -> tuple[TtlConfig, ...]:
    """What :meth:`ExecNode.ttls` returns, with how the age of each state is counted. Raises as it does."""
    ttls = node.ttls(session)
    if not node.states:
        return tuple(map(TtlConfig, ttls))
    return tuple(entry.ttl_config(ttl) for entry, ttl in zip(node.states, ttls, strict=True))


def compiled_ttls(node: ExecNode) -> tuple[CompiledTtl, ...]:
    """What the compiler wrote as the TTL of each state, by index; empty if the plan does not say."""
    entries = (node.stateplan or {}).get("compiledTtl")
    return tuple(CompiledTtl(parse_ttl(e["ttl"]), e["from"]) for e in entries or ())


def renamed_states(node: ExecNode) -> tuple[tuple[int, StateMetadata, str], ...]:
    """The plan's state entries that have another name than Flink gives them: place in the list, entry, that name. A
    name has no effect."""
    names = node.state_names
    if not isinstance(node, StatefulNode) or not names:
        return ()
    numbered_entries = enumerate(node.entries)
    return tuple((n, entry, names[entry.index]) for n, entry in numbered_entries if entry.name != names[entry.index])
