"""Starts the jobs of a session, and gives their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from stateplan.common.changelog import INSERT_ONLY
from stateplan.common.errors import CheckpointError
from stateplan.common.importing import importing
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.settings import Configuration, of_mode, value
from stateplan.common.types import BIGINT
from stateplan.common.zone import local_time_zone
from stateplan.connectors.results import ResultChannel
from stateplan.execnodes.node_tables import table_of, with_secrets
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.plans.document import PlanDocument
from stateplan.plans.plan_metadata import PlanFacts
from stateplan.runtime.failures import coded_error
from stateplan.session.compiler import Compiler
from stateplan.session.host import Host
from stateplan.session.job_reports import JobReports, job_reports
from stateplan.session.jobs import JobRecord, Jobs
from stateplan.session.plan_secrets import clear_text_notes, hide_secrets, without_secrets
from stateplan.session.results import ResultKind, TableResult, distinct_names
from stateplan.session.script import Inserts

if TYPE_CHECKING:
    from sqlglot import exp

    from stateplan.common.secrets import Secrets
    from stateplan.connectors.history_table import HistoryTable
    from stateplan.evolution.evolve import Evolved
    from stateplan.execnodes.graph import ExecGraph
    from stateplan.execnodes.shadows import Side
    from stateplan.runtime.budget import Limits
    from stateplan.runtime.checkpoint.slots import Continuation
    from stateplan.runtime.job import Job, OnProgress
    from stateplan.runtime.jobgraph import JobGraph
    from stateplan.runtime.spark.session import SparkSession
    from stateplan.runtime.start import Submission
    from stateplan.session.evolution_preview import EvolutionPreview

Around: TypeAlias = AbstractContextManager[None]
"""What is done around the start of a job."""


@dataclass(frozen=True)
class RestoredPlans:
    """Plans with their tables, without secrets.

    Attributes:
        graphs: of each.
        secrets: the secrets of their tables.
    """

    graphs: tuple[ExecGraph, ...]
    secrets: Secrets

    def having(self, graph: ExecGraph) -> RestoredPlans:
        """One plan that was made of them."""
        return RestoredPlans((graph,), self.secrets)


@dataclass
class JobStarter:
    """Starts jobs: of INSERTs, of queries, and of plans that were read.

    Attributes:
        catalog, config, host, jobs: of the session.
        compiler: plans what is not planned yet.
        console, on_progress, spark: as ``TableEnvironment`` has them.
    """

    catalog: CatalogManager
    config: Configuration
    host: Host
    jobs: Jobs
    compiler: Compiler
    console: Callable[[str], None] | None = None
    on_progress: OnProgress | None = None
    spark: SparkSession | None = None

    @coded_error()
    def inserts(self, inserts: Inserts, statement: str, around: Around | None = None) -> TableResult:
        """Starts INSERTs as one job, ``around`` the start once they are planned. Raises StateplanError."""
        plan = self.compiler.inserts(inserts)
        document = PlanDocument.from_graph(plan.graph, PlanFacts())
        notes: list[str] = []
        record = JobRecord(self._name(plan.graph), plan.sql, document.text)
        with around or nullcontext():
            job = self._start(document, plan.graph, notes, record, plan.secrets)
        return self._sink_result(job, notes, statement, document)

    @coded_error()
    def query(self, query: exp.Expr, source: str) -> TableResult:
        """Starts a query that was read from ``source``; its rows are collected from the result. Raises
        StateplanError."""
        channel = ResultChannel()
        plan = self.compiler.query(query, source, channel.id)
        notes: list[str] = []
        name = self.config.to_dict().get("pipeline.name") or plan.sql
        document = PlanDocument.from_graph(plan.graph, PlanFacts())
        job = self._start(document, plan.graph, notes, JobRecord(name, plan.sql), plan.secrets, is_query=True)
        job.when_over(lambda ended_job: channel.end(ended_job.error))
        return TableResult(
            tuple(name for name, _ in plan.fields),
            tuple(kind for _, kind in plan.fields),
            [],
            ResultKind.SUCCESS_WITH_CONTENT,
            job,
            tuple(notes),
            "SELECT",
            channel,
            plan.graph.sinks[0].takes(0) == INSERT_ONLY,
            local_time_zone(self.config.to_dict()),
        )

    @coded_error()
    def document(
        self, document: PlanDocument, record: JobRecord | None = None, new_record: JobRecord | None = None
    ) -> TableResult:
        """Starts the job of a plan, with its tables as the session's catalog has them.

        Args:
            document: the plan.
            record: the record of the job that is to be started again.
            new_record: the record of a new job that takes the place of another one; it gets the plan here.

        Raises:
            PlanError: PLAN185, in batch mode.
            CatalogError: CAT050 to CAT054, when plan and catalog do not fit together.
            OptionError: OPT123, the plan has a reference to a secret of another session.
            StateplanError: when the job cannot be started.
        """
        notes: list[str] = []
        with document.placing():
            graph, secrets = self._restore(document, notes)
            if record is None:
                record = new_record or JobRecord(self._name(graph), "EXECUTE PLAN")
                record.plan = PlanDocument.from_graph(graph, document.facts or PlanFacts()).text
            job = self._start(without_secrets(document, secrets), graph, notes, record, secrets)
        return self._sink_result(job, notes, "EXECUTE PLAN", document)

    @coded_error()
    def evolve(
        self, document: PlanDocument, origin: str, continuation: Continuation | None = None
    ) -> tuple[Evolved, Sequence[str]]:
        """Fills ``execution.checkpointing.dir`` with the state that a plan can use of the checkpoint of another plan.

        Args:
            document: the plan.
            origin: the path of the checkpoint, or of a savepoint.
            continuation: what it uses; None for what a comparison of both plans says.

        Returns:
            The new checkpoint, and notes for the user.

        Raises:
            StateplanError: as :meth:`document`, and :func:`evolution.evolve.evolve`.
        """
        notes: list[str] = []
        options = of_mode(self.config.to_dict())
        with document.placing():
            document, graph, secrets = self._bind(document, notes)
            return self._evolve(document, graph, options, secrets, origin, notes, continuation), notes

    @coded_error()
    def switch(self, job: Job, document: PlanDocument, side: Side, continuation: Continuation) -> int | None:
        """A running job with a shadow continues with one of its plans, without a stop.

        Args:
            job: the job.
            document, side: the plan, and which of both it is.
            continuation: how it continues from both.

        Returns:
            As :func:`runtime.switch.switch`. Raises as there.
        """
        from stateplan.runtime.switch import switch

        with document.placing():
            document, graph, secrets = self._bind(document, [])
            options = of_mode(self.config.to_dict())
            return switch(job, self._submission(document, graph, options, secrets, lambda _: continuation), side)

    def with_tables(self, document: PlanDocument) -> PlanDocument:
        """A plan with the whole of every table, and without secrets. Raises as :meth:`document`."""
        with document.placing():
            graph, _ = self._restore(document, [])
        return PlanDocument.from_graph(graph, document.facts or PlanFacts())

    def restore_plans(self, documents: Sequence[PlanDocument]) -> RestoredPlans:
        """Plans with their tables as :meth:`document` has them, to be put together. Raises as there."""
        from stateplan.common.secrets import Secrets

        graphs, values = [], {}
        for document in documents:
            with document.placing():
                graph, secrets = self._restore(document, [])
            graphs.append(graph)
            values.update(secrets.values)
        return RestoredPlans(tuple(graphs), Secrets(values))

    @coded_error()
    def start_evolved(
        self,
        plans: RestoredPlans,
        origin: str,
        continuation: Continuation,
        adapt: Callable[[JobGraph], JobGraph],
    ) -> Job:
        """Makes a checkpoint as :meth:`evolve`, and starts its job, which is not listed and serves no figures.

        Args:
            plans: the plan, alone.
            origin: as of :meth:`evolve`.
            continuation: what the plan uses of the other one.
            adapt: as of a submission.
        """
        from stateplan.evolution.evolve import evolve
        from stateplan.runtime.checkpoint.slots import Continuation
        from stateplan.runtime.spark.hadoop import checkpoint_path
        from stateplan.runtime.start import execute
        from stateplan.runtime.user_functions import bind_functions

        (graph,), options = plans.graphs, of_mode(self.config.to_dict())
        options = {key: text for key, text in options.items() if not key.startswith("metrics.reporter")}
        self._check(graph, options, plans.secrets)
        document = PlanDocument.from_graph(graph, PlanFacts())
        graph = bind_functions(graph, self.catalog.functions.of_plan)
        continuation = self._with_history_tables(graph, plans.secrets, options, continuation)
        submission = self._submission(document, graph, options, plans.secrets, lambda _: continuation)
        evolve(submission, checkpoint_path(origin, options), lambda _: submission)
        return execute(
            replace(
                submission,
                check_restart=lambda _: Continuation.same(graph),
                console=None,
                on_start=lambda *_: self.host.check_start(),
                adapt=adapt,
            )
        )

    @coded_error()
    def preview(self, document: PlanDocument, origin: str) -> tuple[EvolutionPreview, Sequence[str]]:
        """What :meth:`evolve` would do, and notes for the user. Nothing is written, and the old job may run. Arguments
        and errors as there; CKPT003 is not raised but in the preview."""
        from stateplan.evolution.estimate import Survey
        from stateplan.runtime.checkpoint.directory import Checkpoint
        from stateplan.runtime.spark.hadoop import checkpoint_path
        from stateplan.session.evolution_preview import EvolutionPreview
        from stateplan.session.restart import Evolution, past_state

        notes: list[str] = []
        options = of_mode(self.config.to_dict())
        evolution: Evolution | None = None
        folder = checkpoint_path(origin, options)

        def compare(old_text: str) -> Continuation:
            nonlocal evolution
            old, new = self._comparable_plans(old_text, document)
            evolution = Evolution.between(old.text, new, options, past_state(Checkpoint.look(folder)))
            return self._with_history_tables(graph, secrets, options, evolution.with_corrections(options))

        with document.placing():
            document, graph, secrets = self._bind(document, notes)
            submission = self._submission(document, graph, options, secrets, compare)
            survey = Survey(submission, folder)
            assert evolution is not None
            return EvolutionPreview.of(evolution, survey.estimate(), origin), notes

    @coded_error()
    def check_evolution(self, document: PlanDocument, origin: str, continuation: Continuation | None = None) -> None:
        """Raises what keeps :meth:`evolve` from making a checkpoint, as far as it can be known before. The old job may
        run. Arguments as there."""
        from stateplan.evolution.estimate import Survey
        from stateplan.runtime.spark.hadoop import checkpoint_path

        options = of_mode(self.config.to_dict())
        folder = checkpoint_path(origin, options)
        with document.placing():
            document, graph, secrets = self._bind(document, [])
            submission = self._evolving(document, graph, options, secrets, origin, [], continuation)
            try:
                Survey(submission, folder)
            except CheckpointError as error:
                if error.code != "CKPT041":
                    raise
                submission.check_restart((folder / "plan.json").read_text())  # its first micro-batch is in hand

    def _bind(self, document: PlanDocument, notes: list[str]) -> tuple[PlanDocument, ExecGraph, Secrets]:
        """A plan without its secrets, its graph with the tables and functions of the session, and its secrets. Raises
        as :meth:`document`."""
        from stateplan.runtime.user_functions import bind_functions

        graph, secrets = self._restore(document, notes)
        self._check(graph, self.config.to_dict(), secrets)
        return without_secrets(document, secrets), bind_functions(graph, self.catalog.functions.of_plan), secrets

    def _check(self, graph: ExecGraph, options: Mapping[str, str], secrets: Secrets) -> None:
        """Raises StateplanError where the session must not run a plan, or use the paths of its checkpoint."""
        with importing():
            from stateplan.runtime.checkpoint.savepoint import RECOVERY_PATH
            from stateplan.runtime.spark.hadoop import CHECKPOINT_DIR
        self.host.check_paths(options, (CHECKPOINT_DIR, RECOVERY_PATH))
        self.host.check_graph(with_secrets(graph, secrets))

    def _evolve(
        self,
        document: PlanDocument,
        graph: ExecGraph,
        options: Mapping[str, str],
        secrets: Secrets,
        origin: str,
        notes: list[str],
        continuation: Continuation | None = None,
    ) -> Evolved:
        """Fills a checkpoint from another one. Arguments as :meth:`_start`, and of :meth:`evolve`."""
        from stateplan.evolution.evolve import evolve
        from stateplan.runtime.checkpoint.slots import Continuation
        from stateplan.runtime.spark.hadoop import checkpoint_path

        submission = self._evolving(document, graph, options, secrets, origin, notes, continuation)

        def old_plan(text: str) -> Submission:
            old, old_graph, old_secrets = self._bind(PlanDocument.parse(text), [])
            same = Continuation.same(old_graph)
            same = replace(same, tables=self._history_tables(old_graph, old_secrets, options, same))
            return self._submission(old, old_graph, options, old_secrets, lambda _: same)

        return evolve(submission, checkpoint_path(origin, options), old_plan)

    def _evolving(
        self,
        document: PlanDocument,
        graph: ExecGraph,
        options: Mapping[str, str],
        secrets: Secrets,
        origin: str,
        notes: list[str],
        continuation: Continuation | None = None,
    ) -> Submission:
        """A plan that is to take over the state of another checkpoint. Arguments as :meth:`_evolve`."""
        from stateplan.runtime.checkpoint.directory import Checkpoint
        from stateplan.runtime.spark.hadoop import checkpoint_path
        from stateplan.session.restart import evolve_from, past_state

        def check(old_text: str) -> Continuation:
            result = continuation
            if result is None:
                past = past_state(Checkpoint.look(checkpoint_path(origin, options)))
                old, new = self._comparable_plans(old_text, document)
                result = evolve_from(old.text, new, options, origin, notes, past)
            return self._with_history_tables(graph, secrets, options, result)

        return self._submission(document, graph, options, secrets, check)

    def _with_history_tables(
        self, graph: ExecGraph, secrets: Secrets, options: Mapping[str, str], continuation: Continuation
    ) -> Continuation:
        """A continuation, with the tables that hold rows of the sources of a plan, if rows are read again. Arguments as
        :meth:`_start`. Raises as :meth:`_history_tables`."""
        if not continuation.anew and not continuation.corrected:
            return continuation
        return replace(continuation, tables=self._history_tables(graph, secrets, options, continuation))

    def _history_tables(
        self, graph: ExecGraph, secrets: Secrets, options: Mapping[str, str], continuation: Continuation
    ) -> Mapping[int, HistoryTable]:
        """The tables that hold rows of the sources of a plan. Raises OptionError OPT176, and when the session must not
        read one of them."""
        from stateplan.session.history_tables import history_tables

        graph = with_secrets(graph, secrets)
        nodes = [node for node in graph.nodes if node.id in continuation.sources]
        return history_tables(nodes, self.catalog, options, lambda node: self.host.check_graph(graph.replace([node])))

    def _comparable_plans(self, old_text: str, document: PlanDocument) -> tuple[PlanDocument, PlanDocument]:
        """The plan that wrote a checkpoint and another one, as they are to be compared: with the tables of the session
        where they do not hold the options of theirs."""
        from stateplan.session.restore import with_catalog_tables

        return (
            with_catalog_tables(PlanDocument.parse(old_text), self.catalog),
            with_catalog_tables(document, self.catalog),
        )

    def _submission(
        self,
        document: PlanDocument,
        graph: ExecGraph,
        options: Mapping[str, str],
        secrets: Secrets,
        check_restart: Callable[[str], Continuation],
    ) -> Submission:
        """A plan that is to continue from another checkpoint. Arguments as :meth:`_start`, and of a submission."""
        from stateplan.runtime.start import Submission

        return Submission(
            graph,
            options,
            document.text,
            check_restart,
            console=self.console,
            on_progress=self.on_progress,
            spark=self.spark,
            secrets=secrets,
        )

    def _evolve_first(
        self,
        document: PlanDocument,
        graph: ExecGraph,
        options: Mapping[str, str],
        secrets: Secrets,
        notes: list[str],
    ) -> None:
        """Makes the checkpoint of a job from one of another plan, where the options allow that and the plan needs it,
        or where they want corrections. Arguments as :meth:`_start`."""
        from stateplan.runtime.checkpoint.savepoint import FACTS, RECOVERY_PATH
        from stateplan.runtime.spark.hadoop import CHECKPOINT_DIR, checkpoint_path
        from stateplan.session.restart import ACCEPT, OUTPUT, needs_new_checkpoint

        origin, folder = options.get(RECOVERY_PATH), options.get(CHECKPOINT_DIR)
        corrects = value(options, OUTPUT) == "corrections"
        if not origin or not folder or not (corrects or options.get(ACCEPT) in ("derive", "backfill")):
            return
        place = checkpoint_path(origin, options) / "plan.json"
        if (checkpoint_path(folder, options) / FACTS).exists() or not place.exists():
            return
        old, new = self._comparable_plans(place.read_text(), document)
        if corrects or needs_new_checkpoint(old.text, new):
            self._evolve(document, graph, options, secrets, origin, notes)

    def _restore(self, document: PlanDocument, notes: list[str]) -> tuple[ExecGraph, Secrets]:
        """The graph of a plan with its tables as the catalog has them, and their secrets. ``notes`` gets notes for the
        user. Raises as :meth:`document`."""
        from stateplan.session.restart import stale_notes
        from stateplan.session.restore import restore

        self.compiler.require_streaming()
        options = self.config.to_dict()
        restored_plan = restore(document, self.catalog, options)
        notes += [str(w) for w in document.warnings] + list(restored_plan.notes)
        notes += dict.fromkeys(stale_notes(document, self.catalog, options))
        notes += dict.fromkeys(clear_text_notes(document))
        return hide_secrets(restored_plan.graph, self.catalog, self.compiler.secrets_of(document))

    def _name(self, graph: ExecGraph) -> str:
        """``pipeline.name``, or what Flink calls a job that writes to these tables."""
        return self.config.to_dict().get("pipeline.name") or f"insert-into_{','.join(_sinks(graph))}"

    def _start(
        self,
        document: PlanDocument,
        graph: ExecGraph,
        notes: list[str],
        record: JobRecord,
        secrets: Secrets,
        is_query: bool = False,
    ) -> Job:
        """Starts the job of a plan whose tables are complete, and lists it. It runs in this process if it can, else in
        Spark.

        Args:
            document: the document that is written into the checkpoint; without secrets, as ``graph``.
            graph: the graph that runs.
            notes: gets what happens to existing state.
            record: the record of the job.
            secrets: the secrets of its tables.
            is_query: whether it is a SELECT, for which budgets of states do not count.
        """
        from stateplan.session.budgets import limits_of

        options = of_mode(self.config.to_dict())
        self._check(graph, options, secrets)
        limits = limits_of(document, options, not is_query)
        reports = JobReports([], self.console) if is_query else job_reports(options, self.console)
        may_run_here = is_query or (limits is None and not self.jobs.are_durable)
        job = self._start_here(graph, options, secrets, record, reports, is_query=is_query) if may_run_here else None
        if job is None:
            job = self._start_in_spark(document, graph, options, limits, notes, record, secrets, reports)
        reports.follow(job, record, secrets)
        return job

    def _start_in_spark(
        self,
        document: PlanDocument,
        graph: ExecGraph,
        options: Mapping[str, str],
        limits: Limits | None,
        notes: list[str],
        record: JobRecord,
        secrets: Secrets,
        reports: JobReports,
    ) -> Job:
        """Starts a job in Spark, and lists it. Arguments as :meth:`_start`; ``limits`` are those of its state, and
        ``reports`` are about it."""
        from stateplan.runtime.start import Submission, execute
        from stateplan.runtime.user_functions import bind_functions
        from stateplan.session.restart import continue_from

        functions = self.catalog.functions
        graph = bind_functions(graph, functions.of_plan)
        record.functions = tuple(f for f in functions.all() if f.reference is not None)
        self._evolve_first(document, graph, options, secrets, notes)
        with self.jobs.starting(record, options) as (settings, begins):

            def on_start(job_id: str, checkpoint: str) -> None:
                self.host.check_start()
                begins(job_id, checkpoint)

            submission = Submission(
                graph,
                settings,
                document.text,
                lambda old_text: continue_from(old_text, document, options, notes),
                console=reports.tell,
                on_progress=self.on_progress,
                spark=self.spark,
                job_id=record.id,
                secrets=secrets,
                on_start=on_start,
                limits=limits,
            )
            spark_job = execute(submission)
        self.jobs.add(spark_job, record)
        return spark_job

    def _start_here(
        self,
        graph: ExecGraph,
        options: Mapping[str, str],
        secrets: Secrets,
        record: JobRecord,
        reports: JobReports,
        *,
        is_query: bool,
    ) -> Job | None:
        """Starts a job in this process, if it is one for it, and lists it. Arguments as :meth:`_start_in_spark`."""
        from stateplan.runtime.local.eligibility import OF_SHARED_PROCESS
        from stateplan.runtime.local.job import execute_locally
        from stateplan.runtime.user_functions import bind_functions, calls_functions

        has_reporter = any(key.startswith("metrics.reporter") for key in options)
        if self.spark is not None or (has_reporter and not is_query):
            return None
        if calls_functions(graph):
            if not self.host.runs_functions:
                return None
            graph = bind_functions(graph, self.catalog.functions.of_plan, runs_here=True)
        settings = {**OF_SHARED_PROCESS, **options} if self.jobs.are_durable else options
        job = execute_locally(graph, settings, secrets=secrets, console=reports.tell, on_progress=self.on_progress)
        if job is None:
            return None
        if not is_query and reports.tell is not None:
            why = "its input is small and ends" if job.bounded else "its results are not stored"
            reports.tell(f"the job runs in this process: {why}, so it needs no Spark")
        record.options = dict(options)
        self.jobs.add(job, record)
        return job

    def _sink_result(self, job: Job, notes: Sequence[str], statement: str, document: PlanDocument) -> TableResult:
        columns = tuple(distinct_names(_sinks(document.graph)))
        result = TableResult(
            columns,
            (BIGINT,) * len(columns),
            [(-1,) * len(columns)],
            ResultKind.SUCCESS_WITH_CONTENT,
            job,
            tuple(notes),
            statement,
        )
        if self.config.value("table.dml-sync"):
            self.host.wait(job)
        return result


def _sinks(graph: ExecGraph) -> list[str]:
    """The tables that a plan writes."""
    return [table.summary for node in graph.sinks if (table := table_of(node)) is not None]
