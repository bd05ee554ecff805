"""Operators that start, save and change jobs at a gateway."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException

from airflow_provider_stateplan.gateway import Gateway, GatewayError, Job, quoted, statements_of
from airflow_provider_stateplan.hooks import StateplanHook


class _GatewayOperator(BaseOperator):
    """An operator at a gateway.

    Args:
        conn_id: the connection of Airflow.
        session_options: the options of the session.
    """

    def __init__(
        self,
        *,
        conn_id: str = StateplanHook.default_conn_name,
        session_options: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.conn_id = conn_id
        self.session_options = dict(session_options or {})

    def execute(self, context: Any) -> Any:
        gateway = StateplanHook(self.conn_id).get_conn()
        try:
            return self.run_at(gateway)
        except GatewayError as error:
            raise AirflowException(str(error)) from error
        finally:
            gateway.close()

    def run_at(self, gateway: Gateway) -> Any:
        """Does the work of the operator. May raise GatewayError."""
        raise NotImplementedError

    @staticmethod
    def active_id(gateway: Gateway, job_id: str | None, job_name: str | None) -> str:
        """The id of a job that an argument names. Raises AirflowException."""
        if job_id:
            return job_id
        job = gateway.active_job(job_name) if job_name else None
        if job is None:
            raise AirflowException(f"no job with the name {job_name!r} is running")
        return job.id


class StateplanSubmitOperator(_GatewayOperator):
    """Runs statements in a session, and returns the id of the job that the last of them starts.

    A job outlives the task. If the task is repeated, and a job with ``job_name`` is running already, its id is returned
    and no further job starts.

    Args:
        sql: scripts with CREATE TABLE, SET and others, and at last an INSERT, EXECUTE PLAN or EXECUTE STATEMENT SET.
        job_name: the name of the job, its ``pipeline.name``.
        wait_for_completion: whether the task waits for the end of the job, as for a job over bounded input. If the task
            is cleared or times out meanwhile, the job is stopped.
        poll_interval: between two looks at the job, s.
    """

    template_fields: Sequence[str] = ("sql", "job_name", "session_options")
    template_ext: Sequence[str] = (".sql",)

    def __init__(
        self,
        *,
        sql: str | Sequence[str],
        job_name: str,
        wait_for_completion: bool = False,
        poll_interval: float = 5.0,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.sql = sql
        self.job_name = job_name
        self.wait_for_completion = wait_for_completion
        self.poll_interval = poll_interval
        self.started_id: str | None = None

    def run_at(self, gateway: Gateway) -> str:
        job = gateway.active_job(self.job_name)
        if job is not None:
            self.log.info("the job %s is running already: %s", self.job_name, job.id)
            job_id = job.id
        else:
            job_id = self._submit(gateway)
        self.started_id = job_id
        if self.wait_for_completion:
            self._wait(gateway, job_id)
        return job_id

    def _submit(self, gateway: Gateway) -> str:
        job_id: str | None = None
        with gateway.session({**self.session_options, "pipeline.name": self.job_name}) as session:
            for statement in statements_of(self.sql):
                job_id = session.start(statement)
        if job_id is None:
            raise AirflowException("the last statement has started no job; it must be an INSERT or EXECUTE")
        return job_id

    def _wait(self, gateway: Gateway, job_id: str) -> None:
        while (job := gateway.job(job_id)).is_active:
            time.sleep(self.poll_interval)
        if job.status != "FINISHED":
            raise AirflowException(_end_of(gateway, job))

    def on_kill(self) -> None:
        """The task is cleared or times out: a job that it waits for is stopped."""
        if self.wait_for_completion and self.started_id is not None:
            gateway = StateplanHook(self.conn_id).get_conn()
            with gateway.session() as session:
                session.run(f"STOP JOB {quoted(self.started_id)}")


class StateplanSavepointOperator(_GatewayOperator):
    """Stops a job with a savepoint, and returns the path of the savepoint.

    Args:
        job_id, job_name: the job; one of both.
        savepoint_dir: the folder for savepoints; by default that of the gateway.
        drain: whether all windows are completed first.
    """

    template_fields: Sequence[str] = ("job_id", "job_name", "savepoint_dir", "session_options")

    def __init__(
        self,
        *,
        job_id: str | None = None,
        job_name: str | None = None,
        savepoint_dir: str | None = None,
        drain: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.job_id, self.job_name = job_id, job_name
        self.savepoint_dir = savepoint_dir
        self.drain = drain

    def run_at(self, gateway: Gateway) -> str:
        job_id = self.active_id(gateway, self.job_id, self.job_name)
        options = dict(self.session_options)
        if self.savepoint_dir:
            options["execution.checkpointing.savepoint-dir"] = self.savepoint_dir
        with gateway.session(options) as session:
            drain = " WITH DRAIN" if self.drain else ""
            rows = session.run(f"STOP JOB {quoted(job_id)} WITH SAVEPOINT{drain}")
        return str(rows[0][0])


class StateplanEvolveOperator(_GatewayOperator):
    """Continues a running job with another plan, which keeps the state of the job; returns the id of the new job.

    Args:
        job_id, job_name: the job; one of both.
        plan: the path of the plan at the gateway, such as ``plan://stats``.
        plan_file: a plan file on the worker, which is stored at the gateway under ``plan``.
        sql: scripts that run first: tables, and a COMPILE PLAN that writes ``plan``.
        shadow: whether the new plan runs beside the old one, until somebody commits it.
    """

    template_fields: Sequence[str] = ("job_id", "job_name", "plan", "plan_file", "sql", "session_options")
    template_ext: Sequence[str] = (".sql",)

    def __init__(
        self,
        *,
        job_id: str | None = None,
        job_name: str | None = None,
        plan: str,
        plan_file: str | None = None,
        sql: str | Sequence[str] = (),
        shadow: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.job_id, self.job_name = job_id, job_name
        self.plan, self.plan_file = plan, plan_file
        self.sql = sql
        self.shadow = shadow

    def run_at(self, gateway: Gateway) -> str:
        job_id = self.active_id(gateway, self.job_id, self.job_name)
        if self.plan_file is not None:
            gateway.put_plan(self.plan.removeprefix("plan://"), Path(self.plan_file).read_text(encoding="utf-8"))
        options = {"table.plan.force-recompile": "true", **self.session_options}
        name = gateway.job(job_id).name
        with gateway.session({**options, "pipeline.name": name}) as session:
            for statement in statements_of(self.sql):
                session.run(statement)
            shadow = " WITH ('shadow' = 'true')" if self.shadow else ""
            rows = session.run(f"ALTER JOB {quoted(job_id)} USING PLAN {quoted(self.plan)}{shadow}")
        self.log.info("ALTER JOB: %s", rows)
        return next((str(cell) for row in rows for cell in row if cell), job_id)


def _end_of(gateway: Gateway, job: Job) -> str:
    if job.status == "FAILED":
        return f"the job {job.name} has failed: {gateway.problem_of(job.id)}"
    return f"the job {job.name} has ended as {job.status}"
