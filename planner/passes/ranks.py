"""ROW_NUMBER with a filter on it: the first rows of each partition.

Source: Flink's ``FlinkLogicalRankRule``, ``ConstantRankNumberColumnRemoveRule`` and ``CalcRankTransposeRule``.
"""

from __future__ import annotations

from dataclasses import replace

from execnodes.rex import InputRef, Literal, Rex
from execnodes.types import BIGINT
from planner.algebra import Calc, Rank, Rel, Window, field_names, refs_to
from planner.binding.errors import not_supported
from planner.expressions import fold
from planner.expressions.ops import (
    COMPARISONS,
    MIRRORED,
    and_,
    conjunctions,
    input_refs,
    kind,
    remap,
    substitute,
)
from planner.expressions.search import expand_search

__all__ = ["rank_of_window", "refuse_top_n", "refuse_windows", "transpose_calc_and_rank"]


def rank_of_window(rel: Rel) -> Rel | None:
    """A calc that keeps row number 1 of a window becomes a rank and a calc without the number."""
    if not isinstance(rel, Calc) or not isinstance(rel.input, Window) or rel.condition is None:
        return None
    window = rel.input
    number = window.width - 1
    low, high = 1, None
    rest: list[Rex] = []
    for term in conjunctions(rel.condition):
        for c in conjunctions(expand_search(term)) if number in list(input_refs(term)) else [term]:
            bound = _bound(c, number)
            if bound is None:
                rest.append(c)
                continue
            op, value = bound
            if op == "=":
                low, high = max(low, value), value if high is None else min(high, value)
            elif op in ("<", "<="):
                limit = value - 1 if op == "<" else value
                high = limit if high is None else min(high, limit)
            else:
                low = max(low, value + 1 if op == ">" else value)
    if high is None or any(number in list(input_refs(c)) for c in rest):
        return None
    if (low, high) != (1, 1):
        raise not_supported(
            f"a top-N query (rows {low} to {high} of each partition)",
            window.place,
            "keep the first row: WHERE row_num = 1",
        )
    rank = Rank(window.input, window.partition, window.order, low, high, None, window.place)
    one = Literal(BIGINT.not_null(), 1)
    fields: list[Rex] = [*refs_to(window.input), one]
    exprs = tuple(_constant(substitute(e, fields)) for e in rel.exprs)
    condition = and_(substitute(c, fields) for c in rest) if rest else None
    return replace(rel, input=rank, exprs=exprs, condition=condition)


def _constant(rex: Rex) -> Rex:
    """``rex`` folded where the row number made it constant."""
    if rex.children and not list(input_refs(rex)):
        value = fold.evaluate(rex)
        if value is not None and value.type == rex.type:
            return value
    return rex


def _bound(term: Rex, number: int) -> tuple[str, int] | None:
    op = kind(term)
    if op not in COMPARISONS or op == "<>":
        return None
    left, right = term.children
    if isinstance(left, Literal):
        left, right, op = right, left, MIRRORED[op]
    if (
        isinstance(left, InputRef)
        and left.index == number
        and isinstance(right, Literal)
        and isinstance(right.value, int)
    ):
        return op, right.value
    return None


def refuse_windows(rel: Rel) -> Rel | None:
    """Raises SQL150 for a window function whose value is not filtered to the first row."""
    if isinstance(rel, Window):
        raise not_supported(
            "ROW_NUMBER without a filter on its value",
            rel.place,
            "keep the first row: SELECT ... FROM (SELECT *, ROW_NUMBER() OVER (...) AS row_num "
            "FROM ...) WHERE row_num = 1",
        )
    return None


def refuse_top_n(rel: Rel) -> Rel | None:
    """Raises SQL150 for the first row in another order than that of arrival: a top-N query."""
    if not isinstance(rel, Rank):
        return None
    _, order_type = rel.input.fields[rel.order[0][0]]
    if len(rel.order) == 1 and order_type.kind == "PROCTIME":
        return None
    what = "by more than one column" if len(rel.order) > 1 else f"by {order_type.summary()} and not by a time attribute"
    raise not_supported(
        f"a top-N query (the first row ordered {what})",
        rel.place,
        "ORDER BY a column that is PROCTIME(), to keep the first or last row of each partition",
    )


def transpose_calc_and_rank(rel: Rel) -> Rel | None:
    """Drops below a rank the fields that neither it nor the calc above needs."""
    if not isinstance(rel, Calc) or not isinstance(rel.input, Rank):
        return None
    rank = rel.input
    expressions = [*rel.exprs, *([rel.condition] if rel.condition is not None else [])]
    used = {i for e in expressions for i in input_refs(e)} | set(rank.partition) | {i for i, _, _ in rank.order}
    if len(used) == rank.input.width:
        return None
    kept = sorted(used)
    where = {f: i for i, f in enumerate(kept)}
    names = field_names(rank.input)
    below = Calc(rank.input, tuple(refs_to(rank.input, kept)), tuple(names[i] for i in kept))
    narrowed = replace(
        rank,
        input=below,
        partition=tuple(where[p] for p in rank.partition),
        order=tuple((where[i], a, n) for i, a, n in rank.order),
    )
    condition = None if rel.condition is None else remap(rel.condition, where)
    return replace(rel, input=narrowed, exprs=tuple(remap(e, where) for e in rel.exprs), condition=condition)
