"""The job of a plan and its shadow: how both become one plan, and one of them alone again.

The checkpoint of such a job has both plans in its folder ``shadow``.

Codes: OPT169, RUN067, RUN068.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from stateplan.common.errors import RunError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath, write_whole
from stateplan.connectors.registry import known_connector
from stateplan.evolution.estimate import state_sizes
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.merged_plans import MergedPlan, merge_graphs, require_keys
from stateplan.execnodes.node_tables import table_of
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.sink import Sink
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.shadows import SHADOW, SIDES, Side, shadow_pairs, side_of, sink_pairs
from stateplan.execnodes.side_outputs import side_output
from stateplan.plans.backfill import upstream
from stateplan.plans.document import PlanDocument
from stateplan.plans.fork import Fork, PlanFigures, SinkDifference
from stateplan.plans.plan_metadata import PlanFacts
from stateplan.runtime.checkpoint.slots import Continuation
from stateplan.runtime.inspect.inspection import Snapshot
from stateplan.runtime.metrics.log import read_job, read_metrics
from stateplan.runtime.shadows import FOLDER, record_of
from stateplan.session.restart import Evolution

_RECENT = 100
"""The times of this number of micro-batches are reported."""


@dataclass(frozen=True)
class ShadowPlan:
    """A plan and a changed plan as one.

    Attributes:
        plans: both, with the whole of every table.
        document: the one, whose sinks say to which plan they belong.
        places: per plan, the id in the one of each of its nodes.
    """

    plans: Mapping[Side, PlanDocument]
    document: PlanDocument
    places: Mapping[Side, Mapping[int, int]]

    @staticmethod
    def of(old: PlanDocument, new: PlanDocument) -> ShadowPlan:
        """Both plans as one.

        Raises:
            OptionError: OPT169, a sink gets updates whose rows nothing distinguishes.
            RunError: RUN068, they do the same, or have a sink that cannot be compared.
        """
        for document in (old, new):
            _require_comparable(document.graph)
        for pair in sink_pairs(old.graph.sinks, new.graph.sinks):
            has_upserts = any(sink is not None and sink.gets_upserts for sink in (pair.old, pair.new))
            if has_upserts and not pair.key:
                raise RunError("RUN068", table=pair.name, why="both plans distinguish its rows by other columns")
        merged_plan = merge_graphs((old.graph, new.graph))
        places = dict(zip(SIDES, merged_plan.places, strict=True))
        if _does_the_same(merged_plan):
            raise RunError("RUN068.same")
        _require_one_reader(merged_plan.graph, (old.graph, new.graph))
        graph = with_sides(merged_plan.graph, {"old": old.graph, "new": new.graph}, places)
        return ShadowPlan({"old": old, "new": new}, PlanDocument.from_graph(graph, PlanFacts()), places)

    @staticmethod
    def in_checkpoint(folder: AnyPath) -> ShadowPlan:
        """That of the job of a checkpoint. Raises OSError."""
        old, new = (PlanDocument.parse((folder / FOLDER / f"{side}.json").read_text()) for side in SIDES)
        return ShadowPlan.of(old, new)

    def write(self, folder: AnyPath) -> None:
        """Keeps both plans in the checkpoint of the job. Raises OSError."""
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        for side, document in self.plans.items():
            write_whole(folder / FOLDER / f"{side}.json", document.text)

    def continuation(self, evolution: Evolution) -> Continuation:
        """How both together continue from the state of the old one.

        Args:
            evolution: how the new one alone would.
        """
        return both_continue(evolution, self.places)

    def alone(self, side: Side) -> Continuation:
        """How one of them continues from the state of both: it finds all of its own."""
        places = self.places[side]
        return Continuation(self.document.graph, places, places, leaves_sources=True)


def with_sides(
    graph: ExecGraph, plans: Mapping[Side, ExecGraph], places: Mapping[Side, Mapping[int, int]]
) -> ExecGraph:
    """Two plans as one, whose sinks say to which of them they belong, but for side outputs.

    Args:
        graph: the one.
        plans: the two.
        places: as of :class:`ShadowPlan`.
    """
    marks = {
        places[side][node.id]: side for side, plan in plans.items() for node in plan.sinks if side_output(node) is None
    }
    return graph.replace([graph.node(node).replace(stateplan={SHADOW: side}) for node, side in marks.items()])


def compare_plans(folder: AnyPath, graph: ExecGraph, options: Mapping[str, str], origin: str, batch: int) -> Fork:
    """What both plans have done. Their job may run.

    Args:
        folder: the checkpoint of the job.
        graph: the plan, whose sinks say to which of both they belong.
        options: the options of the session.
        origin, batch: the checkpoint that it began from, and its last micro-batch.

    Raises:
        CheckpointError: the checkpoint cannot be read.
        OSError: what the plans have written cannot be read.
    """
    snapshot, job, records = Snapshot.open(folder), read_job(folder), read_metrics(folder)
    sizes = state_sizes(snapshot, snapshot.layout.operators, options)
    figures: dict[str, PlanFigures] = {}
    for side in SIDES:
        sinks = (node for node in graph.sinks if side_of(node) == side)
        nodes = set[int]().union(*(upstream(graph, sink) for sink in sinks))
        kinds = {o.uid: o.kind for o in job.operators if o.id in nodes} if job is not None else {}
        by_batch = [[f for uid, f in record.operators.items() if uid in kinds] for record in records]
        read = (f for record in records for uid, f in record.operators.items() if kinds.get(uid) == "source")
        own_sizes = [size for node, size in sizes.items() if node in nodes]
        figures[side] = PlanFigures(
            int(sum(f.get("rows_in", 0) for f in read)),
            sum(rows for rows, _ in own_sizes),
            sum(size for _, size in own_sizes),
            int(sum(f.get("state_bytes_written", 0) for some in by_batch for f in some)),
            tuple(sum(f.get("busy_ms", 0.0) for f in some) for some in by_batch[-_RECENT:]),
        )
    differences = (
        SinkDifference.of(pair.name, (pair.old is not None, pair.new is not None), record_of(folder, number).read())
        for number, pair in enumerate(shadow_pairs(graph))
    )
    millis = tuple(record.ms for record in records[-_RECENT:])
    return Fork(origin, batch, millis, figures, tuple(differences), sum(record.batches for record in records))


def both_continue(evolution: Evolution, places: Mapping[Side, Mapping[int, int]]) -> Continuation:
    """How a plan and a changed plan, as one, continue from the state of the first. A node that they have in common
    continues as that of the old one.

    Args:
        evolution: how the changed plan alone would.
        places: as of :class:`ShadowPlan`.
    """
    old, new = (places[side] for side in SIDES)
    own = {node: place for node, place in new.items() if place not in old.values()}
    back = {place: node for node, place in old.items()}
    part = evolution.continuation
    return Continuation(
        part.graph,
        back | {own[n]: was for n, was in part.operators.items() if n in own},
        back | {own[n]: was for n, was in part.sources.items() if n in own},
        moves={own[n]: move for n, move in part.moves.items() if n in own},
        anew=frozenset(own[n] for n in part.anew if n in own),
        comparisons={own[n]: pair for n, pair in part.comparisons.items() if n in own},
        begins={new[n]: at for n, at in part.begins.items()},
        keepers={own[n]: frozenset((new[k], i) for k, i in some) for n, some in part.keepers.items() if n in own},
        kept_moves={(new[k], i): move for (k, i), move in part.kept_moves.items()},
        may_begin_empty=part.may_begin_empty,
    )


def _require_comparable(graph: ExecGraph) -> None:
    """Raises OptionError OPT169, RunError RUN068."""
    require_keys(graph)
    for node in _sinks(graph.sinks):
        table = node.dynamic_table_sink.table.summary
        if side_output(node) is not None:
            raise RunError("RUN068", table=table, why="late rows and invalid input are not")
        if not node.written_fields:
            raise RunError("RUN068", table=table, why="the plan does not say what its columns are")


def _require_one_reader(graph: ExecGraph, plans: Sequence[ExecGraph]) -> None:
    """Raises RunError RUN068, when two plans as one read a table more often than each, and it serves one reader."""
    alone = [_single_readers(plan) for plan in plans]
    for table, count in _single_readers(graph).items():
        if count > max(counts[table] for counts in alone):
            why = f"the plans read it differently, and {table[1]}"
            raise RunError("RUN068", table=table[0], why=why)


def _single_readers(graph: ExecGraph) -> Counter[tuple[str, str]]:
    """How often a plan reads each table that serves one reader, with the reason."""
    counts: Counter[tuple[str, str]] = Counter()
    for node in graph.nodes:
        table = table_of(node) if isinstance(node, TableSourceScan) else None
        options = table.resolved_table.options if table is not None and table.resolved_table is not None else None
        connector = known_connector(options) if options else None
        if table is not None and connector is not None and connector.single_reader is not None:
            counts[table.summary, connector.single_reader] += 1
    return counts


def _sinks(nodes: Iterable[ExecNode]) -> list[Sink]:
    return [node for node in nodes if isinstance(node, Sink)]


def _does_the_same(plan: MergedPlan) -> bool:
    """Whether two plans have the same operators, and write the same to the same tables."""
    kinds = [set() for _ in plan.places]  # type: list[set[tuple[object, ...]]]
    for own, place in zip(kinds, plan.places, strict=True):
        for number in place.values():
            node = plan.graph.node(number)
            inputs = tuple(source.id for source in plan.graph.inputs(node))
            own.add((str(node.meaning()), inputs) if isinstance(node, Sink) else (number,))
    return kinds[0] == kinds[1]
