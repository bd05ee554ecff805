"""Joins with a table whose rows are looked up.

Source: Flink's ``ProjectSnapshotTransposeRule``, ``CommonLookupJoinRule`` and ``LookupJoinUtil``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stateplan.execnodes.connectors.registry import connectors, find_connector
from stateplan.execnodes.errors import SqlError
from stateplan.execnodes.rex import InputRef, Literal, Rex
from stateplan.planner.algebra.join_keys import equi_keys, is_equi_key
from stateplan.planner.algebra.relations import Calc, Filter, Join, Project, Rel, Scan, replace_inputs
from stateplan.planner.algebra.temporal import LookupJoin, Snapshot
from stateplan.planner.expressions.ops import and_, conjunctions, input_refs, kind
from stateplan.planner.physical import Physical


def project_through_snapshot(rel: Rel) -> Rel | None:
    if not isinstance(rel, Project) or not isinstance(rel.input, Snapshot):
        return None
    return replace(rel.input, input=replace(rel, input=rel.input.input))


def filter_through_snapshot(rel: Rel) -> Rel | None:
    if not isinstance(rel, Filter) or not isinstance(rel.input, Snapshot):
        return None
    return replace(rel.input, input=replace(rel, input=rel.input.input))


def lookup_joins(rel: Rel) -> Rel | None:
    """The lookup in place of a join with a table as it is now.

    Raises:
        SqlError: SQL147, no key to look up by; SQL149, what Flink has no operator for.
    """
    if not isinstance(rel, Join) or not isinstance(rel.right, Snapshot):
        return None
    below = rel.right.input
    calc = below if isinstance(below, Calc) else None
    table = below.input if isinstance(below, Calc) else below
    assert isinstance(table, Scan)
    summary = table.table.identifier.summary
    if not find_connector(table.table.options).can_look_up or table.normalized is not None:
        able = " or ".join(c.name for c in connectors() if c.can_look_up)
        raise SqlError("SQL149", summary=summary, lookup_connectors=able, place=rel.place)
    if rel.join_type not in ("INNER", "LEFT"):
        raise SqlError("SQL149.lookup_joins", join_type=rel.join_type, place=rel.place)
    width = rel.left.width
    keys = tuple((field, k) for k, r in equi_keys(rel.condition, width) if (field := _field(calc, r)) is not None)
    constants = tuple(_constants(calc))
    if not keys and not constants:
        raise SqlError("SQL147", summary=summary, place=rel.place)
    looked_up = {field for field, _ in keys}
    rest: list[Rex] = []
    before: list[Rex] = []
    for term in conjunctions(rel.condition):
        if is_equi_key(term, width) and looked_up & set(_right_fields(term, calc, width)):
            continue
        alone = rel.join_type == "LEFT" and all(i < width for i in input_refs(term))
        (before if alone else rest).append(term)
    return LookupJoin(
        rel.left,
        table,
        calc,
        rel.join_type,
        keys,
        constants,
        and_(before) if before else None,
        and_(rest) if rest else None,
        ttl=rel.left_ttl,
    )


def keep_lookups(node: Physical) -> Physical:
    """``node`` with lookups of rows that are updated or deleted keeping what they found
    (``StreamNonDeterministicUpdatePlanVisitor``)."""
    inputs = tuple(keep_lookups(i) for i in node.inputs)
    rel = replace_inputs(node.rel, [i.rel for i in inputs])
    if isinstance(rel, LookupJoin) and not inputs[0].is_insert_only:
        rel = replace(rel, materialize=True)
    return replace(node, rel=rel, inputs=inputs)


def _field(calc: Calc | None, index: int) -> int | None:
    """The table's field that is field ``index`` of what is found."""
    if calc is None:
        return index
    found = calc.exprs[index]
    return found.index if isinstance(found, InputRef) else None


def _right_fields(term: Rex, calc: Calc | None, width: int) -> Iterator[int]:
    for i in input_refs(term):
        field = _field(calc, i - width) if i >= width else None
        if field is not None:
            yield field


def _constants(calc: Calc | None) -> Iterator[tuple[int, Rex]]:
    """Fields of the table that its condition makes equal to a constant."""
    for term in conjunctions(calc.condition) if calc is not None else ():
        if kind(term) != "=":
            continue
        a, b = term.children
        if isinstance(a, Literal):
            a, b = b, a
        if isinstance(a, InputRef) and isinstance(b, Literal):
            yield a.index, b
