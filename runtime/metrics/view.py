"""A look at a job's figures: what happens now, and the sums since its run began. Loads no engine."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import field

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath
from stateplan.runtime.checkpoint.locks import Holder, running_writer
from stateplan.runtime.metrics.figures import Figures, add_all, split_name
from stateplan.runtime.metrics.log import read_job, read_metrics, recent_metrics
from stateplan.runtime.metrics.records import BatchMetrics, JobInfo, OperatorInfo, StateSize
from stateplan.runtime.spark.checkpoint_files import INSTANTS, SparkCheckpoint

WINDOW_MS = 10_000
"""Rates are of the micro-batches of so long a time, or of the last one if that took longer."""


@dataclass(frozen=True)
class OperatorView:
    """What an operator does now.

    Attributes:
        info: which one it is.
        rows_in, rows_out: per second; of a source ``rows_in`` is what it reads.
        busy: the share of the tasks' time that it takes, 0 to 1.
        state: of an operator with state; None before the first micro-batch.
        totals: its figures since the run began.
        watermark: where event time is in it, ms since 1970; None if nothing uses it.
        inputs: rows per second by input; of a source none.
    """

    info: OperatorInfo
    rows_in: float
    rows_out: float
    busy: float
    state: StateSize | None
    totals: dict[str, float]
    watermark: int | None
    inputs: tuple[float, ...] = ()

    @property
    def cache_hits(self) -> float | None:
        """The share of runs of state that were in the worker's cache; None if none was read."""
        hits, misses = self.totals.get("cache_hits", 0), self.totals.get("cache_misses", 0)
        return hits / (hits + misses) if hits + misses else None


@dataclass(frozen=True)
class JobView:
    """A job at one moment.

    Attributes:
        info: what it is.
        now: ms since 1970.
        writer: the process that runs it; None if it is stopped.
        recent: its last micro-batches, oldest first.
        totals: figures since its run began.
        batches: micro-batches committed since then.
        in_hand: the micro-batch that has begun and is not committed, and since when (ms since 1970).
        backlog: micro-batches that the input is still good for; None when that is not known.
        thread: the id of the thread of this process that runs its micro-batches; None if there is none.
    """

    info: JobInfo
    now: int
    writer: Holder | None = None
    recent: tuple[BatchMetrics, ...] = ()
    totals: Figures = field(default_factory=dict)
    batches: int = 0
    in_hand: tuple[int, int] | None = None
    backlog: int | None = None
    thread: int | None = None

    @property
    def last(self) -> BatchMetrics | None:
        """The last micro-batch that was committed."""
        return self.recent[-1] if self.recent else None

    @property
    def window(self) -> tuple[tuple[BatchMetrics, ...], float]:
        """The micro-batches that rates are made of, and how many seconds they are about: up to this moment while the
        job runs, else to the end of the last one."""
        last = self.last
        if last is None:
            return (), 0.0
        end_of_last = last.started + int(last.ms)
        end = max(self.now, end_of_last) if self.writer else end_of_last
        records = tuple(r for r in self.recent if r.batches == 1 and r.started + r.ms > end - WINDOW_MS)
        start = records[0].started if records else end - WINDOW_MS
        return records, max(end - start, 1) / 1000

    @property
    def load(self) -> float:
        """The share of the time of :attr:`window` in which a micro-batch was in hand, 0 to 1. Near 1, the job only just
        keeps up with its input, or does not."""
        records, seconds = self.window
        busy = sum(record.ms for record in records)
        if self.in_hand is not None and self.writer is not None:
            busy += max(0, self.now - self.in_hand[1])
        return min(1.0, busy / 1000 / (seconds or WINDOW_MS / 1000))

    def operators(self) -> list[OperatorView]:
        """Sources, operators with state and sinks, in the order of the plan. While a micro-batch runs for longer than
        the window, their rates are those since the start of the last one: the job is not idle."""
        records, seconds = self.window
        last = self.last
        if not records and self.writer and self.in_hand is not None and last is not None and last.batches == 1:
            records, seconds = (last,), max(self.now - last.started, 1) / 1000
        sums: Figures = {}
        for record in records:
            add_all(sums, record.operators)
        out = []
        for info in self.info.operators:
            now = sums.get(info.uid, {})
            rate = [now.get(name, 0) / seconds if seconds else 0.0 for name in ("rows_in", "rows_out", "busy_ms")]
            out.append(
                OperatorView(
                    info,
                    rate[0],
                    rate[1],
                    rate[2] / 1000 / self.info.parallelism,
                    last.state.get(info.uid) if last else None,
                    self.totals.get(info.uid, {}),
                    last.watermarks.get(info.uid) if last else None,
                    _by_input(now, seconds) if info.kind != "source" else (),
                )
            )
        return out


def _by_input(figures: Mapping[str, float], seconds: float) -> tuple[float, ...]:
    """Rows per second by input, of the sum of ``rows_in.<input>.<kind>``."""
    sums: dict[int, float] = {}
    for name, rows in figures.items():
        figure, parts = split_name(name)
        if figure == "rows_in" and parts:
            sums[int(parts[0])] = sums.get(int(parts[0]), 0.0) + rows
    return tuple(sums.get(i, 0.0) / seconds for i in range(max(sums, default=-1) + 1))


class Watcher:
    """Looks at a checkpoint again and again, reading what is new.

    Args:
        checkpoint: the folder.
    """

    def __init__(self, checkpoint: AnyPath) -> None:
        self._checkpoint = checkpoint
        self._info: JobInfo | None = None
        self._totals: Figures = {}
        self._batches = 0
        self._upto = -1
        self._recent: tuple[BatchMetrics, ...] = ()

    def look(self) -> JobView | None:
        """The job as it is now; None if no run has left anything about it.

        Raises:
            CheckpointError: CKPT002, the folder is not a checkpoint; CKPT001, it cannot be read.
        """
        info = read_job(self._checkpoint)
        if info is None:
            return None
        if info != self._info:
            self._info, self._totals, self._batches, self._upto = info, {}, 0, info.first_batch - 1
            records = read_metrics(self._checkpoint)
        else:
            records = recent_metrics(self._checkpoint)
        for record in records:
            if record.batch > self._upto and record.batch - record.batches >= info.first_batch - 1:
                self._upto = record.batch
                self._batches += record.batches
                add_all(self._totals, record.operators)
        writer, spark = running_writer(self._checkpoint), SparkCheckpoint.of(self._checkpoint)
        return JobView(
            info,
            time.time_ns() // 1_000_000,
            writer,
            tuple(records[-1000:]),
            add_all({}, self._totals),
            self._batches,
            _in_hand(spark),
            backlog(self._checkpoint),
        )


def _in_hand(spark: SparkCheckpoint) -> tuple[int, int] | None:
    """The micro-batch that Spark has begun and not committed, and when it began."""
    with contextlib.suppress(OSError):
        last_planned = spark.last_planned
        return (last_planned, int(spark.planned_at(last_planned) * 1000)) if last_planned > spark.last_done else None
    return None


def backlog(checkpoint: AnyPath) -> int | None:
    """Instants of replay tables that have not been played; None without replay tables."""
    spark = SparkCheckpoint.of(checkpoint)
    with contextlib.suppress(OSError, ValueError):
        instants = sum(not p.name.startswith(".") for p in (checkpoint / "splits" / INSTANTS).iterdir())
        last_done = spark.last_done
        if last_done < 0:
            return instants
        offsets = spark.offsets(last_done)
        last_played = max((offsets.log_offset(i) for i in range(len(offsets.sources))), default=-1)
        return max(0, instants - last_played - 1)
    return None
