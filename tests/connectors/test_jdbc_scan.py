"""Scans of tables of PostgreSQL: types and values, conditions, errors. Their copies: see ``test_jdbc_copy``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.common.errors import StateplanError
from stateplan.connectors.jdbc import Jdbc
from stateplan.connectors.jdbc.columns import flink_type, split_name
from stateplan.connectors.jdbc.postgres import literal
from stateplan.session.environment import TableEnvironment
from tests.connectors.jdbc_tables import fields, options, read, source
from tests.support.long_runs import share
from tests.support.postgres import PASSWORD, Database, Postgres, refused

UTC = dt.UTC


VALUES: list[tuple[str, str, str, object]] = [
    ("boolean", "true", "BOOLEAN", True),
    ("smallint", "-32768", "SMALLINT", -32768),
    ("smallint", "-128", "TINYINT", -128),
    ("integer", "2147483647", "INT", 2147483647),
    ("smallint", "7", "INT", 7),
    ("bigint", "-9223372036854775808", "BIGINT", -(2**63)),
    ("integer", "7", "BIGINT", 7),
    ("real", "1.5", "FLOAT", 1.5),
    ("double precision", "'-Infinity'", "DOUBLE", float("-inf")),
    ("real", "0.5", "DOUBLE", 0.5),
    ("numeric(10,2)", "'12345678.90'", "DECIMAL(10, 2)", Decimal("12345678.90")),
    ("numeric", "'99999999999999999999.999999999999999999'", "DECIMAL(38, 18)", Decimal("9" * 20 + "." + "9" * 18)),
    ("numeric(10,3)", "'-1.005'", "DECIMAL(10, 2)", Decimal("-1.01")),  # rounds half up, as Flink
    ("integer", "5", "DECIMAL(10, 2)", Decimal("5.00")),
    ("text", "'a ''b'' \\ ü 漢'", "STRING", "a 'b' \\ ü 漢"),
    ("varchar(5)", "'abc'", "VARCHAR(5)", "abc"),
    ("char(5)", "'abc'", "CHAR(5)", "abc  "),
    ("bytea", r"'\x00ff27'", "BYTES", b"\x00\xff'"),
    ("date", "'0001-01-01'", "DATE", dt.date(1, 1, 1)),
    ("date", "'9999-12-31'", "DATE", dt.date(9999, 12, 31)),
    ("time", "'23:59:59.987654'", "TIME(3)", dt.time(23, 59, 59, 987000)),
    ("timestamp", "'1969-07-20 20:17:40.000001'", "TIMESTAMP(6)", dt.datetime(1969, 7, 20, 20, 17, 40, 1)),
    ("timestamp", "'1969-12-31 23:59:59.999999'", "TIMESTAMP(3)", dt.datetime(1969, 12, 31, 23, 59, 59, 999000)),
    ("timestamptz", "'2020-06-01 12:00:00+02'", "TIMESTAMP_LTZ(6)", dt.datetime(2020, 6, 1, 10, tzinfo=UTC)),
    ("timestamptz", "'2020-06-01 12:00:00+00'", "TIMESTAMP(3)", dt.datetime(2020, 6, 1, 12)),
    ("uuid", "'5D2B9F6C-0000-4000-8000-000000000000'", "STRING", "5d2b9f6c-0000-4000-8000-000000000000"),
    ("json", """'{"a": 1}'""", "STRING", '{"a": 1}'),
    ("jsonb", """'{"a":1}'""", "STRING", '{"a": 1}'),
    ("inet", "'10.0.0.1/8'", "STRING", "10.0.0.1/8"),
    ("interval", "'1 day 02:03:04'", "STRING", "1 day 02:03:04"),
    ("numeric", "'NaN'", "STRING", "NaN"),
    ("date", "'infinity'", "STRING", "infinity"),
    ("int[]", "'{1,NULL,3}'", "ARRAY<INT>", [1, None, 3]),
    ("int[]", "'[5:6]={1,2}'", "ARRAY<INT>", [1, 2]),
    (
        "uuid[]",
        "'[-1:-1]={5d2b9f6c-0000-4000-8000-000000000000}'",
        "ARRAY<STRING>",
        ["5d2b9f6c-0000-4000-8000-" + "0" * 12],
    ),
    ("text[]", """'{a,"b c",NULL}'""", "ARRAY<STRING>", ["a", "b c", None]),
    ("numeric(6,2)[]", "'{1.50,NULL}'", "ARRAY<DECIMAL(6, 2)>", [Decimal("1.50"), None]),
    ("timestamp[]", "'{2020-01-01 01:02:03.004005}'", "ARRAY<TIMESTAMP(6)>", [dt.datetime(2020, 1, 1, 1, 2, 3, 4005)]),
    ("uuid[]", "'{5d2b9f6c-0000-4000-8000-000000000000}'", "ARRAY<STRING>", ["5d2b9f6c-0000-4000-8000-000000000000"]),
    ("bytea[]", r"""'{"\\x0001"}'""", "ARRAY<BYTES>", [b"\x00\x01"]),
]


def test_values_of_all_types_are_read(database: Database) -> None:
    columns = ", ".join(f"v{i} {of}" for i, (of, *_) in enumerate(VALUES))
    database.execute(
        f"CREATE TABLE t ({columns})",
        f"INSERT INTO t VALUES ({', '.join(value for _, value, *_ in VALUES)})",
        "INSERT INTO t DEFAULT VALUES",
    )
    found = read(source(database, "t", ", ".join(f"v{i} {declared}" for i, (_, _, declared, _) in enumerate(VALUES))))
    for i, (of, value, declared, expected) in enumerate(VALUES):
        assert found[0][i] == expected, (of, value, declared)
        assert found[1][i] is None


def test_numbers_in_arrays_are_rounded_like_others(database: Database) -> None:
    numbers = "'{1.235, 1.245, -1.245, NULL, 0.004}'"
    database.execute(
        "CREATE TABLE t (a numeric[], b numeric(5,3)[], c int[])",
        f"INSERT INTO t VALUES ({numbers}, {numbers}, '{{1,NULL}}'), ('{{}}', NULL, '{{}}')",
    )
    found = read(source(database, "t", "a ARRAY<DECIMAL(5, 2)>, b ARRAY<DECIMAL(5, 2)>, c ARRAY<DECIMAL(5, 2)>"))
    rounded = [Decimal("1.24"), Decimal("1.25"), Decimal("-1.25"), None, Decimal("0.00")]
    assert found == [(rounded, rounded, [Decimal("1.00"), None]), ([], None, [])]


WRONG = [
    ("numeric", "'NaN'", "DECIMAL(10, 2)", "NaN"),
    ("numeric", "'Infinity'", "DECIMAL(10, 2)", "Infinity"),
    ("numeric", "'123456789.5'", "DECIMAL(10, 2)", "123456789.50"),
    ("smallint", "128", "TINYINT", "128"),
    ("date", "'infinity'", "DATE", "infinity"),
    ("date", "'0044-03-15 BC'", "DATE", "about the year 44 BC"),
    ("timestamp", "'-infinity'", "TIMESTAMP(3)", "infinity"),
    ("timestamptz", "'12000-01-01'", "TIMESTAMP_LTZ(6)", "about the year 11999"),
    ("time", "'24:00'", "TIME(3)", "24:00"),
    ("int[]", "'{{1,2},{3,4}}'", "ARRAY<INT>", "an array of several dimensions"),
    ("numeric[]", "'{1,NaN}'", "ARRAY<DECIMAL(4, 2)>", "NaN"),
    ("date[]", "'{infinity}'", "ARRAY<DATE>", "infinity"),
]


def test_values_that_do_not_fit_are_errors(database: Database) -> None:
    columns = ", ".join(f"v{i} {of}" for i, (of, *_) in enumerate(WRONG))
    database.execute(f"CREATE TABLE t ({columns})", f"INSERT INTO t VALUES ({', '.join(row[1] for row in WRONG)})")
    for i, (_, _, declared, shown) in enumerate(WRONG):
        error = refused("DATA430", lambda i=i, d=declared: read(source(database, "t", f"v{i} {d}")))  # type: ignore[misc]
        assert error.message.endswith(f": {shown}")


def test_names_are_found_as_sql_finds_them(database: Database) -> None:
    database.execute(
        'CREATE SCHEMA "My Schema"', "CREATE TABLE orders (userid int)", "INSERT INTO orders VALUES (1)",
        'CREATE TABLE "My Schema"."T.1" ("A ""b""" int, "Ab" int, ab int)',
        'INSERT INTO "My Schema"."T.1" VALUES (1, 2, 3)',
        "CREATE VIEW seen AS SELECT userid + 1 AS next FROM orders",
    )  # fmt: skip
    assert read(source(database, "Orders", "userId INT")) == [(1,)]
    assert read(source(database, "public.orders", "userid INT")) == [(1,)]
    assert read(source(database, '"My Schema"."T.1"', '`A "b"` INT, Ab INT, ab INT, AB INT')) == [(1, 2, 3, 3)]
    assert read(source(database, "seen", "next INT")) == [(2,)]
    assert split_name('"a""b.".c') == ['"a"b.', "c"]
    assert [split_name(text) for text in ("", "a.", ".a", '"a', '"a"b')] == [None] * 5


