"""Spark writes the state of a checkpoint anew: into another number of partitions, or with state of another checkpoint.

Code: CKPT051.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from stateplan.common.errors import CheckpointError
from stateplan.common.paths import AnyPath
from stateplan.runtime.checkpoint.rescale import Rescale
from stateplan.runtime.scratch import scratch
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.runtime.spark.local_spark import compiled
from stateplan.runtime.spark.tweaks import reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLAIN_SIGNS = "/:@!$&'()*+,;=~-._"
"""What the path of a URI may hold as it is. Source: RFC 3986."""
_STORE_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def repartition(
    spark: SparkSession, checkpoint: SparkCheckpoint, rescale: Rescale, tell: Callable[[str], None]
) -> None:
    """Changes the number of partitions of the state in a checkpoint.

    No query may run on the checkpoint, and no micro-batch may be unfinished. If the process is killed, the next start
    of the job continues.

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
            with _named_plainly(checkpoint) as place:
                spark._streamingCheckpointManager.repartition(place, after)  # noqa: SLF001 - not public yet
        except Exception as cause:  # Spark's, Py4J's, or what Python says of a name that is gone
            raise CheckpointError(
                "CKPT051", before=before, after=after, noun=noun, reason=reason(cause)[:500]
            ) from cause
        finally:
            spark.conf.set(_STORE_FORMAT, was or "1")
        tell(f"rescaled from {before} to {after} {noun} in {time.monotonic() - start_time:.1f} s")
        before = after


def copy_state(
    spark: SparkSession,
    checkpoint: SparkCheckpoint,
    origin: SparkCheckpoint,
    batch: int,
    slots: Mapping[int, Mapping[int, Sequence[int]]],
    stateful: Collection[int],
) -> None:
    """Adds state of another checkpoint to one whose micro-batch 0 is done, in a micro-batch 1.

    Args:
        spark: the session with the options of the job.
        checkpoint: gets the state.
        origin: the other one.
        batch: the micro-batch whose state is copied.
        slots: for operators of Spark, by operator of the other checkpoint, the grouping keys that they have there.
        stateful: the operators of Spark that already have state.
    """
    from pyspark.sql import functions as F  # noqa: N812

    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to the JVM
    java: Any = spark._jsparkSession  # noqa: SLF001 - as above
    partitions, old_partitions = checkpoint.offsets(0).partitions, origin.offsets(batch).partitions
    rows = jvm.java.util.HashMap()
    with _named_plainly(checkpoint) as place:
        for number, origins in slots.items():
            frames = [_state_rows(spark, place, 0, number)] if number in stateful else []
            for operator, labels in origins.items():
                frame = _state_rows(spark, plain_name(origin.folder), batch, operator)
                frames.append(frame.where(F.col("partition_key.slot").isin(list(labels))))
            frame = reduce(lambda a, b: a.unionAll(b), frames)
            if len(frames) > 1 or partitions != old_partitions:  # else each key is in its partition
                frame = frame.repartition(partitions, F.col("partition_key"))
            rows.put(number, frame._jdf)  # noqa: SLF001 - as above
        checkpoint.plan_again(1)
        ids = compiled(spark, "stored-state").newInstance().write(java, place, rows)
    names = {str(n): [list(stores) for stores in ids.get().apply(n)] for n in checkpoint.operators if ids.isDefined()}
    checkpoint.commit_again(1, names)


def _state_rows(spark: SparkSession, folder: str, batch: int, operator: int) -> DataFrame:
    """All that an operator has stored, as it is stored."""
    reader = spark.read.format("statestore").option("operatorId", operator).option("batchId", batch)
    return reader.option("_readAllColumnFamilies", "true").load(folder)


@contextlib.contextmanager
def _named_plainly(checkpoint: SparkCheckpoint) -> Iterator[str]:
    """A plain name of Spark's folder. What Spark has written under it is corrected in the end."""
    name = plain_name(checkpoint.folder)
    try:
        yield name
    finally:
        if name != str(checkpoint.folder):
            checkpoint.relocate()


def plain_name(folder: AnyPath) -> str:
    """A name of Spark's folder that reads the same as a URI. Spark 4.3 takes the URI of a path for a path: one with
    blanks, or other signs that a URI escapes, is given to it as a link."""
    path = str(folder)
    if not isinstance(folder, Path) or quote(path, safe=_PLAIN_SIGNS) == path:
        return path
    return _linked(folder.absolute())


@cache
def _linked(folder: Path) -> str:
    link = scratch("state") / "spark"
    link.symlink_to(folder, target_is_directory=True)
    return str(link)
