"""A job with a shadow that continues with one of its plans while it runs.

From a micro-batch on, the sinks of one plan write their tables, and nothing is sent any more to operators that only the
other plan has, nor read from its tables. The query of Spark stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl
import pyarrow as pa

from stateplan.connectors.protocol import Offset, OffsetSource
from stateplan.connectors.splits import AssignedSplit, InstantSplit
from stateplan.execnodes.shadows import ActivePlan
from stateplan.runtime.jobgraph import JobGraph, Pipeline, ToOperator, ToReader, ToSink
from stateplan.runtime.kernel import WatermarkTap

_NOTHING = Pipeline((), ())


class IdleSource(OffsetSource[InstantSplit]):
    """A source of an earlier plan of the job. Spark knows how far it was read, and counts it. It stays there."""

    split_type = InstantSplit

    def initial_offset(self) -> Offset:
        return {}

    def latest_offset(self, start: Offset) -> Offset:
        return start

    def plan(self, start: Offset, end: Offset) -> list[InstantSplit]:
        return []

    def splits(self, batch: pa.RecordBatch) -> Sequence[AssignedSplit[InstantSplit]]:
        return []

    def read(self, split: InstantSplit) -> Iterator[pl.DataFrame]:
        yield from ()


def with_active_plan(graph: JobGraph, active_plan: ActivePlan) -> JobGraph:
    """The job while it runs these of its plans: without the ways that lead to no open sink."""
    graph = replace(graph, active_plan=active_plan)
    if active_plan == "both":
        return graph
    # A step that reads the watermark is on the way to a sink. Only then is it known who tells it the watermark.
    ways = _OpenWays(graph, frozenset())
    ways = _OpenWays(graph, frozenset(ways.readers()))
    return replace(
        graph,
        sources=tuple(replace(s, pipeline=ways.open(s.pipeline) or _NOTHING) for s in graph.sources),
        operators=tuple(replace(o, pipeline=ways.operator(n) or _NOTHING) for n, o in enumerate(graph.operators)),
    )


class _OpenWays:
    """The ways to sinks that are open.

    Args:
        graph: the job.
        used_readers: the readers that steps on these ways read.
    """

    def __init__(self, graph: JobGraph, used_readers: frozenset[int]) -> None:
        self.graph = graph
        self.used_readers = used_readers
        self._operators: dict[int, Pipeline | None] = {}

    def operator(self, number: int) -> Pipeline | None:
        """The ways behind an operator; None if there are none."""
        if number not in self._operators:
            self._operators[number] = self.open(self.graph.operators[number].pipeline)
        return self._operators[number]

    def open(self, pipeline: Pipeline) -> Pipeline | None:
        """The ways of a pipeline; None if there are none."""
        outputs: list[Pipeline | ToOperator | ToSink | ToReader] = []
        for output in pipeline.outputs:
            if isinstance(output, Pipeline):
                part = self.open(output)
                outputs += [] if part is None else [part]
            elif self._is_open(output):
                outputs.append(output)
        return replace(pipeline, outputs=tuple(outputs)) if outputs else None

    def _is_open(self, output: ToOperator | ToSink | ToReader) -> bool:
        if isinstance(output, ToSink):
            return self.graph.sinks[output.sink].is_open(self.graph.active_plan)
        if isinstance(output, ToReader):
            return output.reader in self.used_readers
        return self.operator(output.operator) is not None

    def readers(self) -> Iterator[int]:
        """The readers that steps of the ways read."""
        pipelines = [self.open(source.pipeline) for source in self.graph.sources]
        pipelines += [self.operator(number) for number in range(len(self.graph.operators))]
        for pipeline in pipelines:
            yield from () if pipeline is None else _readers(pipeline)


def _readers(pipeline: Pipeline) -> Iterator[int]:
    yield from (step.reader for step in pipeline.transforms if isinstance(step, WatermarkTap))
    for output in pipeline.outputs:
        if isinstance(output, Pipeline):
            yield from _readers(output)
