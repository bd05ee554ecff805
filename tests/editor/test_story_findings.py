"""What is underlined in a test file of ``stateplan test``."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.editor.findings import Level
from tests.editor.reading import brief, insight

TABLES = "CREATE TABLE orders (id INT, num INT);\nCREATE TABLE logistics (id INT, target STRING);\n"
QUERY = "SELECT o.id, target FROM orders AS o JOIN logistics AS l ON o.id = l.id;\n"
TEST = "-- test: a match\n-- given orders\n--   | id | num |\n--   | 1  | 2   |\n-- expect rows\n"


def errors(text: str, folder: Path) -> list[tuple[str, str]]:
    """Codes and underlined texts of errors."""
    findings = insight(text, folder, "test.sql").findings
    return [brief(f, text)[:2] for f in findings if f.level == Level.ERROR]


def test_a_test_without_errors(tmp_path: Path) -> None:
    assert errors(TABLES + QUERY + TEST, tmp_path) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TEST.replace("given orders", "givn orders"), [("TEST001", "-- givn orders")]),
        (TEST.replace("given orders", "given ordrs"), [("TEST003", "-- given ordrs")]),
        (TEST.replace("num |", "nun |"), [("TEST002", "--   | id | nun |")]),
        (TEST.replace("| 2   |", "| x   |"), [("TEST002", "--   | 1  | x   |")]),
        (TEST.replace("| 2   |", "|"), [("TEST002", "--   | 1  |")]),
        (TEST + "-- expect state join.lift: 1 row\n", [("PLAN101", "-- expect state join.lift: 1 row")]),
        (TEST + "-- ttl join.left 5 parsecs\n", [("PLAN055", "-- ttl join.left 5 parsecs")]),
        (TEST.replace("expect rows", "expect rows shipped"), [("TEST003", "-- expect rows shipped")]),
        (TEST + "-- include missing.sql\n", [("TEST006", "-- include missing.sql")]),
        (TEST + "-- include /etc/passwd\n", [("TEST006", "-- include /etc/passwd")]),
        ("SELEC;\n" + TEST, [("SQL002", "SELEC")]),
    ],
)  # fmt: skip
def test_directives_are_checked(text: str, expected: list[tuple[str, str]], tmp_path: Path) -> None:
    query = "" if text.startswith("SELEC") else QUERY
    assert errors(TABLES + query + text, tmp_path) == expected


def test_crlf_does_not_move_the_place(tmp_path: Path) -> None:
    text = (TABLES + QUERY.replace("o.id, target", "o.id, targt") + TEST).replace("\n", "\r\n")
    assert errors(text, tmp_path) == [("SQL100", "targt")]


def test_an_expected_error_is_none(tmp_path: Path) -> None:
    text = TABLES + "-- test: a wrong query\nSELECT x FROM orders;\n-- expect error SQL100\n"
    assert errors(text, tmp_path) == []


def test_each_test_may_have_a_query(tmp_path: Path) -> None:
    text = TABLES + "".join(f"-- test: {n}\nSELECT {n} FROM orders;\n-- expect rows\n" for n in ("id", "x", "num", "y"))
    assert errors(text, tmp_path) == [("SQL100", "x"), ("SQL100", "y")]


def test_the_query_of_production_is_included(tmp_path: Path) -> None:
    (tmp_path / "tables.sql").write_text(TABLES)
    assert errors("-- include tables.sql\n" + QUERY + TEST, tmp_path) == []
    assert errors("-- include tables.sql\n" + QUERY.replace("target", "targt") + TEST, tmp_path) == [
        ("SQL100", "targt")
    ]


def test_a_test_file_has_its_tests_as_outline_and_states_as_lenses(tmp_path: Path) -> None:
    read = insight(TABLES + QUERY + TEST, tmp_path, "test.sql")
    assert [s.name for s in read.symbols if s.kind == "test"] == ["a match"]
    assert [lens.title for lens in read.lenses] == ["2 states: join.left never expires, join.right never expires"]
