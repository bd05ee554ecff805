"""Tables as Python objects: what they are made of, their names in SQL, what is wrong with them. No job runs."""

from __future__ import annotations

import datetime as dt
from collections import namedtuple
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from stateplan import DataTypes, Row, StateplanError, TableEnvironment
from stateplan.planner.catalog.objects import CatalogTable
from stateplan.session.jobs import Jobs
from stateplan.session.table import Table


@pytest.fixture
def env() -> TableEnvironment:
    return TableEnvironment.create(jobs=Jobs())


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(StateplanError) as raised:
        call()
    return raised.value.code


def stored(env: TableEnvironment, table: Table) -> pl.DataFrame:
    """The rows that jobs will read."""
    found = env.catalog.resolve(table.identifier.parts)
    assert isinstance(found, CatalogTable)
    return pl.read_ipc(found.options["path"])


# queries


def test_a_query_is_a_table_with_a_schema(env: TableEnvironment, capsys: pytest.CaptureFixture[str]) -> None:
    table = env.sql_query("SELECT 1 AS a, 'x' AS b, CAST(NULL AS DECIMAL(5, 2)) AS a")
    assert repr(table) == "Table(a INT NOT NULL, b CHAR(1) NOT NULL, a0 DECIMAL(5, 2))"
    schema = table.get_schema()
    assert schema.get_field_names() == ["a", "b", "a0"]
    assert [str(t) for t in schema.get_field_data_types()] == ["INT NOT NULL", "CHAR(1) NOT NULL", "DECIMAL(5, 2)"]
    assert schema.get_field_count() == 3
    assert schema.get_field_data_type("b") == schema.get_field_data_type(1)
    assert schema.get_field_data_type("c") is schema.get_field_data_type(3) is None
    table.print_schema()
    assert capsys.readouterr().out == "(\n  `a` INT NOT NULL,\n  `b` CHAR(1) NOT NULL,\n  `a0` DECIMAL(5, 2)\n)\n"
    assert env.list_tables() == []


def test_a_table_in_a_text_is_its_name(env: TableEnvironment) -> None:
    one = env.sql_query("SELECT 1 AS a")
    two = env.sql_query("SELECT a + 1 AS b FROM %s" % one)  # noqa: UP031 - as PyFlink's documentation writes it
    three = env.sql_query(f"SELECT b FROM {two} UNION ALL SELECT a FROM {one}")
    assert (str(one), str(two), str(one)) == ("UnnamedTable$0", "UnnamedTable$1", "UnnamedTable$0")
    assert repr(three) == "Table(b INT NOT NULL)"
    assert env.list_views() == ["UnnamedTable$0", "UnnamedTable$1"]
    env.execute_sql("CREATE DATABASE other")
    env.use_database("other")
    assert repr(env.sql_query(f"SELECT * FROM {one}")) == "Table(a INT NOT NULL)"
    assert str(env.sql_query("SELECT 1")) == "UnnamedTable$0"


def test_a_view_of_a_table(env: TableEnvironment) -> None:
    env.execute_sql("CREATE DATABASE other")
    table = env.sql_query("SELECT 1 AS a, 2 AS a")
    env.create_temporary_view("other.v", table)
    assert env.from_path("other.v").get_schema().get_field_names() == ["a", "a0"]
    assert code_of(lambda: env.create_temporary_view("other.v", table)) == "CAT010"
    assert code_of(lambda: TableEnvironment.create().create_temporary_view("v", table)) == "CAT071"
    assert env.drop_temporary_view("other.v")
    env.create_temporary_view("w", "SELECT 1 AS a")
    assert env.list_temporary_views() == ["w"]


def test_a_query_sees_the_database_it_was_made_in(env: TableEnvironment) -> None:
    env.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'datagen')")
    table = env.sql_query("SELECT a FROM t")
    env.execute_sql("CREATE DATABASE other")
    env.use_database("other")
    assert "default_database, t" in table.explain()
    assert repr(env.sql_query(f"SELECT * FROM {table}")) == "Table(a INT)"
    assert code_of(lambda: env.from_path("t")) == "CAT002"
    assert repr(env.from_path("default_database.t")) == "Table(a INT)"
    assert env.get_current_database() == "other"


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SHOW TABLES", "SQL013"),
        ("INSERT INTO t SELECT 1", "SQL013"),
        ("SELECT x FROM nowhere", "CAT002"),
        ("SELECT", "SQL001"),
    ],
)
def test_what_is_no_query(env: TableEnvironment, query: str, code: str) -> None:
    assert code_of(lambda: env.sql_query(query)) == code


