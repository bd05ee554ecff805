"""The golden cases through the whole house: SQL -> plan equal to Flink's -> Spark -> Flink's rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stateplan.session.environment import TableEnvironment
from stateplan.session.script import read_script
from tests.support.cases import IN_SCOPE, SESSION, Case, replay_script
from tests.support.long_runs import share


def without_additions(value: Any) -> Any:
    """The plan without our additions, which Flink ignores."""
    if isinstance(value, dict):
        timed = value.get("type") == "stream-exec-temporal-join_1"
        ours = ("stateplan", "state") if timed else ("stateplan",)
        return {k: without_additions(v) for k, v in value.items() if k not in ours}
    return [without_additions(v) for v in value] if isinstance(value, list) else value


def compiled(script: str) -> dict[str, Any]:
    """The plan of a script's last statement."""
    environment = TableEnvironment.create(SESSION)
    *before, last = read_script(script)
    for statement in before:
        environment.execute_statement(statement)
    plan = environment.compile_plan_sql(last.text.replace("EXECUTE STATEMENT SET", "STATEMENT SET"))
    data: dict[str, Any] = json.loads(plan.as_json_string())
    return data


@pytest.mark.parametrize("name", IN_SCOPE)
def test_same_plan_as_flink(name: str, shared: Path) -> None:
    case = Case(shared / "cases" / name)
    ours, theirs = without_additions(compiled(case.script)), json.loads(case.plan)
    slots = [[(n["type"], n.get("state")) for n in plan["nodes"]] for plan in (ours, theirs)]
    assert slots[0] == slots[1]
    assert ours == theirs


def test_every_case_is_in_scope(shared: Path) -> None:
    assert {p.parent.name for p in (shared / "cases").glob("*/script.sql")} == set(IN_SCOPE)


# Here, test_flink_plans_run plays all of them.
@pytest.mark.spark
@pytest.mark.parametrize("name", share(IN_SCOPE, 3, lambda name: name.split("_")[0]))
def test_same_rows_as_flink(
    name: str, shared: Path, spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Case(shared / "cases" / name)
    environment = TableEnvironment.create({"pipeline.max-parallelism": "2"})
    # Rows that are late in Flink come in a micro-batch of their own. Row by row, test_flink_plans_run plays all cases.
    alone = name.startswith("ttl_") or name in ("dedup_keep_first_rowtime", "window_tvf_tumble")
    for statement in read_script(replay_script(case, tmp_path, step=1 if alone else 8)):
        result = environment.execute_statement(statement)
    result.wait()
    assert case.folded(capsys.readouterr().out.splitlines()) == case.materialized
