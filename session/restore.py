"""A plan that was read, fitted to the tables the session knows.

For each table of the plan, as Flink's ``ContextResolvedTableJsonDeserializer`` decides: the catalog's table if there
is one, else the definition the plan holds; the two must have the same columns. Options of both are merged, the
catalog's win. ``table.plan.restore.catalog-objects`` narrows this down.

Codes: CAT050 to CAT055.
"""

from __future__ import annotations

from collections.abc import Mapping

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode, RowKind
from stateplan.common.errors import CatalogError, Place, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Role
from stateplan.common.secrets import Secrets
from stateplan.common.settings import value
from stateplan.connectors.rejects import without_errors_table
from stateplan.execnodes.changelog_modes import changelog_modes
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_tables import table_of, with_table
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.lookup_join import LookupJoin
from stateplan.execnodes.nodes.sink import Sink
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.specs import ContextResolvedTable, ProjectPushDown, ResolvedTable, TableSchema
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import CatalogTable
from stateplan.planner.catalog.resolved_tables import plan_schema
from stateplan.plans.document import PlanDocument
from stateplan.session.plan_secrets import hide_secrets

_RESTORE = "table.plan.restore.catalog-objects"


@dataclass(frozen=True)
class RestoredPlan:
    """A plan ready to run.

    Attributes:
        graph: with every table complete: schema and options.
        notes: for the user, such as options that come from the catalog instead of the plan.
    """

    graph: ExecGraph
    notes: tuple[str, ...] = ()


def restore(document: PlanDocument, catalog: CatalogManager, options: Mapping[str, str]) -> RestoredPlan:
    """The plan's graph with its tables as they are now.

    Raises:
        CatalogError: CAT050 the table is not in the catalog and the plan does not hold it whole, CAT051 it is not in
            the catalog and the plan's definition must not be used, CAT052 the plan holds no definition and the
            catalog must not be used, CAT053 its columns have changed, CAT054 it is a view now, CAT055 it does not take
            the changes of the plan.
        OptionError: when the options of a table cannot be used; see the connectors.
    """
    from stateplan.connectors.registry import validate_table

    catalog.refresh()
    notes: list[str] = []
    changed_nodes: list[ExecNode] = []
    for node in document.graph.nodes:
        plan_table = table_of(node)
        if plan_table is None:
            continue
        role, key = Role.SINK, "dynamicTableSink"
        if isinstance(node, (TableSourceScan, LookupJoin)):
            scan = isinstance(node, TableSourceScan)
            role, key = Role.SOURCE, "scanTableSource" if scan else "temporalTable/lookupTableSource"
        place = document.place(f"{document.graph.pointer(node)}/{key}/table/identifier")
        table = _resolve(plan_table, catalog, value(options, _RESTORE), place, notes)
        resolved_table = table.resolved_table
        physical = (
            [(c.name, c.type) for c in resolved_table.table_schema.columns if c.kind == "PHYSICAL"]
            if resolved_table
            else []
        )
        primary_key = resolved_table.table_schema.primary_key if resolved_table else None
        of_key = primary_key.columns if primary_key else ()
        notes += validate_table(
            dict(resolved_table.options or {}) if resolved_table else {}, role, place, physical, primary_key=of_key
        )
        if plan_table.resolved_table is None:
            _check_row(node, document.graph, table, place)
        if table is not plan_table:
            changed_nodes.append(with_table(node, table))
    graph = document.graph.replace(changed_nodes) if changed_nodes else document.graph
    _check_changes(graph, document)
    return RestoredPlan(graph, tuple(dict.fromkeys(notes)))


