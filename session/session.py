"""What a session consists of: statements, tables and plans work with these parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING

from stateplan.common.errors import Place, SqlError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.settings import Configuration
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.session.host import Host
from stateplan.session.jobs import Jobs
from stateplan.session.results import TableResult, ok
from stateplan.session.script import Insert, Inserts

if TYPE_CHECKING:
    from stateplan.runtime.job import OnProgress
    from stateplan.runtime.spark.session import SparkSession
    from stateplan.session.compiler import Compiler
    from stateplan.session.starter import JobStarter


@dataclass(eq=False)
class Session:
    """A session.

    Attributes:
        config: its options.
        jobs: those that SHOW JOBS lists.
        host: what it is part of.
        console, on_progress, spark: as ``TableEnvironment`` has them.
        catalog: catalogs, databases, tables, views and functions.
        statement_set: the INSERTs since BEGIN STATEMENT SET; None if no set is open.
    """

    config: Configuration
    jobs: Jobs
    host: Host
    console: Callable[[str], None] | None = None
    on_progress: OnProgress | None = None
    spark: SparkSession | None = None
    catalog: CatalogManager = field(default_factory=CatalogManager)
    statement_set: list[Insert] | None = None

    @cached_property
    def compiler(self) -> Compiler:
        """Plans its statements. Who only declares tables does not load the planner."""
        from stateplan.session.compiler import Compiler

        return Compiler(self.catalog, self.config)

    def check_no_open_set(self, place: Place | None = None) -> None:
        """Raises SqlError SQL007, for what is not allowed between BEGIN STATEMENT SET and END."""
        if self.statement_set is not None:
            raise SqlError("SQL007.in_set", shows="SHOW, " if self.host.shows_in_sets else "", place=place)

    def insert(self, insert: Insert) -> TableResult:
        """Starts an INSERT, or adds it to the open statement set. Raises StateplanError."""
        if self.statement_set is None:
            return self.starter.inserts(Inserts((insert,), insert.sql), "INSERT")
        self.compiler.prepare(insert)
        self.statement_set.append(insert)
        return ok("INSERT")

    @cached_property
    def starter(self) -> JobStarter:
        """Starts its jobs."""
        from stateplan.session.starter import JobStarter

        return JobStarter(
            self.catalog,
            self.config,
            self.host,
            self.jobs,
            self.compiler,
            self.console,
            self.on_progress,
            self.spark,
        )
