"""A test on Flink from step to step: its plan is executed there, and the test sets the clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from stateplan.common.changelog import INSERT_ONLY
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_tables import table_of, with_table
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.rank import RankBase
from stateplan.execnodes.nodes.sink import Sink
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.specs import LimitPushDown
from stateplan.plans.document import PlanDocument
from stateplan.plans.plan_metadata import PlanFacts
from stateplan.plans.selectors import Selectors
from stateplan.runtime.translate import translate
from stateplan.session.trial import with_sink
from stateplan.testing.checks import Actual, Verdict
from stateplan.testing.flink_clock import FlinkClock
from stateplan.testing.flink_files import (
    committed_lines,
    file_options,
    flink_line,
    output_changes,
    refusal,
    require_files,
)
from stateplan.testing.flink_job import FlinkJob
from stateplan.testing.play import Outcome, Tables, check_lint, check_output, initial_plan
from stateplan.testing.schedule import Arrival, Moment, output_named, schedule
from stateplan.testing.stage import with_ttls
from stateplan.testing.story import Advance, Case, End, Expect, Restart, SetTtl, UsePlan, Watermark
from stateplan.testing.story_plan import StoryPlan, name_of, prepare

_ELSEWHERE = ("state", "warning", "no warning")
"""What is expected of stateplan alone."""
_POLL = "20 ms"
_NEW_FILES = {"sink.rolling-policy.file-size": "1 b"}
"""A sink commits its rows with each checkpoint. By default, it goes on with its file."""


def play_steps(case: Case, options: Mapping[str, str], clock: FlinkClock, folder: Path, outcome: Outcome) -> None:
    """Runs a test. Raises StateplanError; TEST008 for what Flink cannot do."""
    play = _Play(case, options, clock, folder)
    try:
        for moment in play.moments():
            if not isinstance(moment, Expect):
                play.take(moment)
            elif moment.subject == "lint":
                outcome.verdicts.append(check_lint(moment, play.plan))
            elif moment.subject not in _ELSEWHERE:
                outcome.verdicts.append(play.check(moment))
    finally:
        play.close()


class _Play:
    """A test that runs on Flink. Its job starts with the first rows."""

    def __init__(self, case: Case, options: Mapping[str, str], clock: FlinkClock, folder: Path) -> None:
        self.case, self.clock, self.folder = case, clock, folder
        self.session = prepare(case.sql, options)
        self.plan = initial_plan(case, self.session)
        self.now = case.clock
        self.tables = Tables(self.plan.outputs())
        self._inputs = self.plan.inputs()
        self._job: FlinkJob | None = None
        self._savepoint: str | None = None
        self._rows = 0
        self._files: set[str] = set()
        self._is_new_step = self._has_ended = False

    def moments(self) -> list[Moment]:
        """What happens. Raises StateplanError TEST008."""
        require_files(self.case, self.plan)
        moments = schedule(self.case, self._inputs, self.session)
        for moment in moments:
            if isinstance(moment, Watermark):
                raise refusal(self.case, "a watermark advances without a row", moment.line)
            if isinstance(moment, Expect) and moment.subject == "error":
                raise refusal(self.case, "errors of stateplan are not those of Flink", moment.line)
        views = Selectors(self.plan.document, self.plan.options).views
        expiring_nodes = {view.node_id for view in views if view.ttl} if _advances(moments) else set()
        for node in self.plan.graph.nodes:
            if isinstance(node, RankBase) and node.id in expiring_nodes:
                raise refusal(self.case, "a top-N or LIMIT has a TTL, and Flink's cache of its rows has another clock")
            abilities = node.scan_table_source.abilities if isinstance(node, TableSourceScan) else ()
            if any(isinstance(ability, LimitPushDown) for ability in abilities):
                raise refusal(self.case, "a source stops after the rows of its LIMIT, whichever come first")
        job = translate(self.plan.over(self.folder), self.plan.options, 1, job_id="test")
        if any(spec.kernel.alarms is not None for spec in job.operators):
            raise refusal(self.case, "an operator waits for the clock, which advances without a row")
        return moments

    def take(self, moment: Moment) -> None:
        """Lets a moment happen. Raises StateplanError."""
        if self._is_new_step:
            self._is_new_step, self.tables.step = False, {}
        if isinstance(moment, Arrival):
            self._feed(moment)
        elif isinstance(moment, Advance):
            self.now += moment.ms
            self.clock.set(self.now)
        elif isinstance(moment, End):
            self._stop(drain=True)
            self._has_ended = True
        elif isinstance(moment, Restart):
            self._stop()
        elif isinstance(moment, SetTtl):
            self._stop()
            ttls = {moment.selector: moment.ttl}
            self.plan = self.plan.having(with_ttls(self.plan.document, ttls, self.plan.options))
        elif isinstance(moment, UsePlan) and self._has_started:
            self._stop()
            self.plan = self.session.load(Path(self.case.file).parent / moment.path)

    @property
    def _has_started(self) -> bool:
        return self._job is not None or self._savepoint is not None

    def _feed(self, arrival: Arrival) -> None:
        self._start()
        assert self._job is not None
        lines: dict[str, list[str]] = {}
        for table, row in arrival.rows:
            lines.setdefault(table, []).append(flink_line(row, self._inputs[table]))
        for table, texts in lines.items():
            draft = self.folder / f"{table}.draft"
            draft.write_text("".join(texts), "utf-8")
            draft.rename(self._folder_of(table) / f"{arrival.at:06d}.json")
            self._rows += len(texts) * self._scans(table)
        self._job.settle(self._rows)
        self._read()

    def _scans(self, table: str) -> int:
        """How many sources read a table."""
        scans = [node for node in self.plan.graph.nodes if isinstance(node, TableSourceScan)]
        return sum(1 for node in scans if (read := table_of(node)) is not None and name_of(read) == table)

    def _folder_of(self, table: str) -> Path:
        return self.folder / f"in-{table}"

    def _start(self) -> None:
        if self._job is not None:
            return
        self.clock.set(self.now)
        for table in self._inputs:
            self._folder_of(table).mkdir(exist_ok=True)
        plan = self.folder / "plan.json"
        plan.write_text(PlanDocument.from_graph(over_files(self.plan, self.folder), PlanFacts()).text, "utf-8")
        self._job, self._rows = FlinkJob(plan, _flink_options(self.plan), self._savepoint), 0

    def _stop(self, drain: bool = False) -> None:
        if drain and not self._has_ended:
            self._start()
        if self._job is not None:
            self._savepoint = self._job.stop(self.folder / "savepoints", drain)
            self._job = None
            self._read()

    def close(self) -> None:
        """Ends the job."""
        if self._job is not None:
            self._job.cancel()

    def _read(self) -> None:
        """Takes in the changes of the sinks."""
        for name, output in self.tables.outputs.items():
            changes = output_changes(output, committed_lines(_out(self.folder, name, output.node), self._files))
            self.tables.all.setdefault(name, []).extend(changes)
            self.tables.step.setdefault(name, []).extend(changes)

    def check(self, expect: Expect) -> Verdict:
        """Compares rows with what is expected of them. Raises StateplanError."""
        self._is_new_step = True
        name = output_named(expect, self.tables.outputs, self.case)
        changes = self.tables.table(name) if expect.subject == "table" else self.tables.step.get(name, [])
        output = self.tables.outputs[name]
        actual = Actual(output.fields, changes, self.case.file, name, has_updates=False, key=output.key)
        return check_output(expect, actual, self.session, self.case)


def _advances(moments: Sequence[Moment]) -> bool:
    return any(isinstance(moment, Advance) for moment in moments)


def _out(folder: Path, name: str, node: int) -> Path:
    return folder / f"out-{name}-{node}"


def _flink_options(plan: StoryPlan) -> dict[str, str]:
    return {k: text for k, text in plan.options.items() if not k.startswith(("spark.", "stateplan."))}


def over_files(plan: StoryPlan, folder: Path) -> ExecGraph:
    """The plan over files that Flink reads as they come, and files that it writes."""
    inputs = plan.inputs()

    def over(node: ExecNode) -> ExecNode:
        table = table_of(node)
        if table is None or table.resolved_table is None:
            return node
        if isinstance(node, Sink):
            options = file_options(_out(folder, name_of(table), node.id), True)
            return with_sink(node, {**options, **_NEW_FILES}, table.identifier)
        name = name_of(table)
        options = file_options(folder / f"in-{name}", inputs[name].mode != INSERT_ONLY)
        options["source.monitor-interval"] = _POLL
        resolved_table = table.resolved_table.model_copy(update={"options": options, "partition_keys": ()})
        return with_table(node, table.model_copy(update={"resolved_table": resolved_table}))

    return plan.graph.replace([n for node in plan.graph.nodes if (n := over(node)) is not node])
