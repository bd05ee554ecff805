"""A session: its catalog, its options, and everything that can be done in it. The names are PyFlink's.

    >>> env = TableEnvironment.create()
    >>> env.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'print')").get_result_kind()
    <ResultKind.SUCCESS: 0>

Nothing here loads an engine until a job is started.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from sqlglot import exp

from stateplan.execnodes.changelog import INSERT_ONLY
from stateplan.execnodes.connectors.results import ResultChannel, Results
from stateplan.execnodes.errors import CatalogError, Place, PlanError, SqlError, StateplanError
from stateplan.execnodes.redaction import redacted
from stateplan.execnodes.runtime.failures import coded
from stateplan.execnodes.settings import Configuration, is_batch, of_mode, text_of_option, value
from stateplan.execnodes.zone import local_time_zone
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    CatalogTable,
    Column,
    ObjectIdentifier,
    TableSchema,
)
from stateplan.planner.dialect import nodes
from stateplan.planner.dialect.errors import too_deep
from stateplan.planner.positions import place_of, text_of
from stateplan.planner.session.catalog_statements import connect_catalog
from stateplan.planner.session.compiled_plan import (
    CompiledPlan,
    PlanReference,
    StatementSet,
    compile_plan,
)
from stateplan.planner.session.context import Around
from stateplan.planner.session.habits import OF_ENVIRONMENT, Hinted, Settings, check_spark, options_of
from stateplan.planner.session.host import Host
from stateplan.planner.session.jobs import JOBS, JobRecord, Jobs
from stateplan.planner.session.names import Names
from stateplan.planner.session.results import ResultKind, TableResult, as_column, distinct_names
from stateplan.planner.session.script import ScriptStatement, is_query, read_statement
from stateplan.planner.session.statements import run_statement
from stateplan.planner.session.table import Table
from stateplan.planner.session.tables import Tables
from stateplan.plans.advice import ExplainDetail, explain_details

if TYPE_CHECKING:
    from stateplan.execnodes.graph import ExecGraph
    from stateplan.execnodes.runtime.job import Job, OnProgress
    from stateplan.execnodes.runtime.spark.session import SparkSession
    from stateplan.execnodes.secrets import Secrets
    from stateplan.execnodes.types import LogicalType
    from stateplan.plans.document import PlanDocument

__all__ = ["CompiledPlan", "ExplainDetail", "PlanReference", "StatementSet", "Table", "TableEnvironment"]


class TableEnvironment(Tables, Names, Hinted):
    """Runs SQL: a session with its tables, its options and its jobs, under PyFlink's names.

    Use :meth:`create`, :meth:`execute_sql` for any statement, :meth:`sql_query` for a query as a table,
    :meth:`compile_plan_sql` and :meth:`load_plan` for plans.

        >>> env = TableEnvironment.create({"table.exec.state.ttl": "1 h"})
        >>> env.execute_sql("SELECT 1 + 1 AS two").print()  # doctest: +SKIP

    Attributes:
        catalog: catalogs, databases, tables and views of the session.
        console: gets notes about running jobs, a line each; None to drop them.
        on_progress: gets the figures of a running job, about five times a second, while something waits for it.
        spark: the session that jobs run in; None for the Spark of this process.
        jobs: those that SHOW JOBS lists: of all sessions of this process, unless another list was given.
        host: what the session is part of.
        statement_set: the INSERTs since BEGIN STATEMENT SET; None when no set is open.
    """

    _INSTEAD = OF_ENVIRONMENT

    def __init__(
        self,
        options: Settings | None = None,
        *,
        console: Callable[[str], None] | None = None,
        on_progress: OnProgress | None = None,
        spark: SparkSession | None = None,
        jobs: Jobs | None = None,
        host: Host | None = None,
    ) -> None:
        check_spark(spark)
        self.jobs = JOBS if jobs is None else jobs
        self.host = host or Host()
        self.statement_set: list[str] | None = None
        self.catalog = CatalogManager()
        self.console = console
        self.on_progress = on_progress
        self.spark = spark
        self._config = Configuration(keep_unknown=self.host.keep_unknown)
        for key, given in options_of(options).items():
            self._config.set(key, self.host.check_option(key, text_of_option(key, given)))
        self._anonymous = itertools.count(1)
        self._compiled: WeakKeyDictionary[PlanDocument, Secrets] = WeakKeyDictionary()
        connect_catalog(self.catalog, self.host, self._config)

    @classmethod
    def create(
        cls,
        options: Settings | None = None,
        *,
        console: Callable[[str], None] | None = None,
        on_progress: OnProgress | None = None,
        spark: SparkSession | None = None,
        jobs: Jobs | None = None,
        host: Host | None = None,
    ) -> TableEnvironment:
        """A new session with these options set.

        Args:
            options: Flink's, and ``spark.*`` for Spark: a dict or :class:`EnvironmentSettings`.
            console, on_progress: see the class.
            spark: a session of yours to run jobs in. Each job gets a session of its own in it, and it stays as it is.
                By default jobs run in the Spark of this process, or start one.
            jobs, host: see the class.

        Raises:
            OptionError: OPT001 unknown option, OPT002 a value that cannot be honoured, OPT105 a malformed one, OPT007
                an argument of another type.
        """
        return cls(options, console=console, on_progress=on_progress, spark=spark, jobs=jobs, host=host)

    def get_config(self) -> Configuration:
        """The session's options."""
        return self._config

    # statements

    def execute_sql(self, statement: str) -> TableResult:
        """Runs one statement. A job that it starts goes on in the background: see :meth:`TableResult.wait`.

        Raises:
            StateplanError: whatever is wrong with it; then nothing has been changed.
        """
        return self.execute_statement(read_statement(statement))

    def execute_statement(self, statement: ScriptStatement) -> TableResult:
        """Runs one statement of a script. Raises StateplanError, with the place in the script."""
        try:
            with coded():
                return run_statement(self, statement)
        except StateplanError as error:
            if error.place is not None and error.place.file is None and error.place.source == statement.source:
                error.place = replace(error.place, file=statement.file)
            raise
        except RecursionError:
            raise too_deep(statement.source, statement.file) from None

    def explain_sql(self, statement: str, *details: str) -> str:
        """The plan of a query, an INSERT or a statement set, for people.

        Args:
            statement: SQL, without the word EXPLAIN.
            details: :class:`ExplainDetail`, or their names.

        Raises:
            PlanError: PLAN180, PLAN181, for a detail that there is not.
            StateplanError: whatever is wrong with the statement.
        """
        read = read_statement(statement)
        result = self.execute_statement(
            ScriptStatement(nodes.Explain(this=read.node, details=list(details) or None), read.text, read.source)
        )
        return str(result.rows[0][0])

    def create_statement_set(self) -> StatementSet:
        """An empty statement set."""
        return StatementSet(self)

    # plans

    def compile_plan_sql(self, statement: str) -> CompiledPlan:
        """The plan of an INSERT or of ``[EXECUTE] STATEMENT SET BEGIN ... END``.

        Raises:
            SqlError: SQL012, for another statement.
            StateplanError: whatever is wrong with it.
        """
        return compile_plan(self, statement)

    def load_plan(self, reference: PlanReference | str | os.PathLike[str]) -> CompiledPlan:
        """A plan from a file, whose path or URL may be given as it is, or from a text. Raises PlanError."""
        if not isinstance(reference, PlanReference):
            reference = PlanReference.from_file(reference)
        if reference.file is not None:
            reference = PlanReference(file=self.host.plan_file(reference.file))
        return CompiledPlan(self, reference.load())

    def execute_plan(self, path: str | os.PathLike[str]) -> TableResult:
        """Runs the plan in a file. Raises StateplanError."""
        return self.load_plan(PlanReference.from_file(path)).execute()

    def compile_document(self, node: exp.Expr, source: str) -> PlanDocument:
        """The plan of a statement that was read from ``source``, as a new document.

        Raises:
            PlanError: PLAN185, in batch mode.
            CatalogError: CAT070, over an in-memory table.
            StateplanError: whatever is wrong with the statement.
        """
        from stateplan.execnodes.connectors.arrow import is_in_memory
        from stateplan.execnodes.node_tables import table_of
        from stateplan.planner.catalog.resolved_tables import reduce_tables
        from stateplan.planner.session.plan_secrets import hide_secrets
        from stateplan.plans.document import PlanDocument
        from stateplan.plans.facts import PlanFacts, schema_hashes

        inserts, holder = inserts_of(node, source)
        self._require_streaming(place_of(node, source))
        graph = self.compile_graph(inserts, source)
        for operator in graph.nodes:
            table = table_of(operator)
            if table is not None and table.resolved_table is not None and is_in_memory(table.resolved_table.options):
                raise CatalogError("CAT070", place=place_of(holder, source))
        objects = value(self._config.to_dict(), "table.plan.compile.catalog-objects")
        graph, secrets = hide_secrets(graph, self.catalog)
        facts = PlanFacts.of(redacted(text_of(holder, source)), schema_hashes(graph))
        document = PlanDocument.from_graph(reduce_tables(graph, self.catalog, objects), facts)
        self._compiled[document] = secrets
        return document

    def _require_streaming(self, place: Place | None = None) -> None:
        """Raises PlanError PLAN185 in batch mode, which has no compiled plans."""
        if is_batch(self._config.to_dict()):
            raise PlanError("PLAN185", place=place)

    def compile_graph(self, inserts: Sequence[exp.Insert], source: str) -> ExecGraph:
        """The exec graph of INSERTs that were read from ``source``, with the whole of every table, secrets too: what
        of it a plan file holds is decided when there is one. Raises StateplanError."""
        from stateplan.planner.compile import compile_inserts

        return compile_inserts(inserts, self.catalog.as_permanent(), _whole_tables(self._config.to_dict()), source)

    def query_fields(self, query: exp.Expr, source: str) -> list[tuple[str, LogicalType]]:
        """Name and type of the columns of a query that was read from ``source``. Raises StateplanError."""
        from stateplan.planner.compile import query_schema

        return query_schema(query, self.catalog, self._config.to_dict(), source)

    # jobs

    def run_inserts(
        self, inserts: Sequence[exp.Insert], source: str, statement: str, around: Around | None = None
    ) -> TableResult:
        """Starts INSERTs that were read from ``source`` as one job, ``around`` the start once they are planned. Raises
        StateplanError."""
        from stateplan.planner.session.plan_secrets import hide_secrets
        from stateplan.plans.document import PlanDocument
        from stateplan.plans.facts import PlanFacts

        graph, secrets = hide_secrets(self.compile_graph(inserts, source), self.catalog)
        document = PlanDocument.from_graph(graph, PlanFacts())
        notes: list[str] = []
        text = redacted(";\n".join(text_of(insert, source) for insert in inserts))
        record = JobRecord(self._job_name(graph), text, document.text)
        with around or nullcontext():
            job = self._start(document, graph, notes, record, secrets)
        return self._sink_result(job, notes, statement, document)

    def run_query(self, query: exp.Expr, source: str) -> TableResult:
        """Starts a query; its rows are collected from the result. Raises StateplanError."""
        from stateplan.planner.session.plan_secrets import hide_secrets

        fields = self.query_fields(query, source)
        if not fields:
            raise SqlError("SQL100.none", place=place_of(query, source))
        channel = ResultChannel()
        with self._collect_sink(query, fields, channel.id) as insert:
            graph, secrets = hide_secrets(self.compile_graph([insert], source), self.catalog)
        notes: list[str] = []
        text = redacted(text_of(query, source))
        name = self._config.to_dict().get("pipeline.name") or text
        job = self._start_query(graph, notes, JobRecord(name, text), secrets)
        job.when_over(lambda ended: channel.end(ended.error))
        return TableResult(
            tuple(name for name, _ in fields),
            tuple(kind for _, kind in fields),
            [],
            ResultKind.SUCCESS_WITH_CONTENT,
            job,
            tuple(notes),
            "SELECT",
            channel,
            graph.sinks[0].takes(0) == INSERT_ONLY,
            local_time_zone(self._config.to_dict()),
        )

    @contextmanager
    def _collect_sink(
        self, query: exp.Expr, fields: Sequence[tuple[str, LogicalType]], channel: str = ""
    ) -> Iterator[exp.Insert]:
        """An INSERT of ``query`` into a nameless table for the reader of a channel, which is there inside the block."""
        names = distinct_names([name for name, _ in fields])
        columns = tuple(
            Column(name, as_column(kind).as_nullable()) for name, (_, kind) in zip(names, fields, strict=True)
        )
        parts = (DEFAULT_CATALOG, DEFAULT_DATABASE, f"*anonymous_collect${next(self._anonymous)}*")
        table = CatalogTable(
            ObjectIdentifier(*parts),
            TableSchema(columns),
            {"connector": Results.name, "channel": channel},
            temporary=True,
        )
        catalog, database, name = (exp.to_identifier(part, quoted=True) for part in parts)
        self.catalog.create(table)
        try:
            yield exp.Insert(this=exp.Table(this=name, db=database, catalog=catalog), expression=query)
        finally:
            self.catalog.drop(parts, kind="TABLE", temporary=True)

    def explain_node(self, node: exp.Expr, source: str, details: Sequence[str] = ()) -> str:
        """What EXPLAIN shows of a query, an INSERT or a statement set: the operators as a tree, and their states.

        Args:
            node: the statement, which was read from ``source``.
            source: its text.
            details: names of explain details, in small or capital letters.

        Raises:
            PlanError: PLAN180, PLAN181, for a detail that there is not.
            StateplanError: whatever is wrong with the statement.
        """
        wanted = explain_details(details)
        if not is_query(node):
            return self._explained(inserts_of(node, source)[0], source, wanted, query=False)
        with self._collect_sink(node, self.query_fields(node, source)) as insert:
            return self._explained([insert], source, wanted, query=True)

    def _explained(
        self, inserts: Sequence[exp.Insert], source: str, details: frozenset[ExplainDetail], query: bool
    ) -> str:
        from stateplan.planner.compile import physical_plans
        from stateplan.planner.session.explain import OF_PHYSICAL_PLAN, explain_text
        from stateplan.planner.session.plan_secrets import hide_secrets

        options, plans = self._config.to_dict(), []
        if details & OF_PHYSICAL_PLAN:
            plans = physical_plans(inserts, self.catalog.as_permanent(), _whole_tables(options), source)
        graph, _ = hide_secrets(self.compile_graph(inserts, source), self.catalog)
        return explain_text(plans, graph, options, details, query)

    def run_document(self, document: PlanDocument, record: JobRecord | None = None) -> TableResult:
        """Starts the job of a plan, with its tables as the session's catalog has them.

        Args:
            document: the plan.
            record: of the job that is to be started again.

        Raises:
            PlanError: PLAN185, in batch mode.
            CatalogError: CAT050 to CAT054, when plan and catalog do not fit together.
            OptionError: OPT123, the plan has a reference to a secret of another session.
            StateplanError: when the job cannot be started.
        """
        from stateplan.planner.session.plan_secrets import clear_text_notes, hide_secrets, without_secrets
        from stateplan.planner.session.restart import stale_notes
        from stateplan.planner.session.restore import restore
        from stateplan.plans.document import PlanDocument
        from stateplan.plans.facts import PlanFacts

        self._require_streaming()
        options = self._config.to_dict()
        with document.placing():
            restored = restore(document, self.catalog, options)
            notes = [str(w) for w in document.warnings] + list(restored.notes)
            notes += dict.fromkeys(stale_notes(document, self.catalog, options))
            notes += dict.fromkeys(clear_text_notes(document))
            graph, secrets = hide_secrets(restored.graph, self.catalog, self._compiled.get(document))
            if record is None:
                whole = PlanDocument.from_graph(graph, document.facts or PlanFacts())
                record = JobRecord(self._job_name(graph), "EXECUTE PLAN", whole.text)
            job = self._start(without_secrets(document, secrets), graph, notes, record, secrets)
        return self._sink_result(job, notes, "EXECUTE PLAN", document)

    def _job_name(self, graph: ExecGraph) -> str:
        """``pipeline.name``, or what Flink calls a job that writes to these tables."""
        from stateplan.execnodes.node_tables import table_of

        tables = [table.summary for node in graph.sinks if (table := table_of(node)) is not None]
        return self._config.to_dict().get("pipeline.name") or f"insert-into_{','.join(tables)}"

    def _start_query(self, graph: ExecGraph, notes: list[str], record: JobRecord, secrets: Secrets) -> Job:
        """Starts the job of a query, and lists it: in this process if it is one for it, else in Spark."""
        from stateplan.execnodes.node_tables import with_secrets
        from stateplan.execnodes.runtime.local.job import execute_locally

        job: Job | None = None
        if self.spark is None:
            self.host.check_graph(with_secrets(graph, secrets))
            options = of_mode(self._config.to_dict())
            job = execute_locally(graph, options, secrets=secrets, console=self.console, on_progress=self.on_progress)
        if job is not None:
            self.jobs.add(job, record)
            return job
        from stateplan.plans.document import PlanDocument
        from stateplan.plans.facts import PlanFacts

        document = PlanDocument.from_graph(graph, PlanFacts())
        return self._start(document, graph, notes, record, secrets, is_query=True)

    def _start(
        self,
        document: PlanDocument,
        graph: ExecGraph,
        notes: list[str],
        record: JobRecord,
        secrets: Secrets,
        is_query: bool = False,
    ) -> Job:
        """Starts the job of a plan whose tables are complete, and lists it.

        Args:
            document: that is written into the checkpoint; without secrets, as ``graph``.
            graph: that runs.
            notes: gets what happens to existing state.
            record: of the job.
            secrets: of its tables.
            is_query: whether it is a SELECT, for which budgets of states do not count.
        """
        from stateplan.execnodes.node_tables import with_secrets
        from stateplan.execnodes.runtime.streaming import execute
        from stateplan.execnodes.runtime.user_functions import bind_functions
        from stateplan.planner.session.budgets import limits_of
        from stateplan.planner.session.restart import continue_from

        options = of_mode(self._config.to_dict())
        self.host.check_graph(with_secrets(graph, secrets))
        limits = limits_of(document, options, not is_query)
        graph = bind_functions(graph, self.functions.of_plan)
        record.functions = tuple(f for f in self.functions.all() if f.reference is not None)
        with self.jobs.starting(record, options) as (settings, begins):

            def on_start(job_id: str, checkpoint: str) -> None:
                self.host.check_start()
                begins(job_id, checkpoint)

            job = execute(
                graph,
                settings,
                plan_text=document.text,
                console=self.console,
                on_progress=self.on_progress,
                check_restart=lambda old_text: continue_from(old_text, document, options, notes),
                spark=self.spark,
                job_id=record.id,
                secrets=secrets,
                on_start=on_start,
                limits=limits,
            )
        self.jobs.add(job, record)
        return job

    def _sink_result(self, job: Job, notes: Sequence[str], statement: str, document: PlanDocument) -> TableResult:
        from stateplan.execnodes.node_tables import table_of
        from stateplan.execnodes.types import BIGINT

        names = [table.summary for node in document.graph.sinks if (table := table_of(node)) is not None]
        columns = tuple(distinct_names(names))
        result = TableResult(
            columns,
            (BIGINT,) * len(columns),
            [(-1,) * len(columns)],
            ResultKind.SUCCESS_WITH_CONTENT,
            job,
            tuple(notes),
            statement,
        )
        if self._config.value("table.dml-sync"):
            self.host.wait(job)
        return result


def inserts_of(node: exp.Expr, source: str) -> tuple[list[exp.Insert], exp.Expr]:
    """The INSERTs of an INSERT, a statement set or EXECUTE of one of them, and the node whose text is the plan's SQL.

    Raises:
        SqlError: SQL012, for anything else.
    """
    if isinstance(node, nodes.ExecuteStatement):
        node = node.this
    if isinstance(node, exp.Insert):
        return [node], node
    if isinstance(node, nodes.StatementSet):
        return list(node.expressions), node
    raise SqlError("SQL012", place=place_of(node, source))


def _whole_tables(options: Mapping[str, str]) -> dict[str, str]:
    """The options with plans that hold all there is to know of a table."""
    return {**options, "table.plan.compile.catalog-objects": "ALL"}
