"""How much of its input a job has processed, and how long the rest will take."""

from __future__ import annotations

import contextlib

from stateplan.common.errors import StateplanError
from stateplan.common.files import local_path
from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.listing import entries_in
from stateplan.connectors.protocol import FileSource, InstantSource, RangeSource
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.metrics.figures import Figures
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint

_SETTLED = 2.0
"""Seconds after which the speed of a job is meaningful."""


@dataclass(frozen=True)
class Forecast:
    """The progress of a job through its input.

    Attributes:
        share: of its input, 0 to 1; what is read and waits for operators with state counts in part.
        seconds: for the rest, at the current speed; None before anything is done.
        bytes: the bytes of the files that are its input; None of other input.
    """

    share: float
    seconds: float | None
    bytes: int | None


class Forecaster:
    """Computes the forecast of a job with bounded input, from sizes of files, numbers of rows or instants.

    Args:
        job: the job.
        spark: what Spark wrote of its checkpoint; None for a job without one.
        first_batch: the first micro-batch of this run.
        instants: how many micro-batches a job on a virtual clock has.
    """

    def __init__(self, job: JobGraph, spark: SparkCheckpoint | None, first_batch: int, instants: int) -> None:
        self._job = job
        self._spark = spark
        self._first_batch = first_batch
        self._instants = instants
        self._total: float | None = None

    def look(self, seconds: float, batches: int, before: Figures, now: Figures) -> Forecast | None:
        """The forecast; None if the total is unknown, and in the first seconds.

        Args:
            seconds: since the first micro-batch began.
            batches: micro-batches committed.
            before: figures of these.
            now: figures of the current micro-batch.
        """
        if seconds < _SETTLED:
            return None
        if self._total is None:
            self._total = 0.0
            with contextlib.suppress(StateplanError, OSError, ValueError):
                self._total = self._to_do()
        if not self._total:
            return None
        figure = "bytes_read" if self._files or self._bytes is not None else "rows_in"
        if self._virtual and self._bytes is None:
            amount_done = float(batches)
        else:
            amount_done = self._sum(figure, before) + self._sum(figure, now) * self._finished_share(before, now)
        share = amount_done / self._total
        if share >= 1:
            return None
        size = int(self._total) if figure == "bytes_read" else None
        return Forecast(share, seconds * (1 - share) / share if share > 0 else None, size)

    @property
    def _virtual(self) -> bool:
        return any(isinstance(s.reader, InstantSource) for s in self._job.sources)

    @property
    def _bytes(self) -> int | None:
        """What a job that begins to read history has to read; None where it is not known, and of other jobs."""
        sizes = [s.reader.bytes_to_read() if isinstance(s.reader, InstantSource) else None for s in self._job.sources]
        return None if self._first_batch or None in sizes else sum(size or 0 for size in sizes) or None

    @property
    def _files(self) -> list[FileSource]:
        return [s.reader for s in self._job.sources if isinstance(s.reader, FileSource)]

    def _to_do(self) -> float:
        """Bytes, rows or instants of the input of this run; 0 if the total is unknown."""
        if not all(s.reader.bounded for s in self._job.sources):
            return 0.0
        if self._bytes is not None:
            return float(self._bytes)
        if self._virtual:
            return float(max(0, self._instants - self._first_batch))
        if self._files:
            if self._first_batch and any(local_path(reader.path) is None for reader in self._files):
                return 0.0
            read: set[str] = set()
            if self._first_batch and self._spark is not None:
                for path in self._spark.files_read(self._first_batch - 1):
                    marker = self._spark.marker(path)
                    read.update([path] if marker is None else _files_in(marker.read_bytes()))
            return float(sum(f.size for reader in self._files for f in reader.files() if f.path not in read))
        ranges = [s.reader for s in self._job.sources if isinstance(s.reader, RangeSource)]
        return 0.0 if self._first_batch else float(sum(reader.total or 0 for reader in ranges))

    def _sum(self, figure: str, figures: Figures) -> float:
        return sum(figures.get(source.uid, {}).get(figure, 0) for source in self._job.sources)

    def _finished_share(self, before: Figures, now: Figures) -> float:
        """How much of the work on the rows read is done, 0 to 1: reading, and the part of the operators with state,
        of whose key groups some have had their turn."""
        operators = self._job.operators
        if not operators:
            return 1.0
        read_share = 1 / (1 + self._job.levels)
        busy = sum(figures.get("busy_ms", 0) for figures in before.values())
        if busy:
            read_share = self._sum("busy_ms", before) / busy
        groups = sum(now.get(spec.uid, {}).get("key_groups", 0) for spec in operators)
        return read_share + (1 - read_share) * min(1.0, groups / (len(operators) * self._job.key_groups))


def _files_in(marker: bytes) -> list[str]:
    """The files of a marker; none if the marker is not for files."""
    return [file.path for file in entries_in(marker)] if marker.startswith(b"{") else []
