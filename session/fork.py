"""Runs a changed plan beside the old one, from a copy of the old plan's checkpoint, and gives how they differ.

Both plans run as one job, which a new checkpoint for both begins. So they read the same rows in the same micro-batches,
and an operator that they have in common runs once. Sinks write changes to files of their own, which are compared then.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stateplan.common.errors import OptionError, RunError, StateplanError
from stateplan.connectors.protocol import OffsetSource
from stateplan.connectors.registry import known_connector
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.merged_plans import MergedPlan, merge_graphs, require_keys
from stateplan.execnodes.node_tables import table_of
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.shadows import SIDES, sink_pairs
from stateplan.plans.document import PlanDocument
from stateplan.plans.fork import Fork, PlanFigures, SinkChanges, SinkDifference
from stateplan.runtime.checkpoint.directory import Checkpoint
from stateplan.runtime.checkpoint.savepoint import copy_finished
from stateplan.runtime.evolution.estimate import listed_sizes
from stateplan.runtime.inspect.inspection import Snapshot
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.metrics.log import read_job, read_metrics
from stateplan.runtime.scratch import scratch
from stateplan.runtime.spark.hadoop import CHECKPOINT_DIR
from stateplan.session.restart import OUTPUT, Evolution
from stateplan.session.shadow import both_continue
from stateplan.session.trial import (
    NOT_HERE,
    require_end,
    table_options,
    until_now,
    with_file_sinks,
)

if TYPE_CHECKING:
    from stateplan.runtime.job import Job
    from stateplan.session.environment import TableEnvironment


def try_from_checkpoint(
    environment: TableEnvironment, document: PlanDocument, checkpoint: str, millis: int | None = None
) -> Fork:
    """Runs a plan and the plan of a checkpoint from there on. Nothing is written to the checkpoint and to sinks, and
    sources acknowledge nothing.

    Args:
        environment: has the tables, as far as the plans do not, and the options.
        document: the changed plan.
        checkpoint: the path of the checkpoint, or of a savepoint. Its job may run.
        millis: for how long the plans run, ms; None until they have read the input that there is now.

    Raises:
        CheckpointError: what keeps ``plan evolve`` from making a checkpoint, but a running job.
        OptionError: OPT169, an input cannot be read beside the job, or does not end.
        StateplanError: whatever else makes the job fail.
    """
    folder = Path(scratch("fork"))
    try:
        options = {CHECKPOINT_DIR: str(folder / "checkpoint"), OUTPUT: "changes", **NOT_HERE}
        with environment.get_config().overlaid(options):
            return _Trial(environment, document, checkpoint, folder).run(millis)
    except StateplanError as error:
        raise _naming(checkpoint, str(folder / _COPY), error) from error.__cause__
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _naming(path: str, copy: str, error: StateplanError) -> StateplanError:
    """An error with the path that the user gave in place of the copy's."""
    texts = (error.message, error.expected, error.hint)
    message, expected, hint = (text and text.replace(copy, path) for text in texts)
    return type(error).with_text(error.code, message or "", place=error.place, expected=expected, hint=hint)


_COPY = "origin"
"""The folder of the copy of the checkpoint."""


class _Trial:
    """A trial, in a folder that is removed later. Arguments as of :func:`try_from_checkpoint`."""

    def __init__(self, environment: TableEnvironment, document: PlanDocument, checkpoint: str, folder: Path) -> None:
        self.starter = environment.session.starter
        self.options = environment.get_config().to_dict()
        self.checkpoint, self.folder = checkpoint, folder
        self.batch = copy_finished(checkpoint, folder / _COPY, self.options)
        origin = Checkpoint.look(folder / _COPY)
        self.evolution = Evolution.between(origin.plan_text, document, self.options, origin.past_ttls())
        self.evolution.check(checkpoint)
        self.plans = self.evolution.old, document
        for plan in self.plans:
            _require_second_reader(plan.graph)
            require_keys(plan.graph)

    def run(self, millis: int | None) -> Fork:
        """Runs both plans. Argument and errors as of :func:`try_from_checkpoint`."""
        restored_plan = self.starter.restore_plans(self.plans)
        merged_plan = merge_graphs(restored_plan.graphs)
        ends = all(_is_bounded(node) for node in merged_plan.graph.nodes if isinstance(node, TableSourceScan))
        graph = with_file_sinks(merged_plan.graph if millis is not None else until_now(merged_plan.graph), self.folder)
        if millis is None:
            require_end(graph)
        continuation = both_continue(self.evolution, dict(zip(SIDES, merged_plan.places, strict=True)))

        def adapt(job: JobGraph) -> JobGraph:
            for source in job.sources:
                if isinstance(source.reader, OffsetSource):
                    source.reader.acknowledges = False
            return job if ends else replace(job, open_ended=True)

        job = self.starter.start_evolved(restored_plan.having(graph), str(self.folder / _COPY), continuation, adapt)
        if not job.wait(None if millis is None else millis / 1000):
            _finish(job)
        return self._comparison(merged_plan)

    def _comparison(self, merged_plan: MergedPlan) -> Fork:
        """What the plans did."""
        folder = self.folder / "checkpoint"
        snapshot, job, records = Snapshot.open(folder), read_job(folder), read_metrics(folder)
        sizes = listed_sizes(snapshot, snapshot.layout.operators, self.options)
        figures = {}
        for name, place in zip(("old", "new"), merged_plan.places, strict=True):
            own = {o.uid: o.kind for o in job.operators if o.id in place.values()} if job is not None else {}
            figures_by_batch = [[f for uid, f in record.operators.items() if uid in own] for record in records]
            source_figures = (
                f for record in records for uid, f in record.operators.items() if own.get(uid) == "source"
            )
            state_sizes = [size for node, size in sizes.items() if node in place.values()]
            figures[name] = PlanFigures(
                int(sum(f.get("rows_in", 0) for f in source_figures)),
                sum(rows for rows, _ in state_sizes),
                sum(size for _, size in state_sizes),
                int(sum(f.get("state_bytes_written", 0) for some in figures_by_batch for f in some)),
                tuple(sum(f.get("busy_ms", 0.0) for f in some) for some in figures_by_batch),
            )
        sinks = tuple(self._sinks(merged_plan.places))
        millis = tuple(record.ms for record in records)
        return Fork(self.checkpoint, self.batch, millis, figures, sinks)

    def _sinks(self, places: Sequence[Mapping[int, int]]) -> Iterator[SinkDifference]:
        """How the sinks differ, in the order of the old plan and then of the new one."""
        for pair in sink_pairs(*(plan.graph.sinks for plan in self.plans)):
            changes = [
                None if sink is None else SinkChanges.read(self.folder / f"sink-{place[sink.id]}", pair.key)
                for sink, place in zip((pair.old, pair.new), places, strict=True)
            ]
            yield SinkDifference.of(pair.name, *changes)


def _finish(job: Job) -> None:
    """Ends a job at the end of a micro-batch, unless it has ended by itself just now."""
    try:
        job.finish()
    except RunError:
        if not job.wait(0):
            raise


def _is_bounded(scan: TableSourceScan) -> bool:
    options = table_options(scan)
    connector = known_connector(options)
    return connector is None or connector.is_bounded(options)


def _require_second_reader(graph: ExecGraph) -> None:
    """Raises OptionError OPT169, when a table can have no second reader."""
    for node in graph.nodes:
        connector = known_connector(table_options(node)) if isinstance(node, TableSourceScan) else None
        table = table_of(node)
        if connector is not None and table is not None and connector.single_reader is not None:
            raise OptionError("OPT169.single_reader", name=table.summary, why=connector.single_reader)
