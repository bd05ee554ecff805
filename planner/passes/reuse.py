"""Shares the scans and sinks of a table among all INSERTs of a statement set."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

from stateplan.connectors.registry import find_connector, metadata_columns
from stateplan.functions.rex import InputRef, remap
from stateplan.planner.algebra.relations import (
    Ability,
    Calc,
    Field,
    LimitAbility,
    ProjectAbility,
    Rel,
    Scan,
    Sink,
    Union,
    WatermarkAbility,
    replace_inputs,
    walk,
)
from stateplan.planner.digest.expressions import physical_expression
from stateplan.planner.expressions.ops import refs
from stateplan.planner.metadata.unique_keys import smallest_key, upsert_keys
from stateplan.planner.passes.projects import merged_calcs
from stateplan.planner.physical import Physical

# Reads a table once where several scans of it differ only in the columns they read.
#
# Source: Flink's ``ScanReuser``: the scans become one of all their columns, each with a calc that picks its own.


def _group(scan: Scan) -> Hashable:
    return scan.table.identifier, tuple(scan.table.options.items()), scan.hints, tuple(map(_meaning, _others(scan)))


def _meaning(ability: Ability) -> Hashable:
    """An ability, however the columns are numbered that its scan reads."""
    if isinstance(ability, WatermarkAbility):
        text = physical_expression(ability.watermark, ability.names)
        return text, ability.rowtime, ability.idle_timeout, ability.options
    return ability


def _others(scan: Scan) -> tuple[Ability, ...]:
    """The abilities of the scan besides the columns to read."""
    return tuple(a for a in scan.abilities if not isinstance(a, ProjectAbility))


def _key(scan: Scan) -> Hashable:
    return _group(scan), _physical(scan), _metadata(scan)


def _filtered_after_projection(scan: Scan) -> bool:
    has_projection = False
    for a in scan.abilities:
        if isinstance(a, ProjectAbility):
            has_projection = has_projection or a.projects
        elif has_projection and not isinstance(a, (LimitAbility, WatermarkAbility)):
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
            merged_scan = _union(distinct)
            if merged_scan is not None:
                wide.update(dict.fromkeys(map(_key, distinct), merged_scan))
    return [_replace_scans(s, wide) for s in sinks] if wide else sinks


def _physical(scan: Scan) -> tuple[int, ...]:
    return scan.projection.physical if scan.projection else tuple(range(len(scan.table.schema.physical)))


def _metadata(scan: Scan) -> tuple[str, ...]:
    return scan.projection.metadata if scan.projection else ()


def _union(scans: Iterable[Scan]) -> Scan | None:
    scans = list(scans)
    first = scans[0]
    if "ProjectPushDown" not in find_connector(first.table.options).abilities:
        return None
    physical = tuple(sorted({i for s in scans for i in _physical(s)}))
    metadata_keys = {k for s in scans for k in _metadata(s)}
    keys = tuple(k for k in metadata_columns(first.table.options) if k in metadata_keys) if metadata_keys else ()
    columns = first.table.schema.physical
    by_key = {
        k: (s.names[len(_physical(s)) + i], s.types[len(_physical(s)) + i])
        for s in scans
        for i, k in enumerate(_metadata(s))
    }
    fields = [*((columns[i].name, replace(columns[i].type, kind=None)) for i in physical), *(by_key[k] for k in keys)]
    ability = ProjectAbility(physical, keys, tuple(fields), is_union=True)
    timed = {n for s in scans for n, t in s.fields if t.kind == "ROWTIME"}
    fields = [(n, replace(t, kind="ROWTIME") if n in timed else t) for n, t in fields]
    names = tuple(n for n, _ in fields)
    others = [a for a in _others(first) if not isinstance(a, WatermarkAbility)]
    marks = [_renumbered(a, fields) for a in _others(first) if isinstance(a, WatermarkAbility)]
    return replace(first, names=names, types=tuple(t for _, t in fields), abilities=(*others, ability, *marks))


def _renumbered(ability: WatermarkAbility, fields: list[Field]) -> WatermarkAbility:
    """Watermarks over the fields of the scan that all share."""
    names = tuple(n for n, _ in fields)
    field_map = {i: names.index(ability.names[i]) for i in refs(ability.watermark)}
    return replace(ability, watermark=remap(ability.watermark, field_map), names=names, output_fields=tuple(fields))


def _narrow_scan(scan: Scan, wide: Scan) -> Rel:
    """``wide`` with the columns of ``scan`` only."""
    physical, keys = _physical(wide), _metadata(wide)
    if (_physical(scan), _metadata(scan)) == (physical, keys):
        return wide
    field_positions = [physical.index(i) for i in _physical(scan)]
    field_positions += [len(physical) + keys.index(k) for k in _metadata(scan)]
    return Calc(wide, tuple(InputRef(wide.types[i], i) for i in field_positions), scan.names)


def _replace_scans(rel: Rel, wide: dict[Hashable, Scan]) -> Rel:
    if isinstance(rel, Scan) and _key(rel) in wide:
        return _narrow_scan(rel, wide[_key(rel)])
    if isinstance(rel, Calc) and isinstance(rel.input, Scan) and _key(rel.input) in wide:
        below = _narrow_scan(rel.input, wide[_key(rel.input)])
        if isinstance(below, Calc):
            merged_calc = merged_calcs(rel, below)
            if merged_calc is not None:
                return merged_calc
        return replace(rel, input=below)
    return replace_inputs(rel, [_replace_scans(i, wide) for i in rel.inputs])


# Writes a table once where several INSERTs of a statement set write it in the same way: their rows are united.
#
# As in Flink, the key of the changes is that of the first INSERT, though the union of them has none.
#
# Source: Flink's ``SinkReuser``.


def reuse_sinks(plans: list[Physical]) -> list[Physical]:
    """The plans with equal sinks united, each at the place of its first INSERT."""
    groups: list[list[Physical]] = []
    for plan in plans:
        for group in groups:
            if _same(group[0], plan):
                group.append(plan)
                break
        else:
            groups.append([plan])
    return [g[0] if len(g) == 1 else _united(g) for g in groups]


def _same(a: Physical, b: Physical) -> bool:
    x, y = a.rel, b.rel
    assert isinstance(x, Sink)
    assert isinstance(y, Sink)
    return (
        x.table.identifier == y.table.identifier
        and dict(x.table.options) == dict(y.table.options)
        and x.targets == y.targets
        and (x.partition, x.overwrite, x.metadata) == (y.partition, y.overwrite, y.metadata)
        and x.conflict == y.conflict
        and a.kinds == b.kinds
        and a.update == b.update
        and a.delete == b.delete
        and [t.as_nullable() for _, t in x.fields] == [t.as_nullable() for _, t in y.fields]
    )


def _united(group: list[Physical]) -> Physical:
    first = group[0]
    inputs = tuple(p.input for p in group)
    rels: tuple[Rel, ...] = tuple(i.rel for i in inputs)
    union = Union(rels, row=rels[0].fields)
    below = Physical(union, inputs, first.kinds, first.update, first.delete)
    sink = first.rel
    assert isinstance(sink, Sink)
    key = smallest_key(upsert_keys(sink.input))
    return Physical(replace(sink, input=union, upsert_key=key), (below,), first.kinds, first.update, first.delete)
