"""A plan whose state is compared with that of another one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from itertools import zip_longest

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode
from stateplan.common.lazy_dataclass import dataclass
from stateplan.execnodes.changelog_modes import changelog_modes
from stateplan.execnodes.fingerprint import fingerprints, readers, uids
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_text import joined_names
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.plans.document import PlanDocument
from stateplan.plans.lineage import PastTables, lineage
from stateplan.plans.meanings import Lineage
from stateplan.plans.phases import in_one_phase


@dataclass(frozen=True)
class Operator:
    """An operator of one of the plans."""

    id: int
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.name}[{self.id}]"


@dataclass(frozen=True)
class PastState:
    """What a checkpoint says of the operators of its plan, by node.

    Attributes:
        ttls: the shortest TTL that each of its states has had, ms; 0 for one that never had any. Rows may have expired
            that do not expire by the plan.
        watermarks: up to where event time has come, ms.
    """

    ttls: Mapping[int, Sequence[int]] = field(default_factory=dict)
    watermarks: Mapping[int, int] = field(default_factory=dict)


class PlanSide:
    """One plan: its operators, what they mean and which of them keep state.

    Args:
        document: the plan.
        past: the past of its operators, from a checkpoint.
        before: the plan that wrote the state; None if it is this one.
    """

    def __init__(self, document: PlanDocument, past: PastState | None = None, before: PlanSide | None = None) -> None:
        self.document = document
        self.past = past or PastState()
        self.prints = fingerprints(document.graph)
        self.uids = uids(document.graph, self.prints)
        self.graph: ExecGraph = in_one_phase(document.graph)
        self.lineages = lineage(self.graph, PastTables.of((before or self).graph))
        self.stateful = {n.id for n in self.graph.nodes if n.keeps_state}

    @cached_property
    def _modes(self) -> Mapping[int, ChangelogMode | None]:
        """By node, the changes that it emits; None where that cannot be determined."""
        return changelog_modes(self.document.graph)

    def deletes_rows(self, node: ExecNode, side: int) -> bool:
        """Whether an input of a node may delete or update rows."""
        return self._modes.get(self.graph.inputs(node)[side].id) != INSERT_ONLY

    def operator(self, node: ExecNode) -> Operator:
        return Operator(node.id, self.document.graph.node(node.id).title, self.uids[node.id])

    def state_name(self, node: ExecNode) -> str:
        """The name of a node's first state, by which its tables are named."""
        return self.document.graph.node(node.id).state_names[0]

    def ttls(self, node: ExecNode) -> list[int]:
        """After how many milliseconds rows of each state of a node may have expired; 0 for never."""
        past = self.past.ttls.get(node.id, ())
        pairs = zip_longest(node.ttls(), past, fillvalue=0)
        return [min(filter(None, pair), default=0) for pair in pairs]

    def names(self, node: ExecNode) -> tuple[str, ...]:
        """The names of a node's input fields."""
        return tuple(joined_names(self.graph.input_types(node)))

    def names_to_match(self) -> tuple[Mapping[int, Hashable], ...]:
        """Names to match operators by: what they mean; for those of which there are several, with what reads them; and
        two that do not depend on what else a projection passes on: all that an operator emits, what its state means."""
        prints = self.prints
        twins = len(set(prints.values())) < len(prints)
        read = readers(self.graph, prints) if twins else prints
        meanings: dict[int, tuple[str, ...]] = {
            i: (self.graph.node(i).name, x.rows, *x.fields) for i, x in self.lineages.items()
        }
        state: dict[int, tuple[str, ...]] = {
            i: (self.graph.node(i).name, self.lineages[i].state) for i in self.stateful
        }
        return prints, {i: (print_, read[i]) for i, print_ in prints.items()}, meanings, state

    def inputs(self, node: ExecNode) -> list[Lineage]:
        """The lineages of what a node reads."""
        return [self.lineages[n.id] for n in self.graph.inputs(node)]
