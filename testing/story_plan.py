"""From the SQL of a test to its plan, whose tables hold the rows of the test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path

from sqlglot import exp

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode, RowKind
from stateplan.common.errors import SqlError, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.zone import local_time_zone
from stateplan.connectors.filesystem import Filesystem
from stateplan.connectors.registry import source_changelog_mode, source_gives_key_deletes
from stateplan.connectors.replay import Replay
from stateplan.connectors.tables_of_tests import NAME
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_tables import table_of, with_table
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.lookup_join import LookupJoin
from stateplan.execnodes.nodes.sink import Sink
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.specs import ContextResolvedTable
from stateplan.planner.catalog import ddl
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import CatalogTable
from stateplan.planner.catalog.overlay import hold_changes
from stateplan.planner.dialect import nodes
from stateplan.plans.document import PlanDocument
from stateplan.plans.plan_metadata import PlanFacts
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs
from stateplan.session.script import Insert, Inserts, ScriptStatement, is_query, read_script
from stateplan.session.trial import with_sink
from stateplan.testing.rows import OPTIONS, Fields
from stateplan.testing.story import Sql

RESULT = "result"
"""What the table of a SELECT is called."""

_QUERIES = (exp.Insert, nodes.StatementSet, nodes.ExecuteStatement)
_ACTIONS = (
    nodes.AlterJob,
    nodes.AlterJobTtl,
    nodes.AlterPlan,
    nodes.CompilePlan,
    nodes.CreateTableAs,
    nodes.EndShadow,
    nodes.ExecutePlan,
    nodes.MigratePlan,
    nodes.StopJob,
)
_BRACKETS = (nodes.BeginStatementSet, nodes.EndStatementSet)


@dataclass(frozen=True)
class Query:
    """What a test runs.

    Attributes:
        statements: the INSERTs, the statement set or the SELECT.
        inserts: as one job; None for a SELECT.
    """

    statements: tuple[ScriptStatement, ...]
    inserts: Inserts | None


@dataclass(frozen=True)
class Input:
    """A table that the plan reads.

    Attributes:
        name: its name.
        fields: its physical columns, and the metadata that the plan reads.
        mode: its changes.
        key_deletes: whether only the key of a deleted row is right.
    """

    name: str
    fields: Fields
    mode: ChangelogMode
    key_deletes: bool = False

    @property
    def kinds(self) -> str:
        """Its kinds of changes, for people."""
        return ", ".join(kind.short for kind in RowKind if kind in self.mode)


@dataclass(frozen=True)
class Output:
    """A table that the plan writes.

    Attributes:
        name: its name.
        node: its node in the plan.
        fields: its columns.
        key: the columns by which a change replaces a row; empty where each row counts.
    """

    name: str
    node: int
    fields: Fields
    key: tuple[str, ...]


@dataclass(frozen=True)
class StoryPlan:
    """A plan with its tables.

    Attributes:
        document: the plan as a document.
        graph: the plan with the whole of every table.
        options: the options of the session.
        notes: what the session said about statements and plan.
    """

    document: PlanDocument
    graph: ExecGraph
    options: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def zone(self) -> str:
        """The time zone of the session."""
        return local_time_zone(self.options)

    def inputs(self) -> dict[str, Input]:
        """The tables that it reads, by name."""
        out: dict[str, Input] = {}
        for node in self.graph.nodes:
            table = table_of(node)
            if not isinstance(node, (TableSourceScan, LookupJoin)) or table is None or table.resolved_table is None:
                continue
            options = table.resolved_table.options or {}
            columns = table.resolved_table.table_schema.columns
            fields = [(c.name, c.type) for c in columns if c.kind == "PHYSICAL"]
            fields += [(c.metadata_key or c.name, c.type) for c in columns if c.kind == "METADATA"]
            key_deletes = source_gives_key_deletes(options)
            unique_fields = Fields(tuple(dict(fields).items()), self.zone)
            out[name_of(table)] = Input(name_of(table), unique_fields, source_changelog_mode(options), key_deletes)
        return out

    def outputs(self) -> dict[str, Output]:
        """The tables that it writes, by name."""
        out: dict[str, Output] = {}
        for node in self.graph.sinks:
            assert isinstance(node, Sink)
            name = name_of(node.dynamic_table_sink.table)
            name = f"{name}[{node.id}]" if name in out else name
            table = node.dynamic_table_sink.table.resolved_table
            has_key = table is not None and table.table_schema.primary_key is not None
            key = node.row_key if has_key or node.gets_upserts else ()
            out[name] = Output(name, node.id, Fields(node.written_fields, self.zone), key)
        return out

    def over(self, folder: Path) -> ExecGraph:
        """The plan over files of a test: tables that are read are on a virtual clock, and tables that are written
        keep their changes."""
        return self.graph.replace([n for node in self.graph.nodes if (n := _over(node, folder)) is not node])

    def having(self, document: PlanDocument) -> StoryPlan:
        """The same tables in the plan of another document, which differs in TTLs."""
        tables = {node.id: table for node in self.graph.nodes if (table := table_of(node)) is not None}
        nodes_over = [with_table(node, tables[node.id]) for node in document.graph.nodes if node.id in tables]
        return replace(self, document=document, graph=document.graph.replace(nodes_over))


def name_of(table: ContextResolvedTable) -> str:
    """The name of a table as a test has it: without catalog and database, if they are the default ones."""
    name = table.path[-1]
    if name.startswith("*anonymous_collect$"):
        return RESULT
    return name if tuple(table.path[:-1]) == ("default_catalog", "default_database") else ".".join(table.path)


def file_of(folder: Path, name: str) -> Path:
    """Where the rows of a table are."""
    return folder / f"{name}.json"


def _over(node: ExecNode, folder: Path) -> ExecNode:
    table = table_of(node)
    if table is None or table.resolved_table is None:
        return node
    if isinstance(node, Sink):
        options = {"connector": Filesystem.name, "format": "op-json", **OPTIONS}
        path = folder / f"out-{name_of(table)}-{node.id}"
        return with_sink(node, {**options, "path": str(path)}, table.identifier)
    options = dict(table.resolved_table.options or {})
    mode = source_changelog_mode(options)
    word = "append" if mode == INSERT_ONLY else "retract" if RowKind.UPDATE_BEFORE in mode else "upsert"
    if source_gives_key_deletes(options):
        word = "upsert-key-delete"
    new_options = {
        "connector": Replay.name,
        "path": str(file_of(folder, name_of(table))),
        "format": "op-json",
        "op-json.mode": word,
    }
    resolved_table = table.resolved_table.model_copy(update={"options": new_options, "partition_keys": ()})
    return with_table(node, table.model_copy(update={"resolved_table": resolved_table}))


@lru_cache(maxsize=64)
def _statements(sql: Sql) -> tuple[ScriptStatement, ...]:
    return tuple(read_script(sql.text, sql.file))


def declare_table_of_test(catalog: CatalogManager, node: nodes.CreateTable) -> None:
    """Makes a table without a connector, which this statement has created, one of the test."""
    table = catalog.find(ddl.parts_of(node.this))
    if isinstance(table, CatalogTable) and "connector" not in table.options:
        catalog.replace(table.with_options({"connector": NAME}))


class Preparation:
    """The session of a test: its tables are there, and its query can be planned.

    Args:
        sql: the statements of the test.
        options: of the session.
        changes: other statements for some of them, by their number.

    Attributes:
        all_statements: the statements of the test, as they are written.

    Raises:
        StateplanError: whatever is wrong with a statement.
    """

    def __init__(
        self, sql: Iterable[Sql], options: Mapping[str, str], changes: Mapping[int, ScriptStatement] | None = None
    ) -> None:
        self.environment = TableEnvironment.create(dict(options), jobs=Jobs())
        hold_changes(self.environment.catalog)
        self.notes: list[str] = []
        self._queries: list[ScriptStatement] = []
        self.all_statements = tuple(s for part in sql for s in _statements(part))
        for number, statement in enumerate(self.all_statements):
            self._run((changes or {}).get(number, statement))

    def _run(self, statement: ScriptStatement) -> None:
        node = statement.node
        if isinstance(node, _QUERIES) or is_query(node):
            self._queries.append(statement)
        elif isinstance(node, _ACTIONS):
            words = " ".join(statement.text.split()[:2]).upper()
            raise StateplanError("TEST011", statement=words, place=statement.place)
        elif not isinstance(node, _BRACKETS):
            self.notes += self.environment.execute_statement(statement).notes
            if isinstance(node, nodes.CreateTable):
                declare_table_of_test(self.environment.catalog, node)

    @property
    def statements(self) -> Sequence[ScriptStatement]:
        """The query, as statements."""
        return self._queries

    @cached_property
    def plan(self) -> StoryPlan:
        """The plan of the query. Raises StateplanError."""
        query = self._query(self._queries)
        session = self.environment.session
        options = session.config.to_dict()
        (statement, *_) = query.statements
        try:
            if query.inserts is not None:
                plan = session.compiler.inserts(query.inserts)
            else:
                plan = session.compiler.query(_query_of(statement.node), statement.source)
        except StateplanError as error:
            if error.place is not None and error.place.file is None:
                error.place = replace(error.place, file=statement.file)
            raise
        document = PlanDocument.from_graph(plan.graph, PlanFacts(plan.sql))
        return StoryPlan(document, plan.graph, options, tuple(self.notes))

    def load(self, path: Path) -> StoryPlan:
        """The plan in a file, with the tables of the test. Raises StateplanError."""
        document = PlanDocument.load(str(path))
        session = self.environment.session
        restoration = session.starter.restore_plans([document])
        warnings = tuple(str(w) for w in document.warnings)
        return StoryPlan(document, restoration.graphs[0], session.config.to_dict(), (*self.notes, *warnings))

    def _query(self, statements: Sequence[ScriptStatement]) -> Query:
        if not statements:
            raise StateplanError("TEST005", what="no query")
        selects = [s for s in statements if _query_of(s.node) is not None and is_query(_query_of(s.node))]
        if selects and len(statements) > 1:
            raise StateplanError("TEST005", what="several queries", place=statements[1].place)
        if selects:
            return Query(tuple(statements), None)
        inserts = [insert for s in statements for insert in _inserts(s)]
        return Query(tuple(statements), Inserts.of_all(inserts) if len(inserts) > 1 else _single(inserts[0]))


def _single(insert: Insert) -> Inserts:
    return Inserts((insert,), insert.sql)


def _query_of(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, nodes.ExecuteStatement) else node


def _inserts(statement: ScriptStatement) -> Sequence[Insert]:
    try:
        return Inserts.of(statement.node, statement.source).inserts
    except SqlError as error:
        if error.place is not None:
            error.place = replace(error.place, file=statement.file)
        raise


def prepare(sql: Iterable[Sql], options: Mapping[str, str]) -> Preparation:
    """The session of tests with these statements. Tests that have the same share one: no test changes it. Raises
    StateplanError."""
    return _prepare(tuple(sql), tuple(sorted(options.items())))


@lru_cache(maxsize=32)
def _prepare(sql: tuple[Sql, ...], options: tuple[tuple[str, str], ...]) -> Preparation:
    return Preparation(sql, dict(options))
