"""A join with versions by event time sees every version of a row, however many of them a micro-batch has."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from stateplan.runtime.kernels.deduplicate_rowtime import RowtimeDeduplicateKernel
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs
from stateplan.session.script import Inserts, read_script

RATES = """
SELECT k, v, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM t) WHERE n = 1
"""
JOIN = "SELECT t.v, r.v AS w FROM t JOIN rates FOR SYSTEM_TIME AS OF t.ts AS r ON t.k = r.k"


@pytest.fixture
def session(tmp_path: Path) -> TableEnvironment:
    rows = [{"k": 1, "v": v, "ts": f"2024-01-01 00:00:0{v}"} for v in range(5)]
    (tmp_path / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    env = TableEnvironment.create({"table.local-time-zone": "UTC"}, jobs=Jobs())
    env.execute_sql(
        "CREATE TABLE t (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'rows.json'}', 'format' = 'json')"
    )
    env.execute_sql(f"CREATE VIEW rates AS {RATES}")
    env.execute_sql("CREATE TABLE sink (v INT, w INT) WITH ('connector' = 'print')")
    return env


@pytest.mark.parametrize(("query", "every"), [(JOIN, True), ("SELECT k, v FROM rates", False)])
def test_versions_are_kept_for_those_who_look_at_them(session: TableEnvironment, query: str, every: bool) -> None:
    (insert,) = read_script(f"INSERT INTO sink {query};")
    job = translate(session.session.compiler.document(Inserts.of(insert.node, insert.source)).graph, {}, 4)
    kernels = [operator.kernel for operator in job.operators]
    assert [k.every_version for k in kernels if isinstance(k, RowtimeDeduplicateKernel)] == [every]


def test_each_row_finds_the_version_of_its_time(session: TableEnvironment, capfd: pytest.CaptureFixture[str]) -> None:
    session.execute_sql(f"INSERT INTO sink {JOIN}").wait()
    assert Counter(capfd.readouterr().out.split("\n")[:-1]) == Counter(f"+I[{v}, {v}]" for v in range(5))


def test_each_row_finds_the_upsert_of_its_time(tmp_path: Path, session: TableEnvironment) -> None:
    rows = [{"_op": "+U", "k": 1, "v": 10 + v, "ts": f"2024-01-01 00:00:0{v}"} for v in range(5)]
    (tmp_path / "upserts.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    session.execute_sql("SET 'table.exec.source.cdc-events-duplicate' = 'true'")
    session.execute_sql(
        "CREATE TABLE prices (k INT PRIMARY KEY NOT ENFORCED, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ("
        f"'connector' = 'filesystem', 'path' = '{tmp_path / 'upserts.json'}', 'format' = 'op-json', "
        "'op-json.mode' = 'retract')"
    )
    query = JOIN.replace("rates", "prices")
    assert "ChangelogNormalize" not in session.explain_sql(query)
    found = session.execute_sql(query).collect()
    assert sorted(tuple(row) for row in found) == [(v, 10 + v) for v in range(5)]