def test_a_path_is_a_name_and_nothing_else(env: TableEnvironment) -> None:
    env.from_elements([1])
    assert code_of(lambda: env.from_path("t WHERE a = 1")) == "SQL001"
    assert code_of(lambda: env.from_path("t; DROP TABLE u")) == "SQL001"


def test_html_is_escaped_and_starts_no_job(env: TableEnvironment) -> None:
    html = env.sql_query("SELECT '<b>' AS `<i>`")._repr_html_()
    assert "&lt;i&gt;</td>" in html
    assert "SELECT &#x27;&lt;b&gt;&#x27;" in html
    assert "<i>" not in html
    assert env.session.jobs.entries() == []


def test_a_plan_says_what_it_is(env: TableEnvironment) -> None:
    env.execute_sql("CREATE TABLE t (a INT, b INT) WITH ('connector' = 'datagen')")
    env.execute_sql("CREATE TABLE s (a INT, n BIGINT) WITH ('connector' = 'blackhole')")
    plan = env.compile_plan_sql("INSERT INTO s SELECT a, COUNT(*) FROM t GROUP BY a")
    assert repr(plan) == "CompiledPlan(Flink 2.3, 5 operators, 1 state)"
    assert str(plan) == plan.explain()
    assert "== State ==" in str(plan)
    html = plan._repr_html_()
    assert "<svg " in html
    assert "never expires" in html


def test_a_result_says_what_it_is(env: TableEnvironment) -> None:
    env.execute_sql("CREATE TABLE `<t>` (a INT) WITH ('connector' = 'datagen')")
    result = env.execute_sql("SHOW TABLES")
    assert repr(result) == "TableResult(SHOW TABLES: table name STRING)"
    assert '<td style="text-align: left">&lt;t&gt;</td>' in result._repr_html_()
    assert result.to_pandas().to_dict("list") == {"table name": ["<t>"]}
    assert result.to_polars().rows() == [("<t>",)]
    described = env.execute_sql("DESCRIBE `<t>`").to_arrow()
    assert described.schema.field("null").type == pa.bool_()
    assert described.to_pylist()[0]["name"] == "a"
    assert env.execute_sql("SHOW VIEWS").to_arrow().num_rows == 0


# rows of this process


def test_in_memory_tables_are_in_no_list(env: TableEnvironment) -> None:
    table = env.from_elements([1, 2])
    assert env.list_tables() == env.list_temporary_tables() == []
    assert str(table) == "`default_catalog`.`default_database`.`*anonymous_arrow$1*`"
    assert str(env.from_elements([1])) == "`default_catalog`.`default_database`.`*anonymous_arrow$2*`"


def test_a_plan_over_an_in_memory_table_is_refused(env: TableEnvironment) -> None:
    env.execute_sql("CREATE TABLE s (a BIGINT) WITH ('connector' = 'blackhole')")
    table = env.from_elements([1, 2])
    view = env.sql_query(f"SELECT * FROM {table}")
    insert = f"INSERT INTO s SELECT * FROM {view}"
    assert code_of(lambda: env.compile_plan_sql(insert)) == "CAT070"
    assert code_of(lambda: env.execute_sql(f"COMPILE PLAN 'p.json' FOR {insert}")) == "CAT070"
    assert code_of(lambda: env.create_statement_set().add_insert("s", table).compile_plan()) == "CAT070"
    assert "TableSourceScan" in env.explain_sql(insert)


def test_a_file_of_somebody_else_is_no_in_memory_table(env: TableEnvironment, tmp_path: Any) -> None:
    pl.DataFrame({"c0": [1]}).write_ipc(tmp_path / "x.arrow")
    env.execute_sql(
        f"CREATE TABLE t (a BIGINT) WITH ('connector' = 'in-memory', 'path' = '{tmp_path}/x.arrow', 'rows' = '1', "
        "'digest' = 'x')"
    )
    assert code_of(lambda: env.execute_sql("SELECT * FROM t")) == "RUN154"


def test_the_same_rows_take_one_file(env: TableEnvironment) -> None:
    rows = pd.DataFrame({"a": [1.5, None], "b": ["x", None]})
    one, two, three = (env.from_pandas(frame) for frame in (rows, rows.copy(), rows.iloc[:1]))
    paths = [env.catalog.resolve(t.identifier.parts).options["path"] for t in (one, two, three)]
    assert paths[0] == paths[1] != paths[2]


