"""Takes window functions out of projections: a projection of their operands, the window, the projection above.

Source: Calcite's ``ProjectToWindowRule`` (``CalcRelSplitter`` over a ``RexProgram``). The projection below computes
each distinct subexpression once; what is not a field of the input is called ``$`` and its position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from execnodes.rex import InputRef, Literal, Rex
from planner.algebra import Aggregate, Expand, Project, Rel, Window, is_identity, unique_names
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
    over = overs[0]
    if len(overs) > 1:
        raise not_supported("more than one window function in a SELECT", overs[1].place, "use one subquery for each")
    level = _level_zero(rel, over)
    fields = rel.input.fields
    below: Rel = rel.input
    constants = any(isinstance(x, Literal) for e in rel.exprs for x in walk(e))
    hidden = _group_number(rel.input)
    if all(isinstance(e, InputRef) for e in level) and not constants:
        level = [InputRef(t, i) for i, (_, t) in enumerate(fields) if i != hidden]
    if len(level) < len(fields) or not is_identity(level, rel.input):
        names = [fields[e.index][0] if isinstance(e, InputRef) else f"${i}" for i, e in enumerate(level)]
        below = Project(rel.input, tuple(level), tuple(names))

    def at(e: Rex) -> int:
        return next(i for i, x in enumerate(level) if equal(x, e))

    partition = tuple(sorted({at(p) for p in over.partition}))
    order: dict[int, tuple[int, bool, bool]] = {}
    for e, ascending, last in over.order:
        order.setdefault(at(e), (at(e), ascending, last))
    window = Window(below, over.function, partition, tuple(order.values()), over.type, "w0$o0", over.place)
    width = below.width

    def change(e: Rex) -> Rex | None:
        if isinstance(e, Over):
            return InputRef(e.type, width)
        for i, x in enumerate(level):
            if equal(x, e) and x.type == e.type:
                return InputRef(x.type, i)
        return None

    exprs = tuple(rewrite(e, change) for e in rel.exprs)
    if is_identity(exprs, window):
        return window
    return replace(rel, input=window, exprs=exprs, names=_names_above(rel, window, exprs))


def _group_number(rel: Rel) -> int | None:
    """Of an aggregate over grouping sets the field that tells them apart, which is none of the query's: Flink adds it
    later."""
    if not isinstance(rel, Aggregate) or not isinstance(rel.input, Expand):
        return None
    return next((i for i, g in enumerate(rel.group) if g == rel.input.id_field), None)


def _has_over(rex: Rex) -> bool:
    return any(isinstance(p, Over) for p in walk(rex))


def _names_above(rel: Project, window: Window, exprs: Sequence[Rex]) -> tuple[str, ...]:
    """The names of the projection above: its own where it computes something or changes the order, else the window's,
    with ``$`` and the position for the function's value."""
    refs = [e.index for e in exprs if isinstance(e, InputRef)]
    if len(refs) < len(exprs) or refs != sorted(set(refs)):
        return rel.names
    number = window.width - 1
    fields = window.fields
    return tuple(
        unique_names(
            [
                fields[e.index][0] if e.index < number else f"${i}"
                for i, e in enumerate(exprs)
                if isinstance(e, InputRef)
            ]
        )
    )


def _level_zero(rel: Project, over: Over) -> list[Rex]:
    """What is computed below the window: the fields that are used above or by it, then other expressions, each after
    its own operands; the window's order comes before its partition."""
    program: list[Rex] = []
    used: list[Rex] = []

    def register(e: Rex) -> None:
        if isinstance(e, Over):
            for operand in (*e.operands, *(o[0] for o in e.order), *e.partition):
                register(operand)
            return
        for child in e.children:
            register(child)
        if not member(e, program):
            program.append(e)

    def use(e: Rex) -> None:
        if not _has_over(e):
            used.append(e)
            return
        for child in e.children:
            use(child)

    for e in rel.exprs:
        register(e)
        use(e)
    wanted = [e for e in program if member(e, used) and not isinstance(e, Literal)]
    refs = sorted((e for e in wanted if isinstance(e, InputRef)), key=lambda e: e.index)
    return [*refs, *(e for e in wanted if not isinstance(e, InputRef))]
