"""How the states of a checkpoint were used, from its records."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.metrics.ages import Ages, Histogram, add_ages
from stateplan.runtime.metrics.records import BatchMetrics


@dataclass(frozen=True)
class StateUses:
    """Uses of rows, over all records.

    Attributes:
        ages: the histograms.
        start, end: the clocks of the first and the last micro-batch, ms.
        first: the id of the first one.
    """

    ages: Ages
    start: int
    end: int
    first: int

    @staticmethod
    def of(records: Sequence[BatchMetrics]) -> StateUses:
        """The uses in all records."""
        ages: Ages = {}
        for record in records:
            add_ages(ages, record.ages)
        times = [record.time for record in records]
        first = records[0].batch - records[0].batches + 1 if records else 0
        return StateUses(ages, min(times, default=0), max(times, default=0), first)

    def uses(self, uid: str, index: int) -> dict[str, Histogram]:
        """Of one state, by what its rows are used for."""
        prefix = f"{index}."
        histograms = self.ages.get(uid, {})
        return {key.removeprefix(prefix): h for key, h in histograms.items() if key.startswith(prefix) and h.total}

    def all_uses(self, uid: str, index: int) -> Histogram:
        """Of one state, for whatever its rows are used."""
        out = Histogram()
        for histogram in self.uses(uid, index).values():
            out.add(histogram.counts)
        return out

    @property
    def span(self) -> int:
        """How long uses were observed, ms."""
        return self.end - self.start
