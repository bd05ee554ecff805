"""What SQL calls the columns of a query, where their fields have other names."""

from __future__ import annotations

from dataclasses import replace

from stateplan.functions.rex import InputRef
from stateplan.planner.algebra.relations import (
    Aggregate,
    Filter,
    Project,
    Rel,
    SetOperation,
    Sort,
    Union,
    field_names,
    identity,
)
from stateplan.planner.algebra.windows import WindowTable, window_fields
from stateplan.planner.binding.scope import Scope


def with_scope_names(rel: Rel, scope: Scope) -> Rel:
    """``rel`` with its fields called as in ``scope``."""
    names = tuple(n for r in scope.relations for n, _ in r.fields)
    return rel if names == tuple(written_names(rel)) else replace(identity(rel), names=names, written_names=names)


def written_names(rel: Rel) -> list[str]:
    """The names by which SQL refers to the columns of a query or table. Two columns may have the same name."""
    names = field_names(rel)
    if isinstance(rel, Project):
        if rel.written_names is not None:
            return list(rel.written_names)
        below, names_below = field_names(rel.input), written_names(rel.input)
        return [
            names_below[e.index] if isinstance(e, InputRef) and below[e.index] == n else n
            for e, n in zip(rel.exprs, names, strict=True)
        ]
    if isinstance(rel, WindowTable):
        return [*written_names(rel.input), *(n for n, _ in window_fields(rel.fields[rel.time][1]))]
    if isinstance(rel, (Sort, Filter, Union, SetOperation)) or (isinstance(rel, Aggregate) and not rel.calls):
        return written_names(rel.inputs[0])
    return names
