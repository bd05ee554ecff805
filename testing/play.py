"""Runs a test in this process."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from difflib import SequenceMatcher
from pathlib import Path

from stateplan.common.errors import Place, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import amount
from stateplan.plans.lint import lint
from stateplan.runtime.metrics.figures import Figures, add_all
from stateplan.runtime.scratch import scratch
from stateplan.testing.checks import Actual, Verdict, check_rows
from stateplan.testing.rows import Change
from stateplan.testing.schedule import Arrival, Moment, output_named, schedule, table_named, values_of, write_tables
from stateplan.testing.stage import Ran, Settings, Stage
from stateplan.testing.story import (
    Advance,
    Case,
    End,
    Expect,
    Restart,
    SetTtl,
    UsePlan,
    Watermark,
)
from stateplan.testing.story_plan import Output, Preparation, StoryPlan, prepare
from stateplan.testing.taps import Taps


@dataclass
class Outcome:
    """What became of a test.

    Attributes:
        case: the test.
        verdicts: on its expectations.
        error: what ended it before its end, and was not expected.
        seconds: the seconds that it took.
        skip_reason: why it was not run.
    """

    case: Case
    verdicts: list[Verdict] = field(default_factory=list)
    error: StateplanError | None = None
    seconds: float = 0.0
    skip_reason: str | None = None

    @property
    def failures(self) -> list[Verdict]:
        """The expectations that do not hold."""
        return [verdict for verdict in self.verdicts if not verdict.holds]

    @property
    def holds(self) -> bool:
        return self.skip_reason is None and self.error is None and not self.failures


@dataclass(frozen=True)
class Setup:
    """A test that can run.

    Attributes:
        session: its tables.
        plan: its plan.
        moments: what happens.
    """

    session: Preparation
    plan: StoryPlan
    moments: list[Moment]


Variation = Callable[[Setup], Setup]
"""Changes a test before it runs: its plan, or the order of its rows."""


@dataclass
class Tables:
    """The changes of the sinks of a test.

    Attributes:
        outputs: the sinks by name.
        all: the changes of each so far.
        step: those since the last step.
    """

    outputs: Mapping[str, Output]
    all: dict[str, list[Change]] = field(default_factory=dict)
    step: dict[str, list[Change]] = field(default_factory=dict)

    def take(self, ran: Ran) -> None:
        """Takes in a micro-batch."""
        for name, output in self.outputs.items():
            changes = output.fields.changes(ran.changes.get(output.node, ()))
            self.all.setdefault(name, []).extend(changes)
            self.step.setdefault(name, []).extend(changes)

    def table(self, name: str) -> list[Change]:
        """The rows that all changes leave."""
        return final_rows(self.outputs[name], self.all.get(name, ()))


def final_rows(output: Output, changes: Iterable[Change]) -> list[Change]:
    """The rows that changes leave in a table: by its key, else as a multiset."""
    if output.key:
        places = [output.fields.names.index(name) for name in output.key]
        rows: dict[tuple[str | None, ...], Change] = {}
        for change in changes:
            key = tuple(change.cells[i] for i in places)
            if change.kind in ("-D", "-U"):
                rows.pop(key, None)
            else:
                rows[key] = Change("+I", change.cells)
        return list(rows.values())
    counts: Counter[tuple[str | None, ...]] = Counter()
    for change in changes:
        counts[change.cells] += 1 if change.kind[0] == "+" else -1
    return [Change("+I", cells) for cells, count in counts.items() for _ in range(count)]


@contextmanager
def test_folder() -> Iterator[Path]:
    """A folder for the files of a test, which is removed afterwards."""
    folder = Path(scratch("tests"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def initial_plan(case: Case, session: Preparation) -> StoryPlan:
    """The plan that a test begins with. Raises StateplanError."""
    for step in case.steps:
        if isinstance(step, UsePlan):
            return session.load(Path(case.file).parent / step.path)
        if not isinstance(step, (Expect, SetTtl)) or (isinstance(step, Expect) and session.statements):
            break
    return session.plan


@dataclass(frozen=True)
class Trial:
    """How a test runs, other than as it is written.

    Attributes:
        key_groups: into which state is split.
        taps: gets the rows between operators.
        vary: changes the test before it runs.
        prepare: makes its session; None for the statements of the test.
        lasting: states that never expire, by node and number.
        after: called after each moment.
        look: called when an expectation does not hold.
    """

    key_groups: int = 1
    taps: Taps | None = None
    vary: Variation | None = None
    prepare: Callable[[], Preparation] | None = None
    lasting: frozenset[tuple[int, int]] = frozenset()
    after: Callable[[Play], None] | None = None
    look: Callable[[Play, Verdict], None] | None = None


class Play:
    """A test that runs in this process.

    Args:
        case: the test.
        options: of the session.
        trial: how it runs.

    Attributes:
        outcome: what has become of it so far.
        stage: its job; None if the query could not be planned.
        tables: the changes of its sinks.
        step_figures: the figures of operators since the last step, by uid.
    """

    def __init__(self, case: Case, options: Mapping[str, str], trial: Trial | None = None) -> None:
        self.case = case
        self.options = options
        self.trial = trial or Trial()
        self.outcome = Outcome(case)
        self.step_figures: Figures = {}
        self.stage: Stage | None = None
        self.tables = Tables({})
        self._error: StateplanError | None = None
        self._is_new_step = True

    @property
    def figures(self) -> Figures:
        """The figures of the operators, by uid."""
        return {} if self.stage is None else self.stage.total

    def run(self) -> Outcome:
        """Runs the test."""
        began = time.perf_counter()
        with test_folder() as folder:
            try:
                moments = self._set_up(folder)
                for moment in moments:
                    self._take(moment)
                    if self.trial.after is not None and self.stage is not None:
                        self.trial.after(self)
                self._raise_unexpected()
            except StateplanError as error:
                self.outcome.error = with_place(error, self.case)
        self.outcome.seconds = time.perf_counter() - began
        return self.outcome

    def _set_up(self, folder: Path) -> Sequence[Moment]:
        try:
            own = self.trial.prepare
            session = prepare(self.case.sql, self.options) if own is None else own()
            plan = initial_plan(self.case, session)
            setup = Setup(session, plan, schedule(self.case, plan.inputs(), session))
            if self.trial.vary is not None:
                setup = self.trial.vary(setup)
            write_tables(folder, setup.plan.inputs(), setup.moments)
            self.session = setup.session
            trial = self.trial
            settings = Settings(self.case.clock, folder, trial.key_groups, trial.taps, trial.lasting)
            self.stage = Stage(setup.plan, setup.session, settings)
            self.tables = Tables(setup.plan.outputs())
            if self.stage.has_constant_rows:
                self.tables.take(self.stage.batch())
                self._is_new_step = False
            return setup.moments
        except StateplanError as error:
            if not any(expect.subject == "error" for expect in self.case.expectations()):
                raise
            self._error = error
            return [*self.case.expectations()]

    def _take(self, moment: Moment) -> None:
        if isinstance(moment, Expect):
            verdict = self._check(moment)
            self.outcome.verdicts.append(verdict)
            self._is_new_step = True
            if not verdict.holds and self.trial.look is not None and self.stage is not None:
                self.trial.look(self, verdict)
            return
        self._raise_unexpected()
        if self.stage is None:
            return
        if self._is_new_step:
            self._is_new_step = False
            self.tables.step, self.step_figures = {}, {}
        try:
            for ran in self._act(self.stage, moment):
                self.tables.take(ran)
                add_all(self.step_figures, ran.figures)
        except StateplanError as error:
            self._error = with_place(error, self.case, moment.line)

    def _raise_unexpected(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _act(self, stage: Stage, moment: Moment) -> list[Ran]:
        if isinstance(moment, Arrival):
            return [stage.batch(moment.at)]
        if isinstance(moment, Advance):
            return stage.advance(moment.ms)
        if isinstance(moment, Watermark):
            table = table_named(moment.table, stage.plan.inputs(), self.case, moment.line, "read a table")
            if not stage.uses_event_time(table):
                verb, place = "use the event time of a table", self.case.place(moment.line)
                raise StateplanError("TEST003", verb=verb, name=table, place=place)
            return [stage.batch(watermark=(table, moment.time))]
        if isinstance(moment, End):
            return [stage.batch(ends=True)]
        if isinstance(moment, SetTtl):
            stage.set_ttls({moment.selector: moment.ttl})
        elif isinstance(moment, Restart):
            stage.restart()
        elif isinstance(moment, UsePlan) and stage.number >= 0:
            stage.restart(self.session.load(Path(self.case.file).parent / moment.path))
            self.tables.outputs = stage.plan.outputs()
        return []

    # expectations

    def _check(self, expect: Expect) -> Verdict:
        if expect.subject == "error":
            error, self._error = self._error, None
            return check_error(expect, error)
        self._raise_unexpected()
        stage = self.stage
        if stage is None:
            return Verdict(expect, False, "the query could not be planned")
        if expect.subject == "state":
            return self._check_state(expect, stage)
        if expect.subject in ("warning", "no warning"):
            return check_notes(expect, stage.notes)
        if expect.subject == "lint":
            return check_lint(expect, stage.plan)
        return self._check_rows(expect)

    def _check_rows(self, expect: Expect) -> Verdict:
        name = output_named(expect, self.tables.outputs, self.case)
        output = self.tables.outputs[name]
        if expect.subject == "table":
            changes = sorted(self.tables.table(name), key=lambda change: [c or "" for c in change.cells])
        else:
            changes = self.tables.step.get(name, [])
        return check_output(expect, Actual(output.fields, changes, self.case.file, name), self.session, self.case)

    def _check_state(self, expect: Expect, stage: Stage) -> Verdict:
        try:
            rows = stage.state_rows(expect.name)
        except StateplanError as error:
            error.place = self.case.place(expect.line)
            raise
        return check_state(expect, rows)


def check_output(expect: Expect, actual: Actual, session: Preparation, case: Case) -> Verdict:
    """Compares expected rows with those of a sink. Raises StateplanError."""
    assert expect.block is not None
    is_sql = expect.block.form == "values"
    return check_rows(expect, actual, values_of(expect.block, actual.fields, session, case) if is_sql else None)


def check_state(expect: Expect, rows: int) -> Verdict:
    """Compares an expected number of live rows of a state with the actual one."""
    if rows == expect.count:
        return Verdict(expect, True)
    message = f"the state {expect.name} has {amount(rows, 'row')}, and not {expect.count}"
    return Verdict(expect, False, message, actual=[f"-- expect state {expect.name}: {amount(rows, 'row')}"])


def check_error(expect: Expect, error: StateplanError | None) -> Verdict:
    """Compares an expected error with the one that there was."""
    if error is None:
        return Verdict(expect, False, f"no error, and {expect.name} is expected")
    if error.code == expect.name and expect.detail in error.message:
        return Verdict(expect, True)
    line = f"-- expect error {error.code}"
    return Verdict(expect, False, f"the error is [{error.code}] {error.message}", actual=[line])


def check_notes(expect: Expect, notes: Sequence[str]) -> Verdict:
    """Compares an expected warning with what the user of the job is told."""
    if expect.subject == "no warning":
        lines = [f"-- expect warning {note}" for note in notes]
        return Verdict(expect, not notes, "; ".join(notes), actual=lines)
    if any(expect.detail in note for note in notes):
        return Verdict(expect, True)
    if not notes:
        return Verdict(expect, False, "there is no warning", actual=["-- expect no warning"])
    similar = max(notes, key=lambda note: SequenceMatcher(None, expect.detail, note).ratio())
    return Verdict(expect, False, f"the warnings are: {'; '.join(notes)}", actual=[f"-- expect warning {similar}"])


def check_lint(expect: Expect, plan: StoryPlan) -> Verdict:
    """Compares expected findings of lint with those of the plan."""
    findings = lint(plan.document, plan.options).findings
    codes = sorted(finding.code for finding in findings)
    if codes == sorted(expect.detail.split()):
        return Verdict(expect, True)
    texts = [f"{f.code} {f.operator}: {f.message}" for f in findings]
    line = " ".join(["-- expect lint", *codes])
    return Verdict(expect, False, "; ".join(texts) or "lint finds nothing", actual=[line])


def with_place(error: StateplanError, case: Case, line: int | None = None) -> StateplanError:
    """An error with a line of the test file, if it has no place in a file."""
    if error.place is None or error.place.file is None or error.place.line is None:
        operator = error.place.operator if error.place else None
        error.place = Place(file=case.file, line=line or case.line, operator=operator)
    return error


def run_case(case: Case, options: Mapping[str, str]) -> Outcome:
    """Runs a test in this process."""
    return Play(case, options).run()


def run_elsewhere(case: Case, play: Callable[[Path, Outcome], None]) -> Outcome:
    """Runs a test on another engine.

    Args:
        case: the test.
        play: takes a folder for its files, and the outcome. It raises StateplanError TEST008 for a test that the engine
            cannot run.
    """
    outcome = Outcome(case)
    began = time.perf_counter()
    with test_folder() as folder:
        try:
            play(folder, outcome)
        except StateplanError as error:
            if error.code == "TEST008":
                outcome.skip_reason = error.message
            else:
                outcome.error = with_place(error, case)
    outcome.seconds = time.perf_counter() - began
    return outcome
