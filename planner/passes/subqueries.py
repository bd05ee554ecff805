"""Subqueries become joins, or correlations where a join cannot say the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import BOOLEAN
from stateplan.execnodes.specs import JoinType
from stateplan.functions.rex import InputRef, Literal, Rex, input_refs, remap, shift
from stateplan.functions.typerules import least_restrictive, same_type
from stateplan.planner.algebra.relations import (
    Aggregate,
    Correlate,
    Filter,
    Join,
    Project,
    Rel,
    field_names,
    identity,
    is_identity,
    refs_to,
    replace_inputs,
    some_fields,
    unique_names,
    with_expressions,
)
from stateplan.planner.algebra.relations import walk as walk_rels
from stateplan.planner.algebra.table_functions import FunctionCorrelate
from stateplan.planner.algebra.temporal import Snapshot, TemporalJoin
from stateplan.planner.binding.grouping import project_names
from stateplan.planner.expressions.fold import cast_literal
from stateplan.planner.expressions.normal import collapsed, to_cnf
from stateplan.planner.expressions.ops import (
    FALSE,
    MIRRORED,
    TRUE,
    SubQuery,
    and_,
    cast,
    compare,
    conjunctions,
    kind,
    or_,
    outer_of,
    rewrite,
    test,
    walk,
)
from stateplan.planner.expressions.simplify import Simplifier
from stateplan.planner.metadata.row_counts import least_rows, most_rows
from stateplan.planner.passes.build import filtered, first_fields, minimum


def count_subqueries_to_exists(rel: Rel) -> Rel | None:
    """``(SELECT COUNT(*) FROM t) > 0`` as ``EXISTS (SELECT * FROM t)``.

    Source: Flink's ``FlinkRewriteSubQueryRule``.
    """
    return with_expressions(rel, lambda e: rewrite(e, _exists)) if isinstance(rel, Filter) else None


def _exists(rex: Rex) -> Rex | None:
    op = kind(rex)
    if op not in (">", ">=", "<", "<="):
        return None
    query, number = rex.children
    if not isinstance(query, SubQuery):
        query, number, op = number, query, MIRRORED[op]
    if not isinstance(query, SubQuery) or query.operator != "SCALAR" or not _counts_rows(query.rel):
        return None
    if not isinstance(number, Literal) or number.value is None or not number.type.is_numeric:
        return None
    value = float(number.value)
    if not (0 <= value < 1 if op == ">" else op == ">=" and 0 < value <= 1):
        return None
    return SubQuery(
        BOOLEAN.not_null(), "EXISTS", query.rel.inputs[0], query.number, hints=query.hints, place=query.place
    )


def answer_exists(rel: Rel) -> Rel | None:
    """EXISTS of a query that has a row for certain, or none, is TRUE or FALSE.

    Source: Calcite's ``SubQueryRemoveRule``.
    """
    return with_expressions(rel, lambda e: rewrite(e, _certain))


def _certain(rex: Rex) -> Rex | None:
    if not isinstance(rex, SubQuery) or rex.operator != "EXISTS":
        return None
    if least_rows(rex.rel) >= 1:
        return TRUE
    return FALSE if most_rows(rex.rel) < 1 else None


def _counts_rows(rel: Rel) -> bool:
    if not isinstance(rel, Aggregate) or rel.group or len(rel.calls) != 1:
        return False
    call = rel.calls[0]
    return call.function == "COUNT" and not call.args and not call.distinct and call.filter < 0


def subqueries_to_joins(rel: Rel) -> Rel | None:
    """IN and EXISTS as conditions of a filter are semi joins, NOT IN and NOT EXISTS anti joins.

    Source: Flink's ``FlinkSubQueryRemoveRule``. Queries inside a disjunction or any other expression are left to
    ``subqueries_to_correlates``, and so are those whose references to the outside cannot become a condition of the
    join, and all of a filter that is over a join of each row with rows of its own.
    """
    if not isinstance(rel, Filter) or _in_disjunction(rel.condition):
        return None
    query_call = _first(rel.condition)
    if query_call is None or _joins_each_row(rel):
        return None
    queries = decorrelated(rel)
    if queries is None:
        return None
    below, condition = rel.input, rel.condition
    while query_call is not None:
        joined_rel = _join_query(below, query_call, queries)
        if joined_rel is None:
            return None
        below = joined_rel
        condition = _answered(condition, query_call)
        query_call = _first(condition)
    rest = Filter(below, condition) if any(isinstance(e, SubQuery) for e in walk(condition)) else None
    return first_fields(rest or filtered(below, [condition]), rel.width)


def _joins_each_row(rel: Rel) -> bool:
    """Whether there is a LATERAL query, UNNEST or FOR SYSTEM_TIME AS OF in ``rel``, or in queries of it. Flink takes
    them for correlates with a condition (``SubQueryDecorrelator.CorelMapBuilder``)."""
    return any(
        isinstance(r, (Correlate, Snapshot, TemporalJoin))
        or (isinstance(r, FunctionCorrelate) and bool(r.correl))
        or any(isinstance(e, SubQuery) and _joins_each_row(e.rel) for x in expressions_of(r) for e in walk(x))
        for r in walk_rels(rel)
    )


def _answered(condition: Rex, query: Rex) -> Rex:
    """``condition`` with TRUE for a query that has become a join."""
    return rewrite(condition, lambda e: TRUE if e is query else None)


def _is_query(rex: Rex) -> bool:
    return isinstance(rex, SubQuery) and rex.operator != "SCALAR"


def _is_condition(rex: Rex) -> bool:
    """Whether it is a query that is a condition, or the negation of one."""
    return _is_query(rex) or (kind(rex) == "NOT" and _is_query(rex.children[0]))


def _in_disjunction(rex: Rex) -> bool:
    if _is_condition(rex):
        return False
    if kind(rex) == "AND":
        return any(_in_disjunction(c) for c in rex.children)
    return any(_is_query(e) for e in walk(rex))


def _first(rex: Rex) -> Rex | None:
    if _is_condition(rex):
        return rex
    return next((query_call for c in rex.children if (query_call := _first(c)) is not None), None)


def _join_query(left: Rel, call: Rex, queries: Decorrelated) -> Rel | None:
    """``left`` joined with the query of ``call``; None for a query that is not a semi join."""
    negated = kind(call) == "NOT"
    query = call.children[0] if negated else call
    assert isinstance(query, SubQuery)
    join_type: JoinType = "ANTI" if negated else "SEMI"
    if query.operator == "EXISTS":
        decorrelated = queries.get(query.number)
        if decorrelated is not None:
            right, outside = decorrelated
            return _join(left, right, [outside], join_type, query)
        ones = Project(query.rel, (TRUE,), ("i",))
        least = minimum(ones, "m")
        right = Project(least, (test("IS NOT NULL", refs_to(least)[0]),), ("$f0",))
        return _join(left, right, [InputRef(right.exprs[0].type, left.width)], join_type, query)
    if query.operator != "IN" or any(outer_of(e) is not None for o in query.operands for e in walk(o)):
        return None
    right, outside = queries.get(query.number, (query.rel, TRUE))
    left, operands, outside = _with_operands(left, query.operands, outside)
    terms: list[Rex] = []
    for operand, ref in zip(operands, refs_to(right), strict=False):
        same: Rex = _equal(operand, shift(ref, left.width))
        terms.append(or_([same, test("IS NULL", same)]) if negated else same)
    return _join(left, right, [*terms, outside], join_type, query)


def _equal(operand: Rex, field: Rex) -> Rex:
    """``operand = field``; a constant and the field have one type."""
    if isinstance(operand, Literal):
        common = least_restrictive([operand.type, field.type])
        if common is not None:
            operand = cast_literal(operand, common)
            if not same_type(field.type, common):
                field = cast(field, common.as_nullable(field.type.nullable))
    return compare("=", operand, field)


def _with_operands(left: Rel, operands: Sequence[Rex], outside: Rex) -> tuple[Rel, list[Rex], Rex]:
    """``left`` with the operands of an IN as fields, these fields or constants, and the other condition over the wider
    join."""
    width = left.width
    exprs: list[Rex] = list(refs_to(left))
    exprs += [o for o in dict.fromkeys(operands) if o not in exprs and not isinstance(o, Literal)]
    if len(exprs) == width:
        return left, list(operands), outside
    wider = Project(left, tuple(exprs), tuple(project_names(exprs, [None] * len(exprs), left)))
    more = len(exprs) - width
    refs = refs_to(wider)
    operand_refs = [o if isinstance(o, Literal) else refs[exprs.index(o)] for o in operands]
    return wider, operand_refs, remap(outside, lambda i: i + more if i >= width else i)


def _join(left: Rel, right: Rel, terms: Sequence[Rex], join_type: JoinType, query: SubQuery) -> Join:
    condition = Simplifier().simplify(and_(collapsed(t) for t in terms), "FALSE")
    return Join(left, right, condition, join_type, *query.hints, place=query.place)


# Takes the conditions that compare with the row around out of the queries of a filter's condition: they become
# conditions of a join with that row.
#
# Source: Flink's ``SubQueryDecorrelator``.


Decorrelated: TypeAlias = Mapping[int, tuple[Rel, Rex]]
"""By number of a query that refers to the row around: its relation without these references, and the condition over
that row and its rows."""


def decorrelated(outer: Filter) -> Decorrelated | None:
    """The queries of the condition of ``outer``, those of queries in them apart; None if one of them refers to the
    outside in a way that is not a condition, or to a row of a grouping."""
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
        outer = outer_of(e)
        if outer is not None and outer[0] == number:
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
    field_map: Mapping[int, int]

    @property
    def compared_fields(self) -> list[int]:
        """The fields that the condition refers to, in order."""
        return [] if self.condition is None else sorted(set(input_refs(self.condition)))


def _over_both(condition: Rex, number: int, width: int) -> Rex:
    """``condition`` over the outside row (``width`` fields) and the query's."""

    def change(e: Rex) -> Rex | None:
        outer = outer_of(e)
        if outer is not None and outer[0] == number:
            return InputRef(e.type, outer[1])
        return InputRef(e.type, e.index + width) if isinstance(e, InputRef) else None

    return rewrite(condition, change)


