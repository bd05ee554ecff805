"""Several INSERTs that are planned and run as one job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from stateplan.execnodes.errors import SqlError
from stateplan.planner.session.compiled_plan import CompiledPlan
from stateplan.planner.session.script import read_statement

if TYPE_CHECKING:
    from stateplan.planner.session.environment import TableEnvironment
    from stateplan.planner.session.results import TableResult


class StatementSet:
    """A statement set, under PyFlink's names. Made by ``TableEnvironment.create_statement_set``."""

    def __init__(self, environment: TableEnvironment) -> None:
        self._environment = environment
        self._inserts: list[str] = []

    def add_insert_sql(self, statement: str) -> StatementSet:
        """Adds an INSERT; returns this set.

        Raises:
            SqlError: SQL001 to SQL010; SQL012 when it is not an INSERT.
        """
        read = read_statement(statement)
        if not isinstance(read.node, exp.Insert):
            raise SqlError("SQL012.add_insert_sql", place=read.place)
        self._inserts.append(read.text)
        return self

    def _sql(self) -> str:
        if not self._inserts:
            raise SqlError("SQL012.sql")
        return "STATEMENT SET BEGIN\n" + "".join(f"{text};\n" for text in self._inserts) + "END"

    def compile_plan(self) -> CompiledPlan:
        """The plan of all INSERTs together. Raises StateplanError."""
        return self._environment.compile_plan_sql(self._sql())

    def explain(self, *details: str) -> str:
        """The plan of all INSERTs together, for people. Raises as :meth:`TableEnvironment.explain_sql`."""
        return self._environment.explain_sql(self._sql(), *details)

    def execute(self) -> TableResult:
        """Runs all INSERTs as one job, and empties the set. Raises StateplanError."""
        result = self._environment.execute_sql("EXECUTE " + self._sql())
        self._inserts.clear()
        return result
