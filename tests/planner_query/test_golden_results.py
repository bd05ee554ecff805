"""Golden pairs whose rows are known: the plan, run here over the same input, leaves what Flink's job left."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from stateplan.execnodes.runtime.translate import translate
from stateplan.planner.session.environment import TableEnvironment
from stateplan.planner.session.script import read_script
from tests.support.cases import Case, replay_script
from tests.support.golden import GoldenCase, golden_cases
from tests.support.local import fold, printed

ROWS = Path(__file__).parent / "golden_rows"


@dataclass(frozen=True)
class RowCase(Case):
    """A golden case over the tables in :data:`ROWS`."""

    golden: GoldenCase

    def text(self, name: str) -> str:
        return self.golden.script if name == "script.sql" else (ROWS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(("step", "key_groups"), [(1, 2), (7, 5)])
@pytest.mark.parametrize("golden", [c for c in golden_cases() if c.rows is not None], ids=lambda case: case.name)
def test_rows_equal_flinks(golden: GoldenCase, step: int, key_groups: int, tmp_path: Path) -> None:
    if step > 1 and golden.subject == "window_late":
        pytest.skip("no row is late among those of one micro-batch")
    case = RowCase(ROWS, golden)
    environment = TableEnvironment.create()
    *before, last = read_script(replay_script(case, tmp_path, step))
    for statement in before:
        environment.execute_statement(statement)
    graph = environment.compile_document(last.node, last.source).graph
    options = dict(re.findall(r"SET '([^']+)' = '([^']*)'", case.text("script.sql")))
    assert fold(printed(translate(graph, options, key_groups))) == sorted(golden.rows or ())
