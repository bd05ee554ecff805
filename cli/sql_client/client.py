"""Runs statements in a session of a gateway, and shows what they give."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from stateplan.cli.console import Console, JsonConsole
from stateplan.cli.sql_client.commands import COMMANDS, command_of
from stateplan.cli.sql_client.jobs import BackgroundJobs, JobsElsewhere, JobsHere
from stateplan.cli.sql_client.results import Result
from stateplan.cli.sql_client.statements import Piece, pieces, read_text
from stateplan.cli.sql_client.values import json_value
from stateplan.common.errors import Place, SqlError, StateplanError
from stateplan.common.readable import amount, render, without_markup
from stateplan.common.settings import value
from stateplan.gateway.protocol import GatewaySession, ResultPage
from stateplan.session.tableau import Tableau

if TYPE_CHECKING:
    from stateplan.runtime.job import Progress

_MOST_SOURCES = 16
"""How deep files of SOURCE may be nested."""


class Quit(Exception):  # noqa: N818 - no error
    """The user leaves."""


class Terminal(Protocol):
    """What a client can do for a person at a terminal."""

    def show(self, mode: str, first: ResultPage, pages: Iterator[ResultPage], options: Mapping[str, str]) -> None:
        """Shows the result of a query on the whole screen until the user leaves. Raises StateplanError."""

    def page(self, text: str) -> bool:
        """Shows a text that is longer than the screen; False if it is not."""

    def clear(self) -> None:
        """Clears the screen."""


class Client:
    """Statements and commands, one after the other.

    Args:
        session: the session that runs the statements.
        console: where results and notes go.
        jobs: the jobs that continue in the background.
        terminal: the terminal of the user; None for scripts, which show every result line by line.
        check: looks at all statements of a script before the first one runs; raises StateplanError.

    Attributes:
        session, jobs: see above.
        inserts: how many INSERTs the open statement set has; None while none is open.
    """

    def __init__(
        self,
        session: GatewaySession,
        console: Console,
        jobs: BackgroundJobs | None = None,
        terminal: Terminal | None = None,
        check: Callable[[Piece], None] | None = None,
    ) -> None:
        self.session = session
        self._console = console
        self._terminal = terminal
        self._check = check
        self._progress: Progress | None = None
        self._depth = 0
        self.jobs = jobs or JobsElsewhere(session)
        self.inserts: int | None = None
        self._options: dict[str, str] = {}

    # statements

    def run_script(self, text: str, file: str | None = None, acknowledge: bool = False) -> None:
        """Runs the statements of a script; the first error ends it.

        Args:
            text: the script.
            file: its name, for messages.
            acknowledge: say OK after statements without a result.

        Raises:
            StateplanError: with its place in the script. A syntax error comes before anything has run, where the
                dialect is known.
            Quit: for QUIT and EXIT.
        """
        commands = [(piece, command_of(piece.text)) for piece in pieces(text, file)]
        for piece, command in commands:
            if command is None and self._check is not None:
                try:
                    self._check(piece)
                except StateplanError as error:
                    raise piece.at_script(error)  # noqa: B904 - it is the same error
        for piece, command in commands:
            try:
                if command is None:
                    self._run(piece.text, acknowledge)
                else:
                    self._command(*command, piece, acknowledge)
            except StateplanError as error:
                raise piece.at_script(error)  # noqa: B904 - it is the same error

    def _run(self, statement: str, acknowledge: bool) -> None:
        jobs = self.jobs if isinstance(self.jobs, JobsHere) else None
        if jobs is not None:
            jobs.mark()
        self._progress = None
        if statement.upper() in ("END", "ROLLBACK"):
            self.inserts = None  # also where the job of the set cannot be started
        with Result(self.session, statement) as result:
            try:
                first = result.first(self._waits)
            except KeyboardInterrupt:
                self._stop_jobs(jobs)
                raise
            self._note_statement_set(statement)
            for note in first.notes:
                self._console.note(note)
            if first.is_query:
                self._query(first, result)
            else:
                self._answer(first, result, acknowledge)

    def _note_statement_set(self, statement: str) -> None:
        """Notes what a statement that was taken means for the open statement set."""
        word = statement.split(maxsplit=1)[0].upper()
        if word == "BEGIN":
            self.inserts = 0
        elif word == "INSERT" and self.inserts is not None:
            self.inserts += 1

    def _waits(self) -> None:
        if self._progress is None:
            self._console.status("waiting")

    def on_progress(self, progress: Progress) -> None:
        """Takes the figures of the job that a statement waits for."""
        self._progress = progress
        self._console.progress(progress)

    def _stop_jobs(self, jobs: JobsHere | None) -> None:
        """Stops the job that a statement waits for."""
        stopped_jobs = jobs.stop(jobs.since_mark()) if jobs is not None else []
        for progress in stopped_jobs:
            self._console.finished(progress, "stopped")
        if not stopped_jobs:
            self._console.note("The statement was cancelled.")

    def _answer(self, first: ResultPage, result: Result, acknowledge: bool) -> None:
        columns = [column.name for column in first.columns]
        rows = [list(row) for page in result.pages(first) for _, row in page.rows]
        if first.job_id is not None:
            self._job(first.job_id)
        elif not first.has_content:
            if acknowledge:
                self._console.note("OK")
        elif len(columns) == 1 and len(rows) == 1 and "\n" in str(rows[0][0]):
            self._show(str(rows[0][0]), {"columns": columns, "rows": rows})
        else:
            types = [column.type for column in first.columns]
            data = [[json_value(v, kind) for v, kind in zip(row, types, strict=True)] for row in rows]
            self._show(render(columns, rows), {"columns": columns, "rows": data})

    def _show(self, text: str, data: object) -> None:
        if self._terminal is None or not self._terminal.page(text):
            self._console.show(text, data)

    def _job(self, job_id: str) -> None:
        """A statement has started a job: it has ended already when ``table.dml-sync`` is set."""
        waits = value(self.options(), "table.dml-sync")
        if self._progress is not None:
            self._console.finished(self._progress)
        if not waits:
            self.jobs.add(job_id)
        if not waits or isinstance(self._console, JsonConsole):
            self._console.show(f"Job ID: {job_id}", {"columns": ["job id"], "rows": [[job_id]]})

    def options(self) -> dict[str, str]:
        """Those of the session that this client knows, as they were last where the gateway does not answer."""
        from stateplan.common.settings import OPTIONS

        with contextlib.suppress(StateplanError):
            self._options = {key: text for key, text in self.session.properties().items() if key in OPTIONS}
        return self._options

    # queries

    def _query(self, first: ResultPage, result: Result) -> None:
        options = self.options()
        mode = str(value(options, "sql-client.execution.result-mode"))
        if isinstance(self._console, JsonConsole):
            self._objects(first, result)
        elif self._terminal is None or mode == "TABLEAU":
            self._tableau(first, result, options)
        else:
            self._console.close()
            self._terminal.show(mode, first, result.pages(first), options)
            if not result.is_over:
                self._console.note("The query was stopped.")
        for note in result.notes:
            self._console.note(note)

    def _tableau(self, first: ResultPage, result: Result, options: Mapping[str, str]) -> None:
        began = time.monotonic()
        names, types = [c.name for c in first.columns], [c.type for c in first.columns]
        table = Tableau(names, types, "UTC", first.insert_only, column_limit(options))
        count = 0
        try:
            for page in result.pages(first):
                if page.rows:
                    self._console.raw(((table.head() if count == 0 else "") + table.text_lines(page.rows)).encode())
                    count += len(page.rows)
        except KeyboardInterrupt:
            self._console.note(f"The query was stopped. Received a total of {amount(count, 'row')}")
            raise
        text = table.foot(count) if count else "Empty set\n"
        if self._terminal is not None and value(options, "sql-client.display.print-time-cost"):
            text = f"{text[:-1]} ({time.monotonic() - began:.2f} seconds)\n"
        self._console.raw(text.encode())

    def _objects(self, first: ResultPage, result: Result) -> None:
        columns = [column.name for column in first.columns]
        kinds = [column.type for column in first.columns]
        has_output = False
        for page in result.pages(first):
            if page.rows or (result.is_over and not has_output):
                has_output = True
                rows = [[json_value(v, kind) for v, kind in zip(row, kinds, strict=True)] for _, row in page.rows]
                ops = [kind.short for kind, _ in page.rows]
                types = [str(kind) for kind in kinds]
                self._console.show("", {"columns": columns, "types": types, "op": ops, "rows": rows})

    # commands of the client

    def _command(self, word: str, argument: str, piece: Piece, acknowledge: bool) -> None:
        if word == "QUIT":
            raise Quit
        if word == "HELP":
            text = help_text(argument)
            self._show(text, {"help": text})
        elif word == "CLEAR":
            if self._terminal is not None:
                self._terminal.clear()
        elif word == "SOURCE":
            self._source(argument, piece, acknowledge)
        else:
            self._system(argument)

    def _source(self, path: str, piece: Piece, acknowledge: bool) -> None:
        if self._depth >= _MOST_SOURCES:
            raise SqlError("SQL403", most=_MOST_SOURCES)
        place = Place(piece.file, piece.line, piece.column, len(piece.text.split("\n")[0]), source=piece.source)
        text = read_text(path, place)
        self._depth += 1
        try:
            self.run_script(text, path, acknowledge)
        finally:
            self._depth -= 1

    def _system(self, command: str) -> None:
        self._console.close()
        sys.stdout.flush()
        status = subprocess.run(command, shell=True, check=False).returncode
        if status:
            self._console.note(f"exit status {status}")


def column_limit(options: Mapping[str, str]) -> int:
    """Columns are at most so wide, where their types do not say how wide they are."""
    for key in ("sql-client.display.max-column-width", "table.display.max-column-width"):
        if key in options:
            return int(value(options, key))
    return int(value(options, "table.display.max-column-width"))


def help_text(topic: str) -> str:
    """What HELP prints: the commands and statements, or how some statements are written."""
    from stateplan.planner.dialect.grammar import STATEMENTS, matching_statements

    if topic:
        own = [c for c in COMMANDS if c.word == topic.upper()]
        if own:
            return "".join(f"{c.usage}\n    {c.effect}\n" for c in own)
        statements = matching_statements(topic)
        parts = (
            "\n".join(s.lines) + f"\n\n  {without_markup(s.effect)}\n  Example: {s.example};\n" for s in statements
        )
        return "\n".join(parts) if statements else f"There is no statement '{topic}'. HELP; lists all.\n"
    width = max(len(c.usage) for c in COMMANDS) + 2
    commands = "".join(f"  {c.usage.ljust(width)}{c.effect}\n" for c in COMMANDS)
    names: Sequence[str] = [s.name for s in STATEMENTS]
    lines, line = [], " "
    for name in names:
        if len(line) + len(name) > 76:
            lines.append(line)
            line = " "
        line += f" {name},"
    return (
        "A statement ends with a semicolon and may span lines. Enter runs what is complete.\n\n"
        f"Statements (HELP with one of them shows how it is written):\n{chr(10).join([*lines, line]).rstrip(',')}\n\n"
        f"Commands of the client:\n{commands}\n"
        "Tab completes, Ctrl-R searches the history, Ctrl-C drops the input or ends the query. Jobs that INSERT or\n"
        "EXECUTE PLAN have started keep running in the background; SHOW JOBS lists them, STOP JOB stops one.\n"
    )