def test_pandas(env: TableEnvironment) -> None:
    frame = pd.DataFrame(
        {
            "a": pd.array([1, None], dtype="Int32"),
            "b": ["x", None],
            3: pd.Categorical(["p", "q"]),
            "t": pd.to_datetime(["2024-01-01", None]),
            "z": pd.to_datetime(["2024-01-01", None]).tz_localize("Europe/Berlin"),
            "f": [1.5, float("nan")],
        },
        index=[7, 8],
    )
    table = env.from_pandas(frame)
    assert repr(table) == ("Table(a INT, b STRING, 3 STRING, t TIMESTAMP(9), z TIMESTAMP_LTZ(9), f DOUBLE)")
    rows = stored(env, table)
    assert rows["c0"].to_list() == [1, None]
    assert rows["c4"].to_list() == [1_704_063_600 * 10**9, None]
    assert rows["c5"].to_list() == [1.5, None]
    assert repr(env.from_pandas(frame[["a", "b"]], ["x", "y"])) == "Table(x INT, y STRING)"
    typed = DataTypes.ROW([DataTypes.FIELD("x", "BIGINT"), DataTypes.FIELD("y", DataTypes.STRING())])
    assert repr(env.from_pandas(frame[["a", "b"]], typed)) == "Table(x BIGINT, y STRING)"


def test_polars(env: TableEnvironment) -> None:
    frame = pl.DataFrame({"a": [1, None], "b": [[1], None], "c": pl.Series(["x", "y"], dtype=pl.Enum(["x", "y"]))})
    assert repr(env.from_polars(frame)) == "Table(a BIGINT, b ARRAY<BIGINT>, c STRING)"
    assert repr(env.from_polars(frame.lazy().select("a"), ["k"])) == "Table(k BIGINT)"
    assert stored(env, env.from_polars(frame))["c1"].to_list() == [[1], None]


def test_arrow_in_every_shape(env: TableEnvironment) -> None:
    table = pa.table({"a": pa.array([1, 2], pa.int8())})
    batch = table.to_batches()[0]
    for data in (table, batch, [batch, batch], iter([batch]), table.to_reader(), pl.DataFrame({"a": [1]})):
        assert env.from_arrow(data).get_schema().get_field_names() == ["a"]
    assert stored(env, env.from_arrow([batch, batch]))["c0"].to_list() == [1, 2, 1, 2]
    empty = env.from_arrow(table.slice(0, 0))
    assert stored(env, empty).schema == {"c0": pl.Int8}
    required = pa.table([pa.array([1])], schema=pa.schema([pa.field("a", pa.int64(), nullable=False)]))
    assert repr(env.from_arrow(required)) == "Table(a BIGINT NOT NULL)"


def test_elements(env: TableEnvironment) -> None:
    point = namedtuple("point", ["x", "y"])
    rows = [
        (1, "a", None, Decimal("1.5"), [1, None], {"k": 1}, point(1, 2.5), b"x", True, dt.date(2024, 1, 1)),
        (None, "b", 2.5, None, [], {}, None, None, None, None),
        Row(np.int64(3), None, 1, None, None, None, point(None, 1), None, None, None),
    ]
    table = env.from_elements(rows, list("abcdefghij"))
    assert repr(table) == (
        "Table(a BIGINT, b STRING, c DOUBLE, d DECIMAL(38, 18), e ARRAY<BIGINT>, f MAP<VARCHAR(2147483647), BIGINT>, "
        "g ROW<`x` BIGINT, `y` DOUBLE>, h BYTES, i BOOLEAN, j DATE)"
    )
    kept = stored(env, table)
    assert kept["c2"].to_list() == [None, 2.5, 1.0]
    assert kept["c5"].to_list() == [[{"key": "k", "value": 1}], [], None]
    assert kept["c6"].to_list() == [{"x": 1, "y": 2.5}, None, {"x": None, "y": 1.0}]


def test_elements_of_times(env: TableEnvironment) -> None:
    moment = dt.datetime(2024, 1, 1, 1, 2, 3, 4)
    row = (moment, moment.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))), moment.time(), dt.timedelta(seconds=1))
    table = env.from_elements([row])
    assert repr(table) == ("Table(_1 TIMESTAMP(6), _2 TIMESTAMP_LTZ(6), _3 TIME(6), _4 INTERVAL DAY(6) TO SECOND(3))")
    assert stored(env, table).row(0) == (moment, row[1], moment.time(), row[3])


