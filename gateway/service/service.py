"""The SQL gateway without the network. Source: FLIP-91, Flink's ``SqlGatewayService``.

>>> service = SqlGatewayService()
>>> session = service.open_session("shell", {})
>>> operation = session.submit("SHOW TABLES")
>>> session.close(), service.stop()
(None, None)
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from stateplan.common.errors import GatewayError, OptionError, Place, StateplanError
from stateplan.common.readable import amount, bytes_text
from stateplan.common.redaction import MASK, redacted
from stateplan.common.roots import holding
from stateplan.common.settings import OPTIONS
from stateplan.execnodes.shadows import has_shadow
from stateplan.gateway.protocol import PageKind, ResultPage
from stateplan.gateway.service.audit import AuditLog
from stateplan.gateway.service.confinement import Confinement
from stateplan.gateway.service.fetcher import Page
from stateplan.gateway.service.job_store import RUNNING, JobStore, StoredJob
from stateplan.gateway.service.limits import Limits
from stateplan.gateway.service.operations import Operation, OperationStatus
from stateplan.gateway.service.plans import PlanStore
from stateplan.gateway.service.restarts import RECOVERABLE, Restarts
from stateplan.gateway.service.sessions import Session, SessionManager
from stateplan.plans.document import PlanDocument
from stateplan.runtime.failures import as_error
from stateplan.runtime.spark.hadoop import checkpoint_path
from stateplan.session.completion import complete
from stateplan.session.environment import TableEnvironment
from stateplan.session.host import PLAN_SCHEME, Host
from stateplan.session.jobs import CHECKPOINT_DIR, JOBS, RESTARTING, JobEntry, JobRecord, Jobs
from stateplan.session.results import TableResult
from stateplan.session.script import CONFIGURING, is_query, read_statement

if TYPE_CHECKING:
    from stateplan.execnodes.graph import ExecGraph
    from stateplan.planner.catalog.functions import CatalogFunction
    from stateplan.runtime.job import Job, OnProgress

_log = logging.getLogger("stateplan.gateway")

HOLD_SECONDS = 0.5
"""So long a fetch waits for rows before it gives an empty page."""

_STOP_SECONDS = 60.0
_GLANCE = 0.2
"""Seconds after which a wait for a job looks whether its statement was given up."""
_NAME = 80
"""Characters of a job's name in the log."""


