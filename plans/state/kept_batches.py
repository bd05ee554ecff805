"""Which micro-batches a checkpoint still has the state of, and when they were committed.

Codes: CKPT043.
"""

from __future__ import annotations

from collections.abc import Mapping

from stateplan.common.errors import CheckpointError
from stateplan.common.paths import AnyPath
from stateplan.common.readable import instant_text
from stateplan.runtime.inspect.inspection import Snapshot
from stateplan.runtime.metrics.log import read_metrics
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint


def commit_times(snapshot: Snapshot, only: int | None = None) -> Mapping[int, int]:
    """Of each micro-batch that is kept, or of one of them alone, when it was committed, ms since 1970; of a job on the
    replay clock, which instant it played."""
    folder = snapshot.folder
    batches = SparkCheckpoint.of(folder).committed_batches if only is None else [only]
    records = {record.batch: record for record in read_metrics(folder) if record.batches == 1}
    if snapshot.clock == "replay clock":
        without_record = snapshot.played(batch for batch in batches if batch not in records)
        return {b: without_record[b] if b in without_record else records[b].time for b in batches}
    times = {}
    for batch in batches:
        record = records.get(batch)
        times[batch] = _commit_time(folder, batch) if record is None else record.started + int(record.ms)
    return times


def _commit_time(folder: AnyPath, batch: int) -> int:
    return int((SparkCheckpoint.of(folder).commit_log / str(batch)).stat().st_mtime * 1000)


def batch_at(snapshot: Snapshot, at: int) -> int:
    """The last micro-batch that was committed at or before an instant.

    Raises:
        CheckpointError: CKPT043, none that is kept.
    """
    times = commit_times(snapshot)
    batches = [batch for batch, time in times.items() if time <= at]
    if not batches:
        first, last = min(times), max(times)
        raise CheckpointError(
            "CKPT043",
            folder=snapshot.folder,
            batch=f"that was committed by {_text(at)}",
            first=f"{first} ({_text(times[first])})",
            last=f"{last} ({_text(times[last])})",
        )
    return max(batches)


def _text(ms: int) -> str:
    return f"{instant_text(ms) or ms} UTC"
