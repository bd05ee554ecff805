"""Compiling scripts, for the tests of the planner's query half."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from stateplan.session.environment import TableEnvironment
from stateplan.session.script import Inserts, read_script
from tests.support.cases import SESSION

Plan: TypeAlias = dict[str, Any]

TABLES = """
CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), g BOOLEAN, h TIMESTAMP(3))
  WITH ('connector' = 'filesystem', 'path' = '/data/t', 'format' = 'json');
CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector' = 'filesystem', 'path' = '/data/u', 'format' = 'json');
CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME())
  WITH ('connector' = 'filesystem', 'path' = '/data/p', 'format' = 'json');
CREATE TABLE cdc (id INT, k INT, v BIGINT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'filesystem', 'path' = '/data/cdc', 'format' = 'debezium-json');
CREATE TABLE files (a INT, b BIGINT) WITH ('connector' = 'filesystem', 'path' = '/data/out', 'format' = 'json');
CREATE TABLE keyed (a INT, b BIGINT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'print');
CREATE TABLE upserted (a INT, b BIGINT, PRIMARY KEY (a) NOT ENFORCED)
  WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://db/shop', 'table-name' = 't');
CREATE TABLE strict (a INT NOT NULL, b BIGINT) WITH ('connector' = 'print');
CREATE TABLE single (a INT) WITH ('connector' = 'print');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector' = 'print');
CREATE TABLE parted (a INT, b BIGINT) PARTITIONED BY (b) WITH ('connector' = 'print');
CREATE TABLE bucketed (a INT, b BIGINT) DISTRIBUTED BY HASH (a) INTO 3 BUCKETS WITH ('connector' = 'print');
CREATE TABLE sliced (a INT, b BIGINT) PARTITIONED BY (b)
  WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://db/shop', 'table-name' = 't');
CREATE TABLE noted (a INT, b BIGINT METADATA) WITH ('connector' = 'print');
"""
"""Tables that the tests without a script of their own read and write."""


def _ours(value: Plan) -> tuple[str, ...]:
    """Keys that Flink does not write: ours, and the states of operators that it has none for."""
    return ("stateplan", "state") if value.get("type") == "stream-exec-temporal-join_1" else ("stateplan",)


def plain(value: Any) -> Any:
    """``value`` without what only this project writes into plans."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k not in _ours(value)}
    return [plain(v) for v in value] if isinstance(value, list) else value


def numbered(tree: str) -> str:
    """A tree of EXPLAIN with the numbers of correlations from 0. Flink counts on and on in a session."""
    first = min(map(int, re.findall(r"\$cor(\d+)", tree)), default=0)
    return re.sub(r"\$cor(\d+)", lambda found: f"$cor{int(found[1]) - first}", tree)


def compiled(script: str) -> Plan:
    """The plan file of the last statement of ``script``, an INSERT or a statement set."""
    env = TableEnvironment.create(SESSION)
    *before, last = read_script(script)
    for statement in before:
        env.execute_statement(statement)
    plan: Plan = json.loads(env.session.compiler.document(Inserts.of(last.node, last.source)).text)
    return plan


def script_of(folder: Path) -> str:
    """The script of a case, its tables in the folder that ``${DIR}`` stands for in the plan."""
    return (folder / "script.sql").read_text(encoding="utf-8")


@pytest.fixture
def env() -> TableEnvironment:
    """A session with :data:`TABLES`."""
    env = TableEnvironment.create()
    for statement in read_script(TABLES):
        env.execute_statement(statement)
    return env
