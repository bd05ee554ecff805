"""Which kinds of changes flow in a plan, told from the plan alone.

A plan records what an operator emits only in part: flags such as ``generateUpdateBefore``, the changelog mode a sink
gets. The rest is inferred as Flink's ``FlinkChangelogModeInferenceProgram`` did when the plan was made: whether updates
come with their old rows is asked for from the sinks down, the kinds of changes follow from the sources up.
"""

from __future__ import annotations

from stateplan.common.changelog import ChangelogMode
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode, passes_changes

_SINK = "stream-exec-sink"


def changelog_modes(graph: ExecGraph) -> dict[int, ChangelogMode | None]:
    """The kinds of changes each operator emits (each sink: that it gets), by id; None where that cannot be told.

    A source whose connector is not known is taken to emit what those that read it can only take.
    """
    asked = _update_before(graph)
    sources: dict[int, ChangelogMode | None] = {}
    out = _emitted(graph, asked, sources)
    for node in graph.nodes:
        if out[node.id] is None and not graph.inputs(node):
            sources[node.id] = _taken(graph, node)
    out = _emitted(graph, asked, sources) if any(sources.values()) else out
    return _as_read(graph, out)


def _as_read(graph: ExecGraph, modes: dict[int, ChangelogMode | None]) -> dict[int, ChangelogMode | None]:
    """``modes`` with those that cannot be told from the inputs, where a reader says what it gets: a sink, which records
    it, or an operator that passes on what it gets."""
    out = dict(modes)
    for node in reversed(graph.nodes):
        readers = graph.consumers(node) if out[node.id] is None else ()
        told = (out[reader.id] for reader in readers if reader.name == _SINK or _passes(graph, reader))
        out[node.id] = next((mode for mode in told if mode is not None), out[node.id])
    return out


def _passes(graph: ExecGraph, node: ExecNode) -> bool:
    """Whether an operator emits the kinds of changes that its only input does."""
    return len(graph.inputs(node)) == 1 and passes_changes(type(node))


def _update_before(graph: ExecGraph) -> dict[int, bool]:
    """Whether those who read an operator need the old rows of updates, by id."""
    out: dict[int, bool] = {node.id: False for node in graph.nodes}
    for node in reversed(graph.nodes):
        for position, source in enumerate(graph.inputs(node)):
            out[source.id] |= node.needs_update_before(position, out[node.id])
    return out


def _emitted(
    graph: ExecGraph, asked: dict[int, bool], sources: dict[int, ChangelogMode | None]
) -> dict[int, ChangelogMode | None]:
    out: dict[int, ChangelogMode | None] = {}
    for node in graph.nodes:
        inputs = [out[source.id] for source in graph.inputs(node)]
        known = sources.get(node.id)
        out[node.id] = node.changelog_mode(inputs, asked[node.id]) if known is None else known
    return out


def _taken(graph: ExecGraph, source: ExecNode) -> ChangelogMode | None:
    """What the first operator behind ``source`` that says what it takes, takes; those between pass on what they get."""
    seen, stack = {source.id}, [source]
    while stack:
        node = stack.pop()
        for reader in graph.consumers(node):
            position = next(i for i, other in enumerate(graph.inputs(reader)) if other.id == node.id)
            taken = reader.takes(position)
            if taken is not None:
                return taken
            if _passes(graph, reader) and reader.id not in seen:
                seen.add(reader.id)
                stack.append(reader)
    return None
