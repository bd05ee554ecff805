"""Spark writes the state of a checkpoint anew, into another number of partitions.

Code: CKPT051.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from stateplan.execnodes.errors import CheckpointError
from stateplan.execnodes.runtime.checkpoint.rescale import Rescale
from stateplan.execnodes.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.execnodes.runtime.spark.tweaks import reason

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
        started = time.monotonic()
        try:
            spark.conf.set(_STORE_FORMAT, form)
            spark._streamingCheckpointManager.repartition(str(checkpoint.folder), after)  # noqa: SLF001 - not public yet
        except Exception as cause:  # Spark's, Py4J's, or what Python says of a name that is gone
            raise CheckpointError(
                "CKPT051", before=before, after=after, noun=noun, reason=reason(cause)[:500]
            ) from cause
        finally:
            spark.conf.set(_STORE_FORMAT, was or "1")
        tell(f"rescaled from {before} to {after} {noun} in {time.monotonic() - started:.1f} s")
        before = after
