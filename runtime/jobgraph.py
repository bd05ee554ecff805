"""What a plan becomes for the workers: sources, stateful operators in levels, sinks, and the pipelines between.

Spark runs a job graph as one linear chain: sources -> level 1 -> level 2 -> ... -> sinks. All stateful operators
of one level share one ``transformWithState``; rows for a later level pass through. So a sub-plan that several
operators or sinks use is computed once, and the fixed cost of a micro-batch follows the depth of the plan, not
the number of its operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.roots import Roots
from stateplan.common.ttl import TtlConfig
from stateplan.connectors.protocol import Sink, Source
from stateplan.execnodes.shadows import ActivePlan
from stateplan.runtime.audit import OperatorAudit
from stateplan.runtime.kernel import FormerColumns, Kernel, Transform
from stateplan.runtime.side_outputs import Errors, LateRows
from stateplan.runtime.state.ttl_access import InputFields

CLOCK = -1
"""The source of the instants of the clock, in place of a node of the plan."""

IDLE = -1 << 30
"""A source of an earlier plan of the job, in place of a node: Spark counts it, and it reads nothing any more."""

AUDIT = -1 << 30
"""The sink of the records of an audit, in place of a node: no table of the plan."""

_NO_FIELDS = InputFields()


@dataclass(frozen=True)
class ToOperator:
    """Deliver to input ``input`` of operator number ``operator``, split by the key columns ``keys``.

    ``channel`` distinguishes the ways to that input; ``event_time`` says that the operator uses watermarks.
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
class ToReader:
    """Deliver watermarks, and no rows, to channel ``channel`` of reader number ``reader``."""

    reader: int
    channel: int = 0


@dataclass(frozen=True)
class Pipeline:
    """Transforms applied in order, then every output gets the result."""

    transforms: tuple[Transform, ...]
    outputs: tuple[Pipeline | ToOperator | ToSink | ToReader, ...]


@dataclass(frozen=True)
class SourceSpec:
    """A table scan.

    Attributes:
        uid: the uid of the plan node.
        name: table name, for progress and errors.
        connector: the connector of the table, for errors.
        reader: plans and reads its splits.
        pipeline: what happens to its rows.
        node: the plan node, or :data:`CLOCK`, or :data:`IDLE`.
        marks: the name of its marker files.
        errors: where input goes that its format skips; None if it is only skipped.
    """

    uid: str
    name: str
    connector: str
    reader: Source[Any]
    pipeline: Pipeline
    node: int = -1
    marks: str = ""
    errors: Errors | None = None


class Gather(Protocol):
    """Makes the state that a key group begins with of the rows that were sent to it. Picklable."""

    def __call__(self, tables: Sequence[pl.DataFrame | None]) -> Sequence[pl.DataFrame | None]:
        """State frames by number of the table; None for one without rows."""


@dataclass(frozen=True)
class StateOnly:
    """An operator that only makes the state to begin with: what comes out of it goes nowhere.

    Attributes:
        gather: makes state of what is sent; None for as it is sent.
    """

    gather: Gather | None = None


@dataclass(frozen=True)
class OperatorSpec:
    """A stateful operator.

    Attributes:
        uid: the uid of the plan node; names its state.
        name: for errors and progress.
        kernel: what it computes.
        ttl: per ``state`` entry, how long it lives and how its age is counted.
        inputs: number of inputs.
        input_schemas: per input the polars schema of its fields (without ``kind``).
        pipeline: what happens to its output.
        level: 1 + the largest level of the operators before it.
        channels: per input, the number of ways on which rows reach it; empty if nothing uses event time.
        fields: what is known of the rows of the inputs.
        late: per input, where its late rows go; None, and empty for all, where they are only counted.
        audit: what it records of expired rows that are needed; None for nothing.
        idle_timeout: a channel without rows for this long does not hold back event time, ms; 0 is never.
        idle_timeouts: the same for channels of sources that have one of their own, by input and channel.
        node: the plan node.
        version: the version of the columns of its state.
        former_columns: the columns of its state in former versions.
        loading: says that, in a micro-batch that loads state, it makes the state to begin with; None otherwise.
    """

    uid: str
    name: str
    kernel: Kernel
    ttl: tuple[TtlConfig, ...]
    inputs: int
    input_schemas: tuple[dict[str, pl.DataType], ...]
    pipeline: Pipeline
    level: int
    channels: tuple[int, ...] = ()
    idle_timeout: int = 0
    idle_timeouts: Mapping[tuple[int, int], int] = field(default_factory=dict)
    node: int = -1
    version: int = 0
    former_columns: FormerColumns = field(default_factory=dict)
    fields: InputFields = _NO_FIELDS
    late: tuple[LateRows | None, ...] = ()
    audit: OperatorAudit | None = None
    loading: StateOnly | None = None

    @property
    def event_time(self) -> bool:
        """Whether the operator or its state, or one behind it, works by event time."""
        return bool(self.channels)


