"""The figures of a job of this process."""

from __future__ import annotations

import threading

from stateplan.runtime.metrics.figures import Figures, add_all, add_figures
from stateplan.runtime.metrics.timing import stamp


class LocalCounters:
    """Adds up figures; :class:`runtime.metrics.counters.SparkCounters` does so for Spark.

    Args:
        is_timed: whether figures say when they were made, for traces.
    """

    def __init__(self, is_timed: bool = False) -> None:
        self.is_timed = is_timed
        self._current: Figures = {}
        self._lock = threading.Lock()

    def add(self, uid: str, figures: dict[str, float]) -> None:
        """Adds figures to those of an operator."""
        if self.is_timed:
            stamp(figures)
        with self._lock:
            add_figures(self._current.setdefault(uid, {}), figures)

    def so_far(self, uid: str, figures: dict[str, float]) -> None:
        """Nothing: nobody looks at a task that runs."""

    def begin(self) -> None:
        """A micro-batch begins."""
        with self._lock:
            self._current = {}

    def current(self, batch: int) -> Figures:
        """The figures of the micro-batch in hand."""
        with self._lock:
            return add_all({}, self._current)

    def end(self, batch: int) -> Figures:
        """The figures of the micro-batch in hand, which has ended."""
        with self._lock:
            figures, self._current = self._current, {}
        return figures

    def close(self) -> None:
        """The job has ended."""
