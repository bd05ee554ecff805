"""Tries TTLs: runs variants of a plan over the same bounded input, as one job, and gives what each of them did.

Operators that work alike in several variants run once: those whose TTLs, and whose inputs, are the same. So the input
is read once, and each variant costs what differs. Sinks write changes to files of their own, which are compared then.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stateplan.common.errors import OptionError
from stateplan.common.ttl import NEVER
from stateplan.connectors.blackhole import Blackhole
from stateplan.connectors.filesystem import Filesystem
from stateplan.connectors.registry import known_connector
from stateplan.connectors.replay import Replay
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.merged_plans import MergedPlan, merge_graphs, require_keys
from stateplan.execnodes.node_tables import table_of, with_table
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.sink import Sink
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.specs import Column, ContextResolvedTable, TableSchema
from stateplan.plans.document import PlanDocument
from stateplan.plans.edit import plan_edit
from stateplan.plans.plan_metadata import PlanFacts
from stateplan.plans.selector_text import Assignment
from stateplan.plans.states import state_views
from stateplan.plans.trial import Outcome, Point, Trial, Variant, blamed, table_rows
from stateplan.runtime.budget import BUDGET
from stateplan.runtime.checkpoint.savepoint import RECOVERY_PATH
from stateplan.runtime.metrics.log import read_job, read_metrics
from stateplan.runtime.scratch import scratch
from stateplan.runtime.spark.hadoop import CHECKPOINT_DIR

if TYPE_CHECKING:
    from stateplan.session.environment import TableEnvironment

_NOTHING = {"connector": Blackhole.name}
_LONG = 10_000 * 86_400_000
NOT_HERE = {
    "table.plan.restore.catalog-objects": "ALL",
    "pipeline.name": "trial",
    RECOVERY_PATH: "",
    BUDGET: "",
}
"""What of the session's options does not hold for a trial."""


def try_plan(environment: TableEnvironment, document: PlanDocument, variants: Sequence[Variant]) -> Trial:
    """Runs variants of a plan over its input, which has to end, and compares them with the first one.

    Args:
        environment: has the tables, as far as the plan does not, and the options.
        document: the plan.
        variants: their TTLs; the first one is what the others are compared with.

    Raises:
        PlanError: a selector fits no state; the plan cannot be run.
        OptionError: OPT169, an input does not end.
        StateplanError: whatever else makes the job fail.
    """
    require_keys(document.graph)
    folder = Path(scratch("trial"))
    try:
        runs = [*variants, *blamed(variants)]
        graphs = [_with_ttls(document, variant.assignments).graph for variant in runs]
        merged_plan = merge_graphs(graphs)
        graph = with_file_sinks(until_now(merged_plan.graph), folder)
        require_end(graph)
        checkpoint = folder / "checkpoint"
        began = time.monotonic()
        _run(environment, graph, checkpoint)
        seconds = time.monotonic() - began
        outcomes = [
            _outcome(variant, document.graph, merged_plan, number, checkpoint, folder)
            for number, variant in enumerate(runs)
        ]
        clocked = any(isinstance(known_connector(table_options(node)), Replay) for node in graph.nodes)
        rows = _rows_read(checkpoint)
        return Trial(tuple(outcomes[: len(variants)]), tuple(outcomes[len(variants) :]), rows, seconds, clocked)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def observed_run(environment: TableEnvironment, document: PlanDocument) -> Iterator[Path]:
    """Runs a plan over its input, which has to end, without forgetting anything; gives its checkpoint within the block.
    Its sinks write nothing.

    Args:
        environment: as for :func:`try_plan`.
        document: the plan.

    Raises:
        OptionError: OPT169, an input does not end.
        StateplanError: whatever else makes the job fail.
    """
    folder = Path(scratch("advise"))
    try:
        graph = until_now(_without_expiry(document).graph)
        require_end(graph)
        graph = graph.replace([with_sink(node, _NOTHING) for node in graph.nodes if isinstance(node, Sink)])
        checkpoint = folder / "checkpoint"
        _run(environment, graph, checkpoint)
        yield checkpoint
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(environment: TableEnvironment, graph: ExecGraph, checkpoint: Path) -> None:
    """Runs a plan to its end on a checkpoint of its own."""
    with environment.get_config().overlaid({CHECKPOINT_DIR: str(checkpoint), **NOT_HERE}):
        environment.session.starter.document(PlanDocument.from_graph(graph, PlanFacts())).wait()


def _without_expiry(document: PlanDocument) -> PlanDocument:
    """A copy of a plan in which no state expires; where reads refresh it, they do so with a TTL longer than any run."""
    edits = []
    for view in state_views(document.graph, document.uids):
        if view.source != "time":
            edits.append((view.node_id, view.index, _LONG if view.update_type == "OnReadAndWrite" else NEVER))
    return document.with_splices(document.ttl_splices(edits)) if edits else document


