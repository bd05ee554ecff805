"""PLAN_ADVICE of statements, against what Flink 2.3 printed for those of ``advice.sql``: in ``advice.txt``, behind each
statement the section of the physical plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.session.environment import TableEnvironment
from stateplan.session.script import read_script
from tests.support.cases import SESSION

HERE = Path(__file__).parent
SCRIPT = (HERE / "advice.sql").read_text(encoding="utf-8")
EXPECTED = dict(
    block.split("\n", 1) for block in (HERE / "advice.txt").read_text(encoding="utf-8").split(">>> ") if block
)


def session() -> TableEnvironment:
    env = TableEnvironment.create(SESSION)
    for statement in read_script(SCRIPT):
        if statement.text not in EXPECTED:
            env.execute_statement(statement)
    return env


@pytest.mark.parametrize("statement", EXPECTED)
def test_advice_is_flinks(statement: str) -> None:
    [(text,)] = session().execute_sql(statement).rows
    written, title, rest = str(text).partition("== Optimized Physical Plan")
    assert written.startswith("== Abstract Syntax Tree ==")
    assert (title + rest).partition("\n== Optimized Execution Plan ==")[0] == EXPECTED[statement]


def test_every_kind_of_advice_is_there() -> None:
    """What ``advice.txt`` is a test of."""
    all_of_it = "".join(EXPECTED.values())
    for words in (
        "[ADVICE] You might want",
        "[WARNING] The column(s): ",
        "[WARNING] The metadata column(s): ",
        "[WARNING] There exists non deterministic function: ",
        "No available advice...",
        "advice[2]: ",
        "upsertKeys=[[id]]",
    ):
        assert words in all_of_it
