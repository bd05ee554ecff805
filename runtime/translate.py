"""An exec graph as a job graph: scans, stateful operators and sinks, and the stateless pipelines between them.

The key group of a row is decided by the key of the operator that receives it, so an ``exchange`` node needs no
translation of its own: the plan keeps it because Flink does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode, columns
from stateplan.common.errors import PlanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.roots import current_roots
from stateplan.common.secrets import Secrets
from stateplan.common.settings import corrects_flink, has_legacy_casts, value
from stateplan.common.ttl import TtlConfig
from stateplan.common.types import BOOLEAN, LogicalType
from stateplan.common.zone import local_time_zone
from stateplan.connectors.alignment import Alignment
from stateplan.connectors.protocol import InstantSource, OffsetSource, SourceTable
from stateplan.connectors.registry import source_changelog_mode
from stateplan.execnodes.arrival_order import inputs_out_of_order
from stateplan.execnodes.changelog_modes import changelog_modes
from stateplan.execnodes.fingerprint import assign_uids
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.model import value_text
from stateplan.execnodes.node_calls import with_calls_everywhere
from stateplan.execnodes.node_tables import with_secrets
from stateplan.execnodes.node_ttls import ttl_configs
from stateplan.execnodes.nodes.base import ExecNode, with_input_modes
from stateplan.execnodes.nodes.multi_join import MultiJoin
from stateplan.execnodes.nodes.sink import Sink
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.nodes.values import Values
from stateplan.execnodes.nodes.window_aggregates import LocalWindowAggregate
from stateplan.execnodes.side_outputs import ERRORS, LATE, LATE_OF, check_columns, is_late, late_table, side_output
from stateplan.execnodes.specs import WatermarkPushDown
from stateplan.execnodes.windows import parse_duration
from stateplan.functions.casting import legacy_cast
from stateplan.functions.rex import Call, InputRef, input_refs, remap
from stateplan.runtime.audit import FOLDER, RECORD, OperatorAudit, audit_of, audit_sink
from stateplan.runtime.clocks import clock_source
from stateplan.runtime.constant_rows import ValuesSource
from stateplan.runtime.jobgraph import (
    AUDIT,
    JobGraph,
    OperatorSpec,
    Pipeline,
    ReaderSpec,
    SinkSpec,
    SourceSpec,
    ToOperator,
    ToReader,
    ToSink,
    targets,
)
from stateplan.runtime.kernel import Transform, WatermarkTap
from stateplan.runtime.kernels.common.partials import LocalTransform
from stateplan.runtime.kernels.window_aggregate import WindowAggregateKernel
from stateplan.runtime.nested_pruning import Path, prune_type, read_fields, read_paths
from stateplan.runtime.operators import Stateful, Stateless, operator_of
from stateplan.runtime.plan_tables import PushedFilter, check_scan, sink_table, source_table, with_abilities
from stateplan.runtime.readers import check_readers
from stateplan.runtime.rowtimes import event_time_columns, event_time_type
from stateplan.runtime.shadows import record_folder, shadow_sinks
from stateplan.runtime.side_outputs import Errors, LateRows, with_split
from stateplan.runtime.spark.checkpoint_files import INSTANTS
from stateplan.runtime.state.ttl_access import InputFields
from stateplan.runtime.transforms.calc import CalcTransform
from stateplan.runtime.watermarks import READER


def translate(
    graph: ExecGraph,
    options: Mapping[str, str],
    key_groups: int,
    *,
    job_id: str = "",
    start_time: int = 0,
    secrets: Secrets | None = None,
) -> JobGraph:
    """The job graph of a plan.

    Args:
        graph: the plan.
        options: session options; give the TTL of states the plan says nothing about.
        key_groups: into which keyed state is split.
        job_id: distinguishes the files of this job from those of others in the same folder.
        start_time: when the job began, ms; generated timestamps refer to it.
        secrets: the secrets that references in the plan mean. The job graph has them, so it is never written or shown.

    Raises:
        OptionError: OPT123, a secret that is not known here.
        PlanError: PLAN035, a node that cannot be run yet; PLAN019, CURRENT_WATERMARK where it cannot be read; PLAN190
            or PLAN191, state that is to age by event time where rows have none, or several.
        RunError: RUN021, a table without its options.
    """
    graph = with_secrets(assign_uids(graph), secrets or Secrets())
    if has_legacy_casts(options):
        graph = with_calls_everywhere(graph, legacy_cast)
    nodes = _nodes(graph, options)
    sides = _SideOutputs(nodes)
    if any(is_late(side_output(node) or "") for node in graph.sinks):
        nodes = replace(nodes, parts={i: sides.splitting(graph.node(i), part) for i, part in nodes.parts.items()})
    check_readers(graph, nodes.watermark_readers)
    nodes = _keeping_versions(nodes)
    event_times = event_time_columns(graph, nodes.ages)
    by_time = _by_event_time(nodes, event_times)
    graph.check_ways(lambda node: isinstance(node, Sink) or node.id in nodes.operators, "a pipeline")
    return _Builder(nodes, sides, event_times, by_time, job_id, start_time).job(key_groups)


@dataclass(frozen=True)
class _Nodes:
    """What the nodes of a plan become.

    Attributes:
        graph, options: the plan, and the session.
        scans: the sources that are read.
        parts: node -> operator with state, or steps without.
        levels: node -> how many operators with state there are on the longest way to it, itself included.
        operators, sinks: node -> its number among those of its kind.
        ages: node of an operator -> how its states age.
    """

    graph: ExecGraph
    options: Mapping[str, str]
    scans: tuple[TableSourceScan | Values, ...]
    parts: Mapping[int, Stateful | Stateless]
    levels: Mapping[int, int]
    operators: Mapping[int, int]
    sinks: Mapping[int, int]
    ages: Mapping[int, tuple[TtlConfig, ...]]

    @property
    def watermark_readers(self) -> set[int]:
        """The nodes whose steps read how far event time has advanced."""
        return {i for i, part in self.parts.items() if any(t.reads_watermark for t in _steps(part))}


def _nodes(graph: ExecGraph, options: Mapping[str, str]) -> _Nodes:
    """The operators and steps of a plan. Raises PlanError PLAN035."""
    scans: list[TableSourceScan | Values] = []
    parts: dict[int, Stateful | Stateless] = {}
    levels: dict[int, int] = {}
    # As Flink runs it, no operator asks for more than it was sent.
    modes = changelog_modes(graph) if corrects_flink(options) else {}
    for node in graph.nodes:
        inputs = graph.inputs(node)
        levels[node.id] = max((levels[i.id] for i in inputs), default=0)
        if isinstance(node, (TableSourceScan, Values)):
            if any(side_output(consumer) is None for consumer in graph.consumers(node)):
                scans.append(node)
            continue
        with graph.placing(node):
            node_with_modes = _informed(graph, node, modes) if modes else node
            part = operator_of(node_with_modes, [i.output_type for i in inputs], options)
        parts[node.id] = part
        levels[node.id] += isinstance(part, Stateful)
    stateful = [node for node in graph.nodes if isinstance(parts.get(node.id), Stateful)]
    sinks = [node for node in graph.nodes if isinstance(node, Sink)]
    return _Nodes(
        graph,
        options,
        tuple(scans),
        parts,
        levels,
        {node.id: number for number, node in enumerate(stateful)},
        {node.id: number for number, node in enumerate(sinks)},
        {node.id: ttl_configs(node, options) or (TtlConfig(),) for node in stateful},
    )


def _informed(graph: ExecGraph, node: ExecNode, modes: Mapping[int, ChangelogMode | None]) -> ExecNode:
    """The node, knowing what its inputs send."""
    unordered = inputs_out_of_order(graph, node, modes) if isinstance(node, MultiJoin) else frozenset()
    return with_input_modes(node, (modes[i.id] for i in graph.inputs(node)), unordered)


def _keeping_versions(nodes: _Nodes) -> _Nodes:
    """Lets operators emit every version of a row where an operator behind them looks at its versions."""
    parts = dict(nodes.parts)
    node_ids: set[int] = set()
    for node in reversed(nodes.graph.nodes):
        part, inputs = parts.get(node.id), nodes.graph.inputs(node)
        if isinstance(part, Stateful):
            if node.id in node_ids:
                parts[node.id] = replace(part, kernel=part.kernel.with_every_version())
            node_ids.update(inputs[i].id for i in part.kernel.versioned_inputs)
        elif node.id in node_ids:
            node_ids.update(i.id for i in inputs)
    return replace(nodes, parts=parts)


def _by_event_time(nodes: _Nodes, event_times: Iterable[int]) -> set[int]:
    """The nodes that work by event time, whose state ages by it, or which are before such a node."""
    by_time = set(event_times)
    readers = nodes.watermark_readers
    for node in reversed(nodes.graph.nodes):
        part = nodes.parts.get(node.id)
        if isinstance(part, Stateful) and part.kernel.by_event_time and not part.kernel.by_clock:
            by_time.add(node.id)
        if node.id in readers or node.id in by_time:
            by_time.update(i.id for i in nodes.graph.inputs(node))
    return by_time


@dataclass(frozen=True)
class _SideOutputs:
    """Where the rows go that come too late, or cannot be read."""

    nodes: _Nodes

    def late_rows(self, node: ExecNode, number: int) -> LateRows | None:
        """What becomes of the late rows of an input of a node; None if they are only counted."""
        name = late_table(node, number)
        if name is None and isinstance(node, LocalWindowAggregate):
            window_aggregate = self.nodes.graph.consumers(self.nodes.graph.consumers(node)[0])[0]
            name = late_table(window_aggregate, 0)
        kind = LATE if name is None else f"{LATE_OF}{name}"
        sink = next((node for node in self.nodes.graph.sinks if side_output(node) == kind), None)
        if not isinstance(sink, Sink):
            return None
        with self.nodes.graph.placing(sink):
            check_columns(LATE, sink.dynamic_table_sink.table.summary, sink.written_fields)
        row = self.nodes.graph.inputs(node)[number].output_type
        columns = tuple(name for name, _ in sink.written_fields)
        instants = event_time_type(self.nodes.graph, node) == "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
        return LateRows(
            self.nodes.sinks[sink.id], node.label, number, row, columns, instants, local_time_zone(self.nodes.options)
        )

    def errors(self, scan: TableSourceScan) -> Errors | None:
        """Where invalid input of a table goes; of a table that is read several times, by the first of its scans."""
        table = scan.scan_table_source.table
        kind = f"{ERRORS}{table.identifier}"
        sink = next((node for node in self.nodes.graph.sinks if side_output(node) == kind), None)
        scans = (node for node in self.nodes.graph.nodes if isinstance(node, TableSourceScan))
        first = next(node for node in scans if node.scan_table_source.table.identifier == table.identifier)
        if not isinstance(sink, Sink) or first.id != scan.id:
            return None
        with self.nodes.graph.placing(sink):
            check_columns(kind, sink.dynamic_table_sink.table.summary, sink.written_fields)
        return Errors(self.nodes.sinks[sink.id], table.summary, tuple(name for name, _ in sink.written_fields))

    def splitting(self, node: ExecNode, part: Stateful | Stateless) -> Stateful | Stateless:
        """A node that makes partial results of windows by event time, taking late rows out before."""
        if not any(isinstance(step, LocalTransform) for step in _steps(part)):
            return part
        late = self.late_rows(node, 0)
        if late is None:
            return part
        if isinstance(part, Stateful):
            is_by_event_time = part.kernel.by_event_time and not part.kernel.by_clock
            return replace(part, before=with_split(part.before, late)) if is_by_event_time else part
        if isinstance(node, LocalWindowAggregate) and node.windowing.is_rowtime:
            return replace(part, transforms=with_split(part.transforms, late))
        return part

    def late_outputs(self, node: ExecNode, part: Stateful) -> tuple[LateRows | None, ...]:
        """Per input of an operator, what becomes of late rows; nothing if they are only counted, or are partial
        results, whose late rows were taken out before."""
        partial = isinstance(part.kernel, WindowAggregateKernel) and part.kernel.inner_is_partial
        if not part.kernel.by_event_time or part.kernel.by_clock or partial:
            return ()
        return tuple(self.late_rows(node, i) for i in range(len(self.nodes.graph.inputs(node))))


class _Builder:
    """Makes the job graph of a plan whose operators are known.

    Args:
        nodes: what the nodes of the plan become.
        sides: the sides of the plan.
        event_times: see :func:`event_time_columns`.
        by_time: nodes to which watermarks go.
        job_id, start_time: see :func:`translate`.
    """

    def __init__(
        self,
        nodes: _Nodes,
        sides: _SideOutputs,
        event_times: Mapping[int, tuple[str | None, ...]],
        by_time: Container[int],
        job_id: str,
        start_time: int,
    ) -> None:
        self.nodes = nodes
        self.sides = sides
        self.graph, self.options = nodes.graph, nodes.options
        self.event_times = event_times
        self.by_time = by_time
        self.job_id = job_id
        self.start_time = start_time
        self.reads = read_fields(nodes.graph, nodes.parts)
        self.writers = {i: self.sink(self.graph.node(i)) for i in nodes.sinks}
        writers, self.taps = shadow_sinks(nodes.graph, nodes.options, self.writers)
        self.writers |= writers
        self.audited = audit_of(nodes.options) if nodes.operators else None
        self.consumers = _consumers(nodes.graph)
        # Pipelines number their ways as they are made: from the sources on, then from the operators on.
        self.channels: Counter[tuple[int, int]] = Counter()
        self.idle_timeouts: dict[tuple[int, int, int], int] = {}
        self.readers: dict[int, int] = {}

    def job(self, key_groups: int) -> JobGraph:
        """The job graph."""
        sources = tuple(self.source(scan) for scan in self.nodes.scans)
        operators = [self.operator(self.graph.node(i)) for i in self.nodes.operators]
        return JobGraph(
            (*sources, *clock_source(sources, operators)),
            tuple(self.timed(spec) for spec in operators),
            (*self.writers.values(), *self.taps.values(), *self.audit_sinks()),
            key_groups,
            readers=tuple(self.reader(i, n) for i, n in self.readers.items()),
            roots=current_roots(),
        )

    def audit_sinks(self) -> tuple[SinkSpec, ...]:
        """The sink of what operators record of expired rows, behind all others."""
        if self.audited is None:
            return ()
        writer = audit_sink(self.options, record_folder(self.options, FOLDER))
        columns = tuple((name, dtype) for name, dtype in RECORD.items())
        return (SinkSpec("state-audit", "audit of state", columns, writer, AUDIT),)

    def timed(self, spec: OperatorSpec) -> OperatorSpec:
        """An operator that works by event time, or is before one that does, with its channels."""
        if spec.node not in self.by_time:
            return spec
        number = self.nodes.operators[spec.node]
        channels = tuple(self.channels[number, i] for i in range(spec.inputs))
        own = {(i, c): ms for (n, i, c), ms in self.idle_timeouts.items() if n == number}
        return replace(spec, channels=channels, idle_timeout=self.idle_timeout, idle_timeouts=own)

    def reader(self, node: int, number: int) -> ReaderSpec:
        """A step that reads the watermark, with its channels."""
        own = {(0, c): ms for (n, i, c), ms in self.idle_timeouts.items() if (n, i) == (READER, number)}
        channels = self.channels[READER, number]
        return ReaderSpec(_uid(self.graph.node(node)), node, channels, self.idle_timeout, own)

    @property
    def idle_timeout(self) -> int:
        """Of channels without one of their own, ms."""
        return int(value(self.options, "table.exec.source.idle-timeout"))

    def way_of(self, node: ExecNode, steps: Sequence[Transform]) -> tuple[tuple[Transform, ...], tuple[ToReader, ...]]:
        """The transforms of a node on one of the ways to it, and where watermarks go that come that way."""
        if not any(t.reads_watermark for t in steps):
            return tuple(steps), ()
        number = self.readers.setdefault(node.id, len(self.readers))
        channel = self.channels[READER, number]
        self.channels[READER, number] += 1
        return tuple(WatermarkTap(t, number) if t.reads_watermark else t for t in steps), (ToReader(number, channel),)

    def pipeline(self, node: ExecNode, first: tuple[Transform, ...] = ()) -> Pipeline:
        """What happens to the rows of ``node`` up to the next operators and sinks."""
        outputs: list[Pipeline | ToOperator | ToSink | ToReader] = []
        if isinstance(node, Sink):
            to_table = ToSink(self.nodes.sinks[node.id], not self.writers[node.id].writer.needs_rows)
            numbers = {tapped: len(self.writers) + n for n, tapped in enumerate(self.taps)}
            return Pipeline(first, (to_table, *([ToSink(numbers[node.id])] if node.id in numbers else ())))
        for consumer, position in self.consumers[node.id]:
            part = self.nodes.parts[consumer.id]
            steps, reader = self.way_of(consumer, _steps(part))
            outputs.extend(reader)
            if isinstance(part, Stateful):
                number = self.nodes.operators[consumer.id]
                channel = self.channels[number, position]
                self.channels[number, position] += 1
                is_by_time = consumer.id in self.by_time
                to = ToOperator(number, position, tuple(columns(part.keys[position])), channel, is_by_time)
                outputs.append(Pipeline(steps, (to,)) if steps else to)
                continue
            after = self.pipeline(consumer)
            inner_pipeline = Pipeline((*steps, *after.transforms), after.outputs)
            outputs.extend([inner_pipeline] if inner_pipeline.transforms else inner_pipeline.outputs)
        if len(outputs) == 1 and isinstance(outputs[0], Pipeline):
            return Pipeline((*first, *outputs[0].transforms), outputs[0].outputs)
        return Pipeline(first, tuple(outputs))

    def operator(self, node: ExecNode) -> OperatorSpec:
        part = self.nodes.parts[node.id]
        assert isinstance(part, Stateful)
        inputs = self.graph.inputs(node)
        return OperatorSpec(
            _uid(node),
            node.label,
            part.kernel,
            self.nodes.ages[node.id],
            len(inputs),
            tuple(_schema(i.output_type) for i in inputs) if part.schemas is None else part.schemas,
            self.pipeline(node),
            self.nodes.levels[node.id],
            node=node.id,
            fields=InputFields(tuple(tuple(columns(k)) for k in part.keys), self.event_times.get(node.id, ())),
            late=self.sides.late_outputs(node, part),
            audit=self.operator_audit(node, part),
        )

    def operator_audit(self, node: ExecNode, part: Stateful) -> OperatorAudit | None:
        """What an operator records of expired rows that are needed; None if it records nothing."""
        if self.audited is None:
            return None
        inputs = [i.output_type for i in self.graph.inputs(node)]
        return OperatorAudit.of(len(self.writers) + len(self.taps), _uid(node), self.audited, part, inputs)

    def source(self, node: TableSourceScan | Values) -> SourceSpec:
        with self.graph.placing(node):
            return self._source(node)

    def _source(self, node: TableSourceScan | Values) -> SourceSpec:
        if isinstance(node, Values):
            types = tuple(f.type for f in node.output_type.fields)
            values = ValuesSource(node.tuples, types)
            marks = f"values-{_uid(node)}"
            return SourceSpec(_uid(node), "VALUES", "values", values, self.pipeline(node), node.id, marks)
        spec = node.scan_table_source
        table = spec.table.resolved_table
        if table is not None:
            check_scan(node, self.graph.pointer(node))
        read = source_table(spec, self.options, self.start_time)
        assert table is not None
        read, filters = with_abilities(spec, read)
        changes = source_changelog_mode(read.options) != INSERT_ONLY
        if filters or changes:
            # The first changes are not those of the first rows; and of what is filtered away nothing counts.
            read = replace(read, limit=None)
        if changes:
            # Behind a source of changes the plan filters once more, where both rows of an update are known.
            key = table.table_schema.primary_key
            names = key.columns if key else ()
            of_key = {i for i, (name, _) in enumerate(read.fields) if name in names}
            filters = [f for f in filters if {f[1][i] for i in input_refs(f[0])} <= of_key]
        output_fields: list[int | str] = [*read.projection, *read.metadata]
        filter_fields = {row[i] for predicate, row in filters for i in input_refs(predicate)}
        known_filters = [
            remap(f, dict(enumerate(row))) for f, row in filters if all(isinstance(row[i], int) for i in input_refs(f))
        ]
        read = replace(read, filters=tuple(known_filters))
        more = sorted(i for i in filter_fields if isinstance(i, int) and i not in read.projection)
        extra_metadata = sorted(k for k in filter_fields if isinstance(k, str) and k not in read.metadata)
        read = replace(read, projection=(*read.projection, *more), metadata=(*read.metadata, *extra_metadata))
        reader = read.connector.source(self.without_unread(node, read, filters))
        first = _filters(
            filters, output_fields, [*read.projection, *read.metadata], [f.type for f in node.output_type.fields]
        )
        first = (*first, *self.watermarks(node))
        marks = INSTANTS if isinstance(reader, InstantSource) else f"{read.connector.name}-{_uid(node)}"
        pipeline = self.pipeline(node, first)
        timeout = _idle_timeout(node)
        if timeout is not None:
            self.idle_timeouts |= dict.fromkeys(_channels(pipeline), timeout)
        if isinstance(reader, OffsetSource):
            reader.idle_timeout, reader.alignment = timeout or 0, _alignment(node, marks)
        return SourceSpec(
            _uid(node), read.name, read.connector.name, reader, pipeline, node.id, marks, self.sides.errors(node)
        )

    def without_unread(self, node: TableSourceScan, read: SourceTable, filters: Sequence[PushedFilter]) -> SourceTable:
        """A table without the texts in its ROW columns that the plan does not read.

        Args:
            node: its scan.
            read: the table.
            filters: the filters that are evaluated in front of the rest of the plan.
        """
        if not read.leaves_out:
            return read
        columns: list[int | str] = [*read.projection, *read.metadata]
        reads = list(zip(columns, self.reads[node.id], strict=False))
        abilities = node.scan_table_source.abilities
        watermarks = [(a.watermark_expr, columns) for a in abilities if isinstance(a, WatermarkPushDown)]
        expressions = [*filters, *watermarks]
        reads += [(row[index], {path}) for rex, row in expressions for index, path in read_paths(rex)]
        paths: dict[int | str, set[Path]] = defaultdict(set)
        for place, of in reads:
            paths[place] |= of
        fields = ((name, prune_type(t, paths[i]) if i in paths else t) for i, (name, t) in enumerate(read.fields))
        return replace(read, fields=tuple(fields))

    def watermarks(self, node: TableSourceScan) -> Iterator[Transform]:
        """What a source does that makes the watermarks itself."""
        from stateplan.runtime.transforms.calc import WatermarkTransform

        for ability in node.scan_table_source.abilities:
            if isinstance(ability, WatermarkPushDown):
                fields = node.output_type.fields
                rowtime = next((i for i, f in enumerate(fields) if f.type.kind == "ROWTIME"), None)
                name = "" if rowtime is None else fields[rowtime].name
                is_aligned = _alignment(node, "") is not None
                yield WatermarkTransform(
                    ability.watermark_expr, rowtime, name, local_time_zone(self.options), is_aligned
                )

    def sink(self, node: ExecNode) -> SinkSpec:
        with self.graph.placing(node):
            return self._sink(node)

    def _sink(self, node: ExecNode) -> SinkSpec:
        assert isinstance(node, Sink)
        uid = f"{_uid(node)}-{self.job_id}"
        table = sink_table(node.dynamic_table_sink, self.options, node.written_fields, uid)
        return SinkSpec(uid, table.name, node.written_fields, table.connector.sink(table), node.id)


def _consumers(graph: ExecGraph) -> dict[int, list[tuple[ExecNode, int]]]:
    """The nodes behind each node, with the number of their input."""
    out: dict[int, list[tuple[ExecNode, int]]] = {node.id: [] for node in graph.nodes}
    counts: Counter[int] = Counter()
    for source, target in graph.edges:
        out[source].append((graph.node(target), counts[target]))
        counts[target] += 1
    return out


def _filters(
    filters: Sequence[PushedFilter],
    output_fields: Sequence[int | str],
    read: Sequence[int | str],
    types: Sequence[LogicalType],
) -> tuple[Transform, ...]:
    """The predicates a source was given, and the projection to its output.

    Fields are physical ones by position, or metadata by key.

    Args:
        filters: predicates, each with the fields of the row it is over: those the source produced when it got it.
        output_fields: the fields of the output, of ``types``.
        read: the fields that are read, at least these and those of the predicates.
    """
    if not filters:
        return ()
    terms = [remap(predicate, {i: read.index(row[i]) for i in input_refs(predicate)}) for predicate, row in filters]
    condition = terms[0] if len(terms) == 1 else Call(BOOLEAN, tuple(terms), internal_name="$AND$1", syntax="BINARY")
    refs = tuple(InputRef(t, read.index(f)) for t, f in zip(types, output_fields, strict=True))
    return (CalcTransform(refs, condition),)


def _channels(pipeline: Pipeline) -> Iterator[tuple[int, int, int]]:
    """The channels of operators that a pipeline leads to: operator, input, channel."""
    for to in targets(pipeline):
        if isinstance(to, ToOperator):
            yield to.operator, to.input, to.channel
        elif isinstance(to, ToReader):
            yield READER, to.reader, to.channel


def _idle_timeout(node: TableSourceScan) -> int | None:
    """After how many milliseconds a part of a source that makes watermarks is idle, 0 for never; None for a source that
    does not make them. Source: Flink's ``WatermarkPushDownSpec``."""
    for ability in node.scan_table_source.abilities:
        if isinstance(ability, WatermarkPushDown):
            params = ability.watermark_params
            own = params.source_idle_timeout if params is not None else -1
            return max(0, own if own > 0 else ability.idle_timeout_millis)
    return None


