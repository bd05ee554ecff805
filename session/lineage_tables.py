"""The lineage of a plan: the datasets that it reads and writes, and the columns that each column is computed from.

Without a library; :mod:`session.lineage_events` makes events of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stateplan.common.redaction import redacted
from stateplan.connectors.datasets import Dataset
from stateplan.connectors.registry import known_connector
from stateplan.execnodes.node_tables import table_of
from stateplan.execnodes.nodes.sink import Sink
from stateplan.execnodes.specs import ContextResolvedTable
from stateplan.plans.column_lineage import DIRECT, Flow, Uses, column_lineage, merge
from stateplan.plans.document import PlanDocument
from stateplan.plans.selectors import Selectors
from stateplan.plans.states import ttl_words


@dataclass(frozen=True)
class LineageTable:
    """A dataset that a plan reads or writes.

    Attributes:
        dataset: its name.
        nodes: the ids of the nodes that read or write it.
        columns: name and type of its columns.
        fields: of an output, by column, the input columns that it is computed from.
        rows: of an output, the input columns that decide about its rows.
    """

    dataset: Dataset
    nodes: tuple[int, ...]
    columns: tuple[tuple[str, str], ...]
    fields: Mapping[str, Uses]
    rows: Uses


@dataclass(frozen=True)
class PlanLineage:
    """The lineage of a plan.

    Attributes:
        plan_hash: SHA-256 of its text.
        sql: its text; None where the plan does not have it.
        states: its states, JSON-ready.
        inputs, outputs: its datasets. One that several nodes read or write is there once.
        datasets: by id of a node, the datasets that it reads.
    """

    plan_hash: str
    sql: str | None
    states: tuple[Mapping[str, Any], ...]
    inputs: tuple[LineageTable, ...]
    outputs: tuple[LineageTable, ...]
    datasets: Mapping[int, tuple[Dataset, ...]]

    @staticmethod
    def of(text: str, namespace: str, options: Mapping[str, str]) -> PlanLineage:
        """The lineage of the plan ``text``, whose tables are complete.

        Args:
            text: the plan, without secrets.
            namespace: of tables whose connector has no names for its data.
            options: the options of the session.
        """
        document = PlanDocument.parse(text)
        graph = document.graph
        flows = column_lineage(graph)
        inputs: list[LineageTable] = []
        outputs: list[LineageTable] = []
        datasets: dict[int, tuple[Dataset, ...]] = {}
        for node in graph.nodes:
            table = table_of(node)
            if table is None:
                continue
            datasets[node.id] = _datasets(table, namespace)
            columns = _columns(table)
            is_output = isinstance(node, Sink)
            names = [c for c, kind in columns.items() if kind[1]] or [f.name for f in node.output_type.fields]
            flow = flows.get(node.id, Flow(()))
            fields = dict(zip(names, flow.fields, strict=False)) if is_output else {}
            types = tuple((name, kind) for name, (kind, _) in columns.items())
            for dataset in datasets[node.id]:
                one = LineageTable(dataset, (node.id,), types, fields, flow.rows if is_output else {})
                _add(outputs if is_output else inputs, one)
        return PlanLineage(
            hashlib.sha256(text.encode()).hexdigest(),
            None if document.facts is None else document.facts.sql,
            tuple(_states(document, options)),
            tuple(inputs),
            tuple(outputs),
            datasets,
        )

    def input_columns(self, uses: Uses) -> Iterator[tuple[Dataset, str, tuple[tuple[str, str], ...]]]:
        """Dataset and name of columns, with type and subtype of how each is used; in a stable order."""
        by_name: dict[tuple[Dataset, str], frozenset[str]] = {}
        for (node, name), kinds in uses.items():
            for dataset in self.datasets[node]:
                by_name[dataset, name] = by_name.get((dataset, name), frozenset()) | kinds
        for (dataset, name), kinds in sorted(by_name.items()):
            pairs = (("DIRECT" if kind in DIRECT else "INDIRECT", kind) for kind in kinds)
            yield dataset, name, tuple(sorted(pairs))


def _add(tables: list[LineageTable], more: LineageTable) -> None:
    """Adds a table, to the one of the same dataset if there is one."""
    for position, table in enumerate(tables):
        if table.dataset == more.dataset:
            fields = {
                name: merge(t.fields[name] for t in (table, more) if name in t.fields)
                for name in dict.fromkeys([*table.fields, *more.fields])
            }
            columns = tuple(dict([*table.columns, *more.columns]).items())
            rows = merge((table.rows, more.rows))
            tables[position] = LineageTable(table.dataset, (*table.nodes, *more.nodes), columns, fields, rows)
            return
    tables.append(more)


def _datasets(table: ContextResolvedTable, namespace: str) -> tuple[Dataset, ...]:
    options = (table.resolved_table.options if table.resolved_table is not None else None) or {}
    connector = known_connector(options)
    names = () if connector is None else connector.datasets(options)
    return tuple(Dataset(*map(redacted, name)) for name in names) or (Dataset(namespace, table.summary),)


def _columns(table: ContextResolvedTable) -> dict[str, tuple[str, bool]]:
    """By name of a column, its type, and whether it can be written."""
    columns = table.resolved_table.table_schema.columns if table.resolved_table is not None else ()
    return {c.name: (str(c.type), c.kind == "PHYSICAL" or (c.kind == "METADATA" and not c.is_virtual)) for c in columns}


def _states(document: PlanDocument, options: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    selectors = Selectors(document, options)
    for view in selectors.views:
        yield {
            "selector": selectors.name_alone(view),
            "operator": view.operator,
            "node": view.node_id,
            "name": view.name,
            "ttl": ttl_words(view.ttl).removeprefix("ttl "),
            "ttlMillis": view.ttl,
            "updateType": view.update_type or "OnCreateAndWrite",
        }
