"""STATE_TTL hints of 0 (never expire) in a job that has a TTL: the states that no hint can name do not expire either.

A hint names inputs of joins and aggregates. It cannot name the state of a changelog normalization upstream of such an
input, or the state of a sink that reorders changes. In Flink, these states expire after the TTL of the job. Then a
later change of a row looks like a new row, or retracts nothing, and the state that never expires keeps rows that no
longer exist.
"""

from __future__ import annotations

from collections.abc import Iterator

from stateplan.common.ttl import NEVER, format_ttl
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_ttls import compiled_ttls
from stateplan.execnodes.nodes.base import CompiledTtl, ExecNode


def with_states_of_hints(graph: ExecGraph) -> ExecGraph:
    """``graph``, with endless TTLs for states that no hint can name. That applies to such a state if a hint of 0 makes
    a state downstream of it endless, or upstream of it in the case of a sink."""
    new_nodes = [_never(node) for node in graph.nodes if _follows(graph, node)]
    return graph.replace(new_nodes) if new_nodes else graph


def compiled_entries(ttls: list[CompiledTtl]) -> list[dict[str, str]]:
    """The entries in which a node records the TTLs that the compiler wrote for its states."""
    return [{"ttl": format_ttl(c.ttl), "from": c.origin} for c in ttls]


def _follows(graph: ExecGraph, node: ExecNode) -> bool:
    if not node.FOLLOWS_HINTS or not any(c.ttl != NEVER and c.origin == "option" for c in compiled_ttls(node)):
        return False
    around = _in_front(graph, node) if node.title == "sink" else _behind(graph, node)
    return any((ttl.ttl == NEVER and ttl.origin == "hint") for ttl in around)


def _never(node: ExecNode) -> ExecNode:
    ttls = [CompiledTtl(NEVER, "hint")] * len(node.states)
    states = tuple(state.model_copy(update={"ttl": NEVER}) for state in node.states)
    return node.replace(state=states, stateplan={**(node.stateplan or {}), "compiledTtl": compiled_entries(ttls)})


def _behind(graph: ExecGraph, node: ExecNode) -> Iterator[CompiledTtl]:
    """The TTLs of the states that keep the rows of ``node``: the nearest ones, through operators without state."""
    queue = [node]
    while queue:
        source = queue.pop()
        for reader in graph.consumers(source):
            ttls = compiled_ttls(reader)
            positions = [i for i, other in enumerate(graph.inputs(reader)) if other.id == source.id]
            yield from (ttl for i, ttl in enumerate(ttls) if reader.input_of_state(i) in positions)
            if not ttls:
                queue.append(reader)


def _in_front(graph: ExecGraph, node: ExecNode) -> Iterator[CompiledTtl]:
    """The TTLs of the nearest states whose rows reach ``node``."""
    for source in graph.upstream(graph.inputs(node), lambda n: not compiled_ttls(n)):
        yield from compiled_ttls(source)
