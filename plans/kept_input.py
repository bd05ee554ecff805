"""Which state follows from rows that operators in front of it have kept: no history is read for it.

An operator that keeps all rows of its inputs can be given them once more, and what it then emits has the same rows in
the end as all that it has ever emitted. That is enough for operators whose state depends on these rows alone, and
neither on their order nor on the rows that were taken back.
"""

from __future__ import annotations

from collections.abc import Mapping

from stateplan.common.lazy_dataclass import dataclass
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_calls import expressions
from stateplan.execnodes.nodes.base import ExecNode, field_types
from stateplan.execnodes.nodes.calc import Calc
from stateplan.execnodes.nodes.changelog_normalize import ChangelogNormalize
from stateplan.execnodes.nodes.deduplicate import Deduplicate
from stateplan.execnodes.nodes.exchange import Exchange
from stateplan.execnodes.nodes.group_aggregate import GroupAggregate
from stateplan.execnodes.nodes.join import Join
from stateplan.execnodes.nodes.mini_batch_assigner import MiniBatchAssigner
from stateplan.execnodes.nodes.multi_join import MultiJoin
from stateplan.execnodes.nodes.union import Union
from stateplan.functions.rex import InputRef, Rex
from stateplan.plans.backfill import Input
from stateplan.plans.derivation import StateMove, merges_exactly
from stateplan.plans.state_comparison import StateComparison

_PLAIN = (Calc, Exchange, MiniBatchAssigner, Union)
"""Operators without state that give the same for the same row."""


@dataclass(frozen=True)
class KeptInputs:
    """Inputs of operators of the new plan whose rows are kept.

    Attributes:
        inputs: the inputs.
        moves: for those whose rows another old operator has kept than the counterpart, how they come from these.
    """

    inputs: frozenset[Input]
    moves: Mapping[Input, StateMove]


def kept_inputs(states: StateComparison, node: ExecNode, partners_by_id: Mapping[int, ExecNode]) -> KeptInputs | None:
    """The inputs from whose kept rows the state of a node follows; None if it does not follow from such rows. On the
    other ways to the node, its state needs history.

    Args:
        states: compares the plans.
        node: the node of the new plan, with one phase for each aggregate.
        partners_by_id: by operator of the new plan that takes over state, the old one.
    """
    old, new = states.old, states.new
    graph, inputs, moves = new.graph, set[Input](), dict[Input, StateMove]()
    visited_ids, stack = set[int](), [node]
    while stack:
        current = stack.pop()
        if current.id in visited_ids or not graph.inputs(current):
            continue
        visited_ids.add(current.id)
        has_rows = current is not node and current.id in partners_by_id and _keeps_inputs(graph, current)
        if has_rows and not any((*old.ttls(partners_by_id[current.id]), *new.ttls(current))):
            inputs |= {(current.id, i) for i in range(len(graph.inputs(current)))}
            continue
        if not _needs_rows_alone(graph, current, any(new.ttls(current))):
            return None
        for number, source in enumerate(graph.inputs(current)):
            move = states.kept_input(current, number, current is not node)
            if move is None:
                stack.append(source)
            else:
                moves[current.id, number] = move
    return KeptInputs(frozenset(inputs | moves.keys()), moves) if inputs or moves else None


def _keeps_inputs(graph: ExecGraph, node: ExecNode) -> bool:
    """Whether an operator keeps all rows of its inputs from which its output follows. A join emits rows without a match
    whose key is NULL, and does not keep them."""
    if isinstance(node, Join):
        spec, (left, right) = node.join_spec, graph.input_types(node)
        sides = (("LEFT", "FULL", "ANTI"), left, spec.left_keys), (("RIGHT", "FULL"), right, spec.right_keys)
        return not any(
            spec.join_type in types and filters and row.fields[key].type.nullable
            for types, row, keys in sides
            for key, filters in zip(keys, spec.filter_nulls, strict=True)
        )
    if isinstance(node, Deduplicate):
        return node.keep_last_row and not node.is_rowtime
    return isinstance(node, (ChangelogNormalize, MultiJoin))


def _needs_rows_alone(graph: ExecGraph, node: ExecNode, has_ttl: bool) -> bool:
    """Whether the state and the output of an operator depend on nothing but the rows that its inputs have in the end.
    Kept rows have no processing time."""
    kinds = [t.kind for row in graph.input_types(node) for t in field_types(row)]
    if isinstance(node, Calc):
        return not any(_reads_the_clock(rex) for rex in expressions(node))
    if isinstance(node, GroupAggregate):
        return not has_ttl and "PROCTIME" not in kinds and all(map(merges_exactly, node.agg_calls))
    return isinstance(node, _PLAIN) or (isinstance(node, (Join, MultiJoin)) and not has_ttl and "PROCTIME" not in kinds)


def _reads_the_clock(rex: Rex) -> bool:
    return (isinstance(rex, InputRef) and rex.type.kind == "PROCTIME") or any(map(_reads_the_clock, rex.children))
