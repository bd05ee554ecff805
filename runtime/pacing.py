"""Micro-batches that take about as long as a job asks for: ``execution.micro-batch.target-latency``.

A micro-batch takes a fixed time, and some time for each of its rows. Both are estimated from the last micro-batches by
least squares, in which each counts less than the one after it. While there is a backlog, each table may then give as
many rows as fit into the target.

Source: the aim of Spark Streaming's ``spark.streaming.backpressure.enabled``, whose ``PIDRateEstimator`` has no fixed
time, which is most of the time of a small micro-batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from stateplan.runtime.metrics.records import BatchMetrics

TARGET = "execution.micro-batch.target-latency"

FIRST_ROWS = 20_000
"""Rows of each table in a first micro-batch, of which nothing is known."""

LEAST_ROWS = 100
_STEP = 4.0
"""By how much the next micro-batch may be larger or smaller at most."""

_WEIGHTS = tuple(0.8**age for age in range(20))
"""How much a micro-batch counts, by how many came after it."""

_LEAST_SPREAD = 0.05
"""How far the sizes of micro-batches have to vary, as a share of their mean, to tell fixed time from that of rows."""


_ALIKE = 0.2
"""How far the sizes of micro-batches differ, as a share, that take about as long."""

_SURPRISE = 1.5
"""By what factor a micro-batch may differ from what earlier ones let expect, for these to count further."""


class BatchTimes:
    """How long micro-batches take by their rows.

    Attributes:
        per_row: ms that each row takes; 0 while that is not known.
        fixed_ms: ms that a micro-batch takes besides.
    """

    def __init__(self) -> None:
        self.per_row = self.fixed_ms = 0.0
        self._recent: deque[tuple[int, float]] = deque(maxlen=len(_WEIGHTS))

    def add(self, rows: int, ms: float) -> None:
        """A micro-batch of so many rows, at least one, has taken so long."""
        expected = self.fixed_ms + self.per_row * rows
        can_tell = self.fixed_ms or any(abs(other - rows) < _ALIKE * rows for other, _ in self._recent)
        if can_tell and not expected / _SURPRISE < ms < expected * _SURPRISE:
            self._recent.clear()
            self.per_row, self.fixed_ms = self.per_row * ms / expected, self.fixed_ms * ms / expected
        self._recent.appendleft((rows, ms))
        weighted = list(zip(_WEIGHTS, self._recent, strict=False))
        weight_sum = sum(weight for weight, _ in weighted)
        mean_rows = sum(weight * rows for weight, (rows, _) in weighted) / weight_sum
        mean_ms = sum(weight * ms for weight, (_, ms) in weighted) / weight_sum
        variance = sum(weight * (rows - mean_rows) ** 2 for weight, (rows, _) in weighted) / weight_sum
        if variance > (_LEAST_SPREAD * mean_rows) ** 2:
            both = sum(weight * (rows - mean_rows) * (ms - mean_ms) for weight, (rows, ms) in weighted) / weight_sum
            slope = both / variance if both > 0 else mean_ms / mean_rows
            self.fixed_ms = max(0.0, mean_ms - slope * mean_rows)
        elif mean_ms <= self.fixed_ms:
            self.fixed_ms = mean_ms / 2
        self.per_row = (mean_ms - self.fixed_ms) / mean_rows

    def rows_in(self, ms: float) -> int:
        """Rows of a micro-batch that takes ``ms``. Where the fixed time is more than half of that, as many rows as take
        the fixed time once more: with fewer, a job would spend its time on the micro-batches themselves."""
        return int(max(ms - self.fixed_ms, self.fixed_ms) / self.per_row)


class Pacer:
    """Decides how many rows of each table a micro-batch may read.

    Attributes:
        rows: that number.

    Args:
        target: ms that a micro-batch should take.
        sources: the uids of the sources.
    """

    def __init__(self, target: int, sources: Collection[str]) -> None:
        self._target = target
        self._sources = sources
        self._times = BatchTimes()
        self._overhead = 0.0
        self._last: BatchMetrics | None = None
        self.rows = FIRST_ROWS

    def recall(self, records: Iterable[BatchMetrics]) -> None:
        """Takes in what an earlier run has recorded, oldest first."""
        for record in records:
            self.look(record)

    def look(self, record: BatchMetrics) -> int:
        """Takes in a micro-batch; gives :attr:`rows`."""
        # Of a micro-batch that has just ended, Spark's own phases are not known yet.
        for batch in (self._last, record):
            if batch is not None and (trigger_ms := batch.spark.get("triggerExecution")):
                self._overhead = max(0.0, (trigger_ms - batch.ms) / batch.batches)
        self._last = record
        read = {uid: record.operators.get(uid, {}).get("rows_in", 0) / record.batches for uid in self._sources}
        rows = int(max(read.values(), default=0))
        if not rows:
            return self.rows
        ms = record.ms / record.batches + self._overhead
        self._times.add(rows, ms)
        if 2 * rows > self.rows or ms > self._target:
            rows_for_target = self._times.rows_in(self._target)
            self.rows = max(LEAST_ROWS, int(min(max(rows_for_target, rows / _STEP), _STEP * max(rows, self.rows))))
        return self.rows
