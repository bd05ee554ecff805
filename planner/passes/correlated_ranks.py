"""The first rows for each outer row: ``t, LATERAL (SELECT ... WHERE u.a = t.a ORDER BY b LIMIT 2)``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stateplan.functions.rex import InputRef, Rex
from stateplan.planner.algebra.relations import (
    Aggregate,
    Correlate,
    Filter,
    Order,
    Project,
    Rank,
    Rel,
    Sort,
    field_names,
    refs_to,
)
from stateplan.planner.expressions.ops import conjunctions, kind, outer_of, test
from stateplan.planner.passes.build import filtered
from stateplan.planner.positions import not_supported


def rank_of_groups(rel: Rel) -> Rel | None:
    """The first rows of each of the groups of a table, as a rank: ``(SELECT DISTINCT a FROM t) AS g, LATERAL (SELECT b
    FROM t WHERE t.a = g.a ORDER BY b LIMIT 2)``.

    Flink's ``CorrelateSortToRankRule`` does not look at which group a column is compared with, and ranks rows whose
    columns are NULL, which ``=`` omits. Here, it must be the same column, and these rows are omitted.
    """
    if not isinstance(rel, Correlate) or rel.join_type != "INNER":
        return None
    groups, sort = rel.left, rel.right
    if not isinstance(groups, Aggregate) or groups.calls or not isinstance(groups.input, Project):
        return None
    if not isinstance(sort, Sort) or sort.offset or not sort.fetch or not sort.order:
        return None
    projection = sort.input
    if not isinstance(projection, Project) or not isinstance(projection.input, Filter):
        return None
    rows, fields = projection.input.input, _picked_fields(projection)
    grouped = _picked_fields(groups.input)
    if fields is None or grouped is None or groups.input.input != rows:
        return None
    keys = [grouped[g] for g in groups.group]
    if not _compares(projection.input.condition, rel.number, keys):
        return None
    refs = refs_to(rows)
    conditions = [test("IS NOT NULL", refs[k]) for k in keys if refs[k].type.nullable]
    order = tuple((fields[i], up, last) for i, up, last in sort.order)
    rank = _rank(filtered(rows, conditions), sorted(keys), order, sort)
    exprs = refs_to(rank, [*keys, *fields])
    return Project(rank, tuple(exprs), tuple(field_names(rel)))


def _picked_fields(project: Project) -> list[int] | None:
    """The fields of the input that a projection consists of; None if it computes something."""
    fields = [e.index for e in project.exprs if isinstance(e, InputRef)]
    return fields if len(fields) == project.width else None


def _compares(condition: Rex, number: int, keys: list[int]) -> bool:
    """Whether ``condition`` says that each of the fields ``keys`` is the field of the row around query ``number`` that
    has its place in ``keys``."""
    compared_fields = set()
    for term in conjunctions(condition):
        if kind(term) != "=":
            return False
        this, other = term.children if outer_of(term.children[1]) is not None else term.children[::-1]
        outer = outer_of(other)
        if outer is None or outer[0] != number or not isinstance(this, InputRef) or this.index != keys[outer[1]]:
            return False
        compared_fields.add(outer[1])
    return len(compared_fields) == len(keys) == len(set(keys))


def first_of_each(sort: Sort, rel: Rel, field_map: Mapping[int, int], keys: Sequence[int]) -> Rel:
    """``rel``, which has the fields of ``sort`` at ``field_map``, with the rows that ``sort`` leaves for each value of
    the fields ``keys``.

    Flink has no plan for this.

    Raises:
        SqlError: SQL150, a LIMIT without an order, or OFFSET without LIMIT.
    """
    if sort.fetch is None and not sort.offset:
        return rel
    if sort.fetch == 0:
        return Sort(rel, (), 0, 0, sort.place)
    if not sort.order or sort.fetch is None:
        unsupported_clause = "LIMIT without ORDER BY" if sort.fetch is not None else "OFFSET without LIMIT"
        hint = "say in ORDER BY which rows come first" if sort.fetch is not None else "add a LIMIT"
        raise not_supported(f"{unsupported_clause} below a reference to the row around", sort.place, hint)
    order = tuple((field_map[i], up, last) for i, up, last in sort.order)
    return _rank(rel, keys, order, sort)


def _rank(rel: Rel, keys: Sequence[int], order: Order, sort: Sort) -> Rank:
    assert sort.fetch is not None
    start, end = sort.offset + 1, sort.offset + sort.fetch
    return Rank(rel, tuple(keys), order, start, end, place=sort.place, takes_back=True)