def with_catalog_tables(document: PlanDocument, catalog: CatalogManager) -> PlanDocument:
    """A plan to compare with another one: tables whose options it does not hold are those of the catalog, if they fit.
    Their secrets are references."""
    nodes: list[ExecNode] = []
    for node in document.graph.nodes:
        table = table_of(node)
        if table is None or (table.resolved_table is not None and table.resolved_table.options is not None):
            continue
        try:
            nodes.append(with_table(node, _resolve(table, catalog, "ALL", document.place(""), [])))
        except CatalogError:
            continue
    if not nodes:
        return document
    graph, _ = hide_secrets(document.graph.replace(nodes), catalog)
    return PlanDocument.from_graph(graph, document.facts)


def _check_changes(graph: ExecGraph, document: PlanDocument) -> None:
    """Whether tables take the changes that reach them. The planner sees to that, but a plan can be edited, and a table
    be declared otherwise. Raises CatalogError CAT055."""
    from stateplan.connectors.registry import sink_changelog_mode

    modes = changelog_modes(graph)
    for node in graph.sinks:
        if not isinstance(node, Sink):
            continue
        table = node.dynamic_table_sink.table
        options = (table.resolved_table and table.resolved_table.options) or {}
        (source,) = graph.inputs(node)
        mode = modes[source.id] or INSERT_ONLY
        excess = _updates_and_deletions(mode) - _updates_and_deletions(sink_changelog_mode(options, mode))
        if excess:
            raise CatalogError(
                "CAT055",
                summary=table.summary,
                operator=f"{source.title}[{source.id}]",
                changes=" and ".join(sorted(excess, reverse=True)),
                place=document.place(f"{document.graph.pointer(node)}/dynamicTableSink/table/identifier"),
            )


def _updates_and_deletions(mode: ChangelogMode) -> set[str]:
    """What a changelog mode has besides insertions."""
    names = {RowKind.UPDATE_BEFORE: "updates", RowKind.UPDATE_AFTER: "updates", RowKind.DELETE: "deletions"}
    return {names[kind] for kind in mode if kind in names}


def _check_row(node: ExecNode, graph: ExecGraph, table: ContextResolvedTable, place: Place) -> None:
    """Whether what a plan without the table's schema reads or writes are still the table's columns."""
    assert table.resolved_table is not None
    columns = table.resolved_table.table_schema.columns
    physical = [c for c in columns if c.kind == "PHYSICAL"]
    if isinstance(node, (TableSourceScan, LookupJoin)):
        if isinstance(node, LookupJoin):
            fields, source = node.temporal_table.output_type.fields, node.temporal_table.lookup_table_source
        else:
            fields, source = node.output_type.fields, node.scan_table_source
        positions = list(range(len(physical)))
        for ability in source.abilities:
            if isinstance(ability, ProjectPushDown):
                positions = [path[0] for path in ability.projected_fields]
        catalog_columns = [physical[i] if i < len(physical) else None for i in positions]
        fits = all(
            column is not None and (column.name, column.type) == (f.name, f.type)
            for column, f in zip(catalog_columns, fields, strict=False)
        )
    else:
        fields = graph.inputs(node)[0].output_type.fields
        writable_columns = physical + [c for c in columns if c.kind == "METADATA" and not c.is_virtual]
        fits = [c.type.root for c in writable_columns] == [f.type.root for f in fields]
    if not fits:
        raise CatalogError(
            "CAT053",
            summary=table.summary,
            columns=[f"{c.name} {c.type.summary()}" for c in columns],
            place=place,
            expected=", ".join(f"{f.name} {f.type.summary()}" for f in fields),
        )