@dataclass(frozen=True)
class SinkSpec:
    """A sink.

    Attributes:
        columns: name and type of each.
        writer: writes them.
        node: the plan node.
        during: in a job with a shadow, the plans that run while it gets rows; empty if it always does.
    """

    uid: str
    name: str
    columns: tuple[tuple[str, Any], ...]
    writer: Sink
    node: int = -1
    during: tuple[ActivePlan, ...] = ()

    def is_open(self, active_plan: ActivePlan) -> bool:
        """Whether it gets rows while these plans run."""
        return not self.during or active_plan in self.during


@dataclass(frozen=True)
class ReaderSpec:
    """A step without state whose result depends on how far event time has advanced, such as one with CURRENT_WATERMARK.

    What it reads is the watermark before the micro-batch. The driver adds up the watermarks that reach it, keeps them
    with the checkpoint, and sends them to the tasks.

    Attributes:
        uid: the uid of the plan node.
        node: the plan node.
        channels: the number of ways on which rows reach it.
        idle_timeout, idle_timeouts: as of :class:`OperatorSpec`; the number of the input is 0.
    """

    uid: str
    node: int
    channels: int
    idle_timeout: int = 0
    idle_timeouts: Mapping[tuple[int, int], int] = field(default_factory=dict)


@dataclass(frozen=True)
class DroppedRange:
    """Slots whose state belongs to no operator any more: one per key group from ``first``, in level ``level``."""

    first: int
    level: int


@dataclass(frozen=True)
class JobGraph:
    """A plan, ready for the workers.

    Attributes:
        sources, operators, sinks: what it consists of.
        key_groups: into which state is split; fixed for the life of the state.
        slots: the first slot of each operator; empty for one range behind the other.
        sink_slots: the slot of the first sink; with ``slots``.
        unused_ranges: what is removed in the first micro-batch.
        least_levels: levels that there are even without operators.
        order: the sources in the order in which Spark counts them, None for the end of bounded input; empty for
            :func:`natural_order`.
        first_batch: the first micro-batch of the run, which drops state.
        readers: the steps without state that read how far event time has advanced.
        watermarks: what each of them reads in this micro-batch, ms; nothing before its first watermark.
        roots: below which the files of its tables are; None for a job that may go anywhere.
        open_ended: whether event time stays where it is when bounded input has ended: others continue from there.
        active_plan: of a job with a shadow, what runs in this micro-batch.
    """

    sources: tuple[SourceSpec, ...]
    operators: tuple[OperatorSpec, ...]
    sinks: tuple[SinkSpec, ...]
    key_groups: int
    slots: tuple[int, ...] = ()
    sink_slots: int = 0
    unused_ranges: tuple[DroppedRange, ...] = ()
    least_levels: int = 0
    order: tuple[int | None, ...] = ()
    first_batch: int = 0
    readers: tuple[ReaderSpec, ...] = ()
    watermarks: Mapping[int, int] = field(default_factory=dict)
    roots: Roots | None = None
    open_ended: bool = False
    active_plan: ActivePlan = "both"

    def slot(self, operator: int, group: int) -> int:
        """Number of the slot of a key group of an operator."""
        return (self.slots[operator] if self.slots else operator * self.key_groups) + group

    def sink_slot(self, sink: int) -> int:
        """Number of the slot of a sink: behind those of all operators, as nothing is kept there."""
        return (self.sink_slots if self.slots else len(self.operators) * self.key_groups) + sink

    @property
    def driver_slot(self) -> int:
        """Number of the slot for other messages to the driver, which are sent with the reports of sinks. It follows
        those of all sinks."""
        return self.sink_slot(len(self.sinks))

    @property
    def event_time(self) -> bool:
        """Whether any operator works by event time."""
        return any(o.event_time for o in self.operators)

    @property
    def bounded(self) -> bool:
        """Whether all of its input ends."""
        return all(s.reader.bounded for s in self.sources)

    @property
    def levels(self) -> int:
        return max((self.least_levels, *(o.level for o in self.operators)))

    @property
    def touches_state(self) -> bool:
        """Whether the first micro-batch drops state."""
        return bool(self.unused_ranges)


def first_level(graph: JobGraph, source: int) -> int:
    """The level of the first operator that rows of a source reach; one behind the last when they reach none."""
    operators = (t.operator for t in targets(graph.sources[source].pipeline) if isinstance(t, ToOperator))
    return min((graph.operators[number].level for number in operators), default=graph.levels + 1)


def natural_order(graph: JobGraph) -> tuple[int | None, ...]:
    """The sources by where they enter the chain of levels; the end of bounded input (None) with those of the first."""
    levels = [first_level(graph, i) for i in range(len(graph.sources))]
    out: list[int | None] = [i for i, level in enumerate(levels) if level == 1]
    if graph.event_time:
        out.append(None)
    return (*out, *sorted((i for i, level in enumerate(levels) if level > 1), key=lambda i: levels[i]))


def targets(pipeline: Pipeline) -> Iterator[ToOperator | ToSink | ToReader]:
    """All deliveries of a pipeline."""
    for output in pipeline.outputs:
        if isinstance(output, Pipeline):
            yield from targets(output)
        else:
            yield output
