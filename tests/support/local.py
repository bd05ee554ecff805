"""Job graphs that run in this process: given their rows, or with all that their sinks print; results of changes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import polars as pl

from stateplan.connectors.print import format_rows
from stateplan.connectors.protocol import InstantSource, Sink, Source
from stateplan.connectors.splits import InstantSplit, RangeSplit
from stateplan.runtime.delivery import Clock, closing_marks, deliver, send_marks
from stateplan.runtime.exchange import Blob, decode, rows_of
from stateplan.runtime.hashing import slot_label
from stateplan.runtime.jobgraph import JobGraph, SinkSpec
from stateplan.runtime.local.counters import LocalCounters
from stateplan.runtime.local.job import LocalJob
from stateplan.runtime.local.levels import LocalLevels
from stateplan.runtime.metrics.figures import Figures
from stateplan.runtime.metrics.records import JobInfo
from stateplan.runtime.wakeups import alarms, sweeps, touches


class LocalRun(LocalLevels):
    """A job graph that is given its rows. One :meth:`batch` is one micro-batch; its figures are in ``figures``."""

    def __init__(self, graph: JobGraph) -> None:
        self.counters = LocalCounters()
        super().__init__(graph, self.counters)
        self.batches = 0

    @property
    def figures(self) -> Figures:
        """Those of the last micro-batch."""
        return self.counters.current(self.batches)

    def continue_with(self, graph: JobGraph) -> LocalRun:
        """Another plan over the same state."""
        other = LocalRun(graph)
        other.stores = self.stores
        return other

    def batch(self, rows: dict[int, Iterable[pl.DataFrame]], now: int) -> list[list[pl.DataFrame]]:
        """Per sink, the frames that a micro-batch delivers.

        Args:
            rows: source number -> frames of changes.
        """
        self.counters.begin()
        blobs: list[Blob] = []
        for source, frames in sorted(rows.items()):
            clock = Clock()
            for n, frame in enumerate(frames):
                pipeline = self.graph.sources[source].pipeline
                blobs.extend(deliver(self.graph, pipeline, frame, now, f"{source:04d}{n:08d}", clock))
            blobs.extend(send_marks(self.graph, clock.marks, now))
        self.batches += 1
        told = (touches(self.graph, now), sweeps(self.graph, self.batches, now), alarms(self.graph, now))
        return self._delivered([*blobs, *chain.from_iterable(told)])

    def close(self, now: int) -> list[list[pl.DataFrame]]:
        """Per sink, the frames that the end of bounded input delivers."""
        return self._delivered(send_marks(self.graph, closing_marks(self.graph), now))

    def _delivered(self, blobs: Iterable[Blob]) -> list[list[pl.DataFrame]]:
        out: list[list[pl.DataFrame]] = [[] for _ in self.graph.sinks]
        labels = {slot_label(self.graph.sink_slot(i)): i for i in range(len(out))}
        for blob in sorted(self.play(blobs), key=lambda b: b.seq):
            out[labels[blob.slot]] += [decode([rows.data]) for rows in rows_of([blob])]
        return out


def instants_of(reader: Source[Any]) -> list[int]:
    """The instants at which a table of a plan on the virtual clock has rows."""
    return reader.instants() if isinstance(reader, InstantSource) else [0]


def rows_at(reader: Source[Any], at: int) -> list[pl.DataFrame]:
    """The rows that such a table has at an instant; constant rows are there from 0 on."""
    if isinstance(reader, InstantSource):
        return list(reader.read(InstantSplit(at)))
    return list(reader.read(RangeSplit(0, 1))) if at == 0 else []


@dataclass
class _Lines(Sink):
    """Keeps the lines that a sink prints, in the order in which a print table would."""

    sink: SinkSpec
    lines: list[str] = field(default_factory=list)
    keeps_order = True

    def write(self, frame: pl.DataFrame, epoch: int, part: str) -> bytes:
        types = [kind for _, kind in self.sink.columns]
        return json.dumps(format_rows(frame, types, getattr(self.sink.writer, "identifier", None))).encode()

    def commit(self, parts: Sequence[bytes], epoch: int) -> None:
        self.lines += [line for part in parts for line in json.loads(part)]


def printed(graph: JobGraph) -> list[str]:
    """The lines that the sinks of a plan over bounded tables print, sink by sink."""
    writers = [_Lines(sink) for sink in graph.sinks]
    sinks = tuple(replace(sink, writer=writer) for sink, writer in zip(graph.sinks, writers, strict=True))
    LocalJob(replace(graph, sinks=sinks), JobInfo("", "", 0, 0, ()), print).wait()
    return [line for writer in writers for line in writer.lines]


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
    """The rows that printed changes leave in a table with a primary key, sorted. -U is not needed; where a filter lets
    it through without its +U, it deletes."""
    rows: dict[tuple[str, ...], str] = {}
    for line in lines:
        kind, row = line[:2], line[2:]
        values = _values(row)
        place = tuple(values[i] for i in key)
        if kind in ("-D", "-U"):
            rows.pop(place, None)
        else:
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
