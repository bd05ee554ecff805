"""Random queries have Flink's plans, and leave Flink's rows, however their input is cut into micro-batches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.random_queries import SPLITS, AsFlink, our_rows, plan_difference
from tests.planner.conftest import compiled, plain
from tests.support.cases import Case
from tests.support.random_queries import random_query
from tests.support.random_queries.kept import kept_answers

PLANS = tuple(kept_answers())
ROWS = PLANS[:: len(PLANS) // 12]


def asked(seed: int, folder: Path) -> Case:
    query = random_query(seed, rows=True)
    assert query.digest == kept_answers()[seed].digest, "Flink was asked another query: ask it again"
    query.write(folder)
    return Case(folder)


def test_plans_are_flinks(tmp_path: Path) -> None:
    differ = {}
    for seed in PLANS:
        case = asked(seed, tmp_path / str(seed))
        plan = json.loads(kept_answers()[seed].plan.replace("${DIR}", str(case.folder)))
        differ[seed] = plan_difference(plain(compiled(AsFlink(case.folder).script)), plan)
    assert differ
    assert {seed: said for seed, said in differ.items() if said} == {}


@pytest.mark.parametrize("seed", ROWS)
def test_rows_are_flinks(seed: int, tmp_path: Path) -> None:
    case = asked(seed, tmp_path / "case")
    for step, key_groups in SPLITS:
        assert our_rows(case, tmp_path / f"run{step}", step, key_groups) == kept_answers()[seed].rows
