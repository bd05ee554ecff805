"""What was typed, statement by statement, over all shells of a user."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit.history import History

from stateplan.cli.sql_client.statements import is_complete
from stateplan.common.redaction import redacted

LENGTH = 2000
"""How many statements the history keeps."""

_LIBEDIT = "_HiStOrY_V2_"


def history_file() -> Path:
    """``STATEPLAN_HISTORY``, by default ``~/.stateplan_history``."""
    return Path(os.environ.get("STATEPLAN_HISTORY") or Path.home() / ".stateplan_history")


class StatementHistory(History):
    """Statements in a file: each line of one has a ``+`` in front, and an empty line ends it.

    Older versions wrote every line as an entry of its own, without the ``+``. Such lines become statements again, and
    are written anew with the first statement that is added. A statement that begins with a blank is not kept. Secrets
    are written as stars.
    """

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def load_history_strings(self) -> Iterable[str]:
        """The statements, the latest first."""
        try:
            text = self._file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        statements, old = _entries(text)
        if old or len(statements) > 2 * LENGTH:
            statements = statements[-LENGTH:]
            self._write(statements)
        yield from reversed(statements)

    def store_string(self, string: str) -> None:
        """Adds a statement to the file."""
        if string[:1].isspace():
            return
        with contextlib.suppress(OSError):
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as out:
                out.write(_entry(redacted(string)))

    def _write(self, entries: Iterable[str]) -> None:
        new = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as out:
                out.writelines(map(_entry, map(redacted, entries)))
            new.replace(self._file)


def _entry(statement: str) -> str:
    return "".join(f"+{line}\n" for line in statement.split("\n")) + "\n"


def _entries(text: str) -> tuple[list[str], bool]:
    """The statements of a file, and whether there are lines of older versions."""
    statements: list[str] = []
    lines: list[str] = []
    single: list[str] = []
    old = False

    def end() -> None:
        for part in (lines, single):
            if part:
                statements.append("\n".join(part))
                part.clear()

    for line in text.split("\n"):
        if line.startswith("+"):
            if single:
                end()
            lines.append(line[1:])
        elif lines:
            end()
        if line.startswith("+") or not line.strip() or line == _LIBEDIT:
            continue
        old = True
        single.append(line)
        if is_complete("\n".join(single)):
            end()
    end()
    return statements, old
