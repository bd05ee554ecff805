"""Takes the conditions that compare with the row around out of the queries of a filter's condition: they become
conditions of a join with that row.

Source: Flink's ``SubQueryDecorrelator``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from stateplan.execnodes.rex import InputRef, Literal, Rex
from stateplan.planner.algebra.relations import (
    Aggregate,
    Filter,
    Join,
    Project,
    Rel,
    field_names,
    identity,
    is_identity,
    refs_to,
    replace_inputs,
    unique_names,
)
from stateplan.planner.algebra.relations import walk as walk_rels
from stateplan.planner.expressions.cnf import to_cnf
from stateplan.planner.expressions.ops import (
    SubQuery,
    and_,
    conjunctions,
    input_refs,
    kind,
    outer_of,
    remap,
    rewrite,
    shift,
    walk,
)

Decorrelated: TypeAlias = Mapping[int, tuple[Rel, Rex]]
"""By number of a query that refers to the row around: its relation without these references, and the condition over
that row and its rows."""


def decorrelated(outer: Filter) -> Decorrelated | None:
    """The queries of the condition of ``outer``, those of queries in them apart; None where one of them refers to the
    outside in a way that is no condition, or to a row of a grouping."""
    out: dict[int, tuple[Rel, Rex]] = {}
    for query in [e for e in walk(outer.condition) if isinstance(e, SubQuery)]:
        rel = query.rel
        if query.operator == "IN" and not isinstance(rel, Project):
            rel = identity(rel)
        if not any(mentions(e, query.number) for r in walk_rels(rel) for e in expressions_of(r)):
            continue
        if query.grouped:
            return None
        try:
            frame = _decorrelated(rel, query.number)
        except _UnsupportedError:
            return None
        if frame.condition is None:
            continue
        if query.operator == "EXISTS":
            frame = _only_compared(frame)
        assert frame.condition is not None
        out[query.number] = frame.rel, _over_both(frame.condition, query.number, outer.width)
    return out


class _UnsupportedError(Exception):
    """A reference to the outside where it cannot be taken out."""


def expressions_of(rel: Rel) -> Sequence[Rex]:
    """The expressions that a relation holds itself."""
    if isinstance(rel, Project):
        return rel.exprs
    return (rel.condition,) if isinstance(rel, (Filter, Join)) else ()


def mentions(rex: Rex, number: int) -> bool:
    """Whether ``rex``, or a query in it, refers to the row around the query ``number``."""
    for e in walk(rex):
        found = outer_of(e)
        if found is not None and found[0] == number:
            return True
        if isinstance(e, SubQuery) and any(mentions(x, number) for r in walk_rels(e.rel) for x in expressions_of(r)):
            return True
    return False


@dataclass(frozen=True)
class _Frame:
    """A relation without references to the outside, the condition taken out of it (over its fields and the outside),
    and where its former fields are."""

    rel: Rel
    condition: Rex | None
    where: Mapping[int, int]

    @property
    def compared(self) -> list[int]:
        """The fields that the condition refers to, in order."""
        return [] if self.condition is None else sorted(set(input_refs(self.condition)))


def _over_both(condition: Rex, number: int, width: int) -> Rex:
    """``condition`` over the outside row (``width`` fields) and the query's."""

    def change(e: Rex) -> Rex | None:
        found = outer_of(e)
        if found is not None and found[0] == number:
            return InputRef(e.type, found[1])
        return InputRef(e.type, e.index + width) if isinstance(e, InputRef) else None

    return rewrite(condition, change)


def _only_compared(frame: _Frame) -> _Frame:
    """The frame with no fields but those that are compared."""
    kept = frame.compared
    if len(kept) == frame.rel.width:
        return frame
    names = field_names(frame.rel)
    rel = Project(frame.rel, tuple(refs_to(frame.rel, kept)), tuple(names[i] for i in kept))
    assert frame.condition is not None
    return _Frame(rel, remap(frame.condition, {f: i for i, f in enumerate(kept)}), {})


def _split(condition: Rex, number: int) -> tuple[list[Rex], list[Rex]]:
    """Terms that do not refer to the outside, and those that do."""
    own: list[Rex] = []
    outside: list[Rex] = []
    for term in conjunctions(to_cnf(condition)):
        if not mentions(term, number):
            own.append(term)
            continue
        if any(kind(e) == "OR" and mentions(e, number) for e in walk(term)) or any(
            isinstance(e, SubQuery) for e in walk(term)
        ):
            raise _UnsupportedError
        outside.append(term)
    return own, outside


