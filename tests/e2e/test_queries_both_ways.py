"""Queries that this process runs itself give what they give in Spark: the same changes, in the same micro-batches."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stateplan.common.errors import StateplanError
from stateplan.runtime.local.job import LocalJob
from stateplan.runtime.spark import session
from stateplan.runtime.streaming import SparkJob
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs
from stateplan.session.results import TableResult
from stateplan.session.script import ScriptStatement, read_script
from tests.planner.row_cases import ROWS, RowCase
from tests.support.cases import replay_script
from tests.support.golden import golden_cases
from tests.support.long_runs import LONG, share

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LIMIT = "table.exec.local.max-input-size"
WAYS = {"here": {"parallelism.default": "3"}, "spark": {"parallelism.default": "2", LIMIT: "0"}}

TABLES = """
CREATE TABLE o (id INT, k INT, v BIGINT, ts TIMESTAMP(3), pt AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
  WITH ('connector' = 'filesystem', 'path' = '{folder}/o', 'format' = 'json', 'source.max-files-per-trigger' = '2');
CREATE TABLE l (id INT, w DOUBLE, lt TIMESTAMP(3), WATERMARK FOR lt AS lt)
  WITH ('connector' = 'filesystem', 'path' = '{folder}/l', 'format' = 'csv');
CREATE TABLE c (id INT, name STRING, m MAP<STRING, INT>, a ARRAY<INT>, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'filesystem', 'path' = '{folder}/c', 'format' = 'debezium-json');
CREATE TABLE names (id INT, name STRING)
  WITH ('connector' = 'filesystem', 'path' = '{folder}/names', 'format' = 'json');
CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'fields.i.kind' = 'sequence', 'fields.i.start' = '0',
  'fields.i.end' = '999');
"""

QUERIES = {
    "constants": "SELECT * FROM (VALUES (1, 'a', DATE '2024-01-01'), (2, 'b', DATE '1969-12-31')) AS t(x, y, z)",
    "generated rows": "SELECT MOD(i, 7) AS r, COUNT(*), SUM(i) FROM n GROUP BY MOD(i, 7)",
    "projection and filter": "SELECT id, UPPER('x' || CAST(k AS STRING)), v / 2 FROM o WHERE v > 20",
    "maps and arrays": "SELECT id, m['a'], a[1], CARDINALITY(a), m, a FROM c",
    "inner join": "SELECT o.id, o.v, l.w FROM o JOIN l ON o.id = l.id",
    "outer join": "SELECT o.id, o.v, l.w FROM o FULL JOIN l ON o.id = l.id AND o.v > 50",
    "semi and anti join": "SELECT id FROM l WHERE id IN (SELECT id FROM o) AND id NOT IN (SELECT id FROM c)",
    "interval join": """SELECT o.id, l.w FROM o JOIN l
        ON o.id = l.id AND l.lt BETWEEN o.ts AND o.ts + INTERVAL '9' SECOND""",
    "lookup join": "SELECT o.id, name FROM o LEFT JOIN names FOR SYSTEM_TIME AS OF o.pt ON o.k = names.id",
    "deduplication": """SELECT id, v FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts DESC) n FROM o) WHERE n = 1""",
    "top-N": """SELECT k, id, n FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) n FROM o) WHERE n < 3""",
    "limit": "SELECT v FROM o ORDER BY v LIMIT 5",
    "tumbling windows": """SELECT window_start, k, COUNT(*), MAX(v) FROM TABLE(TUMBLE(TABLE o, DESCRIPTOR(ts),
        INTERVAL '20' SECOND)) GROUP BY window_start, window_end, k""",
    "over": "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM o",
    "changes": "SELECT name, COUNT(*), SUM(id) FROM c GROUP BY name",
    "set operation": "SELECT id FROM o UNION SELECT id FROM l UNION SELECT id FROM c",
    "distinct and having": "SELECT k, COUNT(DISTINCT id), AVG(v) FROM o GROUP BY k HAVING COUNT(*) > 3",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of the tables."""
    folder, dice = tmp_path_factory.mktemp("rows"), random.Random(7)

    def write(table: str, files: int, lines: Any) -> None:
        (folder / table).mkdir()
        for number in range(files):
            path = folder / table / f"{number}.txt"
            path.write_text("".join(line + "\n" for line in lines(number)))
            os.utime(path, (number + 1, number + 1))  # Spark takes files of one time in any order

    def moment(second: int) -> str:
        return f"2024-01-01 00:0{second // 60}:{second % 60:02}"

    def orders(number: int) -> Iterator[str]:
        for second in range(20 * number, 20 * number + 20):
            row = {"id": dice.randrange(12), "k": dice.choice([0, 1, 2, None]), "v": dice.randrange(99)}
            yield json.dumps({**row, "ts": moment(second)})

    def customers(number: int) -> Iterator[str]:
        rows: dict[int, dict[str, Any]] = {}
        for _ in range(30):
            key = 10 * number + dice.randrange(10)
            row = {"id": key, "name": dice.choice("xyz"), "m": {"a": dice.randrange(3)}, "a": [key, None]}
            if key not in rows:
                yield json.dumps({"before": None, "after": row, "op": "c"})
                rows[key] = row
            elif dice.random() < 0.4:
                yield json.dumps({"before": rows.pop(key), "after": None, "op": "d"})
            else:
                yield json.dumps({"before": rows[key], "after": row, "op": "u"})
                rows[key] = row

    write("o", 5, orders)
    write("l", 2, lambda n: [f"{dice.randrange(12)},{dice.random():.3f},{moment(50 * n + s)}" for s in range(0, 50, 3)])
    write("c", 2, customers)
    write("names", 1, lambda n: [json.dumps({"id": i, "name": f"n{i}"}) for i in (0, 1, 1)])
    return folder


