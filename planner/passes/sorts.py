"""ORDER BY and LIMIT: where they stand among projections, what the sources take of them, and which operators they are.

Source: Calcite's ``SortProjectTransposeRule`` and ``PruneEmptyRules.SORT_FETCH_ZERO_INSTANCE``, Flink's
``PushLimitIntoTableSourceScanRule``, ``StreamPhysicalLimitRule``, ``StreamPhysicalSortLimitRule``,
``StreamPhysicalTemporalSortRule`` and ``StreamPhysicalSortRule``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stateplan.execnodes.connectors.registry import source_abilities
from stateplan.execnodes.errors import SqlError
from stateplan.execnodes.rex import InputRef, Literal, Rex
from stateplan.execnodes.settings import value
from stateplan.planner.algebra.relations import (
    Filter,
    FullSort,
    Limit,
    LimitAbility,
    Order,
    Project,
    Rel,
    Scan,
    Sort,
    SortLimit,
    TemporalSort,
    transform_up,
)
from stateplan.planner.expressions.ops import unwrap_cast
from stateplan.planner.metadata.unique_keys import keeps_values
from stateplan.planner.passes.build import empty


def remove_empty_limit(rel: Rel) -> Rel | None:
    """LIMIT 0 gives nothing."""
    return empty(rel) if isinstance(rel, Sort) and rel.fetch == 0 else None


def transpose_sort_and_project(rel: Rel) -> Rel | None:
    """Computes after a sort what it does not sort by: few rows are left then.

    Flink chooses between both places by cost. A projection of fields only that is joined with a filter below costs
    nothing there, and stays.
    """
    if not isinstance(rel, Sort) or not isinstance(rel.input, Project) or rel.fetch is None:
        return None
    project = rel.input
    if isinstance(project.input, Filter) and all(_is_cheap(e) for e in project.exprs):
        return None
    order = _below(rel.order, project)
    return None if order is None else replace(project, input=replace(rel, input=project.input, order=order))


def _is_cheap(rex: Rex) -> bool:
    return isinstance(unwrap_cast(rex), (InputRef, Literal))


def _below(order: Order, project: Project) -> Order | None:
    """``order`` over the fields below ``project``; None where it sorts by something else than those."""
    out = []
    for i, ascending, last in order:
        source = project.exprs[i]
        inner = unwrap_cast(source)
        if not isinstance(inner, InputRef) or (inner is not source and not keeps_values(source)):
            return None
        out.append((inner.index, ascending, last))
    return tuple(out)


def push_limit_into_scan(rel: Rel) -> Rel | None:
    """Has a source give no more rows than a LIMIT without an order lets pass."""
    if not isinstance(rel, Sort) or rel.order or rel.fetch is None or not isinstance(rel.input, Scan):
        return None
    scan = rel.input
    if "LimitPushDown" not in source_abilities(scan.table.options):
        return None
    if scan.normalized is not None or any(isinstance(a, LimitAbility) for a in scan.abilities):
        return None
    return replace(rel, input=replace(scan, abilities=(*scan.abilities, LimitAbility(rel.offset + rel.fetch))))


def full_sorts(rel: Rel, options: Mapping[str, str]) -> Rel:
    """``rel`` with sorts that wait for the end of their input, where Flink's hidden option allows them."""
    if not value(options, "__table.exec.sort.non-temporal.enabled__"):
        return rel

    def change(e: Rel) -> Rel | None:
        if type(e) is not Sort or e.fetch is not None or e.offset or _is_temporal(e):
            return None
        return FullSort(e.input, e.order, place=e.place)

    return transform_up(rel, change)


def physical_sort(rel: Rel) -> Rel | None:
    """The operator of a sort.

    Raises:
        SqlError: SQL160, for one that could never emit a row of a stream.
    """
    if type(rel) is not Sort:
        return None
    if rel.fetch is None and not rel.offset and _is_temporal(rel):
        return TemporalSort(rel.input, rel.order, place=rel.place)
    if rel.fetch is None:
        if rel.offset:
            raise SqlError("SQL160", place=rel.place)
        raise SqlError("SQL160.physical_sort", place=rel.place)
    made = (rel.input, rel.order, rel.offset, rel.fetch, rel.place)
    return SortLimit(*made) if rel.order else Limit(*made)


def _is_temporal(rel: Sort) -> bool:
    first, ascending, _ = rel.order[0]
    return ascending and rel.input.fields[first][1].kind is not None
