"""Runs tests on Spark: the same plan over the same files, with a checkpoint, a job for each step.

Each step ends its job, and the next one continues from the checkpoint. So each test on Spark is one of restarts, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from stateplan.common.errors import StateplanError
from stateplan.common.settings import of_mode
from stateplan.connectors.listing import natural_key
from stateplan.plans.document import PlanDocument
from stateplan.plans.plan_metadata import PlanFacts
from stateplan.plans.selector_text import Assignment, parse_selector
from stateplan.plans.selectors import Selectors
from stateplan.plans.state.reader import CheckpointReader
from stateplan.plans.state.show import StateFigures
from stateplan.runtime.inspect.stored_tables import MAIN_TABLE
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.spark.hadoop import CHECKPOINT_DIR
from stateplan.runtime.start import Submission, execute
from stateplan.runtime.translate import translate
from stateplan.runtime.user_functions import bind_functions
from stateplan.session.restart import continue_from
from stateplan.testing.checks import Actual, Verdict
from stateplan.testing.play import (
    Outcome,
    Tables,
    check_error,
    check_lint,
    check_output,
    check_state,
    initial_plan,
    run_elsewhere,
)
from stateplan.testing.rows import Change, Fields
from stateplan.testing.schedule import Arrival, Moment, output_named, schedule, stamped
from stateplan.testing.stage import with_ttls
from stateplan.testing.story import Advance, Case, End, Expect, SetTtl, UsePlan, Watermark
from stateplan.testing.story_plan import file_of, prepare

ENGINE = "Spark"
_CHECKPOINT = "checkpoint"
_ELSEWHERE = ("warning", "no warning")
"""What is expected of the engine of this process alone."""


class SparkPlay:
    """A test that runs on Spark.

    Args:
        case: the test.
        options: of the session.
        folder: the files of the test.
    """

    def __init__(self, case: Case, options: Mapping[str, str], folder: Path) -> None:
        self.case = case
        self.folder = folder
        self.session = prepare(case.sql, options)
        self.plan = initial_plan(case, self.session)
        self.now = case.clock
        self.tables = Tables(self.plan.outputs())
        self._last = case.clock - 1
        self._rows: dict[str, list[bytes]] = {name: [] for name in self.plan.inputs()}
        self._files: set[str] = set()
        self._has_input = self._has_run = False

    def moments(self) -> list[Moment]:
        """What happens. Raises StateplanError TEST008, for what Spark cannot do."""
        moments = schedule(self.case, self.plan.inputs(), self.session)
        why = self._unsupported(moments)
        if why:
            raise StateplanError("TEST008", engine=ENGINE, why=why, place=self.case.place())
        return moments

    def _unsupported(self, moments: list[Moment]) -> str:
        if any(isinstance(moment, Watermark) for moment in moments):
            return "a watermark advances without a row"
        job = translate(self.plan.over(self.folder), self.plan.options, 1, job_id="test")
        if any(spec.kernel.alarms is not None for spec in job.operators):
            return "an operator waits for the clock, which advances without a row"
        return ""

    def take(self, moment: Moment) -> None:
        """Lets a moment happen; rows wait for the next step. Raises StateplanError."""
        if isinstance(moment, Arrival):
            at = self._last = max(self.now, self._last + 1)
            for table, line in moment.rows:
                self._rows[table].append(stamped(line, at))
            self._has_input = True
        elif isinstance(moment, Advance):
            self.now += moment.ms
        elif isinstance(moment, End):
            self.run(ends=True)
        elif isinstance(moment, SetTtl):
            self.run()
            ttls = {moment.selector: moment.ttl}
            self.plan = self.plan.having(with_ttls(self.plan.document, ttls, self.plan.options))
            self._has_input = self._has_run  # the checkpoint gets the new plan, without rows
        elif isinstance(moment, UsePlan) and self._has_run:
            self.run()
            self.plan = self.session.load(Path(self.case.file).parent / moment.path)
            self._has_input = self._has_run

    def run(self, ends: bool = False) -> None:
        """Runs a job over the rows that wait. Raises StateplanError."""
        if not self._has_input and not ends:
            return
        for name, lines in self._rows.items():
            file_of(self.folder, name).write_bytes(b"".join(lines))
        self._has_input, self._has_run = False, True
        graph = bind_functions(self.plan.over(self.folder), self.session.environment.catalog.functions.of_plan)
        document = PlanDocument.from_graph(graph, PlanFacts())
        options = {**of_mode(self.plan.options), CHECKPOINT_DIR: str(self.folder / _CHECKPOINT)}
        notes: list[str] = []
        job = execute(
            Submission(
                graph,
                options,
                document.text,
                lambda old: continue_from(old, document, options, notes),
                adapt=lambda job: _adapted(job, ends),
            )
        )
        job.wait()
        self._read()

    def _read(self) -> None:
        """Takes in the changes of the sinks."""
        for name, output in self.tables.outputs.items():
            folder = self.folder / f"out-{name}-{output.node}"
            files = [str(p) for p in folder.glob("*.json") if str(p) not in self._files] if folder.is_dir() else []
            lines = [line for path in sorted(files, key=natural_key) for line in Path(path).read_bytes().splitlines()]
            self._files.update(files)
            changes = _changes(output.fields, lines)
            self.tables.all.setdefault(name, []).extend(changes)
            self.tables.step.setdefault(name, []).extend(changes)

    def state_rows(self, selector: str) -> int:
        """The live rows of a state in the checkpoint. Raises StateplanError."""
        views = Selectors(self.plan.document, self.plan.options).select(selector)
        if not self._has_run:
            return 0
        # A TTL that was edited holds from the next micro-batch on, and in the test from now on.
        ttls = [Assignment(parse_selector(selector), view.ttl) for view in views[:1] if view.source != "time"]
        reader = CheckpointReader.read(str(self.folder / _CHECKPOINT), self.plan.options, at=self.now)
        report = reader.show(selector, what_if=ttls)
        if report.what_if:
            return sum(_live_rows(guess.figures, guess.at) for guess in report.what_if)
        return sum(_live_rows(figures, 0) for figures in report.states)

    def check(self, expect: Expect) -> Verdict:
        """Compares rows with what is expected of them. Raises StateplanError."""
        outputs = self.tables.outputs
        name = output_named(expect, outputs, self.case)
        fields = outputs[name].fields
        changes = self.tables.table(name) if expect.subject == "table" else self.tables.step.get(name, [])
        return check_output(expect, Actual(fields, changes, self.case.file, name), self.session, self.case)


def _live_rows(figures: StateFigures, at: int) -> int:
    """The live rows of a state: of its main table, else of all with several rows, as in this process. ``at`` is where
    the rows are counted that have expired."""
    tables = {t.name: t.table for t in figures.state.operator.of_state(figures.state.index)}
    names = [n for n in tables if n == MAIN_TABLE] or [n for n, table in tables.items() if table.identity]
    mine = [figures.tables[n] for n in names]
    return sum(table.rows - (table.aged[at].rows if table.aged else 0) for table in mine)


def _adapted(job: JobGraph, ends: bool) -> JobGraph:
    return replace(job, open_ended=not ends)


def _changes(fields: Fields, lines: list[bytes]) -> list[Change]:
    return fields.changes([fields.frame(lines)]) if lines else []


def run_on_spark(case: Case, options: Mapping[str, str]) -> Outcome:
    """Runs a test on Spark. What is expected of warnings is not compared there."""
    return run_elsewhere(case, partial(_play, case, options))


def _play(case: Case, options: Mapping[str, str], folder: Path, outcome: Outcome) -> None:
    error: StateplanError | None = None
    play: SparkPlay | None = None
    moments: list[Moment] = [step for step in case.steps if isinstance(step, Expect)]
    try:
        play = SparkPlay(case, options, folder)
        moments = play.moments()
    except StateplanError as failure:
        if failure.code == "TEST008" or not any(e.subject == "error" for e in case.expectations()):
            raise
        error = failure
    is_new_step = True
    for moment in moments:
        try:
            if error is None and play is not None and not isinstance(moment, Expect):
                if is_new_step:
                    is_new_step, play.tables.step = False, {}
                play.take(moment)
            elif error is None and play is not None:
                play.run()
        except StateplanError as failure:
            error = failure
        if isinstance(moment, Expect):
            is_new_step = True
            if moment.subject == "error":
                outcome.verdicts.append(check_error(moment, error))
                error = None
                continue
            if error is not None:
                raise error
            if moment.subject in _ELSEWHERE:
                continue
            assert play is not None
            outcome.verdicts.append(_verdict(play, moment))
    if error is not None:
        raise error


def _verdict(play: SparkPlay, expect: Expect) -> Verdict:
    if expect.subject == "lint":
        return check_lint(expect, play.plan)
    if expect.subject == "state":
        return check_state(expect, play.state_rows(expect.name))
    return play.check(expect)
