"""The interactive shell: multi-line statements, a history, and no exit on errors."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from stateplan.cli.console import Console

PROMPT = "Stateplan SQL> "
CONTINUATION = "> ".rjust(len(PROMPT))
HISTORY_LENGTH = 2000

HELP = """\
Statements end with a semicolon and may span several lines. Commands besides SQL:
  HELP;   show this text
  CLEAR;  clear the screen
  QUIT;   exit the shell (also EXIT; and Ctrl-D)
Ctrl-C discards the current input or stops the running job.
"""

_TOKEN = re.compile(
    r"""
    --[^\n]* | /\*.*?\*/ | \s+              # nothing
  | (?P<text>'(?:[^']|'')*' | `(?:[^`]|``)*` | "(?:[^"]|"")*")
  | (?P<open>['`"] | /\*)                   # begins something that does not end
  | (?P<word>\w+)
  | (?P<other>.)
""",
    re.S | re.X,
)


def is_complete(text: str) -> bool:
    """Whether ``text`` ends with the semicolon of its last statement: not one inside a text, a comment or a
    ``STATEMENT SET BEGIN ... END``."""
    words = ["", "", ""]
    inside = False
    for token in _TOKEN.finditer(text):
        if token["open"]:
            return False
        word = (token["word"] or token["text"] or token["other"] or "").upper()
        if not word:
            continue
        words = [*words[1:], word]
        if words == ["STATEMENT", "SET", "BEGIN"]:
            inside = True
        elif inside and words[1:] == [";", "END"]:
            inside = False
    return words[-1] == ";" and not inside


@contextlib.contextmanager
def with_history() -> Iterator[None]:
    """Line editing whose history is kept in ``STATEPLAN_HISTORY``, by default ``~/.stateplan_history``."""
    try:
        import readline
    except ImportError:  # a Python without it: plain input
        yield
        return
    file = Path(os.environ.get("STATEPLAN_HISTORY") or Path.home() / ".stateplan_history")
    with contextlib.suppress(OSError):
        readline.read_history_file(file)
    readline.set_history_length(HISTORY_LENGTH)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            readline.write_history_file(file)


class Shell:
    """The read-execute loop.

    Args:
        console: where notes and help go.
        run: runs statements and reports their errors itself; may raise KeyboardInterrupt.
        read: asks for a line with a prompt; raises EOFError at the end of input.
    """

    def __init__(self, console: Console, run: Callable[[str], None], read: Callable[[str], str] = input) -> None:
        self._console = console
        self._run = run
        self._read = read

    def loop(self) -> None:
        """Reads and runs until QUIT, EXIT or the end of input."""
        while True:
            try:
                statement = self._statement()
                if statement is None:
                    return
                command = statement.strip("; \n\t").upper()
                if command in ("QUIT", "EXIT"):
                    return
                if command == "HELP":
                    self._console.show(HELP, {"help": HELP})
                elif command == "CLEAR":
                    sys.stdout.write("\033[H\033[2J")
                else:
                    self._run(statement)
            except KeyboardInterrupt:
                self._console.note("")

    def _statement(self) -> str | None:
        """The next statement, over as many lines as it takes; None at the end of input."""
        lines: list[str] = []
        while True:
            try:
                lines.append(self._read(CONTINUATION if lines else PROMPT))
            except EOFError:
                self._console.note("")
                return None
            text = "\n".join(lines)
            if not text.strip():
                lines.clear()
            elif is_complete(text):
                return text
