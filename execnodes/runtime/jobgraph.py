"""What a plan becomes for the workers: sources, stateful operators in levels, sinks, and the pipelines between.

Spark runs a job graph as one linear chain: sources -> level 1 -> level 2 -> ... -> sinks. All stateful operators
of one level share one ``transformWithState``; rows for a later level pass through. So a sub-plan that several
operators or sinks use is computed once, and the fixed cost of a micro-batch follows the depth of the plan, not
the number of its operators.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl
import pyarrow as pa

from execnodes.runtime.kernel import Kernel

__all__ = [
    "JobGraph",
    "OperatorSpec",
    "Pipeline",
    "Reader",
    "SinkSpec",
    "SourceSpec",
    "ToOperator",
    "ToSink",
    "Transform",
    "targets",
]


class Transform(Protocol):
    """A stateless operator: frame of changes and the micro-batch's time in, frame of changes out. Picklable."""

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame: ...


@dataclass(frozen=True)
class ToOperator:
    """Deliver to input ``input`` of operator number ``operator``, split by the key columns ``keys``.

    ``channel`` tells the ways to that input apart; ``event_time`` says that the operator asks for watermarks.
    """

    operator: int
    input: int
    keys: tuple[str, ...]
    channel: int = 0
    event_time: bool = False


@dataclass(frozen=True)
class ToSink:
    """Deliver to sink number ``sink``; with ``count_only`` only the number of rows is delivered."""

    sink: int
    count_only: bool = False


@dataclass(frozen=True)
class Pipeline:
    """Transforms applied in order, then every output gets the result."""

    transforms: tuple[Transform, ...]
    outputs: tuple[Pipeline | ToOperator | ToSink, ...]


class Reader(Protocol):
    """Reads what one row of a Spark source stands for (a file, an instant, a range of numbers). Picklable."""

    def splits(self, batch: pa.RecordBatch) -> list[dict[str, Any]]:
        """The splits that a batch of rows of the Spark source stands for; each has ``seq`` (text) and ``now`` (ms)."""
        ...

    def read(self, split: dict[str, Any]) -> Iterator[pl.DataFrame]:
        """Frames of changes of the split, in order."""
        ...


@dataclass(frozen=True)
class SourceSpec:
    """A table scan.

    Attributes:
        uid: of the plan node.
        name: table name, for progress and errors.
        connector: which kind of Spark source feeds it: ``files``, ``replay``, ``datagen``.
        options: the table's options.
        reader: decodes a split.
        pipeline: what happens to its rows.
    """

    uid: str
    name: str
    connector: str
    options: dict[str, str]
    reader: Reader
    pipeline: Pipeline


@dataclass(frozen=True)
class OperatorSpec:
    """A stateful operator.

    Attributes:
        uid: of the plan node; names its state.
        name: for errors and progress.
        kernel: what it computes.
        ttl: per ``state`` entry, ms.
        inputs: number of inputs.
        input_schemas: per input the polars schema of its fields (without ``kind``).
        pipeline: what happens to its output.
        level: 1 + the largest level of the operators before it.
        channels: per input, the number of ways on which rows reach it; empty where nobody asks for event time.
        idle_timeout: a channel without rows for so long does not hold back event time, ms; 0 is never.
    """

    uid: str
    name: str
    kernel: Kernel
    ttl: tuple[int, ...]
    inputs: int
    input_schemas: tuple[dict[str, pl.DataType], ...]
    pipeline: Pipeline
    level: int
    channels: tuple[int, ...] = ()
    idle_timeout: int = 0

    @property
    def event_time(self) -> bool:
        """Whether the operator, or one behind it, works by event time."""
        return bool(self.channels)


@dataclass(frozen=True)
class SinkSpec:
    """A sink. ``columns``: name and type of each; ``connector``, ``options`` and ``partition_keys`` as in the plan."""

    uid: str
    name: str
    connector: str
    options: dict[str, str]
    columns: tuple[tuple[str, Any], ...]
    partition_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobGraph:
    """A plan, ready for the workers. ``key_groups`` is fixed for the life of the state."""

    sources: tuple[SourceSpec, ...]
    operators: tuple[OperatorSpec, ...]
    sinks: tuple[SinkSpec, ...]
    key_groups: int

    def slot(self, operator: int, group: int) -> int:
        """Number of the slot of a key group of an operator; sinks come first."""
        return len(self.sinks) + operator * self.key_groups + group

    @property
    def event_time(self) -> bool:
        """Whether any operator works by event time."""
        return any(o.event_time for o in self.operators)

    @property
    def levels(self) -> int:
        return max((o.level for o in self.operators), default=0)


def targets(pipeline: Pipeline) -> Iterator[ToOperator | ToSink]:
    """All deliveries of a pipeline."""
    for output in pipeline.outputs:
        if isinstance(output, Pipeline):
            yield from targets(output)
        else:
            yield output
