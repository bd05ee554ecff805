"""Compiling: from syntax trees of INSERTs and queries to the exec graph, and the schema of a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.settings import has_legacy_casts, is_batch, of_mode, value
from stateplan.common.types import LogicalType
from stateplan.execnodes.graph import ExecGraph
from stateplan.functions.casting import legacy_casts
from stateplan.planner.algebra.relations import Sink
from stateplan.planner.binding.queries import QueryBinder
from stateplan.planner.binding.sinks import bind_insert, bind_results
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import CatalogTable
from stateplan.planner.lowering import lower
from stateplan.planner.passes import Optimized, optimize, optimize_together
from stateplan.planner.physical import Physical
from stateplan.planner.side_outputs import as_flink_knows, check_hints, side_inserts, with_marks

Fields = list[tuple[str, LogicalType]]


@dataclass(frozen=True)
class InsertPlan:
    """An INSERT, or a query whose results somebody reads, as far as its plan does not depend on others.

    Attributes:
        node: what was planned.
        source: the text that its positions point into.
        bound: as it was bound, before anything is optimized.
        plan: the plan.
    """

    node: exp.Expr
    source: str
    bound: Sink
    plan: Optimized


@dataclass(frozen=True)
class JointPlan:
    """What runs together, planned.

    Attributes:
        bound: each INSERT as it was bound.
        physical: the physical plan of each INSERT, with changelog modes.
        graph: the exec graph of all of them, as Flink 2.3 compiles it, and of the side outputs that they have.
    """

    bound: Sequence[Sink]
    physical: Sequence[Physical]
    graph: ExecGraph


def plan_insert(node: exp.Expr, source: str, catalog: CatalogManager, options: Mapping[str, str]) -> InsertPlan:
    """The plan of one INSERT, as far as it does not depend on others that run with it.

    Args:
        node: the INSERT.
        source: the text that its positions point into.
        catalog: where names are looked up.
        options: the session's options that were set; others have their defaults.

    Raises:
        SqlError: SQL100 to SQL149 (names, columns, types, hints, changes a sink cannot take), SQL150 (not supported
            yet), SQL170, SQL171 (batch mode), SQL2xx (functions, constants); each with its place.
        CatalogError: an unknown table, or one that cannot be read or written.
        OptionError: options of a table that do not fit its use.
    """
    options = of_mode(options)
    duplicates = bool(value(options, "table.exec.source.cdc-events-duplicate"))
    with legacy_casts(has_legacy_casts(options)):
        sink = bind_insert(node, catalog, source, duplicates, is_batch(options))
        return InsertPlan(node, source, sink, optimize(sink, options))


def plan_query(
    query: exp.Expr,
    catalog: CatalogManager,
    options: Mapping[str, str],
    source: str,
    table_of: Callable[[Fields], CatalogTable],
) -> tuple[Fields, InsertPlan]:
    """A query as the INSERT of its results: name and type of its columns, and the plan.

    Args:
        query: the query that was read from ``source``.
        catalog, options: as for :func:`plan_insert`.
        source: its text.
        table_of: makes the table of the results. It is called once.

    Raises:
        StateplanError: as :func:`plan_insert`.
    """
    options = of_mode(options)
    duplicates = bool(value(options, "table.exec.source.cdc-events-duplicate"))
    with legacy_casts(has_legacy_casts(options)):
        fields, sink = bind_results(query, catalog, source, table_of, duplicates, is_batch(options))
        return fields, InsertPlan(query, source, sink, optimize(sink, options))


def plan_together(inserts: Sequence[InsertPlan], catalog: CatalogManager, options: Mapping[str, str]) -> JointPlan:
    """The plan of one INSERT, or of all INSERTs of a statement set. Raises the same errors as :func:`plan_insert`."""
    physical = optimize_together([insert.plan for insert in inserts], of_mode(options))
    graph = lower(physical, of_mode(options))
    for insert in inserts:
        check_hints(insert.node, insert.source, graph, options)
    side = side_inserts(graph, catalog, options)
    if side:
        more = [plan_insert(node, text, catalog, options).plan for _, node, text in side]
        outputs = [plan for one in more for plan in optimize_together([one], of_mode(options))]
        graph = with_marks(lower([*physical, *outputs], of_mode(options)), [kind for kind, *_ in side])
    return JointPlan([insert.bound for insert in inserts], physical, as_flink_knows(graph))


def query_schema(query: exp.Expr, catalog: CatalogManager, options: Mapping[str, str], source: str) -> Fields:
    """Name and type of the columns of a query. Raises the same errors as :func:`plan_insert`."""
    return list(QueryBinder(catalog, source, batch=is_batch(options)).bind(query).fields)
