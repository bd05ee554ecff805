"""A session: its catalog, its options, and everything that can be done in it. The names are PyFlink's.

    >>> env = TableEnvironment.create()
    >>> env.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'print')").get_result_kind()
    <ResultKind.SUCCESS: 0>

Nothing here loads an engine until a job is started.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from stateplan.common.errors import StateplanError
from stateplan.common.settings import Configuration, text_of_option
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.dialect import nodes
from stateplan.planner.dialect.errors import too_deep
from stateplan.plans.advice import ExplainDetail
from stateplan.runtime.failures import coded_error
from stateplan.session.catalog_statements import connect_catalog
from stateplan.session.compiled_plan import CompiledPlan, PlanReference, StatementSet, compile_plan
from stateplan.session.habits import OF_ENVIRONMENT, AttributeHints, Settings, check_spark, options_of
from stateplan.session.host import Host
from stateplan.session.jobs import JOBS, Jobs
from stateplan.session.names import Names
from stateplan.session.results import TableResult
from stateplan.session.script import ScriptStatement, read_statement
from stateplan.session.session import Session
from stateplan.session.statements import run_statement
from stateplan.session.table import Table
from stateplan.session.tables import Tables

if TYPE_CHECKING:
    from stateplan.runtime.job import OnProgress
    from stateplan.runtime.spark.session import SparkSession

__all__ = ["CompiledPlan", "ExplainDetail", "PlanReference", "StatementSet", "Table", "TableEnvironment"]


class TableEnvironment(Tables, Names, AttributeHints):
    """Runs SQL: a session with its tables, its options and its jobs, under PyFlink's names.

    Use :meth:`create`, :meth:`execute_sql` for any statement, :meth:`sql_query` for a query as a table,
    :meth:`compile_plan_sql` and :meth:`load_plan` for plans.

        >>> env = TableEnvironment.create({"table.exec.state.ttl": "1 h"})
        >>> env.execute_sql("SELECT 1 + 1 AS two").print()  # doctest: +SKIP

    Attributes:
        session: what it consists of: its catalog and options, its compiler, what starts its jobs.
    """

    _REPLACEMENTS = OF_ENVIRONMENT

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
        host = host or Host()
        config = Configuration(keep_unknown=host.keep_unknown)
        for key, value in options_of(options).items():
            config.set(key, host.check_option(key, text_of_option(key, value)))
        self.session = Session(config, JOBS if jobs is None else jobs, host, console, on_progress, spark)
        connect_catalog(self.session.catalog, host, config)

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
            console: gets notes about running jobs, a line each; None to drop them.
            on_progress: gets the figures of a running job, about five times a second, while something waits for it.
            spark: a session of yours to run jobs in. Each job gets a session of its own in it, and it stays as it is.
                By default jobs run in the Spark of this process, or start one.
            jobs: those that SHOW JOBS lists; by default of all sessions of this process.
            host: what the session is part of.

        Raises:
            OptionError: OPT001 unknown option, OPT002 a value that cannot be honoured, OPT105 a malformed one, OPT007
                an argument of another type.
        """
        return cls(options, console=console, on_progress=on_progress, spark=spark, jobs=jobs, host=host)

    def __repr__(self) -> str:
        place = f"{self.catalog.current_catalog}.{self.catalog.current_database}"
        return f"TableEnvironment({place}, {self.session.config.redacted()})"

    def get_config(self) -> Configuration:
        """The session's options."""
        return self.session.config

    @property
    def catalog(self) -> CatalogManager:
        """Catalogs, databases, tables and views of the session."""
        return self.session.catalog

    # statements

    def execute_sql(self, statement: str) -> TableResult:
        """Runs one statement. A job that it starts continues in the background: see :meth:`TableResult.wait`.

        Raises:
            StateplanError: whatever is wrong with it; then nothing has been changed.
        """
        return self.execute_statement(read_statement(statement))

    def execute_statement(self, statement: ScriptStatement) -> TableResult:
        """Runs one statement of a script. Raises StateplanError, with the place in the script."""
        try:
            with coded_error():
                return run_statement(self.session, statement)
        except StateplanError as error:
            if error.place is not None and error.place.file is None and error.place.source == statement.source:
                error.place = replace(error.place, file=statement.file)
            raise
        except RecursionError:
            raise too_deep(statement.file) from None

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
        return StatementSet(self.session)

    # plans

    def compile_plan_sql(self, statement: str) -> CompiledPlan:
        """The plan of an INSERT or of ``[EXECUTE] STATEMENT SET BEGIN ... END``.

        Raises:
            SqlError: SQL012, for another statement.
            StateplanError: whatever is wrong with it.
        """
        return compile_plan(self.session, statement)

    def load_plan(self, reference: PlanReference | str | os.PathLike[str]) -> CompiledPlan:
        """A plan from a file, whose path or URL may be given as it is, or from a text. Raises PlanError."""
        if not isinstance(reference, PlanReference):
            reference = PlanReference.from_file(reference)
        if reference.file is not None:
            reference = PlanReference(file=self.session.host.plan_file(reference.file))
        return CompiledPlan(self.session, reference.load())

    def execute_plan(self, path: str | os.PathLike[str]) -> TableResult:
        """Runs the plan in a file. Raises StateplanError."""
        return self.load_plan(PlanReference.from_file(path)).execute()
