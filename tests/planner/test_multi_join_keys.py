"""Inputs of a multi-join: keyed by what keeps their changes in order, and by any key of a row, as in Flink's plans."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from scripts.random_queries import our_rows
from stateplan.execnodes.graph import ExecGraph
from stateplan.runtime.translate import translate
from tests.planner.conftest import compiled, plain
from tests.support.cases import Case, replay_script
from tests.support.local import printed
from tests.support.random_queries.tables import table_input

SCRIPT = """SET 'table.optimizer.multi-join.enabled' = 'true';
CREATE TABLE d (id INT, k INT, v BIGINT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH
  ('connector'='filesystem', 'path'='${DIR}/d.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE n (k INT, name STRING) WITH ('connector'='filesystem', 'path'='${DIR}/n.json', 'format'='json');
CREATE TABLE c (id INT, k INT, v BIGINT, s STRING) WITH
  ('connector'='filesystem', 'path'='${DIR}/c.json', 'format'='debezium-json');
CREATE TABLE o (id INT, k INT, v BIGINT) WITH ('connector'='print');
INSERT INTO o SELECT x.id, x.k, c.v FROM
  (SELECT * FROM d WHERE NOT EXISTS (SELECT 1 FROM n WHERE n.k = d.k)) AS x JOIN c ON x.id = c.k;
"""


FLINK_KEYS = [[[0]], []]
"""The keys that Flink's plan of the script has."""


@pytest.fixture(params=[2, 4, 11, 13])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    rng = random.Random(request.param)
    (tmp_path / "script.sql").write_text(SCRIPT)
    for table, count in (("d", None), ("n", 2), ("c", None)):
        lines = table_input(rng, table)[:count]
        (tmp_path / f"{table}.json").write_text("".join(f"{line}\n" for line in lines))
    return Case(tmp_path)


def the_join(plan: Any) -> Any:
    (join,) = [node for node in plan["nodes"] if node["type"] == "stream-exec-multi-join_1"]
    return join


def test_a_row_that_moves_between_key_groups_is_not_lost(case: Case, tmp_path: Path) -> None:
    assert the_join(plain(compiled(case.script)))["inputUniqueKeys"] == [[], []]
    rows = our_rows(case, tmp_path / "one", 1, 1)
    for step, key_groups in ((1, 2), (5, 3), (20, 4)):
        assert our_rows(case, tmp_path / "run", step, key_groups) == rows


def test_nor_is_it_with_the_keys_of_flink(case: Case, tmp_path: Path) -> None:
    rows = our_rows(case, tmp_path / "one", 1, 1)
    for step, key_groups in ((1, 2), (5, 3), (20, 4)):
        folder = tmp_path / f"run-{step}"
        folder.mkdir()
        plan = compiled(replay_script(case, folder, step))
        the_join(plan)["inputUniqueKeys"] = FLINK_KEYS
        assert case.folded(printed(translate(ExecGraph.from_json(plan), {}, key_groups))) == rows
