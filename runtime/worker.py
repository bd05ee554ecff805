"""What runs inside Spark's Python workers: a micro-batch of one key group of a stateful operator, over blobs."""

from __future__ import annotations

import functools
import time
import traceback
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import polars as pl

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.roots import hold
from stateplan.runtime.delivery import Clock, count_rows, deliver, marks_of, send_marks, side_blobs
from stateplan.runtime.exchange import Blob, Touch
from stateplan.runtime.hashing import slot_label
from stateplan.runtime.jobgraph import JobGraph, OperatorSpec
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark
from stateplan.runtime.loaded_state import inputs_of, load_state
from stateplan.runtime.metrics.ages import age_figures
from stateplan.runtime.metrics.figures import PENDING, UNCOUNTED, TaskCounters
from stateplan.runtime.state.keyed_state import KeyedState, RunStore, StepStats
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.watermarks import Mark, PartWatermark

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class MicroBatch:
    """The micro-batch that a task is part of.

    Attributes:
        graph: the job, with the TTLs and watermarks of this micro-batch.
        number: its id; None if that is not known.
        touches: whether state is dropped in it.
        counters: what its tasks count with.
    """

    graph: JobGraph
    number: int | None = None
    touches: bool = False
    counters: TaskCounters = UNCOUNTED


class WorkerError(RuntimeError):
    """Carries a StateplanError to the driver inside Spark's exception text."""


