"""Whether the changes of a row reach an operator in the order in which they happened.

An exchange keeps the order of changes that it sends to one task. An update of a field that an operator further up was
distributed by is two changes, which come from two of its tasks: the new row may arrive before the retraction of the old
one. The upsert keys in plans are those for which this cannot happen (Flink's ``FlinkRelMdUpsertKeys``). A unique key
need not be one of them, and Flink keys the inputs of multi-joins by unique keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import singledispatch
from typing import TypeAlias

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode, RowKind
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.calc import Calc
from stateplan.execnodes.nodes.changelog_normalize import ChangelogNormalize
from stateplan.execnodes.nodes.deduplicate import Deduplicate
from stateplan.execnodes.nodes.drop_update_before import DropUpdateBefore
from stateplan.execnodes.nodes.exchange import Exchange
from stateplan.execnodes.nodes.group_aggregate import Grouping
from stateplan.execnodes.nodes.join import Join
from stateplan.execnodes.nodes.lookup_join import LookupJoin
from stateplan.execnodes.nodes.mini_batch_assigner import MiniBatchAssigner
from stateplan.execnodes.nodes.multi_join import MultiJoin
from stateplan.execnodes.nodes.over_aggregate import OverNode
from stateplan.execnodes.nodes.phased_aggregates import GlobalGroupAggregate
from stateplan.execnodes.nodes.rank import RankBase
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.nodes.temporal_join import TemporalJoin
from stateplan.execnodes.nodes.values import Values
from stateplan.execnodes.nodes.watermark_assigner import WatermarkAssigner
from stateplan.execnodes.nodes.window_aggregates import GroupWindowAggregate
from stateplan.execnodes.ranking import ConstantRange
from stateplan.functions.rex import Call, InputRef, Rex

Fields: TypeAlias = frozenset[int]
Needs: TypeAlias = Iterable[tuple[int, Fields]] | None
"""Inputs that have to be in order, each by its fields; None if that would not be enough."""

_NONE: tuple[tuple[int, Fields], ...] = ()


def inputs_out_of_order(graph: ExecGraph, node: MultiJoin, modes: Mapping[int, ChangelogMode | None]) -> Fields:
    """The inputs of which a row may arrive before the one that it replaces, for the keys of the plan.

    Only those whose updates come with their old rows: for others, the last row of a key is all that is known.

    Args:
        modes: the kinds of changes that the nodes emit.
    """
    out = set()
    for i, (source, keys) in enumerate(zip(graph.inputs(node), node.input_unique_keys, strict=True)):
        mode = modes[source.id]
        updates = mode is None or RowKind.UPDATE_AFTER in mode
        if not keys or mode is None or (updates and RowKind.UPDATE_BEFORE not in mode):
            continue
        spread_by = frozenset(node.input_properties[i].required_distribution.keys)
        is_within = any(spread_by.issuperset(key) for key in keys)
        key = spread_by if is_within else spread_by.union(sorted(keys, key=len)[0])
        if not is_in_order(graph, source, key, modes):
            out.add(i)
    return frozenset(out)


def is_in_order(graph: ExecGraph, node: ExecNode, key: Fields, modes: Mapping[int, ChangelogMode | None]) -> bool:
    """Whether the changes that ``node`` emits are in order for rows that agree in ``key``, a unique key or more.

    False where that is not known. An order of arrival at the sources counts as the right one, as in Flink.
    """
    ways: set[tuple[int, Fields]] = set()
    stack = [(node, key)]
    while stack:
        node, key = stack.pop()
        if (node.id, key) in ways or modes[node.id] == INSERT_ONLY:
            continue
        ways.add((node.id, key))
        needs = _needs(node, key, [len(t.fields) for t in graph.input_types(node)])
        if needs is None:
            return False
        sources = graph.inputs(node)
        stack += [(sources[position], fields) for position, fields in needs]
    return True


@singledispatch
def _needs(node: ExecNode, key: Fields, widths: list[int]) -> Needs:
    """What has to be in order so that the changes of ``node`` are, for rows that agree in ``key``.

    Args:
        widths: numbers of fields of the inputs.
    """
    return None


@_needs.register(TableSourceScan)
@_needs.register(Values)
def _(node: ExecNode, key: Fields, widths: list[int]) -> Needs:
    return _NONE


@_needs.register(DropUpdateBefore)
@_needs.register(MiniBatchAssigner)
@_needs.register(WatermarkAssigner)
def _(node: ExecNode, key: Fields, widths: list[int]) -> Needs:
    return [(0, key)]


@_needs.register
def _(node: Exchange, key: Fields, widths: list[int]) -> Needs:
    """What reads it may change the order of rows that went to several tasks."""
    to = node.distribution
    in_one_task = to.type == "SINGLETON" or (to.type == "HASH" and key.issuperset(to.keys))
    return [(0, key)] if in_one_task else None


@_needs.register
def _(node: Calc, key: Fields, widths: list[int]) -> Needs:
    """What is in order by a part of the key is in order by all of it, so that computed fields need not be looked at."""
    sources = (_field_of(node.projection[i]) for i in key)
    return [(0, frozenset(i for i in sources if i is not None))]


def _field_of(rex: Rex) -> int | None:
    """The field that ``rex`` is, or casts: in a unique key a CAST keeps values apart."""
    while isinstance(rex, Call) and rex.name == "CAST":
        rex = rex.children[0]
    return rex.index if isinstance(rex, InputRef) else None


@_needs.register(ChangelogNormalize)
@_needs.register(Deduplicate)
def _(node: ChangelogNormalize | Deduplicate, key: Fields, widths: list[int]) -> Needs:
    return _NONE if key.issuperset(node.unique_keys) else None


@_needs.register(Grouping)
@_needs.register(GlobalGroupAggregate)
@_needs.register(GroupWindowAggregate)
def _(node: Grouping | GlobalGroupAggregate | GroupWindowAggregate, key: Fields, widths: list[int]) -> Needs:
    """The row of a group is computed anew, whatever the order of its rows."""
    return _NONE if key.issuperset(range(len(node.grouping))) else None


@_needs.register
def _(node: RankBase, key: Fields, widths: list[int]) -> Needs:
    """One row of each partition, or of each number in it, is replaced by the next one."""
    own = frozenset(i for i in key if i < widths[0])
    is_first = isinstance(node.rank_range, ConstantRange) and node.rank_range.end == 1
    if own.issuperset(node.partition.fields) and (is_first or own != key):
        return _NONE
    return [(0, own)]


@_needs.register(OverNode)
@_needs.register(LookupJoin)
@_needs.register(TemporalJoin)
def _(node: ExecNode, key: Fields, widths: list[int]) -> Needs:
    """Each row of the first input is one row, with more fields."""
    return [(0, frozenset(i for i in key if i < widths[0]))]


@_needs.register
def _(node: Join, key: Fields, widths: list[int]) -> Needs:
    spec = node.join_spec
    if spec.join_type in ("SEMI", "ANTI"):
        return [(0, key)]
    sides = [{i for i in key if i < widths[0]}, {i - widths[0] for i in key if i >= widths[0]}]
    for a, b in zip(spec.left_keys, spec.right_keys, strict=True):
        if a in sides[0] and spec.join_type in ("INNER", "LEFT"):
            sides[1].add(b)
        elif b in sides[1] and spec.join_type in ("INNER", "RIGHT"):
            sides[0].add(a)
    if spec.left_keys and not all(sides):
        return None
    return [(position, frozenset(side)) for position, side in enumerate(sides)]


@_needs.register
def _(node: MultiJoin, key: Fields, widths: list[int]) -> Needs:
    """As all inputs are distributed by the common key, what agrees in it for one input does for all."""
    keys = [p.required_distribution.keys for p in node.input_properties]
    starts = [sum(widths[:i]) for i in range(len(widths))]
    own = [{i - start for i in key if 0 <= i - start < width} for start, width in zip(starts, widths, strict=True)]
    if not any(side.issuperset(by) for side, by in zip(own, keys, strict=True)):
        return None
    return [(i, frozenset(side.union(by))) for i, (side, by) in enumerate(zip(own, keys, strict=True))]
