"""Figures that workers add and the driver reads, exact for every micro-batch: one Spark accumulator per job.

Spark adds up what successful tasks bring, but a task may succeed more than once: when its output is lost, and when
it was started twice because it was slow. So figures travel under the attempt that made them, and of every task one
attempt counts. What an unfinished attempt at a micro-batch left is forgotten when the micro-batch begins.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

from stateplan.runtime.metrics.figures import Figures, add_all
from stateplan.runtime.metrics.live import Attempt, LiveFigures, clear, live_figures
from stateplan.runtime.metrics.timing import stamp
from stateplan.runtime.spark.tasks import micro_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


AttemptFigures = dict[Attempt, Figures]


class _FiguresParam(AccumulatorParam[AttemptFigures]):  # type: ignore[misc] # a base without types
    def zero(self, value: AttemptFigures) -> AttemptFigures:
        return {}

    def addInPlace(self, value1: AttemptFigures, value2: AttemptFigures) -> AttemptFigures:  # noqa: N802
        for attempt, operators in value2.items():
            add_all(value1.setdefault(attempt, {}), operators)
        return value1


class SparkTaskCounters:
    """Brings figures from a worker of Spark to the driver. Picklable.

    Args:
        accumulator: brings them to the driver.
        folder: where those of running tasks are left; None if the driver would not find them.
        is_timed: whether figures say when they were made, for traces.
    """

    def __init__(self, accumulator: Any, folder: str | None = None, is_timed: bool = False) -> None:
        self._accumulator = accumulator
        self._folder = folder
        self._is_timed = is_timed
        self._live = None if folder is None else LiveFigures(folder)

    def __reduce__(self) -> tuple[object, ...]:
        return SparkTaskCounters, (self._accumulator, self._folder, self._is_timed)

    def add(self, uid: str, figures: dict[str, float]) -> None:
        """Adds figures to those of an operator."""
        attempt = _this_attempt()
        if self._is_timed:
            stamp(figures)
        self._accumulator.add({attempt: {uid: figures}})
        if self._live is not None:
            self._live.add(attempt, uid, figures)

    def so_far(self, uid: str, figures: dict[str, float]) -> None:
        """Tells what this task is going to add for an operator when it has ended, as far as it is known."""
        if self._live is not None:
            self._live.replace(_this_attempt(), uid, figures)


class SparkCounters:
    """The driver's side.

    Args:
        spark: the session of the job.
        folder: where workers leave the figures of running tasks, if they run on this machine.
        is_timed: whether figures say when they were made, for traces.

    Attributes:
        tasks: what workers count with.
    """

    def __init__(self, spark: SparkSession, folder: str | None = None, is_timed: bool = False) -> None:
        self.is_timed = is_timed
        self._accumulator: Any = spark.sparkContext.accumulator({}, _FiguresParam())
        self._folder = folder
        self.tasks = SparkTaskCounters(self._accumulator, folder, is_timed)

    def begin(self) -> None:
        """A micro-batch begins: what came before is no longer of interest."""
        self._accumulator.value = {}
        if self._folder is not None:
            clear(self._folder)

    def current(self, batch: int) -> Figures:
        """The figures of micro-batch ``batch``, as far as they are known."""
        live = {} if self._folder is None else live_figures(self._folder, batch)
        return one_attempt({**live, **self._accumulator.value}, batch)

    def end(self, batch: int) -> Figures:
        """The figures of a micro-batch whose tasks have all ended."""
        figures = one_attempt(dict(self._accumulator.value), batch)
        self._accumulator.value = {}
        return figures

    def close(self) -> None:
        """The job has ended."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def one_attempt(attempts: AttemptFigures, batch: int) -> Figures:
    """The sums over the tasks of ``batch``, of each one attempt."""
    last_attempts: dict[tuple[int, int], Attempt] = {}
    for attempt in attempts:
        task = attempt.stage, attempt.partition
        if attempt.batch == batch and (task not in last_attempts or last_attempts[task].task < attempt.task):
            last_attempts[task] = attempt
    out: Figures = {}
    for attempt in last_attempts.values():
        # Spark's thread may be adding to them: copies are taken at once.
        add_all(out, {uid: dict(figures) for uid, figures in dict(attempts[attempt]).items()})
    return out


def _this_attempt() -> Attempt:
    context = TaskContext.get()
    if context is None:
        return Attempt(-1, 0, 0, 0)
    batch = micro_batch()
    return Attempt(-1 if batch is None else batch, context.stageId(), context.partitionId(), context.taskAttemptId())