def changes(result: TableResult) -> Counter[str]:
    return Counter(f"{row.get_row_kind().short}{list(row)!r}" for row in result.collect())


def left(found: Mapping[str, int]) -> dict[str, int]:
    """The rows that changes leave, and how often."""
    rows: Counter[str] = Counter()
    for change, count in found.items():
        rows[change[2:]] += count if change[0] == "+" else -count
    return {row: count for row, count in rows.items() if count}


@pytest.mark.parametrize("kind", share(QUERIES, 2))
def test_the_same_changes(kind: str, folder: Path) -> None:
    found, batches = {}, {}
    for way, options in WAYS.items():
        env = TableEnvironment.create({"table.local-time-zone": "UTC", **options}, jobs=Jobs())
        for statement in read_script(TABLES.format(folder=folder)):
            env.execute_statement(statement)
        result = env.execute_sql(QUERIES[kind])
        assert isinstance(result.job, LocalJob if way == "here" else SparkJob)
        found[way] = changes(result)
        batches[way] = [(m.batch, int(m.total("rows_in"))) for m in result.job.metrics]
    assert found["here"] == found["spark"]
    assert batches["here"] == batches["spark"]
    assert left(found["here"])


WRONG_TABLES = """
CREATE TABLE bad (v INT) WITH ('connector' = 'filesystem', 'path' = '{folder}/bad.json', 'format' = 'json');
CREATE TABLE gone (v INT) WITH ('connector' = 'filesystem', 'path' = '{folder}/gone.json', 'format' = 'json');
CREATE TABLE played (v INT) WITH ('connector' = 'replay', 'path' = '{folder}/bad.json', 'format' = 'json');
"""
WRONG = {
    "a cell": "SELECT v FROM bad",
    "a cast": "SELECT CAST(s AS INT) FROM (VALUES ('1'), ('y')) AS t(s)",
    "a table to look up": "SELECT o.id FROM o JOIN gone FOR SYSTEM_TIME AS OF o.pt ON o.k = gone.v",
    "a missing file": "SELECT v FROM gone",
    "two clocks": "SELECT v FROM bad UNION ALL SELECT v FROM played",
}


@pytest.mark.parametrize("what", WRONG)
def test_the_same_errors(what: str, folder: Path) -> None:
    (folder / "bad.json").write_text('{"v":1}\n{"v":"x"}\n')
    found = {}
    for way, options in WAYS.items():
        env = TableEnvironment.create({"table.local-time-zone": "UTC", **options}, jobs=Jobs())
        for statement in read_script((TABLES + WRONG_TABLES).format(folder=folder)):
            env.execute_statement(statement)
        with pytest.raises(StateplanError) as failed:
            list(env.execute_sql(WRONG[what]).collect())
        found[way] = str(failed.value)
    assert found["here"] == found["spark"]


def test_a_spark_that_somebody_else_has_started(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    assert session.would_be_ours({})
    monkeypatch.setattr(session, "_ours", set())
    assert not session.would_be_ours({})


GOLDEN = {case.subject: case for case in reversed([case for case in golden_cases() if case.rows is not None])}
"""The first case of each subject."""


def subjects() -> list[str]:
    """All in a long run, else those whose plan has an operator that no plan before has."""
    types: set[str] = set()
    chosen = []
    for subject, case in sorted(GOLDEN.items()):
        own = {node["type"] for node in json.loads(case.plan)["nodes"]}
        if LONG or own - types:
            chosen.append(subject)
        types |= own
    return chosen


@pytest.mark.parametrize("subject", subjects())
def test_golden_queries(subject: str, tmp_path: Path) -> None:
    golden = GOLDEN[subject]
    found = {}
    for way, options in WAYS.items():
        env = TableEnvironment.create({"table.local-time-zone": "UTC", **options}, jobs=Jobs())
        *before, last = read_script(replay_script(RowCase(ROWS, golden), tmp_path, 20))
        for statement in before:
            env.execute_statement(statement)
        query = last.node.expression
        result = env.execute_statement(ScriptStatement(query, last.text, last.source))
        assert isinstance(result.job, LocalJob if way == "here" else SparkJob)
        found[way] = changes(result)
    assert found["here"] == found["spark"]
    assert left(found["here"])
