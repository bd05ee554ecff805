"""The Python API and the plan statements, with the planner and the runtime replaced by what they would give."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stateplan.common.errors import StateplanError
from stateplan.common.secrets import Secrets
from stateplan.execnodes.graph import ExecGraph
from stateplan.planner.compile import JointPlan
from stateplan.plans.document import PlanDocument
from stateplan.session.compiler import Plan
from stateplan.session.environment import CompiledPlan, PlanReference, TableEnvironment
from stateplan.session.jobs import MAX_ENDED_JOBS, JobEntry, JobRecord, Jobs
from stateplan.session.plan_secrets import hide_secrets
from stateplan.session.results import ResultKind
from stateplan.session.script import Inserts

DATA = Path(__file__).parent.parent / "plans" / "data"
INSERT = "INSERT INTO s SELECT a FROM t"
SET = f"STATEMENT SET BEGIN {INSERT}; INSERT INTO u SELECT b FROM t; END"


class Session(TableEnvironment):
    """A session whose planner gives the frozen join plan and whose runtime only notes what it was given."""

    compiled: list[list[str]]
    started: list[tuple[PlanDocument, ExecGraph]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.compiled, self.started = [], []
        self.session.compiler.inserts = self._inserts  # type: ignore[method-assign]
        self.session.starter._start = self._start  # type: ignore[assignment]

    def _inserts(self, inserts: Inserts) -> Plan:
        self.compiled.append([insert.node.sql("flink") for insert in inserts.inserts])
        graph = PlanDocument.load(str(DATA / "join" / "plan.json")).graph
        return Plan(inserts.sql, JointPlan((), (), graph), *hide_secrets(graph, self.catalog))

    def _start(
        self, document: PlanDocument, graph: ExecGraph, notes: list[str], record: JobRecord, secrets: Secrets
    ) -> Any:
        self.started.append((document, graph))
        return SimpleNamespace(wait=lambda timeout=None: True, job_id="1", when_over=lambda call: None)


@pytest.fixture
def env() -> Session:
    return Session()


def fails(env: TableEnvironment, statement: str) -> str:
    with pytest.raises(StateplanError) as raised:
        env.execute_sql(statement)
    return str(raised.value)


def test_compile_plan_writes_the_file_and_says_ok(env: Session, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "plan.json"
    result = env.execute_sql(f"COMPILE PLAN '{file}' FOR {INSERT}")
    assert (result.kind, result.rows, result.job) == (ResultKind.SUCCESS, [("OK",)], None)
    assert result.notes == (f"created the folder {file.parent}",)
    document = PlanDocument.load(str(file))
    assert document.facts is not None
    assert document.facts.sql == INSERT
    assert document.written_by == "stateplan"
    assert env.compiled == [[INSERT]]
    assert env.started == []


def test_compile_plan_without_a_path_gives_the_plan(env: Session) -> None:
    result = env.execute_sql(f"COMPILE PLAN FOR {SET}")
    assert result.kind is ResultKind.SUCCESS_WITH_CONTENT
    document = PlanDocument.parse(str(result.rows[0][0]))
    assert document.facts is not None
    assert document.facts.sql == SET
    assert env.compiled == [[INSERT, "INSERT INTO u SELECT b FROM t"]]


def test_an_existing_file_is_refused(env: Session, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text("mine")
    statement = f"COMPILE PLAN '{file}' FOR {INSERT}"
    shown = statement if len(statement) <= 120 else statement[:117] + "..."
    assert fails(env, statement) == (
        f"[PLAN002] Cannot overwrite the plan file '{file}'\n"
        f"  --> line 1, column 14\n  {shown}\n               " + "^" * min(len(str(file)) + 2, 120 - 13) + "\n"
        "  expected: a path that is free\n"
        "  hint: IF NOT EXISTS leaves the file alone; SET 'table.plan.force-recompile' = 'true' replaces it"
    )
    result = env.execute_sql(f"COMPILE PLAN '{file}' IF NOT EXISTS FOR {INSERT}")
    assert result.notes == (f"the plan {file} already exists; kept unchanged",)
    assert file.read_text() == "mine"
    assert env.compiled == []
    env.execute_sql("SET 'table.plan.force-recompile' = 'true'")
    assert env.execute_sql(f"COMPILE PLAN '{file}' FOR {INSERT}").notes == ()
    assert PlanDocument.load(str(file)).graph.nodes


def test_what_cannot_be_compiled_leaves_no_file(env: Session, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    error = StateplanError.with_text("X", "no")
    env.session.compiler.inserts = lambda inserts: (_ for _ in ()).throw(error)  # type: ignore[method-assign]
    fails(env, f"COMPILE PLAN '{file}' FOR {INSERT}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("objects", "kept"), [("ALL", (True, True)), ("SCHEMA", (True, False)), ("IDENTIFIER", (False, False))]
)
def test_how_much_of_a_table_a_plan_holds(env: Session, objects: str, kept: tuple[bool, bool]) -> None:
    env.execute_sql(f"SET 'table.plan.compile.catalog-objects' = '{objects}'")
    text = env.compile_plan_sql(INSERT).as_json_string()
    assert ('"resolvedTable"' in text, '"options"' in text) == kept


def test_of_a_temporary_table_a_plan_holds_only_the_name(env: Session) -> None:
    table = PlanDocument.load(str(DATA / "join" / "plan.json")).graph.nodes[0].to_json()["scanTableSource"]["table"]
    name = table["identifier"].split("`")[-2]
    env.execute_sql(f"CREATE TEMPORARY TABLE `{name}` (x INT) WITH ('connector' = 'print')")
    document = env.compile_plan_sql(INSERT).document
    first = document.graph.nodes[0].to_json()["scanTableSource"]["table"]
    assert "resolvedTable" not in first
    assert document.facts is not None
    assert table["identifier"] in document.facts.schema_hashes


def test_compile_and_execute(env: Session, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    statement = f"COMPILE AND EXECUTE PLAN '{file}' FOR {INSERT}"
    first = env.execute_sql(statement)
    assert (first.notes, first.job is not None, first.statement) == ((), True, "COMPILE AND EXECUTE PLAN")
    assert [tuple(r) for r in first.rows] == [(-1,)]
    second = env.execute_sql(statement.replace("SELECT a", "SELECT  a -- again\n"))
    assert second.notes == (f"the plan {file} already exists; it runs unchanged, and the statement is not compiled",)
    assert env.compiled == [[INSERT]]
    assert len(env.started) == 2


def test_compile_and_execute_refuses_the_plan_of_another_statement(env: Session, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    env.execute_sql(f"COMPILE PLAN '{file}' FOR {INSERT}")
    message = fails(env, f"COMPILE AND EXECUTE PLAN '{file}' FOR INSERT INTO s SELECT b FROM t")
    assert message.startswith(
        f"[PLAN090] the plan {file} was compiled from another statement: {INSERT}\n  --> line 1, column "
    )
    assert message.endswith(
        "  expected: the statement that the plan records, or another path\n"
        "  hint: EXECUTE PLAN runs the file; COMPILE PLAN to another path compiles the statement"
    )
    assert env.started == []
    env.execute_sql("SET 'table.plan.force-recompile' = 'true'")
    fails(env, f"COMPILE AND EXECUTE PLAN '{file}' FOR INSERT INTO s SELECT b FROM t")


def test_compile_and_execute_runs_a_plan_of_flink_as_it_is(env: Session) -> None:
    result = env.execute_sql(f"COMPILE AND EXECUTE PLAN '{DATA / 'join' / 'plan.json'}' FOR {INSERT}")
    assert result.job is not None
    assert env.compiled == []


def test_execute_plan(env: Session, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    env.execute_sql(f"COMPILE PLAN '{file}' FOR {INSERT}")
    result = env.execute_sql(f"EXECUTE PLAN '{file}'")
    assert (result.kind, result.rows) == (ResultKind.SUCCESS_WITH_CONTENT, [(-1,)])
    assert result.columns[0].startswith("default_catalog.default_database.")
    [(document, graph)] = env.started
    assert document.text == file.read_text()
    assert graph == document.graph
    assert fails(env, f"EXECUTE PLAN '{tmp_path / 'none.json'}'").startswith("[PLAN001]")
    file.write_text(file.read_text()[:500])
    assert "[PLAN01" in fails(env, f"EXECUTE PLAN '{file}'")


def test_explain_plan(env: Session, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    env.execute_sql(f"COMPILE PLAN '{file}' FOR {INSERT}")
    [(text,)] = env.execute_sql(f"EXPLAIN PLAN '{file}'").rows
    assert str(text).startswith("== Optimized Execution Plan ==\nSink(")
    assert "leftState" in str(text)
    assert env.explain_sql(INSERT).endswith(f"\n\n{text}")


def test_the_python_names(env: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = env.compile_plan_sql(INSERT)
    assert isinstance(plan, CompiledPlan)
    assert plan.get_flink_version() == "2.3"
    file = tmp_path / "plan.json"
    assert plan.write_to_file(file)
    assert not plan.write_to_file(file, ignore_if_exists=True)
    with pytest.raises(StateplanError, match="Cannot overwrite"):
        plan.write_to_file(file)
    loaded = env.load_plan(PlanReference.from_file(file))
    assert loaded.as_json_string() == plan.as_json_string() == file.read_text()
    again = env.load_plan(PlanReference.from_json_string(plan.as_json_string()))
    assert again.explain() == plan.explain()
    again.print_json_string()
    again.print_explain()
    assert capsys.readouterr().out == plan.as_json_string() + "\n" + plan.explain() + "\n"
    assert again.execute().wait()
    assert env.execute_plan(str(file)).get_job_client() is not None
    assert len(env.started) == 2


def test_statement_sets(env: Session) -> None:
    statements = env.create_statement_set().add_insert_sql(INSERT).add_insert_sql("INSERT INTO u SELECT 1;")
    assert statements.compile_plan().document.facts is not None
    assert "Sink(" in statements.explain()
    result = statements.execute()
    assert result.statement == "STATEMENT SET"
    assert env.compiled[-1] == [INSERT, "INSERT INTO u SELECT 1"]
    with pytest.raises(StateplanError, match="empty"):
        statements.execute()
    with pytest.raises(StateplanError, match="only INSERT and STATEMENT SET have a plan"):
        statements.add_insert_sql("SELECT 1")


def test_only_inserts_have_plans(env: Session) -> None:
    with pytest.raises(StateplanError) as raised:
        env.compile_plan_sql("SELECT 1")
    assert str(raised.value) == (
        "[SQL012] only INSERT and STATEMENT SET have a plan\n  --> line 1, column 1\n  SELECT 1\n"
        "  ^^^^^^^^\n  expected: INSERT or STATEMENT SET"
    )
    assert env.compile_plan_sql("EXECUTE " + SET).document.graph
    assert fails(env, SET).startswith("[SQL007] 'STATEMENT SET' is not allowed without EXECUTE")


def test_running_inserts(env: Session) -> None:
    result = env.execute_sql(INSERT)
    assert (result.statement, result.rows, result.get_result_kind()) == (
        "INSERT",
        [(-1,)],
        ResultKind.SUCCESS_WITH_CONTENT,
    )
    assert env.execute_sql("EXECUTE " + SET).statement == "STATEMENT SET"
    assert env.compiled[-1] == [INSERT, "INSERT INTO u SELECT b FROM t"]


def test_catalog_methods(env: Session) -> None:
    env.execute_sql("CREATE TEMPORARY TABLE t (a INT) WITH ('connector' = 'print')")
    env.execute_sql("CREATE DATABASE d")
    assert env.list_tables() == env.list_temporary_tables() == ["t"]
    assert env.list_databases() == ["d", "default_database"]
    assert env.list_catalogs() == [env.get_current_catalog()] == ["default_catalog"]
    env.use_database("d")
    assert env.get_current_database() == "d"
    assert env.list_tables() == []
    assert not env.drop_temporary_table("t")
    assert env.drop_temporary_table("default_database.t")
    assert (env.list_views(), env.list_temporary_views(), env.drop_temporary_view("v")) == ([], [], False)
    env.get_config().set("pipeline.name", "x")
    assert env.get_config().get("pipeline.name") == "x"


def test_options_at_creation() -> None:
    assert (
        TableEnvironment.create({"table.exec.state.ttl": "1 h"}).get_config().value("table.exec.state.ttl") == 3_600_000
    )
    with pytest.raises(StateplanError, match="unknown option"):
        TableEnvironment.create({"table.exec.state.tl": "1 h"})


def test_results_print_as_tables(env: Session, capsys: pytest.CaptureFixture[str]) -> None:
    env.execute_sql("CREATE TABLE t (a INT, `späť` STRING COMMENT '表') WITH ('connector' = 'print')").print()
    env.execute_sql("DESCRIBE t").print()
    env.execute_sql("SHOW VIEWS").print()
    env.execute_sql("SHOW CURRENT DATABASE").print()
    assert capsys.readouterr().out == (
        "OK\n"
        "+------+--------+------+--------+--------+-----------+---------+\n"
        "| name |   type | null |    key | extras | watermark | comment |\n"
        "+------+--------+------+--------+--------+-----------+---------+\n"
        "|    a |    INT | TRUE | <NULL> | <NULL> |    <NULL> |  <NULL> |\n"
        "| späť | STRING | TRUE | <NULL> | <NULL> |    <NULL> |      表 |\n"
        "+------+--------+------+--------+--------+-----------+---------+\n"
        "2 rows in set\n"
        "Empty set\n"
        "+-----------------------+\n"
        "| current database name |\n"
        "+-----------------------+\n"
        "|      default_database |\n"
        "+-----------------------+\n"
        "1 row in set\n"
    )
    assert list(env.execute_sql("SHOW TABLES").collect()) == [("t",)]


def test_a_deep_tree_is_an_error_and_no_traceback(env: Session) -> None:
    def deep(inserts: Inserts) -> Plan:
        return deep(inserts)

    env.session.compiler.inserts = deep  # type: ignore[method-assign]
    assert fails(env, INSERT).startswith("[SQL009]")


def test_importing_the_environment_loads_no_engine() -> None:
    import subprocess
    import sys

    heavy = ("pyspark", "polars", "pandas", "pyarrow")
    code = f"import sys, stateplan.session.environment; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent.parent.parent,
    )
    assert done.stdout == "[]\n"


def test_queries_do_not_push_other_jobs_out_of_the_list() -> None:
    jobs = Jobs()
    jobs.list(JobEntry("a" * 32, "insert", "INSERT ...", 1, ended=2, status="FINISHED", plan="{}"))
    for n in range(MAX_ENDED_JOBS + 5):
        jobs.list(JobEntry(f"{n:032x}", "collect", "SELECT 1", 10 + n, ended=11 + n, status="FINISHED"))
    found = jobs.entries()
    assert len(found) == MAX_ENDED_JOBS + 1
    assert (found[0].id, found[-1].id) == (f"{MAX_ENDED_JOBS + 4:032x}", "a" * 32)


def test_show_jobs_leaves_out_queries_that_have_ended() -> None:
    env = TableEnvironment.create({}, jobs=Jobs())
    list(env.execute_sql("SELECT 1").collect())
    env.execute_sql("SET 'pipeline.name' = 'mine'")
    list(env.execute_sql("SELECT 2").collect())
    env.execute_sql("RESET 'pipeline.name'")
    endless = env.execute_sql(f"SELECT v,\n  {'v' * 3} FROM (VALUES (1)) AS t(v) CROSS JOIN (VALUES (1)) AS u(vvv)")
    list(endless.collect())
    assert [row[1] for row in env.execute_sql("SHOW JOBS").collect()] == ["mine"]
