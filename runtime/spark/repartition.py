"""Spark writes the state of a checkpoint anew, into another number of partitions.

Code: CKPT051.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stateplan.common.errors import CheckpointError
from stateplan.runtime.checkpoint.rescale import Rescale
from stateplan.runtime.scratch import scratch
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.runtime.spark.tweaks import reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STORE_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def repartition(
    spark: SparkSession, checkpoint: SparkCheckpoint, rescale: Rescale, tell: Callable[[str], None]
) -> None:
    """Brings the state of a checkpoint to the partitions that are wanted. No query may be running on it, and nothing of
    the job may be pending. Killed at any moment, it is finished by the next start.

    Raises:
        CheckpointError: CKPT051, Spark could not do it.
    """
    before = rescale.before
    # Spark compares the session's setting with what the checkpoint was written with; each stays as it began.
    was = spark.conf.get(_STORE_FORMAT, "1")
    form = "2" if checkpoint.has_store_ids(checkpoint.last_done) else "1"
    for _, after in rescale.steps:
        noun = "partition" if after == 1 else "partitions"
        tell(f"rescaling the state from {before} to {after} {noun}")
        start_time = time.monotonic()
        try:
            spark.conf.set(_STORE_FORMAT, form)
            with _plainly_named(checkpoint) as place:
                spark._streamingCheckpointManager.repartition(place, after)  # noqa: SLF001 - not public yet
        except Exception as cause:  # Spark's, Py4J's, or what Python says of a name that is gone
            raise CheckpointError(
                "CKPT051", before=before, after=after, noun=noun, reason=reason(cause)[:500]
            ) from cause
        finally:
            spark.conf.set(_STORE_FORMAT, was or "1")
        tell(f"rescaled from {before} to {after} {noun} in {time.monotonic() - start_time:.1f} s")
        before = after


@contextlib.contextmanager
def _plainly_named(checkpoint: SparkCheckpoint) -> Iterator[str]:
    """A name of Spark's folder that reads the same as a URI: here Spark 4.3 takes the URI of a path for a path."""
    if checkpoint.is_plainly_named or not isinstance(checkpoint.folder, Path):
        yield str(checkpoint.folder)
        return
    link = scratch("rescale") / checkpoint.folder.name
    link.symlink_to(checkpoint.folder)
    try:
        yield str(link)
    finally:
        link.unlink()
        checkpoint.relocate()
