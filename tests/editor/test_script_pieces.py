"""Scripts are cut into statements, also broken ones."""

from __future__ import annotations

import pytest

from stateplan.editor.pieces import Cutter, statement_around


def pieces(text: str) -> list[tuple[str, str]]:
    """The text of each statement, with the code of its error."""
    return [(p.text.strip(), p.error.code if p.error is not None else "") for p in Cutter().cut(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1; SELECT 2", [("SELECT 1", ""), ("SELECT 2", "")]),
        ("SELECT 1; SELEC 2; SELECT 3", [("SELECT 1", ""), ("SELEC 2", "SQL002"), ("SELECT 3", "")]),
        ("SELECT 1 FROM\nCREATE VIEW v AS SELECT 1", [("SELECT 1 FROM", "SQL001"), ("CREATE VIEW v AS SELECT 1", "")]),
        ("-- only a comment", []),
        ("", []),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END; SELECT 3",
         [("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END", ""), ("SELECT 3", "")]),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSER INTO b SELECT 2; END; SELECT 3",
         [("INSERT INTO a SELECT 1", ""), ("INSER INTO b SELECT 2", "SQL002"), ("SELECT 3", "")]),
        ("SELECT 'a;\nSELECT 'b';\nSELECT 3", [("SELECT   ", "SQL003"), ("SELECT 'b'", ""), ("SELECT 3", "")]),
        ("SELECT 1; /* open\nSELECT 2", [("SELECT 1", "SQL003"), ("SELECT 2", "")]),
    ],
)  # fmt: skip
def test_a_broken_statement_hides_no_other(text: str, expected: list[tuple[str, str]]) -> None:
    got = pieces(text)
    assert [code for _, code in got] == [code for _, code in expected]
    assert [own for own, code in got if not code] == [own for own, code in expected if not code]


def test_a_missing_semicolon_is_reported_once() -> None:
    text = "CREATE VIEW a AS SELECT 1\nCREATE VIEW b AS SELECT 1;\nSELECT 1"
    assert [code for _, code in pieces(text)] == ["SQL001", "", ""]


def test_pieces_are_where_they_are_written() -> None:
    text = "  SELECT 1 ;\n\nSELECT 2;"
    assert [(p.start, text[p.span.start : p.span.end]) for p in Cutter().cut(text)] == [
        (2, "SELECT 1"),
        (14, "SELECT 2"),
    ]


def test_a_second_version_is_cut_like_a_new_script() -> None:
    cutter = Cutter()
    first, second = "SELECT 1; SELEC 2;", "SELECT 0; SELECT 1; SELEC 2; SELECT 3"
    cutter.cut(first)
    own = [(p.text, p.start, p.error and str(p.error)) for p in cutter.cut(second)]
    assert own == [(p.text, p.start, p.error and str(p.error)) for p in Cutter().cut(second)]


def test_the_statement_around_a_cursor_ignores_semicolons_in_texts() -> None:
    text = "SELECT ';' FROM a; SELECT x FROM b; SELECT 1"
    span = statement_around(text, text.index("x FROM"))
    assert text[span.start : span.end] == " SELECT x FROM b"
