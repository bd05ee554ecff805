"""The interactive shell: asks for statements, runs them, and continues after errors."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

from prompt_toolkit.application import get_app
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.patch_stdout import StdoutProxy, patch_stdout

from stateplan.cli.command import Termination
from stateplan.cli.console import Console, JsonConsole, TerminalConsole
from stateplan.cli.sql_client.client import Client, Quit, column_limit
from stateplan.cli.sql_client.history import StatementHistory, history_file
from stateplan.cli.sql_client.jobs import JobsHere, JobState
from stateplan.cli.sql_client.prompt import Prompt
from stateplan.cli.sql_client.rows import CurrentRows, LastChanges
from stateplan.cli.sql_client.screen import ResultScreen
from stateplan.common.errors import StateplanError
from stateplan.common.readable import amount
from stateplan.common.redaction import redacted
from stateplan.common.settings import value
from stateplan.gateway.protocol import ResultPage
from stateplan.runtime.failures import as_error

_MOST = 1_000_000
"""How many characters of the output of jobs are kept while a result fills the screen. The oldest are dropped."""


class TerminalScreen:
    """The terminal: results on the whole screen, and long texts page by page.

    Args:
        output, input: of the terminal.
    """

    def __init__(self, output: Output, input: Input) -> None:  # noqa: A002 - prompt_toolkit's name
        self.output = output
        self.input = input

    def show(self, mode: str, first: ResultPage, pages: Iterator[ResultPage], options: Mapping[str, str]) -> None:
        """Shows the result of a query until the user leaves.

        Raises:
            StateplanError: what the query failed of.
        """
        limit = int(value(options, "sql-client.execution.max-table-result.rows"))
        rows = LastChanges() if mode == "CHANGELOG" else CurrentRows(limit)
        screen = ResultScreen(first.columns, rows, column_limit(options), self.output, self.input)
        with _held_back():
            screen.run(pages)
        if screen.error is not None:
            raise screen.error

    def page(self, text: str) -> bool:
        """Shows a text in the pager, when it is longer than the screen; whether it did."""
        size = self.output.get_size()
        if sum(1 + len(line) // (size.columns + 1) for line in text.splitlines()) < size.rows:
            return False
        words = shlex.split(os.environ.get("STATEPLAN_PAGER", os.environ.get("PAGER", "less")))
        if not words or shutil.which(words[0]) is None:
            return False
        options = {**os.environ, "LESS": os.environ.get("LESS", "-FRSX")}
        with contextlib.suppress(OSError, KeyboardInterrupt):
            subprocess.run(words, input=text, text=True, env=options, check=False)
        return True

    def clear(self) -> None:
        """Clears the screen."""
        self.output.erase_screen()
        self.output.cursor_goto(0, 0)
        self.output.flush()


class _Buffer(io.TextIOBase):
    """Standard output that keeps the last of what is written to it."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        self._length = 0

    def write(self, text: str) -> int:
        self._texts.append(text)
        self._length += len(text)
        while self._length > _MOST:
            self._length -= len(self._texts.popleft())
        return len(text)

    def text(self) -> str:
        """What has been written."""
        return "".join(self._texts)


@contextlib.contextmanager
def _held_back() -> Iterator[None]:
    """Keeps what jobs print while a result fills the screen, and prints it afterwards."""
    buffer = _Buffer()
    before, sys.stdout = sys.stdout, buffer
    try:
        yield
    finally:
        sys.stdout = before
        before.write(buffer.text())
        before.flush()


class Shell:
    """The loop of the shell.

    Args:
        client: runs statements.
        console: where notes and errors go.
        screen: where statements are typed.
        debug: whether every error comes with its traceback.
        history: the history of statements.
    """

    def __init__(
        self,
        client: Client,
        console: Console,
        screen: TerminalScreen,
        debug: bool = False,
        history: Path | None = None,
    ) -> None:
        self._client = client
        self._prompt = Prompt(
            client.options,
            client.session.complete,
            StatementHistory(history or history_file()),
            self.toolbar,
            screen.output,
            screen.input,
            lambda: client.inserts,
        )
        self._console = console
        self._debug = debug
        self._final_ids: set[str] = set()

    def loop(self) -> None:
        """Asks and runs until the user leaves.

        Raises:
            Terminated: SIGTERM.
        """
        while True:
            try:
                self.toolbar()
                with patch_stdout(raw=True):
                    text = self._prompt.ask()
                self._run(text)
            except (Quit, EOFError):
                if self._may_leave():
                    return
            except Termination:
                raise
            except KeyboardInterrupt:
                pass

    def _run(self, text: str) -> None:
        try:
            self._client.run_script(text, acknowledge=True)
        except (Quit, Termination):
            raise
        except KeyboardInterrupt:
            pass  # the client has said what was stopped
        except StateplanError as error:
            self._console.error(error)
            self._trace()
        except Exception as bug:
            self._console.error(as_error(bug))
            self._trace()
        finally:
            self._console.close()

    def _trace(self) -> None:
        if self._debug or value(self._client.options(), "sql-client.verbose"):
            sys.stderr.write(redacted(traceback.format_exc()))

    def toolbar(self) -> str:
        """The jobs in the background; says, above the prompt, which ones have ended."""
        states = self._client.jobs.states()
        if get_app().is_running or not isinstance(sys.stdout, StdoutProxy):  # not while the prompt is about to appear
            for state in states:
                if not state.is_running and state.id not in self._final_ids:
                    self._final_ids.add(state.id)
                    self.tell(_end_of(state))
        ids = [state.id for state in states if state.is_running]
        if not ids:
            return ""
        return f" {amount(len(ids), 'job')} running: {', '.join(ids[:3])}{' ...' if len(ids) > 3 else ''} "

    def tell(self, text: str) -> None:
        """Prints a note, now or above the prompt; also from other threads."""
        if self._console.quiet:
            return
        if isinstance(sys.stdout, StdoutProxy | _Buffer):
            sys.stdout.write(f"{text}\n")
        else:
            self._console.note(text)

    def _may_leave(self) -> bool:
        count = sum(state.is_running for state in self._client.jobs.states())
        if not count:
            return True
        jobs, run, stop = ("1 job", "runs", "stops") if count == 1 else (f"{count} jobs", "run", "stop")
        if not isinstance(self._client.jobs, JobsHere):
            self._console.note(f"{jobs} {run} on at the gateway")
            return True
        condition = "a checkpoint directory keeps the state"
        return self._prompt.confirm(f"{jobs} {run} in this process and {stop} when you leave; {condition}. Leave?")


def _end_of(state: JobState) -> str:
    if state.error is not None:
        return f"job {state.id} failed: {state.error}"
    return f"job {state.id} {state.status.lower()}"


@contextlib.contextmanager
def terminal(console: Console) -> Iterator[tuple[TerminalScreen, Console]]:
    """The terminal of this process, and a console like ``console`` on it. Both have files of their own: while Spark
    starts, what is written to standard output goes into Spark's log.

    Programs get the terminal as arguments. In an app session of its own, prompt_toolkit would not write what jobs print
    above the prompt but into it: the thread that writes does not know the session.
    """
    with contextlib.ExitStack() as stack:
        out, err = (
            stack.enter_context(os.fdopen(os.dup(f.fileno()), "w", encoding=f.encoding, errors="backslashreplace"))
            for f in (sys.stdout, sys.stderr)
        )
        kind = JsonConsole if isinstance(console, JsonConsole) else TerminalConsole
        yield TerminalScreen(create_output(stdout=out), create_input()), kind(console.quiet, out, err)