def _resolve(
    table: ContextResolvedTable, catalog: CatalogManager, mode: str, place: Place, notes: list[str]
) -> ContextResolvedTable:
    plan_table = table.resolved_table
    has_options = plan_table is not None and plan_table.options is not None
    if mode == "ALL_ENFORCED":
        if not has_options:
            raise CatalogError("CAT052", summary=table.summary, restore=_RESTORE, place=place)
        return table
    catalog_table = catalog.find(table.path, place)
    if catalog_table is None:
        if mode == "IDENTIFIER" or not has_options:
            raise _missing_table(table, catalog, mode, place)
        return table
    if not isinstance(catalog_table, CatalogTable):
        raise CatalogError("CAT054", summary=table.summary, place=place)
    schema = plan_schema(catalog_table)
    if plan_table is not None:
        changes = schema_changes(plan_table.table_schema, schema)
        if set(plan_table.partition_keys) != set(catalog_table.partition_keys):
            changes.append("the partition keys differ")
        if changes:
            raise CatalogError("CAT053.changed_parts", summary=table.summary, changes="; ".join(changes), place=place)
    options = without_errors_table(catalog_table.options)
    if mode == "ALL" and plan_table is not None and plan_table.options is not None:
        options = {**plan_table.options, **options}
        hidden_options = Secrets().hide(table.summary, catalog_table.options)
        other = sorted(
            k
            for k, v in plan_table.options.items()
            if v not in (catalog_table.options.get(k, v), hidden_options.get(k))
        )
        if other:
            notes.append(
                f"the table '{table.summary}' uses {', '.join(repr(k) for k in other)} of the catalog, not of the plan"
            )
    return table.model_copy(
        update={
            "resolved_table": ResolvedTable(
                table_schema=schema,
                distribution=catalog_table.distribution,
                partition_keys=catalog_table.partition_keys,
                comment=catalog_table.comment,
                options=dict(sorted(options.items())),
            )
        }
    )


def _missing_table(table: ContextResolvedTable, catalog: CatalogManager, mode: str, place: Place) -> CatalogError:
    path = table.path
    near = None
    if len(path) == 3:
        near = nearest(path[2], catalog.list_tables(path[0], path[1]))
    if mode == "IDENTIFIER":
        return CatalogError("CAT051", summary=table.summary, restore=_RESTORE, place=place, hint=near)
    return CatalogError("CAT050", summary=table.summary, place=place, hint=near)


def schema_changes(plan_schema: TableSchema, catalog_schema: TableSchema) -> list[str]:
    """What is different between the schema in a plan and the one in the catalog, a phrase each; none for nothing.

    Compared are names, order, kinds and types of columns, the primary key and the watermark's column; comments and
    the texts of expressions are not.
    """
    changes: list[str] = []
    old = {column.name: column for column in plan_schema.columns}
    new = {column.name: column for column in catalog_schema.columns}
    for name, column in old.items():
        other = new.get(name)
        if other is None:
            changes.append(f"column '{name}' is gone")
            continue
        if column.kind != other.kind:
            changes.append(f"column '{name}' was {column.kind.lower()}, is {other.kind.lower()}")
        elif column.type.to_json() != other.type.to_json():
            changes.append(f"column '{name}' was {column.type.summary()}, is {other.type.summary()}")
        elif (column.metadata_key or name) != (other.metadata_key or name) or bool(column.is_virtual) != bool(
            other.is_virtual
        ):
            changes.append(f"column '{name}' reads other metadata")
    changes += [
        f"column '{name}' is new, of type {column.type.summary()}" for name, column in new.items() if name not in old
    ]
    if not changes and list(old) != list(new):
        changes.append(f"the columns were ordered {', '.join(old)}, are ordered {', '.join(new)}")
    was = plan_schema.primary_key.columns if plan_schema.primary_key else ()
    key = catalog_schema.primary_key.columns if catalog_schema.primary_key else ()
    if set(was) != set(key):
        changes.append(f"the primary key was {_key(was)}, is {_key(key)}")
    marks = (
        [m.rowtime_attribute for m in plan_schema.watermark_specs],
        [m.rowtime_attribute for m in catalog_schema.watermark_specs],
    )
    if marks[0] != marks[1]:
        was_for, is_for = (f"for '{m[0]}'" if m else "none" for m in marks)
        changes.append(f"the watermark was {was_for}, is {is_for}")
    return changes


def _key(columns: tuple[str, ...]) -> str:
    return f"({', '.join(columns)})" if columns else "none"
