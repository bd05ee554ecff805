"""ALTER JOB: a job continues with a changed plan, from a new checkpoint; or with both plans, one of them as a shadow.

What can be known before is checked while the job runs. Then the job is stopped at the end of a micro-batch, a
checkpoint for the new plan is made from its own, and the new plan starts there. The old checkpoint is only read. If the
new plan does not start, the old one starts again from where it stopped. So it does when a gateway is killed meanwhile.

A job with a shadow runs both plans as one. With COMMIT and ROLLBACK, it continues with one of them from a micro-batch
on, in the same checkpoint and without a stop. Where that is not possible, it gets a new checkpoint, in the same way.

Codes: CKPT055, OPT104, OPT105, RUN052, RUN056, RUN060, RUN067, RUN068, and those of an evolution.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from stateplan.common.errors import CheckpointError, OptionError, Place, RunError, StateplanError, nearest, one_of
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Option, OptionType, parse_value
from stateplan.common.paths import AnyPath, remove_tree
from stateplan.common.settings import Configuration, value
from stateplan.common.types import STRING
from stateplan.execnodes.shadows import Side, has_shadow
from stateplan.planner.catalog.ddl import options_of, places_of
from stateplan.planner.dialect import nodes
from stateplan.session.compiler import Compiler
from stateplan.session.context import Context
from stateplan.session.host import Host
from stateplan.session.jobs import CHECKPOINT_DIR, JobEntry, JobRecord, PlanChange
from stateplan.session.restart import OUTPUT, RECOVERY_PATH
from stateplan.session.results import TableResult, content

if TYPE_CHECKING:
    from stateplan.plans.document import PlanDocument
    from stateplan.runtime.checkpoint.slots import Continuation
    from stateplan.runtime.job import Job, Progress
    from stateplan.session.shadow import ShadowPlan
    from stateplan.session.starter import JobStarter

_RESTORE = "table.plan.restore.catalog-objects"
ALTER_OPTIONS = {
    option.key: option
    for option in (Option("shadow", OptionType.BOOLEAN, "Runs the plan beside that of the job, without its tables."),)
}
_COLUMNS = ("job id", "checkpoint")
_PATIENCE = 1000.0
"""Milliseconds within which a job with input has begun a micro-batch."""


def run_alter_job(c: Context, node: nodes.AlterJob) -> TableResult:
    """ALTER JOB USING PLAN: the id of the job that continues, and its checkpoint.

    Raises:
        OptionError: OPT104, OPT105, an option of the statement; OPT169, the shadow cannot be compared.
        RunError: RUN060, none has this id; RUN052, it has ended; RUN056, it has no checkpoint directory; RUN067, it has
            a shadow; RUN068, the plan cannot be its shadow.
        CheckpointError: CKPT003, state would be lost.
        StateplanError: what keeps the checkpoint from being made, or the new plan from starting. The old job keeps
            altered_job.
    """
    from stateplan.plans.document import PlanDocument

    is_shadow = _is_shadow(c, node)
    document = PlanDocument.load(c.plan_file(node.args["path"]))
    place = c.place(node.this)
    alteration = _Alteration.of(c, _RunningJob.of(c, node.this.name, False, place), place)
    return alteration.run(alteration.with_shadow(document) if is_shadow else _Target(document))


def run_end_shadow(c: Context, node: nodes.EndShadow) -> TableResult:
    """ALTER JOB COMMIT or ROLLBACK: as :func:`run_alter_job`. Raises the same errors."""
    place = c.place(node.this)
    altered_job = _RunningJob.of(c, node.this.name, True, place)
    side: Side = "new" if node.args["plan"] == "COMMIT" else "old"
    shadow = altered_job.shadow(place)
    batch = altered_job.switch(c, shadow, side)
    if batch is None:
        alteration = _Alteration.of(c, altered_job, place)
        return alteration.run(_Target(shadow.plans[side], shadow.alone(side)))
    note = f"the job runs the {side} plan alone from micro-batch {batch} on"
    return content(
        "ALTER JOB", _COLUMNS, [(altered_job.entry.id, str(altered_job.checkpoint))], (note,), types=(STRING, STRING)
    )


def _is_shadow(c: Context, node: nodes.AlterJob) -> bool:
    """What the options of the statement say. Raises OptionError OPT104, OPT105."""
    option_nodes = node.args.get("options")
    places = places_of(option_nodes, c.source, c.file)
    for key in places:
        if key not in ALTER_OPTIONS:
            hint = nearest(key, ALTER_OPTIONS)
            expectation = None if hint else one_of(ALTER_OPTIONS)
            raise OptionError("OPT104", key=key, owner="ALTER JOB", place=places[key], hint=hint, expected=expectation)
    texts = options_of(option_nodes)
    values = {key: parse_value(ALTER_OPTIONS[key], text, place=places[key]) for key, text in texts.items()}
    return bool(values.get("shadow"))


@dataclass(frozen=True)
class _Target:
    """What a job continues with.

    Attributes:
        document: the plan.
        continuation: what it uses of the state of the job; None for what a comparison of both plans says.
        shadow: both plans, where it is made of two.
        notes: for the user.
    """

    document: PlanDocument
    continuation: Continuation | None = None
    shadow: ShadowPlan | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _RunningJob:
    """A job that runs, and that is to continue otherwise.

    Attributes:
        entry, record: the job.
        job: to ask.
        checkpoint: its own.
    """

    entry: JobEntry
    record: JobRecord
    job: Job
    checkpoint: AnyPath

    @staticmethod
    def of(c: Context, job_id: str, needs_shadow: bool, place: Place) -> _RunningJob:
        """The job of an id. Raises RunError RUN052, RUN056, RUN060, RUN067."""
        from stateplan.plans.document import PlanDocument

        entry = c.session.jobs.find(job_id, place)
        record, job, checkpoint = entry.record, entry.job, entry.checkpoint
        if job is None:
            raise RunError("RUN052", id=entry.id, status=entry.status, place=place)
        is_lasting = record is not None and (record.checkpoint or record.options.get(CHECKPOINT_DIR))
        if record is None or record.plan is None or checkpoint is None or not is_lasting:
            raise RunError("RUN056", id=entry.id, place=place)
        if has_shadow(PlanDocument.parse(record.plan).graph) is not needs_shadow:
            raise RunError("RUN067", id=entry.id, has="has no" if needs_shadow else "has", place=place)
        return _RunningJob(entry, record, job, checkpoint)

    def shadow(self, place: Place) -> ShadowPlan:
        """Both plans of the job. Raises RunError RUN067, its checkpoint does not have them."""
        from stateplan.session.shadow import ShadowPlan

        try:
            return ShadowPlan.in_checkpoint(self.checkpoint)
        except OSError as cause:
            raise RunError("RUN067", id=self.entry.id, has="has no", place=place) from cause

    def switch(self, c: Context, shadow: ShadowPlan, side: Side) -> int | None:
        """Continues with one of its plans, without a stop. Returns the first micro-batch with this plan alone; None if
        it must start anew for that. Raises as :func:`runtime.switch.switch`."""
        from stateplan.runtime.shadows import FOLDER

        options = {**self.record.options, _RESTORE: "ALL_ENFORCED"}
        config = Configuration(options, keep_unknown=True)
        starter = replace(c.session.starter, config=config, compiler=Compiler(c.catalog, config))
        self.entry.change = PlanChange("switching at the end of the micro-batch")
        try:
            batch = starter.switch(self.job, shadow.plans[side], side, shadow.alone(side))
        finally:
            self.entry.change = None
        if batch is not None:
            c.session.jobs.replan(self.entry, shadow.plans[side].text)
            remove_tree(self.checkpoint / FOLDER)
        return batch


@dataclass(frozen=True)
class _Alteration:
    """A job whose plan changes.

    Attributes:
        context: the statement.
        entry, record: the job.
        checkpoint: its own.
        folder: the new checkpoint.
        new_record: the record of the new job; it has an id where a journal chose its checkpoint.
        options: the options of the new job.
        place: the place of the job's id in the statement.
    """

    context: Context
    entry: JobEntry
    record: JobRecord
    checkpoint: AnyPath
    folder: AnyPath
    new_record: JobRecord
    options: Mapping[str, str]
    place: Place

    @staticmethod
    def of(c: Context, altered_job: _RunningJob, place: Place) -> _Alteration:
        """The change of a running job. Raises CheckpointError CKPT055."""
        from stateplan.runtime.spark.hadoop import checkpoint_path

        session = c.session
        entry, record, checkpoint = altered_job.entry, altered_job.record, altered_job.checkpoint
        new_record = JobRecord(record.name, "ALTER JOB", replaces=entry.id)
        # A gateway that starts a job again has it take the tables of its plan alone.
        job_options = {key: text for key, text in record.options.items() if key not in (RECOVERY_PATH, _RESTORE)}
        options = {**job_options, **session.config.to_dict(), "pipeline.name": record.name}
        folder_text = session.jobs.place_beside(str(checkpoint), new_record)
        if folder_text is None:
            folder_text = session.host.check_option(CHECKPOINT_DIR, str(beside(checkpoint)), place)
        options |= {CHECKPOINT_DIR: folder_text, "table.dml-sync": "false"}
        if value(options, OUTPUT) == "corrections":
            why = "ALTER JOB starts the old plan again if the new one does not start. Use 'plan evolve'"
            raise CheckpointError("CKPT055", what="a running job", why=why)
        folder = checkpoint_path(folder_text, options)
        return _Alteration(c, entry, record, checkpoint, folder, new_record, options, place)

    def starter(self, *, is_whole: bool) -> JobStarter:
        """Starts the new job, with the options of the job and of the session. ``is_whole`` says that its plan has the
        whole of every table, and that those of the session do not matter."""
        options = {**self.options, **({_RESTORE: "ALL_ENFORCED"} if is_whole else {})}
        config = Configuration(options, keep_unknown=True)
        compiler = Compiler(self.context.catalog, config)
        return replace(self.context.session.starter, config=config, compiler=compiler)

    def with_shadow(self, document: PlanDocument) -> _Target:
        """The plan of the job, and ``document`` as its shadow. Raises as :func:`run_alter_job`."""
        from stateplan.plans.document import PlanDocument
        from stateplan.plans.plan_side import PastState
        from stateplan.runtime.checkpoint.directory import Checkpoint
        from stateplan.session.restart import Evolution
        from stateplan.session.shadow import ShadowPlan

        assert self.record.plan is not None
        old = PlanDocument.parse(self.record.plan)
        new = self.starter(is_whole=False).with_tables(document)
        shadow = ShadowPlan.of(old, new)
        past = PastState(Checkpoint.look(self.checkpoint).past_ttls())  # event time goes on until the job stops
        evolution = Evolution.between(old.text, new, self.options, past)
        evolution.check(str(self.checkpoint))
        return _Target(shadow.document, shadow.continuation(evolution), shadow, tuple(evolution.notes()))

    def run(self, target: _Target) -> TableResult:
        """Changes the plan. Raises as :func:`run_alter_job`."""
        starter = self.starter(is_whole=target.continuation is not None)
        starter.check_evolution(target.document, str(self.checkpoint), target.continuation)
        jobs, entry = self.context.session.jobs, self.entry
        entry.change = PlanChange("stopping the job at the end of its micro-batch")
        asked_at = _now()
        try:
            jobs.suspend(entry, self.place)
            evolved, notes = self._with_progress(starter).evolve(
                target.document, str(self.checkpoint), target.continuation
            )
            entry.change = PlanChange("starting the new plan")
            try:
                if target.shadow is not None:
                    target.shadow.write(self.folder)
                result = starter.document(target.document, new_record=self.new_record)
            except BaseException:
                remove_tree(self.folder)
                raise
        except BaseException as error:
            if entry.is_running and entry.suspended:
                entry.change = PlanChange("starting the old plan again")
                self._go_back(error)
            raise
        finally:
            entry.change = None
        job = result.job
        assert job is not None
        rows = [(job.job_id.replace("-", ""), str(evolved.folder))]
        last = self.entry.last.recent[-1:] if self.entry.last is not None else ()
        since = max([asked_at, *(record.started + record.ms for record in last)])
        downtime = f"switched in {(_first_end(job) - since) / 1000:.1f} s"
        notes = tuple(dict.fromkeys((*target.notes, *notes, *result.notes, downtime)))
        return content("ALTER JOB", _COLUMNS, rows, notes, types=(STRING, STRING))

    def _with_progress(self, starter: JobStarter) -> JobStarter:
        """A starter whose notes and progress are shown with the job."""
        entry = self.entry

        def console(sentence: str) -> None:
            entry.change = PlanChange(sentence)
            if starter.console is not None:
                starter.console(sentence)

        def on_progress(progress: Progress) -> None:
            if entry.change is not None:
                entry.change = replace(entry.change, progress=progress)
            if starter.on_progress is not None:
                starter.on_progress(progress)

        return replace(starter, console=console, on_progress=on_progress)

    def _go_back(self, error: BaseException) -> None:
        """Starts the old plan again from its own checkpoint. ``error`` says so, where it has room for that."""
        from stateplan.plans.document import PlanDocument
        from stateplan.session.session import Session

        altering = self.context.session
        options = {
            **self.record.options,
            CHECKPOINT_DIR: str(self.checkpoint),
            _RESTORE: "ALL_ENFORCED",
            "table.dml-sync": "false",
        }
        session = Session(
            Configuration(options, keep_unknown=True),
            altering.jobs,
            Host(),
            altering.console,
            altering.on_progress,
            altering.spark,
        )
        for function in self.record.functions:
            session.catalog.functions.create(replace(function, temporary=True), overwrite=True)
        assert self.record.plan is not None
        try:
            session.starter.document(PlanDocument.parse(self.record.plan), self.record)
            outcome = f"the job '{self.entry.id}' continues with its old plan"
        except StateplanError as failure:
            outcome = f"the job '{self.entry.id}' could not be started again from {self.checkpoint}: {failure.message}"
            if self.entry.is_running:
                altering.jobs.give_up(self.entry, failure)
        if isinstance(error, StateplanError):
            error.hint = outcome if error.hint is None else f"{error.hint}; {outcome}"


def _first_end(job: Job) -> float:
    """When the first micro-batch of a job has ended, ms since 1970; waits for that. Of a job without input, when it has
    started."""
    started_at = _now()
    while not job.metrics:
        has_no_input = job.is_idle or (job.view.in_hand is None and _now() - started_at > _PATIENCE)
        if has_no_input or not job.is_active:
            return started_at
        time.sleep(0.05)
    return job.metrics[0].started + job.metrics[0].ms


def _now() -> float:
    return time.time_ns() / 1_000_000


def beside(checkpoint: AnyPath) -> AnyPath:
    """The first free directory beside a checkpoint: its name with a number. One that was begun for the same checkpoint
    is free: it continues there."""
    from stateplan.runtime.checkpoint.filling import RECOVERING
    from stateplan.runtime.checkpoint.savepoint import FACTS

    base = checkpoint.name
    numbered = re.fullmatch(r"(.+)-\d+", base)
    if numbered is not None and (checkpoint.parent / numbered[1]).is_dir():
        base = numbered[1]
    number = 2
    while True:
        folder = checkpoint.parent / f"{base}-{number}"
        begun = folder / RECOVERING
        if not folder.exists():
            return folder
        if not (folder / FACTS).exists() and begun.exists() and begun.read_text() == f"{checkpoint}\n":
            return folder
        number += 1
