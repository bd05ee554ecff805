"""The rows between operators: what each of them emits in a run."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field, replace

import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.functions.program import Program
from stateplan.runtime.jobgraph import JobGraph, Pipeline, ToOperator, ToReader, ToSink
from stateplan.runtime.kernel import Transform, WatermarkTap


@dataclass
class Taps:
    """Records what operators and sources emit.

    Attributes:
        frames: by name of the operator, what it has emitted, in order.
        programs: projections and filters, each with the frames that it gets and their times.
    """

    frames: dict[str, list[pl.DataFrame]] = field(default_factory=lambda: defaultdict(list))
    programs: dict[Program, list[tuple[pl.DataFrame, int]]] = field(default_factory=lambda: defaultdict(list))

    def tapped(self, job: JobGraph) -> JobGraph:
        """A job whose rows are recorded."""
        sources = tuple(replace(s, pipeline=self._pipeline(s.pipeline, _Tap(self.frames[s.name]))) for s in job.sources)
        operators = tuple(
            replace(o, pipeline=self._pipeline(o.pipeline, _Tap(self.frames[o.name]))) for o in job.operators
        )
        return replace(job, sources=sources, operators=operators)

    def _pipeline(self, pipeline: Pipeline, first: Transform | None = None) -> Pipeline:
        transforms: list[Transform] = [] if first is None else [first]
        for transform in pipeline.transforms:
            inner = transform.transform if isinstance(transform, WatermarkTap) else transform
            if isinstance(inner, Program):
                transforms.append(_ProgramTap(self.programs[inner]))
            transforms.append(transform)
            if isinstance(inner, Program) and inner.operator is not None:
                transforms.append(_Tap(self.frames[inner.operator]))
        outputs: list[Pipeline | ToOperator | ToSink | ToReader] = [
            self._pipeline(output) if isinstance(output, Pipeline) else output for output in pipeline.outputs
        ]
        return Pipeline(tuple(transforms), tuple(outputs))


@dataclass(frozen=True)
class _Tap(Transform):
    """Records rows, and leaves them as they are."""

    frames: list[pl.DataFrame]

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        self.frames.append(frame)
        return frame


@dataclass(frozen=True)
class _ProgramTap(Transform):
    """Records rows with their time, and leaves them as they are."""

    frames: list[tuple[pl.DataFrame, int]]

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        self.frames.append((frame, now))
        return frame
