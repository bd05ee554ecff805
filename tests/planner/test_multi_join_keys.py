"""An input of a multi-join is keyed by what keeps its changes in order, not by each key that its rows have."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from scripts.random_queries import our_rows
from tests.planner.conftest import compiled, plain
from tests.support.cases import Case
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


@pytest.mark.parametrize("seed", [2, 4, 11, 13])
def test_a_row_that_moves_between_key_groups_is_not_lost(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    (tmp_path / "script.sql").write_text(SCRIPT)
    for table, count in (("d", None), ("n", 2), ("c", None)):
        lines = table_input(rng, table)[:count]
        (tmp_path / f"{table}.json").write_text("".join(f"{line}\n" for line in lines))
    case = Case(tmp_path)
    (join,) = [node for node in plain(compiled(case.script))["nodes"] if node["type"] == "stream-exec-multi-join_1"]
    assert join["inputUniqueKeys"] == [[], []]
    rows = our_rows(case, tmp_path / "one", 1, 1)
    for step, key_groups in ((1, 2), (5, 3), (20, 4)):
        assert our_rows(case, tmp_path / "run", step, key_groups) == rows
