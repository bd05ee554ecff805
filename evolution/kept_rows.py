"""Rows of inputs that operators of an old plan have kept, as sources for the same operators of a new plan.

A task writes the rows of a key group into files. So the job that reads them is one like any other: with micro-batches
of bounded size, and a checkpoint that continues.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath
from stateplan.connectors.protocol import RangeSource
from stateplan.connectors.splits import RangeSplit
from stateplan.evolution.conversion import StateLoad
from stateplan.evolution.load_tasks import current_rows
from stateplan.runtime.exchange import decode, encode
from stateplan.runtime.inspect.stored_state import SlotStates
from stateplan.runtime.jobgraph import JobGraph, OperatorSpec, Pipeline, SourceSpec, ToOperator, targets
from stateplan.runtime.kernel import ACCESS_TIME
from stateplan.runtime.sources import TASK_BYTES
from stateplan.runtime.worker import with_coded_errors

if TYPE_CHECKING:
    import pyarrow as pa

FILES = "operator int, input int, name string, size long"
"""What a task says of the files that it has written, in Spark's terms."""


@dataclass(frozen=True)
class KeptFile:
    """A file with rows of an input.

    Attributes:
        operator: number of the operator in the job of the new plan.
        input: its number.
        path: the path of the file.
        size: its bytes.
    """

    operator: int
    input: int
    path: AnyPath
    size: int


@dataclass(frozen=True)
class WriteRows:
    """Reads state of the old plan, and writes the rows of inputs that it holds into files: for ``mapInArrow``.

    Attributes:
        slots: puts the old state together.
        operators: those of the new plan.
        loads: per operator of the new plan where its rows come from; None for one whose rows are not wanted.
        folder: for the files.
    """

    slots: SlotStates
    operators: tuple[OperatorSpec, ...]
    loads: tuple[StateLoad | None, ...]
    folder: AnyPath

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        files = list(with_coded_errors(self._files)(batches))
        if files:
            types = (pa.int32(), pa.int32(), pa.string(), pa.int64())
            columns = [pa.array(c, t) for c, t in zip(zip(*files, strict=True), types, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, names=["operator", "input", "name", "size"])

    def _files(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, str, int]]:
        for origin, group, state in self.slots.states(batches):
            stored_tables = self.slots.operators[origin].tables
            tables = {t.name: rows for t in stored_tables if (rows := current_rows(t, state)).height}
            for number, load in enumerate(self.loads):
                for position, conversion in () if load is None else load.conversions:
                    for new_rows in conversion(tables, state.time) if position == origin else ():
                        rows = with_fields(self.operators[number].input_schemas[new_rows.number], new_rows.rows)
                        step = max(1, rows.height * TASK_BYTES // max(1, int(rows.estimated_size())))
                        for part, start in enumerate(range(0, rows.height, step)):
                            name = f"{number}-{new_rows.number}-{group}-{part}"
                            data = encode(rows[start : start + step])
                            (self.folder / name).write_bytes(data)
                            yield number, new_rows.number, name, len(data)


def with_fields(schema: dict[str, pl.DataType], rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of an input with all of its fields, in their order. Fields that are not kept, of processing time, are NULL;
    the time of access is no field."""
    null_fields = [pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if name not in rows.columns]
    return rows.drop(ACCESS_TIME).with_columns(null_fields).select(list(schema))


@dataclass(frozen=True)
class KeptRows(RangeSource):
    """The rows of an input in files, each of which is a range of one row.

    Attributes:
        files: by number.
    """

    files: tuple[KeptFile, ...]

    def read(self, split: RangeSplit) -> Iterator[pl.DataFrame]:
        for file in self.files[split.start : split.stop]:
            yield decode([file.path.read_bytes()])


Input: TypeAlias = tuple[int, int]
"""The number of an operator in a job, and of an input of it."""


def without_ways_to(inputs: Iterable[Input], job: JobGraph) -> JobGraph:
    """A job in which no rows reach some inputs of its operators."""
    numbers = frozenset(inputs)
    return replace(
        job,
        sources=tuple(replace(s, pipeline=_without(s.pipeline, numbers)) for s in job.sources),
        operators=tuple(replace(o, pipeline=_without(o.pipeline, numbers)) for o in job.operators),
    )


def _without(pipeline: Pipeline, inputs: frozenset[Input]) -> Pipeline:
    outputs = (_without(o, inputs) if isinstance(o, Pipeline) else o for o in pipeline.outputs)
    return Pipeline(
        pipeline.transforms,
        tuple(o for o in outputs if not (isinstance(o, ToOperator) and (o.operator, o.input) in inputs)),
    )


def kept_sources(job: JobGraph, inputs: Iterable[Input], files: Sequence[KeptFile]) -> tuple[SourceSpec, ...]:
    """Sources of the rows of inputs that were kept, one for each."""
    ways: dict[tuple[int, int], ToOperator] = {}
    for pipeline in (*(s.pipeline for s in job.sources), *(o.pipeline for o in job.operators)):
        for target in targets(pipeline):
            if isinstance(target, ToOperator):
                ways.setdefault((target.operator, target.input), target)
    sources: list[SourceSpec] = []
    for operator, number in sorted(inputs):
        spec = job.operators[operator]
        own_files = tuple(file for file in files if (file.operator, file.input) == (operator, number))
        pipeline = Pipeline((), (ways[operator, number],))
        uid, node = f"kept-{spec.uid}-{number}", -2 - len(sources)  # no node of the plan
        sources.append(SourceSpec(uid, f"rows of {spec.name}", "state", KeptRows(own_files), pipeline, node))
    return tuple(sources)
