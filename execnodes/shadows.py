"""Shadows: a changed plan that runs beside the old one in one job, and whose sinks write nothing yet.

In the plan of such a job, the ``stateplan`` of each sink says to which of both plans it belongs. Sinks of the old plan
write their tables. Those of the new plan are only compared with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeAlias

from stateplan.common.lazy_dataclass import dataclass
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.sink import Sink
from stateplan.execnodes.side_outputs import side_output

SHADOW = "shadow"
"""The key of ``stateplan`` of a sink that says to which plan it belongs."""

Side: TypeAlias = Literal["old", "new"]
SIDES: tuple[Side, Side] = ("old", "new")

ActivePlan: TypeAlias = Literal["both", "old", "new"]
"""Which plans a job with a shadow runs in a micro-batch: both, or the one that it has continued with."""


def side_of(node: ExecNode) -> Side | None:
    """The plan that a sink of a job with a shadow belongs to; None in another job."""
    side: Side | None = (node.stateplan or {}).get(SHADOW)
    return side


def has_shadow(graph: ExecGraph) -> bool:
    """Whether a plan consists of an old one and a new one."""
    return any(side_of(node) is not None for node in graph.sinks)


@dataclass(frozen=True)
class SinkPair:
    """The sinks of both plans for one table.

    Attributes:
        name: the name of the table.
        old, new: the sinks; None for a plan that does not write it.
    """

    name: str
    old: Sink | None
    new: Sink | None

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that distinguish the rows of both; empty if rows are compared as a whole."""
        keys = {sink.row_key for sink in (self.old, self.new) if sink is not None}
        return keys.pop() if len(keys) == 1 else ()


def sink_pairs(old: Sequence[ExecNode], new: Sequence[ExecNode]) -> list[SinkPair]:
    """The sinks of two plans, paired by their tables, without side outputs.

    The order is that of the old plan. Tables that only the new plan writes follow. If a plan has several sinks for one
    table, the second and later ones have a number.
    """
    by_path = [_by_path(sinks) for sinks in (old, new)]
    paths = list(dict.fromkeys((*by_path[0], *by_path[1])))
    names = [path.rpartition(".")[2] for path in paths]
    return [
        SinkPair(name if names.count(name) == 1 else path, by_path[0].get(path), by_path[1].get(path))
        for path, name in zip(paths, names, strict=True)
    ]


def shadow_pairs(graph: ExecGraph) -> list[SinkPair]:
    """The sinks of both plans of a job with a shadow."""
    old, new = ([node for node in graph.sinks if side_of(node) == side] for side in SIDES)
    return sink_pairs(old, new)


def _by_path(nodes: Sequence[ExecNode]) -> dict[str, Sink]:
    sinks: dict[str, Sink] = {}
    numbers: Counter[str] = Counter()
    for node in nodes:
        if isinstance(node, Sink) and side_output(node) is None:
            path = ".".join(node.dynamic_table_sink.table.path)
            numbers[path] += 1
            sinks[path if numbers[path] == 1 else f"{path} ({numbers[path]})"] = node
    return sinks
