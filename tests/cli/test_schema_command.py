"""``stateplan plan schema``, and the page on editors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from scripts.pages import page_path
from stateplan.cli import app
from stateplan.plans.schema import plan_schema
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import read_script

ROOT = Path(__file__).resolve().parent.parent.parent


def stateplan(*args: str) -> int:
    with pytest.raises(SystemExit) as ended:
        app.main(["plan", "schema", *args])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_on_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    assert stateplan() == 0
    assert json.loads(capfd.readouterr().out) == plan_schema()


def test_in_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "plan.schema.json"
    for _ in range(2):
        assert stateplan("-o", str(target)) == 0
    Draft202012Validator.check_schema(json.loads(target.read_text(encoding="utf-8")))
    assert capfd.readouterr() == ("", "")


def test_a_file_that_says_it_is_something_else(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert stateplan("-o", str(tmp_path / "schema.yaml")) == 2
    assert "does not end in .json, the only format here" in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_plan_is_not_replaced(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes((ROOT / "examples" / "flink" / "plan.json").read_bytes())
    assert stateplan("-o", str(plan)) == 3
    assert "PLAN183" in capfd.readouterr().err
    assert plan.read_bytes() == (ROOT / "examples" / "flink" / "plan.json").read_bytes()


def test_plans_compiled_here_fit() -> None:
    script = re.search(r"```sql\n(.*?)```", page_path("selectors").read_text(encoding="utf-8"), re.S)
    assert script is not None
    tables = TableEnvironment.create({"table.exec.state.ttl": "1 h"})
    *before, query = read_script(script[1])
    for statement in before:
        tables.execute_statement(statement)
    plan = json.loads(tables.compile_plan_sql(query.text).as_json_string())
    assert any("compiledTtl" in node.get("stateplan", {}) for node in plan["nodes"])
    assert list(Draft202012Validator(plan_schema()).iter_errors(plan)) == []


def test_the_settings_on_the_page_are_json() -> None:
    page = page_path("editors").read_text(encoding="utf-8")
    block = re.search(r"```json\n(.*?)```", page, re.S)
    assert block is not None
    (entry,) = json.loads(block[1])["json.schemas"]
    assert entry["url"] == "./plan.schema.json"
    assert "plan.json" in entry["fileMatch"]