def test_tables_that_are_not_as_declared_are_refused(database: Database) -> None:
    database.execute("CREATE TABLE orders (id bigint, amount numeric(10,2))", "CREATE SCHEMA s", "CREATE TABLE s.x ()")
    error = refused("RUN143", lambda: source(database, "order", "id INT").check("t"))
    assert error.hint == "did you mean 'orders'?"
    assert error.place is not None and error.place.operator == "table t"
    assert refused("RUN143", lambda: source(database, "x", "id INT").check("t")).hint == "did you mean 's.x'?"
    error = refused("RUN144", lambda: source(database, "orders", "amout DECIMAL(10, 2)").check("t"))
    assert (error.hint, error.expected) == ("did you mean 'amount'?", "columns of id, amount")
    error = refused("RUN145", lambda: source(database, "orders", "id INT").check("t"))
    assert error.expected == "a declaration as BIGINT or STRING"
    for declared in ("ROW<a INT>", "MAP<INT, INT>", "BINARY(3)", "TIMESTAMP(9)", "ARRAY<ARRAY<INT>>"):
        refused("CAT102", lambda declared=declared: source(database, "orders", f"id {declared}"))  # type: ignore[misc]


def test_databases_that_do_not_answer_are_errors_in_time(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database.execute("CREATE TABLE t (id bigint)", "CREATE ROLE nobody_here LOGIN PASSWORD 'x'")
    url = database.url

    def error(code: str, **more: str) -> StateplanError:
        more = {key.replace("_", "-"): text for key, text in more.items()}
        return refused(code, lambda: source(database, "t", "id BIGINT", more).check("t"))

    server = f"{database.server.host}:{database.server.port}"
    error("RUN140", url=url.replace(server, "127.0.0.1:1"))
    error("RUN140", url=url.replace(server, "no.such.host.invalid:5432"))
    unencrypted = error("RUN140", url=url + "?sslmode=require")
    assert unencrypted.hint is not None and "sslmode" in unencrypted.hint
    assert "wr0ng" not in str(error("RUN141", password="wr0ng"))
    assert "password" not in str(error("RUN141", password="password"))  # which is in the words of the server
    assert "authentication failed" in str(error("RUN141", password="a"))  # one letter is in any text
    monkeypatch.setenv("LOGIN", "wr0ng-x-too")
    by_reference = str(error("RUN141", username="${env:LOGIN}", password="x"))
    assert "wr0ng" not in by_reference and 'user "${env:LOGIN}"' in by_reference
    near = error("RUN142", url=url + "0")
    assert near.hint is not None and database.name in near.hint
    error("RUN147", username="nobody_here", password="x")
    database.execute("DROP ROLE nobody_here")


@pytest.mark.parametrize(
    ("code", "more"),
    [
        ("OPT145", {"url": "jdbc:mysql://host/db"}),
        ("OPT145", {"url": "postgresql://host/db"}),
        ("OPT145", {"url": "jdbc:postgresql://host:99999/db"}),
        ("OPT146", {"properties.slmode": "require"}),
        ("OPT147", {"url": "jdbc:postgresql://host/db?user=a&password=b"}),
        ("OPT147", {"url": "jdbc:postgresql://a:b@host/db"}),
        ("OPT148", {"scan.partition.column": "id"}),
        ("OPT148", {"lookup.cache.max-rows": "10"}),
        ("OPT151", {"table-name": "a.b.c"}),
        ("OPT107", {"compatible-mode": "mysql"}),
        ("OPT150", {"lookup.cache": "FULL"}),
        ("OPT150", {"lookup.cache": "FULL", "lookup.full-cache.reload-strategy": "TIMED"}),
        (
            "OPT150",
            {
                "lookup.cache": "FULL",
                "lookup.full-cache.reload-strategy": "TIMED",
                "lookup.full-cache.timed-reload.iso-time": "25:00",
            },
        ),
        (
            "OPT149",
            {
                "scan.partition.column": "id",
                "scan.partition.num": "2",
                "scan.partition.lower-bound": "5",
                "scan.partition.upper-bound": "4",
            },
        ),
    ],
)
def test_options_that_cannot_be_are_refused(code: str, more: dict[str, str]) -> None:
    plain = {"connector": "jdbc", "url": "jdbc:postgresql://host/db", "table-name": "t"}
    with pytest.raises(StateplanError) as caught:
        Jdbc().check_schema({**plain, **more}, fields("id INT"), None)
        from stateplan.connectors.registry import validate_table

        validate_table({**plain, **more}, "source")
    assert caught.value.code == code


def test_urls_and_properties_are_those_of_libpq(database: Database) -> None:
    properties = "?ApplicationName=my%20app&currentSchema=s,public&prepareThreshold=5&tcpKeepAlive=true"
    database.execute("CREATE SCHEMA s", "CREATE TABLE s.t (id int)", "INSERT INTO s.t VALUES (3)")
    more = {"url": database.url + properties, "properties.connectTimeout": "7", "properties.sslmode": "prefer"}
    found = source(database, "t", "id INT", more)
    assert read(found) == [(3,)]
    with found.reader.server.connection() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('application_name')")
        assert cursor.fetchall() == [("my app",)]
    assert PASSWORD not in repr(found.reader)
    two = database.url.replace("127.0.0.1", "127.0.0.1:1,127.0.0.1")
    assert read(source(database, "t", "id INT", {"url": two, "properties.currentSchema": "s"})) == [(3,)]


# ---- queries ---------------------------------------------------------------------------------------------------


def environment(database: Database, columns: str, name: str = "t", more: dict[str, str] | None = None) -> Any:
    session = TableEnvironment.create({})
    given = options(database, name, more)
    pairs = ", ".join(f"'{key}' = '{text}'" for key, text in given.items())
    session.execute_sql(f"CREATE TABLE t ({columns}) WITH ({pairs})")
    return session


FILTERED = (
    "SELECT id, time_col, real_col FROM t WHERE id = 900001 AND time_col <> TIME '11:11:11' OR double_col >= -1000.23"
)
PLANS = [
    (
        FILTERED,
        [
            "TableSourceScan(table=[[default_catalog, default_database, t, filter=[and(OR(=(id, 900001:BIGINT), "
            ">=(double_col, -1000.23:DECIMAL(6, 2))), OR(<>(time_col, 11:11:11), >=(double_col, "
            "-1000.23:DECIMAL(6, 2))))], project=[id, time_col, real_col]]], fields=[id, time_col, real_col])"
        ],
        "ALWAYS",
    ),
    (
        FILTERED,
        [
            "Calc(select=[id, time_col, real_col], where=[(((id = 900001) OR (double_col >= -1000.23)) AND "
            "((time_col <> 11:11:11) OR (double_col >= -1000.23)))])",
            "+- TableSourceScan(table=[[default_catalog, default_database, t, filter=[], "
            "project=[id, time_col, real_col, double_col]]], fields=[id, time_col, real_col, double_col])",
        ],
        "NEVER",
    ),
    (
        "SELECT id, time_col FROM t LIMIT 3",
        [
            "Limit(offset=[0], fetch=[3])",
            "+- Exchange(distribution=[single])",
            "   +- TableSourceScan(table=[[default_catalog, default_database, t, project=[id, time_col], limit=[3]]], "
            "fields=[id, time_col])",
        ],
        "ALWAYS",
    ),
    (
        "SELECT decimal_col, timestamp9_col, id FROM t",
        [
            "TableSourceScan(table=[[default_catalog, default_database, t, project=[decimal_col, timestamp9_col, "
            "id]]], fields=[decimal_col, timestamp9_col, id])"
        ],
        "ALWAYS",
    ),
]
"""Plans of Flink's own ``JdbcTablePlanTest``."""


@pytest.mark.parametrize(("query", "plan", "policy"), PLANS)
def test_plans_are_those_of_flink(query: str, plan: list[str], policy: str) -> None:
    session = TableEnvironment.create({})
    session.execute_sql(
        "CREATE TABLE t (id BIGINT, timestamp6_col TIMESTAMP(6), timestamp9_col TIMESTAMP(6), time_col TIME, "
        "real_col FLOAT, double_col DOUBLE, decimal_col DECIMAL(10, 4)) WITH ('connector' = 'jdbc', "
        f"'url' = 'jdbc:postgresql://host/db', 'table-name' = 't', 'filter.handling.policy' = '{policy}')"
    )
    lines = session.explain_sql(query).splitlines()
    start = lines.index("== Optimized Execution Plan ==") + 1
    assert lines[start : start + len(plan)] == plan


CONDITIONS = [
    "i > 2", "i <> 3 AND s = 'b'", "s <> 'b'", "s = 'B' OR i = 4", "b", "b = FALSE", "b IS NULL OR i < 2",
    "d >= 2.5", "n = 1.25", "n <> 1.25", "day < DATE '2020-01-02'", "ts = TIMESTAMP '2020-01-01 00:00:00.123'",
    "c = 'x'", "c <> 'x'", "c = 'x  '", "s LIKE 'a%'", "s > 'a'", "i IN (1, 3, 5)", "NOT (i = 1)", "i IS NOT NULL",
    "d <> CAST('NaN' AS DOUBLE)", "NOT (d = CAST('NaN' AS DOUBLE))", "d > CAST('NaN' AS DOUBLE)",
    "x IN (CAST(0.1 AS FLOAT), 0)", "5 > i", "d = d", "x = 0.1", "n > 1 AND (s = 'a' OR d < 2 OR LOWER(s) = 'b')",
]  # fmt: skip


def test_conditions_leave_the_rows_that_flink_leaves(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (i int, s text, b boolean, d float8, x real, n numeric, day date, ts timestamp, c char(3))",
        "INSERT INTO t VALUES (1, 'a', true, 1.5, 0.1, 1.25, '2020-01-01', '2020-01-01 00:00:00.123456', 'x'),"
        "(2, 'b', false, 2.5, 0.2, 1.254, '2020-01-02', '2020-01-01 00:00:00.123', 'x'),"
        "(3, 'B', NULL, 'NaN', 'NaN', 0, '2020-01-03', NULL, 'y'), (4, '', true, '-0', 0, -1, NULL, NULL, ''),"
        "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    )
    columns = "i INT, s STRING, b BOOLEAN, d DOUBLE, x FLOAT, n DECIMAL(10, 2), day DATE, ts TIMESTAMP(3), c CHAR(3)"
    told = environment(database, columns.replace("day", "`day`"))
    conditions = [condition.replace("day", "`day`") for condition in CONDITIONS]
    holds = ", ".join(f"({condition}) IS TRUE" for condition in conditions)
    every = list(told.execute_sql(f"SELECT i, s, c, {holds} FROM t").collect())
    for number, condition in share(enumerate(conditions), 2):
        found = told.execute_sql(f"SELECT i, s, c FROM t WHERE {condition}").collect()
        expected = [tuple(row[:3]) for row in every if row[3 + number]]
        assert sorted(map(tuple, found), key=repr) == sorted(expected, key=repr), condition


def test_the_database_applies_what_it_can(database: Database) -> None:
    database.execute("CREATE TABLE t (id int, s text)", "INSERT INTO t SELECT i, 'x' FROM generate_series(1, 100) i")
    session = environment(database, "id INT, s STRING")
    asked: list[str] = []
    from stateplan.connectors.jdbc import scan

    whole = scan.TableReader.queries
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan.TableReader, "queries", lambda self, c: asked.extend(whole(self, c)) or whole(self, c))
        assert list(session.execute_sql("SELECT id FROM t WHERE id = 7 AND UPPER(s) = 'X'").collect()) == [(7,)]
        assert len(list(session.execute_sql("SELECT id FROM t LIMIT 2").collect())) == 2
    assert any(q.endswith('WHERE ("id" = 7)') for q in asked)
    assert any(q.endswith(" LIMIT 2") for q in asked)


def test_small_tables_are_read_without_spark(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id int, s text)", "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'a')", "ANALYZE t"
    )
    assert source(database, "t", "id INT, s STRING").size() == 3 * 8
    session = environment(database, "id INT, s STRING")
    rows = session.execute_sql("SELECT s, COUNT(*), SUM(id) FROM t GROUP BY s").collect()
    assert {tuple(row) for row in rows} >= {("a", 2, 4), ("b", 1, 2)}


