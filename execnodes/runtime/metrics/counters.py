"""Figures that workers add and the driver reads, exact for every micro-batch: one Spark accumulator per job.

Spark adds up what successful tasks bring, but a task may succeed more than once: when its output is lost, and when
it was started twice because it was slow. So figures travel under the attempt that made them, and of every task one
attempt counts. What an unfinished attempt at a micro-batch left is forgotten when the micro-batch begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

from stateplan.execnodes.runtime.metrics.figures import Figures, add_all
from stateplan.execnodes.runtime.spark.tasks import micro_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Attempt(NamedTuple):
    """An attempt at a task: ``batch`` is the micro-batch, -1 outside of one; ``task`` is unique among all attempts."""

    batch: int
    stage: int
    partition: int
    task: int


Added = dict[Attempt, Figures]


class _FiguresParam(AccumulatorParam[Added]):  # type: ignore[misc]
    def zero(self, value: Added) -> Added:
        return {}

    def addInPlace(self, value1: Added, value2: Added) -> Added:  # noqa: N802
        for attempt, operators in value2.items():
            add_all(value1.setdefault(attempt, {}), operators)
        return value1


class Counting:
    """Adds figures to those of an operator: what workers are given. Picklable."""

    def __init__(self, accumulator: Any) -> None:
        self._accumulator = accumulator

    def __call__(self, uid: str, figures: dict[str, float]) -> None:
        self._accumulator.add({_this_attempt(): {uid: figures}})


class Counters:
    """The driver's side.

    Attributes:
        add: what workers call.
        total: the sums over all micro-batches that have ended.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._accumulator: Any = spark.sparkContext.accumulator({}, _FiguresParam())
        self.add = Counting(self._accumulator)
        self.total: Figures = {}

    def begin(self) -> None:
        """A micro-batch begins: what came before is no longer of interest."""
        self._accumulator.value = {}

    def current(self, batch: int) -> Figures:
        """The figures of micro-batch ``batch``, as far as its tasks have ended."""
        return one_attempt(dict(self._accumulator.value), batch)

    def end(self, batch: int) -> Figures:
        """The figures of a micro-batch whose tasks have all ended; they go into ``total``."""
        figures = self.current(batch)
        add_all(self.total, figures)
        self._accumulator.value = {}
        return figures


def one_attempt(added: Added, batch: int) -> Figures:
    """The sums over the tasks of ``batch``, of each one attempt."""
    chosen: dict[tuple[int, int], Attempt] = {}
    for attempt in added:
        task = attempt.stage, attempt.partition
        if attempt.batch == batch and (task not in chosen or chosen[task].task < attempt.task):
            chosen[task] = attempt
    out: Figures = {}
    for attempt in chosen.values():
        # Spark's thread may be adding to them: copies are taken at once.
        add_all(out, {uid: dict(figures) for uid, figures in dict(added[attempt]).items()})
    return out


def _this_attempt() -> Attempt:
    context = TaskContext.get()
    if context is None:
        return Attempt(-1, 0, 0, 0)
    batch = micro_batch()
    return Attempt(-1 if batch is None else batch, context.stageId(), context.partitionId(), context.taskAttemptId())
