"""What the rows and the fields of each operator's output are, as hashes that two plans can be compared by.

Two operators with equal ``rows`` emit the same changes, as far as their common fields go; two fields of them with equal
hashes hold the same values. The hashes do not depend on where a field stands, nor on which other fields are there. So
state can be told to mean the same although a projection in front of it changed.

Everything that is not known to be without meaning goes into the hashes: they may differ where nothing changed, and
must not be equal where something did.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stateplan.connectors.registry import known_connector, known_format
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.deduplicate import Deduplicate
from stateplan.execnodes.nodes.group_aggregate import GroupAggregate
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan, ability_meaning
from stateplan.plans.changes import meaningful
from stateplan.plans.jsontext import split_pointer


@dataclass(frozen=True)
class Lineage:
    """What an operator emits, and what its state depends on.

    Attributes:
        rows: of the changes, whatever fields they have.
        fields: of each output field.
        state: of what its state means, but for the fields that are stored.
        calls: of each aggregate call, where the operator is an aggregate.
    """

    rows: str
    fields: tuple[str, ...]
    state: str
    calls: tuple[str, ...] = ()


def lineage(graph: ExecGraph) -> dict[int, Lineage]:
    """The lineage of each operator, by id."""
    lineages: dict[int, Lineage] = {}
    for node in graph.nodes:
        lineages[node.id] = _of(node, [lineages[i.id] for i in graph.inputs(node)])
    return lineages


def _hash(*values: Any) -> str:
    text = json.dumps(values, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _of(node: ExecNode, inputs: Sequence[Lineage]) -> Lineage:
    if isinstance(node, TableSourceScan):
        return _scan(node)
    if node.title == "exchange":
        return Lineage(inputs[0].rows, inputs[0].fields, "")
    own = _resolved(node, _meaningful(node), inputs)
    if own is None:
        return _opaque(node, _meaningful(node), inputs)
    kind = node.title
    input_rows = [i.rows for i in inputs]
    if kind == "calc":
        projection, condition = own.pop("projection"), own.pop("condition", None)
        rows = input_rows[0] if condition is None else _hash("calc", own, condition, input_rows)
        settings = own.get("configuration") or {}
        fields = tuple(p["field"] if _is_field(p) else _hash("expression", p, settings) for p in projection)
        return Lineage(rows, fields, "")
    if kind == "union":
        order = sorted(range(len(inputs)), key=lambda i: inputs[i].rows)
        fields = tuple(
            _hash("union", [inputs[i].fields[f] for i in order]) for f in range(min(len(i.fields) for i in inputs))
        )
        return Lineage(_hash("union", own, [input_rows[i] for i in order]), fields, "")
    cosmetic = {key: own.pop(key) for key in node.cosmetic_keys() if key in own}
    if isinstance(node, GroupAggregate):
        calls = tuple(_hash(*pair) for pair in zip(own.pop("aggCalls"), own.pop("aggCallNeedRetractions"), strict=True))
        state = _hash("state", own, input_rows)
        rows = _hash("rows", state, cosmetic)
        keys = [_hash("key", inputs[0].fields[k]) for k in node.grouping]
        return Lineage(rows, (*keys, *(_hash("call", c) for c in calls)), state, calls)
    if isinstance(node, Deduplicate) and node.is_rowtime:  # its time is a field that it does not name
        clock = next((i for i, f in enumerate(node.output_type.fields) if f.type.kind == "ROWTIME"), None)
        own["clock"] = None if clock is None else inputs[0].fields[clock]
    state = _hash("state", own, input_rows)
    rows = _hash("rows", state, cosmetic)
    if kind == "join":
        sides = [_hash(side, f) for side, i in zip("LR", inputs, strict=True) for f in i.fields]
        return Lineage(rows, tuple(sides[: len(node.output_type.fields)]), state)
    if node.PASSES_ROWS:
        added_fields = range(len(inputs[0].fields), len(node.output_type.fields))
        return Lineage(
            rows, (*inputs[0].fields, *(_hash("more", rows, i - len(inputs[0].fields)) for i in added_fields)), state
        )
    return _opaque(node, own | cosmetic, inputs, own)


def _opaque(
    node: ExecNode, own: Any, inputs: Sequence[Lineage], without_cosmetic: Mapping[str, Any] | None = None
) -> Lineage:
    """An operator of which nothing is known: all that comes in counts, in its order."""
    types = [f.type.to_json() for f in node.output_type.fields]
    input_parts = [[i.rows, list(i.fields)] for i in inputs]
    rows = _hash("rows", own, input_parts, types)
    state = _hash("state", own if without_cosmetic is None else without_cosmetic, input_parts, types)
    return Lineage(rows, tuple(_hash("field", rows, i) for i in range(len(types))), state)


def _meaningful(node: ExecNode) -> dict[str, Any]:
    """The node's JSON that matters; of the options of a table that it looks up or writes, those that name it."""
    data = meaningful(node)
    table_part = data.get("dynamicTableSink") or (data.get("temporalTable") or {}).get("lookupTableSource") or {}
    resolved_table = (table_part.get("table") or {}).get("resolvedTable") or {}
    if resolved_table.get("options"):
        resolved_table["options"] = _identity(resolved_table["options"]) or resolved_table["options"]
    return data


def _identity(options: Mapping[str, str]) -> Mapping[str, str] | None:
    connector = known_connector(options)
    return options if connector is None else connector.identity(options)


def _scan(node: TableSourceScan) -> Lineage:
    spec = node.scan_table_source
    own = meaningful(node)
    table = own.pop("scanTableSource")["table"]
    resolved_table = table.get("resolvedTable") or {}
    options = resolved_table.get("options") or {}
    schema = spec.table.resolved_table.table_schema.columns if spec.table.resolved_table else ()
    physical = tuple(c.name for c in schema if c.kind == "PHYSICAL")
    metadata = {c.name: c.metadata_key or c.name for c in schema if c.kind == "METADATA"}
    fmt = known_format(options)
    own_data = _identity(options)
    identity = own_data if options and own_data is not None else [table["identifier"], options]
    rows = _hash("scan", own, identity, ability_meaning(spec.abilities, physical))
    by_name = fmt is not None and fmt.by_name
    fields = []
    for field in node.output_type.fields:
        place = None if by_name or field.name not in physical else physical.index(field.name)
        fields.append(_hash("column", identity, field.name, metadata.get(field.name), place, field.type.to_json()))
    return Lineage(rows, tuple(fields), "")


def _is_field(rex: Any) -> bool:
    return isinstance(rex, dict) and rex.keys() == {"field"}


def _resolved(node: ExecNode, data: dict[str, Any], inputs: Sequence[Lineage]) -> dict[str, Any] | None:
    """The node's JSON with the hash of the field in place of every reference to one; None when that fails."""
    all_fields = [f for i in inputs for f in i.fields]
    for ref in node.field_refs():
        if ref.pointer.startswith("/inputProperties/"):
            continue
        fields: Sequence[str] = all_fields if ref.input is None else inputs[ref.input].fields
        *path, last = split_pointer(ref.pointer)
        target: Any = data
        try:
            for step in path:
                target = target[int(step)] if isinstance(target, list) else target[step]
            key: Any = int(last) if isinstance(target, list) else last
            target[key] = {"field": fields[ref.field]}
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return data
