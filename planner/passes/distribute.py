"""Puts an exchange in front of every operator that keeps state by key, and behind a source whose changes have to be
normalized the operator that does it.

Source: Flink's physical rules (``StreamPhysicalGroupAggregateRule``, ``StreamPhysicalJoinRule``,
``StreamPhysicalRankRule``, ``StreamPhysicalTableSourceScanRule``) with ``FlinkExpandConversionRule``: streaming
operators but those that sort promise no distribution of their output, so each of these gets its own exchange.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.rex import InputRef
from stateplan.planner.algebra.join_keys import common_keys, equi_keys
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.relations import (
    Aggregate,
    Calc,
    ChangelogNormalize,
    Exchange,
    Join,
    MultiJoin,
    Rank,
    Rel,
    Scan,
    Sort,
    field_names,
    refs_to,
    replace_inputs,
)
from stateplan.planner.algebra.table_aggregates import TableAggregate
from stateplan.planner.algebra.temporal import IntervalJoin, TemporalJoin, WatermarkAssigner
from stateplan.planner.algebra.windows import WindowAggregate, WindowJoin


def distribute(rel: Rel) -> Rel:
    inputs = [distribute(i) for i in rel.inputs]
    if isinstance(rel, Scan) and rel.normalized is not None:
        assert rel.key is not None
        reads_metadata = rel.projection is not None and bool(rel.projection.metadata)
        required = rel.normalized == "duplicates" or reads_metadata
        return ChangelogNormalize(Exchange(rel, rel.key), rel.key, required=required)
    if isinstance(rel, WatermarkAssigner):
        return _before_normalization(rel, inputs[0])
    if isinstance(rel, (Aggregate, TableAggregate, WindowAggregate)):
        return replace(rel, input=_exchanged(inputs[0], rel.group))
    if isinstance(rel, (OverAggregate, Rank)):
        return replace(rel, input=_exchanged(inputs[0], rel.partition))
    if isinstance(rel, Sort):
        return replace(rel, input=_exchanged(inputs[0], ()))
    if isinstance(rel, (Join, TemporalJoin, IntervalJoin, WindowJoin)):
        keys = equi_keys(rel.rest if isinstance(rel, IntervalJoin) else rel.condition, rel.left.width)
        return replace(
            rel,
            left=Exchange(inputs[0], tuple(k for k, _ in keys)),
            right=Exchange(inputs[1], tuple(k for _, k in keys)),
        )
    if isinstance(rel, MultiJoin):
        return replace(rel, sources=tuple(map(Exchange, inputs, common_keys(rel))))
    return replace_inputs(rel, inputs)


def _before_normalization(assigner: WatermarkAssigner, below: Rel) -> Rel:
    """The watermarks of a table in front of the normalization of its changes
    (``WatermarkAssignerChangelogNormalizeTransposeRule``); keys that the table's columns do not hold are added."""
    if isinstance(below, ChangelogNormalize):
        assert isinstance(below.input, Exchange)
        moved = replace(assigner, input=below.input.input)
        return replace(below, input=replace(below.input, input=moved))
    if not isinstance(below, Calc) or not isinstance(below.input, ChangelogNormalize):
        return replace_inputs(assigner, [below])
    normalize = below.input
    assert isinstance(normalize.input, Exchange)
    where = {e.index: i for i, e in reversed(list(enumerate(below.exprs))) if isinstance(e, InputRef)}
    added = [k for k in normalize.key if k not in where]
    exprs, names = [*below.exprs, *refs_to(normalize, added)], [*below.names]
    for k in added:
        where[k] = len(names)
        names.append(field_names(normalize)[k])
    calc = replace(below, input=normalize.input.input, exprs=tuple(exprs), names=tuple(names))
    key = tuple(where[k] for k in normalize.key)
    moved = replace(assigner, input=calc)
    new = replace(normalize, input=Exchange(moved, key), key=key)
    return Calc(new, tuple(refs_to(new, range(below.width))), below.names) if added else new


def _exchanged(rel: Rel, keys: tuple[int, ...]) -> Rel:
    """``rel`` spread by ``keys``; without keys nothing is to do behind a sort, all of whose rows are in one task."""
    return rel if not keys and isinstance(rel, Sort) else Exchange(rel, keys)
