"""Queries inside expressions as joins: of a filter, a projection or a join's condition. A query that refers to the row
around makes a correlate, which ``decorrelate`` turns into a join.

Source: Calcite's ``SubQueryRemoveRule``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateplan.common.errors import SqlError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import BOOLEAN, INT
from stateplan.execnodes.specs import JoinType
from stateplan.functions.rex import InputRef, Literal, Rex, shift
from stateplan.functions.typerules import least_restrictive, same_type
from stateplan.planner.algebra.relations import (
    AggCall,
    Aggregate,
    Correlate,
    Filter,
    Join,
    Project,
    Rel,
    field_names,
    is_identity,
    refs_to,
)
from stateplan.planner.algebra.relations import walk as walk_rels
from stateplan.planner.expressions.ops import (
    FALSE,
    TRUE,
    SubQuery,
    and_,
    call,
    cast,
    compare,
    kind,
    or_,
    outer_field,
    rewrite,
    test,
    walk,
)
from stateplan.planner.metadata.unique_keys import are_unique, unique_keys
from stateplan.planner.passes.build import aggregate_call, filtered, first_fields
from stateplan.planner.passes.subqueries import expressions_of, mentions

_UNKNOWN_VALUE = Literal(BOOLEAN, None)


def subqueries_to_correlates(rel: Rel) -> Rel | None:
    """Raises SqlError SQL152 for queries in the condition of a join that Flink cannot plan, or plans wrongly."""
    if isinstance(rel, Filter):
        return _filter(rel)
    if isinstance(rel, Project):
        query = next((q for e in rel.exprs if (q := _first(e)) is not None), None)
        if query is None:
            return None
        below, value = _apply_query(rel.input, query, certain=False)
        exprs = tuple(_with_value_of(e, query, value) for e in rel.exprs)
        # Calcite builds no projection of all fields here, so their names are lost.
        return below if is_identity(exprs, below) else replace(rel, input=below, exprs=exprs)
    if isinstance(rel, Join):
        return _join(rel)
    return None


def _filter(rel: Filter) -> Rel | None:
    below, condition = rel.input, rel.condition
    query = _first(condition)
    if query is None:
        return None
    while query is not None:
        below, value = _apply_query(below, query, certain=_is_term(condition, query))
        condition = _with_value_of(condition, query, value)
        query = _first(condition)
    return first_fields(filtered(below, [condition]), rel.width)


def _join(rel: Join) -> Rel | None:
    """The query is joined with the right side."""
    query = _first(rel.condition)
    if query is None:
        return None
    certain = _holds_alone(query) and rel.join_type in ("INNER", "LEFT") and _is_term(rel.condition, query)
    if _refers(query) or (query.operator != "SCALAR" and not certain):
        raise SqlError("SQL152", place=query.place)
    right, value = _apply_query(rel.right, query, certain=certain)
    value = shift(value, rel.left.width)
    join = replace(rel, right=right, condition=_with_value_of(rel.condition, query, value))
    width = rel.left.width
    kept_fields = [*range(width), *(() if rel.join_type in ("SEMI", "ANTI") else range(width, width + rel.right.width))]
    return Project(join, tuple(refs_to(join, kept_fields)), tuple(field_names(rel)))


def _first(rex: Rex) -> SubQuery | None:
    return next((e for e in walk(rex) if isinstance(e, SubQuery)), None)


def _with_value_of(rex: Rex, query: SubQuery, value: Rex) -> Rex:
    """``rex`` with ``value`` for ``query`` and for queries that are the same."""
    return rewrite(rex, lambda e: value if e == query else None)


def _is_term(condition: Rex, query: SubQuery) -> bool:
    """Whether only rows for which ``query`` is TRUE meet ``condition``."""
    return condition is query or (kind(condition) == "AND" and any(_is_term(c, query) for c in condition.children))


def _holds_alone(query: SubQuery) -> bool:
    """Whether the query is a condition that has nothing to do with the row around."""
    constant = all(isinstance(o, Literal) for o in query.operands)
    return query.operator == "EXISTS" or (query.operator == "IN" and constant)


def _outer_fields(rex: Rex, number: int) -> Rex:
    """``rex``, over the row around the query ``number``, as the query sees it."""
    return rewrite(rex, lambda e: outer_field(number, e.index, e.type) if isinstance(e, InputRef) else None)


def _refers(query: SubQuery) -> bool:
    """Whether the query refers to the row around it."""
    return any(mentions(e, query.number) for r in walk_rels(query.rel) for e in expressions_of(r))


@dataclass(frozen=True)
class _Left:
    """The relation that queries are joined to."""

    query: SubQuery
    correlated: bool

    def join(self, left: Rel, right: Rel, join_type: JoinType, condition: Rex = TRUE) -> Rel:
        if not self.correlated:
            return Join(left, right, condition, join_type, *self.query.hints, place=self.query.place)
        if join_type == "INNER":
            correlate = Correlate(left, right, self.query.number, join_type, hints=self.query.hints)
            return correlate if condition is TRUE else Filter(correlate, condition)
        return Correlate(left, right, self.query.number, join_type, hints=self.query.hints)

    def joined_with_counts(self, left: Rel, counts: Rel) -> Rel:
        """``left`` with the numbers of the query's rows; as in Calcite they are NULL for a row that has none, if the
        query refers to it."""
        if not self.correlated:
            return self.join(left, counts, "INNER")
        return Correlate(left, counts, self.query.number, "LEFT", adjusted=True, hints=self.query.hints)


def _apply_query(left: Rel, query: SubQuery, *, certain: bool) -> tuple[Rel, Rex]:
    """``left`` joined with the query, and what stands for the query then. ``certain``: rows are dropped for which it is
    not TRUE."""
    to = _Left(query, _refers(query))
    if query.operator == "SCALAR":
        return _scalar(left, query, to)
    if query.operator == "EXISTS":
        return _exists(left, query, to, certain)
    if query.operator == "SOME":
        return _some(left, query, to)
    return _in(left, query, to, certain)


def _scalar(left: Rel, query: SubQuery, to: _Left) -> tuple[Rel, Rex]:
    right = query.rel
    if frozenset() not in unique_keys(right):
        right = Aggregate(right, (), (aggregate_call("SINGLE_VALUE", right, (0,), None, grouped=False),))
    joined_rel = to.join(left, right, "LEFT")
    return joined_rel, refs_to(joined_rel)[left.width]


def _exists(left: Rel, query: SubQuery, to: _Left, certain: bool) -> tuple[Rel, Rex]:
    right = Aggregate(Project(query.rel, (TRUE,), ("i",)), (0,), ())
    if certain:
        return to.join(left, right, "INNER"), TRUE
    joined_rel = to.join(left, right, "LEFT")
    return joined_rel, test("IS NOT NULL", refs_to(joined_rel)[left.width])


def _in(left: Rel, query: SubQuery, to: _Left, certain: bool) -> tuple[Rel, Rex]:
    keys = tuple(range(query.rel.width))
    if certain and _holds_alone(query):
        same = (compare("=", o, r) for o, r in zip(query.operands, refs_to(query.rel), strict=True))
        rows = filtered(query.rel, list(same))
        return to.join(left, Aggregate(Project(rows, (TRUE,), ("cs",)), (0,), ()), "INNER"), TRUE
    if certain:
        right: Rel = Aggregate(query.rel, keys, ())
        return to.join(left, right, "INNER", _equal(query.operands, right, left.width)), TRUE
    below = to.joined_with_counts(left, _counts(query)) if query.type.nullable else left
    marked_rows = Project(query.rel, (*refs_to(query.rel), TRUE), (*field_names(query.rel), "i"))
    right = Aggregate(marked_rows, tuple(range(marked_rows.width)), ())
    if to.correlated:
        around = [_outer_fields(o, query.number) for o in query.operands]
        joined_rel = to.join(below, Filter(right, _equal(around, right, 0)), "LEFT")
    else:
        joined_rel = to.join(below, right, "LEFT", _equal(query.operands, right, below.width))
    refs = refs_to(joined_rel)
    match_flag = refs[-1]
    if not query.type.nullable:
        return joined_rel, call("CASE", (test("IS NOT NULL", match_flag), TRUE, FALSE), BOOLEAN.not_null())
    total, not_null = refs[left.width], refs[left.width + 1]
    null_tests = [test("IS NULL", o) for o in query.operands if o.type.nullable]
    operands: list[Rex] = [compare("=", total, Literal(INT.not_null(), 0)), FALSE]
    if null_tests:
        operands += [or_(null_tests), _UNKNOWN_VALUE]
    operands += [test("IS NOT NULL", match_flag), TRUE, compare("<", not_null, total), _UNKNOWN_VALUE, FALSE]
    return joined_rel, call("CASE", operands, BOOLEAN)


def _counts(query: SubQuery) -> Rel:
    """How many rows the query has, and how many of them without NULL."""
    known_keys = [k for k, (_, t) in enumerate(query.rel.fields) if t.nullable]
    rows = query.rel
    if not known_keys and isinstance(rows, Project):
        rows = Project(rows.input, (Literal(INT.not_null(), 0),), ("$f0",))
    total_call = aggregate_call("COUNT", rows, (), "c", grouped=False)
    counts = Aggregate(rows, (), (total_call, aggregate_call("COUNT", rows, known_keys, "ck", grouped=False)))
    if counts.calls[1].args:
        return counts
    one = replace(counts, calls=counts.calls[:1])
    return Project(one, (refs_to(one)[0], refs_to(one)[0]), ("c", "ck"))


def _some(left: Rel, query: SubQuery, to: _Left) -> tuple[Rel, Rex]:
    if query.comparison == "<>":
        return _some_other(left, query, to)
    extreme = "MIN" if query.comparison in (">", ">=") else "MAX"
    calls = [_call(extreme, query.rel, "m"), _call("COUNT", query.rel, "c", ()), _call("COUNT", query.rel, "d")]
    joined_rel, (m, total, not_null), none = _with_figures(left, to, query.rel, calls)
    holds = compare(query.comparison, query.operands[0], m)
    operands: list[Rex] = [
        none,
        FALSE,
        test("IS TRUE", holds),
        TRUE,
        compare(">", total, not_null),
        _UNKNOWN_VALUE,
        holds,
    ]
    return joined_rel, _certain(call("CASE", operands, BOOLEAN), query)


def _some_other(left: Rel, query: SubQuery, to: _Left) -> tuple[Rel, Rex]:
    """Whether the query has another value: it has one if it has two values, or if its only one is another."""
    rel = query.rel
    every = frozenset(range(rel.width))
    rows = rel if to.correlated or are_unique(rel, every) else Aggregate(rel, tuple(every), ())
    # As in Flink, DISTINCT says nothing about the number of all rows.
    total_call = _call("COUNT", rows, "c", (), distinct=to.correlated)
    calls = [total_call, _call("COUNT", rows, "d", distinct=to.correlated), _call("MAX", rows, "m")]
    joined_rel, (total, not_null, m), none = _with_figures(left, to, rows, calls)
    value, one = query.operands[0], Literal(INT.not_null(), 1)
    other = compare("<>", value, m)
    operands: list[Rex] = [none, FALSE]
    if value.type.nullable:
        operands += [test("IS NULL", value), _UNKNOWN_VALUE]
    operands += [
        and_([compare("<>", not_null, total), compare("<=", not_null, one)]),
        or_([other, _UNKNOWN_VALUE]),
        compare("=", not_null, one),
        other,
        TRUE,
    ]
    return joined_rel, _certain(call("CASE", operands, BOOLEAN), query)


def _certain(answer: Rex, query: SubQuery) -> Rex:
    """``answer`` without NULL, if the query cannot give one."""
    return answer if query.type.nullable else cast(answer, BOOLEAN.not_null())


def _call(function: str, rel: Rel, name: str, args: Sequence[int] = (0,), *, distinct: bool = False) -> AggCall:
    return replace(aggregate_call(function, rel, args, name, grouped=False), distinct=distinct)


def _with_figures(left: Rel, to: _Left, rows: Rel, calls: Sequence[AggCall]) -> tuple[Rel, list[Rex], Rex]:
    """``left`` joined with ``calls`` over the rows of the query, one of which counts all of them (``c``).

    Returns:
        the join, the values of the calls in it, and whether the query has no row.
    """
    twice = [i for i, c in enumerate(calls) if c.name == "d" and not c.distinct and not rows.fields[0][1].nullable]
    right: Rel = Aggregate(rows, (), tuple(c for i, c in enumerate(calls) if i not in twice))
    if twice:
        refs = dict(zip(field_names(right), refs_to(right), strict=True))
        right = Project(right, tuple(refs["c" if c.name == "d" else str(c.name)] for c in calls), _names(calls))
    if to.correlated:
        right = Project(right, (*refs_to(right), TRUE), (*field_names(right), "trueLiteral"))
    joined_rel = to.joined_with_counts(left, right)
    refs_of_right = refs_to(joined_rel)[left.width :]
    figures, match_flags = refs_of_right[: len(calls)], refs_of_right[len(calls) :]
    total = figures[_names(calls).index("c")]
    none = or_([*(test("IS NULL", t) for t in match_flags), compare("=", total, Literal(INT.not_null(), 0))])
    return joined_rel, figures, none


def _names(calls: Sequence[AggCall]) -> tuple[str, ...]:
    return tuple(str(c.name) for c in calls)


def _equal(operands: Sequence[Rex], right: Rel, width: int) -> Rex:
    """The first fields of ``right``, which stand behind ``width`` others, equal to the operands.

    Raises:
        SqlError: SQL203, for types that have none in common.
    """
    refs = [InputRef(t, width + i) for i, (_, t) in enumerate(right.fields)]
    return and_(_same(o, r) for o, r in zip(operands, refs, strict=False))


def _same(left: Rex, right: Rex) -> Rex:
    if same_type(left.type, right.type):
        return compare("=", left, right)
    common = least_restrictive([left.type, right.type])
    if common is None:
        raise SqlError("SQL203.incomparable", left=left.type, right=right.type, name="the condition")
    return compare("=", cast(left, common), cast(right, common))
