"""Joins chains of projections and filters into calcs.

Source: Flink's ``FlinkCalcMergeRule`` and Calcite's ``ProjectToCalcRule``, ``FilterToCalcRule`` and ``CalcRemoveRule``.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.planner.algebra.relations import (
    Calc,
    Filter,
    Project,
    Rel,
    field_names,
    is_identity,
    refs_to,
    replace_inputs,
)
from stateplan.planner.expressions.ops import conjunctions, is_always_true, substitute
from stateplan.planner.expressions.simplify import Simplifier
from stateplan.planner.passes.merge_projects import mergeable


def _as_calc(rel: Rel) -> Calc | None:
    if isinstance(rel, Calc):
        return rel
    if isinstance(rel, Project):
        return Calc(rel.input, rel.exprs, rel.names)
    if isinstance(rel, Filter):
        return Calc(rel.input, tuple(refs_to(rel.input)), tuple(field_names(rel.input)), rel.condition)
    return None


def merged_calcs(top: Calc, below: Calc) -> Calc | None:
    """``top`` over ``below`` as one calc; None where something would be computed twice."""
    condition = [top.condition] if top.condition is not None else []
    if not mergeable([*top.exprs, *condition], below.exprs):
        return None
    exprs = tuple(substitute(e, below.exprs) for e in top.exprs)
    terms = [*conjunctions(below.condition), *(substitute(c, below.exprs) for c in conjunctions(top.condition))]
    if not terms:
        return Calc(below.input, exprs, top.names)
    from stateplan.planner.expressions.ops import and_

    merged = and_(terms)
    if condition:
        merged = Simplifier().simplify(merged, "FALSE")
    return Calc(below.input, exprs, top.names, None if is_always_true(merged) else merged)


def to_calcs(rel: Rel) -> Rel:
    """``rel`` with every chain of projections, filters and calcs as few calcs as possible."""
    calc = _as_calc(rel)
    if calc is None:
        return replace_inputs(rel, [to_calcs(i) for i in rel.inputs])
    while True:
        below = _as_calc(calc.input)
        if below is None:
            break
        merged = merged_calcs(calc, below)
        if merged is None:
            break
        calc = merged
    calc = replace(calc, input=to_calcs(calc.input))
    if calc.condition is None and is_identity(calc.exprs, calc.input):
        return calc.input
    return calc
