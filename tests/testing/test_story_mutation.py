"""Mutants of a query are noticed by tests that are good enough, and named where none is."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.session.script import read_script
from stateplan.testing.mutants import sql_mutants
from stateplan.testing.mutation import Mutation, mutate
from stateplan.testing.reader import find_files, read_story
from stateplan.testing.suite import Selection, load
from tests.support.command import command
from tests.support.long_runs import LONG
from tests.testing.stories import JOIN

ROOT = Path(__file__).resolve().parents[2]


def mutation(text: str) -> Mutation:
    return Mutation(list(mutate([read_story(text, "story.sql")], Selection(), 1000, 0)))


def test_mutants_of_sql() -> None:
    query = """SELECT SUM(a), COUNT(DISTINCT b) FROM t JOIN u ON t.a = u.a AND t.b > u.b
WHERE t.a IN (1, 2) GROUP BY t.a HAVING MIN(a) > 1"""
    texts = [mutant.text for mutant in sql_mutants(read_script(query))]
    for text in (
        "INNER JOIN becomes LEFT JOIN",
        "INNER JOIN becomes FULL JOIN",
        "= becomes <>",
        "> becomes >=",
        "AND becomes OR",
        "the condition behind AND is gone",
        "WHERE is gone",
        "SUM becomes MAX",
        "MIN becomes MAX",
        "COUNT(DISTINCT ..) becomes COUNT(..)",
        "IN becomes NOT IN",
    ):
        assert text in texts, texts
    hint = "SELECT /*+ STATE_TTL('a' = '1 d') */ 1"
    assert sql_mutants(read_script(hint)) == []


def test_a_mutant_has_its_place() -> None:
    (mutant, *_) = sql_mutants(read_script("SELECT 1;\nSELECT a\nFROM t\nWHERE a = 1"))
    assert (mutant.statement, mutant.place.line) == (1, 4)


def test_a_test_that_fails_is_no_judge() -> None:
    with pytest.raises(StateplanError, match=r"TEST012.*the test 'wrong' fails without any change"):
        mutation(f"""{JOIN}-- test: wrong
-- given orders
--   | id | num |
--   | 1  | 2   |
-- expect rows
--   | id | num | target |
--   | 1  | 2   | a      |
""")


def test_a_test_that_lets_no_time_pass_notices_no_longer_ttl() -> None:
    result = mutation(f"""{JOIN}-- test: t
-- given orders
--   | id | num |
--   | 1  | 2   |
-- given logistics
--   | id | target |
--   | 1  | a      |
-- expect rows
--   | id | num | target |
--   | 1  | 2   | a      |
""")
    survivors = {mutant.text for mutant in result.survivors}
    assert "join.left: TTL 7 d becomes never" in survivors
    assert "INNER JOIN becomes LEFT JOIN" in survivors  # no row is without a partner
    assert result.counts["noticed"] >= 1


def test_a_mutant_with_the_same_plan_is_equivalent() -> None:
    result = mutation("""CREATE TABLE t (a INT);
CREATE TABLE u (a INT);
SELECT t.a FROM t LEFT JOIN u ON t.a = u.a WHERE u.a > 1;
-- test: t
-- given t
--   | a |
--   | 2 |
-- expect rows
""")
    fates = {mutant.text: mutant.fate for mutant in result.results}
    assert fates["LEFT JOIN becomes INNER JOIN"] == "equivalent"


def test_the_examples_and_scenarios_notice_mutants() -> None:
    """All in a long run, 200 and more; else sixty of them."""
    folders = [str(ROOT / "examples" / "tests"), str(ROOT / "tests" / "testing" / "acceptance")]
    stories = [load(file) for file in find_files(folders)]
    result = Mutation(list(mutate(stories, Selection(), 1000 if LONG else 60, 0)))
    assert result.counts["noticed"] >= (200 if LONG else 40)
    assert result.survivors == []


def test_the_exit_code_says_whether_mutants_survive(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "story.sql"
    path.write_text("CREATE TABLE t (a INT);\nSELECT a FROM t WHERE a > 1;\n-- test: t\n-- expect rows\n")
    answer = command(capsys)("test", path, "--mutate")
    assert answer.code == 9
    assert f"{path}:2: no test notices: > becomes >=" in answer.out
    path.write_text(
        path.read_text() + "-- given t\n--   | a |\n--   | 1 |\n--   | 2 |\n-- expect rows\n--   | a |\n--   | 2 |\n"
    )
    assert command(capsys)("test", path, "--mutate").code == 0
