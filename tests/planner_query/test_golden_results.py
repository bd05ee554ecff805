"""Golden pairs whose rows are known: the plan, run here over the same input, leaves what Flink's job left."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stateplan.execnodes.runtime.translate import translate
from stateplan.planner.session.environment import TableEnvironment
from stateplan.planner.session.script import read_script
from tests.support.cases import Case, replay_script
from tests.support.local import fold, printed

GOLDEN = Path(__file__).parent / "golden"
ROWS = Path(__file__).parent / "golden_rows"


class RowCase(Case):
    """A golden pair; its tables are in :data:`ROWS`."""

    def text(self, name: str) -> str:
        return ((ROWS if name.endswith(".json") else self.folder) / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("step", [1, 7])
@pytest.mark.parametrize("name", sorted(p.parent.name for p in GOLDEN.glob("*/materialized.txt")))
def test_rows_equal_flinks(name: str, step: int, tmp_path: Path) -> None:
    if step > 1 and name.startswith("window_late_"):
        pytest.skip("no row is late among those of one micro-batch")
    case = RowCase(GOLDEN / name)
    environment = TableEnvironment.create()
    *before, last = read_script(replay_script(case, tmp_path, step))
    for statement in before:
        environment.execute_statement(statement)
    graph = environment.compile_document(last.node, last.source).graph
    options = dict(re.findall(r"SET '([^']+)' = '([^']*)'", case.text("script.sql")))
    assert fold(printed(translate(graph, options, 2))) == sorted(case.text("materialized.txt").splitlines())
