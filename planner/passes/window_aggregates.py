"""Aggregates whose groups are windows become aggregates of windows, and take in the window table function below.

Source: Flink's ``StreamPhysicalWindowAggregateRule``, ``PullUpWindowTableFunctionIntoWindowAggregateRule``,
``ExpandWindowTableFunctionTransposeRule`` and ``WindowUtil``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateplan.execnodes.errors import SqlError
from stateplan.execnodes.rex import InputRef, Rex
from stateplan.planner.algebra.relations import Aggregate, Calc, Expand, Rank, Rel, field_names, fresh_name
from stateplan.planner.algebra.windows import Property, WindowAggregate, WindowPosition, WindowTable
from stateplan.planner.binding.errors import not_supported
from stateplan.planner.expressions.ops import input_refs, remap
from stateplan.planner.metadata.window_properties import WindowProperties, window_properties
from stateplan.planner.python_operators import is_python


def window_aggregate(rel: Rel) -> Rel | None:
    """An aggregate grouped by start and end of a window.

    Raises:
        SqlError: SQL150, for functions that cannot be computed in windows; SQL163, for hopping windows whose slide does
            not divide them.
    """
    if not isinstance(rel, Aggregate):
        return None
    found = window_properties(rel.input)
    if found is None or not found.grouped_by(rel.group):
        return None
    if is_python(rel):  # what Flink has no operator on windows for: a group as any other
        return None
    window = found.window
    if window.kind == "HOP" and window.size % window.step:
        raise SqlError("SQL163", size=window.size, step=window.step, place=rel.place)
    starts = [g for g in rel.group if g in found.starts]
    ends = [g for g in rel.group if g in found.ends]
    times = [g for g in rel.group if g in found.times]
    keys = tuple(g for g in rel.group if g not in found.columns)
    last: Property = ("window_time", "Rowtime" if found.time_type.kind == "ROWTIME" else "Proctime")
    properties: list[Property] = [("window_start", "WindowStart")] * len(starts)
    properties += [("window_end", "WindowEnd")] * len(ends)
    properties += [last] * len(times)
    position = WindowPosition(window, found.time_type, start=starts[0], end=ends[0])
    made = WindowAggregate(rel.input, keys, rel.calls, position, tuple(properties), rel.place)
    pulled = _pulled_up(made, found)
    fields = pulled.fields
    first = len(keys) + len(rel.calls)
    where = {g: i for i, g in enumerate(keys)} | {g: first + i for i, g in enumerate([*starts, *ends, *times])}
    order = [*(where[g] for g in rel.group), *range(len(keys), first)]
    return Calc(pulled, tuple(InputRef(fields[i][1], i) for i in order), tuple(field_names(rel)))


def _pulled_up(rel: WindowAggregate, found: WindowProperties) -> WindowAggregate:
    """``rel`` with the window table function below it taken in, if only its own fields are made of windows."""
    used = {a for c in rel.calls for a in (*c.args, *([c.filter] if c.filter >= 0 else ()))}
    if used & found.columns:
        return rel
    below = _without_window(rel.input)
    if below is None:
        return rel
    narrowed, time, where = below
    calls = tuple(
        replace(c, args=tuple(where[a] for a in c.args), filter=where[c.filter] if c.filter >= 0 else -1)
        for c in rel.calls
    )
    position = WindowPosition(rel.position.window, rel.position.time_type, time=time)
    return replace(rel, input=narrowed, group=tuple(where[g] for g in rel.group), calls=calls, position=position)


def _without_window(rel: Rel) -> tuple[Rel, int, dict[int, int]] | None:
    """What ``rel`` is without its window table function: its other fields, and where they are now, and the time
    attribute, which is added where it is not one of them. None where something is computed of windows."""
    if isinstance(rel, WindowTable):
        return rel.input, rel.time, {i: i for i in range(rel.input.width)}
    if not isinstance(rel, (Calc, Expand)):
        return None
    found = _without_window(rel.input)
    windows = window_properties(rel.input)
    if found is None or windows is None:
        return None
    below, time, where = found
    rows = rel.projects if isinstance(rel, Expand) else (rel.exprs,)
    asked: list[Rex] = [e for row in rows for e in row if not isinstance(e, InputRef)]
    if isinstance(rel, Calc) and rel.condition is not None:
        asked.append(rel.condition)
    if any(i in windows.columns for e in asked for i in input_refs(e)):
        return None
    kept = [p for p in range(rel.width) if not all(_is_one_of(row[p], windows.columns) for row in rows)]
    if any(_is_one_of(row[p], windows.columns) for p in kept for row in rows):
        return None
    places = {p: i for i, p in enumerate(kept)}
    new = [[remap(row[p], where) for p in kept] for row in rows]
    at = next((i for i in range(len(kept)) if all(_is_one_of(row[i], {time}) for row in new)), None)
    names = [field_names(rel)[p] for p in kept]
    if at is None:
        at = len(kept)
        attribute: Rex = InputRef(below.fields[time][1], time)
        new = [[*row, attribute] for row in new]
        names.append(fresh_name(field_names(below)[time], names))
    if isinstance(rel, Calc):
        condition = None if rel.condition is None else remap(rel.condition, where)
        return replace(rel, input=below, exprs=tuple(new[0]), names=tuple(names), condition=condition), at, places
    types = [rel.types[p] for p in kept]
    types += [below.fields[time][1]] * (len(names) - len(types))
    expanded = replace(
        rel,
        input=below,
        projects=tuple(map(tuple, new)),
        names=tuple(names),
        types=tuple(types),
        id_field=places[rel.id_field],
    )
    return expanded, at, places


def _is_one_of(rex: Rex, fields: Sequence[int] | frozenset[int] | set[int]) -> bool:
    return isinstance(rex, InputRef) and rex.index in fields


def refuse_in_windows(rel: Rel) -> Rel | None:
    """Leaves all as it is.

    Raises:
        SqlError: SQL150, for a top-N query within windows, which is an operator of its own in Flink (``WindowUtil``).
    """
    if isinstance(rel, Rank):
        found = window_properties(rel.input)
        if found is not None and found.grouped_by(rel.partition):
            raise not_supported("a top-N query of each window", rel.place)
    return None
