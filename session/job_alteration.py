"""ALTER JOB ... USING PLAN: a job continues with a changed plan, from a new checkpoint.

What can be known before is checked while the job runs. Then the job is stopped at the end of a micro-batch, a
checkpoint for the new plan is made from its own, and the new plan starts there. The old checkpoint is only read. If the
new plan does not start, the old one starts again from where it stopped. So it does when a gateway is killed meanwhile.

Codes: CKPT055, RUN052, RUN056, RUN060, and those of an evolution.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stateplan.common.errors import CheckpointError, Place, RunError, StateplanError
from stateplan.common.paths import AnyPath, remove_tree
from stateplan.common.settings import Configuration, value
from stateplan.common.types import STRING
from stateplan.planner.dialect import nodes
from stateplan.session.context import Context
from stateplan.session.host import Host
from stateplan.session.jobs import CHECKPOINT_DIR, JobEntry, JobRecord
from stateplan.session.restart import OUTPUT
from stateplan.session.results import TableResult, content

if TYPE_CHECKING:
    from stateplan.plans.document import PlanDocument
    from stateplan.session.starter import JobStarter

RECOVERY_PATH = "execution.state-recovery.path"


def run_alter_job(c: Context, node: nodes.AlterJob) -> TableResult:
    """ALTER JOB: the id of the job that continues, and its checkpoint.

    Raises:
        RunError: RUN060, none has this id; RUN052, it has ended; RUN056, it has no checkpoint directory.
        CheckpointError: CKPT003, state would be lost.
        StateplanError: what keeps the checkpoint from being made, or the new plan from starting. The old job keeps
            running.
    """
    from stateplan.plans.document import PlanDocument

    document = PlanDocument.load(c.plan_file(node.args["path"]))
    return _Alteration.of(c, node.this.name, document, c.place(node.this)).run()


@dataclass(frozen=True)
class _Alteration:
    """A job whose plan changes.

    Attributes:
        context: the statement.
        entry, record: the job.
        document: its new plan.
        checkpoint: its own.
        folder: the new checkpoint.
        job_id: of the new job; None where its checkpoint says it.
        starter: starts it, with the options of the job and of the session.
        place: of the job's id in the statement.
    """

    context: Context
    entry: JobEntry
    record: JobRecord
    document: PlanDocument
    checkpoint: AnyPath
    folder: AnyPath
    job_id: str | None
    starter: JobStarter
    place: Place

    @staticmethod
    def of(c: Context, job_id: str, document: PlanDocument, place: Place) -> _Alteration:
        """The change of a running job. Raises RunError RUN052, RUN056, RUN060; CheckpointError CKPT055."""
        from stateplan.runtime.spark.hadoop import checkpoint_path
        from stateplan.session.compiler import Compiler

        session = c.session
        entry = session.jobs.find(job_id, place)
        record, checkpoint = entry.record, entry.checkpoint
        if entry.job is None:
            raise RunError("RUN052", id=entry.id, status=entry.status, place=place)
        is_lasting = record is not None and (record.checkpoint or record.options.get(CHECKPOINT_DIR))
        if record is None or record.plan is None or checkpoint is None or not is_lasting:
            raise RunError("RUN056", id=entry.id, place=place)
        new_record = JobRecord(record.name, "ALTER JOB")
        options = {**record.options, **session.config.to_dict(), "pipeline.name": record.name}
        options.pop(RECOVERY_PATH, None)
        folder_text = session.jobs.place_beside(str(checkpoint), new_record)
        if folder_text is None:
            folder_text = session.host.check_option(CHECKPOINT_DIR, str(beside(checkpoint)), place)
        options |= {CHECKPOINT_DIR: folder_text, "table.dml-sync": "false"}
        if value(options, OUTPUT) == "corrections":
            why = "ALTER JOB starts the old plan again if the new one does not start. Use 'plan evolve'"
            raise CheckpointError("CKPT055", what="a running job", why=why)
        config = Configuration(options, keep_unknown=True)
        starter = replace(session.starter, config=config, compiler=Compiler(c.catalog, config))
        folder = checkpoint_path(folder_text, options)
        return _Alteration(c, entry, record, document, checkpoint, folder, new_record.id, starter, place)

    def run(self) -> TableResult:
        """Changes the plan. Raises as :func:`run_alter_job`."""
        self.starter.check_evolution(self.document, str(self.checkpoint))
        jobs = self.context.session.jobs
        jobs.suspend(self.entry, self.place)
        is_over = False
        try:
            evolved, notes = self.starter.evolve(self.document, str(self.checkpoint))
            jobs.give_up(self.entry)
            is_over = True
            try:
                result = self.starter.document(self.document, job_id=self.job_id)
            except BaseException:
                remove_tree(self.folder)
                raise
        except BaseException as error:
            if is_over or self.entry.is_running:
                self._go_back(error)
            raise
        job = result.job
        assert job is not None
        rows = [(job.job_id.replace("-", ""), str(evolved.folder))]
        notes = tuple(dict.fromkeys((*notes, *result.notes)))
        return content("ALTER JOB", ("job id", "checkpoint"), rows, notes, types=(STRING, STRING))

    def _go_back(self, error: BaseException) -> None:
        """Starts the old plan again from its own checkpoint. ``error`` says so, where it has room for that."""
        from stateplan.plans.document import PlanDocument
        from stateplan.session.session import Session

        altering = self.context.session
        options = {
            **self.record.options,
            CHECKPOINT_DIR: str(self.checkpoint),
            "table.plan.restore.catalog-objects": "ALL_ENFORCED",
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


def beside(checkpoint: AnyPath) -> AnyPath:
    """The first free directory beside a checkpoint: its name with a number. One that was begun for the same checkpoint
    is free: it continues there."""
    from stateplan.runtime.checkpoint.savepoint import FACTS, RECOVERING

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
