"""A checkpoint with figures of a job that never ran: a source, a join with two states, a sink."""

from __future__ import annotations

from pathlib import Path

from stateplan.runtime.metrics.log import FOLDER, MetricsLog
from stateplan.runtime.metrics.records import BatchMetrics, JobInfo, OperatorInfo, StateSize

PLAN = Path(__file__).resolve().parent.parent / "cli" / "data" / "join_plan.json"
JOIN = "j0i2"


def info(first_batch: int = 0, started: int = 1_000_000) -> JobInfo:
    operators = (
        OperatorInfo("scan", 1, "source", "default_catalog.default_database.Orders[1]"),
        OperatorInfo(JOIN, 5, "operator", "join[5]", ("left-state", "right-state"), 0),
        OperatorInfo("sink", 7, "sink", 'od"d\\name[7]'),
    )
    return JobInfo("4711", 'the "job"', started, first_batch, operators, 2)


def record(batch: int, started: int = 0, ms: float = 500, partial: bool = False) -> BatchMetrics:
    """Of a micro-batch with 100 rows in, 150 out of the join."""
    operators = {
        "scan": {"rows_in": 100.0, "rows_out": 100.0, "rows_out.+I": 100.0, "read_ms": 20.0, "busy_ms": 20.0},
        JOIN: {
            "rows_in": 100.0,
            "rows_in.0.+I": 60.0,
            "rows_in.1.+I": 30.0,
            "rows_in.1.-D": 10.0,
            "rows_out": 150.0,
            "rows_out.+I": 150.0,
            "busy_ms": 200.0,
            "lookup_ms": 200.0,
            "cache_hits": 3.0,
            "cache_misses": 1.0,
            "late_rows": 2.0,
            "expired_rows": 4.0,
            "expired_rows.1": 4.0,
            "state_bytes_written": 2048.0,
        },
        "sink": {"rows_in": 150.0, "rows_in.0.+I": 150.0},
    }
    state = {JOIN: StateSize([1000 + batch, 20], [310_000, 700], [12, 1], partial)}
    return BatchMetrics(batch, 1000 * batch, started or 1_000_000 + 1000 * batch, ms, operators, state, {JOIN: 60_000})


def job_checkpoint(folder: Path, batches: int = 3) -> Path:
    """A checkpoint in ``folder`` whose job is stopped."""
    folder.mkdir(exist_ok=True)
    (folder / "stateplan.json").write_text("{}")
    (folder / "plan.json").write_bytes(PLAN.read_bytes())
    write_job(folder, batches)
    return folder


def write_job(folder: Path, batches: int, first: int = 0) -> None:
    """Adds the records of a run to a checkpoint."""
    log = MetricsLog(folder / FOLDER)
    log.begin(info(first, 1_000_000 + 1000 * first))
    for batch in range(first, first + batches):
        log.append(record(batch))
