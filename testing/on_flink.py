"""Runs tests on Flink, through PyFlink: the same SQL, the same rows, and the tables that are left.

Flink has no clock that a test could set, and no steps: its job reads bounded input to the end. So only tests without
times, restarts and TTL edits run there, and only their final tables are compared.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from stateplan.common.changelog import INSERT_ONLY, RowKind
from stateplan.common.errors import StateplanError
from stateplan.connectors.listing import natural_key
from stateplan.execnodes.nodes.sink import Sink
from stateplan.planner.dialect import nodes
from stateplan.session.script import ScriptStatement
from stateplan.testing.checks import Actual
from stateplan.testing.play import Outcome, check_output, final_rows, initial_plan, run_elsewhere
from stateplan.testing.rows import Change, Fields
from stateplan.testing.schedule import Arrival, Moment, output_named, schedule
from stateplan.testing.story import Case, End, Expect
from stateplan.testing.story_plan import RESULT, Input, Output, Preparation, StoryPlan, prepare

ENGINE = "Flink"
_FORMATS = {False: "json", True: "debezium-json"}
"""By whether a table has changes, the format of its files."""


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
    """Runs a test on Flink. Only its last tables are compared."""
    return run_elsewhere(case, partial(_play, case, options))


def _play(case: Case, options: Mapping[str, str], folder: Path, outcome: Outcome) -> None:
    session = prepare(case.sql, options)
    plan = initial_plan(case, session)
    moments = schedule(case, plan.inputs(), session)
    expectations = _last_tables(case, moments, plan)
    rows = {name: [line for t, line in _rows(moments) if t == name] for name in plan.inputs()}
    for name, table in plan.inputs().items():
        text = "".join(_flink_line(line, table) for line in rows[name])
        (folder / f"{name}.json").write_text(text, "utf-8")
    _execute([*settings_of(plan), *flink_statements(session, plan, folder)])
    for expect in expectations:
        name = output_named(expect, plan.outputs(), case)
        output = plan.outputs()[name]
        changes = final_rows(output, _changes(folder / f"out-{name}", output))
        actual = Actual(output.fields, changes, case.file, name)
        outcome.verdicts.append(check_output(expect, actual, session, case))


def _rows(moments: list[Moment]) -> Iterator[tuple[str, bytes]]:
    return (row for moment in moments if isinstance(moment, Arrival) for row in moment.rows)


def _last_tables(case: Case, moments: list[Moment], plan: StoryPlan) -> list[Expect]:
    """The expectations of final tables. Raises StateplanError TEST008, for a test that Flink cannot run."""

    def refuse(why: str, line: int) -> StateplanError:
        return StateplanError("TEST008", engine=ENGINE, why=why, place=case.place(line))

    last = max((i for i, m in enumerate(moments) if isinstance(m, Arrival)), default=-1)
    for moment in moments:
        if not isinstance(moment, (Arrival, Expect, End)):
            raise refuse(f"'{moment.text}' needs a clock or state that a test can set", moment.line)
    for name, table in plan.inputs().items():
        if table.mode != INSERT_ONLY and RowKind.UPDATE_BEFORE not in table.mode:
            raise refuse(f"table '{name}' has upserts, for which Flink has no files", case.line)
    for sink in plan.graph.sinks:
        if isinstance(sink, Sink) and (sink.gets_upserts or sink.require_upsert_materialize):
            raise refuse("it writes upserts, for which Flink has no files", case.line)
        if isinstance(sink, Sink) and sink.conflict_strategy is not None:
            raise refuse("ON CONFLICT needs a table of upserts, for which Flink has no files", case.line)
    tables = [m for m in moments[last + 1 :] if isinstance(m, Expect) and m.subject == "table"]
    if not tables:
        raise refuse("it does not expect a table after its last rows", case.line)
    return tables


def _flink_line(line: bytes, table: Input) -> str:
    """A row for a file of Flink: JSON, or an event of Debezium where the table has changes."""
    value: dict[str, Any] = json.loads(line)
    kind = value.pop("_op")
    if table.mode == INSERT_ONLY:
        return json.dumps(value, ensure_ascii=False) + "\n"
    side = (
        {"before": value, "after": None, "op": "d"} if kind[0] == "-" else {"before": None, "after": value, "op": "c"}
    )
    return json.dumps(side, ensure_ascii=False) + "\n"


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
    fmt = _FORMATS[has_changes]
    more = f"'{fmt}.timestamp-format.standard' = 'SQL'"
    return f"'connector' = 'filesystem', 'path' = '{path}', 'format' = '{fmt}', {more}"


def _with_options(statement: ScriptStatement, path: Path, has_changes: bool) -> str:
    """A CREATE TABLE over a file."""
    node = statement.node
    written_options = node.args.get("options")
    text = statement.text
    if written_options:
        text = text[: text.upper().rindex("WITH")]
    return f"{text} WITH ({_options(path, has_changes)})"


def _changes(folder: Path, output: Output) -> list[Change]:
    """The changes in the files of a sink."""
    files = [str(p) for p in folder.rglob("*") if p.is_file() and not p.name.startswith((".", "_"))]
    lines: list[bytes] = []
    for path in sorted(files, key=natural_key):
        for text in Path(path).read_text("utf-8").splitlines():
            event = json.loads(text)
            for side, kind in (("before", "-D"), ("after", "+I")):
                if event.get(side) is not None:
                    lines.append(json.dumps({"_op": kind, **event[side]}, ensure_ascii=False).encode())
    plain = Fields(output.fields.fields, output.fields.zone)
    return plain.changes([plain.frame(lines)]) if lines else []


def _execute(statements: list[str]) -> None:
    """Runs statements in PyFlink; jobs are waited for. Raises StateplanError TEST009, if Flink refuses one."""
    from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found] # not required

    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for statement in statements:
        try:
            key, is_set, text = statement.partition("' = '")
            if statement.startswith("SET '") and is_set:
                environment.get_config().set(key.removeprefix("SET '"), text.removesuffix("'"))
                continue
            result = environment.execute_sql(statement)
            if result.get_job_client() is not None:
                result.wait()
        except Exception as error:  # of Flink's JVM, through Py4J
            lines = [line for line in str(error).splitlines() if line.strip()]
            reason = next((line for line in reversed(lines) if "Exception:" in line), lines[0] if lines else "")
            raise StateplanError("TEST009", engine=ENGINE, statement=statement, why=reason.strip()) from None
