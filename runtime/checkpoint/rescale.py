"""Another parallelism on the same checkpoint.

Spark keeps the number of partitions of state in its log of micro-batches and continues with that number, whatever the
session says. To change it, Spark writes the whole state once more, by the hash of the slots, as a micro-batch of its
own without input (``repartition`` of its checkpoint manager). Key groups and all that is in them stay as they are.

Such a micro-batch, once it is planned, has to be finished before anything else: what an interrupted one left behind
would be taken for the state of another micro-batch with its id. A micro-batch of the job that is planned and not
committed has to be run first, with the parallelism that it was planned for, as its sinks may have written part of it.

Codes: CKPT004, CKPT050, CKPT051.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from stateplan.common.errors import CheckpointError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath
from stateplan.runtime.spark.checkpoint_files import PARTITIONS, SparkCheckpoint

PARALLELISM = "parallelism.default"


@dataclass(frozen=True)
class Rescale:
    """What is left to do before a job can run with the parallelism that is wanted.

    Attributes:
        before: partitions that the state has.
        after: partitions that are wanted.
        pending: a micro-batch of the job that has to be run first.
        steps: micro-batches that repartition the state, and into how many partitions: one, or, where an interrupted one
            has to be finished, up to two.
    """

    before: int
    after: int
    pending: int | None
    steps: tuple[tuple[int, int], ...]

    @property
    def next_batch(self) -> int:
        """The first micro-batch of the job that will run."""
        return self.steps[-1][0] + 1 if self.pending is None else self.pending


def wanted_parallelism(options: Mapping[str, str]) -> int | None:
    """The number of partitions that the user sets; None if it is not set."""
    text = options.get(PARTITIONS) or options.get(PARALLELISM) or ""
    return int(text) if text.isdecimal() and int(text) > 0 else None


def wanted_groups(options: Mapping[str, str]) -> int:
    """The number of key groups that the session sets; 0 for any."""
    return max(0, int(options.get("pipeline.max-parallelism") or 0))


def check_key_groups(options: Mapping[str, str], key_groups: int, folder: AnyPath) -> None:
    """Refuses options with which a job cannot continue from a checkpoint.

    Args:
        options: the options of the session.
        key_groups: the key groups of the checkpoint.
        folder: the folder of the checkpoint.

    Raises:
        CheckpointError: CKPT004, other key groups; CKPT050, more partitions than there are key groups.
    """
    groups = wanted_groups(options)
    if groups and groups != key_groups:
        raise CheckpointError("CKPT004", folder=folder, key_groups=key_groups, wanted=groups)
    check_parallelism(options, key_groups, is_resumed=True)


def check_parallelism(options: Mapping[str, str], key_groups: int, is_resumed: bool) -> None:
    """Refuses more partitions than there are key groups.

    Raises:
        CheckpointError: CKPT050.
    """
    parallelism = int(options.get(PARALLELISM, "1"))
    if parallelism > key_groups:
        raise CheckpointError(
            "CKPT050",
            option=PARALLELISM,
            value=parallelism,
            key_groups=key_groups,
            suffix=", for the whole life of the state" if is_resumed else "",
        )


def plan_rescale(spark: SparkCheckpoint, parallelism: int | None) -> tuple[int | None, Rescale | None]:
    """The parallelism that a job continues with, and what has to be done for it.

    Args:
        spark: Spark's part of the checkpoint.
        parallelism: number of partitions; None for those that the checkpoint has.

    Returns:
        None, None if no micro-batch has been planned yet.

    Raises:
        ValueError, OSError: the log of micro-batches cannot be read.
    """
    last, last_done = spark.last_planned, spark.last_done
    if last < 0:
        return parallelism, None
    now = spark.offsets(last).partitions
    before = now if last_done < 0 else spark.offsets(last_done).partitions
    after = parallelism or now
    finish = ((last, now),) if before != now and last != last_done else ()
    pending = last if last != last_done and not finish else None
    if after == now and not finish:
        return after, None
    steps = finish if after == now else (*finish, (last + 1, after))
    return after, Rescale(before, after, pending, steps)


def last_of_job(spark: SparkCheckpoint) -> int:
    """The last committed micro-batch that did not repartition the state, -1 for none."""
    batch = spark.last_done
    with contextlib.suppress(OSError, ValueError):  # Spark has removed the log from here on
        while batch > 0 and spark.offsets(batch).partitions != spark.offsets(batch - 1).partitions:
            batch -= 1
    return batch
