"""Figures of operators, micro-batch by micro-batch, without Spark: rows by input and kind, expiry, late rows, cache."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from stateplan.common.changelog import KIND
from stateplan.runtime.delivery import count_rows
from stateplan.runtime.metrics.figures import FIGURES, LATEST, split_name
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import Inserts, read_statement
from tests.support.local import LocalRun

TABLES = """
CREATE TABLE a (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'replay', 'path' = '{rows}', 'format' = 'json');
CREATE TABLE b (k INT, w INT, bt TIMESTAMP(3), WATERMARK FOR bt AS bt)
  WITH ('connector' = 'replay', 'path' = '{rows}', 'format' = 'json');
CREATE TABLE snk ({columns}) WITH ('connector' = 'print')
"""
Row = tuple[int, int, int]
"""k, v, and seconds of event time."""


class Job(LocalRun):
    """A query, without Spark."""

    def __init__(self, folder: Path, columns: str, query: str) -> None:
        (folder / "rows.json").write_text(json.dumps({"@at": 0, "k": 0}) + "\n")
        environment = TableEnvironment.create()
        for statement in TABLES.format(rows=folder / "rows.json", columns=columns).split(";"):
            environment.execute_sql(statement)
        insert = read_statement(f"INSERT INTO snk {query}")
        graph = environment.session.compiler.document(Inserts.of(insert.node, insert.source)).graph
        super().__init__(translate(graph, {"table.local-time-zone": "UTC"}, 1))
        self.fields = [[f.name for f in graph.node(s.node).output_type.fields] for s in self.graph.sources]

    def send(self, now: int, *rows: list[Row]) -> None:
        """A micro-batch: per source the rows that come."""
        self.batch({i: [frame(some, self.fields[i])] for i, some in enumerate(rows) if some}, now)


def frame(rows: list[Row], fields: list[str]) -> pl.DataFrame:
    values = {
        **dict.fromkeys(("v", "w"), pl.Series([v for _, v, _ in rows], dtype=pl.Int32)),
        **dict.fromkeys(("ts", "bt"), pl.Series([1000 * at for *_, at in rows]).cast(pl.Datetime("ms"))),
        "k": pl.Series([k for k, *_ in rows], dtype=pl.Int32),
    }
    return pl.DataFrame([values[name].alias(f"c{i}") for i, name in enumerate(fields)])


def figures(local: LocalRun, operator: int = 0) -> dict[str, float]:
    """Those of an operator that are not 0 and do not depend on the machine."""
    found = local.figures[local.graph.operators[operator].uid]
    return {n: v for n, v in found.items() if v and not n.endswith("_ms") and "bytes" not in n}


def test_rows_by_kind() -> None:
    counted: dict[str, float] = {"rows.+I": 1}
    for kinds in ([0, 0, 1, 2, 2, 3], []):
        count_rows(counted, "rows", pl.DataFrame({KIND: kinds}, schema={KIND: pl.Int8}))
    count_rows(counted, "rows", pl.DataFrame({"c0": [1, 2]}))
    assert counted == {"rows.+I": 5, "rows.-U": 1, "rows.+U": 2, "rows.-D": 1}


def test_a_join_by_input_with_expiry_and_cache(tmp_path: Path) -> None:
    local = Job(
        tmp_path,
        "k INT, v INT, w INT",
        "SELECT /*+ STATE_TTL('a' = '1 h', 'b' = '0 s') */ a.k, v, w FROM a JOIN b ON a.k = b.k",
    )
    local.send(1000, [(1, 2, 1), (2, 2, 1)], [(1, 10, 1)])
    first = {"rows_in": 3, "rows_in.0.+I": 2, "rows_in.1.+I": 1, "rows_out": 1, "rows_out.+I": 1}
    growth = {"state_rows": 3, "state_rows.0": 2, "state_rows.1": 1, "state_runs.0": 1, "state_runs.1": 1}
    assert figures(local) == {**first, **growth, "key_groups": 1}
    local.cache = RunCache(None)  # as in another process
    local.send(2000, [], [(1, 11, 1), (2, 12, 1), (3, 13, 1)])
    second = figures(local)
    assert second["rows_out.+I"] == 2 and second["cache_misses"] >= 1 and second.get("cache_hits", 0) == 0
    local.send(3000, [], [(1, 14, 1)])
    assert figures(local)["cache_hits"] >= 1 and "cache_misses" not in figures(local)
    local.send(3_700_000, [], [(1, 15, 1)])
    last = figures(local)
    assert last["expired_rows"] == last["expired_rows.0"] == 2 and "rows_out" not in last
    assert last["state_rows.0"] == -2 and last["state_rows.1"] == 1


LATE = {
    "window aggregate": (
        "ws TIMESTAMP(3), s INT",
        "SELECT window_start, SUM(v) FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
        "GROUP BY window_start, window_end",
    ),
    "window join": (
        "v INT, w INT",
        "SELECT l.v, r.w FROM (SELECT * FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '10' SECOND))) l "
        "JOIN (SELECT * FROM TABLE(TUMBLE(TABLE b, DESCRIPTOR(bt), INTERVAL '10' SECOND))) r "
        "ON l.window_start = r.window_start AND l.window_end = r.window_end",
    ),
    "sort": ("k INT, v INT", "SELECT k, v FROM a ORDER BY ts"),
    "over": ("k INT, s INT", "SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts) FROM a"),
    "first row": (
        "k INT, v INT",
        "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM a) WHERE n = 1",
    ),
}


@pytest.mark.parametrize("case", LATE)
def test_late_rows_are_counted(tmp_path: Path, case: str) -> None:
    local = Job(tmp_path, *LATE[case])
    sources = len(local.graph.sources)
    operator = next(i for i, o in enumerate(local.graph.operators) if o.event_time)
    for seconds in ([5, 60], [70], [80]):
        local.send(1000, *[[(1, 1, at) for at in seconds]] * sources)
        assert not figures(local, operator).get("late_rows")
    local.send(1000, *[[(1, 1, 2), (1, 1, 500), (1, 1, 14)]] * sources)
    assert figures(local, operator)["late_rows"] == 2 * sources
    assert local.figures[local.graph.operators[operator].uid]["watermark_ms"] == 500_000


def test_every_figure_is_documented(tmp_path: Path) -> None:
    local = Job(tmp_path, "k INT, s INT", "SELECT k, SUM(v) FROM a GROUP BY k")
    local.send(1000, [(1, 1, 1)])
    found = local.figures[local.graph.operators[0].uid]
    names = {split_name(name)[0] for name in found} - LATEST - {"state_rows", "state_bytes", "state_runs"}
    assert names <= set(FIGURES) and {"lookup_ms", "kernel_ms", "write_ms", "decode_ms", "deliver_ms"} <= names
