"""What the command prints, writes and updates."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.support.command import Command, command
from tests.testing.stories import COUNT, JOIN

WRONG = f"""{COUNT}
-- test: totals
-- given sales
--   | product | num |
--   | tea     | 2   |
-- expect changelog
--      | product | total |
--   +I | tea     | 3     |
-- expect state group-aggregate: 7 rows
-- The rest is right.
-- expect table
--   | product | total |
--   | tea     | 2     |
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    return command(capsys)


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "story.sql"
    path.write_text(WRONG)
    return path


def test_a_failure_shows_file_line_and_rows(run: Command, story: Path) -> None:
    answer = run("test", story)
    assert answer.code == 1
    assert "1 file, 1 test: 0 passed, 1 failed" in answer.err
    assert f"{story}:9: expect changelog: 1 row missing, 1 row not expected" in answer.out
    assert "    - +I | tea     | 3     |\n    + +I | tea     | 2     |\n" in answer.out
    assert f"{story}:12: expect state group-aggregate: 7 rows: the state group-aggregate has 1 row" in answer.out


def test_json_has_the_same(run: Command, story: Path) -> None:
    (test,) = json.loads(run("test", story, "--format", "json").out)["tests"]
    assert (test["outcome"], test["line"], [f["line"] for f in test["failures"]]) == ("failed", 5, [9, 12])


def test_junit_xml_has_failures(run: Command, story: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.sql").write_text("-- test: t\n-- expct\n")
    report = tmp_path / "report.xml"
    assert run("test", tmp_path, "--junit-xml", report).code == 1
    suites = ElementTree.parse(report).getroot()
    failures = [(c.get("name"), c[0].tag) for suite in suites for c in suite if len(c)]
    assert failures == [("the file", "error"), ("totals", "failure")]
    assert "+I | tea     | 2     |" in (suites[1][0][0].text or "")


def test_update_writes_expectations_and_keeps_every_other_byte(run: Command, story: Path) -> None:
    assert run("test", story, "--update").code == 0
    assert story.read_text() == WRONG.replace("tea     | 3     |", "tea     | 2     |").replace("7 rows", "1 row")
    windows = WRONG.replace("\n", "\r\n").encode()
    story.write_bytes(windows)
    assert run("test", story, "--update").code == 0
    assert story.read_bytes() == windows.replace(b"tea     | 3     |", b"tea     | 2     |").replace(
        b"7 rows", b"1 row"
    )


@pytest.mark.parametrize("form", ["json", "csv"])
def test_update_keeps_the_form_of_rows(run: Command, tmp_path: Path, form: str) -> None:
    path = tmp_path / "story.sql"
    text = f"{COUNT}-- test: t\n-- given sales\n--   | product | num |\n--   | tea | 2 |\n-- expect changelog {form}\n"
    path.write_text(text + ('--   {"total": 1}\n' if form == "json" else "--   total\n--   1\n"))
    assert run("test", path, "--update").code == 0
    assert path.read_text() == text + ('--   +I {"total": 2}\n' if form == "json" else "--   total\n--   +I 2\n")


def test_update_writes_into_empty_expectations_and_empties_others(run: Command, tmp_path: Path) -> None:
    path = tmp_path / "story.sql"
    head = f"{JOIN}-- test: t\n"
    path.write_text(
        f"{head}-- expect rows\n--   | id |\n--   | 1  |\n-- given orders\n--   | id |\n--   | 1  |\n-- expect rows\n"
    )
    assert run("test", path, "--update").code == 0
    assert path.read_text() == f"{head}-- expect rows\n-- given orders\n--   | id |\n--   | 1  |\n-- expect rows\n"


def test_files_run_in_several_processes(run: Command, story: Path, tmp_path: Path) -> None:
    (tmp_path / "other.sql").write_text(WRONG)
    one, two = run("test", tmp_path), run("test", tmp_path, "-j", "2")
    assert (one.code, one.out) == (two.code, two.out)


def test_only_some_tests_run(run: Command, story: Path) -> None:
    assert run("test", story, "-k", "nothing").code == 0
    assert run("test", story, "-k", "TOTALS").code == 1


def test_update_writes_the_warnings_of_the_job(run: Command, tmp_path: Path) -> None:
    path = tmp_path / "story.sql"
    head = "CREATE TABLE s (v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts);\nSELECT window_start, SUM(v) AS v\n"
    head += "FROM TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY window_start, window_end;\n-- test: t\n"
    rows = "".join(f"-- given s\n--   | v | ts |\n--   | 1 | 2024-01-01 00:0{n}:00 |\n-- advance 1 s\n" for n in (5, 1))
    path.write_text(f"{head}-- expect warning late\n{rows}-- expect no warning\n")
    assert run("test", path, "--update").code == 0
    first, *_, last = path.read_text().removeprefix(head).splitlines()
    assert first == "-- expect no warning"
    assert last.startswith("-- expect warning ") and last.endswith(
        "1 row was dropped, because the watermark had passed"
    )
    assert run("test", path).code == 0
