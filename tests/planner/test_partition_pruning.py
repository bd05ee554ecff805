"""Conditions on partition columns choose partitions when the plan is compiled; what is expected is what Flink 2.3 plans
over the same folders, but for their order, which there is the disk's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.session.environment import TableEnvironment

T = "a INT, b BIGINT, c STRING"
U = "a INT, dt STRING, c STRING, h INT"

CASES = [
    ("k SELECT a, b, c FROM t WHERE b = 2", ["b=2"], "project=[a, c], metadata=[]", None),
    ("k SELECT a, b, c FROM t WHERE b > 1 AND a > 2", ["b=2"], "filter=[>(a, 2)]", "(a > 2)"),
    ("k SELECT a, b, c FROM t WHERE b IS NULL", ["b=null"], "project=[a, c], metadata=[]", None),
    (
        "k SELECT a, b, c FROM t WHERE b = 1 OR a = 3",
        None,
        "filter=[OR(=(b, 1:BIGINT), =(a, 3))]",
        "((b = 1) OR (a = 3))",
    ),
    ("k SELECT a, b, c FROM t", None, None, None),
    ("k SELECT a, CAST(1 AS BIGINT), c FROM t WHERE b = 2", ["b=2"], "project=[a, c], metadata=[]", None),
    (
        "ku SELECT * FROM u WHERE dt = '2024-01-01'",
        ["dt=2024-01-01, h=1", "dt=2024-01-01, h=2"],
        "project=[a, c, h], metadata=[]",
        None,
    ),
    (
        "ku SELECT * FROM u WHERE dt = '2024-01-01' AND h = 1 AND c = 'x'",
        ["dt=2024-01-01, h=1"],
        "filter=[=(c, _UTF-16LE'x':VARCHAR(2147483647) CHARACTER SET \"UTF-16LE\")], project=[a, c], metadata=[]",
        "(c = 'x')",
    ),
    (
        "ku SELECT * FROM u WHERE h IN (1, 2) AND dt LIKE '2024-01-0%'",
        ["dt=2024-01-01, h=1", "dt=2024-01-01, h=2", "dt=2024-01-02, h=1", "dt=2024-01-02, h=2"],
        None,
        None,
    ),
    (
        "ku SELECT a, dt, c, h FROM u WHERE UPPER(dt) = '2024-01-02'",
        ["dt=2024-01-02, h=1", "dt=2024-01-02, h=2"],
        None,
        None,
    ),
    ("k SELECT a, b + 1, c FROM t WHERE b + 1 = 3", ["b=2"], None, None),
    ("k SELECT a, b, c FROM (SELECT *, b * 2 AS d FROM t) WHERE d = 4", ["b=2"], None, None),
    (
        "k SELECT a, b, c FROM t WHERE b = 2 AND a = a",
        ["b=2"],
        "filter=[IS NOT NULL(a)], project=[a, c], metadata=[]",
        "a IS NOT NULL",
    ),
    (
        "k SELECT a, h, c FROM u WHERE h = 1",
        ["dt=2024-01-01, h=1", "dt=2024-01-02, h=1"],
        "project=[a, c], metadata=[]",
        None,
    ),
    ("k SELECT a, b, c FROM t WHERE b < 2 AND b IS NOT NULL", ["b=1"], None, None),
]


@pytest.fixture
def session(tmp_path: Path) -> TableEnvironment:
    for folder in ("t/b=1", "t/b=2", "t/b=__DEFAULT_PARTITION__", "t/_tmp", "t/other"):
        (tmp_path / folder).mkdir(parents=True)
    for dt in ("2024-01-01", "2024-01-02"):
        for h in (1, 2):
            (tmp_path / f"u/dt={dt}/h={h}").mkdir(parents=True)
    env = TableEnvironment.create()
    for name, columns, keys in (("t", T, "b"), ("u", U, "dt, h")):
        env.execute_sql(
            f"CREATE TABLE {name} ({columns}) PARTITIONED BY ({keys}) "
            f"WITH ('connector'='filesystem', 'format'='json', 'path'='{tmp_path / name}')"
        )
    env.execute_sql(f"CREATE TABLE k ({T}) WITH ('connector'='print')")
    env.execute_sql(f"CREATE TABLE ku ({U}) WITH ('connector'='print')")
    return env


@pytest.mark.parametrize(("insert", "partitions", "others", "condition"), CASES, ids=range(len(CASES)))
def test_like_flink(
    session: TableEnvironment, insert: str, partitions: list[str] | None, others: str | None, condition: str | None
) -> None:
    nodes = json.loads(session.compile_plan_sql(f"INSERT INTO {insert}").as_json_string())["nodes"]
    chosen = None if partitions is None else "partitions=[" + ", ".join(f"{{{p}}}" for p in partitions) + "]"
    arguments = ", ".join(a for a in (chosen, others) if a)
    table = "u" if " FROM u" in insert else "t"
    shown = f"table=[[default_catalog, default_database, {table}{', ' if arguments else ''}{arguments}]]"
    assert nodes[0]["description"].startswith(f"TableSourceScan({shown}, ")
    wheres = [n["description"].partition("where=[")[2].rpartition("])")[0] for n in nodes if "condition" in n]
    assert [w for w in wheres if w] == ([condition] if condition else [])


def test_without_its_folder_all_is_read(session: TableEnvironment, tmp_path: Path) -> None:
    for folder in sorted((tmp_path / "t").iterdir(), reverse=True):
        folder.rmdir()
    (tmp_path / "t").rmdir()
    nodes = json.loads(session.compile_plan_sql("INSERT INTO k SELECT * FROM t WHERE b = 2").as_json_string())["nodes"]
    assert "partitions=" not in nodes[0]["description"]
