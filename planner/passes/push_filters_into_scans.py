"""Hands filters to sources that can use them; the filter itself stays, as such sources need not apply it.

Source: Flink's ``PushFilterIntoTableSourceScanRule`` with ``RexNodeExtractor``.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.connectors.registry import source_abilities
from stateplan.execnodes.rex import Call, Rex
from stateplan.planner.algebra.relations import Filter, FilterAbility, Rel, Scan
from stateplan.planner.expressions.convertible import convert
from stateplan.planner.expressions.ops import call, conjunctions, disjunctions, kind, not_, or_, walk
from stateplan.planner.expressions.search import expand_search
from stateplan.planner.passes.build import filtered


def push_filter_into_scan(rel: Rel) -> Rel | None:
    if not isinstance(rel, Filter) or not isinstance(rel.input, Scan):
        return None
    scan = rel.input
    if scan.is_filtered or "FilterPushDown" not in source_abilities(scan.table.options):
        return None
    condition = rel.condition
    if kind(condition) == "SEARCH":
        condition = expand_search(condition)
    taken: list[Rex] = []
    refused: list[Rex] = []
    for term in conjunctions(to_cnf(condition)):
        converted = convert(term)
        if converted is None:
            refused.append(term)
        else:
            taken.append(converted)
    if not taken:
        return None
    ability = FilterAbility(tuple(taken), scan.names)
    return filtered(replace(scan, abilities=(*scan.abilities, ability)), [*taken, *refused])


def _calls(rex: Rex) -> int:
    return sum(isinstance(e, Call) for e in walk(rex))


class _TooLargeError(Exception):
    """The normal form would be more than twice as large as the condition."""


def to_cnf(rex: Rex) -> Rex:
    """``rex`` in conjunctive normal form; ``rex`` itself where that would be much larger."""
    limit = 2 * _calls(rex)
    try:
        return _cnf(rex, limit)
    except _TooLargeError:
        return rex


def _conjunction(terms: list[Rex]) -> Rex:
    flat = [c for t in terms for c in conjunctions(t)]
    unique: list[Rex] = []
    for t in flat:
        if t not in unique:
            unique.append(t)
    if len(unique) == 1:
        return unique[0]
    from stateplan.execnodes.types import BOOLEAN

    return call("AND", unique, BOOLEAN.as_nullable(any(t.type.nullable for t in unique)))


def _cnf(rex: Rex, limit: int) -> Rex:
    op = kind(rex)
    if op == "AND":
        result = _conjunction([_cnf(c, limit) for c in conjunctions(rex)])
    elif op == "OR":
        operands = disjunctions(rex)
        heads = conjunctions(_cnf(operands[0], limit))
        tails = conjunctions(_cnf(or_(operands[1:]), limit))
        result = _conjunction([or_([h, t]) for h in heads for t in tails])
    elif op == "NOT":
        inner = rex.children[0]
        if kind(inner) == "NOT":
            return _cnf(inner.children[0], limit)
        if kind(inner) == "OR":
            return _cnf(_conjunction([not_(c) for c in disjunctions(inner)]), limit)
        if kind(inner) == "AND":
            return _cnf(or_([not_(c) for c in conjunctions(inner)]), limit)
        return rex
    else:
        return rex
    if _calls(result) > limit:
        raise _TooLargeError
    return result
