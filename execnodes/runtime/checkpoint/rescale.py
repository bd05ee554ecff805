"""Another parallelism on the same checkpoint.

Spark keeps the number of partitions of state in its log of micro-batches and goes on with that number, whatever the
session says. To change it, Spark writes the whole state once more, by the hash of the slots, as a micro-batch of its
own without input (``repartition`` of its checkpoint manager). Key groups and all that is in them stay as they are.

Such a micro-batch, once it is planned, has to be finished before anything else: what an interrupted one left behind
would be taken for the state of another micro-batch with its id. A micro-batch of the job that is planned and not
committed has to be run first, with the parallelism that it was planned for, as its sinks may have written part of it.

Codes: CKPT050, CKPT051.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stateplan.execnodes.errors import CheckpointError
from stateplan.execnodes.runtime.checkpoint.numbered_files import last_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARALLELISM = "parallelism.default"
PARTITIONS = "spark.sql.shuffle.partitions"
_STORE_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


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
    """The number of partitions that the user asks for; None when that is left open."""
    text = options.get(PARTITIONS) or options.get(PARALLELISM) or ""
    return int(text) if text.isdecimal() and int(text) > 0 else None


def check_parallelism(options: Mapping[str, str], key_groups: int, resumed: bool) -> None:
    """Refuses more partitions than there are key groups.

    Raises:
        CheckpointError: CKPT050.
    """
    parallelism = int(options.get(PARALLELISM, "1"))
    if parallelism > key_groups:
        raise CheckpointError(
            "CKPT050",
            parallelism=PARALLELISM,
            parallelism_2=parallelism,
            key_groups=key_groups,
            wording="group" if key_groups == 1 else "groups",
            suffix=", for the whole life of the state" if resumed else "",
        )


def planned(folder: Path, wanted: int | None) -> tuple[int | None, Rescale | None]:
    """The parallelism that a job goes on with, and what has to be done for it.

    Args:
        folder: Spark's part of the checkpoint, of a job that keeps state.
        wanted: number of partitions; None for those that the checkpoint has.

    Returns:
        None, None where no micro-batch has been planned yet.

    Raises:
        ValueError, OSError: the log of micro-batches cannot be read.
    """
    last, done = last_batch(folder / "offsets"), last_batch(folder / "commits")
    if last < 0:
        return wanted, None
    now = _partitions(folder, last)
    before = now if done < 0 else _partitions(folder, done)
    after = wanted or now
    finish = ((last, now),) if before != now and last != done else ()
    pending = last if last != done and not finish else None
    if after == now and not finish:
        return after, None
    steps = finish if after == now else (*finish, (last + 1, after))
    return after, Rescale(before, after, pending, steps)


def last_of_job(folder: Path) -> int:
    """The last committed micro-batch that did not repartition the state, -1 for none."""
    batch = last_batch(folder / "commits")
    try:
        while batch > 0 and _partitions(folder, batch) != _partitions(folder, batch - 1):
            batch -= 1
    except (OSError, ValueError):
        pass  # Spark has removed the log from here on
    return batch


def _partitions(folder: Path, batch: int) -> int:
    """Into how many partitions Spark's log says that state is split in a micro-batch."""
    file = folder / "offsets" / str(batch)
    lines = file.read_text().splitlines()
    try:
        return int(json.loads(lines[1])["conf"][PARTITIONS])
    except (IndexError, KeyError, TypeError, ValueError) as cause:
        raise ValueError(f"{file.name}: {cause}") from cause


def repartition(spark: SparkSession, folder: Path, rescale: Rescale, console: Callable[[str], None] | None) -> None:
    """Brings the state of a checkpoint to the partitions that are wanted. No query may be running on it, and nothing of
    the job may be pending. Killed at any moment, it is finished by the next start.

    Raises:
        CheckpointError: CKPT051, Spark could not do it.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    before = rescale.before
    # Spark compares the session's setting with what the checkpoint was written with.
    was, form = spark.conf.get(_STORE_FORMAT, "1"), "2" if _has_store_ids(folder) else "1"
    for _, after in rescale.steps:
        if console is not None:
            console(f"rescaling the state from {before} to {after} {_noun(after)}")
        started = time.monotonic()
        try:
            spark.conf.set(_STORE_FORMAT, form)
            spark._streamingCheckpointManager.repartition(str(folder), after)  # noqa: SLF001 - not public yet
        except (PySparkException, Py4JError) as cause:
            raise CheckpointError(
                "CKPT051", before=before, after=after, noun=_noun(after), reason=_reason(cause)
            ) from cause
        finally:
            spark.conf.set(_STORE_FORMAT, was or "1")
        if console is not None:
            console(f"rescaled from {before} to {after} {_noun(after)} in {time.monotonic() - started:.1f} s")
        before = after


def _has_store_ids(folder: Path) -> bool:
    """Whether Spark tells apart what attempts of one micro-batch have written; each checkpoint stays as it began."""
    lines = (folder / "commits" / str(last_batch(folder / "commits"))).read_text().splitlines()
    return len(lines) > 1 and bool(json.loads(lines[1]).get("stateUniqueIds"))


def _reason(cause: Exception) -> str:
    """What Spark says, without what Py4J says about how it was called."""
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    if lines and lines[0].startswith("An error occurred while calling"):
        lines = [line.removeprefix(": ") for line in lines[1:]]
    return (lines[0] if lines else "no reason given")[:500]


def sweep(folder: Path, partitions: int) -> None:
    """Removes what partitions that are no more have left, which Spark never does: the folders whose number is at least
    ``partitions``. To be called a start later than the repartition, whose commit the machine may have lost with its
    power."""
    state = folder / "state"
    for operator in state.iterdir() if state.is_dir() else ():
        for entry in operator.iterdir() if operator.is_dir() else ():
            if entry.name.isdecimal() and int(entry.name) >= partitions:
                shutil.rmtree(entry, ignore_errors=True)


def _noun(partitions: int) -> str:
    return "partition" if partitions == 1 else "partitions"
