"""One statement that is being run."""

from __future__ import annotations

from sqlglot import exp

from stateplan.common.errors import Place
from stateplan.planner.positions import place_of
from stateplan.session.script import ScriptStatement
from stateplan.session.session import Session


class Context:
    """A statement that is running.

    Attributes:
        session: in which it runs.
        catalog: the catalog of the session.
        statement: what is run.
        source, file: the script that contains it.
    """

    def __init__(self, session: Session, statement: ScriptStatement) -> None:
        self.session = session
        self.catalog = session.catalog
        self.source = statement.source
        self.file = statement.file
        self.statement = statement

    def place(self, node: exp.Expr) -> Place:
        return place_of(node, self.source, self.file)

    def plan_file(self, path: exp.Expr) -> str:
        """The path or URL of the plan that a text literal names. Raises the same errors as :meth:`Host.plan_file`."""
        return self.session.host.plan_file(path.name, self.place(path))
