"""Reads a table once where several scans of it differ only in the columns they read.

Source: Flink's ``ScanReuser``: the scans become one of all their columns, each with a calc that picks its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

from stateplan.execnodes.connectors.registry import metadata_columns, source_abilities
from stateplan.execnodes.rex import InputRef
from stateplan.planner.algebra.relations import (
    Ability,
    Calc,
    LimitAbility,
    ProjectAbility,
    Rel,
    Scan,
    replace_inputs,
    walk,
)
from stateplan.planner.passes.to_calcs import merged_calcs


def _group(scan: Scan) -> Hashable:
    return scan.table.identifier, tuple(scan.table.options.items()), scan.hints, _others(scan)


def _others(scan: Scan) -> tuple[Ability, ...]:
    """What the scan is told besides the columns to read."""
    return tuple(a for a in scan.abilities if not isinstance(a, ProjectAbility))


def _key(scan: Scan) -> Hashable:
    return _group(scan), _physical(scan), _metadata(scan)


def _filtered_after_projection(scan: Scan) -> bool:
    seen = False
    for a in scan.abilities:
        if isinstance(a, ProjectAbility):
            seen = seen or a.projects
        elif seen and not isinstance(a, LimitAbility):
            return True
    return False


def reuse_scans(sinks: list[Rel]) -> list[Rel]:
    """The plans of ``sinks`` with their scans shared."""
    groups: dict[Hashable, list[Scan]] = {}
    for sink in sinks:
        for node in walk(sink):
            if isinstance(node, Scan):
                groups.setdefault(_group(node), []).append(node)
    wide: dict[Hashable, Scan] = {}
    for scans in groups.values():
        distinct = list({_key(s): s for s in scans}.values())
        usable = [s for s in distinct if not _filtered_after_projection(s)]
        if len(distinct) > 1 and len(usable) == len(distinct):
            merged = _union(distinct)
            if merged is not None:
                wide.update(dict.fromkeys(map(_key, distinct), merged))
    return [_replaced(s, wide) for s in sinks] if wide else sinks


def _physical(scan: Scan) -> tuple[int, ...]:
    return scan.projection.physical if scan.projection else tuple(range(len(scan.table.schema.physical)))


def _metadata(scan: Scan) -> tuple[str, ...]:
    return scan.projection.metadata if scan.projection else ()


def _union(scans: Iterable[Scan]) -> Scan | None:
    scans = list(scans)
    first = scans[0]
    if "ProjectPushDown" not in source_abilities(first.table.options):
        return None
    physical = tuple(sorted({i for s in scans for i in _physical(s)}))
    wanted = {k for s in scans for k in _metadata(s)}
    keys = tuple(k for k in metadata_columns(first.table.options) if k in wanted) if wanted else ()
    columns = first.table.schema.physical
    by_key = {
        k: (s.names[len(_physical(s)) + i], s.types[len(_physical(s)) + i])
        for s in scans
        for i, k in enumerate(_metadata(s))
    }
    fields = [*((columns[i].name, replace(columns[i].type, kind=None)) for i in physical), *(by_key[k] for k in keys)]
    ability = ProjectAbility(physical, keys, tuple(fields), merged=True)
    return replace(
        first,
        names=tuple(n for n, _ in fields),
        types=tuple(t for _, t in fields),
        abilities=(*_others(first), ability),
    )


def _narrowed(scan: Scan, wide: Scan) -> Rel:
    """``wide`` with the columns of ``scan`` only."""
    physical, keys = _physical(wide), _metadata(wide)
    if (_physical(scan), _metadata(scan)) == (physical, keys):
        return wide
    picked = [physical.index(i) for i in _physical(scan)]
    picked += [len(physical) + keys.index(k) for k in _metadata(scan)]
    return Calc(wide, tuple(InputRef(wide.types[i], i) for i in picked), scan.names)


def _replaced(rel: Rel, wide: dict[Hashable, Scan]) -> Rel:
    if isinstance(rel, Scan) and _key(rel) in wide:
        return _narrowed(rel, wide[_key(rel)])
    if isinstance(rel, Calc) and isinstance(rel.input, Scan) and _key(rel.input) in wide:
        below = _narrowed(rel.input, wide[_key(rel.input)])
        if isinstance(below, Calc):
            merged = merged_calcs(rel, below)
            if merged is not None:
                return merged
        return replace(rel, input=below)
    return replace_inputs(rel, [_replaced(i, wide) for i in rel.inputs])
