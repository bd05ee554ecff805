"""How the values of a field change from one version of a row to the next: whether they only grow or only shrink.

Source: Flink's ``FlinkRelMdModifiedMonotonicity`` and, for the signs of summed values, ``FlinkRelMdColumnInterval``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from stateplan.common.changelog import INSERT_ONLY, RowKind
from stateplan.connectors.registry import source_changelog_mode
from stateplan.functions.rex import InputRef, Rex, input_refs
from stateplan.functions.rex import Literal as Constant
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.phased import GlobalAggregate
from stateplan.planner.algebra.relations import (
    AggCall,
    Aggregate,
    Calc,
    ChangelogNormalize,
    DropUpdateBefore,
    Exchange,
    Expand,
    Filter,
    Join,
    MiniBatchAssigner,
    Project,
    Rank,
    Rel,
    Scan,
    Union,
)
from stateplan.planner.algebra.table_functions import FunctionCorrelate
from stateplan.planner.algebra.temporal import IntervalJoin, LookupJoin, WatermarkAssigner
from stateplan.planner.algebra.windows import GroupWindowAggregate
from stateplan.planner.expressions.ops import COMPARISONS, MIRRORED, conjunctions, kind, unwrap_cast
from stateplan.planner.expressions.search import expand_search
from stateplan.planner.metadata.predicates import predicates_of

Monotonicity: TypeAlias = Literal["CONSTANT", "PADDED", "INCREASING", "DECREASING", "NOT_MONOTONIC"]
"""``PADDED`` is a constant that an outer join sets to NULL until a row is there. Flink, and a join that does not take
back, take it for ``CONSTANT``: MIN and MAX of it are right, as they leave NULL out, but those of COALESCE keep a value
that is gone."""

_STRICT = (*COMPARISONS, "+", "-", "*", "/", "%")
"""Calls that are NULL when an operand is."""


def monotonicity(rel: Rel) -> list[Monotonicity] | None:
    """Per field of ``rel``; None when rows are deleted, or nothing is known."""
    if isinstance(rel, Scan):
        appends = source_changelog_mode(rel.table.options) == INSERT_ONLY
        return ["CONSTANT" if appends else "NOT_MONOTONIC"] * rel.width
    if isinstance(rel, Project):
        return _projected(rel.exprs, monotonicity(rel.input))
    if isinstance(rel, Calc):
        return _filtered(rel, monotonicity(rel.input))
    if isinstance(rel, (Filter, Exchange, MiniBatchAssigner, WatermarkAssigner)):
        return monotonicity(rel.input)
    if isinstance(rel, GlobalAggregate):
        return monotonicity(rel.original)
    if isinstance(rel, Aggregate):
        return _aggregated(rel)
    if isinstance(rel, IntervalJoin):
        return ["CONSTANT"] * rel.width
    if isinstance(rel, OverAggregate) and not rel.by_time and not rel.takes_back:
        return ["CONSTANT"] * rel.width
    if _only_adds(rel):
        below = monotonicity(rel.inputs[0])
        return None if below is None or _changes(below) else ["CONSTANT"] * rel.width
    if isinstance(rel, (Expand, FunctionCorrelate)):
        below = monotonicity(rel.input)
        return None if below is None else ["NOT_MONOTONIC" if _changes(below) else "CONSTANT"] * rel.width
    if isinstance(rel, Union):
        parts = [monotonicity(s) for s in rel.sources]
        input_monotonicities = [p for p in parts if p is not None]
        if len(input_monotonicities) < len(parts):
            return None
        return [c[0] if all(m == c[0] for m in c) else "NOT_MONOTONIC" for c in zip(*input_monotonicities, strict=True)]
    if isinstance(rel, Join):
        return _of_join(rel)
    if isinstance(rel, Rank):
        return _ranked(rel)
    if isinstance(rel, DropUpdateBefore):
        below = monotonicity(rel.input)
        return ["NOT_MONOTONIC"] * rel.width if below is not None and _changes(below) else below
    if isinstance(rel, ChangelogNormalize):
        if rel.takes_back and _is_deleted_from(rel):
            return None
        return ["CONSTANT" if i in rel.key else "NOT_MONOTONIC" for i in range(rel.width)]
    return None


def _only_adds(rel: Rel) -> bool:
    """Whether it is an operator that only adds rows, where its input only does."""
    if isinstance(rel, OverAggregate):
        return rel.by_time
    return isinstance(rel, LookupJoin) or (isinstance(rel, GroupWindowAggregate) and rel.emission is None)


def _is_deleted_from(rel: Rel) -> bool:
    """Whether a table below deletes rows. Flink does not ask for this, and its MIN, MAX and top-N keep what is gone."""
    if isinstance(rel, Scan):
        return RowKind.DELETE in source_changelog_mode(rel.table.options)
    return any(map(_is_deleted_from, rel.inputs))


def _changes(monotonicities: list[Monotonicity]) -> bool:
    return any(m != "CONSTANT" for m in monotonicities)


def _ranked(rel: Rank) -> list[Monotonicity] | None:
    below = monotonicity(rel.input)
    if below is None:
        return None
    if rel.is_deduplication:
        if _changes(below):
            return None
        if rel.keeps_last or any(rel.fields[i][1].kind == "ROWTIME" for i, _, _ in rel.order):
            return ["CONSTANT" if i in rel.partition else "NOT_MONOTONIC" for i in range(rel.width)]
        return below
    if any(below[p] != "CONSTANT" for p in rel.partition):
        return None
    out: list[Monotonicity] = ["NOT_MONOTONIC"] * rel.width
    for p in rel.partition:
        out[p] = "CONSTANT"
    if rel.rank_name is not None:
        out[-1] = "CONSTANT"
    if rel.order:
        first, ascending, _ = rel.order[0]
        order_monotonicity = "INCREASING" if rel.fields[first][1].kind is not None else below[first]
        towards: Monotonicity = "DECREASING" if ascending else "INCREASING"
        out[first] = towards if order_monotonicity in ("CONSTANT", towards) else "NOT_MONOTONIC"
    return out


def _projected(exprs: tuple[Rex, ...], below: list[Monotonicity] | None) -> list[Monotonicity] | None:
    if below is None:
        return None
    return [_of_expression(e, below) for e in exprs]


def _of_expression(e: Rex, below: list[Monotonicity]) -> Monotonicity:
    if isinstance(e, InputRef):
        return below[e.index]
    if kind(e) == "CAST":
        return _of_expression(e.children[0], below)
    if any(m not in ("CONSTANT", "PADDED") for m in below):
        return "NOT_MONOTONIC"
    if all(below[i] == "CONSTANT" for i in input_refs(e)):
        return "CONSTANT"
    strict = kind(e) in _STRICT and all(_of_expression(o, below) != "NOT_MONOTONIC" for o in e.children)
    return "PADDED" if strict else "NOT_MONOTONIC"


def _filtered(rel: Calc, below: list[Monotonicity] | None) -> list[Monotonicity] | None:
    out = _projected(rel.exprs, below)
    if out is None or below is None or rel.condition is None:
        return out
    changing = {i: m for i, m in enumerate(below) if m != "CONSTANT"}
    return ["NOT_MONOTONIC"] * len(out) if _needs_retraction(rel.condition, changing) else out


def _needs_retraction(rex: Rex, changing: Mapping[int, Monotonicity]) -> bool:
    """Whether a row that met the condition may stop meeting it. Of AND and OR, Flink looks at two operands only."""
    operands = [unwrap_cast(c) for c in rex.children]
    fields = [o.index for o in operands if isinstance(o, InputRef)]
    op = kind(rex)
    if isinstance(rex, InputRef):
        return rex.index in changing
    if op in ("AND", "OR"):
        return any(_needs_retraction(o, changing) for o in operands[:2])
    if op in _KEPT_WHILE:
        first = next((m for i, m in changing.items() if i in fields), _KEPT_WHILE[op])
        return first != _KEPT_WHILE[op]
    if op in ("SEARCH", "=", "<>"):
        return any(i in changing for i in fields)
    return op in _TESTS and _needs_retraction(operands[0], changing)


_KEPT_WHILE: dict[str, Monotonicity] = {
    ">": "INCREASING",
    ">=": "INCREASING",
    "<": "DECREASING",
    "<=": "DECREASING",
}
_TESTS = ("NOT", "IS NOT TRUE", "IS TRUE", "IS NOT NULL", "IS NULL")


def _aggregated(rel: Aggregate) -> list[Monotonicity] | None:
    below = monotonicity(rel.input)
    if below is None or any(below[g] != "CONSTANT" for g in rel.group):
        return None
    updates = any(m not in ("CONSTANT", "PADDED") for m in below)
    out: list[Monotonicity] = ["CONSTANT"] * len(rel.group)
    for c in rel.calls:
        own = _of_call(c, rel.input)
        if updates and (len(c.args) > 1 or (len(c.args) == 1 and below[c.args[0]] != own and c.function != "COUNT")):
            own = "NOT_MONOTONIC"
        out.append(own)
    return out


def _of_call(c: AggCall, below: Rel) -> Monotonicity:
    if c.function == "COUNT":
        return "INCREASING"
    if c.function in ("MIN", "MAX"):
        return "DECREASING" if c.function == "MIN" else "INCREASING"
    if c.function in ("SUM", "$SUM0"):
        low, high = _interval(below, c.args[0])
        if low is not None and low >= 0:
            return "INCREASING"
        if high is not None and high <= 0:
            return "DECREASING"
    return "NOT_MONOTONIC"


def _of_join(rel: Join) -> list[Monotonicity] | None:
    from stateplan.planner.algebra.join_keys import equi_keys, is_equi_key

    left, right = monotonicity(rel.left), monotonicity(rel.right)
    if rel.join_type == "ANTI" or left is None or right is None:
        return None
    keys = {m for a, b in equi_keys(rel.condition, rel.left.width) for m in (left[a], right[b])}
    terms = conjunctions(rel.condition)
    if keys - {"CONSTANT", "PADDED"} or ("PADDED" in keys and any(kind(c) != "=" for c in terms)):
        return None
    only_keys = all(is_equi_key(c, rel.left.width) for c in terms)
    if not only_keys and any(m != "CONSTANT" for m in (*left, *right)):
        return None
    if rel.join_type == "SEMI":
        return left
    if not rel.takes_back:
        return [*left, *right]
    left = _with_padding(left) if rel.join_type in ("RIGHT", "FULL") else left
    right = _with_padding(right) if rel.join_type in ("LEFT", "FULL") else right
    return [*left, *right]


def _with_padding(monotonicities: list[Monotonicity]) -> list[Monotonicity]:
    return ["PADDED" if m == "CONSTANT" else m for m in monotonicities]


def _interval(rel: Rel, index: int) -> tuple[float | None, float | None]:
    """Known bounds of a numeric field."""
    low: float | None = None
    high: float | None = None
    for p in predicates_of(rel):
        for term in conjunctions(expand_search(p)):
            bound = _bound(term, index)
            if bound is None:
                continue
            op, value = bound
            if op in (">", ">=", "="):
                low = value if low is None else max(low, value)
            if op in ("<", "<=", "="):
                high = value if high is None else min(high, value)
    source: Rel = rel
    while isinstance(source, (Project, Calc, Exchange, Filter, GlobalAggregate, MiniBatchAssigner)):
        if isinstance(source, GlobalAggregate):
            source = source.original
            break
        if isinstance(source, (Project, Calc)):
            e = source.exprs[index]
            if isinstance(e, Constant) and isinstance(e.value, (int, float)) and not isinstance(e.value, bool):
                return float(e.value), float(e.value)
            if not isinstance(e, InputRef):
                return low, high
            index = e.index
        source = source.input
    if isinstance(source, Aggregate) and index >= len(source.group):
        c = source.calls[index - len(source.group)]
        if c.function == "COUNT":
            low = 0.0 if low is None else max(low, 0.0)
        elif c.function in ("SUM", "$SUM0"):
            below_low, below_high = _interval(source.input, c.args[0])
            if below_low is not None and below_low >= 0:
                low = below_low if low is None else max(low, below_low)
            if below_high is not None and below_high <= 0:
                high = below_high if high is None else min(high, below_high)
    return low, high


def _bound(term: Rex, index: int) -> tuple[str, float] | None:
    op = kind(term)
    if op not in COMPARISONS:
        return None
    left, right = term.children
    if isinstance(left, Constant):
        left, right, op = right, left, MIRRORED[op]
    if (
        isinstance(left, InputRef)
        and left.index == index
        and isinstance(right, Constant)
        and right.type.is_numeric
        and right.value is not None
    ):
        return op, float(right.value)
    return None
