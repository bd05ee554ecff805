"""CREATE, ALTER, DROP, SHOW and DESCRIBE FUNCTION, and what a name of a function means."""

from __future__ import annotations

import pytest

from stateplan.common.errors import CatalogError, SqlError
from stateplan.planner.catalog.udf import udf, udtf
from stateplan.session.environment import TableEnvironment

WHERE = "tests.support.plan_functions"
SOURCE = "CREATE TABLE t (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='/d', 'format'='json')"


@pytest.fixture
def env() -> TableEnvironment:
    made = TableEnvironment.create()
    made.execute_sql(SOURCE)
    made.execute_sql("CREATE TABLE snk (x STRING) WITH ('connector'='print')")
    return made


def compiled(env: TableEnvironment, query: str) -> str:
    return str(env.compile_plan_sql(f"INSERT INTO snk {query}").as_json_string())


def code(env: TableEnvironment, statement: str) -> str:
    with pytest.raises((SqlError, CatalogError)) as caught:
        env.execute_sql(statement)
    return caught.value.code


def test_functions_are_created_shown_and_dropped(env: TableEnvironment) -> None:
    env.execute_sql(f"CREATE FUNCTION f AS '{WHERE}.f' LANGUAGE PYTHON")
    env.execute_sql(f"CREATE TEMPORARY FUNCTION IF NOT EXISTS G AS '{WHERE}.g' LANGUAGE PYTHON")
    env.execute_sql(f"CREATE TEMPORARY SYSTEM FUNCTION h AS '{WHERE}.h' LANGUAGE PYTHON")
    assert env.execute_sql("SHOW USER FUNCTIONS").rows == [("f",), ("g",), ("h",)]
    assert ("g",) in env.execute_sql("SHOW FUNCTIONS").rows
    assert env.execute_sql("SHOW USER FUNCTIONS LIKE 'f%'").rows == [("f",)]
    env.execute_sql("DROP FUNCTION f")
    env.execute_sql("DROP TEMPORARY FUNCTION g")
    env.execute_sql("DROP TEMPORARY SYSTEM FUNCTION H")
    env.execute_sql("DROP FUNCTION IF EXISTS f")
    assert env.execute_sql("SHOW USER FUNCTIONS").rows == []


def test_a_function_is_described(env: TableEnvironment) -> None:
    env.execute_sql(f"CREATE FUNCTION f AS '{WHERE}.f' LANGUAGE PYTHON")
    assert dict(env.execute_sql("DESCRIBE FUNCTION f").rows) == {
        "is system function": "false",
        "is temporary": "false",
        "class name": f"{WHERE}.f",
        "function language": "PYTHON",
        "resource uris": "",
    }
    extended = dict(env.execute_sql("DESCRIBE FUNCTION EXTENDED f").rows)
    assert (extended["kind"], extended["signature"]) == ("SCALAR", "f(BIGINT)")
    assert dict(env.execute_sql("DESCRIBE FUNCTION md5").rows)["is system function"] == "true"
    assert code(env, "DESCRIBE FUNCTION nothing") == "CAT061"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (f"CREATE FUNCTION f AS '{WHERE}.f' LANGUAGE PYTHON", "CAT060"),
        ("CREATE FUNCTION k AS 'org.example.F'", "SQL211"),
        ("CREATE FUNCTION k AS 'org.example.F' LANGUAGE SCALA", "SQL211"),
        ("CREATE FUNCTION k AS 'm.f' LANGUAGE PYTHON USING JAR 'a.jar'", "SQL001"),
        ("CREATE SYSTEM FUNCTION k AS 'm.f' LANGUAGE PYTHON", "SQL001"),
        ("CREATE FUNCTION k AS 'm.f' LANGUAGE PERL", "SQL001"),
        ("DROP FUNCTION k", "CAT061"),
        ("ALTER FUNCTION k AS 'm.f' LANGUAGE PYTHON", "CAT061"),
        ("CREATE FUNCTION other.k AS 'm.f' LANGUAGE PYTHON", "CAT004"),
        ("SELECT k(a) FROM t", "SQL200"),
        ("SELECT f(c) FROM t", "SQL203"),
        ("SELECT f(a, b) FROM t", "SQL202"),
        ("SELECT f(*) FROM t", "SQL106"),
        ("SELECT missing(a) FROM t", "SQL210"),
        ("SELECT nomodule(a) FROM t", "SQL210"),
        ("SELECT plain(a) FROM t", "SQL214"),
        ("SELECT words(c) FROM t", "SQL212"),
        ("SELECT top(a) FROM t", "SQL212"),
        ("SELECT a FROM t, LATERAL TABLE(f(a))", "SQL212"),
        ("SELECT a FROM t, LATERAL TABLE(nothing(a))", "SQL150"),
        ("SELECT a FROM t, LATERAL TABLE(words(c)) AS s(v, w)", "SQL115"),
        ("SELECT a FROM t, LATERAL TABLE(words(c)) AS t(v)", "SQL113"),
        ("SELECT a FROM t LEFT JOIN LATERAL TABLE(words(c)) AS s(v) ON v = 'x'", "SQL150"),
        ("SELECT a FROM t FULL JOIN LATERAL TABLE(words(c)) AS s(v) ON TRUE", "SQL150"),
        ("SELECT cnt(DISTINCT a, b) FROM t", "SQL150"),
    ],
)
def test_errors(env: TableEnvironment, statement: str, expected: str) -> None:
    for name, reference in (
        ("f", f"{WHERE}.f"),
        ("missing", f"{WHERE}.missing"),
        ("nomodule", "no.such.module.f"),
        ("plain", f"{WHERE}.udf"),
        *((n, f"{WHERE}.{n}") for n in ("words", "top", "pmax", "cnt")),
    ):
        env.execute_sql(f"CREATE FUNCTION {name} AS '{reference}' LANGUAGE PYTHON")
    assert code(env, statement) == expected


