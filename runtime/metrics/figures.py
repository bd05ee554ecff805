"""The figures of a micro-batch, which workers count and the driver adds up: what they are called.

Workers import this module, so it imports no library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

Figures = dict[str, dict[str, float]]
"""Operator uid -> name of a figure -> value."""

FIGURES: dict[str, str] = {
    "rows_in": "input rows; `rows_in.<input>.<kind>` by input (from 0) and row kind (`+I`, `-U`, `+U`, `-D`)",
    "rows_out": "output rows; `rows_out.<kind>` by row kind",
    "bytes_read": "source: bytes of the files read",
    "bytes_in": "bytes of Arrow blobs received through a shuffle",
    "bytes_out": "bytes of Arrow blobs sent to operators and sinks",
    "key_groups": "key groups with input",
    "busy_ms": "task time in the operator, over all phases; concurrent tasks add up",
    "read_ms": "source: time to read and decode files",
    "decode_ms": "time to decode the blobs of the shuffle",
    "lookup_ms": "time to look up state, including reads from the state store",
    "kernel_ms": "time of the operator's computation",
    "write_ms": "time to write state: the new run, merges and the list of runs",
    "deliver_ms": "time of fused downstream filters and projections, splitting by key, and encoding",
    "sink_ms": "sink: time to format and write rows",
    "state_bytes_written": "bytes of runs written to the state store, including merges; the commit uploads them",
    "state_rows_merged": "rows read by merges",
    "expired_rows": "expired rows removed from state; `expired_rows.<state>` by state entry",
    "needed_rows": "expired rows that later rows needed, with an audit of state; `needed_rows.<state>` by state entry",
    "late_rows": "rows dropped because they were behind the watermark",
    "retractions_missed": "retractions whose row was not found, because it had expired",
    "cache_hits": "runs of state found in the cache of the worker",
    "cache_misses": "runs of state read from the state store",
    "cache_unwritten": "runs of state that could not be cached on local disk, because it is full or not writable",
}
"""The figures that are summed up over key groups, tasks and micro-batches: name to what it means."""

SPAN_BEGIN, SPAN_END = "span_begin", "span_end"
"""When an operator ran in a micro-batch, ms since 1970; the begin is negative, so that of the smallest the largest is
taken. Only there for traces: see :mod:`runtime.metrics.timing`."""

LATEST = frozenset({"watermark_ms", "now_ms", SPAN_BEGIN, SPAN_END})
"""Figures of which the largest counts."""

PENDING = "waiting"
"""A figure that says how things stand after a micro-batch: what waits for the clock over bounded input. Each key group
of such an operator reports it in each micro-batch with input."""

PART_WATERMARK = "watermark_ms."
"""What the names of figures begin with that are watermarks of parts of an aligned source; then comes the part."""


class TaskCounters(Protocol):
    """What the tasks of a micro-batch count with."""

    def add(self, uid: str, figures: dict[str, float]) -> None:
        """Adds figures to those of an operator."""

    def so_far(self, uid: str, figures: dict[str, float]) -> None:
        """Tells what this task is going to add for an operator when it has ended, as far as it is known."""


class Uncounted:
    """Counters of tasks that are not reported."""

    def add(self, uid: str, figures: dict[str, float]) -> None:
        """Counts nothing."""

    def so_far(self, uid: str, figures: dict[str, float]) -> None:
        """Tells nobody."""


UNCOUNTED = Uncounted()


def split_name(name: str) -> tuple[str, tuple[str, ...]]:
    """``rows_in.0.+I`` as ``("rows_in", ("0", "+I"))``."""
    first, *rest = name.split(".")
    return first, tuple(rest)


def add_figures(into: dict[str, float], more: Mapping[str, float]) -> None:
    """Adds ``more``, figure by figure."""
    for name, amount in more.items():
        if name in LATEST or name.startswith(PART_WATERMARK):
            into[name] = max(into.get(name, amount), amount)
        else:
            into[name] = into.get(name, 0) + amount


def take_parts(operators: Figures) -> dict[str, dict[str, int]]:
    """Takes the watermarks of parts out of the figures of sources: source uid -> part -> ms since 1970."""
    out: dict[str, dict[str, int]] = {}
    for uid, figures in operators.items():
        for name in [name for name in figures if name.startswith(PART_WATERMARK)]:
            out.setdefault(uid, {})[name.removeprefix(PART_WATERMARK)] = int(figures.pop(name))
    return out


def add_all(into: Figures, more: Mapping[str, Mapping[str, float]]) -> Figures:
    """Adds the figures of all operators of ``more``; gives ``into``."""
    for uid, figures in more.items():
        add_figures(into.setdefault(uid, {}), figures)
    return into