@pytest.mark.parametrize(
    ("type_name", "modifier", "expected"),
    [
        ("int8", -1, "BIGINT"), ("_int4", -1, "ARRAY<INT>"), ("numeric", ((10 << 16) | 2) + 4, "DECIMAL(10, 2)"),
        ("numeric", -1, "DECIMAL(38, 18)"), ("numeric", ((50 << 16) | 2) + 4, None), ("varchar", 14, "VARCHAR(10)"),
        ("varchar", -1, "STRING"), ("bpchar", 7, "CHAR(3)"), ("timestamp", 3, "TIMESTAMP(3)"),
        ("timestamptz", -1, "TIMESTAMP_LTZ(6)"), ("uuid", -1, "VARCHAR(36)"), ("json", -1, None),
        ("bytea", -1, "BYTES"), ("numeric", ((3 << 16) | 0x7FE) + 4, None),
    ],
)  # fmt: skip
def test_types_without_a_declaration(type_name: str, modifier: int, expected: str | None) -> None:
    found = flink_type(type_name, modifier)
    assert (None if found is None else found.summary()) == expected


@pytest.fixture(scope="module")
def anything(postgres: Postgres) -> Iterator[tuple[Database, Any]]:
    """A database with an empty table for values of some types, and a connection to it."""
    made = postgres.database()
    made.execute("CREATE TABLE anything (i int, n numeric(30,6), t timestamp, s text)")
    with made.connect() as connection:
        yield made, connection


NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=6, max_value=10**12, min_value=-(10**12))
TIMES = st.datetimes(min_value=dt.datetime(1, 1, 1))
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@settings(max_examples=10)
@given(st.lists(st.tuples(*(st.none() | some for some in (NUMBERS, TIMES, TEXTS))), max_size=8))
def test_any_value_comes_as_it_is(anything: tuple[Database, Any], rows: list[tuple[Any, ...]]) -> None:
    """Values that PostgreSQL makes of random texts are those that Python has of them."""
    database, connection = anything
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE anything")
        for number, row in enumerate(rows):
            shown = ["NULL" if value is None else literal(str(value)) for value in row]
            cursor.execute(f"INSERT INTO anything VALUES ({number}, {', '.join(shown)})")
    connection.commit()
    found = read(source(database, "anything", "i INT, n DECIMAL(30, 6), t TIMESTAMP(6), s STRING"))
    assert [row[1:] for row in sorted(found)] == rows
