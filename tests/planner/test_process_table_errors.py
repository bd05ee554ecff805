"""Process table functions that cannot be declared or called: a code, the place in the SQL, and what would be right."""

from __future__ import annotations

from typing import Any

import pytest

from stateplan.common.changelog import RowKind
from stateplan.common.errors import PlanError, SqlError, StateplanError
from stateplan.execnodes.node_ttls import compiled_ttls
from stateplan.planner.catalog.udptf import ArgumentHint, ProcessTableFunction, StateHint, udptf
from stateplan.plans.document import PlanDocument
from stateplan.runtime.operators import Stateful, operator_of
from stateplan.runtime.translate import translate
from stateplan.runtime.user_functions import bind_functions
from stateplan.session.environment import TableEnvironment
from tests.support import plan_functions, process_functions
from tests.support.golden import golden_cases

TABLES = (
    "CREATE TABLE o (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
    "WITH ('connector' = 'replay', 'path' = 'o.json', 'format' = 'json')",
    "CREATE TABLE u (k INT, w INT, at6 TIMESTAMP(6)) WITH ('connector' = 'replay', 'path' = 'u', 'format' = 'json')",
    "CREATE TABLE three (a STRING, b BIGINT, c BIGINT) WITH ('connector' = 'print')",
    "CREATE TABLE pairs (a STRING, n BIGINT) WITH ('connector' = 'print')",
    "CREATE VIEW counted AS SELECT k, CAST(COUNT(*) AS INT) AS v FROM o GROUP BY k",
)
NAMES = ("step_totals", "paired", "upserted", "passed", "whole", "changing", "upserting", "timely", "copies")
ONE = "INSERT INTO three SELECT k, seen, total FROM step_totals"
CALLS = [
    ("(TABLE oo PARTITION BY k)", "CAT002", "oo", "not found"),
    ("(inputs => TABLE o PARTITION BY k)", "SQL119", "inputs", "no argument 'inputs'"),
    ("(TABLE o PARTITION BY k, steps => 3)", "SQL119", "steps", "no argument 'steps'"),
    ("(TABLE o PARTITION BY k, 3, step => 4)", "SQL119", "step => 4", "'step' comes twice"),
    ("(TABLE o PARTITION BY k, 3, DEFAULT, DEFAULT, 4)", "SQL119", "4", "too many arguments"),
    ("(step => 3)", "SQL119", "step_totals", "needs the argument 'input'"),
    ("(input => 3)", "SQL119", "3", "'input' of step_totals must be a table"),
    ("(TABLE o)", "SQL119", "TABLE o", "needs PARTITION BY"),
    ("(TABLE o PARTITION BY kk)", "SQL100", "kk", "column 'kk' not found"),
    ("(TABLE o PARTITION BY v + 1)", "SQL119", "v + 1", "takes columns"),
    ("(TABLE o PARTITION BY (k, k))", "SQL119", "k))", "comes twice"),
    ("(TABLE o PARTITION BY k ORDER BY v)", "SQL119", "v)", "ordered first by 'v', of type INT"),
    ("(TABLE o PARTITION BY k ORDER BY ts DESC)", "SQL119", "ts DESC", "falling time"),
    ("(TABLE o PARTITION BY k, 'two')", "SQL119", "'two'", "'step' of step_totals is INT, and this is"),
    ("(TABLE o PARTITION BY k, step => v)", "SQL100", "v)", "column 'v' not found"),
    ("(TABLE o PARTITION BY k, step => TABLE o)", "SQL119", "TABLE o)", "is no table"),
    ("(TABLE o PARTITION BY k, on_time => ts)", "SQL119", "ts)", "'on_time' names columns"),
    ("(TABLE o PARTITION BY k, on_time => DESCRIPTOR(tss))", "SQL119", "tss", "no column in the table 'input'"),
    ("(TABLE o PARTITION BY k, on_time => DESCRIPTOR(v))", "SQL119", "v))", "the column 'v' of type INT"),
    ("(TABLE o PARTITION BY k, on_time => DESCRIPTOR(ts, x))", "SQL119", "x))", "no table has the column 'x'"),
    ("(TABLE o PARTITION BY k, uid => '1 b')", "SQL119", "'1 b'", "no identifier"),
    ("(TABLE o PARTITION BY k, uid => UPPER('a'))", "SQL119", "UPPER", "no identifier"),
    ("(TABLE counted PARTITION BY k)", "SQL140", "step_totals", "the table 'input' of step_totals"),
]
OTHERS = [
    ("SELECT k, 1 FROM timely(TABLE o PARTITION BY k)", "SQL119", "timely", "needs a time"),
    ("SELECT `EXPR$0`, 1 FROM copies(TABLE o PARTITION BY k, 3)", "SQL119", "k, 3", "cannot be partitioned"),
    ("SELECT `EXPR$0`, 1 FROM copies(TABLE o ORDER BY ts, 3)", "SQL119", "ORDER", "cannot be ordered"),
    ("SELECT `EXPR$0`, 1 FROM copies(TABLE o)", "SQL119", "copies", "needs the argument 'times'"),
    (
        "SELECT k, 1 FROM paired(TABLE o PARTITION BY k, TABLE u PARTITION BY k)",
        "SQL119",
        "TABLE u",
        "the table 'right' of paired is partitioned by INT",
    ),
    ("SELECT k, SUM(n) FROM upserting(TABLE o PARTITION BY k) GROUP BY k", "SQL217", "upserting", "old rows"),
    (
        "SELECT k, n FROM changing(TABLE o PARTITION BY k) UNION ALL SELECT k, n + 1 FROM "
        "changing((SELECT k, v + 1 AS w FROM o) PARTITION BY k)",
        "SQL216",
        "changing((",
        "two process table functions have the identifier 'changing'",
    ),
    ("SELECT k, changing(k) FROM o", "SQL212", "changing", "is a process table function"),
    ("SELECT k, n FROM o, LATERAL TABLE(changing(k))", "SQL212", "changing", "is a process table function"),
    ("SELECT k, v FROM cnt(TABLE o PARTITION BY k, DESCRIPTOR(k))", "SQL212", "cnt", "is an aggregate function"),
    (
        "SELECT k, n FROM upserted(TABLE counted PARTITION BY k ORDER BY v)",
        "SQL119",
        "v)",
        "ordered first by 'v'",
    ),
]


