"""Scripts in which users of Flink met a problem, each with the rows that are right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import read_script
from tests.support.cases import Case, replay_script
from tests.support.local import fold, printed

PROBLEMS = Path(__file__).parent / "problems"


@pytest.mark.parametrize("name", sorted(p.name for p in PROBLEMS.iterdir()))
def test_the_rows_are_right(name: str, tmp_path: Path) -> None:
    """Each row arrives in a micro-batch of its own, as Flink is given it."""
    case = Case(PROBLEMS / name)
    environment = TableEnvironment.create()
    *before, last = read_script(replay_script(case, tmp_path))
    for statement in before:
        environment.execute_statement(statement)
    options = environment.get_config().to_dict()
    graph = translate(environment.compile_plan_sql(last.text).document.graph, options, key_groups=4)
    rows = [re.sub(r"^[+-][IUD]", "", line) for line in fold(printed(graph))]
    assert sorted(rows) == sorted(case.text("expected.txt").splitlines())