def _decorrelated(rel: Rel, number: int) -> _Frame:
    if isinstance(rel, Project):
        return _project(rel, number)
    if isinstance(rel, Filter):
        return _filter(rel, number)
    if isinstance(rel, Aggregate):
        return _aggregate(rel, number)
    if isinstance(rel, Join):
        return _frame_of_join(rel, number)
    frames = [_decorrelated(i, number) for i in rel.inputs]
    if any(f.condition is not None for f in frames):
        raise _UnsupportedError
    return _Frame(replace_inputs(rel, [f.rel for f in frames]), None, _same(rel.width))


def _same(width: int) -> dict[int, int]:
    return {i: i for i in range(width)}


def _project(rel: Project, number: int) -> _Frame:
    if any(mentions(e, number) for e in rel.exprs):
        raise _UnsupportedError
    frame = _decorrelated(rel.input, number)
    below = frame.rel
    exprs = [remap(e, frame.where) for e in rel.exprs]
    names = list(rel.names)
    where: dict[int, int] = {}
    for i, e in enumerate(exprs):
        if isinstance(e, InputRef):
            where[e.index] = i
    for i in frame.compared:
        if i not in where:
            where[i] = len(exprs)
            exprs.append(refs_to(below, [i])[0])
            names.append(below.fields[i][0])
    condition = None if frame.condition is None else remap(frame.condition, where)
    return _Frame(Project(below, tuple(exprs), tuple(unique_names(names))), condition, _same(rel.width))


def _filter(rel: Filter, number: int) -> _Frame:
    frame = _decorrelated(rel.input, number)
    own, outside = _split(rel.condition, number)
    if any(isinstance(e, SubQuery) for t in own for e in walk(t)) and any(i != k for i, k in frame.where.items()):
        raise _UnsupportedError
    below = frame.rel
    if own:
        below = Filter(below, and_(remap(t, frame.where) if not _has_query(t) else t for t in own))
    terms = [remap(t, frame.where) for t in outside]
    if frame.condition is not None:
        terms.append(frame.condition)
    return _Frame(below, and_(terms) if terms else None, frame.where)


def _has_query(rex: Rex) -> bool:
    return any(isinstance(e, SubQuery) for e in walk(rex))


def _aggregate(rel: Aggregate, number: int) -> _Frame:
    """The compared fields are grouped by too, behind the other keys."""
    frame = _decorrelated(rel.input, number)
    below = frame.rel
    if frame.condition is None:
        return _Frame(replace(rel, input=below), None, _same(rel.width))
    if any(kind(t) != "=" for t in conjunctions(frame.condition)):
        raise _UnsupportedError  # what is grouped by the compared fields would be other groups
    keys = [frame.where[g] for g in rel.group]
    constant = [k for k in keys if isinstance(below, Project) and isinstance(below.exprs[k], Literal)]
    if constant:
        raise _UnsupportedError
    order = list(dict.fromkeys([*keys, *frame.compared]))
    count = len(order)
    order += [i for i in range(below.width) if i not in order]
    where = {f: i for i, f in enumerate(order)}
    names = field_names(below)
    exprs = tuple(refs_to(below, order))
    project = below if is_identity(exprs, below) else Project(below, exprs, tuple(names[i] for i in order))
    calls = tuple(
        replace(
            c,
            args=tuple(where[frame.where[a]] for a in c.args),
            filter=where[frame.where[c.filter]] if c.filter >= 0 else -1,
            name=n,
        )
        for c, (n, _) in zip(rel.calls, rel.fields[len(rel.group) :], strict=True)
    )
    made = replace(rel, input=project, group=tuple(range(count)), calls=calls)
    old = {i: where[k] for i, k in enumerate(keys)}
    old |= {len(keys) + i: count + i for i in range(len(calls))}
    return _Frame(made, remap(frame.condition, where), old)


def _frame_of_join(rel: Join, number: int) -> _Frame:
    left, right = (_decorrelated(i, number) for i in rel.inputs)
    own, outside = _split(rel.condition, number)
    padded_left = rel.join_type in ("RIGHT", "FULL")
    padded_right = rel.join_type in ("LEFT", "FULL", "SEMI", "ANTI")
    if (padded_left and left.condition is not None) or (padded_right and right.condition is not None):
        raise _UnsupportedError
    if outside and rel.join_type != "INNER":
        raise _UnsupportedError
    width, old_width = left.rel.width, rel.left.width
    where = {**left.where, **{old_width + i: width + k for i, k in right.where.items()}}
    terms = [remap(t, where) for t in outside]
    if left.condition is not None:
        terms.append(left.condition)
    if right.condition is not None:
        terms.append(shift(right.condition, width))
    join = replace(rel, left=left.rel, right=right.rel, condition=and_(remap(t, where) for t in own))
    return _Frame(join, and_(terms) if terms else None, where)