@pytest.fixture
def shop() -> TableEnvironment:
    env = TableEnvironment.create()
    for table in TABLES:
        env.execute_sql(table)
    for name in NAMES:
        env.create_temporary_function(name, getattr(process_functions, name))
    env.create_temporary_function("cnt", plan_functions.cnt)
    return env


def refused(env: TableEnvironment, sql: str, code: str, at: str, message: str) -> StateplanError:
    with pytest.raises(StateplanError) as caught:
        env.compile_plan_sql(sql)
    error = caught.value
    assert error.code == code, str(error)
    assert message in error.message
    assert error.place is not None
    assert error.place.column is not None
    assert sql[error.place.column - 1 :].startswith(at), sql[error.place.column - 1 :]
    return error


@pytest.mark.parametrize(("call", "code", "at", "message"), CALLS)
def test_a_call_that_is_none_is_refused_at_its_place(
    shop: TableEnvironment, call: str, code: str, at: str, message: str
) -> None:
    refused(shop, ONE + call, code, at, message)


@pytest.mark.parametrize(("query", "code", "at", "message"), OTHERS)
def test_other_calls(shop: TableEnvironment, query: str, code: str, at: str, message: str) -> None:
    refused(shop, f"INSERT INTO pairs {query}", code, at, message)


def test_the_nearest_name_is_told(shop: TableEnvironment) -> None:
    error = refused(shop, f"{ONE}(inptu => TABLE o PARTITION BY k)", "SQL119", "inptu", "no argument")
    assert error.hint == "did you mean 'input'?"


class Whatever(ProcessTableFunction):
    def eval(self, ctx: Any, *given: Any) -> Any:
        """Takes whatever there is."""


class Timed(Whatever):
    def on_timer(self, ctx: Any, *states: Any) -> Any:
        """Nothing to do."""


class Named(ProcessTableFunction):
    def eval(self, ctx: Any, memory: Any, rows: Any) -> Any:
        """Takes these by their names."""


