"""A table of the catalog as a plan holds it (``ContextResolvedTable``).

Codes: CAT040.
"""

from __future__ import annotations

from stateplan.common.errors import CatalogError
from stateplan.execnodes import specs
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_tables import table_of, with_table
from stateplan.execnodes.specs import ColumnExpression, ContextResolvedTable, PrimaryKey, ResolvedTable
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import CatalogTable, Column


def context_resolved_table(table: CatalogTable, objects: str = "ALL") -> ContextResolvedTable:
    """The table for a plan.

    Args:
        table: the table.
        objects: ``table.plan.compile.catalog-objects``: ALL, SCHEMA (without options and comment) or IDENTIFIER. Of a
            temporary table only the name is kept, whatever this says, as Flink does.

    Raises:
        CatalogError: CAT040, for a computed column whose expression is not bound.
    """
    identifier = str(table.identifier)
    if objects == "IDENTIFIER" or table.temporary:
        return ContextResolvedTable(identifier=identifier)
    writes_all = objects == "ALL"
    return ContextResolvedTable(
        identifier=identifier,
        resolved_table=ResolvedTable(
            table_schema=plan_schema(table),
            distribution=table.distribution,
            partition_keys=table.partition_keys,
            comment=(table.comment or None) if writes_all else None,
            options=dict(sorted(table.options.items())) if writes_all else None,
        ),
    )


def plan_schema(table: CatalogTable) -> specs.TableSchema:
    """The schema of a table for a plan. Raises CatalogError CAT040."""
    schema = table.schema
    marks = []
    for mark in schema.watermarks:
        if mark.rex is None:
            raise CatalogError("CAT040", summary=table.identifier.summary, what="the watermark")
        expression = ColumnExpression(rex_node=mark.rex, serializable_string=mark.expression_sql)
        marks.append(specs.WatermarkSpec(rowtime_attribute=mark.column, expression=expression))
    key = None
    if schema.primary_key:
        name = schema.primary_key_name or "PK_" + "_".join(schema.primary_key)
        key = PrimaryKey(name=name, columns=schema.primary_key)
    columns = tuple(_column(column, table) for column in schema.columns)
    return specs.TableSchema(columns=columns, watermark_specs=tuple(marks), primary_key=key)


def _column(column: Column, table: CatalogTable) -> specs.Column:
    if column.is_computed:
        if column.rex is None:
            raise CatalogError("CAT040", summary=table.identifier.summary, what=f"the column '{column.name}'")
        expression = ColumnExpression(rex_node=column.rex, serializable_string=column.expression_sql or "")
        return specs.Column(name=column.name, comment=column.comment, kind="COMPUTED", expression=expression)
    if column.is_metadata:
        return specs.Column(
            name=column.name,
            comment=column.comment,
            kind="METADATA",
            data_type=column.type,
            metadata_key=column.metadata_key,
            is_virtual=column.virtual,
        )
    return specs.Column(name=column.name, comment=column.comment, data_type=column.type)


def reduce_tables(graph: ExecGraph, catalog: CatalogManager, objects: str) -> ExecGraph:
    """The graph as a plan file holds it: with no more of each table than ``table.plan.compile.catalog-objects`` says,
    and of a temporary table only its name."""
    new_nodes = []
    for node in graph.nodes:
        table = table_of(node)
        if table is None or table.resolved_table is None:
            continue
        if objects == "IDENTIFIER" or catalog.is_temporary(table.path):
            new_nodes.append(with_table(node, table.model_copy(update={"resolved_table": None})))
        elif objects == "SCHEMA":
            smaller = table.resolved_table.model_copy(update={"options": None, "comment": None})
            new_nodes.append(with_table(node, table.model_copy(update={"resolved_table": smaller})))
    return graph.replace(new_nodes) if new_nodes else graph
