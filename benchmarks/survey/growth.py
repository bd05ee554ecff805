"""What grows: the keys in state, the partitions of a job, the files of a folder.

    python -m benchmarks.survey.growth keys|start|partitions NUMBER FOLDER [OPTIONS]

Each is a process of its own, whose last line is JSON.

- ``keys``: a keep-first deduplication of so many keys, in a hundred micro-batches, with ``execution.memory.total`` of
  4 GiB. A fifth of the rows are of keys that are known.
- ``start``: the job continues from the checkpoint in the folder, with one more file.
- ``partitions``: 2,000,000 rows through a deduplication, and micro-batches of ten rows, at a parallelism.

``OPTIONS`` are those of the session, in JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.fixed_cost import measure
from benchmarks.harness import session, write_files
from benchmarks.hosts import DRIVER, OPTIONS, Hosts, lacking
from benchmarks.large_state import QUERIES, inputs
from benchmarks.survey.peers import Peer, python_figures
from benchmarks.survey.streams import PATIENCE, Arrivals
from stateplan.runtime.metrics.records import BatchMetrics

KEYS = (10_000_000, 30_000_000, 100_000_000)
PARTITIONS = (1, 2, 4, 8, 16)
FILES = 10_000
_BATCHES = 100
_MEMORY = "4 gb"


def of_keys(keys: int, work: Path) -> dict[str, float]:
    """The first and the last tenth of a long run, and a start from its checkpoint."""
    figures = python_figures("growth", "keys", str(keys), str(work))
    begun = time.time()
    started = python_figures("growth", "start", str(keys), str(work))
    return figures | {"start s": started["committed"] - begun}


def of_partitions(number: int, work: Path) -> dict[str, float]:
    """Throughput and fixed cost at a parallelism."""
    return python_figures("growth", "partitions", str(number), str(work))


def of_hosts(number: int, work: Path) -> dict[str, float]:
    """The same on two simulated hosts, which share the cores of this machine; on one host for a parallelism of one.

    Raises:
        RuntimeError: it fails, or this machine allows no hosts.
    """
    reason = lacking()
    if reason:
        raise RuntimeError(reason)
    shared = work / "shared"
    shared.mkdir()
    count = min(2, number)
    with Hosts(work / "hosts", [shared], count, cores=number // count) as hosts:

        def start(command: Sequence[str], **how: Any) -> subprocess.Popen[str]:
            return hosts.on(DRIVER, *command, env={"TMPDIR": str(shared)}, **how)

        figures = python_figures("growth", "partitions", str(number), str(shared), json.dumps(OPTIONS), start=start)
    # Memory is that of the driver alone.
    return {name: value for name, value in figures.items() if not name.endswith("GiB")}


def of_files(peer: Peer, work: Path) -> dict[str, float]:
    """A stream begins at a folder with many files of ten rows."""
    arrivals = Arrivals(work / "arrivals")
    for _ in range(FILES):
        arrivals.send(10)
    with peer.start(arrivals.folder, work) as program:
        first = program.wait_for_row(PATIENCE) - program.began
        until = time.monotonic() + PATIENCE
        while (rows := sum(1 for _ in program.rows())) < 10 * FILES:
            if time.monotonic() > until:
                raise RuntimeError(f"{rows:,} of {10 * FILES:,} rows came within {PATIENCE:.0f} s")
            time.sleep(0.5)
        last = max(came for came, _, _ in program.rows()) - program.began
    return {"first row s": first, "last row s": last}


def _run_keys(keys: int, work: Path, options: Mapping[str, str]) -> dict[str, float]:
    write_files(work / "input", inputs(keys, keys // _BATCHES))
    records = _records(work / "input", {"execution.memory.total": _MEMORY, **_checkpoint(work), **options})
    first, last = (tenth[1:] for tenth in (records[: len(records) // 10 + 1], records[-len(records) // 10 - 1 :]))
    stored = sum(file.stat().st_size for file in (work / "checkpoint").rglob("*") if file.is_file())
    speeds = [_rows(tenth) / _seconds(tenth) for tenth in (first, last)]
    return {
        "rows/s": _rows(records[1:]) / _seconds(records[1:]),
        "first tenth, rows/s": speeds[0],
        "last tenth, rows/s": speeds[1],
        "first commit ms": statistics.median(record.total("write_ms") for record in first),
        "last commit ms": statistics.median(record.total("write_ms") for record in last),
        "state GiB": sum(sum(size.bytes) for size in records[-1].state.values()) / 2**30,
        "checkpoint GiB": stored / 2**30,
    }


def _run_start(keys: int, work: Path, options: Mapping[str, str]) -> dict[str, float]:
    path = work / "input" / "part-99999.parquet"
    pl.DataFrame({"k": [0, keys], "v": [0, 0]}, schema={"k": pl.Int64, "v": pl.Int64}).write_parquet(path)
    record = _records(work / "input", {"execution.memory.total": _MEMORY, **_checkpoint(work), **options})[-1]
    return {"committed": (record.started + record.ms) / 1000}


def _checkpoint(work: Path) -> dict[str, str]:
    return {"execution.checkpointing.dir": str(work / "checkpoint")}


def _records(data: Path, options: Mapping[str, str]) -> Sequence[BatchMetrics]:
    """The micro-batches of a deduplication that ends with its input."""
    environment = session(data, "k BIGINT, v BIGINT", "k BIGINT, v BIGINT", options)
    job = environment.execute_sql(QUERIES["dedup"]).job
    assert job is not None
    job.wait()
    return job.metrics


def _rows(records: Sequence[BatchMetrics]) -> float:
    return sum(max(figures.get("rows_in", 0) for figures in record.operators.values()) for record in records)


def _seconds(records: Sequence[BatchMetrics]) -> float:
    return (records[-1].started + records[-1].ms - records[0].started) / 1000


def _run_partitions(number: int, work: Path, options: Mapping[str, str]) -> dict[str, float]:
    options = {"parallelism.default": str(number), **options}
    many, few = (work / name for name in ("many", "few"))
    write_files(many / "input", inputs(1_600_000, 400_000))
    records = _records(many / "input", options | _checkpoint(many))
    progress, _ = measure(20, 10, options | _checkpoint(few), few)
    fixed = statistics.median(one["durationMs"]["triggerExecution"] for one in progress)
    return {"rows/s": _rows(records[1:]) / _seconds(records[1:]), "ten rows ms": fixed}


def main(what: str, number: str, folder: str, options: str = "{}") -> None:
    """Runs one of them, and prints its figures."""
    runs = {"keys": _run_keys, "start": _run_start, "partitions": _run_partitions}
    work = Path(folder)
    os.makedirs(work, exist_ok=True)
    figures = runs[what](int(number), work, json.loads(options))
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