def test_elements_that_are_dicts(env: TableEnvironment) -> None:
    table = env.from_elements([{"a": 1}, {"b": "x", "a": None}])
    assert repr(table) == "Table(a BIGINT, b STRING)"
    assert stored(env, table).rows() == [(1, None), (None, "x")]


def test_elements_with_types(env: TableEnvironment) -> None:
    schema = DataTypes.ROW([DataTypes.FIELD("a", DataTypes.TINYINT(False)), DataTypes.FIELD("b", "ARRAY<STRING>")])
    table = env.from_elements([(1, ["x"]), {"b": None, "a": 2}], schema)
    assert repr(table) == "Table(a TINYINT NOT NULL, b ARRAY<VARCHAR(2147483647)>)"
    assert stored(env, table).rows() == [(1, ["x"]), (2, None)]
    assert repr(env.from_elements([], "ROW<a INT>")) == "Table(a INT)"
    assert repr(env.from_elements([1.5], "DOUBLE NOT NULL")) == "Table(value DOUBLE NOT NULL)"
    assert repr(env.from_elements(iter(["x"]))) == "Table(_1 STRING)"


WRONG: list[tuple[str, Callable[[TableEnvironment], object], str]] = [
    ("several types", lambda env: env.from_elements([(1,), ("a",)]), "DATA341"),
    ("only None", lambda env: env.from_elements([(None, 1)]), "DATA341"),
    ("an empty list", lambda env: env.from_elements([([],)]), "DATA341"),
    ("no rows", lambda env: env.from_elements([]), "DATA341"),
    ("an unknown class", lambda env: env.from_elements([(object(),)]), "DATA341"),
    ("a short row", lambda env: env.from_elements([(1, 2), (1,)], ["a", "b"]), "DATA342"),
    ("a value too large", lambda env: env.from_elements([(300,)], "ROW<a TINYINT>"), "DATA343"),
    ("a value of another class", lambda env: env.from_elements([("1",)], "ROW<a INT>"), "DATA343"),
    ("None in NOT NULL", lambda env: env.from_elements([(None,)], "ROW<a INT NOT NULL>"), "DATA343"),
    ("too few names", lambda env: env.from_elements([(1, 2)], ["a"]), "CAT072"),
    ("a name twice", lambda env: env.from_elements([(1, 2)], ["a", "a"]), "CAT030"),
    ("no type", lambda env: env.from_elements([1], "INTT"), "SQL213"),
    ("a column of nulls", lambda env: env.from_arrow(pa.table({"a": pa.nulls(1)})), "TYPE003"),
    ("names for Arrow", lambda env: env.from_arrow(pa.table({"a": [1]}), ["a", "b"]), "CAT072"),
    ("types for Arrow", lambda env: env.from_arrow(pa.table({"a": [1]}), "ROW<a INT, b INT>"), "CAT072"),
    ("a value that does not fit", lambda env: env.from_arrow(pa.table({"a": [1.5]}), "ROW<a INT>"), "DATA340"),
    ("names twice in Arrow", lambda env: env.from_arrow(pa.table([[1], [2]], names=["a", "a"])), "CAT030"),
    ("no Arrow data", lambda env: env.from_arrow(5), "DATA344"),
    ("no batches", lambda env: env.from_arrow([1]), "DATA344"),
    ("no data frame", lambda env: env.from_pandas("x"), "DATA344"),  # type: ignore[arg-type]
    ("a mixed column", lambda env: env.from_pandas(pd.DataFrame({"a": [1, "x"]})), "DATA344"),
    ("a complex column", lambda env: env.from_pandas(pd.DataFrame({"a": [1j]})), "DATA344"),
    ("no columns", lambda env: env.from_pandas(pd.DataFrame(index=[1, 2])), "DATA344"),
    ("an object column", lambda env: env.from_polars(pl.DataFrame({"a": [object()]})), "TYPE003"),
    ("wide numbers", lambda env: env.from_polars(pl.DataFrame({"a": pl.Series([1], dtype=pl.Int128)})), "DATA344"),
    ("no frame of Polars", lambda env: env.from_polars("x"), "DATA344"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "code"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_is_wrong(env: TableEnvironment, call: Callable[[TableEnvironment], object], code: str) -> None:
    assert code_of(lambda: call(env)) == code


def test_a_column_of_nulls_has_the_type_of_the_schema(env: TableEnvironment) -> None:
    table = env.from_arrow(pa.table({"a": pa.nulls(2)}), "ROW<a STRING>")
    assert stored(env, table)["c0"].to_list() == [None, None]
