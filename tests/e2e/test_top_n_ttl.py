"""The TTL of top-N, LIMIT and deduplication by event time, edited in the plan between two runs over one state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stateplan.connectors.print import format_rows
from stateplan.plans.document import PlanDocument
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import Inserts, read_script
from tests.support.local import LocalRun, rows_at

TOP = """SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS n FROM {source})
WHERE n {which}"""
APPEND = TOP.format(order="v DESC", source="src", which="<= 2")
FIRST = TOP.format(order="v DESC", source="src", which="= 1")
ARRIVAL = TOP.format(order="pt", source="src", which="<= 2")
UPDATES = TOP.format(
    order="v DESC", source="(SELECT k, d, CAST(SUM(v) AS INT) AS v FROM src WHERE v > 0 GROUP BY k, d)", which="<= 2"
)
RETRACT = TOP.format(
    order="v", source="(SELECT k, d, CAST(SUM(v) AS INT) AS v FROM src WHERE v > 0 GROUP BY k, d)", which="<= 2"
)
LAST = TOP.format(order="ts DESC", source="src", which="= 1")


def document(query: str, rows: Path, watermark: str = "") -> PlanDocument:
    environment = TableEnvironment.create()
    *tables, insert = read_script(
        f"CREATE TABLE src (k INT, d INT, v INT, ts TIMESTAMP(3), pt AS PROCTIME(){watermark}) WITH "
        f"('connector'='replay', 'path'='{rows}', 'format'='json');"
        "CREATE TABLE snk (k INT, v INT) WITH ('connector'='print');"
        f"INSERT INTO snk {query};"
    )
    for table in tables:
        environment.execute_statement(table)
    return environment.session.compiler.document(Inserts.of(insert.node, insert.source))


def edited(plan: PlanDocument, ttl: str) -> JobGraph:
    """The plan with this TTL in the state of its last stateful node."""
    node = [n for n in plan.graph.nodes if n.state_names and n.title != "sink"][-1]
    return translate(plan.set_ttl(node.id, 0, ttl).graph, {}, key_groups=2)


def played(local: LocalRun, at: int) -> list[str]:
    """The lines that the rows of one instant print."""
    reader: Any = local.graph.sources[0].reader
    (frames,) = local.batch({0: rows_at(reader, at)}, at)
    (sink,) = local.graph.sinks
    return [line for frame in frames for line in format_rows(frame, [t for _, t in sink.columns], None)]


@pytest.mark.parametrize(
    ("query", "first", "second", "kept", "expired"),
    [
        (APPEND, [(1, 10), (1, 20)], (1, 30), [], ["+I[1, 5]"]),
        (FIRST, [(1, 10), (1, 20)], (1, 30), [], ["+I[1, 5]"]),
        (ARRIVAL, [(1, 10), (1, 20)], None, [], ["+I[1, 5]"]),
        (UPDATES, [(1, 10), (2, 20)], (3, 30), [], ["+I[1, 5]"]),
        (RETRACT, [(1, 10), (2, 20)], (3, 3), ["-D[1, 10]", "+I[1, 5]"], ["+I[1, 5]"]),
        (LAST, [(1, 10), (1, 20)], (1, 30), ["-U[1, 30]", "+U[1, 5]"], ["+I[1, 5]"]),
        ("SELECT k, v FROM src ORDER BY v DESC LIMIT 2", [(1, 10), (1, 20)], (1, 30), [], ["+I[1, 5]"]),
        ("SELECT k, v FROM src LIMIT 2", [(1, 10), (1, 20)], None, [], ["+I[1, 5]"]),
    ],
)
def test_an_edited_ttl_decides_about_state_that_is_there(
    query: str,
    first: list[tuple[int, int]],
    second: tuple[int, int] | None,
    kept: list[str],
    expired: list[str],
    tmp_path: Path,
) -> None:
    rows = tmp_path / "rows.json"
    times = [(1000, *r) for r in first] + ([(5000, *second)] if second else []) + [(9000, 4, 5)]
    rows.write_text(
        "".join(
            json.dumps({"k": 1, "d": d, "v": v, "ts": f"2024-01-01 00:00:{n:02d}", "@at": at}) + "\n"
            for n, (at, d, v) in enumerate(times)
        )
    )
    plan = document(query, rows, ", WATERMARK FOR ts AS ts" if query is LAST else "")
    for ttl, expected in (("10 s", kept), ("0 ms", kept), ("3 s", expired)):
        local = LocalRun(edited(plan, "10 s"))
        assert played(local, 1000)
        if second:
            played(local, 5000)
        assert played(local.continue_with(edited(plan, ttl)), 9000) == expected, ttl
