"""A plan as lint rules see it: its states, what is upstream of them, and which changes reach them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode
from stateplan.common.errors import Place
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import NEVER, outlives
from stateplan.execnodes.changelog_modes import changelog_modes
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import TIMED_STATE_TTL, ExecNode, entries_of
from stateplan.plans.document import PlanDocument
from stateplan.plans.plan_metadata import KEY, SUPPRESS
from stateplan.runtime.metrics.state_uses import StateUses

_PARTIAL = frozenset({"local-group-aggregate", "incremental-group-aggregate", "exchange"})
"""Operators behind which the kinds of changes do not say whether rows are retracted."""


SUPPRESSIONS = f"/{KEY}/{SUPPRESS}"
"""Where a node has the findings that are accepted."""


@dataclass(frozen=True)
class State:
    """A state with a TTL.

    Attributes:
        node: the operator that keeps it.
        index, name: which of its states.
        ttl: milliseconds, 0 for never.
        input: position of the input whose rows it keeps.
    """

    node: ExecNode
    index: int
    name: str
    ttl: int
    input: int

    @property
    def operator(self) -> str:
        """``join[5]``."""
        return self.node.label

    def __str__(self) -> str:
        return f"{self.name} of {self.operator}"


@dataclass(frozen=True)
class Origin:
    """A time, ms, and the operator it comes from."""

    node: ExecNode
    millis: int


class Subject:
    """A plan that is looked at.

    Args:
        document: the plan.
        session: options of the session, for states whose TTL neither the plan nor the node says.
        against: the plan that wrote the checkpoint the new one would continue from.
        observed: how that checkpoint's states were used.

    Raises:
        PlanError: PLAN05x, when an option that decides about a TTL is not a duration.
    """

    def __init__(
        self,
        document: PlanDocument,
        session: Mapping[str, str] | None = None,
        against: PlanDocument | None = None,
        observed: StateUses | None = None,
    ) -> None:
        self.document = document
        self.session = dict(session or {})
        self.against = against
        self.observed = observed
        self.graph: ExecGraph = document.graph
        self.states = states_of(self.graph, self.session)

    @cached_property
    def modes(self) -> Mapping[int, ChangelogMode | None]:
        """What each operator emits; None if it cannot be determined."""
        return changelog_modes(self.graph)

    @property
    def nodes(self) -> tuple[ExecNode, ...]:
        """The operators, inputs before their consumers."""
        return self.graph.nodes

    def all_states(self) -> Iterable[State]:
        """The states of all operators, inputs before their consumers."""
        return (state for node in self.graph.nodes for state in self.states.get(node.id, ()))

    def gets(self, node: ExecNode, position: int = 0) -> ChangelogMode | None:
        """Which changes an input of ``node`` brings; None if it cannot be determined.

        Partial results of a local aggregate are insertions, and retract what its input does.
        """
        source = self.graph.inputs(node)[position]
        while source.title in _PARTIAL:
            source = self.graph.inputs(source)[0]
        return self.modes.get(source.id)

    def retracts(self, node: ExecNode, position: int = 0) -> bool:
        """Whether an input of ``node`` is known to bring updates or deletions."""
        mode = self.gets(node, position)
        return mode is not None and mode != INSERT_ONLY

    def is_insert_only(self, node: ExecNode, position: int = 0) -> bool:
        """Whether an input of ``node`` is known to bring insertions only."""
        return self.gets(node, position) == INSERT_ONLY

    def in_front(self, state: State) -> tuple[State, ...]:
        """The nearest states upstream of ``state``, through stateless operators."""
        return self._nearest((state.node.id, state.input))

    def longest_in_front(self, state: State) -> State | None:
        """Of those, the one that lives longest; None if there is none."""
        states = self.in_front(state)
        return longest(states) if states else None

    def largest_in_front(
        self, value: Callable[[ExecNode], int], stops: Callable[[ExecNode], bool] = lambda _: False
    ) -> dict[int, Origin]:
        """The largest ``value`` (ms, 0 for none) of the operators in front of each, by id; ``stops`` ends its way."""
        arrives: dict[int, Origin] = {}
        leaves: dict[int, Origin] = {}
        for node in self.graph.nodes:
            origins = [leaves[source.id] for source in self.graph.inputs(node) if source.id in leaves]
            if origins:
                arrives[node.id] = max(origins, key=lambda origin: origin.millis)
            own = value(node)
            if own:
                leaves[node.id] = Origin(node, own)
            elif origins and not stops(node):
                leaves[node.id] = arrives[node.id]
        return arrives

    def _nearest(self, edge: tuple[int, int]) -> tuple[State, ...]:
        cached_states = self._nearest_known.get(edge)
        if cached_states is not None:
            return cached_states
        state_by_key: dict[tuple[int, int], State] = {}
        start = [self.graph.inputs(edge[0])[edge[1]]]
        for node in self.graph.upstream(start, lambda n: not (self.states.get(n.id) or n.keeps_state)):
            state_by_key |= {(s.node.id, s.index): s for s in self.states.get(node.id, ())}
        states = self._nearest_known[edge] = tuple(state_by_key[key] for key in sorted(state_by_key))
        return states

    def place(self, node: ExecNode, state: int | None, pointer: str, on_key: bool = False) -> Place:
        """Where something is said: the TTL of a state, wherever that is written, or ``pointer`` within the node."""
        at = self.graph.pointer(node)
        if state is not None:
            pointer, on_key = "/type", False
            if node.states:
                position = next(i for i, entry in enumerate(entries_of(node)) if entry.index == state)
                pointer = f"/state/{position}/ttl"
            elif node.configuration and node.ttl_option in node.configuration:
                pointer = f"/configuration/{node.ttl_option}"
        return self.document.place(at + pointer, on_key)

    @cached_property
    def _nearest_known(self) -> dict[tuple[int, int], tuple[State, ...]]:
        return {}


def states_of(graph: ExecGraph, session: Mapping[str, str], timed: bool = False) -> dict[int, tuple[State, ...]]:
    """The states of each operator that has some, by its id; those that time alone drops only with ``timed``.

    Raises:
        PlanError: PLAN05x, when an option that decides about a TTL is not a duration.
    """
    states_by_node = {}
    for node in graph.nodes:
        # Flink ignores entries of a node that keeps none.
        if node.state_names:
            names = [s.name for s in node.states] or list(node.state_names)
            states = tuple(
                State(node, index, name, ttl, node.input_of_state(index))
                for index, (name, ttl) in enumerate(zip(names, node.ttls(session), strict=True))
            )
            is_set = node.states or any(node.ttl_option in o for o in (node.configuration or {}, session))
            if timed or node.ttl_option != TIMED_STATE_TTL or (is_set and any(s.ttl != NEVER for s in states)):
                states_by_node[node.id] = states
    return states_by_node


def longest(states: Sequence[State]) -> State:
    """The one that lives longest, the first of several; there must be one."""
    best = states[0]
    for state in states[1:]:
        if outlives(state.ttl, best.ttl):
            best = state
    return best


def siblings(subject: Subject) -> Iterator[tuple[State, tuple[State, ...]]]:
    """The sides of all regular joins, each with the other sides of its join."""
    for node in subject.nodes:
        if node.title in ("join", "multi-join"):
            sides = subject.states.get(node.id, ())
            yield from ((side, tuple(s for s in sides if s is not side)) for side in sides)


def accepted(node: ExecNode, every: bool = False) -> dict[str, str]:
    """The accepted findings of a node, code to reason; those without a reason only with ``every``."""
    entries: dict[str, str] = (node.stateplan or {}).get(SUPPRESS, {})
    return {code: reason for code, reason in entries.items() if every or is_reason(reason)}


def is_reason(reason: str) -> bool:
    """Whether a suppression says why."""
    return bool(reason.strip())
