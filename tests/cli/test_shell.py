"""The interactive shell, with typed lines instead of a terminal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stateplan.cli.shell import PROMPT, Shell, is_complete
from tests.support.capture import CaptureConsole


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1;", True),
        ("SELECT 1; ", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ("SELECT ';'", False),
        ("SELECT 'it''s;';", True),
        ("SELECT `a;b", False),
        ("SELECT 1 -- ;", False),
        ("SELECT /* ; */ 1", False),
        ("SELECT /* ;", False),
        ("SELECT 1; SELECT", False),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;", False),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT CASE WHEN x THEN 1 END FROM t; END;", True),
        ("compile plan 'p' for statement set\nbegin insert into a select 1; insert into b select 2; end", False),
        ("SELECT 'STATEMENT SET BEGIN';", True),
    ],
)
def test_where_a_statement_ends(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


class Typed:
    """Lines as if typed; ``KeyboardInterrupt`` in the list is Ctrl-C."""

    def __init__(self, *lines: str | type[KeyboardInterrupt]) -> None:
        self.prompts: list[str] = []
        self._lines: Iterator[str | type[KeyboardInterrupt]] = iter(lines)

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        line = next(self._lines, None)
        if line is None:
            raise EOFError
        if isinstance(line, str):
            return line
        raise line


def test_statements_may_span_lines() -> None:
    ran: list[str] = []
    typed = Typed("", "SELECT", "  1;", "SELECT 2;")
    Shell(CaptureConsole(), ran.append, typed).loop()
    assert ran == ["SELECT\n  1;", "SELECT 2;"]
    assert typed.prompts == [PROMPT, PROMPT, "> ".rjust(len(PROMPT)), PROMPT, PROMPT]


def test_control_c_drops_what_is_typed() -> None:
    ran: list[str] = []
    Shell(CaptureConsole(), ran.append, Typed("SELECT", KeyboardInterrupt, "SELECT 2;")).loop()
    assert ran == ["SELECT 2;"]


def test_control_c_in_a_statement_does_not_end_the_shell() -> None:
    ran: list[str] = []

    def run(text: str) -> None:
        ran.append(text)
        raise KeyboardInterrupt

    Shell(CaptureConsole(), run, Typed("INSERT 1;", "INSERT 2;")).loop()
    assert ran == ["INSERT 1;", "INSERT 2;"]


@pytest.mark.parametrize("word", ["quit;", "EXIT ;"])
def test_quit(word: str) -> None:
    ran: list[str] = []
    Shell(CaptureConsole(), ran.append, Typed(word, "SELECT 1;")).loop()
    assert ran == []


def test_help() -> None:
    console = CaptureConsole()
    Shell(console, print, Typed("help;")).loop()
    assert "QUIT;" in console.text
