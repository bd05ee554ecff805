"""Batch mode gives the rows that Flink 2.3 gave in batch mode, in ``batch/flink.txt``. The rows of the tables come out
of order and in several micro-batches."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from sqlglot import exp

from stateplan.common.changelog import INSERT_ONLY
from stateplan.execnodes.node_tables import with_options
from stateplan.planner.dialect import parse
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from tests.support.local import printed

FOLDER = Path(__file__).with_name("batch")
TABLES = {
    "o": "id INT, k STRING, v INT, d DOUBLE, ts TIMESTAMP(3), pt AS PROCTIME(), "
    "WATERMARK FOR ts AS ts - INTERVAL '1' SECOND",
    "p": "id INT, k STRING, v INT, d DOUBLE, ts TIMESTAMP(3)",
    "s": "oid INT, c STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts",
    "e": "id INT, k STRING, v INT",
}
FILES = {"p": "o"}
CASES = [
    (query, rows.strip("\n").split("\n") if rows.strip("\n") else [])
    for query, _, rows in (
        block.partition("\n") for block in (FOLDER / "flink.txt").read_text(encoding="utf-8").split(">>> ")[1:]
    )
]


def environment(folder: Path, step: int) -> TableEnvironment:
    """The tables as replays, of which ``step`` rows come at a time. Options of streaming mode are set in vain."""
    env = TableEnvironment.create(
        {
            "execution.runtime-mode": "batch",
            "table.exec.state.ttl": "1 ms",
            "table.exec.mini-batch.enabled": "true",
            "table.exec.source.idle-timeout": "1 ms",
        }
    )
    for name, columns in TABLES.items():
        file = FOLDER / f"{FILES.get(name, name)}.json"
        lines = file.read_text().splitlines() if file.exists() else []
        rows = [{**json.loads(line), "@at": 60_000 * (n // step)} for n, line in enumerate(lines)]
        (folder / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        env.execute_sql(
            f"CREATE TABLE {name} ({columns}) "
            f"WITH ('connector' = 'replay', 'path' = '{folder}/{name}.json', 'format' = 'json')"
        )
    return env


def results(env: TableEnvironment, query: str) -> list[str]:
    """The rows that a query gives, in their order, as Flink prints them."""
    [node] = parse(query)
    graph = env.session.compiler.query(node, query).graph
    graph = with_options(graph, lambda table, options: {"connector": "print"} if "channel" in options else options)
    assert graph.sinks[0].takes(0) == INSERT_ONLY
    assert all(state.ttl == 0 for n in graph.nodes for state in n.states)
    return printed(translate(graph, {}, 2))


@pytest.mark.halved
@pytest.mark.parametrize("step", [1, 9])
@pytest.mark.parametrize(("query", "rows"), CASES, ids=[query for query, _ in CASES])
def test_rows_are_flinks(query: str, rows: list[str], step: int, tmp_path: Path) -> None:
    found = results(environment(tmp_path, step), query)
    [node] = parse(query)
    if isinstance(node, exp.Query) and node.args.get("order"):
        assert found == rows
    else:
        assert sorted(found) == sorted(rows)


def test_there_are_queries_of_all_kinds() -> None:
    text = " ".join(query for query, _ in CASES)
    assert len(CASES) > 50
    for word in (
        "ORDER BY",
        "LIMIT",
        "TUMBLE",
        "HOP",
        "CUMULATE",
        "OVER",
        "JOIN",
        "NOT IN",
        "EXISTS",
        "ROLLUP",
        "FROM e",
    ):
        assert re.search(rf"\b{word}\b", text), word


def test_a_stream_loses_late_rows_that_batch_mode_counts(tmp_path: Path) -> None:
    """Without which the cases would prove nothing of late rows."""
    windows = "TABLE(TUMBLE(TABLE o, DESCRIPTOR(ts), INTERVAL '2' MINUTE))"
    query = f"SELECT COUNT(*) FROM {windows} GROUP BY window_start, window_end"
    env = environment(tmp_path, 1)
    counts = [int(line.strip("+I[]")) for line in results(env, query)]
    assert sum(counts) == 24
    env.get_config().set("execution.runtime-mode", "streaming")
    env.get_config().set("table.exec.state.ttl", "0 ms")
    env.get_config().set("table.exec.mini-batch.enabled", "false")
    assert sum(int(line.strip("+I[]")) for line in results(env, query)) < 24
