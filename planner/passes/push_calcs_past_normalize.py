"""Moves what a calc does to normalized changes to where it saves state: conditions on the key and the choice of fields
in front of the normalization, other conditions into it.

Source: Flink's ``PushCalcPastChangelogNormalizeRule``.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.planner.algebra.relations import Calc, ChangelogNormalize, Exchange, Rel, is_identity, refs_to
from stateplan.planner.expressions.ops import and_, conjunctions, refs, remap


def push_calc_past_normalize(rel: Rel) -> Rel | None:
    if not isinstance(rel, Calc) or not isinstance(rel.input, ChangelogNormalize):
        return None
    normalize = rel.input
    if not isinstance(normalize.input, Exchange):
        return None
    terms = conjunctions(rel.condition)
    on_key = [t for t in terms if set(refs(t)) <= set(normalize.key)]
    others = [t for t in terms if t not in on_key]
    used = sorted({*refs(*rel.exprs, *others, normalize.condition), *normalize.key})
    if not terms and len(used) == normalize.width:
        return None
    below = normalize.input.input
    where = {f: i for i, f in enumerate(used)}
    key = normalize.key
    if on_key or len(used) < below.width:
        names = tuple(below.fields[i][0] for i in used)
        below = Calc(below, tuple(refs_to(below, used)), names, and_(on_key) if on_key else None)
        key = tuple(sorted(where[k] for k in key))
    inside = [remap(t, where) for t in (*conjunctions(normalize.condition), *others)]
    condition = and_(inside) if inside else None
    moved = replace(normalize, input=Exchange(below, key), key=key, condition=condition)
    exprs = tuple(remap(e, where) for e in rel.exprs)
    if is_identity(exprs, moved):
        return moved
    return replace(rel, input=moved, exprs=exprs, condition=None)
