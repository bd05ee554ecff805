"""Golden pairs whose rows are known: the plan, run here over the same input, leaves what Flink's job left."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import Inserts, read_script
from tests.planner.row_cases import ROWS, RowCase
from tests.support.cases import replay_script
from tests.support.golden import GoldenCase, golden_cases
from tests.support.local import fold, printed
from tests.support.long_runs import LONG, share

WITH_ROWS = share([case for case in golden_cases() if case.rows is not None], 2, lambda case: case.subject)
"""The first case of each subject, and every second one after it; all of them in a long run."""
SPLITS = ((5, 2), (9, 4), (6, 1))
"""Rows per micro-batch, and key groups."""


def ways(number: int, case: GoldenCase) -> tuple[tuple[int, int], ...]:
    """One of the splits, in turn; all of them in a long run. Rows are late row by row, and row by row LIMIT without
    ORDER BY lets changes in."""
    found = SPLITS if LONG else (SPLITS[number % len(SPLITS)],)
    by_row = case.subject in ("window_late", "current_watermark")
    single = by_row or ("- Limit(" in case.tree and "Aggregate(" in case.tree)
    return tuple((1 if single else step, groups) for step, groups in found)


@pytest.mark.parametrize(
    ("golden", "step", "key_groups"),
    [
        pytest.param(case, step, groups, id=f"{case.name}-{step}-{groups}")
        for number, case in enumerate(WITH_ROWS)
        for step, groups in ways(number, case)
    ],
)
def test_rows_equal_flinks(golden: GoldenCase, step: int, key_groups: int, tmp_path: Path) -> None:
    case = RowCase(ROWS, golden)
    environment = TableEnvironment.create()
    *before, last = read_script(replay_script(case, tmp_path, step))
    for statement in before:
        environment.execute_statement(statement)
    graph = environment.session.compiler.document(Inserts.of(last.node, last.source)).graph
    options = dict(re.findall(r"SET '([^']+)' = '([^']*)'", case.text("script.sql")))
    assert fold(printed(translate(graph, options, key_groups))) == sorted(golden.rows or ())
