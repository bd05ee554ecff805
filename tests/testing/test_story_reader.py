"""Test files are read as they are written, and nothing in them is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.testing.reader import START, duration, find_files
from stateplan.testing.story import Advance, Expect, GivenRows, Watermark
from tests.testing.stories import COUNT, cases


def test_tests_share_what_is_above_the_first_one() -> None:
    first, second = cases(f"{COUNT}-- test: one\n-- restart\n-- test: two\nSET 'a' = 'b';\n")
    assert (first.title, first.line, len(first.sql)) == ("one", 4, 1)
    assert (second.title, second.line, len(second.sql)) == ("two", 6, 2)
    assert second.sql[1].text.split("\n")[6] == "SET 'a' = 'b';"  # where it is in the file


def test_a_table_has_kinds_nulls_and_bars() -> None:
    (case,) = cases('-- test: t\n-- given t\n--      | a   | b    |\n--   -U | x\\|y | NULL |\n--   +U | "NULL" |  |\n')
    (step,) = case.steps
    assert isinstance(step, GivenRows)
    assert step.block.columns == ("a", "b")
    assert [(row.kind, row.cells, row.line) for row in step.block.rows] == [
        ("-U", ("x|y", None), 4),
        ("+U", ('"NULL"', ""), 5),
    ]


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        ("json", '--   {"a": 1.50, "b": "x"}\n--   -D {"a": null, "b": "y"}\n'),
        ("csv", "--   a,b\n--   1.50,x\n--   -D ,y\n"),
    ],
)
def test_rows_are_json_or_csv(form: str, lines: str) -> None:
    (case,) = cases(f"-- test: t\n-- given t {form}\n{lines}-- restart\n")
    step = case.steps[0]
    assert isinstance(step, GivenRows)
    assert step.block.columns == ("a", "b")
    rows = [(row.kind, row.cells[0], (row.cells[1] or "").strip('"')) for row in step.block.rows]
    assert rows == [("+I", "1.50", "x"), ("-D", None, "y")]
    assert len(case.steps) == 2


def test_times_and_durations() -> None:
    (case,) = cases(
        "-- clock 2024-01-01 00:00:01\n-- test: t\n-- watermark s 2024-01-01 00:00:02\n-- advance 1 h 30 min\n"
    )
    assert case.clock == START + 1000
    watermark, advance = case.steps
    assert isinstance(watermark, Watermark) and watermark.time == START + 2000
    assert isinstance(advance, Advance) and advance.ms == 90 * 60_000
    assert duration("6 d 23 h 59 min 59 s 999 ms") == 7 * 86_400_000 - 1


def test_text_begins_with_a_capital_letter() -> None:
    (case,) = cases("-- test: t\n-- The order is late.\n-- expect no warning\n")
    assert [type(step) for step in case.steps] == [Expect]


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("-- expct table", "expect table"),
        ("-- expect tabel", "expect table"),
        ("-- Expect nothing", "expect"),
        ("-- advanced 2 h", "advance"),
        ("-- given", "given"),
        ("--   | 1 | 2 |", None),
        ("-- some text", None),
    ],
)
def test_a_comment_that_is_nothing_is_refused(line: str, hint: str | None) -> None:
    with pytest.raises(StateplanError) as error:
        cases(f"{COUNT}-- test: t\n{line}\n")
    assert error.value.code == "TEST001"
    assert error.value.place is not None
    assert (error.value.place.file, error.value.place.line) == ("story.sql", 5)
    assert hint is None or hint in (error.value.hint or "")


def test_comments_within_a_statement_belong_to_it() -> None:
    (case,) = cases("-- test: t\nSELECT 1\n-- and then\n, 2;\n-- expect no warning\n")
    assert len(case.steps) == 1


def test_titles_differ() -> None:
    with pytest.raises(StateplanError, match="TEST001"):
        cases("-- test: t\n-- test: t\n")


@pytest.mark.parametrize(
    ("lines", "line", "text"),
    [
        ("--   | a | b |\n--   | 1 |\n", 4, "1 cells"),
        ("--   +I | 1 |\n", 3, "no header"),
        ("", 2, "no rows follow 'given t'"),
    ],
)
def test_malformed_rows_are_refused_with_their_line(lines: str, line: int, text: str) -> None:
    with pytest.raises(StateplanError) as error:
        cases(f"-- test: t\n-- given t\n{lines}")
    assert error.value.code == "TEST002" and text in error.value.message
    assert error.value.place is not None and error.value.place.line == line


def test_files_are_found_by_their_tests(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.sql").write_text("-- test: t\n")
    (tmp_path / "query.sql").write_text("SELECT 1; -- test: no\n")
    assert find_files([str(tmp_path)]) == [str(tmp_path / "a" / "b.sql")]
    for path in ("missing", "query.sql"):
        with pytest.raises(StateplanError, match="TEST006"):
            find_files([str(tmp_path / path)])