TABLE, ROWS = ArgumentHint("SET_SEMANTIC_TABLE"), ArgumentHint("ROW_SEMANTIC_TABLE")
KEPT = {"memory": StateHint("ROW<n INT>")}
DECLARED: list[tuple[type[ProcessTableFunction], dict[str, Any], str]] = [
    (Whatever, {"arguments": {}}, "no table argument"),
    (Whatever, {"arguments": {"input": ArgumentHint()}}, "neither a type nor one kind of semantics"),
    (Whatever, {"arguments": {"input": ArgumentHint("SET_SEMANTIC_TABLES")}}, "no trait"),
    (
        Whatever,
        {"arguments": {"input": ArgumentHint("SET_SEMANTIC_TABLE", type="INT")}},
        "traits of a table and the type",
    ),
    (Whatever, {"arguments": {"input": ArgumentHint("SET_SEMANTIC_TABLE", default=None)}}, "has a default"),
    (Whatever, {"arguments": {"uid": TABLE}}, "every process table function has"),
    (Whatever, {"arguments": {"in put": TABLE}}, "cannot be the name of an argument"),
    (Whatever, {"arguments": {"a": TABLE, "b": ROWS}}, "all must have set semantics"),
    (Whatever, {"arguments": {"a": ROWS}, "states": KEPT}, "it has states"),
    (Timed, {"arguments": {"a": ROWS}}, "it has on_timer"),
    (Whatever, {"arguments": {"memory": TABLE}, "states": KEPT}, "are both called 'memory'"),
    (Whatever, {"arguments": {"a": TABLE}, "states": {"n": StateHint("BIGINT")}}, "whose values cannot be changed"),
    (
        Whatever,
        {"arguments": {"a": TABLE}, "states": {"n": StateHint("ROW<n INT>", ttl="1 week")}},
        "the TTL of the state",
    ),
    (Whatever, {"arguments": {"a": TABLE}, "changelog_mode": "update"}, "the changelog mode 'update' is unknown"),
    (Whatever, {"arguments": {"a": TABLE}, "changelog_mode": [RowKind.DELETE]}, "no INSERT"),
    (Whatever, {"arguments": {"a": ROWS}, "changelog_mode": "upsert"}, "upserts need a key"),
    (
        Whatever,
        {"arguments": {"a": ArgumentHint("SET_SEMANTIC_TABLE", "REQUIRE_UPDATE_BEFORE")}},
        "goes with SUPPORT_UPDATES only",
    ),
    (Timed, {"arguments": {"a": ArgumentHint("SET_SEMANTIC_TABLE", "PASS_COLUMNS_THROUGH")}}, "passes columns through"),
    (Whatever, {"arguments": {"a": TABLE}, "func_type": "arrow", "changelog_mode": "retract"}, "cannot have changes"),
    (Named, {"arguments": {"input": TABLE}, "states": KEPT}, "eval takes ctx, memory, rows"),
]


@pytest.mark.parametrize(("body", "declared", "problem"), DECLARED)
def test_a_declaration_whose_parts_do_not_fit_is_refused(
    body: type[ProcessTableFunction], declared: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SqlError) as caught:
        udptf(body(), result_type="INT", **declared)
    assert caught.value.code == "SQL215"
    assert problem in caught.value.message


def test_a_plan_of_flink_takes_states_and_ttls_from_the_function(shop: TableEnvironment) -> None:
    (case,) = [c for c in golden_cases() if c.name == "process_tables: states of a partition"]
    document = PlanDocument.parse(case.plan)
    (node,) = [n for n in document.graph.nodes if n.title == "process-table-function"]
    assert node.state_names == ()
    shop.create_temporary_system_function("step_totals", process_functions.step_totals)
    bound = bind_functions(document.graph, shop.functions.of_plan).node(node.id)
    assert bound.state_names == ("memory", "last")
    assert bound.ttls({"table.exec.state.ttl": "5 min"}) == (3_600_000, 300_000)
    translated = operator_of(bound, [document.graph.inputs(node)[0].output_type], {})
    assert isinstance(translated, Stateful)
    assert [t.name for t in translated.kernel.tables] == ["memory", "last"]


def test_a_hint_gives_all_states_a_ttl(shop: TableEnvironment) -> None:
    query = f"{ONE}(TABLE o PARTITION BY k) AS p".replace("SELECT", "SELECT /*+ STATE_TTL('p' = '2 h') */")
    (node,) = [
        n
        for n in PlanDocument.parse(shop.compile_plan_sql(query).as_json_string()).graph.nodes
        if n.title == "process-table-function"
    ]
    assert node.ttls() == (7_200_000, 7_200_000)
    assert [c.origin for c in compiled_ttls(node)] == ["hint", "hint"]


def test_a_plan_needs_the_function_that_it_was_compiled_for(shop: TableEnvironment) -> None:
    document = PlanDocument.parse(shop.compile_plan_sql(f"{ONE}(TABLE o PARTITION BY k)").as_json_string())
    (node,) = [n for n in document.graph.nodes if n.title == "process-table-function"]
    assert (node.state_names, node.ttls()) == (("memory", "last"), (3_600_000, 0))

    def run(**declared: Any) -> None:
        given: dict[str, Any] = {
            "arguments": {"input": TABLE, "step": ArgumentHint(type="INT", default=1)},
            "states": {"memory": StateHint("ROW<n INT>"), "last": StateHint("ROW<n INT>")},
            "result_type": "ROW<seen BIGINT, total BIGINT>",
        }
        shop.drop_temporary_function("step_totals")
        shop.create_temporary_function("step_totals", udptf(Whatever(), **(given | declared)))
        translate(bind_functions(document.graph, shop.functions.of_plan), {}, key_groups=2)

    run()
    for changed, problem in (
        ({"states": KEPT}, "the plan has the states memory, last"),
        ({"result_type": "ROW<seen INT, total BIGINT>"}, "the plan has its result as ROW<"),
        ({"arguments": {"input": TABLE}}, "it takes other arguments than in the plan"),
        (
            {"arguments": {"input": TABLE, "step": ArgumentHint(type="INT")}},
            "it now needs the argument 'step'",
        ),
    ):
        with pytest.raises(PlanError) as caught:
            run(**changed)
        assert caught.value.code == "PLAN193"
        assert problem in caught.value.message
