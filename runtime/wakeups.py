"""Blobs without rows: operators look at their state, drop what nobody needs, and find what has become due."""

from __future__ import annotations

from collections.abc import Iterator

from stateplan.runtime.exchange import Blob, Touch
from stateplan.runtime.hashing import slot_label
from stateplan.runtime.jobgraph import JobGraph


def touches(graph: JobGraph, now: int) -> Iterator[Blob]:
    """What has every slot look at its state whose state is to be dropped."""
    for unused_range in graph.unused_ranges:
        for group in range(graph.key_groups):
            yield Blob(slot_label(unused_range.first + group), 0, "", now, Touch())


SWEPT_WITHIN = 256
"""A key group that gets no rows looks at its state once in at most this number of micro-batches."""


def sweeps(graph: JobGraph, batch: int, now: int, level: int = 1) -> Iterator[Blob]:
    """What has a few key groups drop state that has expired, in turn: mostly one, whatever they get besides.

    Args:
        batch: the id of the micro-batch; says whose turn it is.
        level: the first level that these blobs come to.
    """
    slots = [
        (spec.level, graph.slot(i, group))
        for i, spec in enumerate(graph.operators)
        if any(config.ttl for config in spec.ttl) and (not spec.kernel.by_event_time or spec.kernel.by_clock)
        for group in range(graph.key_groups)
    ]
    turns = -(-len(slots) // SWEPT_WITHIN)
    for turn in range(batch * turns, (batch + 1) * turns):
        at, slot = slots[turn % len(slots)]
        if at >= level:
            yield Blob(slot_label(slot), 0, "", now, Touch())


def alarms(graph: JobGraph, now: int, level: int = 1) -> Iterator[Blob]:
    """What has operators by processing time look at what is due, in every key group, and, where the input ends, tell
    what is not due yet.

    Args:
        now: the micro-batch's time, ms.
        level: the first level that these blobs come to.
    """
    for number, spec in enumerate(graph.operators):
        tells = graph.bounded and spec.kernel.awaits is not None
        if (tells or spec.kernel.alarms is not None) and spec.level >= level:
            for group in range(graph.key_groups):
                yield Blob(slot_label(graph.slot(number, group)), 0, "", now, Touch())