def _only_compared(frame: _Frame) -> _Frame:
    """The frame with no fields but those that are compared."""
    kept_fields = frame.compared_fields
    if len(kept_fields) == frame.rel.width:
        return frame
    rel = some_fields(frame.rel, kept_fields)
    assert frame.condition is not None
    return _Frame(rel, remap(frame.condition, {f: i for i, f in enumerate(kept_fields)}), {})


def _split(condition: Rex, number: int) -> tuple[list[Rex], list[Rex]]:
    """Terms that do not refer to the outside, and those that do."""
    own: list[Rex] = []
    outside: list[Rex] = []
    for term in _terms(condition):
        if not mentions(term, number):
            own.append(term)
            continue
        if any(kind(e) == "OR" and mentions(e, number) for e in walk(term)) or any(
            isinstance(e, SubQuery) for e in walk(term)
        ):
            raise _UnsupportedError
        outside.append(term)
    return own, outside


def _terms(condition: Rex) -> Iterator[Rex]:
    """What must hold. IS NOT DISTINCT FROM, which Flink takes for an OR, is one term: a join has it as its key."""
    for term in map(collapsed, conjunctions(condition)):
        yield from [term] if kind(term) == "IS NOT DISTINCT FROM" else conjunctions(to_cnf(term))


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
    return _Frame(replace_inputs(rel, [f.rel for f in frames]), None, same_fields(rel.width))


