"""GROUPING SETS, ROLLUP and CUBE: the sets of keys they stand for, and the aggregate over the expanded rows.

Source: Calcite's ``SqlValidatorUtil.analyzeGroupItem`` and ``RelBuilder.aggregate_``; Flink's
``DecomposeGroupingSetsRule`` and ``ExpandUtil``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, product

from sqlglot import exp

from stateplan.common.errors import Place
from stateplan.common.types import BIGINT
from stateplan.functions.rex import InputRef, Literal, Rex
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.groupings import Grouping
from stateplan.planner.algebra.relations import AggCall, Aggregate, Expand, Project, Rel, Union, field_names
from stateplan.planner.expressions.ops import call, compare
from stateplan.planner.positions import bare

GROUPING_FUNCTIONS = ("GROUPING", "GROUPING_ID", "GROUP_ID")

_ID = BIGINT.not_null()
Keys = tuple[int, ...]


def key_sets(group: exp.Expr, key: Callable[[exp.Expr], int]) -> list[Keys]:
    """The sets of keys of a GROUP BY, repeated ones as often as they are there.

    Args:
        group: an ``exp.Group``.
        key: numbers a key expression.
    """
    items = [i for name in ("expressions", "grouping_sets", "rollup", "cube") for i in group.args.get(name) or ()]
    items.sort(key=lambda node: node.meta.get("start", 0))
    choices = [_item(item, key) for item in items]
    return [tuple(dict.fromkeys(k for part in parts for k in part)) for parts in product(*choices)]


def _item(node: exp.Expr, key: Callable[[exp.Expr], int]) -> list[Keys]:
    if isinstance(node, exp.GroupingSets):
        return [keys for inner in node.expressions for keys in _item(inner, key)]
    if isinstance(node, (exp.Rollup, exp.Cube)):
        parts = [_keys(inner, key) for inner in node.expressions]
        sizes = range(len(parts), -1, -1)
        if isinstance(node, exp.Rollup):
            sets = [parts[:n] for n in sizes]
        else:
            sets = [list(c) for n in sizes for c in combinations(parts, n)]
        return [tuple(k for part in some for k in part) for some in sets]
    return [_keys(node, key)]


def _keys(node: exp.Expr, key: Callable[[exp.Expr], int]) -> Keys:
    node = bare(node)
    if isinstance(node, exp.Tuple):
        return tuple(k for inner in node.expressions for k in _keys(inner, key))
    return (key(node),)


def aggregated(
    rel: Rel, count: int, sets: Sequence[Keys], calls: Sequence[AggCall], hint: InputHint | None, place: Place
) -> Rel:
    """The aggregate of ``rel`` by its first ``count`` fields: those fields, then the calls.

    Args:
        sets: the sets of keys; repeated ones give their rows again.
        calls: GROUPING, GROUPING_ID and GROUP_ID among them, over keys.
    """
    turns: list[list[Keys]] = []
    for keys in sets:
        unique = tuple(sorted(keys))
        turn = next((t for t in turns if unique not in t), None)
        if turn is None:
            turn = []
            turns.append(turn)
        turn.append(unique)
    parts = [_turn(rel, count, turn, calls, number, hint, place) for number, turn in enumerate(turns)]
    return parts[0] if len(parts) == 1 else Union(tuple(parts), True)


def _turn(
    rel: Rel, count: int, sets: list[Keys], calls: Sequence[AggCall], number: int, hint: InputHint | None, place: Place
) -> Rel:
    plain = [c for c in calls if c.function not in GROUPING_FUNCTIONS]
    group = tuple(range(count))
    if len(sets) == 1:
        aggregate = Aggregate(rel, sets[0], tuple(plain), hint, place)
        if len(plain) == len(calls) and sets[0] == group:
            return aggregate
        return _with_group_keys(
            aggregate, rel, count, {k: sets[0].index(k) for k in sets[0]}, calls, sets, None, number
        )
    sorted_sets = sorted(sets, key=lambda keys: _id_of(keys, count))
    used_fields = {a for c in plain for a in (*c.args, c.filter) if 0 <= a < count}
    expanded, copies = _expanded(rel, count, sorted_sets, sorted(used_fields))
    new_calls = tuple(
        replace(c, args=tuple(copies.get(a, a) for a in c.args), filter=copies.get(c.filter, c.filter)) for c in plain
    )
    aggregate = Aggregate(expanded, (*group, expanded.id_field), new_calls, hint, place)
    return _with_group_keys(aggregate, rel, count, dict.fromkeys(group, 0), calls, sorted_sets, count, number)


def _id_of(keys: Keys, count: int) -> int:
    """A bit per key, the first key's the highest: 1 where the set does not have it."""
    return sum(1 << (count - 1 - k) for k in range(count) if k not in keys)


