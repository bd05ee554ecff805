"""Compiling: from syntax trees of INSERTs to the exec graph, and the schema of a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from stateplan.execnodes.errors import StateplanError
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.settings import value
from stateplan.execnodes.types import LogicalType
from stateplan.execnodes.zone import local_time_zone
from stateplan.planner.algebra.relations import Sink
from stateplan.planner.binding.queries import QueryBinder
from stateplan.planner.binding.sinks import bind_insert
from stateplan.planner.binding.tables import duplicate_events
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.expressions.evaluate import session_time_zone
from stateplan.planner.lowering import lower
from stateplan.planner.passes import optimize
from stateplan.planner.passes.changelog import infer_changelog
from stateplan.planner.passes.lookup_joins import keep_lookups
from stateplan.planner.passes.mini_batches import assign_mini_batches
from stateplan.planner.passes.multi_joins import every_join
from stateplan.planner.passes.reuse_scans import reuse_scans
from stateplan.planner.passes.reuse_sinks import reuse_sinks
from stateplan.planner.passes.two_phases import in_two_phases
from stateplan.planner.passes.window_phases import windows_in_two_phases
from stateplan.planner.physical import Physical


def physical_plans(
    inserts: Sequence[exp.Expr], catalog: CatalogManager, options: Mapping[str, str], source: str
) -> list[Physical]:
    """The physical plans of ``inserts`` with changelog modes, one for each sink.

    Raises:
        SqlError, CatalogError, OptionError: as :func:`compile_inserts`.
    """
    with duplicate_events(bool(value(options, "table.exec.source.cdc-events-duplicate"))):
        bound = [bind_insert(node, catalog, source) for node in inserts]
    inferred = [infer_changelog(_optimized(sink, options), options) for sink in bound]
    if value(options, "table.optimizer.non-deterministic-update.strategy") == "TRY_RESOLVE":
        inferred = [keep_lookups(sink) for sink in inferred]
    sinks = [assign_mini_batches(sink.rel, options) for sink in inferred]
    if _enabled(options, "table.optimizer.reuse-sub-plan-enabled") and _enabled(
        options, "table.optimizer.reuse-source-enabled"
    ):
        sinks = reuse_scans(sinks)
    physical = [infer_changelog(s, options) for s in sinks if isinstance(s, Sink)]
    return reuse_sinks([windows_in_two_phases(in_two_phases(s, options), options) for s in physical])


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
            yet), SQL2xx (functions, constants); each with its place.
        CatalogError: an unknown table, or one that cannot be read or written.
        OptionError: options of a table that do not fit its use.
    """
    return lower(physical_plans(inserts, catalog, options, source), options)


def query_schema(
    query: exp.Expr, catalog: CatalogManager, options: Mapping[str, str], source: str
) -> list[tuple[str, LogicalType]]:
    """Name and type of the columns of a query. Raises as :func:`compile_inserts`."""
    return list(QueryBinder(catalog, source).bind(query).fields)


def _optimized(sink: Sink, options: Mapping[str, str]) -> Sink:
    """The physical plan of ``sink``. Errors without a place of their own get that of the sink."""
    try:
        with session_time_zone(local_time_zone(options)):
            multi = value(options, "table.optimizer.multi-join.enabled")
            found = optimize(every_join(sink) if multi else sink, options)
    except StateplanError as error:
        error.place = error.place or sink.place
        raise
    assert isinstance(found, Sink)
    return found


def _enabled(options: Mapping[str, str], key: str) -> bool:
    return options.get(key, "true").lower() == "true"
