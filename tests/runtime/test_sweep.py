"""Key groups that get no rows drop what has expired, all of them within a bounded number of micro-batches."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import polars as pl

from stateplan.common.ttl import TtlConfig
from stateplan.plans.document import PlanDocument
from stateplan.runtime.exchange import Touch
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.state.runs import RunInfo
from stateplan.runtime.translate import translate
from stateplan.runtime.wakeups import SWEPT_WITHIN, sweeps
from stateplan.runtime.worker import unslot
from stateplan.session.environment import TableEnvironment
from tests.support.local import LocalRun

QUERY = """INSERT INTO snk SELECT v, COUNT(*) FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt ASC) AS n FROM src) WHERE n = 1 GROUP BY v"""


def job(ttl: str, groups: int = 4) -> JobGraph:
    environment = TableEnvironment.create()
    environment.execute_sql("""CREATE TABLE src (k BIGINT, v BIGINT, pt AS PROCTIME()) WITH (
        'connector' = 'replay', 'path' = '/none', 'format' = 'json')""")
    environment.execute_sql("CREATE TABLE snk (v BIGINT, n BIGINT) WITH ('connector' = 'print')")
    environment.execute_sql(f"SET 'table.exec.state.ttl' = '{ttl}'")
    plan = environment.compile_plan_sql(QUERY)
    return translate(PlanDocument.parse(plan.as_json_string()).graph, {"table.local-time-zone": "UTC"}, groups)


def kept(run: LocalRun) -> int:
    manifests: list[Any] = [json.loads(store.text) for store in run.stores.values() if store.text]
    return sum(RunInfo(*part).rows for m in manifests for parts in m["tables"].values() for part in parts)


def rows(keys: range) -> list[pl.DataFrame]:
    return [pl.DataFrame({"c0": keys, "c1": keys}, schema={"c0": pl.Int64, "c1": pl.Int64})]


def test_key_groups_without_rows_shrink() -> None:
    run = LocalRun(job("10 s"))
    run.batch({0: rows(range(200))}, 1_000)
    assert kept(run) == 400
    for n in range(8):  # two operators of four key groups
        run.batch({0: rows(range(1))}, 20_000 + n)
    assert kept(run) == 2


def test_nothing_is_swept_without_a_ttl() -> None:
    assert list(sweeps(job("0 s"), 7, 1_000)) == []


def test_every_key_group_has_its_turn_within_so_many_micro_batches() -> None:
    graph = job("10 s", groups=1000)
    for start in (0, 12_345):
        seen: set[int] = set()
        for batch in range(start, start + SWEPT_WITHIN):
            blobs = list(sweeps(graph, batch, 5))
            assert blobs == list(sweeps(graph, batch, 5))
            assert len(blobs) == 8
            assert {b.content for b in blobs} == {Touch()}
            seen.update(b.slot for b in blobs)
        assert seen == set(unslot(graph))


def test_a_source_that_enters_late_sends_only_to_operators_behind_it() -> None:
    graph = job("10 s")
    owners = unslot(graph)
    late = [b for batch in range(8) for b in sweeps(graph, batch, 5, level=2)]
    assert {graph.operators[owners[b.slot][0]].level for b in late} == {2}
    assert len(late) == 4


def test_operators_that_get_watermarks_take_their_turn() -> None:
    graph = job("10 s")
    timed = replace(graph, operators=tuple(replace(o, channels=(1,)) for o in graph.operators))
    assert list(sweeps(timed, 1, 5)) == list(sweeps(graph, 1, 5)) != []
    never = replace(graph, operators=tuple(replace(o, ttl=(TtlConfig(),)) for o in graph.operators))
    assert list(sweeps(never, 1, 5)) == []
