"""Takes window functions out of projections: a projection of their operands, the window, the projection above.

Source: Calcite's ``ProjectToWindowRule`` (``CalcRelSplitter`` over a ``RexProgram``). The projection below computes
each distinct subexpression once; what is not a field of the input is called ``$`` and its position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateplan.execnodes.errors import SqlError
from stateplan.execnodes.functions import find_aggregate
from stateplan.execnodes.rex import InputRef, Literal, Rex
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.relations import (
    AggCall,
    Aggregate,
    Expand,
    Project,
    Rel,
    Window,
    is_identity,
    unique_names,
)
from stateplan.planner.expressions.normal import equal, key, member
from stateplan.planner.expressions.ops import Over, rewrite, walk


def split_windows(rel: Rel) -> Rel | None:
    """Raises SqlError SQL164, for windows that are not the same."""
    if not isinstance(rel, Project):
        return None
    overs: list[Over] = []
    for e in rel.exprs:
        for part in walk(e):
            if isinstance(part, Over) and not member(part, overs):
                overs.append(part)
    if not overs:
        return None
    first = overs[0]
    other = next((o for o in overs[1:] if _window_key(o) != _window_key(first)), None)
    if other is not None:
        raise SqlError("SQL164.split_windows", place=other.place)
    level = _level_zero(rel)
    fields = rel.input.fields
    below: Rel = rel.input
    constants = any(isinstance(x, Literal) for e in rel.exprs for x in walk(e)) or bool(_offsets(first))
    hidden = _group_number(rel.input)
    if all(isinstance(e, InputRef) for e in level) and not constants:
        level = [InputRef(t, i) for i, (_, t) in enumerate(fields) if i != hidden]
    if len(level) < len(fields) or not is_identity(level, rel.input):
        names = [fields[e.index][0] if isinstance(e, InputRef) else f"${i}" for i, e in enumerate(level)]
        below = Project(rel.input, tuple(level), tuple(names))

    def at(e: Rex) -> int:
        return next(i for i, x in enumerate(level) if equal(x, e))

    partition = tuple(sorted({at(p) for p in first.partition if not isinstance(p, Literal)}))
    order: dict[int, tuple[int, bool, bool]] = {}
    for e, ascending, last in first.order:
        order.setdefault(at(e), (at(e), ascending, last))
    keys = tuple(order.values())
    width = below.width
    window: Window | OverAggregate
    if len(overs) == 1 and first.function == "ROW_NUMBER":
        window = Window(below, first.function, partition, keys, first.type, "w0$o0", first.place)
    else:
        pool = _constants(overs)

        def argument(e: Rex) -> int:
            return width + _place(e, pool) if isinstance(e, Literal) else at(e)

        calls = tuple(_call(o, tuple(map(argument, o.operands)), f"w0$o{i}") for i, o in enumerate(overs))
        window = OverAggregate(below, partition, keys, first.frame, calls, tuple(pool), first.place)

    def change(e: Rex) -> Rex | None:
        if isinstance(e, Over):
            return InputRef(e.type, width + next(i for i, o in enumerate(overs) if equal(o, e)))
        for i, x in enumerate(level):
            if equal(x, e) and x.type == e.type:
                return InputRef(x.type, i)
        return None

    exprs = tuple(rewrite(e, change) for e in rel.exprs)
    if is_identity(exprs, window):
        return window
    return replace(rel, input=window, exprs=exprs, names=_names_above(rel, window, width, exprs))


def _window_key(over: Over) -> object:
    return tuple(map(key, over.partition)), tuple((key(e), a, n) for e, a, n in over.order), over.frame.text


def _offsets(over: Over) -> list[Literal]:
    return [b.offset for b in (over.frame.lower, over.frame.upper) if b.offset is not None]


def _constants(overs: Sequence[Over]) -> list[Literal]:
    """The constants of all calls, those of a call before those of its window."""
    out: list[Literal] = []
    for over in overs:
        for e in (*over.operands, *over.partition, *_offsets(over)):
            if isinstance(e, Literal) and not any(e == o for o in out):
                out.append(e)
    return out


def _place(rex: Rex, pool: Sequence[Literal]) -> int:
    return next(i for i, c in enumerate(pool) if c == rex)


def _call(over: Over, args: tuple[int, ...], name: str) -> AggCall:
    function = find_aggregate(over.function)
    syntax = "FUNCTION_STAR" if over.function == "COUNT" else None if function is None else function.syntax
    internal = f"${over.function}$1" if function is None else function.internal_name
    return AggCall(over.function, args, over.type, name, over.distinct, -1, internal, syntax)


def _group_number(rel: Rel) -> int | None:
    """Of an aggregate over grouping sets the field that tells them apart, which is none of the query's: Flink adds it
    later."""
    if not isinstance(rel, Aggregate) or not isinstance(rel.input, Expand):
        return None
    return next((i for i, g in enumerate(rel.group) if g == rel.input.id_field), None)


def _has_over(rex: Rex) -> bool:
    return any(isinstance(p, Over) for p in walk(rex))


def _names_above(rel: Project, window: Rel, number: int, exprs: Sequence[Rex]) -> tuple[str, ...]:
    """The names of the projection above: its own where it computes something or changes the order, else the window's,
    with ``$`` and the position for the functions' values, which are the fields from ``number`` on."""
    refs = [e.index for e in exprs if isinstance(e, InputRef)]
    if len(refs) < len(exprs) or refs != sorted(set(refs)):
        return rel.names
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


def _level_zero(rel: Project) -> list[Rex]:
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
