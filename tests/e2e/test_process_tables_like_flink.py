"""Process table functions row by row, a micro-batch each, against what Flink 2.3 printed for their twins in Java.

``process_tables/`` has Flink's output. Its timestamps have no seconds where these are zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stateplan.common.values.row import Row
from stateplan.connectors.print import format_rows
from stateplan.planner.catalog.udptf import ArgumentHint, ProcessTableFunction, StateHint, udptf
from stateplan.plans.document import PlanDocument
from stateplan.runtime.translate import translate
from stateplan.runtime.user_functions import bind_functions
from stateplan.session.environment import TableEnvironment
from stateplan.session.restore import restore
from tests.support.local import LocalRun

FOLDER = Path(__file__).parent / "process_tables"
ROWS = [("a", 1, 0), ("b", 2, 1), ("a", 3, 5), ("a", 5, 4), ("b", 7, 30), ("a", 11, 32), ("c", 13, 31), ("a", 17, 70)]
EARLY = [*ROWS[:5], ("a", 11, 6), *ROWS[6:]]
OTHERS = [("a", 100, 0), ("c", 200, 20), ("a", 300, 40)]
SET = ArgumentHint("SET_SEMANTIC_TABLE")


def told(value: Any) -> str:
    """A value as Java prints it."""
    if isinstance(value, datetime):
        if value.year == 9999:
            return "+292278994-08-17T07:12:55.807"
        return value.isoformat().removesuffix(":00") if not value.second else value.isoformat()
    return "null" if value is None else str(value)


class Timers(ProcessTableFunction):
    def eval(self, ctx: Any, s: Any, input: Row) -> Iterator[str]:  # noqa: A002
        time = ctx.time_context()
        s.n = (s.n or 0) + 1
        now = time.time()
        time.register_on_time("early", now + timedelta(seconds=2))
        time.register_on_time("past", now - timedelta(seconds=100))
        for seconds in (3, 1, 2):
            time.register_on_time(now + timedelta(seconds=seconds))
        time.register_on_time("late", now + timedelta(seconds=4))
        yield f"row {input.v} n={s.n} t={told(now)} w={told(time.current_watermark())}"

    def on_timer(self, ctx: Any, s: Any) -> Iterator[str]:
        time, name = ctx.time_context(), ctx.current_timer()
        yield f"timer {told(name)} n={s.n or 0} t={told(time.time())} w={told(time.current_watermark())}"
        if name == "early":
            time.register_on_time("again", time.time() - timedelta(seconds=1))
        if name == "again":
            ctx.clear_state("s")


class Two(ProcessTableFunction):
    def eval(self, ctx: Any, s: Any, left: Row | None, right: Row | None) -> Iterator[str]:
        s.a, s.b = (s.a or 0) + (left is not None), (s.b or 0) + (right is not None)
        shown = ["null" if r is None else f"+I[{', '.join(map(told, r))}]" for r in (left, right)]
        yield f"{s.a}/{s.b} {' '.join(shown)}"


class Updates(ProcessTableFunction):
    def eval(self, ctx: Any, s: Any, input: Row) -> Iterator[int]:  # noqa: A002
        s.n = (s.n or 0) + {"INSERT": 1, "DELETE": -1}.get(input.get_row_kind().name, 0)
        yield s.n


class Count(ProcessTableFunction):
    def eval(self, ctx: Any, memory: Any, input: Row) -> Iterator[Any]:  # noqa: A002
        memory.n, memory.total = (memory.n or 0) + 1, (memory.total or 0) + input.v
        yield memory.n, memory.total


COUNTED = {"s": StateHint("ROW<n BIGINT>")}
FUNCTIONS = {
    "timers": udptf(Timers(), {"input": SET}, "ROW<note STRING>", COUNTED),
    "two": udptf(Two(), {"left": SET, "right": SET}, "ROW<note STRING>", {"s": StateHint("ROW<a BIGINT, b BIGINT>")}),
    "updates": udptf(
        Updates(), {"input": ArgumentHint("SET_SEMANTIC_TABLE", "SUPPORT_UPDATES")}, "ROW<n BIGINT>", COUNTED
    ),
    "counts": udptf(
        Count(), {"input": SET}, "ROW<seen BIGINT, total BIGINT>", {"memory": StateHint("ROW<n BIGINT, total BIGINT>")}
    ),
}
TIME = "on_time => DESCRIPTOR(ts)"
CASES: dict[str, tuple[list[tuple[str, int, int]], str, str]] = {
    "timers": (ROWS, "k STRING, t STRING, rt TIMESTAMP(3)", f"timers(input => TABLE src PARTITION BY k, {TIME})"),
    "ordered_timers": (
        ROWS,
        "k STRING, t STRING, rt TIMESTAMP(3)",
        f"timers(input => TABLE src PARTITION BY k ORDER BY ts, {TIME})",
    ),
    "ordered": (
        EARLY,
        "k STRING, n BIGINT, total BIGINT",
        "counts(input => TABLE src PARTITION BY k ORDER BY (ts, v DESC))",
    ),
    "two_tables": (
        EARLY,
        "k STRING, k2 STRING, t STRING, rt TIMESTAMP(3)",
        f"two(`left` => TABLE src PARTITION BY k, `right` => TABLE other PARTITION BY k, {TIME})",
    ),
    "changes": (
        ROWS,
        "k STRING, c BIGINT, n BIGINT",
        "updates(input => (SELECT k, COUNT(*) AS c FROM src GROUP BY k) PARTITION BY (k, c))",
    ),
}


def frame_of(rows: list[tuple[str, int, int]]) -> pl.DataFrame:
    start = datetime(2024, 1, 1)
    out = pl.DataFrame([(k, v, start + timedelta(seconds=s)) for k, v, s in rows], ["c0", "c1", "c2"], orient="row")
    return out.with_columns(pl.col("c1").cast(pl.Int32), pl.col("c2").cast(pl.Datetime("ms")))


@pytest.mark.parametrize("name", CASES)
def test_rows_are_flinks(name: str, tmp_path: Path) -> None:
    rows, columns, call = CASES[name]
    env = TableEnvironment.create()
    for table, mark in (("src", "ts - INTERVAL '1' SECOND"), ("other", "ts")):
        (tmp_path / table).touch()
        env.execute_sql(
            f"CREATE TABLE {table} (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS {mark}) "
            f"WITH ('connector'='filesystem', 'path'='{tmp_path / table}', 'format'='json')"
        )
    env.execute_sql(f"CREATE TABLE snk ({columns}) WITH ('connector'='print')")
    for function, made in FUNCTIONS.items():
        env.create_temporary_function(function, made)
    document = PlanDocument.parse(env.compile_plan_sql(f"INSERT INTO snk SELECT * FROM {call}").as_json_string())
    job = translate(bind_functions(restore(document, env.catalog, {}).graph, env.functions.of_plan), {}, key_groups=1)
    run, types = LocalRun(job), [t for _, t in job.sinks[0].columns]
    given = [frame_of(OTHERS if "other" in s.name else rows) for s in job.sources]
    delivered = [
        run.batch({source: [frame[at : at + 1]]}, at)[0]
        for at in range(len(rows))
        for source, frame in enumerate(given)
        if at < frame.height
    ]
    lines = [line for found in (*delivered, run.close(100)[0]) for f in found for line in format_rows(f, types, None)]
    wanted = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    assert sorted(_plain(line) for line in lines) == sorted(_plain(line) for line in wanted)


def _plain(line: str) -> str:
    """A line with all timestamps in one form."""
    return re.sub(r"(\d\d\d\d-\d\d-\d\dT\d\d:\d\d):00(?=[],])", r"\1", line)
