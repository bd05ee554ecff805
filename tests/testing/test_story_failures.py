"""A failure says what operators did, and which TTL makes the difference."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from stateplan.testing.explaining import explain
from stateplan.testing.watching import changes
from tests.testing.stories import COUNT, JOIN, outcome

LOST = f"""{JOIN}-- test: lost
-- given orders
--   | id | num |
--   | 1  | 20  |
--   | 2  | 30  |
-- advance 7 d
-- given logistics
--   | id | target |
--   | 1  | a      |
-- given orders
--   | id | num |
--   | 1  | 50  |
-- expect rows
--   | id | num | target |
--   | 1  | 20  | a      |
--   | 1  | 50  | a      |
"""


def test_the_ttl_that_lost_a_row_is_named() -> None:
    result = outcome(LOST)
    explain(result, {})
    (verdict,) = result.failures
    why = "\n".join(verdict.why)
    assert "no operator has emitted a row with the values of (1, 20, a)" in why
    assert "the expectation holds if join.left never expires; its TTL is 7 d" in why
    assert "join.right" not in why
    assert "operator   rows in  rows out" in why


def test_the_operator_behind_which_a_row_is_lost_is_named() -> None:
    result = outcome("""CREATE TABLE t (a INT, b INT);
SELECT a, MAX(b) AS b FROM t WHERE a > 1 GROUP BY a;
-- test: t
-- given t
--   | a | b |
--   | 1 | 7 |
--   | 2 | 8 |
-- expect table
--   | a | b |
--   | 1 | 7 |
""")
    explain(result, {})
    why = "\n".join(result.failures[0].why)
    assert "the last operator that has emitted the values of (1, 7) is table-source-scan[1]" in why
    assert "the first operator that has emitted the values of (2, 8) is table-source-scan[1]" in why


def test_pytest_collects_test_files(tmp_path: Path) -> None:
    (tmp_path / "good.sql").write_text(f"{COUNT}-- test: nothing comes of nothing\n-- expect table\n")
    (tmp_path / "bad.sql").write_text(LOST)
    (tmp_path / "broken.sql").write_text("-- test: t\n-- expct table\n")
    (tmp_path / "query.sql").write_text("SELECT 1;\n")
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    run += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of an editable install
    answer = subprocess.run([*run, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True).stdout
    assert "1 failed, 1 passed, 1 error" in answer
    assert "FAILED lost" in answer and "if join.left never expires" in answer
    assert "[TEST001] 'expct table' is not a directive of a test" in answer
    assert "Traceback" not in answer


def test_watching_yields_what_has_changed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "t.sql").write_text("-- test: t\n")
    files = changes([str(tmp_path)], interval=0.01)
    first, second = str(tmp_path / "a" / "t.sql"), str(tmp_path / "b" / "t.sql")
    assert next(files) == [first, second]
    Path(second).write_text("-- test: other\n")
    assert next(files) == [second]
    (tmp_path / "a" / "plan.json").write_text("{}")
    assert next(files) == [first]
    Path(first).unlink()
    Path(second).write_text("-- test: once more\n")
    assert next(files) == [second]
