"""Plans compiled and run for the command line, and the scripts before them. Jobs are waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from stateplan.cli.console import Console
from stateplan.cli.plan_files import read_plan
from stateplan.cli.sql_client.statements import read_text
from stateplan.common.errors import Place, PlanError, SqlError
from stateplan.common.ttl import NEVER
from stateplan.planner.dialect import nodes
from stateplan.session.environment import PlanReference, TableEnvironment
from stateplan.session.results import ResultKind, TableResult
from stateplan.session.script import ScriptStatement, read_script
from stateplan.session.tableau import Tableau

if TYPE_CHECKING:
    from stateplan.evolution.evolve import Evolved
    from stateplan.plans.document import PlanDocument
    from stateplan.plans.fork import Fork
    from stateplan.plans.state.advise import Advised
    from stateplan.plans.trial import Trial, Variant
    from stateplan.runtime.job import Job
    from stateplan.session.evolution_preview import EvolutionPreview

_QUERIES = (exp.Insert, exp.Query, nodes.StatementSet, nodes.ExecuteStatement, nodes.CreateTableAs)
_STARTS_JOB = (*_QUERIES, nodes.ExecutePlan)


class Session:
    """A session of the command line.

    Args:
        console: where everything goes.
        options: set before anything runs.
        init: a script to run first.
    """

    def __init__(self, console: Console, options: Mapping[str, str], init: str | None = None) -> None:
        self._console = console
        self._environment = TableEnvironment.create(options, console=console.note, on_progress=console.progress)
        if init is not None:
            self.run_script(read_text(init), init)

    def run_script(self, text: str, file: str | None = None) -> None:
        """Runs the statements of a script; the first error ends it.

        Args:
            text: the script. It is parsed as a whole before anything runs.
            file: its name, for messages.
        """
        for statement in read_script(text, file):
            self._run(statement)

    def _run(self, statement: ScriptStatement) -> None:
        node = statement.node
        if isinstance(node, _STARTS_JOB) or (isinstance(node, nodes.CompilePlan) and node.args.get("execute")):
            self._console.status("starting")
        self._report(self._environment.execute_statement(statement))

    def _report(self, result: TableResult) -> None:
        for note in result.notes:
            self._console.note(note)
        if result.channel is not None:
            self._rows(result)
        elif result.job is not None:
            self._wait(result.job)
        elif result.kind is ResultKind.SUCCESS:
            return
        elif len(result.columns) == 1 and len(result.rows) == 1 and "\n" in str(result.rows[0][0]):
            text = str(result.rows[0][0])
            self._console.show(text, {"columns": list(result.columns), "rows": [[text]]})
        else:
            self._console.table(result.columns, result.rows)

    def _rows(self, result: TableResult) -> None:
        table = Tableau(result.columns, result.types, result.zone, result.insert_only)
        with result:
            for text in table.stream(result.frames()):
                self._console.raw(text.encode())

    def _wait(self, job: Job) -> None:
        try:
            job.wait()
        except KeyboardInterrupt:
            self._console.finished(job.progress, "stopped")
            raise
        self._console.finished(job.progress)

    def compile(self, file: str, target: str, if_not_exists: bool = False, overwrite: bool = False) -> None:
        """Compiles the query of a script into the plan ``target``; its other statements are run before.

        Raises:
            SqlError: SQL402, when the script has no query or more than one.
            PlanError: PLAN002, when the plan exists and is neither left alone nor replaced.
        """
        from stateplan.plans import storage

        statements = read_script(read_text(file), file)
        query = _the_query(statements, file)
        if if_not_exists and storage.exists(target):
            self._console.note(f"the plan {target} already exists; kept unchanged")
            return
        document = self._compiled(statements, query)
        force = overwrite or bool(self._environment.get_config().value("table.plan.force-recompile"))
        try:
            document.write(target, overwrite=force, if_not_exists=if_not_exists)
        except PlanError as error:
            if error.code == "PLAN002":
                error.hint = "--overwrite replaces it, --if-not-exists leaves it alone"
            raise
        self._console.note(f"wrote {target}: {_counts(document)}")

    def compiled(self, file: str) -> PlanDocument:
        """The plan of the query of a script; its other statements are run before.

        Raises:
            SqlError: SQL402, when the script has no query or more than one.
        """
        statements = read_script(read_text(file), file)
        return self._compiled(statements, _the_query(statements, file))

    def _compiled(self, statements: Sequence[ScriptStatement], query: ScriptStatement) -> PlanDocument:
        from stateplan.plans.document import PlanDocument

        for statement in statements:
            if statement is not query:
                self._run(statement)
        result = self._environment.execute_statement(
            ScriptStatement(nodes.CompilePlan(this=query.node), query.text, query.source, query.file)
        )
        return PlanDocument.parse(str(result.rows[0][0]))

    def execute_plan(self, plan: str) -> None:
        """Runs a plan until it ends or is interrupted."""
        self._console.status("starting")
        self._report(self._environment.load_plan(PlanReference.from_file(plan)).execute())

    def evolve_plan(self, plan: str, checkpoint: str) -> Evolved:
        """Makes a checkpoint for a plan from that of another one. Raises as :meth:`CompiledPlan.evolve`."""
        self._console.status("evolving")
        evolved, notes = self._environment.load_plan(PlanReference.from_file(plan)).evolve(checkpoint)
        for note in notes:
            self._console.note(note)
        return evolved

    def preview_evolution(self, plan: str, checkpoint: str) -> EvolutionPreview:
        """What :meth:`evolve_plan` would do. Raises as :meth:`CompiledPlan.preview_evolution`."""
        preview, notes = self._environment.load_plan(PlanReference.from_file(plan)).preview_evolution(checkpoint)
        for note in notes:
            self._console.note(note)
        return preview

    def try_plan(self, plan: str, variants: Sequence[Variant], never: bool) -> Trial:
        """Runs variants of a plan over its input, and compares them with the plan, or with one that forgets nothing.

        Raises:
            StateplanError: as :func:`session.trial.try_plan`.
        """
        from stateplan.plans.selector_text import Assignment, parse_selector
        from stateplan.plans.trial import Variant
        from stateplan.session.trial import try_plan

        document = read_plan(plan)
        everything = Assignment(parse_selector("*"), NEVER)
        first = Variant("never", (everything,)) if never else Variant("the plan")
        self._console.status("starting")
        return try_plan(self._environment, document, [first, *variants])

    def try_from_checkpoint(self, plan: str, checkpoint: str, millis: int | None) -> Fork:
        """Runs a changed plan beside the plan of a checkpoint, from a copy of it. Arguments and errors as of
        :func:`session.fork.try_from_checkpoint`."""
        from stateplan.session.fork import try_from_checkpoint

        document = read_plan(plan)
        self._console.status("starting")
        return try_from_checkpoint(self._environment, document, checkpoint, millis)

    def advise_plan(self, plan: str, miss: float) -> Advised:
        """Runs a plan over its input without TTLs, and returns the advice for its states.

        Raises:
            StateplanError: as :func:`session.trial.observed_run`.
        """
        from stateplan.plans.state import CheckpointReader
        from stateplan.session.trial import observed_run

        document = read_plan(plan)
        self._console.status("starting")
        with observed_run(self._environment, document) as checkpoint:
            return CheckpointReader.read(checkpoint, self._environment.get_config().to_dict()).advise(miss=miss)


def _the_query(statements: Sequence[ScriptStatement], file: str) -> ScriptStatement:
    queries = [s for s in statements if isinstance(s.node, _QUERIES)]
    if len(queries) == 1:
        return queries[0]
    raise SqlError(
        "SQL402",
        count=len(queries) or "no",
        place=queries[1].place if queries else Place(file=file),
        hint="put several INSERTs into STATEMENT SET BEGIN ... END" if queries else None,
    )


def _counts(document: PlanDocument) -> str:
    operators = len(document.graph.nodes)
    states = sum(len(node.states) for node in document.graph.nodes)
    return f"{operators} operators, {states or 'no'} state{'' if states == 1 else 's'}"
