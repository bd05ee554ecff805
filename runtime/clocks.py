"""The clock of a job: that of the machine, or a virtual one that goes from instant to instant of its replay tables."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import polars as pl

from stateplan.common.errors import RunError
from stateplan.connectors.protocol import InstantSource, Offset, OffsetSource, RangeSource
from stateplan.connectors.splits import InstantSplit
from stateplan.runtime.jobgraph import CLOCK, IDLE, JobGraph, OperatorSpec, Pipeline, SourceSpec, ToOperator
from stateplan.runtime.kernel import Alarms


def is_virtual(graph: JobGraph) -> bool:
    """Whether a job has a virtual clock.

    Raises:
        RunError: RUN020, it also reads a table that follows the clock of the machine.
    """
    virtual = any(isinstance(s.reader, InstantSource) for s in graph.sources)
    for other in graph.sources if virtual else ():
        reader = other.reader
        follows = isinstance(reader, InstantSource) or (isinstance(reader, RangeSource) and reader.any_clock)
        if not follows and other.node != IDLE:
            raise RunError("RUN020", name=other.name, connector=other.connector)
    return virtual


def instants(graph: JobGraph) -> list[int]:
    """The distinct instants of all tables on the virtual clock, ascending.

    Raises:
        DataError: a table that cannot be read.
    """
    readers = [s.reader for s in graph.sources if isinstance(s.reader, InstantSource)]
    return sorted({at for r in readers for at in r.instants()})


class ClockSource(OffsetSource[InstantSplit]):
    """The instants at which state of operators by processing time becomes due: no rows, but a micro-batch for each,
    should there be no input.

    Args:
        alarms: the alarms of the operators.
    """

    split_type = InstantSplit
    bounded = False

    def __init__(self, alarms: Sequence[Alarms]) -> None:
        self.alarms = tuple(alarms)

    def size(self) -> int:
        return 0

    def initial_offset(self) -> Offset:
        return {"at": self._last()}

    def latest_offset(self, start: Offset) -> Offset:
        return {"at": max(start["at"], self._last())}

    def _last(self) -> int:
        now = time.time_ns() // 1_000_000
        return max(alarms.last(now) for alarms in self.alarms)

    def plan(self, start: Offset, end: Offset) -> list[InstantSplit]:
        return [InstantSplit(end["at"])]

    def read(self, split: InstantSplit) -> Iterator[pl.DataFrame]:
        yield from ()


def clock_source(sources: Sequence[SourceSpec], operators: Sequence[OperatorSpec]) -> tuple[SourceSpec, ...]:
    """The source of the instants that operators wait for, where the sources of the plan neither end nor have a virtual
    clock, which bring the micro-batches that there are."""
    numbered_alarms = [(i, alarms) for i, o in enumerate(operators) if (alarms := o.kernel.alarms) is not None]
    if not numbered_alarms or all(s.reader.bounded for s in sources):
        return ()
    outputs = tuple(ToOperator(number, 0, ()) for number, _ in numbered_alarms)
    reader = ClockSource([alarms for _, alarms in numbered_alarms])
    return (SourceSpec("clock", "clock", "clock", reader, Pipeline((), outputs), CLOCK, "clock"),)
