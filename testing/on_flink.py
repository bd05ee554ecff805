"""Runs tests on Flink, through PyFlink.

With libfaketime, a test sets the clock of Flink. The plan of the test, with its TTLs, runs there as one job that goes
from step to step, and over restarts with a savepoint. The rows and changes of each step are compared.

Without libfaketime, the SQL of the test runs over bounded input to the end. So only tests without times, restarts and
TTL edits run, and only their final tables are compared.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from stateplan.common.changelog import INSERT_ONLY
from stateplan.common.errors import StateplanError
from stateplan.planner.dialect import nodes
from stateplan.session.script import ScriptStatement
from stateplan.testing.checks import Actual
from stateplan.testing.flink_clock import clock_of_jvm
from stateplan.testing.flink_files import (
    ENGINE,
    committed_lines,
    file_options,
    flink_line,
    output_changes,
    refusal,
    require_files,
)
from stateplan.testing.flink_job import of_flink
from stateplan.testing.flink_steps import play_steps
from stateplan.testing.play import Outcome, check_output, final_rows, initial_plan, run_elsewhere
from stateplan.testing.schedule import Arrival, Moment, output_named, schedule
from stateplan.testing.story import Case, End, Expect
from stateplan.testing.story_plan import RESULT, Preparation, StoryPlan, prepare


def require_flink() -> None:
    """Raises StateplanError TEST007, if PyFlink is not installed."""
    with contextlib.suppress(ImportError, ValueError):
        if importlib.util.find_spec("pyflink.table") is not None:
            return
    raise StateplanError(
        "TEST007",
        engine=ENGINE,
        why="PyFlink is not installed",
        expected="the package apache-flink 2.3 in this environment",
        hint="pip install apache-flink==2.3.0",
    )


def run_on_flink(case: Case, options: Mapping[str, str]) -> Outcome:
    """Runs a test on Flink. State, warnings and lint are not compared."""
    clock = clock_of_jvm() if importlib.util.find_spec("pyflink") is not None else None
    if clock is None:
        return run_elsewhere(case, partial(_play, case, options))
    return run_elsewhere(case, partial(play_steps, case, options, clock))


def _play(case: Case, options: Mapping[str, str], folder: Path, outcome: Outcome) -> None:
    session = prepare(case.sql, options)
    plan = initial_plan(case, session)
    moments = schedule(case, plan.inputs(), session)
    expectations = _last_tables(case, moments, plan)
    rows = {name: [line for t, line in _rows(moments) if t == name] for name in plan.inputs()}
    for name, table in plan.inputs().items():
        text = "".join(flink_line(line, table) for line in rows[name])
        (folder / f"{name}.json").write_text(text, "utf-8")
    _execute([*settings_of(plan), *flink_statements(session, plan, folder)])
    for expect in expectations:
        name = output_named(expect, plan.outputs(), case)
        output = plan.outputs()[name]
        changes = final_rows(output, output_changes(output, committed_lines(folder / f"out-{name}", set())))
        actual = Actual(output.fields, changes, case.file, name)
        outcome.verdicts.append(check_output(expect, actual, session, case))


def _rows(moments: list[Moment]) -> Iterator[tuple[str, bytes]]:
    return (row for moment in moments if isinstance(moment, Arrival) for row in moment.rows)


def _last_tables(case: Case, moments: list[Moment], plan: StoryPlan) -> list[Expect]:
    """The expectations of final tables. Raises StateplanError TEST008, for a test that Flink cannot run."""

    last = max((i for i, m in enumerate(moments) if isinstance(m, Arrival)), default=-1)
    for moment in moments:
        if not isinstance(moment, (Arrival, Expect, End)):
            raise refusal(case, f"'{moment.text}' needs a clock or state that a test can set", moment.line)
    require_files(case, plan)
    tables = [m for m in moments[last + 1 :] if isinstance(m, Expect) and m.subject == "table"]
    if not tables:
        raise refusal(case, "it does not expect a table after its last rows")
    return tables


def settings_of(plan: StoryPlan) -> Iterator[str]:
    """The options of the session as statements."""
    yield "SET 'parallelism.default' = '1'"
    for key, text in plan.options.items():
        if not key.startswith(("spark.", "stateplan.")) and key != "parallelism.default":
            yield f"SET '{key}' = '{text.replace(chr(39), 2 * chr(39))}'"


def flink_statements(session: Preparation, plan: StoryPlan, folder: Path) -> Iterator[str]:
    """The statements of a test with the files of the test in place of its tables. Raises StateplanError TEST008."""
    inputs, outputs = plan.inputs(), plan.outputs()
    for statement in session.all_statements:
        node = statement.node
        if isinstance(node, nodes.CreateTable):
            name = node.this.name
            if name in inputs:
                yield _with_options(statement, folder / f"{name}.json", inputs[name].mode != INSERT_ONLY)
            elif name in outputs:
                yield _with_options(statement, folder / f"out-{name}", True)
        elif not isinstance(node, nodes.SetOption) and statement not in session.statements:
            yield statement.text
    for statement in session.statements:
        if RESULT not in outputs:
            yield statement.text
            continue
        columns = ", ".join(f"`{name}` {kind.summary()}" for name, kind in outputs[RESULT].fields.fields)
        yield f"CREATE TABLE `{RESULT}` ({columns}) WITH ({_options(folder / f'out-{RESULT}', True)})"
        yield f"INSERT INTO `{RESULT}` {statement.text}"


def _options(path: Path, has_changes: bool) -> str:
    return ", ".join(f"'{key}' = '{text}'" for key, text in file_options(path, has_changes).items())


def _with_options(statement: ScriptStatement, path: Path, has_changes: bool) -> str:
    """A CREATE TABLE over a file."""
    node = statement.node
    written_options = node.args.get("options")
    text = statement.text
    if written_options:
        text = text[: text.upper().rindex("WITH")]
    return f"{text} WITH ({_options(path, has_changes)})"


def _execute(statements: list[str]) -> None:
    """Runs statements in PyFlink; jobs are waited for. Raises StateplanError TEST009, if Flink refuses one."""
    from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found] # not required

    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for statement in statements:
        with of_flink(statement):
            key, is_set, text = statement.partition("' = '")
            if statement.startswith("SET '") and is_set:
                environment.get_config().set(key.removeprefix("SET '"), text.removesuffix("'"))
                continue
            result = environment.execute_sql(statement)
            if result.get_job_client() is not None:
                result.wait()
