"""Scripts into statements."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import StateplanError
from stateplan.planner.dialect import parse, to_sql
from stateplan.session.script import read_script

PIECES = st.sampled_from(
    [
        "SELECT",
        "a",
        "FROM",
        "t",
        ";",
        "'x;y'",
        "`b;c`",
        "-- d;\n",
        "/* e; */",
        "(",
        ")",
        ",",
        "=",
        "1",
        "WHERE",
        "INSERT",
        "INTO",
        "'",
        "`",
        "/*",
        "/*+",
        "*/",
        "BEGIN",
        "END",
        "STATEMENT SET",
        "EXECUTE",
        "\n",
        "SET",
        ".",
        "*",
        "é",
        "\U0001f600",
    ]
)


def test_semicolons_in_texts_names_and_comments_end_nothing() -> None:
    script = """
    -- first; comment
    SELECT 'a;b', `c;d` FROM t; /* second; comment */
    SET 'k' = 'v;w';;
    EXECUTE STATEMENT SET BEGIN
      INSERT INTO s SELECT 1;
      INSERT INTO s SELECT 2;
    END;
    """
    statements = read_script(script, "x.sql")
    assert [s.text.split()[0] for s in statements] == ["SELECT", "SET", "EXECUTE"]
    assert statements[0].text == "SELECT 'a;b', `c;d` FROM t"
    assert statements[2].text.endswith("END")
    assert [(s.place.file, s.place.line, s.place.column) for s in statements] == [
        ("x.sql", 3, 5),
        ("x.sql", 4, 5),
        ("x.sql", 5, 5),
    ]


def test_bytes_that_are_no_text_are_not_quoted() -> None:
    with pytest.raises(StateplanError) as error:
        read_script(b"SELECT \x01\xff".decode("utf-8", "surrogateescape"), "<stdin>")
    assert str(error.value) == (
        "[SQL401] the script cannot be read: it is not UTF-8 text\n  --> <stdin>\n"
        "  expected: a file with SQL statements"
    )


def test_a_script_of_nothing_has_no_statements() -> None:
    assert read_script("") == []
    assert read_script(" ;; -- x\n /* y */ ; ") == []


def test_statements_keep_the_text_of_the_whole_script() -> None:
    script = "SELECT 1;\nSELECT 2"
    assert [s.source for s in read_script(script)] == [script, script]


@given(st.lists(PIECES, max_size=30).map(" ".join))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    try:
        statements = read_script(text)
    except StateplanError as error:
        assert error.code.startswith("SQL00")
        assert error.place is not None
        assert error.place.line is not None
        assert 1 <= error.place.line <= text.count("\n") + 1
        str(error)
    else:
        for statement in statements:
            assert statement.text in text


@given(st.text(max_size=40))
def test_any_characters_are_read_or_refused(text: str) -> None:
    try:
        read_script(text)
    except StateplanError as error:
        str(error)


LINES = (Path(__file__).parents[1] / "planner" / "identity.sql").read_text().splitlines()
TOKENS = re.compile(r"\s+|'(?:[^']|'')*'|`[^`]*`|/\*\+|\*/|\w+|.", re.S)


@given(st.data())
def test_a_statement_with_a_word_too_many_or_too_few_is_refused_or_means_what_it_says(data: st.DataObject) -> None:
    tokens = TOKENS.findall(data.draw(st.sampled_from(LINES)))
    other = TOKENS.findall(data.draw(st.sampled_from(LINES)))
    at = data.draw(st.integers(0, len(tokens) - 1))
    word = [data.draw(st.sampled_from(other))] if data.draw(st.booleans()) else []
    text = " ".join([*tokens[:at], *word, *tokens[at + data.draw(st.integers(0, 1)) :]])
    try:
        trees = parse(text)
    except StateplanError as error:
        assert error.place is not None
        return
    for tree in trees:
        written = to_sql(tree)
        [again] = parse(written)
        assert again == tree
        assert to_sql(again) == written
