"""How fast the job of a checkpoint has worked, by the metrics that it has left: evidence for how long work like its own
takes. The start of Spark, and of micro-batches, does not count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from stateplan.common.lazy_dataclass import dataclass
from stateplan.evolution.history import Piece
from stateplan.runtime.checkpoint.slots import Layout
from stateplan.runtime.inspect.inspection import Snapshot
from stateplan.runtime.jobgraph import JobGraph, OperatorSpec, Pipeline, ToOperator, targets
from stateplan.runtime.metrics.log import read_job, read_metrics
from stateplan.runtime.metrics.records import BatchMetrics


@dataclass(frozen=True)
class Rates:
    """What the metrics of a job say. Every method returns None where they do not say it.

    Attributes:
        records: the records of its micro-batches, oldest first.
        layout: the layout of its checkpoint.
        parallelism: the tasks that ran at the same time.
    """

    records: Sequence[BatchMetrics]
    layout: Layout
    parallelism: int

    @staticmethod
    def of(snapshot: Snapshot) -> Rates:
        """Of the job of a checkpoint."""
        job = read_job(snapshot.folder)
        return Rates(read_metrics(snapshot.folder), snapshot.layout, 1 if job is None else job.parallelism)

    def writing_time(self, node: int, size: int) -> float | None:
        """Seconds for the state of an operator of the job, of so many bytes."""
        uids = [entry.uid for entry in self.layout.operators if entry.node == node]
        return self._seconds(uids, "write_ms", "state_bytes_written", size)

    def rows(self, node: int, pieces: Sequence[Piece], is_whole: bool = True) -> float | None:
        """How many rows these parts of what a source of the job has read have; ``is_whole`` if they are all parts."""
        uid, size = self._source(node), sum(piece.size for piece in pieces)
        if size:
            per_byte = self._ratio([uid], "rows_in", "bytes_read")
            return None if per_byte is None else size * per_byte
        if not is_whole or not self.records or self.records[0].batch + 1 > self.records[0].batches:
            return None  # the records do not begin with the job
        return sum(record.operators.get(uid, {}).get("rows_in", 0) for record in self.records)

    def reading_time(self, node: int, rows: float | None) -> float | None:
        """Seconds for so many rows of a source of the job."""
        return self._seconds([self._source(node)], "busy_ms", "rows_in", rows)

    def running_time(self, specs: Collection[OperatorSpec], rows: float | None) -> float | None:
        """Seconds for so many rows through operators: as long as through those of the job of the same kinds."""
        total = 0.0
        for spec in specs:
            uids = [entry.uid for entry in self.layout.operators if _kind(entry.name) == _kind(spec.name)]
            seconds = self._seconds(uids, "busy_ms", "rows_in", rows)
            if seconds is None:
                return None
            total += seconds
        return total

    def _source(self, node: int) -> str:
        return next((source.uid for source in self.layout.sources if source.node == node), "")

    def _seconds(self, uids: Collection[str], time: str, amount: str, number: float | None) -> float | None:
        if not number:
            return number
        ms = self._ratio(uids, time, amount)
        return None if ms is None else number * ms / 1000 / max(1, self.parallelism)

    def _ratio(self, uids: Collection[str], name: str, amount: str) -> float | None:
        """A figure for each unit of another one, in the micro-batch with most of that: what each micro-batch and key
        group costs, whatever its rows, hardly counts there."""
        figures = [
            (each[amount] / record.batches, each.get(name, 0) / each[amount])
            for record in self.records
            for uid in uids
            if (each := record.operators.get(uid, {})).get(amount)
        ]
        return max(figures)[1] if figures else None


def reached_operators(part: JobGraph) -> list[OperatorSpec]:
    """The operators of a job that rows of its sources reach."""
    numbers: set[int] = set()

    def walk(pipelines: Iterator[Pipeline]) -> None:
        for pipeline in pipelines:
            for target in targets(pipeline):
                if isinstance(target, ToOperator) and target.operator not in numbers:
                    numbers.add(target.operator)
                    walk(iter([part.operators[target.operator].pipeline]))

    walk(source.pipeline for source in part.sources)
    return [part.operators[number] for number in sorted(numbers)]


def _kind(name: str) -> str:
    """``join`` of ``join[4]``."""
    return name.partition("[")[0]
