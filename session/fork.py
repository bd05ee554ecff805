"""Runs a changed plan beside the old one, from a copy of the old plan's checkpoint, and gives how they differ.

Both plans run as one job, which a new checkpoint for both begins. So they read the same rows in the same micro-batches,
and an operator that they have in common runs once. Sinks write nothing but what is compared then.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stateplan.common.errors import OptionError, RunError, StateplanError
from stateplan.connectors.blackhole import Nothing
from stateplan.connectors.protocol import OffsetSource
from stateplan.connectors.registry import known_connector
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.merged_plans import merge_graphs, require_keys
from stateplan.execnodes.node_tables import table_of
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.shadows import SIDES
from stateplan.plans.document import PlanDocument
from stateplan.plans.fork import Fork
from stateplan.runtime.checkpoint.directory import Checkpoint
from stateplan.runtime.checkpoint.savepoint import copy_finished
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.scratch import scratch
from stateplan.runtime.shadows import ShadowSink
from stateplan.runtime.spark.hadoop import CHECKPOINT_DIR
from stateplan.session.restart import OUTPUT, Evolution, past_state
from stateplan.session.shadow import both_continue, compare_plans, with_sides
from stateplan.session.trial import NOT_HERE, require_end, table_options, until_now

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
        self.evolution = Evolution.between(origin.plan_text, document, self.options, past_state(origin))
        self.evolution.check(checkpoint)
        self.plans = self.evolution.old, document
        for plan in self.plans:
            _require_second_reader(plan.graph)
            require_keys(plan.graph)

    def run(self, millis: int | None) -> Fork:
        """Runs both plans. Argument and errors as of :func:`try_from_checkpoint`."""
        restored_plan = self.starter.restore_plans(self.plans)
        merged_plan = merge_graphs(restored_plan.graphs)
        places = dict(zip(SIDES, merged_plan.places, strict=True))
        ends = all(_is_bounded(node) for node in merged_plan.graph.nodes if isinstance(node, TableSourceScan))
        graph = with_sides(merged_plan.graph, dict(zip(SIDES, restored_plan.graphs, strict=True)), places)
        if millis is None:
            graph = until_now(graph)
            require_end(graph)

        def adapt(job: JobGraph) -> JobGraph:
            for source in job.sources:
                if isinstance(source.reader, OffsetSource):
                    source.reader.acknowledges = False
            sinks = (s if isinstance(s.writer, ShadowSink) else replace(s, writer=Nothing()) for s in job.sinks)
            return replace(job, sinks=tuple(sinks), open_ended=job.open_ended or not ends)

        continuation = both_continue(self.evolution, places)
        job = self.starter.start_evolved(restored_plan.having(graph), str(self.folder / _COPY), continuation, adapt)
        if not job.wait(None if millis is None else millis / 1000):
            _finish(job)
        return compare_plans(self.folder / "checkpoint", graph, self.options, self.checkpoint, self.batch)


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
