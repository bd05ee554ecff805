"""What an editor shows of a script of SQL."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from pathlib import Path

from sqlglot import exp

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Role
from stateplan.common.roots import Roots, holding
from stateplan.connectors.registry import known_connector, validate_table
from stateplan.editor.compiled import Compiled, compile_statement, of_plan
from stateplan.editor.diagnosis import Diagnosis, finding_in_script, of_error, of_note
from stateplan.editor.findings import SHOW_PLAN, Finding, Lens, Symbol
from stateplan.editor.names import Declaration, Resolver, declared_columns, name_span, table_names
from stateplan.editor.pieces import Cutter, Piece
from stateplan.editor.positions import LineMap, Span
from stateplan.editor.scratch import Scratch, not_checked
from stateplan.planner.catalog import ddl
from stateplan.planner.catalog.objects import CatalogTable, ObjectIdentifier
from stateplan.planner.dialect import nodes
from stateplan.planner.dialect.errors import too_deep
from stateplan.session.context import Context
from stateplan.session.create_table_as import declare_table_as
from stateplan.session.script import DECLARATIONS, Insert, Inserts, ScriptStatement, is_query

_DECLARING = (*DECLARATIONS, nodes.BeginStatementSet, nodes.RollbackStatementSet)
MOST_COMPILED = 500
"""Of a longer script, only this number of queries is compiled: each takes some 15 ms and 100 kB."""

_NOT_DECLARED = frozenset({"CAT002", "CAT003", "CAT004", "CAT061", "SQL200"})
"""Codes of names that are not there: not reported where the statement that declares the name is broken."""

_KINDS: Mapping[type[exp.Expr], str] = {
    nodes.CreateTable: "table",
    nodes.CreateView: "view",
    nodes.CreateCatalog: "catalog",
    nodes.FunctionStatement: "function",
}
"""What statements declare."""

_HEAD = re.compile(r"CREATE\s+(.*?)(?:\(|\bAS\b|\bWITH\b|$)", re.I | re.S)
_WORD = re.compile(r"`[^`]+`|\w+")
_WORDS_OF_CREATE = frozenset(
    ("table", "view", "function", "catalog", "database", "temporary", "system", "if", "not", "exists")
)


@dataclass
class Outcome:
    """What became of a statement: it depends on its text and on the statements before it alone.

    Attributes:
        diagnoses: what is wrong.
        compiled: what it compiles to.
    """

    diagnoses: list[Diagnosis] = field(default_factory=list)
    compiled: Compiled | None = None


@dataclass(frozen=True)
class Settings:
    """How scripts are read.

    Attributes:
        folder: the folder of the script.
        roots: the folders that may be read.
        options: the options of the session.
        before: a script that runs before each one, such as the one of ``stateplan sql --init``.
        of_tests: whether tables without a connector are tables of a test.
        check: called now and then; it raises what ends the work.
    """

    folder: Path
    roots: Roots
    options: Mapping[str, str] = field(default_factory=dict)
    before: str = ""
    of_tests: bool = False
    check: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class ScriptReading:
    """A script that was read.

    Attributes:
        pieces: its statements.
        outcomes: what became of each.
        scratch: the session after the last one.
        declarations: what it declares, in order.
        uses: where it names tables and views.
    """

    pieces: list[Piece]
    outcomes: list[Outcome]
    scratch: Scratch
    declarations: list[Declaration]
    uses: list[tuple[str, Span]]

    @property
    def starts(self) -> dict[str, int]:
        """Where its statements begin, by their text."""
        return {piece.text: piece.start for piece in reversed(self.pieces)}

    def findings(self) -> list[Finding]:
        """All findings, each once, by place."""
        starts = self.starts
        all_findings: list[Finding] = []
        for piece, outcome in zip(self.pieces, self.outcomes, strict=True):
            own_starts = {**starts, piece.text: piece.start}
            placed_findings = (finding_in_script(diagnosis, own_starts) for diagnosis in outcome.diagnoses)
            all_findings += [finding for finding in placed_findings if finding is not None]
        return unique(all_findings)

    def lenses(self) -> list[Lens]:
        """A line above each statement that has a plan."""
        return [
            Lens(piece.span, outcome.compiled.summary, SHOW_PLAN, (str(piece.start),))
            for piece, outcome in zip(self.pieces, self.outcomes, strict=True)
            if outcome.compiled is not None
        ]

    def symbols(self) -> list[Symbol]:
        """The outline: what it declares, and its queries."""
        symbols = []
        for declaration in self.declarations:
            columns = tuple(Symbol(name, "column", span, span) for name, span in declaration.columns.items())
            name = declaration.name.removeprefix("default_catalog.default_database.")
            symbols.append(Symbol(name, declaration.kind, declaration.statement_span, declaration.span, "", columns))
        for piece, outcome in zip(self.pieces, self.outcomes, strict=True):
            if outcome.compiled is not None:
                title = " ".join(piece.text.split())
                title = title if len(title) <= 60 else title[:57] + "..."
                first = Span(piece.start, min(piece.span.end, piece.start + 1))
                symbols.append(Symbol(title, "query", piece.span, first, outcome.compiled.summary))
        return sorted(symbols, key=lambda symbol: symbol.span)


def unique(findings: Iterable[Finding]) -> list[Finding]:
    """The findings by place, each once: several statements may lead to the same one."""
    by_key: dict[tuple[Span, str, str], Finding] = {}
    for finding in findings:
        key = (finding.span, finding.code, finding.message)
        first = by_key.setdefault(key, finding)
        if first is not finding and first.other_places and finding.other_places:
            by_key[key] = Finding(
                first.span,
                first.level,
                first.code,
                first.message,
                first.fixes,
                (*first.other_places, *finding.other_places),
            )
    return sorted(by_key.values(), key=lambda finding: (finding.span, finding.code))


class ScriptReader:
    """Reads the versions of a script. What does not depend on a change is not compiled again."""

    def __init__(self) -> None:
        self._cutter = Cutter()
        self._outcomes: dict[tuple[str, str], Outcome] = {}

    def read(self, text: str, settings: Settings) -> ScriptReading:
        """Reads a version. It raises what ``settings.check`` raises."""
        return self.read_all([text], settings)[0]

    def read_all(self, texts: Iterable[str], settings: Settings) -> list[ScriptReading]:
        """Reads scripts of one document, each in a session of its own."""
        self._cutter.check = settings.check
        outcomes: dict[tuple[str, str], Outcome] = {}
        readings = []
        with holding(settings.roots):
            for text in texts:
                run = _Run(self._cutter.cut(text), settings, self._outcomes, outcomes)
                readings.append(run.result())
        self._outcomes = outcomes
        return readings


class _Run:
    """Reads a script once, statement by statement."""

    def __init__(
        self,
        pieces: list[Piece],
        settings: Settings,
        before: Mapping[tuple[str, str], Outcome],
        outcomes: dict[tuple[str, str], Outcome],
    ) -> None:
        self.pieces = pieces
        self.settings = settings
        self.before, self.new_outcomes = before, outcomes
        self.scratch = Scratch(settings.folder, settings.roots, settings.options)
        self.session = self.scratch.session
        self.broken: set[str] = set()
        self.declarations: list[Declaration] = []
        self.uses: list[tuple[str, Span]] = []
        self.tables: dict[ObjectIdentifier, tuple[int, CatalogTable]] = {}
        self.tables_in_use: set[str] = set()
        self.chain = repr(sorted(settings.options.items())) + str(settings.of_tests)
        self.inserts: list[Insert] = []
        self.compiled_count = 0

    def result(self) -> ScriptReading:
        """What became of the statements."""
        if self.settings.before:
            for piece in Cutter().cut(self.settings.before):
                if piece.statement is not None and isinstance(piece.statement.node, _DECLARING):
                    self._declaration(piece.statement, Outcome())
            self.chain += self.settings.before
        outcomes = []
        for piece in self.pieces:
            self.settings.check()
            outcomes.append(self._outcome(piece))
        self._check_unused_tables(outcomes)
        return ScriptReading(self.pieces, outcomes, self.scratch, self.declarations, self.uses)

    def _outcome(self, piece: Piece) -> Outcome:
        outcome = Outcome()
        if piece.error is not None:
            outcome.diagnoses.append(of_error(piece.error, piece.text))
        if piece.statement is None:
            self.broken |= _declared_names(piece.text)
            return outcome
        node = piece.statement.node
        self._note_uses(node, piece.start)
        try:
            if isinstance(node, _DECLARING):
                self._declaration(piece.statement, outcome)
                self._note_declaration(node, piece)
            else:
                self._statement(piece, outcome)
        except StateplanError as error:
            if not self._follows(error, piece.text):
                outcome.diagnoses.append(of_error(error, piece.text))
            if isinstance(node, (*_DECLARING, nodes.CreateTableAs)):
                self.broken |= _declared_names(piece.text)
        except RecursionError:
            outcome.diagnoses.append(of_error(too_deep(), piece.text))
        return outcome

    def _declaration(self, statement: ScriptStatement, outcome: Outcome) -> None:
        """Runs a statement that declares something, or sets an option."""
        self._remember(statement.text)
        result = self.scratch.declare(statement)
        node = statement.node
        if isinstance(node, nodes.FunctionStatement):
            self._remember(self.scratch.signatures())  # of modules, which change too
        if isinstance(node, nodes.CreateTable) and self.settings.of_tests:
            from stateplan.testing.story_plan import declare_table_of_test

            declare_table_of_test(self.session.catalog, node)
        if isinstance(node, nodes.BeginStatementSet):
            self.inserts = []
        outcome.diagnoses += [of_note(note, statement.source) for note in result.notes]

    def _remember(self, text: str) -> None:
        """Later statements depend on this one."""
        self.chain = hashlib.sha1(f"{self.chain}\0{text}".encode("utf-8", "replace")).hexdigest()

    def _statement(self, piece: Piece, outcome: Outcome) -> None:
        """Checks a statement that changes nothing which another one sees."""
        assert piece.statement is not None
        node = piece.statement.node
        if isinstance(node, nodes.CreateTableAs):
            self._create_table_as(piece, node, outcome)
        elif isinstance(node, nodes.EndStatementSet):
            self._end_set(piece, outcome)
        elif isinstance(node, (exp.Insert, nodes.ExecuteStatement, nodes.CompilePlan, nodes.Explain)) or is_query(node):
            if self.session.statement_set is not None and not isinstance(node, (exp.Insert, nodes.Explain)):
                self.session.check_no_open_set(piece.statement.place)
            self._compile(piece.statement, outcome)
            if self.session.statement_set is not None and isinstance(node, exp.Insert):
                self.inserts.append(Insert.read(node, piece.text))
        elif isinstance(node, nodes.StatementSet):
            self.scratch.declare(piece.statement)  # an error says what is missing
        elif isinstance(node, (nodes.ExecutePlan, nodes.AlterPlan)):
            self._check_plan(piece.statement)

    def _compile(self, statement: ScriptStatement, outcome: Outcome) -> None:
        """Compiles a statement, unless the version before had it in the same place of the same statements."""
        self.compiled_count += 1
        if self.compiled_count > MOST_COMPILED:
            if self.compiled_count == MOST_COMPILED + 1:
                error = not_checked(f"only the first {MOST_COMPILED} queries of a script are", statement.place)
                outcome.diagnoses.append(of_error(error, statement.source))
            return
        key = (f"{self.chain} {sorted(self.broken)}", statement.source)
        previous = self.before.get(key) or self.new_outcomes.get(key)
        if previous is None:
            previous = Outcome()
            try:
                compiled = compile_statement(self.session, statement)
                previous.compiled = compiled
                if compiled is not None:
                    previous.diagnoses += compiled.findings()
            except StateplanError as error:
                if not self._follows(error, statement.source):
                    previous.diagnoses.append(of_error(error, statement.source))
        self.new_outcomes[key] = previous
        outcome.compiled = previous.compiled
        outcome.diagnoses += previous.diagnoses

    def _create_table_as(self, piece: Piece, node: nodes.CreateTableAs, outcome: Outcome) -> None:
        assert piece.statement is not None
        self._remember(piece.text)
        plan = declare_table_as(Context(self.session, piece.statement), node)
        outcome.compiled = of_plan(self.session, node, piece.text, plan)
        outcome.diagnoses += outcome.compiled.findings()
        self._note_declaration(node, piece)

    def _end_set(self, piece: Piece, outcome: Outcome) -> None:
        """The INSERTs since BEGIN as one job."""
        inserts, self.inserts = self.inserts, []
        is_open = self.session.statement_set is not None
        self.session.statement_set = None
        if not is_open:
            assert piece.statement is not None
            self.scratch.declare(piece.statement)  # an error says what is missing
        if inserts:
            plan = self.session.compiler.inserts(Inserts.of_all(inserts))
            outcome.compiled = of_plan(self.session, inserts[0].node, piece.text, plan)

    def _check_plan(self, statement: ScriptStatement) -> None:
        """Whether the plan that a statement names can be read, and has the states that it names."""
        from stateplan.plans.document import PlanDocument
        from stateplan.plans.selectors import Selectors

        node = statement.node
        context = Context(self.session, statement)
        path = context.plan_file(node.args["path"])
        if not Path(path).is_file():
            return  # another statement may write it
        try:
            selectors = Selectors(PlanDocument.load(path), self.session.config.to_dict())
            for group in node.expressions if isinstance(node, nodes.AlterPlan) else ():
                for selector in group.expressions:
                    place = context.place(selector)
                    selectors.select(selector.name)
        except StateplanError as error:
            error.place = place if isinstance(node, nodes.AlterPlan) else context.place(node.args["path"])
            raise

    # names

    def _note_uses(self, node: exp.Expr, start: int) -> None:
        resolver = Resolver(self.session.catalog)
        reads = not isinstance(node, _DECLARING) or isinstance(node, nodes.CreateView)
        for table in table_names(node):
            identifier = resolver.identifier(table)
            if identifier is not None:
                name = table.this if table.args.get("db") is None else table
                span = name_span(name, start)
                if name is table and table.args.get("alias") is not None:
                    span = Span(span.start, name_span(table.this, start).end)
                self.uses.append((identifier.summary, span))
                if reads:
                    self.tables_in_use.add(identifier.summary)

    def _note_declaration(self, node: exp.Expr, piece: Piece) -> None:
        inner = node.this if isinstance(node, nodes.CreateTableAs) else node
        kind = next((kind for statement, kind in _KINDS.items() if isinstance(inner, statement)), None)
        if kind is None or inner.args.get("action", "CREATE") != "CREATE":
            return
        parts = ddl.parts_of(inner.this)
        name = parts[0] if kind == "catalog" else self.session.catalog.qualify(parts).summary
        name = parts[-1] if kind == "function" else name
        name_node = inner.this
        self.declarations.append(
            Declaration(name, kind, name_span(name_node, piece.start), piece.span, declared_columns(node, piece.start))
        )
        if isinstance(inner, nodes.CreateTable):
            item = self.session.catalog.find(parts)
            if isinstance(item, CatalogTable):
                self.tables[item.identifier] = (piece.start, item)

    def _follows(self, error: StateplanError, text: str) -> bool:
        """Whether an error only says that what a broken statement declares is not there."""
        if error.code not in _NOT_DECLARED:
            return False
        place = error.place
        if place is None or place.line is None:
            return False
        span = LineMap(place.source or text).place(place.line, place.column or 1, place.length)
        own_text = (place.source or text)[span.start : span.end]
        return any(part.strip("`").lower() in self.broken for part in own_text.split("."))

    def _check_unused_tables(self, outcomes: list[Outcome]) -> None:
        """The options of tables that no statement uses: whether they make a source or a sink."""
        by_start = {piece.start: (piece, outcome) for piece, outcome in zip(self.pieces, outcomes, strict=True)}
        for identifier, (start, table) in self.tables.items():
            if identifier.summary in self.tables_in_use or not table.options or self.settings.of_tests:
                continue
            piece, outcome = by_start[start]
            errors: list[StateplanError] = []
            connector = known_connector(table.options)
            roles = [role for role in (Role.SOURCE, Role.SINK) if connector is None or role in connector.roles]
            for role in roles:
                try:
                    fields = [(column.name, column.type) for column in table.schema.physical]
                    validate_table(table.options, role, None, fields, table.option_places, table.schema.primary_key)
                except StateplanError as error:
                    errors.append(error)
            if errors and len(errors) == len(roles):
                outcome.diagnoses.append(of_error(errors[0], piece.text))


def _declared_names(text: str) -> set[str]:
    """What a broken CREATE may declare, in small letters: the names in front of its columns, options or query."""
    head = _HEAD.match(text)
    if head is None:
        return set()
    return {name.strip("`").lower() for name in _WORD.findall(head[1])} - _WORDS_OF_CREATE
