"""OpenLineage events of jobs, sent by threads of their own with OpenLineage's client.

A job has one such thread. It makes an event when the event is due, so events never queue up: a server that is slow
gets fewer RUNNING events. Each event says all there is to say, so that a lost one is no gap. Nothing here can slow down
a job or make it fail. This module is only imported where events are switched on: it needs the extra ``openlineage``.

Source: https://openlineage.io/docs/spec/object-model and the schemas of its facets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attr
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, OutputDataset, Run, RunEvent, RunState
from openlineage.client.event_v2 import Job as EventJob
from openlineage.client.facet_v2 import (
    InputDatasetFacet,
    JobFacet,
    OutputDatasetFacet,
    RunFacet,
    column_lineage_dataset,
    error_message_run,
    input_statistics_input_dataset,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
    schema_dataset,
    sql_job,
)
from openlineage.client.transport.console import ConsoleTransport
from openlineage.client.transport.noop import NoopTransport
from openlineage.client.uuid import generate_new_uuid

from stateplan.common.errors import OptionError, RunError
from stateplan.common.readable import hex_id
from stateplan.common.release import installed_version
from stateplan.common.secrets import Secrets, resolve_references
from stateplan.common.settings import is_batch, value
from stateplan.plans.column_lineage import Uses
from stateplan.session.job_followers import PATIENCE, JobFollower, problem_of
from stateplan.session.lineage_tables import LineageTable, PlanLineage

if TYPE_CHECKING:
    from stateplan.runtime.job import Job
    from stateplan.runtime.metrics.figures import Figures
    from stateplan.session.jobs import JobRecord

TRANSPORT = "lineage.openlineage.transport."
"""What the names of options begin with that are handed to the client as its ``transport``."""

PRODUCER = "urn:stateplan"
SCHEMAS = "urn:stateplan:lineage"
"""What the ids of the schemas of our facets begin with: the files ``docs/operate/lineage/*.json``."""

_ENDS = {"FINISHED": RunState.COMPLETE, "FAILED": RunState.FAIL, "CANCELED": RunState.ABORT}


@attr.define
class PlanJobFacet(JobFacet):
    """Which plan a job runs."""

    planHash: str  # noqa: N815 - a key of JSON

    @staticmethod
    def _get_schema() -> str:
        return f"{SCHEMAS}:plan:1"


@attr.define
class StatesRunFacet(RunFacet):
    """The states of the plan, with their TTLs."""

    states: list[dict[str, Any]]

    @staticmethod
    def _get_schema() -> str:
        return f"{SCHEMAS}:states:1"


@attr.define
class CheckpointRunFacet(RunFacet):
    """The job of a run, and where the run continues: behind which micro-batch of which checkpoint."""

    jobId: str  # noqa: N815 - a key of JSON
    checkpoint: str | None = None
    continuesAfterBatch: int | None = None  # noqa: N815 - a key of JSON

    @staticmethod
    def _get_schema() -> str:
        return f"{SCHEMAS}:checkpoint:1"


def lineage_events(options: Mapping[str, str], tell: Callable[[str], None] | None) -> LineageEvents | None:
    """What sends the events of the jobs of a session; None where the client is switched off by its own variables.

    Args:
        options: the options of the session.
        tell: gets one warning for the user.

    Raises:
        OptionError: OPT177, the client has no transport or refuses its configuration; OPT120, OPT121 for references in
            its options.
    """
    logging.getLogger("openlineage").addHandler(logging.NullHandler())  # a lost event is reported once, by us
    settings: dict[str, Any] = {}
    for key, text in options.items():
        if key.startswith(TRANSPORT):
            *path, name = key.removeprefix(TRANSPORT).split(".")
            part = settings
            for step in path:
                part = part.setdefault(step, {})
            part[name] = _scalar(resolve_references(text, key))
    try:
        client = OpenLineageClient(config={"transport": settings} if settings else None)
        is_unset = isinstance(client.transport, ConsoleTransport) and not client.config.transport
    except Exception as error:
        raise OptionError("OPT177", problem=problem_of(error)) from error
    if is_unset:
        raise OptionError("OPT177", problem="OpenLineage's client has no transport")
    return None if isinstance(client.transport, NoopTransport) else LineageEvents(client, options, tell)


def _scalar(text: str) -> Any:
    """The value of an option of a transport, which has no types here."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    with suppress(ValueError):
        return float(text)
    return text


class LineageEvents:
    """Sends events of jobs. See :func:`lineage_events`, whose arguments it has.

    Args:
        client: OpenLineage's.

    Attributes:
        namespace: of the jobs.
        interval: between RUNNING events, s.
    """

    def __init__(
        self, client: OpenLineageClient, options: Mapping[str, str], tell: Callable[[str], None] | None
    ) -> None:
        self.client, self.options = client, options
        self.namespace: str = value(options, "lineage.openlineage.namespace")
        self.interval: float = value(options, "lineage.openlineage.interval") / 1000
        self._tell = tell or logging.getLogger(__name__).warning

    def follow(self, job: Job, record: JobRecord, secrets: Secrets) -> None:
        """Sends the events of a job that has just been started, until it has ended.

        Args:
            job: the job.
            record: its record, with its plan.
            secrets: what must not be in any event.
        """
        _Follower(self, job, record, secrets).start()

    def hear(self, note: str) -> None:
        """Nothing: no event has notes."""

    def report(self, problem: str) -> None:
        """Tells the user why an event was lost."""
        with suppress(Exception):
            self._tell(str(RunError("RUN179", problem=problem)))


class _Follower(JobFollower):
    """The thread of a job."""

    def __init__(self, events: LineageEvents, job: Job, record: JobRecord, secrets: Secrets) -> None:
        super().__init__(job, "lineage", secrets, events.report)
        self._events, self._record = events, record
        self._run_id = str(generate_new_uuid())
        self._started = datetime.now(UTC)
        self._reported_rows: dict[int, int] = {}
        self._lineage: tuple[str, PlanLineage] | None = None

    def run(self) -> None:
        self._emit(RunState.START, self._started)
        while not self.over.wait(self._events.interval):
            self._emit(RunState.RUNNING, datetime.now(UTC))
        self._emit(_ENDS[self.job.status.value], datetime.now(UTC))
        with suppress(Exception):
            self._events.client.close(PATIENCE)

    def _emit(self, state: RunState, instant: datetime) -> None:
        try:
            rows = {} if state is RunState.START else _rows(self.job)
            self._events.client.emit(self._event(state, instant, rows))
            self._reported_rows, self.is_reached = rows, True
        except Exception as error:  # whatever it is, the job must not notice
            self.is_reached = False
            self.report(self.hide(problem_of(error)))

    def _event(self, state: RunState, instant: datetime, totals: Mapping[int, int]) -> RunEvent:
        """An event.

        Args:
            state, instant: what has happened, and when.
            totals: by node, the rows since the job was started; the event has those since the last event that arrived.
        """
        lineage = self._plan_lineage()
        rows = {node: count - self._reported_rows.get(node, 0) for node, count in totals.items()}
        return RunEvent(
            eventTime=instant.isoformat(timespec="milliseconds"),
            eventType=state,
            run=Run(self._run_id, self._run_facets(lineage)),
            job=EventJob(self._events.namespace, self.hide(self._record.name), self._job_facets(lineage)),
            inputs=[_input(table, rows) for table in lineage.inputs],
            outputs=[_output(table, rows, lineage) for table in lineage.outputs],
            producer=PRODUCER,
        )

    def _plan_lineage(self) -> PlanLineage:
        """The lineage of the plan that the job has now: ALTER JOB may have changed it."""
        text = self._record.plan or ""
        if self._lineage is None or self._lineage[0] != text:
            self._lineage = text, PlanLineage.of(text, self._events.namespace, self._events.options)
        return self._lineage[1]

    def _job_facets(self, lineage: PlanLineage) -> dict[str, JobFacet]:
        kind = "BATCH" if self.job.bounded or is_batch(self._events.options) else "STREAMING"
        facets: dict[str, JobFacet] = {
            "jobType": job_type_job.JobTypeJobFacet(kind, "STATEPLAN", "QUERY", producer=PRODUCER),
            "stateplan_plan": PlanJobFacet(lineage.plan_hash, producer=PRODUCER),
        }
        statement = lineage.sql or self._record.statement
        if statement:
            facets["sql"] = sql_job.SQLJobFacet(self.hide(statement), dialect="flink", producer=PRODUCER)
        return facets

    def _run_facets(self, lineage: PlanLineage) -> dict[str, RunFacet]:
        job, version = self.job, installed_version()
        first_batch = job.view.info.first_batch
        checkpoint = None if job.checkpoint is None else self.hide(str(job.checkpoint))
        facets: dict[str, RunFacet] = {
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
                version, "stateplan", version, producer=PRODUCER
            ),
            "stateplan_states": StatesRunFacet([dict(state) for state in lineage.states], producer=PRODUCER),
            "stateplan_checkpoint": CheckpointRunFacet(
                hex_id(job.job_id), checkpoint, first_batch - 1 if first_batch else None, producer=PRODUCER
            ),
        }
        if job.error is not None and self.over.is_set():
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                self.hide(f"[{job.error.code}] {job.error.message}"), "SQL", producer=PRODUCER
            )
        return facets


def _rows(job: Job) -> dict[int, int]:
    """By node, how many rows a job has read or written since it was started."""
    view = job.view
    totals: Figures = view.totals
    tables = (info for info in view.info.operators if info.kind != "operator")
    return {info.id: int(totals.get(info.uid, {}).get("rows_in", 0)) for info in tables}


def _count(table: LineageTable, rows: Mapping[int, int]) -> int | None:
    """The rows of a dataset; None if they were not counted."""
    counts = [rows[node] for node in table.nodes if node in rows]
    return sum(counts) if counts else None


def _schema(table: LineageTable) -> schema_dataset.SchemaDatasetFacet:
    fields = [schema_dataset.SchemaDatasetFacetFields(name, kind) for name, kind in table.columns]
    return schema_dataset.SchemaDatasetFacet(fields=fields, producer=PRODUCER)


def _input(table: LineageTable, rows: Mapping[int, int]) -> InputDataset:
    count = _count(table, rows)
    facets: dict[str, InputDatasetFacet] = {}
    if count is not None:
        facets["inputStatistics"] = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
            rowCount=count, producer=PRODUCER
        )
    return InputDataset(*table.dataset, facets={"schema": _schema(table)}, inputFacets=facets)


def _output(table: LineageTable, rows: Mapping[int, int], lineage: PlanLineage) -> OutputDataset:
    count = _count(table, rows)
    facets: dict[str, OutputDatasetFacet] = {}
    if count is not None:
        facets["outputStatistics"] = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=count, producer=PRODUCER
        )
    columns = column_lineage_dataset.ColumnLineageDatasetFacet(
        fields={
            name: column_lineage_dataset.Fields(list(_input_fields(uses, lineage)))
            for name, uses in table.fields.items()
            if uses
        },
        dataset=list(_input_fields(table.rows, lineage)),
        producer=PRODUCER,
    )
    return OutputDataset(
        *table.dataset, facets={"schema": _schema(table), "columnLineage": columns}, outputFacets=facets
    )


def _input_fields(uses: Uses, lineage: PlanLineage) -> Iterator[column_lineage_dataset.InputField]:
    for dataset, name, pairs in lineage.input_columns(uses):
        steps = [column_lineage_dataset.Transformation(kind, subtype) for kind, subtype in pairs]
        yield column_lineage_dataset.InputField(*dataset, name, steps)