def same_fields(width: int) -> dict[int, int]:
    """Each field where it was."""
    return {i: i for i in range(width)}


def _project(rel: Project, number: int) -> _Frame:
    if any(mentions(e, number) for e in rel.exprs):
        raise _UnsupportedError
    frame = _decorrelated(rel.input, number)
    below = frame.rel
    exprs = [remap(e, frame.field_map) for e in rel.exprs]
    names = list(rel.names)
    field_map: dict[int, int] = {}
    for i, e in enumerate(exprs):
        if isinstance(e, InputRef):
            field_map[e.index] = i
    for i in frame.compared_fields:
        if i not in field_map:
            field_map[i] = len(exprs)
            exprs.append(refs_to(below, [i])[0])
            names.append(below.fields[i][0])
    condition = None if frame.condition is None else remap(frame.condition, field_map)
    return _Frame(Project(below, tuple(exprs), tuple(unique_names(names))), condition, same_fields(rel.width))


def _filter(rel: Filter, number: int) -> _Frame:
    frame = _decorrelated(rel.input, number)
    own, outside = _split(rel.condition, number)
    if any(isinstance(e, SubQuery) for t in own for e in walk(t)) and any(i != k for i, k in frame.field_map.items()):
        raise _UnsupportedError
    below = frame.rel
    if own:
        below = Filter(below, and_(remap(t, frame.field_map) if not _has_query(t) else t for t in own))
    terms = [remap(t, frame.field_map) for t in outside]
    if frame.condition is not None:
        terms.append(frame.condition)
    return _Frame(below, and_(terms) if terms else None, frame.field_map)


