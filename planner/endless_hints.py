"""STATE_TTL hints of 0, next to a TTL of the job: states that no hint can name live as long as those that have it.

A hint names inputs of joins and aggregates. The state in front of such an input that holds its last rows, and that of a
sink that puts changes in order, have no name. Flink lets them expire by the TTL of the job: what comes later looks new,
or takes nothing back, and a state that never expires keeps rows that are gone.
"""

from __future__ import annotations

from collections.abc import Iterator

from stateplan.common.ttl import NEVER, format_ttl
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_ttls import compiled_ttls
from stateplan.execnodes.nodes.base import CompiledTtl, ExecNode


def with_states_of_hints(graph: ExecGraph) -> ExecGraph:
    """``graph``, in which states without a name never expire where the state behind them, or one in front of a sink,
    never does because a hint says so."""
    changed = [_never(node) for node in graph.nodes if _follows(graph, node)]
    return graph.replace(changed) if changed else graph


def compiled_entries(ttls: list[CompiledTtl]) -> list[dict[str, str]]:
    """How a node says what the compiler wrote as the TTLs of its states."""
    return [{"ttl": format_ttl(c.ttl), "from": c.origin} for c in ttls]


def _follows(graph: ExecGraph, node: ExecNode) -> bool:
    if not node.FOLLOWS_HINTS or not any(c.ttl != NEVER and c.origin == "option" for c in compiled_ttls(node)):
        return False
    around = _in_front(graph, node) if node.title == "sink" else _behind(graph, node)
    return any(_is_endless(ttl) for ttl in around)


def _is_endless(ttl: CompiledTtl) -> bool:
    return ttl.ttl == NEVER and ttl.origin == "hint"


def _never(node: ExecNode) -> ExecNode:
    ttls = [CompiledTtl(NEVER, "hint")] * len(node.states)
    states = tuple(state.model_copy(update={"ttl": NEVER}) for state in node.states)
    return node.replace(state=states, stateplan={**(node.stateplan or {}), "compiledTtl": compiled_entries(ttls)})


def _behind(graph: ExecGraph, node: ExecNode) -> Iterator[CompiledTtl]:
    """The TTLs of the states that keep the rows of ``node``: the nearest ones, through operators without state."""
    waiting = [node]
    while waiting:
        source = waiting.pop()
        for reader in graph.consumers(source):
            ttls = compiled_ttls(reader)
            positions = [i for i, other in enumerate(graph.inputs(reader)) if other.id == source.id]
            yield from (ttl for i, ttl in enumerate(ttls) if reader.input_of_state(i) in positions)
            if not ttls:
                waiting.append(reader)


def _in_front(graph: ExecGraph, node: ExecNode) -> Iterator[CompiledTtl]:
    """The TTLs of the nearest states whose rows reach ``node``."""
    waiting = [node]
    while waiting:
        for source in graph.inputs(waiting.pop()):
            yield from compiled_ttls(source)
            if not compiled_ttls(source):
                waiting.append(source)