def with_coded_errors(function: Callable[P, Iterator[T]], operator: str | None = None) -> Callable[P, Iterator[T]]:
    """Makes a generator raise stateplan's errors in the form that the driver finds again; where they name no operator,
    they name ``operator``."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        try:
            yield from function(*args, **kwargs)
        except StateplanError as error:
            raise WorkerError((error.within(operator) if operator else error).encoded()) from None
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            detail = "".join(traceback.format_exception_only(error)).strip()
            raise WorkerError(f"{detail}\n{traceback.format_exc()}") from None

    return run


@dataclass(frozen=True)
class _Step:
    """A micro-batch of one key group of an operator.

    Attributes:
        number: the number of the operator.
        group: the key group.
        now: the time of the micro-batch, ms.
        watermark: how far event time has advanced.
    """

    number: int
    group: int
    now: int
    watermark: Watermark

    @property
    def seq(self) -> str:
        """What orders its blobs among those of others."""
        return f"{self.number:04d}\0{self.group:06d}"


def run_operator(
    batch: MicroBatch, operator: int, group: int, blobs: list[Blob], store: RunStore, cache: RunCache
) -> Iterator[Blob]:
    """One micro-batch of one key group of a stateful operator."""
    hold(batch.graph.roots)
    spec = batch.graph.operators[operator]
    began = time.perf_counter()
    blobs.sort(key=lambda b: b.seq)
    now = max(b.now for b in blobs)
    inputs = inputs_of(spec, blobs)
    figures: dict[str, float] = {"decode_ms": 1000 * (time.perf_counter() - began)}
    place = f"{spec.name}, key group {group}"
    audited = None if spec.audit is None else spec.audit.audit.keys_in(group, batch.graph.key_groups)
    state = KeyedState(store, cache, spec.kernel.tables, place, spec.version, spec.former_columns, audited)
    if spec.loading is not None:
        load_state(spec, spec.loading, state, blobs)
        count_all(batch, spec.uid, figures | _state_figures(state.stats), Clock(), now, NO_WATERMARK)
        return
    step = _Step(operator, group, now, _advance(spec, state, blobs, now))
    output = _step_state(spec, state, inputs, step, any(isinstance(b.content, Touch) for b in blobs))
    clock = Clock()
    delivered_at = time.perf_counter()
    out = list(deliver(batch.graph, spec.pipeline, output, now, step.seq, clock))
    figures["deliver_ms"] = 1000 * (time.perf_counter() - delivered_at)
    yield from out
    yield from _late_blobs(batch.graph, spec, state, step, clock)
    if spec.audit is not None and state.misses:
        records = spec.audit.records(state.misses, inputs)
        yield from side_blobs(batch.graph, spec.audit.sink, records, now, step.seq, clock)
    if spec.event_time:
        yield from send_marks(batch.graph, _passed_on(spec, group, step.watermark, clock), now)
    figures["bytes_in"] = sum(b.size for b in blobs)
    figures["bytes_out"] = sum(b.size for b in out)
    figures |= _row_figures(inputs, output) | _state_figures(state.stats)
    if batch.graph.bounded and spec.kernel.awaits is not None:
        figures[PENDING] = state.count_pending(spec.kernel, now, spec.ttl)
    count_all(batch, spec.uid, figures, clock, now, step.watermark.now)


def _advance(spec: OperatorSpec, state: KeyedState, blobs: list[Blob], now: int) -> Watermark:
    """How far event time has advanced with the watermarks that blobs bring."""
    if not spec.event_time:
        return Watermark()
    marks = ((blob.input, blob.content) for blob in blobs if isinstance(blob.content, PartWatermark))
    watermark = state.time.advance(marks, spec.channels, now, spec.idle_timeout, spec.idle_timeouts)
    state.touch_time()
    return watermark


def _step_state(
    spec: OperatorSpec, state: KeyedState, inputs: list[pl.DataFrame], step: _Step, touched_keys: bool
) -> pl.DataFrame:
    """The output of an operator that takes a step over its inputs; without rows and event time, it has none to take."""
    if spec.kernel.by_event_time or any(frame.height for frame in inputs):
        time_of_kernel = Watermark(NO_WATERMARK, step.now) if spec.kernel.by_clock else step.watermark
        return state.step(spec.kernel, inputs, step.now, spec.ttl, time_of_kernel, spec.fields)
    if touched_keys:
        state.sweep(step.now, spec.ttl)
    else:
        state.flush()
    return pl.DataFrame()


def _late_blobs(graph: JobGraph, spec: OperatorSpec, state: KeyedState, step: _Step, clock: Clock) -> Iterator[Blob]:
    """The rows that came too late, for the sinks that ask for them."""
    for late, rows in zip(spec.late, state.late_rows, strict=False):
        if late is not None and rows.height:
            late_rows = late.of(rows, step.watermark.before)
            yield from side_blobs(graph, late.sink, late_rows, step.now, f"{step.seq}\0{late.input}", clock)


def step_operator(
    batch: MicroBatch, operator: int, group: int, blobs: list[Blob], store: RunStore, cache: RunCache
) -> Iterator[Blob]:
    """:func:`run_operator` whose errors find their way to the driver, and say for the log where they are from."""
    name = batch.graph.operators[operator].name
    try:
        yield from with_coded_errors(run_operator, name)(batch, operator, group, blobs, store, cache)
    except Exception as error:
        error.add_note(f"in {name}, key group {group}")
        raise


def _row_figures(inputs: list[pl.DataFrame], output: pl.DataFrame) -> dict[str, float]:
    """The rows that went into a step, and those that came out of it, in figures."""
    figures: dict[str, float] = {}
    for number, frame in enumerate(inputs):
        count_rows(figures, f"rows_in.{number}", frame)
    figures["rows_in"] = sum(frame.height for frame in inputs)
    figures["rows_out"] = output.height
    figures["key_groups"] = 1 if figures["rows_in"] else 0
    count_rows(figures, "rows_out", output)
    return figures


def _state_figures(stats: StepStats) -> dict[str, float]:
    """What a step did to the state, in figures."""
    figures: dict[str, float] = {
        "lookup_ms": stats.lookup_ms,
        "kernel_ms": stats.kernel_ms,
        "write_ms": stats.write_ms,
        "state_bytes_written": stats.bytes_written,
        "state_bytes": stats.bytes_written - stats.bytes_dropped,
        "state_rows": stats.rows_change,
        "state_rows_merged": stats.merged_rows,
        "expired_rows": sum(stats.expired_rows.values()),
        "needed_rows": sum(stats.needed_rows.values()),
        "retractions_missed": stats.missed,
        "late_rows": stats.late,
        "cache_hits": stats.loads - stats.cache_misses,
        "cache_misses": stats.cache_misses,
        "cache_unwritten": stats.cache_unwritten,
    }
    for slot, rows in stats.expired_rows.items():
        figures[f"expired_rows.{slot}"] = rows
    for slot, rows in stats.needed_rows.items():
        figures[f"needed_rows.{slot}"] = rows
    for (slot, use), counts in stats.ages.items():
        figures |= age_figures(slot, use, counts)
    for slot, (rows, size, runs) in stats.growth.items():
        figures |= {f"state_rows.{slot}": rows, f"state_bytes.{slot}": size, f"state_runs.{slot}": runs}
    return figures


def count_all(batch: MicroBatch, uid: str, figures: dict[str, float], clock: Clock, now: int, watermark: int) -> None:
    """Counts the figures of a source or an operator, and those of the sinks that got rows from it."""
    count, graph = batch.counters.add, batch.graph
    figures["busy_ms"] = sum(ms for name, ms in figures.items() if name.endswith("_ms") and "." not in name)
    figures["now_ms"] = now
    if watermark != NO_WATERMARK:
        figures["watermark_ms"] = watermark
    count(uid, figures)
    for operator, late in clock.late.items():
        count(graph.operators[operator].uid, {"late_rows": late})
    for sink, counts in clock.delivered.items():
        count(graph.sinks[sink].uid, {"rows_in": sum(counts.values()), **counts})


def _passed_on(spec: OperatorSpec, group: int, watermark: Watermark, clock: Clock) -> dict[Mark, int]:
    """The watermarks that a key group sends on: those made behind the operator, and, as one group for all, its own."""
    marks = dict(clock.marks)
    if group == 0 and watermark.now > NO_WATERMARK:
        value = watermark.now if watermark.now == END_OF_TIME else watermark.now - spec.kernel.watermark_delay
        for mark in marks_of(spec.pipeline):
            marks.setdefault(mark, value)
    return marks


def unslot(graph: JobGraph) -> dict[int, tuple[int, int]]:
    """Spark grouping key -> (operator, key group), for every slot of every operator; of the dropped range i, the
    operator is -1 - i."""
    ranges = [(i, graph.slot(i, 0)) for i in range(len(graph.operators))]
    ranges += [(-1 - i, d.first) for i, d in enumerate(graph.unused_ranges)]
    return {slot_label(first + g): (number, g) for number, first in ranges for g in range(graph.key_groups)}