def _with_ttls(document: PlanDocument, assignments: Sequence[Assignment]) -> PlanDocument:
    """A copy of a plan with other TTLs."""
    edit = plan_edit(document, assignments)
    return document.with_splices(edit.splices) if edit.splices else document


def table_options(node: ExecNode) -> Mapping[str, str]:
    table = table_of(node)
    resolved_table = None if table is None else table.resolved_table
    return (resolved_table.options if resolved_table is not None else None) or {}


def until_now(graph: ExecGraph) -> ExecGraph:
    """The graph with sources that end: files that are there now, a topic up to its present end."""
    changed_nodes = []
    for node in graph.nodes:
        options = table_options(node) if isinstance(node, TableSourceScan) else {}
        connector = known_connector(options)
        ending = options if connector is None else connector.until_now(options)
        if ending != options:
            changed_nodes.append(_with_options(node, ending))
    return graph.replace(changed_nodes)


def require_end(graph: ExecGraph) -> None:
    """Raises OptionError OPT169, when a source of the graph does not end."""
    for node in graph.nodes:
        table = table_of(node) if isinstance(node, TableSourceScan) else None
        if table is None:
            continue
        connector = known_connector(table_options(node))
        if table.resolved_table is None:
            raise OptionError("OPT169.sink", name=table.summary)
        if connector is not None and not connector.is_bounded(table_options(node)):
            raise OptionError("OPT169", name=table.summary)


def _with_options(node: ExecNode, options: Mapping[str, str]) -> ExecNode:
    table = table_of(node)
    assert table is not None and table.resolved_table is not None
    new_table = table.resolved_table.model_copy(update={"options": dict(options)})
    # Under its own name it would be read as the session's catalog has it.
    return with_table(node, ContextResolvedTable(identifier=_name(node), resolved_table=new_table))


def _name(node: ExecNode) -> str:
    return f"`default_catalog`.`default_database`.`trial-{node.id}`"


def with_file_sinks(graph: ExecGraph, folder: Path) -> ExecGraph:
    """The graph whose sinks write their changes to files."""
    options = {"connector": Filesystem.name, "format": "debezium-json"}
    return graph.replace(
        [
            with_sink(node, {**options, "path": str(folder / f"sink-{node.id}")})
            for node in graph.nodes
            if isinstance(node, Sink)
        ]
    )


def with_sink(sink: Sink, options: Mapping[str, str], identifier: str | None = None) -> ExecNode:
    """The sink with another table, of the same columns and key; ``identifier`` is its name."""
    spec = sink.dynamic_table_sink
    resolved_table = spec.table.resolved_table
    if resolved_table is None:
        raise OptionError("OPT169.sink", name=spec.table.summary)
    columns = tuple(_columns(resolved_table.table_schema))
    schema = resolved_table.table_schema.model_copy(update={"columns": columns, "watermark_specs": ()})
    table = resolved_table.model_copy(update={"table_schema": schema, "options": dict(options), "partition_keys": ()})
    catalog_table = ContextResolvedTable(identifier=identifier or _name(sink), resolved_table=table)
    return sink.replace(dynamic_table_sink=spec.model_copy(update={"table": catalog_table, "abilities": ()}))


def _columns(schema: TableSchema) -> Sequence[Column]:
    """The columns that a sink gets, as physical ones."""
    metadata = (c for c in schema.columns if c.kind == "METADATA" and not c.is_virtual)
    return [*(c for c in schema.columns if c.kind == "PHYSICAL"), *map(_plain, metadata)]


def _plain(column: Column) -> Column:
    return column.model_copy(update={"kind": "PHYSICAL", "metadata_key": None, "is_virtual": None})


def _rows_read(checkpoint: Path) -> int:
    job = read_job(checkpoint)
    sources = {o.uid for o in job.operators if o.kind == "source"} if job is not None else set()
    records = read_metrics(checkpoint)
    return int(sum(r.operators.get(uid, {}).get("rows_in", 0) for r in records for uid in sources))


def _outcome(
    variant: Variant, graph: ExecGraph, merged_plan: MergedPlan, number: int, checkpoint: Path, folder: Path
) -> Outcome:
    """What a variant has done."""
    place = merged_plan.places[number]
    job = read_job(checkpoint)
    mine = {o.uid for o in job.operators if o.id in place.values()} if job is not None else set()
    points = []
    for record in read_metrics(checkpoint):
        sizes = [size for uid, size in record.state.items() if uid in mine]
        state_bytes = sum(f.get("state_bytes_written", 0) for uid, f in record.operators.items() if uid in mine)
        rows, size = sum(sum(s.rows) for s in sizes), sum(sum(s.bytes) for s in sizes)
        points.append(Point(record.time, rows, size, int(state_bytes)))
    sinks = {}
    for node in graph.sinks:
        assert isinstance(node, Sink)
        name = node.dynamic_table_sink.table.path[-1]
        name = f"{name}[{node.id}]" if name in sinks else name
        sinks[name] = table_rows(folder / f"sink-{place[node.id]}", node.row_key, node.gets_upserts)
    return Outcome(variant, sinks, tuple(points))