@pytest.mark.parametrize(
    ("item", "expected", "said"),
    [
        ("cnt(c) OVER (ORDER BY pt ROWS 2 PRECEDING)", "SQL150", "takes row by row"),
        ("words(c) OVER (ORDER BY pt ROWS 2 PRECEDING)", "SQL212", "cannot be used with OVER"),
        ("pmax(DISTINCT b) OVER (ORDER BY pt ROWS 2 PRECEDING)", "SQL150", "DISTINCT with OVER"),
        ("pmax(c) OVER (ORDER BY pt ROWS 2 PRECEDING)", "SQL203", "cannot be applied to (STRING)"),
        ("pmax(b) OVER (ORDER BY pt)", "SQL164", "of a function of Python has no bound"),
        ("pmax(b) OVER (PARTITION BY a)", "SQL164", "not ordered by one field"),
        ("pmax(b) OVER (ORDER BY b ROWS 2 PRECEDING)", "SQL164", "not ordered by a time attribute"),
        ("pmax(b) OVER w + MAX(b) OVER w", "SQL164", "has functions of Python and others"),
        ("pmean(b)", "SQL212", "pmean is a function of all rows"),
    ],
)
def test_functions_with_over_are_on_columns_of_frames_with_a_bound(
    env: TableEnvironment, item: str, expected: str, said: str
) -> None:
    env.execute_sql(SOURCE.replace("t (a INT", "p (pt AS PROCTIME(), a INT"))
    for name in ("words", "pmax", "cnt", "pmean"):
        env.execute_sql(f"CREATE FUNCTION {name} AS '{WHERE}.{name}' LANGUAGE PYTHON")
    window = "" if " w" not in item else " WINDOW w AS (ORDER BY pt ROWS 2 PRECEDING)"
    with pytest.raises(SqlError) as caught:
        compiled(env, f"SELECT CAST({item} AS STRING) FROM p{window}")
    assert (caught.value.code, caught.value.place is not None) == (expected, True)
    assert said in caught.value.message
    if said == "takes row by row":
        assert "func_type='pandas'" in str(caught.value)


def test_alter_function_changes_what_is_called(env: TableEnvironment) -> None:
    env.execute_sql("CREATE FUNCTION f AS 'no.such.module.f' LANGUAGE PYTHON")
    env.execute_sql(f"ALTER FUNCTION f AS '{WHERE}.g' LANGUAGE PYTHON")
    assert '"catalogName" : "`default_catalog`.`default_database`.`f`"' in compiled(env, "SELECT f(c) FROM t")


def test_a_system_function_hides_a_built_in_one_and_a_catalog_function_does_not(env: TableEnvironment) -> None:
    text = udf(lambda v: v, ["STRING"], "STRING")
    env.create_temporary_function("`upper`", text)
    assert '"internalName" : "$UPPER$1"' in compiled(env, "SELECT UPPER(c) FROM t")
    env.create_temporary_system_function("upper", text)
    assert '"systemName" : "UPPER"' in compiled(env, "SELECT UPPER(c) FROM t")
    assert env.drop_temporary_system_function("upper")
    assert not env.drop_temporary_system_function("upper")
    assert env.drop_temporary_function("`upper`")
    assert env.list_user_defined_functions() == []


def test_only_declared_functions_are_registered(env: TableEnvironment) -> None:
    with pytest.raises(SqlError) as caught:
        env.create_temporary_function("f", lambda v: v)  # type: ignore[arg-type]
    assert caught.value.code == "SQL214"


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: udf(lambda v: v), "SQL214"),
        (lambda: udf(lambda v: v, result_type="NUMBER"), "SQL213"),
        (lambda: udf(lambda v: v, result_type=7), "SQL213"),
        (lambda: udf(7, result_type="INT"), "SQL214"),
        (lambda: udf(lambda v: v, result_type="INT", func_type="spark"), "SQL214"),  # type: ignore[arg-type]
        (lambda: udtf(lambda v: v), "SQL214"),
    ],
)
def test_wrong_declarations(make: object, expected: str) -> None:
    with pytest.raises(SqlError) as caught:
        make()  # type: ignore[operator]
    assert caught.value.code == expected


def test_computed_columns_may_call_functions(env: TableEnvironment) -> None:
    env.execute_sql(f"CREATE FUNCTION g AS '{WHERE}.g' LANGUAGE PYTHON")
    env.execute_sql(
        "CREATE TABLE s (c STRING, d AS g(c)) WITH ('connector'='filesystem', 'path'='/d', 'format'='json')"
    )
    assert "PythonCalc" in compiled(env, "SELECT d FROM s")
