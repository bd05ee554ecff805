"""Tests on Flink from step to step: its clock, its files, its changes; and the scenarios of FLIP-292 where Flink is."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from stateplan.plans.document import PlanDocument
from stateplan.plans.plan_metadata import PlanFacts
from stateplan.testing.checks import Actual, check_rows
from stateplan.testing.flink_clock import LIBRARY, FlinkClock, find_library
from stateplan.testing.flink_files import committed_lines, output_changes
from stateplan.testing.flink_steps import over_files
from stateplan.testing.play import initial_plan
from stateplan.testing.rows import Change
from stateplan.testing.story import Expect
from stateplan.testing.story_plan import Preparation
from tests.support.command import command
from tests.testing.stories import COUNT, cases

ROOT = Path(__file__).resolve().parents[2]
STORY = f"""{COUNT}-- test: t
-- given sales
--   | product | num |
--   | tea     | 1   |
-- expect changelog
--      | product | total |
--   -U | tea     | 1     |
--   +U | tea     | 3     |
"""


def test_the_clock_is_a_file(tmp_path: Path) -> None:
    clock = FlinkClock(tmp_path / "clock")
    for at, text in ((3_999, "3.999500\n"), (1_767_225_600_000, "1767225600.000500\n")):
        clock.set(at)
        assert (tmp_path / "clock").read_text() == text


def test_the_library_may_be_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIBRARY, str(tmp_path / "lib.so"))
    assert find_library() is None
    (tmp_path / "lib.so").touch()
    assert find_library() == str(tmp_path / "lib.so")


def test_the_plan_is_over_files(tmp_path: Path) -> None:
    (case,) = cases(STORY)
    plan = initial_plan(case, Preparation(case.sql, {}))
    text = PlanDocument.from_graph(over_files(plan, tmp_path), PlanFacts()).text
    tables = [
        node.get("scanTableSource", node.get("dynamicTableSink"))["table"]["resolvedTable"]["options"]
        for node in json.loads(text)["nodes"]
        if "scanTableSource" in node or "dynamicTableSink" in node
    ]
    assert [(o["connector"], o["format"]) for o in tables] == [("filesystem", "json"), ("filesystem", "debezium-json")]
    assert tables[0]["source.monitor-interval"] and tables[1]["sink.rolling-policy.file-size"]


def test_committed_files_are_read_once(tmp_path: Path) -> None:
    (case,) = cases(STORY)
    (output,) = initial_plan(case, Preparation(case.sql, {})).outputs().values()
    events = [(None, {"product": "tea", "total": 1}), ({"product": "tea", "total": 1}, None)]
    lines = [json.dumps({"before": before, "after": after}) for before, after in events]
    (tmp_path / "part-a-0-2").write_text(lines[1] + "\n")
    (tmp_path / "part-a-0-10").write_text(lines[0] + "\n")
    (tmp_path / ".part-a-0-11.inprogress").write_text("{")
    seen: set[str] = set()
    changes = output_changes(output, committed_lines(tmp_path, seen))
    assert changes == [Change("-D", ("tea", "1")), Change("+I", ("tea", "1"))]
    assert list(committed_lines(tmp_path, seen)) == []


@pytest.mark.parametrize(
    ("key", "changes", "holds"),
    [
        ((), [("+I", "9"), ("-D", "9"), ("-D", "1"), ("+I", "3")], True),
        ((), [("+I", "3")], False),
        ((), [("-D", "1"), ("+I", "2"), ("+I", "3")], False),
        (("product",), [("+I", "2"), ("+I", "3")], True),
        (("product",), [("+I", "3"), ("-D", "3")], False),
    ],
)
def test_changes_without_updates_are_compared_by_what_they_leave(
    key: tuple[str, ...], changes: list[tuple[str, str]], holds: bool
) -> None:
    (case,) = cases(STORY)
    (output,) = initial_plan(case, Preparation(case.sql, {})).outputs().values()
    (expect,) = (step for step in case.steps if isinstance(step, Expect))
    rows = [Change(kind, ("tea", total)) for kind, total in changes]
    actual = Actual(output.fields, rows, case.file, "totals", has_updates=False, key=key)
    assert check_rows(expect, actual).holds is holds


@pytest.mark.skipif(
    importlib.util.find_spec("pyflink") is None or find_library() is None, reason="needs PyFlink and libfaketime"
)
def test_the_scenarios_of_flip_292_hold_on_flink(capsys: pytest.CaptureFixture[str]) -> None:
    folders = [ROOT / "tests/testing/acceptance", ROOT / "examples/tests"]
    answer = command(capsys)("test", *folders, "--flink")
    assert "21 passed, 1 skipped" in answer.out, answer.out
