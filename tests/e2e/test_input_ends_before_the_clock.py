"""Bounded input that ends while something waits for the clock: the job says what is missing in its result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.gateway.service.limits import Limits
from stateplan.gateway.service.service import SqlGatewayService
from stateplan.session.environment import TableEnvironment
from stateplan.session.results import TableResult
from tests.gateway.in_process_gateway import gateway_here
from tests.support.command import Command

ROWS = """CREATE TABLE {name} (id INT, pt AS PROCTIME(), ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '{folder}/in', 'format' = 'json')"""
TVF = "SELECT id, COUNT(*) FROM TABLE({}) GROUP BY id, window_start, window_end"
NEAR = "a.{time} BETWEEN b.{time} - INTERVAL '9' HOUR AND b.{time} + INTERVAL '9' HOUR"
OUTER = f"SELECT a.id FROM a {{}} JOIN b ON a.id = b.id + 1 AND {NEAR}"
WINDOWS = {
    "TUMBLE": (TVF.format("TUMBLE(TABLE a, DESCRIPTOR({time}), INTERVAL '400' DAY)"), 2),
    "HOP": (TVF.format("HOP(TABLE a, DESCRIPTOR({time}), INTERVAL '200' DAY, INTERVAL '600' DAY)"), 6),
    "SESSION": (TVF.format("SESSION(TABLE a PARTITION BY id, DESCRIPTOR({time}), INTERVAL '9' HOUR)"), 2),
    "rows of SESSION": (
        "SELECT id FROM TABLE(SESSION(TABLE a PARTITION BY id, DESCRIPTOR({time}), INTERVAL '9' HOUR))",
        2,
    ),
    "GROUP BY TUMBLE": ("SELECT id, COUNT(*) FROM a GROUP BY id, TUMBLE({time}, INTERVAL '400' DAY)", 2),
    "GROUP BY HOP": ("SELECT COUNT(*) FROM a GROUP BY HOP({time}, INTERVAL '200' DAY, INTERVAL '600' DAY)", 3),
    "GROUP BY SESSION": ("SELECT id, COUNT(*) FROM a GROUP BY id, SESSION({time}, INTERVAL '9' HOUR)", 2),
    "LEFT JOIN": (OUTER.replace("{}", "LEFT"), 2),
    "FULL JOIN": (OUTER.replace("{}", "FULL"), 4),
}
"""Queries, and what waits in them when the rows 1, 2, 1 and 2 have come."""


def environment(folder: Path, **options: str) -> TableEnvironment:
    (folder / "in").mkdir()
    rows = [{"id": i, "ts": "2026-01-01 00:00:00"} for i in (1, 2, 1, 2)]
    (folder / "in" / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    env = TableEnvironment.create(options)
    for name in "ab":
        env.execute_sql(ROWS.format(name=name, folder=folder))
    return env


def notes(result: TableResult) -> tuple[str, ...]:
    list(result.collect())
    return result.job_notes


@pytest.mark.parametrize("kind", WINDOWS)
def test_an_operator_by_processing_time_says_what_is_missing(tmp_path: Path, kind: str) -> None:
    query, count = WINDOWS[kind]
    (note,) = notes(environment(tmp_path).execute_sql(query.replace("{time}", "pt")))
    what = "rows of an outer join" if "JOIN" in kind else "windows"
    assert f": the input ended while {count} {what}" in note
    assert "event time" in note


@pytest.mark.parametrize("kind", WINDOWS)
def test_by_event_time_nothing_is_missing(tmp_path: Path, kind: str) -> None:
    assert notes(environment(tmp_path).execute_sql(WINDOWS[kind][0].replace("{time}", "ts"))) == ()


def test_windows_that_ended_in_time_are_not_mentioned(tmp_path: Path) -> None:
    (tmp_path / "played.json").write_text("".join(f'{{"@at": {at}, "id": 1}}\n' for at in (0, 500, 20_000)))
    env = TableEnvironment.create({})
    env.execute_sql(
        "CREATE TABLE played (id INT, pt AS PROCTIME()) WITH ('connector' = 'replay', 'format' = 'json', "
        f"'path' = '{tmp_path}/played.json')"
    )
    result = env.execute_sql("SELECT COUNT(*) FROM played GROUP BY TUMBLE(pt, INTERVAL '1' SECOND)")
    assert [tuple(row) for row in result.collect()] == [(2,)]
    (note,) = result.job_notes
    assert "while 1 window of processing time was open" in note


@pytest.mark.spark
def test_a_job_of_spark_says_it_too(tmp_path: Path, spark: object) -> None:
    env = environment(tmp_path, **{"table.exec.local.max-input-size": "0", "parallelism.default": "2"})
    result = env.execute_sql(WINDOWS["HOP"][0].replace("{time}", "pt"))
    (note,) = notes(result)
    assert "the input ended while 6 windows of processing time were open" in note
    assert "checkpoint" not in note


def test_a_client_of_a_gateway_hears_it(tmp_path: Path, stateplan: Command) -> None:
    environment(tmp_path)
    script = f"{ROWS.format(name='a', folder=tmp_path)};{WINDOWS['TUMBLE'][0].replace('{time}', 'pt')}"
    with gateway_here(SqlGatewayService(Limits(idle_timeout=0))) as gateway:
        answer = stateplan("sql", "--endpoint", f"http://127.0.0.1:{gateway.port}", "-e", script)
    assert "Empty set" in answer.out
    assert answer.err.count("the input ended while 2 windows of processing time were open") == 1
