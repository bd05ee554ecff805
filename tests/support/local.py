"""Runs a job graph in this process, without Spark: the same workers' functions over state stores in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from stateplan.execnodes.connectors.print import format_rows
from stateplan.execnodes.runtime.exchange import Blob, decode
from stateplan.execnodes.runtime.jobgraph import JobGraph
from stateplan.execnodes.runtime.metrics.figures import Figures, add_figures
from stateplan.execnodes.runtime.state.keyed_state import MemoryRunStore
from stateplan.execnodes.runtime.state.run_cache import RunCache
from stateplan.execnodes.runtime.worker import (
    Clock,
    closing_marks,
    deliver,
    run_operator,
    send_marks,
    sweeps,
    touches,
    unslot,
)


class LocalRun:
    """A job graph with its state. One :meth:`batch` is one micro-batch; its figures are in ``figures``."""

    def __init__(self, graph: JobGraph) -> None:
        self.graph = graph
        self.figures: Figures = {}
        self.cache = RunCache(None)
        self.stores: dict[int, MemoryRunStore] = defaultdict(MemoryRunStore)
        self.slots = unslot(graph)
        self.batches = 0

    def continue_with(self, graph: JobGraph) -> LocalRun:
        """Another plan over the same state."""
        other = LocalRun(graph)
        other.stores = self.stores
        return other

    def _count(self, uid: str, figures: dict[str, float]) -> None:
        add_figures(self.figures.setdefault(uid, {}), figures)

    def batch(self, rows: dict[int, Iterable[pl.DataFrame]], now: int) -> list[list[pl.DataFrame]]:
        """Per sink, the frames that a micro-batch delivers.

        Args:
            rows: source number -> frames of changes.
        """
        self.figures = {}
        blobs: list[Blob] = []
        for source, frames in sorted(rows.items()):
            clock = Clock()
            for n, frame in enumerate(frames):
                pipeline = self.graph.sources[source].pipeline
                blobs.extend(deliver(self.graph, pipeline, frame, now, f"{source:04d}{n:08d}", clock))
            blobs.extend(send_marks(self.graph, clock.marks, now))
        self.batches += 1
        return self._play([*blobs, *touches(self.graph, now), *sweeps(self.graph, self.batches, now)])

    def close(self, now: int) -> list[list[pl.DataFrame]]:
        """Per sink, the frames that the end of bounded input delivers."""
        return self._play(list(send_marks(self.graph, closing_marks(self.graph), now)))

    def _play(self, blobs: list[Blob]) -> list[list[pl.DataFrame]]:
        for level in range(1, self.graph.levels + 1):
            later: list[Blob] = []
            mine: dict[int, list[Blob]] = defaultdict(list)
            for blob in blobs:
                owner = self.slots.get(blob.slot)
                if owner is not None and owner[0] < 0:
                    self.stores.pop(blob.slot, None)  # the range of an operator that is gone
                elif owner is not None and self.graph.operators[owner[0]].level == level:
                    mine[blob.slot].append(blob)
                else:
                    later.append(blob)
            for slot, received in sorted(mine.items()):
                store = self.stores[slot]
                later.extend(run_operator(self.graph, *self.slots[slot], received, store, self.cache, self._count))
            blobs = later
        out: list[list[pl.DataFrame]] = [[] for _ in self.graph.sinks]
        labels = {label: i for i, label in enumerate(_sink_labels(self.graph))}
        for blob in sorted(blobs, key=lambda b: b.seq):
            out[labels[blob.slot]].append(decode([blob.data]))
        return out


def _sink_labels(graph: JobGraph) -> list[int]:
    from stateplan.execnodes.runtime.hashing import slot_label

    return [slot_label(graph.sink_slot(i)) for i in range(len(graph.sinks))]


def printed(graph: JobGraph) -> list[str]:
    """The lines that the sinks of a plan over replay tables print."""
    local, lines = LocalRun(graph), []
    readers: list[Any] = [s.reader for s in graph.sources]
    now = 0

    def show(delivered: list[list[pl.DataFrame]]) -> None:
        for sink, frames in zip(graph.sinks, delivered, strict=True):
            for frame in frames:
                lines.extend(format_rows(frame, [t for _, t in sink.columns], getattr(sink.writer, "identifier", None)))

    for now in sorted({at for r in readers for at in r.instants()}):
        show(local.batch({i: list(r.read({"now": now})) for i, r in enumerate(readers)}, now))
    show(local.close(now))
    return lines


def fold(lines: Iterable[str]) -> list[str]:
    """The materialised result of printed changes: a multiset of rows, sorted, as the golden cases write it."""
    count: dict[str, int] = defaultdict(int)
    for line in lines:
        prefix, _, change = line.rpartition("> ")
        kind, row = change[:2], change[2:]
        count[(prefix + "> " if prefix else "") + row] += 1 if kind[0] == "+" else -1
    assert all(n >= 0 for n in count.values()), f"rows deleted that were not there: {count}"
    return sorted(row for row, n in count.items() for _ in range(n))


def upsert_fold(lines: Iterable[str], key: Sequence[int]) -> list[str]:
    """The rows that printed changes leave in a table with a primary key, sorted: -U is not needed."""
    rows: dict[tuple[str, ...], str] = {}
    for line in lines:
        kind, row = line[:2], line[2:]
        values = _values(row)
        place = tuple(values[i] for i in key)
        if kind == "-D":
            rows.pop(place, None)
        elif kind != "-U":
            rows[place] = row
    return sorted(rows.values())


def _values(row: str) -> list[str]:
    """The top values of ``[a, [b, c], {d=e}]``."""
    out, depth = [""], 0
    for part in row[1:-1].split(", "):
        out[-1] += part
        depth += sum(part.count(c) for c in "[{") - sum(part.count(c) for c in "]}")
        if depth:
            out[-1] += ", "
        else:
            out.append("")
    return out[:-1]
