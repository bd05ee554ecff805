"""The queries of a file: each is compiled into the plan of the job that it starts.

Only declarations are run. What they change in catalogs of others stays in memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from sqlglot import exp

from stateplan.common.errors import Place, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.execnodes.node_tables import table_of
from stateplan.planner.catalog.overlay import hold_changes
from stateplan.planner.dialect import nodes
from stateplan.plans.document import PlanDocument
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs
from stateplan.session.script import DECLARATIONS, Insert, Inserts, ScriptStatement, is_query, read_script

_BATCH = "PLAN185"


@dataclass(frozen=True)
class Query:
    """A query of a file.

    Attributes:
        file: its path, for readers.
        sinks: the tables that it writes.
        document: its plan; None if it has none.
        error: why it has no plan.
        place: where it begins in its file.
    """

    file: str
    sinks: tuple[str, ...] = ()
    document: PlanDocument | None = field(default=None, repr=False)
    error: StateplanError | None = None
    place: Place = field(default_factory=Place)


class Script:
    """What stands in front of the queries of scripts: tables, views, functions and settings.

    Args:
        options: options of the session.
        init: a script that runs first.
        folder: what relative paths refer to; None for the present folder.

    Raises:
        StateplanError: whatever is wrong with ``init``.
    """

    def __init__(self, options: Mapping[str, str], init: Path | None, init_name: str, folder: Path | None) -> None:
        self._options = dict(options)
        self._folder = folder
        self._init = [] if init is None else read_script(_text(init, init_name), init_name)

    def read(self, path: Path, name: str) -> list[Query]:
        """The queries of a file, in order; none for a script that only declares tables, and for batch queries.

        Args:
            path: the file.
            name: its path, for readers.
        """
        if path.suffix == ".json":
            return [_of_plan(path, name)]
        with self._in_folder():
            try:
                statements = read_script(_text(path, name), name)
            except StateplanError as error:
                return [_broken(error, name, Place(file=name, line=1))]
            return list(self._compiled(statements, name))

    @contextlib.contextmanager
    def _in_folder(self) -> Iterator[None]:
        with contextlib.chdir(self._folder) if self._folder is not None else contextlib.nullcontext():
            yield

    def _compiled(self, statements: Sequence[ScriptStatement], name: str) -> Iterator[Query]:
        if not any(_has_job(statement.node) for statement in statements):
            return
        environment = TableEnvironment.create(self._options, jobs=Jobs())
        hold_changes(environment.catalog)
        open_set: list[Insert] | None = None
        for statement in (*self._init, *statements):
            is_own = statement.file == name
            try:
                if isinstance(statement.node, nodes.BeginStatementSet):
                    open_set = []
                elif isinstance(statement.node, nodes.EndStatementSet):
                    if is_own and open_set:
                        yield from _query(environment, Inserts.of_all(open_set), statement)
                    open_set = None
                elif (inserts := _inserts(statement)) is not None:
                    if open_set is not None:
                        open_set += inserts.inserts
                    elif is_own:
                        yield from _query(environment, inserts, statement)
                elif isinstance(statement.node, DECLARATIONS):
                    environment.execute_statement(statement)
            except StateplanError as error:
                yield _broken(error, name, statement.place)
                return


def _has_job(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Insert, nodes.StatementSet, nodes.ExecuteStatement, nodes.CompilePlan))


def _inserts(statement: ScriptStatement) -> Inserts | None:
    """What a statement runs as one job; None if it runs none."""
    node = statement.node
    if not _has_job(node):
        return None
    node = node.this if isinstance(node, (nodes.CompilePlan, nodes.ExecuteStatement)) else node
    return None if is_query(node) else Inserts.of(node, statement.source)


def _query(environment: TableEnvironment, inserts: Inserts, statement: ScriptStatement) -> Iterator[Query]:
    try:
        document = environment.session.compiler.document(inserts)
    except StateplanError as error:
        if error.code == _BATCH:
            return
        if error.place is not None and error.place.file is None:
            error.place = replace(error.place, file=statement.file)
        raise
    # Only a plan with text has lines, for those who read about it.
    document = PlanDocument.parse(document.text)
    yield Query(statement.file or "", _sinks(document), document, place=statement.place)


def _broken(error: StateplanError, name: str, place: Place) -> Query:
    if error.place is None:
        error.place = place
    elif error.place.line is None:
        error.place = replace(place, operator=error.place.operator)
    return Query(name, error=error, place=error.place)


def _of_plan(path: Path, name: str) -> Query:
    try:
        document = PlanDocument.from_bytes(path.read_bytes(), name)
        return Query(name, _sinks(document), document, place=Place(file=name, line=1, column=1))
    except StateplanError as error:
        return _broken(error, name, Place(file=name, line=1))
    except OSError as cause:
        unread = StateplanError("REV001", path=name, why=f"cannot be read: {cause.strerror}")
        return _broken(unread, name, Place(file=name))


def _sinks(document: PlanDocument) -> tuple[str, ...]:
    """The names of the tables that a plan writes."""
    tables = (table_of(node) for node in document.graph.sinks)
    return tuple(dict.fromkeys(table.path[-1] for table in tables if table is not None and table.path))


def _text(path: Path, name: str) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, ValueError) as cause:
        why = cause.strerror if isinstance(cause, OSError) else "it is not UTF-8 text"
        raise StateplanError("REV001", path=name, why=f"cannot be read: {why}", place=Place(file=name)) from cause
