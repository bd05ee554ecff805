"""The command line for tests: what a command answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from stateplan.cli import app


class Answer(NamedTuple):
    """Exit code, standard output and standard error of a command."""

    code: int
    out: str
    err: str


Command = Callable[..., Answer]
"""Runs ``stateplan`` with the arguments given, in this process."""


def command(captured: pytest.CaptureFixture[str]) -> Command:
    """The command line, whose output ``captured`` catches."""

    def run(*args: object) -> Answer:
        with pytest.raises(SystemExit) as ended:
            app.main([str(arg) for arg in args])
        assert isinstance(ended.value.code, int)
        return Answer(ended.value.code, *captured.readouterr())

    return run
