"""What the parser says, to the letter: ``errors.txt`` holds a statement after ``>>>`` and the message below it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.common.errors import SqlError
from stateplan.session.script import read_script, read_statement

BLOCKS = [block.split("\n", 1) for block in Path(__file__).with_name("errors.txt").read_text().split(">>> ")[1:]]


@pytest.mark.parametrize(("text", "message"), BLOCKS, ids=[text for text, _ in BLOCKS])
def test_messages(text: str, message: str) -> None:
    with pytest.raises(SqlError) as raised:
        read_script(text)
    assert str(raised.value) == message.rstrip("\n")


def test_places_are_those_of_the_whole_script_and_name_its_file() -> None:
    script = (
        "CREATE TABLE t (a INT)\n  WITH ('connector' = 'print');\n\n"
        "-- a comment; with a semicolon\nSELECT a\n\tFORM t;\n"
    )
    with pytest.raises(SqlError) as raised:
        read_script(script, "job.sql")
    assert str(raised.value) == (
        "[SQL001] unexpected 't'\n"
        "  --> job.sql, line 6, column 7\n"
        "   FORM t;\n"
        "        ^\n"
        "  expected: FROM, a comma or the end of the query\n"
        "  hint: 'FORM' before it: did you mean 'FROM'?"
    )


def test_an_error_in_the_last_statement_is_found_before_the_first_runs() -> None:
    with pytest.raises(SqlError, match="no statement begins"):
        read_script("SELECT 1;\nSELEC 2")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 400 + "1" + ")" * 400,
        "SELECT " + "NOT " * 400 + "TRUE",
        "SELECT " + "- " * 400 + "1",
        "SELECT " + "f(" * 400 + "1" + ")" * 400,
        "SELECT CAST(a AS " + "ARRAY<" * 400 + "INT" + ">" * 400 + ")",
        "SELECT * FROM " + "(SELECT * FROM " * 400 + "t" + ")" * 400,
        "SELECT " + "CASE WHEN TRUE THEN " * 400 + "1" + " END" * 400,
    ],
)
def test_what_is_nested_too_deep_is_an_error(text: str) -> None:
    with pytest.raises(SqlError) as raised:
        read_script(text)
    assert raised.value.code == "SQL009"


def test_long_chains_are_not_deep() -> None:
    [statement] = read_script("SELECT " + " + ".join(["1"] * 2000) + " FROM t WHERE " + " AND ".join(["a"] * 2000))
    assert statement.node.expressions


def test_one_statement_is_one_statement() -> None:
    assert read_statement(" SELECT 1 ; ").text == "SELECT 1"
    with pytest.raises(SqlError) as raised:
        read_statement("-- nothing")
    assert str(raised.value) == "[SQL010] no statement where one is expected\n  expected: one SQL statement"
    with pytest.raises(SqlError) as raised:
        read_statement("SELECT 1; SELECT 2")
    assert (raised.value.code, raised.value.place and raised.value.place.column) == ("SQL010", 11)
