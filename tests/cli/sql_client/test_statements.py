"""Scripts cut into statements, and errors placed in scripts."""

from __future__ import annotations

import pytest

from stateplan.cli.sql_client.commands import command_of
from stateplan.cli.sql_client.statements import is_complete, pieces
from stateplan.common.errors import Place, StateplanError
from stateplan.session.script import read_script


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
        ("SELECT 1 // ;", False),
        ("SELECT /* ; */ 1", False),
        ("SELECT /* ;", False),
        ("SELECT 1; SELECT", False),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;", False),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT CASE WHEN x THEN 1 END FROM t; END;", True),
        ("compile plan 'p' for statement set\nbegin insert into a select 1; insert into b select 2; end", False),
        ("SELECT 'STATEMENT SET BEGIN';", True),
        ("!ls; pwd", True),
        ("SELECT 1\n!ls", False),
        ("", False),
        (";", False),
    ],
)
def test_where_a_statement_ends(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_the_statements_of_a_script() -> None:
    script = "-- tables\nCREATE TABLE t (a INT);\n!echo ; x\n /* why */ SET 'a' = ';';;\nSELECT 1 -- end"
    assert [(p.text, p.line, p.column, p.is_ended) for p in pieces(script)] == [
        ("CREATE TABLE t (a INT)", 2, 1, True),
        ("!echo ; x", 3, 1, True),
        ("SET 'a' = ';'", 4, 12, True),
        ("SELECT 1", 5, 1, False),
    ]


def test_an_error_gets_its_place_in_the_script() -> None:
    script = "SELECT 1; SELECT 2\n  FROM 7;\n"
    second = list(pieces(script, "a.sql"))[1]
    with pytest.raises(StateplanError) as raised:
        read_script(second.text)
    place = second.at_script(raised.value).place
    assert place is not None
    assert (place.file, place.line, place.source) == ("a.sql", 2, script)
    first_line = second.at_script(StateplanError("BUG000", what="x", place=Place(line=1, column=3, source=second.text)))
    assert first_line.place == Place("a.sql", 1, 13, source=script)


def test_an_error_of_another_file_keeps_its_place() -> None:
    (piece,) = pieces("EXECUTE PLAN 'p'", "a.sql")
    place = Place("p", 3, 4)
    assert piece.at_script(StateplanError("BUG000", what="x", place=place)).place is place
    assert str(piece.at_script(StateplanError("BUG000", what="x")).place) == "a.sql, line 1"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("help", ("HELP", "")),
        ("HELP create table", ("HELP", "create table")),
        ("source 'it''s.sql'", ("SOURCE", "it's.sql")),
        ("!ls -l", ("!", "ls -l")),
        ("Exit", ("QUIT", "Exit")),
        ("helper", None),
        ("SOURCE", None),
        ("SELECT 1", None),
    ],
)
def test_commands_of_the_client(text: str, command: tuple[str, str] | None) -> None:
    assert command_of(text) == command