def _expanded(rel: Rel, count: int, sets: Sequence[Keys], used_fields: Sequence[int]) -> tuple[Expand, dict[int, int]]:
    """Each row once per set, keys that are not of it NULL; behind it the set's number and, of keys that calls use, the
    values."""
    fields = rel.fields
    types = [t.as_nullable() if i < count and _optional(i, sets) else t for i, (_, t) in enumerate(fields)]
    names = expanded_names([n for n, _ in fields], used_fields)
    copies = {k: len(fields) + 1 + i for i, k in enumerate(used_fields)}
    rows = []
    for keys in sets:
        row: list[Rex] = [
            Literal(types[i], None) if i < count and i not in keys else InputRef(t, i)
            for i, (_, t) in enumerate(fields)
        ]
        row.append(Literal(_ID, _id_of(keys, count)))
        row += [InputRef(fields[k][1], k) for k in used_fields]
        rows.append(tuple(row))
    all_types = (*types, _ID, *(fields[k][1] for k in used_fields))
    return Expand(rel, tuple(rows), tuple(names), all_types, len(fields)), copies


def _optional(key: int, sets: Sequence[Keys]) -> bool:
    return any(key not in keys for keys in sets)


def expanded_names(names: Sequence[str], fields: Sequence[int]) -> list[str]:
    """The names of an Expand over fields with ``names``: these, the number of the set, and copies of ``fields``."""
    out = list(names)
    for name in ("$e", *(names[i] for i in fields)):
        candidate, n = name, 0
        while candidate in out:
            candidate, n = f"{name}_{n}", n + 1
        out.append(candidate)
    return out


def _with_group_keys(
    aggregate: Aggregate,
    rel: Rel,
    count: int,
    kept_fields: dict[int, int],
    calls: Sequence[AggCall],
    sets: Sequence[Keys],
    id_field: int | None,
    number: int,
) -> Project:
    """The keys and calls in their places: the functions that identify the set of a row are computed from its number.

    Args:
        kept_fields: the keys that are there, with their places; all, in order, where there is a number of the set.
    """
    fields = aggregate.fields
    exprs: list[Rex] = []
    names: list[str] = []
    for k, (name, t) in enumerate(rel.fields[:count]):
        place = k if id_field is not None else kept_fields.get(k)
        exprs.append(Literal(t.as_nullable(), None) if place is None else InputRef(fields[place][1], place))
        names.append(name)
    at = len(aggregate.group)
    for c in calls:
        if c.function in GROUPING_FUNCTIONS:
            exprs.append(_grouping(c, sets, None if id_field is None else InputRef(_ID, id_field), count, number))
            names.append(c.name or f"$f{len(names)}")
        else:
            exprs.append(InputRef(fields[at][1], at))
            names.append(fields[at][0])
            at += 1
    assert len(field_names(aggregate)) == at
    stands_for = Grouping(rel, count, tuple(sets), tuple(calls))
    return Project(aggregate, tuple(exprs), tuple(names), grouping=stands_for)


def _grouping(c: AggCall, sets: Sequence[Keys], number: InputRef | None, count: int, turn: int) -> Rex:
    """The value of a call: a constant, or a CASE over the number of the set, called GROUPING until it is revealed."""
    if c.function == "GROUP_ID":
        return Literal(_ID, turn)
    values = [sum(1 << (len(c.args) - 1 - i) for i, k in enumerate(c.args) if k not in keys) for keys in sets]
    if number is None:
        return Literal(_ID, values[0])
    operands: list[Rex] = []
    for keys, value in zip(sets[:-1], values[:-1], strict=True):
        operands += [compare("=", number, Literal(_ID, _id_of(keys, count))), Literal(_ID, value)]
    return call("GROUPING", (*operands, Literal(_ID, values[-1])), _ID)
