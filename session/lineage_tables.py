"""The lineage of a plan: the datasets that it reads and writes, and the columns that each column is computed from.

Without a library; :mod:`session.lineage_events` makes events of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.redaction import redacted
from stateplan.connectors.datasets import Dataset
from stateplan.connectors.registry import known_connector
from stateplan.execnodes.node_tables import table_of
from stateplan.execnodes.nodes.sink import Sink
from stateplan.execnodes.specs import ContextResolvedTable, WritingMetadata
from stateplan.plans.column_lineage import DIRECT, Uses, column_lineage, merge
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
            datasets[node.id] = table_datasets(table, namespace)
            columns = _columns(table)
            fields: dict[str, Uses] = {}
            rows: Uses = {}
            if isinstance(node, Sink):
                flow = flows[node.id]
                fields, rows = dict(zip(_written_columns(node), flow.fields, strict=False)), flow.rows
            for dataset in datasets[node.id]:
                one = LineageTable(dataset, (node.id,), tuple(columns), fields, rows)
                _add(outputs if isinstance(node, Sink) else inputs, one)
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


def table_datasets(table: ContextResolvedTable, namespace: str) -> tuple[Dataset, ...]:
    """The data of a table, whose names have no passwords. Without names, that of the table, in ``namespace``."""
    options = (table.resolved_table.options if table.resolved_table is not None else None) or {}
    connector = known_connector(options)
    names = () if connector is None else connector.datasets(options)
    return tuple(Dataset(*map(redacted, name)) for name in names) or (Dataset(namespace, table.summary),)


def _columns(table: ContextResolvedTable) -> Iterator[tuple[str, str]]:
    """Name and type of the columns of a table."""
    for column in table.resolved_table.table_schema.columns if table.resolved_table is not None else ():
        yield column.name, str(column.type)


def _written_columns(sink: Sink) -> Sequence[str]:
    """The columns that the fields of a sink are written to: the physical ones, then metadata."""
    table = sink.dynamic_table_sink.table.resolved_table
    if table is None:
        return [field.name for field in sink.output_type.fields]
    columns = table.table_schema.columns
    metadata = {column.metadata_key or column.name: column.name for column in columns if column.kind == "METADATA"}
    abilities = [a for a in sink.dynamic_table_sink.abilities if isinstance(a, WritingMetadata)]
    keys = [key for ability in abilities for key in ability.metadata_keys]
    return [*(column.name for column in columns if column.kind == "PHYSICAL"), *(metadata.get(k, k) for k in keys)]


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
