"""Statements of public scripts: what runs, and what is refused with a code as Flink 2.3 refuses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import read_script

HERE = Path(__file__).parent
SETTINGS = (HERE / "public_settings.txt").read_text(encoding="utf-8").splitlines()
STATEMENTS = [line.split("\t") for line in (HERE / "public_statements.txt").read_text(encoding="utf-8").splitlines()]
"""Statements that follow each other, with ``ok`` or the code of their error; with ``!`` if Flink runs the statement."""


def outcome(environment: TableEnvironment, text: str) -> str:
    """``ok``, or the code of the error that a statement ends with."""
    try:
        for statement in read_script(f"{text};"):
            environment.execute_statement(statement)
    except StateplanError as error:
        return error.code
    return "ok"


@pytest.mark.parametrize("text", SETTINGS)
def test_a_setting_of_a_public_script_is_accepted(text: str) -> None:
    assert outcome(TableEnvironment.create(), text) == "ok"


def test_other_statements_run_where_flink_runs_them() -> None:
    environment = TableEnvironment.create()
    assert [[outcome(environment, text), text] for _, text in STATEMENTS] == [
        [code.rstrip("!"), text] for code, text in STATEMENTS
    ]


def test_only_two_statements_are_refused_that_flink_runs() -> None:
    """A function in Java, and a materialized table."""
    assert [text.split("(")[0].split(" ")[1] for code, text in STATEMENTS if code.endswith("!")] == [
        "FUNCTION",
        "MATERIALIZED",
    ]
