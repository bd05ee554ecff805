"""How many rows a relation may have. The planner needs this where Flink chooses by cost.

Streams have no statistics, so these are guesses from the shape of the query.

Source: Flink's ``FlinkRelMdRowCount``, ``SelectivityEstimator`` and ``FlinkRelMdSelectivity``; for bounds,
Calcite's ``RelMdMinRowCount`` and ``RelMdMaxRowCount``.
"""

from __future__ import annotations

import math

from stateplan.functions.rex import InputRef, Literal, Rex
from stateplan.planner.algebra.relations import Aggregate, Calc, Filter, Join, Project, Rel, Scan, Sort, Union, Values
from stateplan.planner.expressions.ops import conjunctions, disjunctions, kind
from stateplan.planner.metadata.unique_keys import are_unique, unique_keys

_TABLE = 1e8
_EQUAL, _COMPARISON, _LIKE, _OTHER = 0.15, 0.5, 0.05, 0.25


def row_count(rel: Rel) -> float:
    """The number of rows of ``rel``."""
    if isinstance(rel, Filter):
        return row_count(rel.input) * selectivity(rel.condition)
    if isinstance(rel, Calc):
        return row_count(rel.input) * (1 if rel.condition is None else selectivity(rel.condition))
    if isinstance(rel, Aggregate):
        return row_count(rel.input) if rel.group else 1
    if isinstance(rel, Union):
        return sum(map(row_count, rel.inputs))
    if isinstance(rel, Join):
        return _join(rel)
    if isinstance(rel, Scan) or not rel.inputs:
        return _TABLE
    return row_count(rel.inputs[0])


def least_rows(rel: Rel) -> float:
    """The minimum number of rows of ``rel``."""
    if isinstance(rel, Values):
        return len(rel.tuples)
    if isinstance(rel, Aggregate):
        return min(1, least_rows(rel.input)) if rel.group else 1
    if isinstance(rel, Union):
        return sum(map(least_rows, rel.inputs))
    if isinstance(rel, Sort):
        return max(0, min(least_rows(rel.input) - rel.offset, math.inf if rel.fetch is None else rel.fetch))
    return least_rows(rel.input) if isinstance(rel, Project) else 0


def most_rows(rel: Rel) -> float:
    """The number of rows that ``rel`` has at most."""
    if isinstance(rel, Values):
        return len(rel.tuples)
    if isinstance(rel, Aggregate):
        return most_rows(rel.input) if rel.group else 1
    if isinstance(rel, Union):
        return sum(map(most_rows, rel.inputs))
    if isinstance(rel, Sort):
        return max(0, min(most_rows(rel.input) - rel.offset, math.inf if rel.fetch is None else rel.fetch))
    return most_rows(rel.input) if isinstance(rel, (Project, Filter)) else math.inf


def selectivity(condition: Rex) -> float:
    """The share of rows that meet ``condition``."""
    op = kind(condition)
    if isinstance(condition, Literal):
        return 1 if condition.value is True else 0
    if isinstance(condition, InputRef):  # as if it were compared with TRUE
        return _EQUAL
    if op == "AND":
        out = 1.0
        for c in conjunctions(condition):
            out *= selectivity(c)
        return out
    if op == "OR":
        out = 0.0
        for d in disjunctions(condition):
            share = selectivity(d)
            out += share - out * share
        return out
    if op == "NOT":
        return 1 - selectivity(condition.children[0])
    by_operator = {"=": _EQUAL, "IS NOT NULL": 0.9, "IS NULL": 0.1, "LIKE": _LIKE}
    if op in by_operator:
        return by_operator[op]
    return _COMPARISON if op in ("<>", "<", "<=", ">", ">=") else _OTHER


def _join(rel: Join) -> float:
    from stateplan.planner.algebra.join_keys import equi_keys, is_equi_key

    width = rel.left.width
    left, right = row_count(rel.left), row_count(rel.right)
    pairs = equi_keys(rel.condition, width)
    rest = 1.0
    for term in conjunctions(rel.condition):
        if not is_equi_key(term, width):
            rest *= selectivity(term)
    if rel.join_type in ("SEMI", "ANTI"):
        return left * _matching(rel, bool(pairs), rest)
    left_keys, right_keys = frozenset(k for k, _ in pairs), frozenset(k for _, k in pairs)
    if not pairs:
        rows = left * right
    elif unique_keys(rel.left) and unique_keys(rel.right):
        known_sides = [
            n
            for n, side, keys in ((left, rel.left, left_keys), (right, rel.right, right_keys))
            if are_unique(side, keys)
        ]
        rows = left * right / max(known_sides) if known_sides else (left + right) * _EQUAL ** len(pairs)
    else:
        rows = (left + right) * _EQUAL ** len(pairs)
    rows *= rest
    if rel.join_type in ("LEFT", "FULL"):
        rows = max(rows, left)
    return max(rows, right) if rel.join_type in ("RIGHT", "FULL") else rows


def _matching(rel: Join, has_keys: bool, rest: float) -> float:
    """The share of rows that a semi or anti join keeps."""
    share = (min(row_count(rel.right) / _base(rel.right), 1.0) if has_keys else 1.0) * rest
    return share if rel.join_type == "SEMI" else max(1 - share, 0.1)


def _base(rel: Rel) -> float:
    """The rows there would be without filters."""
    while not isinstance(rel, (Scan, Join, Union)) and rel.inputs:
        rel = rel.inputs[0]
    return row_count(rel)
