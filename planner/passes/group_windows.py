"""Windows in GROUP BY: what is below them, and when they are emitted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count

from stateplan.common.errors import SqlError
from stateplan.execnodes.emission import ALLOW_LATENESS, Emission
from stateplan.functions.rex import InputRef, Rex, input_refs
from stateplan.planner.algebra.relations import (
    Filter,
    Project,
    Rel,
    field_names,
    transform_up,
    unique_names,
)
from stateplan.planner.algebra.windows import (
    GroupWindowAggregate,
    WindowAggregate,
)
from stateplan.planner.expressions.ops import kind


def fields_of_window(rel: Rel) -> frozenset[int]:
    """The fields that are properties of the window of a GROUP BY, such as its start. Flink still computes them above,
    and above a HAVING, below which the fields of the aggregate stand under their names."""
    if isinstance(rel, GroupWindowAggregate):
        return frozenset(range(rel.width - len(rel.properties), rel.width))
    if isinstance(rel, Filter):
        return fields_of_window(rel.input)
    if isinstance(rel, Project) and isinstance(rel.input, GroupWindowAggregate):
        window_names = {i: field_names(rel.input)[i] for i in fields_of_window(rel.input)}
        named_exprs = enumerate(zip(rel.exprs, rel.names, strict=True))
        return frozenset(
            i for i, (e, name) in named_exprs if isinstance(e, InputRef) and window_names.get(e.index) == name
        )
    return frozenset()


def unnamed_below_group_windows(rel: Rel) -> Rel | None:
    """What is computed below windows of a GROUP BY has no name, nor have properties of other windows: the projection is
    created again there, without names. A call of PROCTIME is added to the fields below first
    (``LogicalWindowAggregateRuleBase``)."""
    if not isinstance(rel, GroupWindowAggregate) or not isinstance(rel.input, Project):
        return None
    project, below = rel.input, rel.input.input
    window_fields = fields_of_window(below)
    named_exprs = zip(project.exprs, project.names, strict=True)
    inferred_names = [_inferred_name(e, n, below, window_fields) for e, n in named_exprs]
    by_clock = rel.time_type.kind == "PROCTIME"
    if by_clock and kind(project.exprs[rel.time]) == "PROCTIME":
        inferred_names[rel.time] = f"$f{below.width}"
    names = _numbered(inferred_names)
    clock = (names[rel.time], rel.time) if by_clock else None
    if names == [*project.names] and rel.clock == clock:
        return None
    return replace(rel, input=replace(project, names=tuple(names)), clock=clock)


def _numbered(names: Sequence[str | None]) -> list[str]:
    """``names``, the missing ones with the first free number from their position on (Calcite's ``F_SUGGESTER``)."""
    out: list[str] = []
    for i, name in enumerate(names):
        out.append(name or next(n for n in map("$f{}".format, count(i)) if n not in out))
    return unique_names(out)


def untold_group_windows(rel: Rel) -> Rel | None:
    """Windows of a GROUP BY have no properties if the projection above uses none (``WindowPropertiesRules``)."""
    if not isinstance(rel, Project) or not isinstance(rel.input, GroupWindowAggregate) or not rel.input.tells:
        return None
    if fields_of_window(rel.input) & {i for e in rel.exprs for i in input_refs(e)}:
        return None
    return replace(rel, input=replace(rel.input, tells=False))


def _inferred_name(rex: Rex, name: str, below: Rel, window_fields: Collection[int]) -> str | None:
    """The name that an expression has by itself (``RelBuilder.inferAlias``): a field its own, and a CAST that of what
    it casts."""
    if isinstance(rex, InputRef):
        return below.fields[rex.index][0] if rex.index not in window_fields else None
    if kind(rex) != "CAST":
        return None
    return _inferred_name(rex.children[0], name, below, window_fields)


def emit_windows(rel: Rel, options: Mapping[str, str]) -> Rel:
    """Makes windows of GROUP BY emit early and late, as the options say (``WindowEmitStrategy``).

    Raises:
        SqlError: SQL165, for windows that cannot be.
        OptionError: OPT005, OPT105, as :meth:`Emission.of`.
    """

    def change(rel: Rel) -> Rel | None:
        if isinstance(rel, WindowAggregate):
            raise SqlError("SQL165", what="windows of window functions", place=rel.place)
        if not isinstance(rel, GroupWindowAggregate):
            return None
        emission = Emission.of(options, rel.time_type.kind == "ROWTIME")
        if rel.window.kind == "SESSION":
            raise SqlError("SQL165", what="SESSION windows", place=rel.place)
        if emission is not None and emission.never_late:
            raise SqlError("SQL165.lateness_required", key=ALLOW_LATENESS, place=rel.place)
        return replace(rel, emission=emission)

    return transform_up(rel, change)
