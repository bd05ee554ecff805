"""Counters that workers add to and the driver reads: one Spark accumulator per job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Counters", "new_counters"]

Figures = dict[str, dict[str, float]]
"""Operator uid -> figure -> value."""


class Counters:
    """Figures by operator. Picklable; in a worker only :meth:`add` works, on the driver ``value`` too.

    A task that Spark runs again counts again: figures are for people, nothing depends on them.
    """

    def __init__(self, accumulator: Any) -> None:
        self._accumulator = accumulator

    def add(self, uid: str, figures: dict[str, float]) -> None:
        """Adds ``figures`` to those of operator ``uid``."""
        self._accumulator.add({uid: figures})

    @property
    def value(self) -> Figures:
        """The sums so far."""
        value: Figures = self._accumulator.value
        return value


def new_counters(spark: SparkSession) -> Counters:
    """Fresh counters of a job."""
    from pyspark.accumulators import AccumulatorParam

    class FiguresParam(AccumulatorParam[Figures]):  # type: ignore[misc]
        def zero(self, value: Figures) -> Figures:
            return {}

        def addInPlace(self, value1: Figures, value2: Figures) -> Figures:  # noqa: N802
            for uid, figures in value2.items():
                mine = value1.setdefault(uid, {})
                for name, amount in figures.items():
                    mine[name] = mine.get(name, 0) + amount
            return value1

    return Counters(spark.sparkContext.accumulator({}, FiguresParam()))