def _has_query(rex: Rex) -> bool:
    return any(isinstance(e, SubQuery) for e in walk(rex))


def _aggregate(rel: Aggregate, number: int) -> _Frame:
    """The compared fields are grouped by too, behind the other keys."""
    frame = _decorrelated(rel.input, number)
    below = frame.rel
    if frame.condition is None:
        return _Frame(replace(rel, input=below), None, same_fields(rel.width))
    if any(kind(t) != "=" for t in conjunctions(frame.condition)):
        raise _UnsupportedError  # what is grouped by the compared fields would be other groups
    keys = [frame.field_map[g] for g in rel.group]
    constant = [k for k in keys if isinstance(below, Project) and isinstance(below.exprs[k], Literal)]
    if constant:
        raise _UnsupportedError
    order = list(dict.fromkeys([*keys, *frame.compared_fields]))
    count = len(order)
    order += [i for i in range(below.width) if i not in order]
    field_map = {f: i for i, f in enumerate(order)}
    names = field_names(below)
    exprs = tuple(refs_to(below, order))
    project = below if is_identity(exprs, below) else Project(below, exprs, tuple(names[i] for i in order))
    calls = tuple(
        replace(
            c,
            args=tuple(field_map[frame.field_map[a]] for a in c.args),
            filter=field_map[frame.field_map[c.filter]] if c.filter >= 0 else -1,
            name=n,
        )
        for c, (n, _) in zip(rel.calls, rel.fields[len(rel.group) :], strict=True)
    )
    new_aggregate = replace(rel, input=project, group=tuple(range(count)), calls=calls)
    old = {i: field_map[k] for i, k in enumerate(keys)}
    old |= {len(keys) + i: count + i for i in range(len(calls))}
    return _Frame(new_aggregate, remap(frame.condition, field_map), old)


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
    field_map = {**left.field_map, **{old_width + i: width + k for i, k in right.field_map.items()}}
    terms = [remap(t, field_map) for t in outside]
    if left.condition is not None:
        terms.append(left.condition)
    if right.condition is not None:
        terms.append(shift(right.condition, width))
    join = replace(rel, left=left.rel, right=right.rel, condition=and_(remap(t, field_map) for t in own))
    return _Frame(join, and_(terms) if terms else None, field_map)
