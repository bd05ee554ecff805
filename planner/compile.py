"""Compiling: from syntax trees of INSERTs to the exec graph, and the schema of a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.settings import is_batch, of_mode, value
from stateplan.execnodes.types import LogicalType
from stateplan.planner.binding.queries import QueryBinder
from stateplan.planner.binding.sinks import bind_insert
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.lowering import lower
from stateplan.planner.passes import optimize
from stateplan.planner.physical import Physical
from stateplan.planner.side_outputs import as_flink_knows, check_hints, marked, side_inserts


def physical_plans(
    inserts: Sequence[exp.Expr], catalog: CatalogManager, options: Mapping[str, str], source: str
) -> list[Physical]:
    """The physical plans of ``inserts`` with changelog modes, one for each sink.

    Raises:
        SqlError, CatalogError, OptionError: as :func:`compile_inserts`.
    """
    options = of_mode(options)
    duplicates = bool(value(options, "table.exec.source.cdc-events-duplicate"))
    batch = is_batch(options)
    return optimize([bind_insert(node, catalog, source, duplicates, batch) for node in inserts], options)


def compile_inserts(
    inserts: Sequence[exp.Expr], catalog: CatalogManager, options: Mapping[str, str], source: str
) -> ExecGraph:
    """The exec graph of one INSERT or of all INSERTs of a statement set, as Flink 2.3 compiles it.

    Args:
        inserts: ``exp.Insert`` nodes, in order.
        catalog: where names are looked up.
        options: the session's options that were set; others have their defaults.
        source: the text that the positions of ``inserts`` point into.

    Raises:
        SqlError: SQL100 to SQL149 (names, columns, types, hints, changes a sink cannot take), SQL150 (not supported
            yet), SQL170, SQL171 (batch mode), SQL2xx (functions, constants); each with its place.
        CatalogError: an unknown table, or one that cannot be read or written.
        OptionError: options of a table that do not fit its use.
    """
    plans = physical_plans(inserts, catalog, options, source)
    graph = lower(plans, of_mode(options))
    check_hints(inserts, source, graph, options)
    side = side_inserts(graph, catalog, options)
    for _, insert, text in side:
        plans += physical_plans([insert], catalog, options, text)
    if side:
        graph = marked(lower(plans, of_mode(options)), [kind for kind, *_ in side])
    return as_flink_knows(graph)


def query_schema(
    query: exp.Expr, catalog: CatalogManager, options: Mapping[str, str], source: str
) -> list[tuple[str, LogicalType]]:
    """Name and type of the columns of a query. Raises as :func:`compile_inserts`."""
    return list(QueryBinder(catalog, source, batch=is_batch(options)).bind(query).fields)
