"""The compiler of a session: from statements that were read to plans, and what EXPLAIN shows of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from sqlglot import exp

from stateplan.common.errors import CatalogError, Place, PlanError, SqlError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.redaction import redacted
from stateplan.common.settings import Configuration, is_batch, value
from stateplan.connectors.results import Results
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    CatalogTable,
    Column,
    ObjectIdentifier,
    TableSchema,
)
from stateplan.planner.compile import (
    Fields,
    InsertPlan,
    JointPlan,
    plan_insert,
    plan_query,
    plan_together,
    query_schema,
)
from stateplan.planner.dialect.errors import too_deep
from stateplan.planner.positions import place_of, text_of
from stateplan.plans.advice import ExplainDetail, explain_details
from stateplan.runtime.failures import coded_error
from stateplan.session.plan_secrets import hide_secrets
from stateplan.session.results import as_column, distinct_names
from stateplan.session.script import Insert, Inserts

if TYPE_CHECKING:
    from stateplan.common.secrets import Secrets
    from stateplan.execnodes.graph import ExecGraph
    from stateplan.plans.document import PlanDocument


@dataclass(frozen=True)
class Plan:
    """What runs as one job.

    Attributes:
        sql: its text, without secrets.
        compilation: its plans; the exec graph has the whole of every table, and secrets.
        graph: the exec graph with references in place of secrets.
        secrets: what these stand for.
    """

    sql: str
    compilation: JointPlan
    graph: ExecGraph
    secrets: Secrets


@dataclass(frozen=True)
class QueryPlan(Plan):
    """A query, whose rows go to the reader of its results.

    Attributes:
        fields: name and type of its columns.
    """

    fields: Fields


class Compiler:
    """Plans the statements of a session.

    Args:
        catalog: the catalog of the session.
        config: its options.
    """

    def __init__(self, catalog: CatalogManager, config: Configuration) -> None:
        self._catalog = catalog
        self._config = config
        self._anonymous = itertools.count(1)
        self._prepared_plans: WeakKeyDictionary[Insert, tuple[InsertPlan, Mapping[str, str]]] = WeakKeyDictionary()
        self._secrets: WeakKeyDictionary[PlanDocument, Secrets] = WeakKeyDictionary()

    @property
    def _options(self) -> dict[str, str]:
        """Those of the session, with plans that hold all there is to know of a table: what of it a plan file holds is
        decided when there is one."""
        return {**self._config.to_dict(), "table.plan.compile.catalog-objects": "ALL"}

    def schema(self, query: exp.Expr, source: str) -> Fields:
        """Name and type of the columns of a query that was read from ``source``. Raises StateplanError."""
        with _within_depth(source):
            return query_schema(query, self._catalog, self._config.to_dict(), source)

    def prepare(self, insert: Insert) -> None:
        """Plans an INSERT that others will run with, as far as it does not depend on them. Raises StateplanError."""
        options = self._options
        with _within_depth(insert.source):
            plan = plan_insert(insert.node, insert.source, self._catalog.as_permanent(), options)
        self._prepared_plans[insert] = plan, options

    def inserts(self, inserts: Inserts) -> Plan:
        """The plan of INSERTs. One that is prepared is planned again only if options have changed since. Raises
        StateplanError."""
        catalog, options = self._catalog.as_permanent(), self._options
        plans = []
        with _within_depth(inserts.inserts[0].source):
            for insert in inserts.inserts:
                plan, options_then = self._prepared_plans.get(insert, (None, None))
                if plan is None or options_then != options:
                    plan = plan_insert(insert.node, insert.source, catalog, options)
                plans.append(plan)
            plan_result = plan_together(plans, catalog, options)
        graph, secrets = hide_secrets(plan_result.graph, self._catalog)
        sql = ";\n".join(insert.sql for insert in inserts.inserts)
        return Plan(redacted(sql), plan_result, graph, secrets)

    def query(self, query: exp.Expr, source: str, channel: str = "") -> QueryPlan:
        """The plan of a query.

        Args:
            query: the query that was read from ``source``.
            source: its text.
            channel: id of what gets the rows.

        Raises:
            SqlError: SQL100, it has no columns.
            StateplanError: whatever is wrong with it.
        """
        catalog, options = self._catalog.as_permanent(), self._options
        name = ObjectIdentifier(DEFAULT_CATALOG, DEFAULT_DATABASE, f"*anonymous_collect${next(self._anonymous)}*")

        def table_of(fields: Fields) -> CatalogTable:
            if not fields:
                raise SqlError("SQL100.no_columns", place=place_of(query, source))
            names = distinct_names([name for name, _ in fields])
            columns = (
                Column(name, as_column(kind).as_nullable()) for name, (_, kind) in zip(names, fields, strict=True)
            )
            return CatalogTable(name, TableSchema(tuple(columns)), {"connector": Results.name, "channel": channel})

        with _within_depth(source):
            fields, plan = plan_query(query, catalog, options, source, table_of)
            plan_result = plan_together([plan], catalog, options)
        graph, secrets = hide_secrets(plan_result.graph, self._catalog)
        return QueryPlan(redacted(text_of(query, source)), plan_result, graph, secrets, fields)

    def document(self, inserts: Inserts) -> PlanDocument:
        """The plan of INSERTs as a new document.

        Raises:
            PlanError: PLAN185, in batch mode.
            CatalogError: CAT070, over an in-memory table.
            StateplanError: whatever is wrong with them.
        """
        from stateplan.connectors.arrow import is_in_memory
        from stateplan.execnodes.node_tables import table_of
        from stateplan.planner.catalog.resolved_tables import reduce_tables
        from stateplan.plans.document import PlanDocument
        from stateplan.plans.plan_metadata import PlanFacts, schema_hashes

        self.require_streaming(inserts.place)
        plan = self.inserts(inserts)
        for operator in plan.graph.nodes:
            table = table_of(operator)
            if table is not None and table.resolved_table is not None and is_in_memory(table.resolved_table.options):
                raise CatalogError("CAT070", place=inserts.place)
        objects = value(self._config.to_dict(), "table.plan.compile.catalog-objects")
        facts = PlanFacts.of(redacted(inserts.sql), schema_hashes(plan.graph))
        document = PlanDocument.from_graph(reduce_tables(plan.graph, self._catalog, objects), facts)
        self._secrets[document] = plan.secrets
        return document

    def require_streaming(self, place: Place | None = None) -> None:
        """Raises PlanError PLAN185 in batch mode, which has no compiled plans."""
        if is_batch(self._config.to_dict()):
            raise PlanError("PLAN185", place=place)

    def secrets_of(self, document: PlanDocument) -> Secrets | None:
        """What references in a plan stand for that this session has compiled."""
        return self._secrets.get(document)

    def explain(self, inserts: Inserts, details: Sequence[str] = ()) -> str:
        """What EXPLAIN shows of INSERTs: the operators as a tree, and their states.

        Args:
            inserts: the inserts that run as one job.
            details: names of explain details, in small or capital letters.

        Raises:
            PlanError: PLAN180, PLAN181, for a detail that there is not.
            StateplanError: whatever is wrong with the statement.
        """
        wanted_details = explain_details(details)
        return self._explanation(self.inserts(inserts), wanted_details)

    def explain_query(self, query: exp.Expr, source: str, details: Sequence[str] = ()) -> str:
        """What EXPLAIN shows of a query that was read from ``source``. Raises the same errors as :meth:`explain`."""
        wanted_details = explain_details(details)
        return self._explanation(self.query(query, source), wanted_details)

    def _explanation(self, plan: Plan, details: frozenset[ExplainDetail]) -> str:
        from stateplan.session.explain import explain_text

        options = self._config.to_dict()
        return explain_text(plan.compilation, plan.graph, options, details, isinstance(plan, QueryPlan))


@contextmanager
def _within_depth(source: str) -> Iterator[None]:
    """Raises SqlError SQL009, for a statement that is nested too deep, and what a library raises with its code."""
    try:
        with coded_error():
            yield
    except RecursionError:
        raise too_deep() from None
