"""Fields of OVER over OVER have names of their own in a plan, also where Flink refuses two fields of one name."""

from __future__ import annotations

from itertools import pairwise

from stateplan.common.types import type_from_json
from tests.planner.conftest import TABLES, compiled

_LEVELS = """
CREATE TABLE w (k INT, v BIGINT, s STRING, et TIMESTAMP(3), WATERMARK FOR et AS et)
  WITH ('connector' = 'filesystem', 'path' = '/data/w', 'format' = 'json');
CREATE VIEW v1 AS SELECT k, v, s, et, MIN(v) OVER (PARTITION BY s ORDER BY et) AS m FROM w;
CREATE VIEW v2 AS SELECT k, v, s, et, m, MAX(v) OVER (PARTITION BY k ORDER BY et) AS x FROM v1;
CREATE TABLE out_t (k INT, m BIGINT, x BIGINT, y STRING) WITH ('connector' = 'print');
"""


def _names(query: str) -> list[list[str]]:
    plan = compiled(TABLES + _LEVELS + f"INSERT INTO out_t {query};")
    return [[f.name for f in type_from_json(node["outputType"]).fields] for node in plan["nodes"]]


def test_each_field_below_a_join_has_a_name_of_its_own() -> None:
    names = _names("SELECT q.k, q.m, q.x, u.y FROM v2 AS q JOIN u ON q.k = u.a")
    assert all(len({*of_node}) == len(of_node) for of_node in names)


def test_each_level_adds_a_name() -> None:
    names = _names("SELECT k, m, x, s FROM (SELECT *, COUNT(x) OVER (PARTITION BY k ORDER BY et) AS c FROM v2)")
    assert all(len({*of_node}) == len(of_node) for of_node in names)
    assert any("w0$o0_0" in after and "w0$o0_0" not in before for before, after in pairwise(names))