class SqlGatewayService:
    """Sessions, their statements and results, and jobs that outlive both.

    Args:
        limits: the limits of everything; by default those of :class:`Limits`, and sessions that never end by
            themselves.
        options: set in every session, before its own.
        folder: where jobs, plans and the audit log are; None to keep nothing beyond this process.
        roots, variables, modules: see :class:`Confinement`.
        keep_unknown: see :class:`common.settings.Configuration`.
        console: gets notes about running jobs, a line each.
        on_progress: gets the figures of a job while something waits for it.

    Attributes:
        jobs: those that SHOW JOBS lists.
        plans: those that statements call by name; None without a folder.
        audit: the audit log.
        own_options, own_folder: the options and the folder of the gateway.

    Raises:
        GatewayError: GW016, another gateway has the folder, or it cannot be used.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        options: Mapping[str, str] | None = None,
        folder: Path | None = None,
        roots: Sequence[str] = (),
        variables: Sequence[str] = (),
        modules: Sequence[str] | None = None,
        keep_unknown: bool = False,
        console: Callable[[str], None] | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.limits = limits or Limits(idle_timeout=0)
        self.confinement = Confinement(roots, variables, modules)
        self._store = None if folder is None else JobStore(folder)
        self.plans = None if folder is None else PlanStore(folder / "plans")
        self.audit = AuditLog(None if folder is None else folder / "audit.log")
        self.jobs = (
            JOBS if self._store is None else Jobs(self._store, str(self._store.folder / "savepoints"), self._tell)
        )
        self._keep_unknown = keep_unknown
        self.own_options, self.own_folder = dict(options or {}), folder
        self._roots = self.confinement.roots_with(self.own_options)
        self._console = console
        self._on_progress = on_progress
        self._sessions = SessionManager(self.limits, self._environment)
        self._stop_event = threading.Event()
        if self._store is not None:
            self._restarts = Restarts(self._stop_event)
            self.jobs.restarts = partial(self._restarts_job, self._store)
            self._recover(self._store)

    def _environment(self, options: Mapping[str, str]) -> TableEnvironment:
        host = _SessionHost(self, self._keep_unknown)
        env = TableEnvironment(
            self.own_options, console=self._console, on_progress=self._on_progress, jobs=self.jobs, host=host
        )
        host.confinement = self.confinement
        for key, text in options.items():
            env.get_config().set(key, host.check_option(key, text))
        return env

    # sessions

    def open_session(self, name: str | None = None, properties: Mapping[str, str] | None = None) -> InProcessSession:
        """A new session with these options.

        Raises:
            GatewayError: GW005, there are too many.
            OptionError: an option has a value that cannot be used; an unknown option, unless those are kept.
        """
        return InProcessSession(self, self.open(name, properties or {}).handle)

    def open(self, name: str | None, properties: Mapping[str, str], who: str = "local") -> Session:
        """A new session. Raises the same errors as :meth:`open_session`."""
        session = self._sessions.open(name, properties)
        self.audit.record("open session", who, session=session.handle, name=name)
        return session

    def session(self, handle: str) -> Session:
        """The open session of this handle. Raises GatewayError GW001."""
        return self._sessions.find(handle)

    def sessions(self) -> list[Session]:
        """All that are open."""
        return self._sessions.all()

    def close_session(self, handle: str, who: str = "local") -> None:
        """Ends a session, its statements and queries. Raises GatewayError GW001."""
        self._sessions.close(handle)
        self.audit.record("close session", who, session=handle)

    # statements

    def submit(
        self,
        handle: str,
        statement: str,
        options: Mapping[str, str] | None = None,
        timeout_ms: int = 0,
        who: str = "local",
        check_allowed: Callable[[object], None] | None = None,
    ) -> Operation:
        """Runs a statement in the background, after those that the session has waiting.

        Args:
            handle: the handle of the session.
            statement: SQL, with or without a semicolon.
            options: hold for this statement alone.
            timeout_ms: so long after this it is cancelled; 0 for never.
            who: the user who requests it.
            check_allowed: raises when it is not to be run, given its syntax tree.

        Raises:
            GatewayError: GW001 no such session, GW006 too many operations, GW008 the statement is too long.
        """
        session = self._sessions.find(handle)
        if len(statement) > self.limits.statement_length:
            raise GatewayError("GW008", count=len(statement), most=self.limits.statement_length)

        def run(operation: Operation) -> TableResult:
            read = read_statement(statement)
            if check_allowed is not None:
                check_allowed(read.node)
            if is_query(read.node):
                self._require_memory()
            host = session.environment.session.host
            assert isinstance(host, _SessionHost)
            host.operation = operation
            checked_options = {key: host.check_option(key, text) for key, text in (options or {}).items()}
            try:
                with holding(self._roots), session.environment.get_config().overlaid(checked_options):
                    return session.environment.execute_statement(read)
            finally:
                session.refresh()

        def record_end(over: Operation) -> None:
            outcome = over.status.value if over.error is None else f"{over.status.value} {over.error.code}"
            facts = {"session": handle, "operation": over.handle, "statement": statement, "outcome": outcome}
            job = None if over.fetcher is None else over.fetcher.job_id
            seconds = round(time.monotonic() - over.since, 3)
            self.audit.record("statement", who, **facts, **({"job": job} if job else {}), seconds=seconds)

        return session.operations.submit(run, timeout_ms, record_end)

    def _require_memory(self) -> None:
        """Raises GatewayError GW011 while results that nobody fetches take too much memory."""
        waiting_bytes = sum(session.operations.waiting_bytes for session in self._sessions.all())
        if waiting_bytes >= self.limits.results:
            for session in self._sessions.all():
                session.operations.forget_read()
            waiting_bytes = sum(session.operations.waiting_bytes for session in self._sessions.all())
        if waiting_bytes >= self.limits.results:
            raise GatewayError("GW011", held=bytes_text(waiting_bytes), most=bytes_text(self.limits.results))

    def configure(self, handle: str, statement: str, timeout_ms: int = 0, who: str = "local") -> None:
        """Runs a statement of an initialization file, and waits for it.

        Raises:
            GatewayError: as :meth:`submit`; GW007, the statement is for something else.
            StateplanError: what it failed of.
        """

        def check_allowed(node: object) -> None:
            if not isinstance(node, CONFIGURING):
                raise GatewayError("GW007", place=Place(source=statement, line=1))

        operation = self.submit(handle, statement, None, timeout_ms, who, check_allowed)
        while not operation.wait(1.0):
            pass
        try:
            operation.fetch(0, 1)
        finally:
            with contextlib.suppress(GatewayError):
                self._sessions.find(handle).operations.close_operation(operation.handle)

    def complete(self, handle: str, statement: str, position: int) -> list[str]:
        """What may appear at ``position`` of a statement. Raises GatewayError GW001."""
        environment = self._sessions.find(handle).environment
        for _ in range(3):
            # A statement of the session may change its catalog just now.
            with contextlib.suppress(RuntimeError), holding(self._roots):
                return complete(environment.session, statement[: self.limits.statement_length], position)
        return []

    def named_plans(self) -> PlanStore:
        """The plans by name. Raises GatewayError GW019, when this gateway keeps none."""
        if self.plans is None:
            raise GatewayError("GW019.keeps_none")
        return self.plans

    def public_error(self, error: StateplanError) -> str:
        """An error for the user."""
        return str(error) if self.plans is None else self.plans.public_text(str(error))

    # jobs

    def _tell(self, entry: JobEntry) -> None:
        """Writes the start and the end of a job into the log and the audit log: its statement was over before."""
        name = redacted(" ".join(entry.name.split()))[:_NAME]
        if entry.is_running:
            _log.info("job %s (%s) runs", entry.id, name)
            return
        if self._stop_event.is_set():
            _log.info("job %s (%s) stops with the gateway; the next one on this folder continues it", entry.id, name)
            return
        error = None if entry.error is None else redacted(entry.error)
        if error is None:
            _log.info("job %s (%s) has ended: %s", entry.id, name, entry.status)
        else:
            _log.error("job %s (%s) has failed: %s", entry.id, name, error)
        first = {} if error is None else {"error": error.splitlines()[0]}
        self.audit.record("job ended", "gateway", job=entry.id, outcome=entry.status, **first)

    def _recover(self, store: JobStore) -> None:
        """Lists the jobs of the gateway before, and starts those that ran."""
        stored_jobs = store.all()
        for job in stored_jobs:
            self.jobs.list(_entry_of(job))
        running_jobs = [job for job in stored_jobs if job.status == RUNNING]
        if running_jobs:
            jobs = amount(len(running_jobs), "job")
            _log.info("%s that ran when the gateway stopped will continue", jobs)
            self._restarts.run(partial(self._restart, store, running_jobs))

    def _restart(self, store: JobStore, jobs: Sequence[StoredJob]) -> None:
        wait = 1.0
        left = list(jobs)
        while left and not self._stop_event.is_set():
            jobs_to_retry = [job for job in left if self._not_started_again(store, job) is not None]
            if jobs_to_retry and self._stop_event.wait(wait):
                return
            wait, left = min(60.0, 2 * wait), jobs_to_retry

    def _restarts_job(self, store: JobStore, record: JobRecord, error: StateplanError, counts: bool = True) -> bool:
        """Whether a job that has failed is started again, by its restart strategy; has that done if so.

        Args:
            store: the store of the jobs.
            record: the record of the job.
            error: what it failed of.
            counts: whether the failure counts against it.
        """
        wait = self._restarts.wait(str(record.id), record.options, error, counts)
        if wait is None:
            return False
        blame = "" if counts else " Another job is to blame, so it does not count."
        _log.warning("the job %s failed, and starts again in %.1f s.%s %s", record.id, wait, blame, error)

        def start() -> None:
            failure = self._not_started_again(store, StoredJob(record, RUNNING))
            if failure is not None and not self._restarts_job(store, record, failure):
                self._give_up(store, StoredJob(record, RUNNING), str(failure))

        name = str(record.id)
        self._restarts.in_turn(name, wait, start, self.jobs.are_settled, partial(self.jobs.has_settled, name))
        return True

    def _not_started_again(self, store: JobStore, job: StoredJob) -> StateplanError | None:
        """Starts a job again. What keeps it from that, if it is to be tried once more."""
        record = job.record
        entry = self.jobs.find(str(record.id))
        if self._stop_event.is_set() or entry.status != RESTARTING:
            return None
        try:
            assert record.plan is not None
            options = {
                **self._known_options(record),
                CHECKPOINT_DIR: str(record.checkpoint),
                "table.plan.restore.catalog-objects": "ALL_ENFORCED",
                "table.dml-sync": "false",
            }
            host = _SessionHost(self, keep_unknown=True)
            env = TableEnvironment(options, console=self._console, jobs=self.jobs, host=host)
            host.confinement = self.confinement
            for function in record.functions:
                env.functions.create(replace(function, temporary=True), overwrite=True)
            with holding(self._roots):
                env.session.starter.document(_plan_of(record), record)
        except StateplanError as error:
            if self._stop_event.is_set():
                return None
            _log.error("the job %s cannot be started again: %s", record.id, error)
            if error.code in RECOVERABLE:
                return error
            self._give_up(store, job, str(error))
        except Exception as bug:
            _log.exception("the job %s cannot be started again", record.id)
            self._give_up(store, job, str(as_error(bug)))
        else:
            _log.info("the job %s runs again", record.id)
            self.audit.record("restart job", "gateway", job=record.id)
            if entry.status != RESTARTING:  # it was stopped while it started
                self.jobs.stop(str(record.id))
        return None

    def _known_options(self, record: JobRecord) -> dict[str, str]:
        """The options that a job was started with. Of secrets, which no file has, those of the gateway are known.

        Raises:
            OptionError: OPT126, another secret, which the job needs.
        """
        options = {k: self.own_options.get(k, text) if MASK in text else text for k, text in record.options.items()}
        missing_keys = [key for key, text in options.items() if MASK in text]
        for key in missing_keys:
            if key in OPTIONS or key.startswith("spark."):
                raise OptionError("OPT126", key=key)
        return {key: text for key, text in options.items() if key not in missing_keys}

    def _give_up(self, store: JobStore, job: StoredJob, error: str) -> None:
        store.failed(job.record, error)
        entry = _entry_of(job)
        entry.status, entry.error, entry.ended = "FAILED", error, time.time_ns() // 1_000_000
        self.jobs.list(entry)

    def stop(self) -> None:
        """Ends all sessions and queries. With a folder, jobs are stopped after their micro-batches in hand, and the
        next gateway continues with them; without one, they run on as long as this process."""
        if self._stop_event.is_set():
            return
        self._stop_event.set()
        if self._store is not None:
            self._store.stop()
        self._sessions.stop()
        if self._store is not None:
            until = time.monotonic() + _STOP_SECONDS
            has_joined = self._restarts.join(until)
            threads = [
                threading.Thread(target=entry.job.stop, daemon=True)
                for entry in self.jobs.entries()
                if entry.job is not None
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(max(0.0, until - time.monotonic()))
            if has_joined and not any(thread.is_alive() for thread in threads):
                self._store.release()  # else the folder is free when this process has ended, and so have its jobs
        self.audit.close()


def _plan_of(record: JobRecord) -> PlanDocument:
    """The plan of a job that is started again: of one that had a shadow when it was written down, that of its
    checkpoint, which knows whether it has continued with one of both plans."""
    document = PlanDocument.parse(record.plan or "")
    if has_shadow(document.graph):
        with contextlib.suppress(StateplanError, OSError):
            folder = checkpoint_path(str(record.checkpoint), record.options)
            document = PlanDocument.parse((folder / "plan.json").read_text())
            record.plan = document.text
    return document


def _entry_of(job: StoredJob) -> JobEntry:
    """The job as SHOW JOBS lists it after a restart."""
    record = job.record
    status = RESTARTING if job.status == RUNNING else job.status
    entry = JobEntry(
        str(record.id), record.name, record.statement, record.started or 0, None, job.ended, status, job.error
    )
    entry.plan, entry.options, entry.record = record.plan, record.options, record
    with contextlib.suppress(StateplanError):
        entry.checkpoint = checkpoint_path(str(record.checkpoint), record.options)
    return entry


class _SessionHost(Host):
    """What a gateway provides to its sessions, and keeps them from.

    Attributes:
        confinement: holds for what the session does, not for the gateway's own options.
        operation: the statement in hand.
    """

    def __init__(self, service: SqlGatewayService, keep_unknown: bool) -> None:
        self._service = service
        self.keep_unknown = keep_unknown
        self.confinement = Confinement()
        self.operation: Operation | None = None

    def plan_file(self, name: str, place: Place | None = None) -> str:
        plans = self._service.plans
        if plans is not None and name.startswith(PLAN_SCHEME):
            return str(plans.path(name.removeprefix(PLAN_SCHEME), place))
        return self.confinement.check_file(super().plan_file(name, place), place)

    def plan_names(self) -> list[str]:
        return [] if self._service.plans is None else self._service.plans.names()

    @property
    def shows_in_sets(self) -> bool:
        return False

    def check_option(self, key: str, text: str, place: Place | None = None) -> str:
        return self.confinement.check_option(key, text, place)

    def check_paths(self, options: Mapping[str, str], keys: Sequence[str]) -> None:
        self.confinement.check_paths(options, keys, self._service.own_options, self._service.own_folder)

    def check_table(self, options: Mapping[str, str], place: Place | None = None) -> None:
        self.confinement.check_table(options, place)

    def check_function(self, function: CatalogFunction, place: Place | None = None) -> None:
        self.confinement.check_function(function.summary, function.reference, place)

    def check_graph(self, graph: ExecGraph) -> None:
        from stateplan.execnodes.node_tables import table_of

        self.check_start()
        for node in graph.nodes:
            table = table_of(node)
            if table is not None and table.resolved_table is not None:
                options = dict(table.resolved_table.options or {})
                self.confinement.check_table(options)
                self.confinement.check_links(options)

    def wait(self, job: Job) -> None:
        """Waits for the job of a statement. If a client cancels the statement, the job ends too, because nobody else
        could end it. The session is not blocked meanwhile."""
        operation = self.operation
        if operation is None:
            super().wait(job)
            return
        while not operation.is_canceled:
            if job.wait(_GLANCE):
                return
        threading.Thread(target=job.stop, name="stateplan-cancel", daemon=True).start()

    def check_start(self) -> None:
        if self.operation is not None and self.operation.is_canceled:
            raise GatewayError("GW009")


class InProcessSession:
    """A session of a gateway in this process: a :class:`gateway.protocol.GatewaySession`."""

    def __init__(self, service: SqlGatewayService, handle: str) -> None:
        self._service = service
        self._handle = handle

    @property
    def handle(self) -> str:
        return self._handle

    @property
    def environment(self) -> TableEnvironment:
        """What its statements run in."""
        return self._service.session(self._handle).environment

    def properties(self) -> Mapping[str, str]:
        return self._service.session(self._handle).properties

    def configure(self, statement: str) -> None:
        self._service.configure(self._handle, statement)

    def submit(self, statement: str) -> str:
        return self._service.submit(self._handle, statement).handle

    def fetch(self, operation: str, token: int, limit: int | None = None) -> ResultPage:
        return _result_page(*self.fetch_page(operation, token, limit), token)

    def fetch_page(self, operation: str, token: int, limit: int | None = None) -> tuple[Operation, Page]:
        """The page of a fetch as the service has it, with the operation. Raises as :meth:`fetch`."""
        operation_entry = self._operation(operation)
        change_event = threading.Event()
        forget = operation_entry.listen(change_event.set)
        try:
            until = time.monotonic() + HOLD_SECONDS
            while not operation_entry.is_ready(token) and change_event.wait(max(0.0, until - time.monotonic())):
                forget()
                change_event.clear()
                forget = operation_entry.listen(change_event.set)
        finally:
            forget()
        most = self._service.limits.page_rows
        return operation_entry, operation_entry.fetch(token, min(limit or most, most))

    def _operation(self, handle: str) -> Operation:
        return self._service.session(self._handle).operations.find(handle)

    def cancel(self, operation: str) -> None:
        operation_entry = self._operation(operation)
        try:
            operation_entry.cancel()
        except GatewayError:  # it is over; what may continue is the job of a query
            if operation_entry.status is OperationStatus.FINISHED and operation_entry.fetcher is not None:
                operation_entry.fetcher.close()

    def close_operation(self, operation: str) -> None:
        self._service.session(self._handle).operations.close_operation(operation)

    def complete(self, statement: str, position: int) -> list[str]:
        return self._service.complete(self._handle, statement, position)

    def heartbeat(self) -> None:
        self._service.session(self._handle)

    def close(self) -> None:
        self._service.close_session(self._handle)


def _result_page(operation: Operation, page: Page, token: int) -> ResultPage:
    fetcher = operation.fetcher
    if page.kind is PageKind.NOT_READY or fetcher is None:
        return ResultPage(PageKind.NOT_READY, next_token=page.next_token)
    rows = list(zip(page.rows.kinds(), page.rows.texts(), strict=True))
    return ResultPage(
        page.kind,
        fetcher.columns,
        rows,
        page.next_token,
        fetcher.is_query,
        fetcher.has_content,
        fetcher.job_id,
        fetcher.notes if token == 0 else (),
        fetcher.insert_only,
    )
