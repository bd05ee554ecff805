"""Streaming tables: a table, the job that writes it, and the plan of the job in the project.

A run compares the plan of the model with that of its job. If they are the same, it does nothing. Other TTLs are
changed while the job runs. Any other change follows the model's ``on_change``: the job evolves and keeps its state, the
table and the job are built again, or the run fails.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbt.adapters.stateplan.column import literal, quote
from dbt.adapters.stateplan.connections import StateplanCredentials, options_sql, texts
from dbt.adapters.stateplan.tables import PATHS, Rows, TableColumn, TableDefinition, Tables
from dbt_common.exceptions import DbtRuntimeError

if TYPE_CHECKING:
    from stateplan.plans.diff import PlanDiff
    from stateplan.plans.document import PlanDocument

POLICIES = ("evolve", "rebuild", "fail")
_ACCEPT = "execution.state-recovery.accept"
_MODE = "execution.runtime-mode"
_CHECKPOINT = "execution.checkpointing.dir"
_PAUSE = 0.2
"""Seconds between two looks at a job that starts."""


@dataclass(frozen=True)
class StreamingModel:
    """A model of the materialization ``streaming_table``.

    Attributes:
        job: the name of its job.
        table: the name of its table in SQL.
        identifier: the last part of that name.
        sql: its query.
        definition: what it says about its table.
        ttl: by selector of a state, its TTL.
        settings: options of the session for its plan and its job.
        on_change: one of :data:`POLICIES`.
        accept: the worst verdict on state with which its job may evolve.
        plan, picture: files in the project for its plan, and for a drawing of the plan.
        exists: whether there is a table of its name.
        full_refresh: whether it is built again in any case.
    """

    job: str
    table: str
    identifier: str
    sql: str
    definition: TableDefinition
    ttl: Mapping[str, str]
    settings: Mapping[str, str]
    on_change: str
    accept: str
    plan: str
    picture: str | None
    exists: bool
    full_refresh: bool

    @classmethod
    def of(
        cls,
        job: str,
        table: str,
        identifier: str,
        sql: str,
        config: Mapping[str, Any],
        columns: Sequence[str],
        exists: bool,
        full_refresh: bool,
    ) -> StreamingModel:
        """From the configuration of a model. Raises DbtRuntimeError, ``on_change`` is none of the policies."""
        on_change = str(config.get("on_change") or "evolve")
        if on_change not in POLICIES:
            raise DbtRuntimeError(f"on_change is '{on_change}', and must be one of {', '.join(POLICIES)}")
        return cls(
            job,
            table,
            identifier,
            sql.strip().rstrip(";"),
            TableDefinition.of(config, columns),
            texts(config.get("ttl") or {}),
            texts(config.get("settings") or {}),
            on_change,
            str(config.get("accept") or "backfill"),
            str(config.get("plan") or f"plans/{identifier}.json"),
            config.get("plan_picture"),
            exists,
            full_refresh,
        )


@dataclass(frozen=True)
class Outcome:
    """What a run did: a message for the log, and a word that begins it."""

    code: str
    message: str

    @classmethod
    def of(cls, code: str, text: str = "") -> Outcome:
        return cls(code, f"{code} {text}".strip())


@dataclass(frozen=True)
class JobFacts:
    """A job of the gateway.

    Attributes:
        id, status, error: as DESCRIBE JOB has them.
        checkpoint: its directory.
        micro_batch: the last one that it has finished; None before the first one.
        is_idle: whether it found no new input.
        plan: its text.
    """

    id: str
    status: str
    error: str | None
    checkpoint: str
    micro_batch: int | None
    is_idle: bool
    plan: str

    @property
    def is_running(self) -> bool:
        return self.status == "RUNNING"


@dataclass(frozen=True)
class _Target:
    """The table of a model as its new plan needs it.

    Attributes:
        declarations: its columns and its key.
        options: its options.
        added: columns that the table does not have yet.
        changed: by key of an option that the table has otherwise, its value there; None for no value.
        conflict: why the table cannot stay; None if it can.
    """

    declarations: tuple[str, ...]
    options: Mapping[str, str]
    added: tuple[TableColumn, ...] = ()
    changed: Mapping[str, str | None] = field(default_factory=dict)
    conflict: str | None = None


class StreamingTables:
    """Jobs of streaming tables, through a session.

    Args:
        rows: runs a statement.
        credentials: the output of the profile.
        tables: definitions of tables, in the same session.
    """

    def __init__(self, rows: Rows, credentials: StateplanCredentials, tables: Tables) -> None:
        self._rows = rows
        self._credentials = credentials
        self._tables = tables

    # jobs

    def find(self, name: str) -> JobFacts | None:
        """The newest job of a name; None if there is none."""
        for row in self._rows("SHOW JOBS"):
            if row[1] == name:
                return self._facts(row[0])
        return None

    def _newest(self, name: str) -> str:
        """The id of the newest job of a name."""
        return next(str(row[0]) for row in self._rows("SHOW JOBS") if row[1] == name)

    def _facts(self, job: str) -> JobFacts:
        row = self._rows(f"DESCRIBE JOB EXTENDED {literal(job)}")[0]
        return JobFacts(row[0], row[2], row[4], row[5], row[6], row[7], row[8])

    def stop(self, name: str) -> None:
        """Stops the job of a name, if it runs."""
        for row in self._rows("SHOW JOBS"):
            if row[1] == name and row[2] in ("RUNNING", "RESTARTING"):
                self._rows(f"STOP JOB {literal(row[0])}")

    def state_catalog(self, name: str, table: str) -> str:
        """The catalog with the state of a job. Raises DbtRuntimeError, the table has no job."""
        job = self.find(name)
        if job is None:
            raise DbtRuntimeError(f"{table} has no state: it is not a streaming table, or was not run yet")
        catalog = quote(f"state_{hashlib.sha256(job.checkpoint.encode()).hexdigest()[:8]}")
        options = options_sql({"type": "state", "path": job.checkpoint})
        self._rows(f"CREATE CATALOG IF NOT EXISTS {catalog} WITH {options}")
        return catalog

    def facts(self, name: str) -> dict[str, Any]:
        """The job of a table for the docs of a project, as dbt has statistics; none for a table without a job."""
        job = self.find(name)
        if job is None:
            return {}
        from stateplan.plans.document import PlanDocument
        from stateplan.plans.render import render_explanation

        explanation = render_explanation(PlanDocument.parse(job.plan), {}, "text", ())
        tree, _, states = explanation.partition("\n== State ==\n")
        stats = {
            "job": ("Job", f"{job.id}, {job.status}", "The job that writes the table, in the gateway."),
            "state": ("State", states.strip() or "none", "The state of each operator, with its TTL."),
            "plan": ("Plan", tree.strip(), "The operators of the job."),
        }
        return {
            f"stats:{key}:{part}": value
            for key, (label, text, description) in stats.items()
            for part, value in (("label", label), ("value", text), ("description", description), ("include", True))
        }

    # runs

    def apply(self, model: StreamingModel, project: Path) -> Outcome:
        """Starts, changes or keeps the job of a model.

        Args:
            model: the model.
            project: the folder of the project.

        Raises:
            DbtRuntimeError: the change is refused, or the input does not end and the jobs run in this process.
            DbtDatabaseError: what is wrong with the query, or what made the job fail.
        """
        with self._settings(model):
            job = self.find(model.job)
            if model.full_refresh or not model.exists:
                return self._build(model, project, job)
            target = self._target(model)
            if target.conflict is not None:
                self._require_policy(model, "rebuild", f"the table cannot stay: {target.conflict}")
                return self._build(model, project, job)
            with self._altered(model, target):
                document = self._compile(model)
                self._write(model, document, project)
                self._require_end(document)
                if job is None:
                    return self._start(model, self._checkpoint_of(model, target))
                return self._continue(model, target, document, job, project)

    def _continue(
        self, model: StreamingModel, target: _Target, document: PlanDocument, job: JobFacts, project: Path
    ) -> Outcome:
        """With the job that there is, or was."""
        from stateplan.plans.diff import compare
        from stateplan.plans.document import PlanDocument

        if job.status == "RESTARTING":
            raise DbtRuntimeError(f"the job {job.id} is about to be started again: run the model later")
        diff = compare(PlanDocument.parse(job.plan), document)
        if diff.verdict == "identical":
            if job.is_running:
                return Outcome.of("UNCHANGED", f"job {job.id}")
            return self._start(model, job.checkpoint)
        if diff.verdict == "ttl-only":
            return self._change_ttls(model, document, job)
        if model.on_change == "rebuild":
            return self._build(model, project, job)
        self._require_policy(model, "evolve", f"its plan differs from that of job {job.id}: {_summary(diff)}")
        if job.is_running:
            return self._alter(model, job)
        if diff.may_restart:
            return self._start(model, job.checkpoint)
        return self._start(model, _next(job.checkpoint), job.checkpoint)

    def _require_policy(self, model: StreamingModel, policy: str, why: str) -> None:
        """Raises DbtRuntimeError, the model allows another policy."""
        if model.on_change != policy:
            raise DbtRuntimeError(
                f"{model.table} cannot change: {why}. Its on_change is '{model.on_change}', and this needs '{policy}'"
                + (", or --full-refresh" if policy == "rebuild" else "")
            )

    def _change_ttls(self, model: StreamingModel, document: PlanDocument, job: JobFacts) -> Outcome:
        from stateplan.common.ttl import format_ttl
        from stateplan.plans.document import PlanDocument, ttl_text
        from stateplan.plans.selectors import Selectors

        if not job.is_running:
            return self._start(model, job.checkpoint)
        old = {(view.uid, view.index): view for view in Selectors(PlanDocument.parse(job.plan), {}).views}
        assignments, changes = [], []
        for view in Selectors(document, {}).views:
            before = old.get((view.uid, view.index))
            if before is not None and before.ttl != view.ttl:
                selector = literal(f"[{before.node_id}].{before.index}")
                assignments.append(f"TTL {literal(format_ttl(view.ttl))} FOR {selector}")
                changes.append(f"{view.name} {ttl_text(before.ttl)} -> {ttl_text(view.ttl)}")
        self._rows(f"ALTER JOB {literal(job.id)} SET {', '.join(assignments)}")
        return Outcome.of("TTL", f"{', '.join(changes)}, job {job.id} runs on")

    def _alter(self, model: StreamingModel, job: JobFacts) -> Outcome:
        """Continues a running job with the new plan."""
        plan = self._store_plan(model)
        with self._set({"table.dml-sync": "false"}):
            ((new_job, _),) = self._rows(f"ALTER JOB {literal(job.id)} USING PLAN {literal(plan)}")
        return Outcome.of("EVOLVED", f"job {new_job} continues job {job.id}")

    def _build(self, model: StreamingModel, project: Path, job: JobFacts | None) -> Outcome:
        """A new table and a new job. What is wrong with the model is reported before the old ones go."""
        target = self._new_target(model)
        self._tables.create(model.table, target.declarations, target.options, "TEMPORARY TABLE")
        try:
            self._require_end(self._compile(model))
        finally:
            self._rows(f"DROP TEMPORARY TABLE {model.table}")
        if job is not None and job.status in ("RUNNING", "RESTARTING"):
            self._rows(f"STOP JOB {literal(job.id)}")
        self._rows(f"DROP TABLE IF EXISTS {model.table}")
        self._tables.create(model.table, target.declarations, target.options)
        self._write(model, self._compile(model), project)
        return self._start(model, self._checkpoint_of(model, target))

    def _start(self, model: StreamingModel, checkpoint: str, origin: str | None = None) -> Outcome:
        """Starts the job of a model with a checkpoint directory, from the state of another one or with its own."""
        plan = self._store_plan(model)
        options = {"pipeline.name": model.job, _CHECKPOINT: checkpoint}
        if origin is not None:
            options["execution.state-recovery.path"] = origin
        options["table.dml-sync"] = str(not self._credentials.is_remote).lower()
        with self._set(options):
            self._rows(f"EXECUTE PLAN {literal(plan)}")
        job = self._newest(model.job)
        if self._credentials.is_remote:
            self._await(job)
            return Outcome.of("EVOLVED" if origin else "STARTED", f"job {job}")
        return Outcome.of("EVOLVED" if origin else "RUN", f"job {job} to the end of its input")

    def _await(self, job: str) -> None:
        """Waits for the first micro-batch of a job, unless the job finds no input, or until the time for that is over.
        Raises DbtRuntimeError."""
        until = time.monotonic() + self._credentials.wait_seconds
        while time.monotonic() < until:
            facts = self._facts(job)
            if facts.status == "FAILED":
                raise DbtRuntimeError(f"the job {job} failed: {facts.error}")
            if facts.micro_batch is not None or facts.is_idle or facts.status != "RUNNING":
                return
            time.sleep(_PAUSE)

    # plans

    def _compile(self, model: StreamingModel) -> PlanDocument:
        """The plan of a model, with its TTLs."""
        from stateplan.common.errors import StateplanError
        from stateplan.plans.document import PlanDocument
        from stateplan.plans.edit import set_ttls

        text = self._rows(f"COMPILE PLAN FOR {self._insert(model)}")[0][0]
        document = PlanDocument.parse(text)
        try:
            if model.ttl:
                set_ttls(document, model.ttl, dict(model.settings))
        except StateplanError as error:
            raise DbtRuntimeError(f"the ttl of {model.identifier}: {error}") from error
        return document

    def _store_plan(self, model: StreamingModel) -> str:
        """The plan of :meth:`_compile` in the gateway, and its name there."""
        name = re.sub(r"[^A-Za-z0-9._-]", "_", model.job)[:100]
        if name != model.job:
            name += "-" + hashlib.sha256(model.job.encode()).hexdigest()[:8]
        path = f"plan://{name}"
        with self._set({"table.plan.force-recompile": "true"}):
            self._rows(f"COMPILE PLAN {literal(path)} FOR {self._insert(model)}")
        if model.ttl:
            ttls = ", ".join(f"TTL {literal(ttl)} FOR {literal(selector)}" for selector, ttl in model.ttl.items())
            self._rows(f"ALTER PLAN {literal(path)} SET {ttls}")
        return path

    def _insert(self, model: StreamingModel) -> str:
        names = [c.name for c in self._tables.query_columns(model.sql)]
        return f"INSERT INTO {model.table} ({', '.join(map(quote, names))})\n{model.sql}"

    def _write(self, model: StreamingModel, document: PlanDocument, project: Path) -> None:
        """Writes the plan into the project, where it is another one."""
        path = project / model.plan
        if not path.exists() or path.read_text("utf-8") != document.text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(document.text, "utf-8")
        if model.picture is not None:
            from stateplan.plans.render import render_explanation

            picture = render_explanation(document, {}, "svg", ())
            drawing = project / model.picture
            if not drawing.exists() or drawing.read_text("utf-8") != picture:
                drawing.parent.mkdir(parents=True, exist_ok=True)
                drawing.write_text(picture, "utf-8")

    def _require_end(self, document: PlanDocument) -> None:
        """Raises DbtRuntimeError, jobs run in this process and an input does not end."""
        if self._credentials.is_remote:
            return
        from stateplan.connectors.registry import known_connector
        from stateplan.execnodes.node_tables import table_of
        from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
        from stateplan.session.trial import table_options

        for node in document.graph.nodes:
            if isinstance(node, TableSourceScan):
                options = table_options(node)
                connector = known_connector(options)
                table = table_of(node)
                if connector is not None and table is not None and not connector.is_bounded(options):
                    raise DbtRuntimeError(
                        f"the table {table.summary} does not end. With the method 'local', a streaming table is run to "
                        "the end of its input: use the method 'gateway', or put the options that make the source "
                        "endless into external.stream"
                    )

    # tables

    def _new_target(self, model: StreamingModel) -> _Target:
        """A table with the columns of the query, in a new folder."""
        options = self._tables.new_options(model.identifier, model.definition.options)
        return _Target(self._declarations(model), options)

    def _declarations(self, model: StreamingModel) -> tuple[str, ...]:
        """The columns of a query, or those that the model declares, and the key."""
        definition = model.definition
        key = set(definition.primary_key)
        columns = definition.columns or tuple(
            f"{quote(c.name)} {c.type}{' NOT NULL' if c.name in key else ''}"
            for c in self._tables.query_columns(model.sql)
        )
        if definition.primary_key and not any("PRIMARY KEY" in column.upper() for column in columns):
            columns += (f"PRIMARY KEY ({', '.join(map(quote, definition.primary_key))}) NOT ENFORCED",)
        return columns

    def _target(self, model: StreamingModel) -> _Target:
        """The table that exists, with what the model adds to it."""
        fresh = self._new_target(model)
        existing = {c.name: c for c in self._tables.columns(model.table)}
        wanted = {c.name: c for c in self._tables.trial_columns(fresh.declarations, fresh.options)}
        options = self._tables.options(model.table)
        changed = {
            key: text
            for key, text in fresh.options.items()
            if options.get(key) != text and (key not in PATHS.values() or key in model.definition.options)
        }
        target = _Target(
            fresh.declarations,
            {**options, **changed},
            tuple(column for name, column in wanted.items() if name not in existing),
            {key: options.get(key) for key in changed},
        )
        return replace(target, conflict=_conflict(existing, wanted, changed))

    def _checkpoint_of(self, model: StreamingModel, target: _Target) -> str:
        """The first checkpoint of a table: named as its folder, if it has one."""
        path = target.options.get("table-path") or target.options.get("path") or ""
        mark = path.rstrip("/").rpartition("/")[2]
        is_ours = f"/tables/{self._credentials.schema}/{model.identifier}/" in path
        return self._tables.folder("checkpoints", model.identifier, mark if is_ours else None)

    # the session

    @contextmanager
    def _altered(self, model: StreamingModel, target: _Target) -> Iterator[None]:
        """The table has the columns and options that its new plan needs. If that plan does not run, it has them no
        longer."""
        undo: list[str] = []
        try:
            for column in target.added:
                self._rows(f"ALTER TABLE {model.table} ADD {quote(column.name)} {column.type}")
                undo.append(f"ALTER TABLE {model.table} DROP {quote(column.name)}")
            for key, before in target.changed.items():
                self._rows(f"ALTER TABLE {model.table} SET {options_sql({key: target.options[key]})}")
                undo.append(
                    f"ALTER TABLE {model.table} RESET ({literal(key)})"
                    if before is None
                    else f"ALTER TABLE {model.table} SET {options_sql({key: before})}"
                )
            yield
        except BaseException:
            for statement in reversed(undo):
                self._rows(statement)
            raise

    def _settings(self, model: StreamingModel) -> Any:
        """The session has the options of a model."""
        own = {_MODE: "STREAMING", _ACCEPT: model.accept, "table.plan.restore.catalog-objects": "ALL_ENFORCED"}
        return self._set({**own, **model.settings})

    @contextmanager
    def _set(self, options: Mapping[str, str]) -> Iterator[None]:
        """The session has these options, and then what it had before."""
        before = {_MODE: "BATCH", **self._credentials.session_options}
        try:
            for key, text in options.items():
                self._rows(f"SET {literal(key)} = {literal(text)}")
            yield
        finally:
            for key in options:
                again = f"SET {literal(key)} = {literal(before[key])}" if key in before else f"RESET {literal(key)}"
                self._rows(again)


def _conflict(
    existing: Mapping[str, TableColumn], wanted: Mapping[str, TableColumn], changed: Mapping[str, str]
) -> str | None:
    """Why a table cannot become what its model declares; None if it can."""
    types = [name for name, column in wanted.items() if name in existing and existing[name].type != column.type]
    removed = [name for name in existing if name not in wanted]
    key = [name for name, column in existing.items() if column.is_key]
    wanted_key = [name for name, column in wanted.items() if column.is_key]
    if types:
        return f"the type of {', '.join(types)} is another one"
    if removed:
        return f"it has the column {', '.join(removed)}, and the model does not"
    if key != wanted_key:
        return (
            f"its key is {', '.join(key) or 'nothing'}, and that of the model is {', '.join(wanted_key) or 'nothing'}"
        )
    return "its connector is another one" if "connector" in changed else None


def _next(checkpoint: str) -> str:
    """A directory beside a checkpoint: ``ck-2`` for ``ck``, then ``ck-3``."""
    numbered = re.fullmatch(r"(.*)-(\d+)", checkpoint)
    return f"{checkpoint}-2" if numbered is None else f"{numbered[1]}-{int(numbered[2]) + 1}"


def _summary(diff: PlanDiff) -> str:
    """The verdict on state, and the first reasons for it."""
    reasons = [f"{o.title}: {reason}" for o in diff.operators if not o.harmless for reason in o.reasons]
    return "; ".join([diff.verdict, *reasons[:3]])
