"""Which kinds of changes flow in a plan, derived from the plan alone.

A plan records what an operator emits only in part: flags such as ``generateUpdateBefore``, the changelog mode a sink
gets. The rest is inferred as Flink's ``FlinkChangelogModeInferenceProgram`` did when the plan was made: whether updates
come with their old rows is requested from the sinks down, the kinds of changes follow from the sources up.
"""

from __future__ import annotations

from stateplan.common.changelog import ChangelogMode
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode, passes_changes

_SINK = "stream-exec-sink"


def changelog_modes(graph: ExecGraph) -> dict[int, ChangelogMode | None]:
    """The kinds of changes each operator emits (each sink: that it gets), by id; None if that cannot be determined.

    A source whose connector is not known is taken to emit what those that read it can only take.
    """
    needs_old_rows = _update_before(graph)
    sources: dict[int, ChangelogMode | None] = {}
    modes = _emitted_modes(graph, needs_old_rows, sources)
    for node in graph.nodes:
        if modes[node.id] is None and not graph.inputs(node):
            sources[node.id] = _accepted_mode(graph, node)
    modes = _emitted_modes(graph, needs_old_rows, sources) if any(sources.values()) else modes
    return _as_read(graph, modes)


def _as_read(graph: ExecGraph, modes: dict[int, ChangelogMode | None]) -> dict[int, ChangelogMode | None]:
    """``modes`` with those that cannot be determined from the inputs, where a reader says what it gets: a sink, which
    records it, or an operator that passes on what it gets."""
    completed_modes = dict(modes)
    for node in reversed(graph.nodes):
        readers = graph.consumers(node) if completed_modes[node.id] is None else ()
        readers_modes = (
            completed_modes[reader.id] for reader in readers if reader.name == _SINK or _passes(graph, reader)
        )
        completed_modes[node.id] = next((mode for mode in readers_modes if mode is not None), completed_modes[node.id])
    return completed_modes


def _passes(graph: ExecGraph, node: ExecNode) -> bool:
    """Whether an operator emits the kinds of changes that its only input does."""
    return len(graph.inputs(node)) == 1 and passes_changes(type(node))


def _update_before(graph: ExecGraph) -> dict[int, bool]:
    """Whether those who read an operator need the old rows of updates, by id."""
    needs: dict[int, bool] = {node.id: False for node in graph.nodes}
    for node in reversed(graph.nodes):
        for position, source in enumerate(graph.inputs(node)):
            needs[source.id] |= node.needs_update_before(position, needs[node.id])
    return needs


def _emitted_modes(
    graph: ExecGraph, needs_old_rows: dict[int, bool], sources: dict[int, ChangelogMode | None]
) -> dict[int, ChangelogMode | None]:
    modes: dict[int, ChangelogMode | None] = {}
    for node in graph.nodes:
        inputs = [modes[source.id] for source in graph.inputs(node)]
        source_mode = sources.get(node.id)
        modes[node.id] = node.changelog_mode(inputs, needs_old_rows[node.id]) if source_mode is None else source_mode
    return modes


def _accepted_mode(graph: ExecGraph, source: ExecNode) -> ChangelogMode | None:
    """What the first operator behind ``source`` that says what it takes, takes; those between pass on what they get."""
    visited_ids, stack = {source.id}, [source]
    while stack:
        node = stack.pop()
        for reader in graph.consumers(node):
            position = next(i for i, other in enumerate(graph.inputs(reader)) if other.id == node.id)
            accepted_mode = reader.takes(position)
            if accepted_mode is not None:
                return accepted_mode
            if _passes(graph, reader) and reader.id not in visited_ids:
                visited_ids.add(reader.id)
                stack.append(reader)
    return None
