"""Which operator of one plan is which of another: only where there is one answer.

Operators are the same when they have the same uid. One whose uid is gone has changed, or what it reads has; it may
still be identified by what it does to which tables, then by its keys among the operators that read the same tables. An
operator that two could be is nobody's partner.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Literal

from stateplan.common.lazy_dataclass import dataclass
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.sink import Sink
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.plans.document import PlanDocument

By = Literal["uid", "id", "meaning", "keys"]
"""How a partner was found: by its uid; by its id in an edited copy; by what it does; by its keys and tables."""


@dataclass(frozen=True)
class Partner:
    """The counterpart of an operator."""

    node: ExecNode
    by: By


def edited_partners(base: PlanDocument, ours: PlanDocument) -> dict[int, Partner]:
    """Id of an operator in ``ours``, an edited copy, to its partner in ``base``: by uid, else by id and type."""
    return _unique(ours, base, [(lambda document: dict(document.uids), "uid"), (_by_id, "id")], careful=False)


def partners(old: PlanDocument, new: PlanDocument) -> dict[int, Partner]:
    """Id of an operator in ``old`` to its partner in ``new``, a plan that was compiled anew."""
    return _unique(old, new, [(_by_uid(old, new), "uid"), (_by_meaning, "meaning"), (_by_keys, "keys")])


_Signatures = Callable[[PlanDocument], Mapping[int, Hashable]]
"""Signature of each operator by id; operators without one are omitted."""


def _unique(
    old: PlanDocument, new: PlanDocument, levels: list[tuple[_Signatures, By]], careful: bool = True
) -> dict[int, Partner]:
    """The partners: level by level, those whose signature is that of one operator in each plan.

    Args:
        careful: count all operators with a signature, not only those that have no partner yet.
    """
    partners: dict[int, Partner] = {}
    for signatures, by in levels:
        if len(partners) == len(old.graph.nodes):
            break
        partner_ids = {partner.node.id for partner in partners.values()}
        old_signatures, new_signatures = signatures(old), signatures(new)
        if not careful:
            old_signatures = {i: s for i, s in old_signatures.items() if i not in partners}
            new_signatures = {i: s for i, s in new_signatures.items() if i not in partner_ids}
        times = Counter(old_signatures.values()), Counter(new_signatures.values())
        holders = {signature: i for i, signature in new_signatures.items()}
        for node_id, signature in old_signatures.items():
            if times[0][signature] == times[1][signature] == 1:
                other = holders[signature]
                if node_id not in partners and other not in partner_ids:
                    partners[node_id] = Partner(new.graph.node(other), by)
    return partners


def _by_id(document: PlanDocument) -> Mapping[int, Hashable]:
    return {n.id: (n.id, n.name) for n in document.graph.nodes}


def _by_uid(old: PlanDocument, new: PlanDocument) -> _Signatures:
    """The uids; but of operators that a plan has more than once, only where both plans have as many of them."""
    counts = [Counter(uid.partition("-")[0] for uid in document.uids.values()) for document in (old, new)]

    def signatures(document: PlanDocument) -> Mapping[int, Hashable]:
        return {
            n.id: uid
            for n in document.graph.nodes
            if counts[0][(uid := document.uids[n.id]).partition("-")[0]] == counts[1][uid.partition("-")[0]]
        }

    return signatures


def _by_meaning(document: PlanDocument) -> Mapping[int, Hashable]:
    """What an operator does, the fields it gives, and the tables behind each input."""
    tables = _tables(document.graph)
    return {
        n.id: (n.name, _text(n.meaning()), _text(n.output_type.to_json()), tables[n.id]) for n in document.graph.nodes
    }


def _by_keys(document: PlanDocument) -> Mapping[int, Hashable]:
    """The tables behind each input and the names of the key fields, of operators that keep state with a TTL; of sources
    and sinks the table."""
    tables = _tables(document.graph)
    key_by_node: dict[int, Hashable] = {}
    for node in document.graph.nodes:
        table = table_of(node)
        if table is not None:
            key_by_node[node.id] = (node.name, table)
        elif node.state_names:
            key_by_node[node.id] = (node.name, tables[node.id], _keys(node, document.graph), len(node.state_names))
    return key_by_node


def table_of(node: ExecNode) -> str | None:
    """The table that a source or sink reads or writes."""
    if isinstance(node, TableSourceScan):
        return str(node.scan_table_source.table.identifier)
    return str(node.dynamic_table_sink.table.identifier) if isinstance(node, Sink) else None


def _tables(graph: ExecGraph) -> dict[int, tuple[frozenset[str], ...]]:
    """The tables behind each input of each operator."""
    tables_behind: dict[int, frozenset[str]] = {}
    sides_by_node: dict[int, tuple[frozenset[str], ...]] = {}
    for node in graph.nodes:
        sides = tuple(tables_behind[source.id] for source in graph.inputs(node))
        sides_by_node[node.id] = sides
        own = table_of(node)
        tables_behind[node.id] = frozenset().union(*sides, {own} if own and not sides else ())
    return sides_by_node


def _keys(node: ExecNode, graph: ExecGraph) -> Hashable:
    """The names of the key fields, per input."""
    data = node.to_json()
    spec = data.get("joinSpec") or {}
    sides: list[Any] = [data.get("grouping"), data.get("uniqueKeys"), data.get("partialAggGrouping")]
    sides.append((data.get("partition") or {}).get("fields"))
    sides.append(((data.get("overSpec") or {}).get("partition") or {}).get("fields"))
    inputs = [[f.name for f in row.fields] for row in graph.input_types(node)]
    names = [_names(side, inputs[0]) for side in sides if side is not None and inputs]
    for key, row in zip(("leftKeys", "rightKeys"), inputs, strict=False):
        names.append(_names(spec.get(key) or (), row))
    return tuple(names)


def _names(positions: Any, names: list[str]) -> tuple[str, ...]:
    return tuple(names[i] for i in positions if isinstance(i, int) and 0 <= i < len(names))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
