"""What the operators of a plan have emitted, as texts."""

from __future__ import annotations

from collections import Counter

from stateplan.common.changelog import columns
from stateplan.common.lazy_dataclass import dataclass
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_tables import table_of
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.testing.rows import Change, Fields
from stateplan.testing.taps import Taps


@dataclass(frozen=True)
class Operators:
    """The operators of a plan, and the rows that they have emitted.

    Attributes:
        graph: the plan.
        zone: the time zone of the session.
        taps: the rows.
    """

    graph: ExecGraph
    zone: str
    taps: Taps

    @property
    def names(self) -> list[str]:
        """Those whose rows are known, from the sources on."""
        return [_label(node) for node in self.graph.nodes if self._name(node) in self.taps.frames]

    def _name(self, node: ExecNode) -> str:
        table = table_of(node) if isinstance(node, TableSourceScan) else None
        return node.label if table is None else table.summary

    def _node(self, name: str) -> ExecNode:
        return next(node for node in self.graph.nodes if _label(node) == name)

    def changes(self, name: str) -> list[Change]:
        """The changes that an operator has emitted. Raises StateplanError, for types that no format holds."""
        node = self._node(name)
        fields = Fields(tuple((f.name, f.type) for f in node.output_type.fields), self.zone)
        unique = Fields(tuple((f"c{i}", kind) for i, (_, kind) in enumerate(fields.fields)), self.zone)
        width = len(unique.fields)
        frames = [f for f in self.taps.frames[self._name(node)] if f.height and set(columns(width)) <= set(f.columns)]
        return unique.changes(frames)

    def emits(self, name: str) -> bool:
        """Whether an operator has emitted a row."""
        return any(frame.height for frame in self.taps.frames[self._name(self._node(name))])

    def sums(self, name: str) -> Counter[tuple[str | None, ...]]:
        """The rows that the changes of an operator leave: how often each of them is there."""
        counts: Counter[tuple[str | None, ...]] = Counter()
        for change in self.changes(name):
            counts[change.cells] += 1 if change.kind[0] == "+" else -1
        return Counter({cells: count for cells, count in counts.items() if count})


def _label(node: ExecNode) -> str:
    return node.label