def _alignment(node: TableSourceScan, source: str) -> Alignment | None:
    """How the source of this name is aligned; None if it is not. Raises PlanError PLAN044."""
    for ability in node.scan_table_source.abilities:
        params = ability.watermark_params if isinstance(ability, WatermarkPushDown) else None
        group = (params.align_group_name or "").strip() if params is not None else ""
        if params is not None and group:
            drift = _millis(params.align_max_drift)
            if drift > 0 and _millis(params.align_update_interval) > 0:
                return Alignment(group, drift, source)
    return None


def _millis(duration: Any) -> int:
    """Milliseconds of a duration in a plan; 0 for none. Raises PlanError PLAN044."""
    if duration is not None and not isinstance(duration, str):
        raise PlanError("PLAN044.duration", shown=value_text(duration), expected='a text such as "PT5S"')
    return parse_duration(duration) if duration else 0


def _steps(part: Stateful | Stateless) -> tuple[Transform, ...]:
    """The transforms of a node."""
    return part.before if isinstance(part, Stateful) else part.transforms


def _uid(node: ExecNode) -> str:
    return str((node.stateplan or {})["uid"])


def _schema(row: LogicalType) -> dict[str, Any]:
    return {name: f.type.polars() for name, f in zip(columns(len(row.fields)), row.fields, strict=True)}
