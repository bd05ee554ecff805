"""Sources of changes and upserts into sinks with and without keys: the rows that Flink 2.3 wrote for the same input;
of ``join_`` and ``hints_`` those of SQL, as Flink's are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.plans.document import PlanDocument
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import read_script
from tests.support.cases import Case, replay_script
from tests.support.local import printed

CASES = Path(__file__).parent / "cases"


@pytest.mark.halved
@pytest.mark.parametrize("step", [1, 3, 1000])
@pytest.mark.parametrize("name", sorted(p.name for p in CASES.iterdir()))
def test_rows_like_flink(name: str, step: int, tmp_path: Path) -> None:
    if step > 1 and name.endswith("_ttl"):
        pytest.skip("rows that share an instant cannot expire between each other")
    case = Case(CASES / name)
    environment = TableEnvironment.create()
    *before, last = read_script(replay_script(case, tmp_path, step))
    for statement in before:
        environment.execute_statement(statement)
    plan = environment.compile_plan_sql(last.text)
    graph = translate(PlanDocument.parse(plan.as_json_string()).graph, {}, key_groups=4)
    assert case.folded(printed(graph)) == case.materialized
