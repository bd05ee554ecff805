"""What the planner makes of a condition keeps the rows that the condition keeps, whatever it is rewritten to."""

from __future__ import annotations

import re
from itertools import product

import polars as pl
from hypothesis import assume, given
from hypothesis import strategies as st

from stateplan.common.types import LogicalType
from stateplan.execnodes.nodes.calc import Calc
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.nodes.values import Values
from stateplan.functions.rex import InputRef
from stateplan.planner.binding.expressions import bind_expression
from stateplan.runtime.transforms.calc import CalcTransform
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import Inserts, read_script

COLUMNS = {"a": "INT", "b": "BIGINT", "c": "STRING", "g": "BOOLEAN", "m": "INT NOT NULL"}
LAYOUT = ", ".join(f"{n} {t}" for n, t in COLUMNS.items())
VALUES = ((None, 0, 1, 2, 3), (None, 1, 2), (None, "x", "xy"), (None, True, False), (0, 2))
ROWS = list(product(*VALUES))
FRAME = pl.DataFrame(
    ROWS, schema={"c0": pl.Int32, "c1": pl.Int64, "c2": pl.String, "c3": pl.Boolean, "c4": pl.Int32}, orient="row"
)

numbers = st.sampled_from(["a", "b", "m", "a + 1", "COALESCE(a, 2)", "NULLIF(a, 1)", "CAST(a AS BIGINT)", "- b"])
constants = st.integers(-1, 3).map(str)
operators = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
cases = st.tuples(constants, constants, constants).map(
    lambda k: f"CASE WHEN g THEN {k[0]} WHEN a > 1 THEN {k[1]} ELSE {k[2]} END"
)
atoms = st.one_of(
    st.tuples(numbers, operators, constants).map(" ".join),
    st.tuples(constants, operators, numbers).map(" ".join),
    st.tuples(cases, operators, constants).map(" ".join),
    st.tuples(numbers, st.lists(constants, min_size=1, max_size=3)).map(lambda p: f"{p[0]} IN ({', '.join(p[1])})"),
    st.tuples(numbers, constants, constants).map(lambda p: f"{p[0]} NOT BETWEEN {p[1]} AND {p[2]}"),
    st.tuples(st.sampled_from(["a", "b", "c", "g", "m"]), st.sampled_from(["IS NULL", "IS NOT NULL"])).map(" ".join),
    st.sampled_from(["g", "c = 'x'", "c <> 'xy'", "c LIKE 'x_'", "c IN ('x', 'z')", "a = m", "a = b", "TRUE", "FALSE"]),
)
tests = st.sampled_from(["IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE", "IS UNKNOWN"])
conditions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        inner.map(lambda c: f"NOT ({c})"),
        st.tuples(inner, tests).map(lambda p: f"({p[0]}) {p[1]}"),
        st.tuples(inner, inner, inner).map(lambda p: f"CASE WHEN {p[0]} THEN {p[1]} ELSE {p[2]} END"),
    ),
    max_leaves=5,
)


def session() -> TableEnvironment:
    env = TableEnvironment.create()
    connector = "WITH ('connector' = 'filesystem', 'path' = '/data', 'format' = 'json')"
    tables = {"t": LAYOUT, "s": LAYOUT, "v": "a INT, v BOOLEAN"}
    for statement in read_script("".join(f"CREATE TABLE {n} ({layout}) {connector};" for n, layout in tables.items())):
        env.execute_statement(statement)
    return env


ENV = session()


def kept(sql: str) -> list[tuple[object, ...]]:
    """The rows that the plan of ``sql`` keeps, all columns."""
    (statement,) = read_script(sql)
    graph = ENV.session.compiler.inserts(Inserts.of(statement.node, statement.source)).graph
    frame = FRAME
    for node in graph.nodes:
        if isinstance(node, Values):
            assert node.tuples == (), "only conditions that exclude each other give constant rows"
            frame = pl.DataFrame({f"c{i}": [] for i in range(len(node.output_type.fields))})
        elif isinstance(node, TableSourceScan):
            names = list(COLUMNS)
            order = [names.index(f.name) for f in node.output_type.fields]
            frame = FRAME.select([f"c{i}" for i in order])
            frame.columns = [f"c{i}" for i in range(len(order))]
        elif isinstance(node, Calc):
            frame = CalcTransform(tuple(node.projection), node.condition)(frame, 0)
    return frame.rows()


def fields() -> list[tuple[str, LogicalType]]:
    (statement,) = read_script("SELECT * FROM t;")
    return ENV.session.compiler.schema(statement.node, statement.source)


def stays(condition: str) -> bool:
    """Whether Flink keeps the meaning: beside a comparison of ``a``, it drops ``a IS NOT NULL`` where unknown counts as
    true. The golden case ``(a IS NOT NULL AND a = 3) IS NOT FALSE`` has its plan."""
    return "IS NOT NULL" not in condition or not {"IS NOT TRUE", "IS NOT FALSE"} & set(
        re.findall("IS NOT [A-Z]+", condition)
    )


@given(conditions)
def test_a_condition_keeps_its_rows(condition: str) -> None:
    assume(stays(condition))
    sql = f"INSERT INTO s SELECT * FROM t WHERE {condition};"
    (statement,) = read_script(sql)
    where = statement.node.expression.args["where"].this
    rex = bind_expression(where, fields(), statement.source)
    refs = tuple(InputRef(t, i) for i, (_, t) in enumerate(fields()))
    expected = CalcTransform(refs, rex)(FRAME, 0).rows()
    assert kept(sql) == expected


@given(conditions, conditions)
def test_an_expression_keeps_its_values(condition: str, value: str) -> None:
    assume(stays(condition) and stays(value))
    sql = f"INSERT INTO v SELECT a, {value} FROM t WHERE {condition};"
    (statement,) = read_script(sql)
    select = statement.node.expression
    where = bind_expression(select.args["where"].this, fields(), statement.source)
    item = bind_expression(select.expressions[1], fields(), statement.source)
    expected = CalcTransform((InputRef(fields()[0][1], 0), item), where)(FRAME, 0).rows()
    assert kept(sql) == expected
