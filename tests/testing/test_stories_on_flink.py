"""Tests on Flink: what Flink would get, which tests it cannot run, and a refusal where it is not installed."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from stateplan.testing import on_flink
from stateplan.testing.on_flink import flink_statements, run_on_flink
from stateplan.testing.play import initial_plan
from stateplan.testing.story_plan import Preparation
from tests.support.command import command
from tests.testing.stories import COUNT, JOIN, cases

TABLE = "-- expect table\n--   | product | total |\n--   | tea     | 3     |\n"
ROWS = "-- given sales\n--   | product | num |\n--   | tea     | 1   |\n--   | tea     | 2   |\n"
STORY = f"{COUNT}-- test: t\n{ROWS}{TABLE}"


def skip_reason(text: str) -> str:
    (case,) = cases(text)
    return run_on_flink(case, {}).skip_reason or ""


def test_times_and_steps_need_another_engine() -> None:
    for step in ("advance 1 h", "restart", "ttl group-aggregate 1 h"):
        assert f"'{step}' needs a clock or state" in skip_reason(f"{COUNT}-- test: t\n-- {step}\n{TABLE}")
    assert "does not expect a table" in skip_reason(f"{JOIN}-- test: t\n-- expect rows\n")
    upserts = COUNT.replace("num INT);\nCREATE", "num INT) WITH ('changelog-mode' = 'upsert');\nCREATE", 1)
    upserts = upserts.replace(
        "product STRING, num INT)", "product STRING, num INT, PRIMARY KEY (product) NOT ENFORCED)"
    )
    assert "has upserts" in skip_reason(f"{upserts}-- test: t\n{TABLE}")


def test_the_statements_name_the_files_of_the_test() -> None:
    (case,) = cases(STORY)
    session = Preparation(case.sql, {})
    first, second, insert = flink_statements(session, initial_plan(case, session), Path("/f"))
    assert first.startswith("CREATE TABLE sales (product STRING, num INT) WITH ('connector' = 'filesystem'")
    assert "'path' = '/f/sales.json', 'format' = 'json'" in first
    assert "'path' = '/f/out-totals', 'format' = 'debezium-json'" in second
    assert insert.startswith("INSERT INTO totals SELECT")


def test_the_final_table_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a Flink that writes these events."""
    events = [(None, 1), (1, None), (None, 3)]

    def execute(statements: Sequence[str]) -> None:
        folder = Path(statements[-2].partition("'path' = '")[2].partition("'")[0])
        folder.mkdir()
        rows = [
            {
                side: None if v is None else {"product": "tea", "total": v}
                for side, v in zip(("before", "after"), e, strict=True)
            }
            for e in events
        ]
        (folder / "part-0").write_text("".join(json.dumps(row) + "\n" for row in rows))

    monkeypatch.setattr(on_flink, "_execute", execute)
    (case,) = cases(STORY)
    result = run_on_flink(case, {})
    assert result.error is None and result.holds and len(result.verdicts) == 1
    events.append((3, None))
    assert not run_on_flink(case, {}).holds


@pytest.mark.skipif(importlib.util.find_spec("pyflink") is not None, reason="PyFlink is installed")
def test_without_pyflink_the_option_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "story.sql").write_text(STORY)
    answer = command(capsys)("test", tmp_path, "--flink")
    assert answer.code == 3
    assert "[TEST007] tests cannot run on Flink: PyFlink is not installed" in answer.err
    assert "pip install apache-flink" in answer.err


@pytest.mark.skipif(importlib.util.find_spec("pyflink") is None, reason="needs PyFlink")
def test_flink_leaves_the_same_table() -> None:
    (case,) = cases(STORY)
    result = run_on_flink(case, {})
    assert result.error is None and result.holds, (result.error, result.skip_reason)
