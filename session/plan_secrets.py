"""Plans without the secrets of their tables: what is written to files and shown has references in their place.

A secret in a plan that was read, or in a table that was declared with one, comes back when the job graph is made: see
:class:`common.secrets.Secrets`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stateplan.common.redaction import redacted
from stateplan.common.secrets import Secrets, has_secrets
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_tables import table_of, with_options
from stateplan.execnodes.nodes.lookup_join import LookupJoin
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import CatalogTable
from stateplan.plans.jsontext import join_pointer

if TYPE_CHECKING:
    from stateplan.plans.document import PlanDocument


def hide_secrets(
    graph: ExecGraph, catalog: CatalogManager, known_secrets: Secrets | None = None
) -> tuple[ExecGraph, Secrets]:
    """The plan with references in place of the secrets in it, and what they stand for.

    The secrets of the catalog's tables are there too, so that a plan that has references already can run.

    Args:
        graph: with the options of its tables as they were declared.
        catalog: the catalog of the session.
        known: what references in the plan stand for that are not of the catalog's tables, as those of hints.
    """
    secrets = Secrets(dict(known_secrets.values) if known_secrets is not None else {})
    for table in filter(None, map(table_of, graph.nodes)):
        options = table.resolved_table.options if table.resolved_table is not None else None
        catalog_table = catalog.find(table.path) if has_secrets(options or {}) else None
        if isinstance(catalog_table, CatalogTable):
            secrets.hide(table.summary, catalog_table.options)
    hidden_graph = with_options(graph, lambda table, options: secrets.hide(table.summary, options))
    words = [
        node.replace(description=description)
        for node in hidden_graph.nodes
        if table_of(node) is not None and (description := redacted(node.description)) != node.description
    ]
    return (hidden_graph.replace(words) if words else hidden_graph), secrets


def without_secrets(document: PlanDocument, secrets: Secrets) -> PlanDocument:
    """A plan that was read, with references in place of the secrets in it; every other character stays. ``secrets``
    gets them."""
    from stateplan.plans.document import PlanDocument
    from stateplan.plans.text_splices import apply_splices, value_splice

    texts = list(_texts(document, secrets))
    if not texts:
        return document
    splices = [value_splice(document.source, pointer, text) for pointer, text in texts]
    return PlanDocument.parse(apply_splices(document.text, splices), document.file)


def _texts(document: PlanDocument, secrets: Secrets) -> Iterator[tuple[str, str]]:
    """JSON pointer and new text of everything in a plan that has a secret in it."""
    graph = document.graph
    for node in graph.nodes:
        table = table_of(node)
        if table is None:
            continue
        at = graph.pointer(node)
        if (description := redacted(node.description)) != node.description:
            yield f"{at}/description", description
        if table.resolved_table is None or table.resolved_table.options is None:
            continue
        options = table.resolved_table.options
        for key, text in secrets.hide(table.summary, options).items():
            if text != options[key]:
                yield f"{at}/{_spec(node)}/table/resolvedTable/options{join_pointer([key])}", text


def _spec(node: object) -> str:
    if isinstance(node, LookupJoin):
        return "temporalTable/lookupTableSource"
    return "scanTableSource" if isinstance(node, TableSourceScan) else "dynamicTableSink"


def clear_text_notes(document: PlanDocument) -> Iterator[str]:
    """A line for each table of which a plan that was read has secrets in it."""
    for node in document.graph.nodes:
        table = table_of(node)
        options = None if table is None or table.resolved_table is None else table.resolved_table.options
        if table is None or options is None:
            continue
        hidden_options = Secrets().hide(table.summary, options)
        keys = sorted(key for key, text in options.items() if hidden_options[key] != text)
        if keys:
            names = ", ".join(f"'{key}'" for key in keys)
            yield (
                f"the plan has secrets in it, in {names} of '{table.summary}': put references such as "
                f"${{env:NAME}} there, and protect the file"
            )
