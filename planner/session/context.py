"""The parts of a session that statements, plans and statement sets use, and one statement being run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, TypeAlias

from sqlglot import exp

from stateplan.execnodes.errors import Place
from stateplan.execnodes.settings import Configuration
from stateplan.planner.catalog.functions import FunctionCatalog
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.positions import place_of
from stateplan.planner.session.host import Host
from stateplan.planner.session.jobs import Jobs
from stateplan.planner.session.results import TableResult
from stateplan.planner.session.script import ScriptStatement

if TYPE_CHECKING:
    from stateplan.execnodes.graph import ExecGraph
    from stateplan.execnodes.types import LogicalType
    from stateplan.plans.document import PlanDocument


Around: TypeAlias = AbstractContextManager[None]
"""What is done around the start of a job."""


class Session(Protocol):
    """A session; :class:`planner.session.environment.TableEnvironment` is the one there is."""

    @property
    def catalog(self) -> CatalogManager: ...

    @property
    def functions(self) -> FunctionCatalog: ...

    @property
    def jobs(self) -> Jobs: ...

    @property
    def host(self) -> Host: ...

    statement_set: list[str] | None

    def get_config(self) -> Configuration: ...

    def execute_sql(self, statement: str) -> TableResult: ...

    def explain_sql(self, statement: str, *details: str) -> str: ...

    def execute_plan(self, path: str | os.PathLike[str]) -> TableResult: ...

    def compile_graph(self, inserts: Sequence[exp.Insert], source: str) -> ExecGraph: ...

    def compile_document(self, node: exp.Expr, source: str) -> PlanDocument: ...

    def query_fields(self, query: exp.Expr, source: str) -> list[tuple[str, LogicalType]]: ...

    def explain_node(self, node: exp.Expr, source: str, details: Sequence[str] = ()) -> str: ...

    def run_inserts(
        self, inserts: Sequence[exp.Insert], source: str, statement: str, around: Around | None = None
    ) -> TableResult: ...

    def run_query(self, query: exp.Expr, source: str) -> TableResult: ...

    def run_document(self, document: PlanDocument) -> TableResult: ...


class Context:
    """One statement being run."""

    def __init__(self, session: Session, statement: ScriptStatement) -> None:
        self.env = session
        self.catalog = session.catalog
        self.source = statement.source
        self.file = statement.file
        self.statement = statement

    def place(self, node: exp.Expr) -> Place:
        return place_of(node, self.source, self.file)

    def plan_file(self, path: exp.Expr) -> str:
        """The path or URL of the plan that a text literal names. Raises as :meth:`Host.plan_file`."""
        return self.env.host.plan_file(path.name, self.place(path))
