"""Has sources read only the partitions that conditions on partition columns leave; those conditions are done then.

Source: Flink's ``PushPartitionIntoTableSourceScanRule`` with ``PartitionPruner``.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.connectors.registry import partitions_of
from stateplan.execnodes.rex import InputRef, Rex
from stateplan.execnodes.types import BIGINT, STRING
from stateplan.planner.algebra.relations import Filter, PartitionAbility, Rel, Scan
from stateplan.planner.expressions.evaluate import current_time_zone
from stateplan.planner.expressions.ops import and_, cast, conjunctions, is_deterministic, is_dynamic, refs, substitute
from stateplan.planner.passes.build import empty, filtered


def push_partition_into_scan(rel: Rel) -> Rel | None:
    if not isinstance(rel, Filter) or not isinstance(rel.input, Scan):
        return None
    scan = rel.input
    keys = scan.table.partition_keys
    if not keys or any(isinstance(a, PartitionAbility) for a in scan.abilities):
        return None
    fields = {scan.names.index(k): n for n, k in enumerate(keys) if k in scan.names}
    terms = conjunctions(rel.condition)
    chosen = [t for t in terms if refs(t) and set(refs(t)) <= set(fields) and is_deterministic(t) and not is_dynamic(t)]
    if not chosen:
        return None
    partitions = partitions_of(scan.table.options, keys)
    if partitions is None:
        return None
    texts = {f: cast(InputRef(STRING, n), scan.types[f]) for f, n in fields.items()}
    condition = substitute(and_(chosen), texts)
    left = _passing(partitions, condition)
    if not left:
        return empty(rel)
    ability = PartitionAbility(tuple(tuple(p.items()) for p in left))
    pruned = replace(scan, abilities=(*scan.abilities, ability))
    return filtered(pruned, [t for t in terms if t not in chosen])


def _passing(partitions: list[dict[str, str | None]], condition: Rex) -> list[dict[str, str | None]]:
    """The partitions for which ``condition``, over their values as text, is TRUE."""
    import polars as pl

    from stateplan.execnodes.changelog import column
    from stateplan.execnodes.runtime.transforms.calc import CalcTransform

    if not partitions:
        return []
    frame = pl.DataFrame(
        {column(i): pl.Series([p[k] for p in partitions], dtype=pl.String) for i, k in enumerate(partitions[0])}
    ).with_columns(pl.int_range(pl.len()).alias(column(len(partitions[0]))))
    place = CalcTransform((InputRef(BIGINT, len(partitions[0])),), condition, current_time_zone())
    return [partitions[i] for i in place(frame, 0).to_series().to_list()]
