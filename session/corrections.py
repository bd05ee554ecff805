"""Which sinks of a changed plan get corrections of what the old plan has written.

Codes: CKPT055.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from stateplan.common.errors import CheckpointError
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.sink import Sink
from stateplan.execnodes.side_outputs import side_output
from stateplan.plans.backfill import upstream
from stateplan.plans.document import PlanDocument
from stateplan.plans.lineage import data_identity
from stateplan.plans.plan_side import PlanSide

Path = tuple[str, ...]


def corrected_sinks(old: PlanDocument, new: PlanDocument, sources: Mapping[int, int]) -> dict[int, int | None]:
    """The sinks whose rows may be others by the new plan, each with the old sink that has written its table.

    Args:
        old, new: the plans.
        sources: for each source of the new plan that continues from one of the old plan, that one.

    Raises:
        CheckpointError: CKPT055, a table has other columns than before, or several sinks write it.
    """
    corrected: dict[int, int | None] = {}
    old_side = PlanSide(old)
    sides = old_side, PlanSide(new, before=old_side)
    old_sinks, new_sinks = _sinks(old.graph), _sinks(new.graph)
    for path, sinks in new_sinks.items():
        sink = sinks[0]
        before = [was for was in old_sinks.get(path, ()) if _data(was) == _data(sink)]
        table = sink.dynamic_table_sink.table.summary
        if len(sinks) == len(before) and all(
            _rows(sides[0], was) == _rows(sides[1], now) and _sources_continue(new.graph, now, sources)
            for was, now in zip(before, sinks, strict=True)
        ):
            continue
        if len(sinks) > 1 or len(before) > 1:
            raise CheckpointError("CKPT055", what=f"table '{table}'", why="several INSERT statements write it")
        was = before[0] if before else None
        if was is not None and [t for _, t in was.written_fields] != [t for _, t in sink.written_fields]:
            raise CheckpointError("CKPT055", what=f"table '{table}'", why="its columns are others than in the old plan")
        corrected[sink.id] = None if was is None else was.id
    return corrected


def _sinks(graph: ExecGraph) -> Mapping[Path, Sequence[Sink]]:
    """The sinks of a plan by their tables, without side outputs."""
    sinks: dict[Path, list[Sink]] = defaultdict(list)
    for node in graph.sinks:
        if isinstance(node, Sink) and side_output(node) is None:
            sinks[tuple(node.dynamic_table_sink.table.path)].append(node)
    return sinks


def _data(sink: Sink) -> Mapping[str, str] | None:
    """Which data a sink writes, whatever the name of its table; None where its plan does not say that."""
    table = sink.dynamic_table_sink.table.resolved_table
    options = None if table is None else table.options
    return data_identity(options) or options if options else None


def _rows(side: PlanSide, sink: Sink) -> list[tuple[str, tuple[str, ...]]]:
    """What the rows that a sink gets mean."""
    return [(rows.rows, rows.fields) for rows in side.inputs(sink)]


def _sources_continue(graph: ExecGraph, sink: Sink, sources: Mapping[int, int]) -> bool:
    """Whether all sources of a sink continue from those of the old plan."""
    return all(graph.inputs(graph.node(n)) or n in sources for n in upstream(graph, sink))
