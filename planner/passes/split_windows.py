"""Takes window functions out of projections: a projection of their operands, the window, the projection above.

Source: Calcite's ``ProjectToWindowRule`` (``CalcRelSplitter``). The projection below computes each distinct
subexpression once; what is not a field of the input is called ``$`` and its position.
"""

from __future__ import annotations

from dataclasses import replace

from execnodes.rex import InputRef, Literal, Rex
from planner.algebra import Project, Rel, Window, is_identity
from planner.binding.errors import not_supported
from planner.expressions.normal import equal, member
from planner.expressions.ops import Over, rewrite, walk

__all__ = ["split_windows"]


def split_windows(rel: Rel) -> Rel | None:
    if not isinstance(rel, Project):
        return None
    overs: list[Over] = []
    for e in rel.exprs:
        for part in walk(e):
            if isinstance(part, Over) and not member(part, overs):
                overs.append(part)
    if not overs:
        return None
    if len(overs) > 1:
        raise not_supported("more than one window function in a SELECT", None, "use one subquery for each")
    over = overs[0]
    level = _level_zero(rel, over)
    below: Rel = rel.input
    if not is_identity(level, rel.input):
        fields = rel.input.fields
        names = [fields[e.index][0] if isinstance(e, InputRef) else f"${i}" for i, e in enumerate(level)]
        below = Project(rel.input, tuple(level), tuple(names))

    def at(e: Rex) -> int:
        return next(i for i, x in enumerate(level) if equal(x, e))

    partition = tuple(dict.fromkeys(at(p) for p in over.partition))
    order = tuple((at(e), ascending, last) for e, ascending, last in over.order)
    window = Window(below, over.function, partition, order, over.type, f"w0$o{0}")
    width = below.width

    def change(e: Rex) -> Rex | None:
        if isinstance(e, Over):
            return InputRef(e.type, width)
        for i, x in enumerate(level):
            if equal(x, e) and x.type == e.type:
                return InputRef(x.type, i)
        return None

    return replace(rel, input=window, exprs=tuple(rewrite(e, change) for e in rel.exprs))


def _level_zero(rel: Project, over: Over) -> list[Rex]:
    """What is computed below the window: fields that are used, then other expressions, in order of appearance."""
    wanted: list[Rex] = []

    def want(e: Rex) -> None:
        if not isinstance(e, Literal) and not member(e, wanted):
            wanted.append(e)

    for e in rel.exprs:
        if isinstance(e, Over):
            continue
        if any(isinstance(p, Over) for p in walk(e)):
            for child in walk(e):
                if not any(isinstance(p, Over) for p in walk(child)) and not isinstance(child, Literal):
                    want(child)
        else:
            want(e)
    for e in (*over.partition, *(o[0] for o in over.order)):
        want(e)
    refs = sorted((e for e in wanted if isinstance(e, InputRef)), key=lambda e: e.index)
    calls = [e for e in wanted if not isinstance(e, InputRef)]
    return [*refs, *calls]
