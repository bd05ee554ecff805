"""Windows of processing time: they end by the clock, also when no row comes and when the job was stopped meanwhile."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.chaos import folded
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs

ROWS = """CREATE TABLE clicks (id INT, pt AS PROCTIME()) WITH (
  'connector' = 'filesystem', 'path' = '{folder}/in', 'format' = 'json', 'source.monitor-interval' = '200 ms')"""
SINK = """CREATE TABLE {name} (id INT, n BIGINT, s TIMESTAMP(3), e TIMESTAMP(3)) WITH (
  'connector' = 'filesystem', 'path' = '{folder}/{name}', 'format' = 'json')"""
WINDOWS = {
    "tumbles": "TUMBLE(TABLE clicks, DESCRIPTOR(pt), INTERVAL '1' SECOND)",
    "hops": "HOP(TABLE clicks, DESCRIPTOR(pt), INTERVAL '2' SECOND, INTERVAL '4' SECOND)",
    "sessions": "SESSION(TABLE clicks PARTITION BY id, DESCRIPTOR(pt), INTERVAL '2' SECOND)",
}


def started(folder: Path) -> Any:
    options = {"pipeline.max-parallelism": "2", "execution.checkpointing.dir": str(folder / "checkpoint")}
    env = TableEnvironment.create({**options, "execution.checkpointing.interval": "200 ms"}, jobs=Jobs())
    env.execute_sql(ROWS.format(folder=folder))
    inserts = []
    for name, window in WINDOWS.items():
        env.execute_sql(SINK.format(name=name, folder=folder))
        inserts.append(
            f"INSERT INTO {name} SELECT id, COUNT(*), window_start, window_end FROM TABLE({window}) "
            "GROUP BY id, window_start, window_end"
        )
    return env.execute_sql(f"EXECUTE STATEMENT SET BEGIN {'; '.join(inserts)}; END").job


def arrive(folder: Path, name: str, ids: list[int]) -> None:
    (folder / name).write_text("".join(json.dumps({"id": i}) + "\n" for i in ids))
    (folder / "in").mkdir(exist_ok=True)
    os.replace(folder / name, folder / "in" / name)


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    found = folded(folder / name) if (folder / name).is_dir() else Counter()
    return [json.loads(text) for text in found.elements()]


def counts(folder: Path, name: str) -> dict[int, int]:
    """Rows per id, over all windows that have been emitted."""
    out: dict[int, int] = {}
    for row in rows(folder, name):
        out[row["id"]] = out.get(row["id"], 0) + row["n"]
    return out


def come(folder: Path, name: str, wanted: dict[int, int]) -> None:
    until = time.monotonic() + 60
    while counts(folder, name) != wanted:
        assert time.monotonic() < until, f"{name}: {counts(folder, name)} instead of {wanted}"
        time.sleep(0.1)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_windows_end_by_the_clock(tmp_path: Path) -> None:
    arrive(tmp_path, "a", [1, 1, 2])
    job = started(tmp_path)
    come(tmp_path, "tumbles", {1: 2, 2: 1})
    come(tmp_path, "sessions", {1: 2, 2: 1})
    come(tmp_path, "hops", {1: 4, 2: 2})
    arrive(tmp_path, "b", [1, 3])
    while job.progress.operators and counts(tmp_path, "tumbles") == {1: 2, 2: 1}:
        time.sleep(0.05)
    job.stop()
    assert counts(tmp_path, "hops") != {1: 6, 2: 2, 3: 2}, "windows are still open"
    job = started(tmp_path)
    come(tmp_path, "tumbles", {1: 3, 2: 1, 3: 1})
    come(tmp_path, "sessions", {1: 3, 2: 1, 3: 1})
    come(tmp_path, "hops", {1: 6, 2: 2, 3: 2})
    idle = job.progress.batch
    time.sleep(2)
    assert job.progress.batch - idle <= 5, "without rows there is a micro-batch for each end of a window, and no other"
    job.stop()
    for row in rows(tmp_path, "hops"):
        assert row["s"][:19] < row["e"][:19]
        assert int(row["s"][17:19]) % 2 == 0
