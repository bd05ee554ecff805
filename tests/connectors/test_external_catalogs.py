"""Catalogs of other systems: a PostgreSQL server and folders of Delta tables, without CREATE TABLE."""

from __future__ import annotations

import json
import pickle
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stateplan.common.options import Option, OptionType
from stateplan.common.types import BIGINT, STRING
from stateplan.connectors import registry
from stateplan.connectors.catalogs import (
    CatalogType,
    ExternalCatalog,
    ExternalColumn,
    ExternalTable,
)
from stateplan.gateway.service.service import SqlGatewayService
from stateplan.session.completion import complete
from stateplan.session.environment import TableEnvironment
from tests.connectors.catalog_queries import PRINT, collected, fails, rows
from tests.support.postgres import PASSWORD, USER, Database, Postgres

# ---- PostgreSQL ------------------------------------------------------------------------------------------------


def base(database: Database) -> str:
    return f"jdbc:postgresql://{database.server.host}:{database.server.port}"


def create(database: Database, password: str = "${env:TEST_PG_PASSWORD}", **options: str) -> str:
    given = {
        "type": "jdbc",
        "base-url": base(database),
        "default-database": database.name,
        "username": USER,
        "password": password,
        **options,
    }
    listed = ", ".join(f"'{key}' = '{text}'" for key, text in given.items())
    return f"CREATE CATALOG pg WITH ({listed})"


@pytest.fixture(scope="module")
def common(postgres: Postgres) -> Database:
    """A database for tests that leave no table of a common name in it."""
    return postgres.database()


@pytest.fixture
def pg(database: Database, monkeypatch: pytest.MonkeyPatch) -> TableEnvironment:
    """A session with the server as the catalog ``pg``, which is current."""
    monkeypatch.setenv("TEST_PG_PASSWORD", PASSWORD)
    env = TableEnvironment.create()
    env.execute_sql(create(database))
    env.use_catalog("pg")
    return env


def test_databases_and_tables_of_a_server(pg: TableEnvironment, database: Database) -> None:
    """Names as Flink's PostgresCatalog gives them: base tables of all schemas, with their schemas."""
    database.execute(
        "CREATE TABLE t (a int)",
        "CREATE SCHEMA sales",
        'CREATE TABLE sales."Odd.Name" (a int)',
        "CREATE VIEW v AS SELECT 1 AS x",
        "CREATE TEMP TABLE gone (a int)",
        "CREATE TABLE parts (a int) PARTITION BY LIST (a)",
    )
    assert rows(pg, "SHOW CURRENT DATABASE") == [database.name]
    assert {"postgres", database.name} <= set(rows(pg, "SHOW DATABASES"))
    assert not {"template0", "template1"} & set(rows(pg, "SHOW DATABASES"))
    assert rows(pg, "SHOW TABLES") == ["public.parts", "public.t", "sales.Odd.Name"]
    assert rows(pg, "SHOW TABLES LIKE 'sales%'") == ["sales.Odd.Name"]
    assert rows(pg, "SHOW VIEWS") == [] and rows(pg, "SHOW USER FUNCTIONS") == []
    for path in ("t", "`public.t`", f"pg.{database.name}.t", f"{database.name}.`public.t`", "`sales.Odd.Name`"):
        assert rows(pg, f"DESCRIBE {path}") == ["a"], path
    assert fails(lambda: pg.execute_sql("DESCRIBE v")).startswith("[CAT002]")
    assert "did you mean 'public.t'" in fails(lambda: pg.execute_sql("DESCRIBE `publik.t`"))
    assert fails(lambda: pg.execute_sql("DESCRIBE pg.nowhere.t")).startswith("[CAT004] database 'pg.nowhere'")
    assert fails(lambda: pg.execute_sql("SHOW TABLES FROM nowhere")).startswith("[CAT004]")


def test_types_are_those_of_flinks_type_mapper(pg: TableEnvironment, database: Database) -> None:
    """Source: PostgresTypeMapper of flink-connector-jdbc."""
    types = {
        "boolean": "BOOLEAN",
        "smallint": "SMALLINT",
        "integer": "INT",
        "bigint": "BIGINT",
        "serial": "INT",
        "bigserial": "BIGINT",
        "real": "FLOAT",
        "double precision": "DOUBLE",
        "numeric(10, 2)": "DECIMAL(10, 2)",
        "numeric(7)": "DECIMAL(7, 0)",
        "numeric": "DECIMAL(38, 18)",
        "char(5)": "CHAR(5)",
        "char": "CHAR(1)",
        "varchar(7)": "VARCHAR(7)",
        "varchar": "STRING",
        "text": "STRING",
        "bytea": "BYTES",
        "date": "DATE",
        "time(3)": "TIME(3)",
        "time": "TIME(6)",
        "timestamp(3)": "TIMESTAMP(3)",
        "timestamp": "TIMESTAMP(6)",
        "timestamptz(0)": "TIMESTAMP_LTZ(0)",
        "timestamptz": "TIMESTAMP_LTZ(6)",
        "uuid": "VARCHAR(36)",
        "integer[]": "ARRAY<INT>",
        "numeric(5, 1)[]": "ARRAY<DECIMAL(5, 1)>",
        "varchar(3)[]": "ARRAY<VARCHAR(3)>",
        "timestamptz(3)[]": "ARRAY<TIMESTAMP_LTZ(3)>",
    }
    columns = ", ".join(f'"{name}" {name}' for name in types)
    database.execute("CREATE DOMAIN money_like AS numeric(12, 2)", f"CREATE TABLE t ({columns}, d money_like NOT NULL)")
    found = {row[0]: (row[1], row[2]) for row in pg.execute_sql("DESCRIBE t").rows}
    required = {"serial", "bigserial"}
    wanted = {name: (kind, name not in required) for name, kind in types.items()}
    assert found == {**wanted, "d": ("DECIMAL(12, 2)", False)}


def test_a_type_that_flink_does_not_have_is_told(pg: TableEnvironment, database: Database) -> None:
    kinds = ["jsonb", "interval", "numeric(50, 2)", "inet", "point"]
    database.execute(*(f"CREATE TABLE t{n} (id bigint, odd {kind})" for n, kind in enumerate(kinds)))
    assert rows(pg, "SHOW TABLES") == [f"public.t{n}" for n in range(len(kinds))]
    for n, kind in enumerate(kinds):
        told = fails(lambda n=n: pg.execute_sql(f"SELECT id FROM t{n}"))
        column = f"[CAT117] the column 'odd' of 'pg.{database.name}.public.t{n}' has the type"
        assert told.startswith(f"{column} {kind.partition('(')[0]}")


def test_the_table_is_one_of_the_connector_jdbc(pg: TableEnvironment, database: Database) -> None:
    database.execute("CREATE SCHEMA s", "CREATE TABLE s.t (a int, b text, v text, CONSTRAINT mine PRIMARY KEY (b, a))")
    assert rows(pg, "SHOW CREATE TABLE `s.t`") == [
        f"CREATE TABLE `pg`.`{database.name}`.`s.t` (\n"
        "  `a` INT NOT NULL,\n  `b` VARCHAR(2147483647) NOT NULL,\n  `v` VARCHAR(2147483647),\n"
        "  CONSTRAINT `mine` PRIMARY KEY (`b`, `a`) NOT ENFORCED\n)\n"
        "WITH (\n  'connector' = 'jdbc',\n  'password' = '${env:TEST_PG_PASSWORD}',\n  'table-name' = 's.t',\n"
        f"  'url' = '{base(database)}/{database.name}',\n  'username' = '{USER}'\n)"
    ]


def test_plans_hold_the_table_as_flink_writes_it(pg: TableEnvironment, database: Database) -> None:
    database.execute("CREATE TABLE t (id bigint PRIMARY KEY, v text)")
    identifier = f"`pg`.`{database.name}`.`t`"
    pg.execute_sql(f"CREATE TABLE default_catalog.default_database.p (id BIGINT, v STRING) {PRINT}")
    insert = "INSERT INTO default_catalog.default_database.p SELECT id, v FROM t"
    plans = {}
    for objects in ("ALL", "SCHEMA", "IDENTIFIER"):
        pg.execute_sql(f"SET 'table.plan.compile.catalog-objects' = '{objects}'")
        plans[objects] = pg.compile_plan_sql(insert).as_json_string()
        assert PASSWORD not in plans[objects]
    tables = {}
    for objects, text in plans.items():
        (source,) = (n["scanTableSource"]["table"] for n in json.loads(text)["nodes"] if "scanTableSource" in n)
        assert source["identifier"] == identifier
        tables[objects] = source
    whole = tables["ALL"]["resolvedTable"]
    assert [(c["name"], c["dataType"]) for c in whole["schema"]["columns"]] == [
        ("id", "BIGINT NOT NULL"),
        ("v", "VARCHAR(2147483647)"),
    ]
    assert whole["schema"]["primaryKey"] == {"name": "t_pkey", "type": "PRIMARY_KEY", "columns": ["id"]}
    assert whole["options"]["password"] == "${env:TEST_PG_PASSWORD}"
    assert "options" not in tables["SCHEMA"]["resolvedTable"] and "resolvedTable" not in tables["IDENTIFIER"]
    # the name alone finds the table, in the catalog, as it is now
    explained = pg.load_plan(_reference(plans["IDENTIFIER"])).explain()
    assert database.name in explained
    database.execute("ALTER TABLE t DROP COLUMN v")
    told = fails(lambda: pg.load_plan(_reference(plans["SCHEMA"])).execute())
    assert told.startswith("[CAT053]") and "column 'v' is gone" in told


def _reference(text: str) -> Any:
    from stateplan.session.environment import PlanReference

    return PlanReference.from_json_string(text)


def test_a_literal_password_is_in_no_plan(database: Database) -> None:
    database.execute("CREATE TABLE t (id bigint)")
    env = TableEnvironment.create()
    env.execute_sql(create(database, password=PASSWORD))
    env.execute_sql(f"CREATE TABLE p (id BIGINT) {PRINT}")
    shown = [str(row) for s in ("SHOW CREATE CATALOG pg", "DESCRIBE CATALOG EXTENDED pg",
             f"SHOW CREATE TABLE pg.{database.name}.t") for row in env.execute_sql(s).rows]  # fmt: skip
    plan = env.compile_plan_sql(f"INSERT INTO p SELECT id FROM pg.{database.name}.t").as_json_string()
    assert not any(PASSWORD in text for text in (*shown, plan, repr(env.catalog.require_catalog("pg"))))


def test_what_flinks_catalog_does_not_do_is_refused(pg: TableEnvironment, database: Database) -> None:
    database.execute("CREATE TABLE t (a int)")
    refused = {
        f"CREATE TABLE n (a INT) {PRINT}": "create tables",
        "CREATE TABLE n LIKE t": "create tables",
        "CREATE TABLE n AS SELECT a FROM t": "create tables",
        f"CREATE OR REPLACE TABLE n {PRINT} AS SELECT a FROM t": "create tables",
        "DROP TABLE t": "drop tables",
        "ALTER TABLE t RENAME TO u": "rename tables",
        "ALTER TABLE t SET ('a' = 'b')": "change tables",
        "CREATE VIEW v AS SELECT a FROM t": "keep views",
        "CREATE DATABASE d": "create databases",
        f"CREATE DATABASE IF NOT EXISTS {database.name}": None,
        "DROP DATABASE postgres": "drop databases",
        "CREATE FUNCTION f AS 'm.f' LANGUAGE PYTHON": "keep functions",
    }
    for statement, what in refused.items():
        if what is None:
            pg.execute_sql(statement)
            continue
        told = fails(lambda statement=statement: pg.execute_sql(statement))
        assert told.startswith(f"[CAT110] the catalog 'pg' of type 'jdbc' cannot {what}\n  --> line 1"), statement
    assert rows(pg, "SHOW TABLES") == ["public.t"]
    # what is temporary is the session's
    pg.execute_sql("CREATE TEMPORARY TABLE mine LIKE t")
    pg.execute_sql("CREATE TEMPORARY VIEW v AS SELECT a + 1 AS b FROM t")
    assert rows(pg, "SHOW TABLES") == ["mine", "public.t", "v"]
    assert rows(pg, "SHOW CREATE TABLE mine")[0].count("'jdbc'") == 1  # type: ignore[attr-defined]  # it is a text


def test_a_table_that_changes_is_seen_at_once(pg: TableEnvironment, database: Database) -> None:
    database.execute("CREATE TABLE t (a int)")
    assert rows(pg, "DESCRIBE t") == ["a"]
    database.execute("ALTER TABLE t ADD COLUMN b text")
    assert rows(pg, "DESCRIBE t") == ["a", "b"]
    database.execute("DROP TABLE t")
    assert fails(lambda: pg.execute_sql("DESCRIBE t")).startswith("[CAT002]")


def test_a_table_without_columns_has_no_rows_to_show(pg: TableEnvironment, database: Database) -> None:
    database.execute("CREATE TABLE bare ()")
    assert "SQL100" in fails(lambda: pg.execute_sql("SELECT * FROM bare"))


def test_completion_asks_the_server_only_when_it_is_meant(pg: TableEnvironment, database: Database) -> None:
    database.execute("CREATE TABLE items (a int, beta int)")
    name = f"pg.{database.name}.`public.items`"
    for text, wanted in {
        "SELECT * FROM `public.i": [name],
        f"SELECT * FROM pg.{database.name}.": [name],
        "SELECT be FROM `public.items`": None,
    }.items():
        found = complete(pg, text, len(text) if wanted else 9)
        assert found == wanted if wanted else found[0] == "beta", text
    pg.use_catalog("default_catalog")
    asked = _counted(pg)
    assert complete(pg, "SELECT * FROM o", 15) == [] and fails(lambda: pg.execute_sql("DESCRIBE itms"))
    assert asked == []
    assert complete(pg, "SELECT * FROM pg.", 17) and asked


def _counted(env: TableEnvironment) -> list[str]:
    """The databases that a catalog connects to from now on."""
    asked: list[str] = []
    catalog = env.catalog.require_catalog("pg")._catalog  # type: ignore[attr-defined]  # inside of ConnectedCatalog
    connect = catalog._connection

    def counted(database: str) -> Any:
        asked.append(database)
        return connect(database)

    catalog._connection = counted
    return asked


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ({"password": "wrong-secret"}, "RUN141", "does not let postgres in"),
        ({"username": "nobody_there"}, "RUN141", "nobody_there"),
        ({"default-database": "nowhere"}, "RUN142", "there is no database 'nowhere'"),
        ({"password": "${env:NOT_SET_ANYWHERE}"}, "OPT120", "NOT_SET_ANYWHERE"),
        ({"base-url": "jdbc:mysql://h:3306"}, "OPT145", "mysql"),
        ({"base-url": "jdbc:postgresql://h:5432/db"}, "OPT166", "base URL"),
        ({"base-url": "nonsense"}, "OPT145", ""),
        ({"compatible-mode": "x", "usename": "u"}, "OPT004", "did you mean 'username'?"),
    ],
)
def test_a_catalog_that_cannot_be_opened(common: Database, options: dict[str, str], code: str, text: str) -> None:
    env = TableEnvironment.create()
    given = {"password": PASSWORD, **options}
    told = fails(lambda: env.execute_sql(create(common, **given)))
    assert told.startswith(f"[{code}]") and text in told and "line 1" in told
    assert PASSWORD not in told and "wrong-secret" not in told
    assert rows(env, "SHOW CATALOGS") == ["default_catalog"]


@pytest.mark.parametrize(
    ("extra", "module", "options"),
    [
        ("jdbc", "adbc_driver_postgresql", "'base-url' = 'jdbc:postgresql://h', 'default-database' = 'd'"),
        ("delta", "deltalake", "'warehouse' = 'lake'"),
        ("iceberg", "pyiceberg", "'warehouse' = 'lake'"),
    ],
)
def test_a_missing_library_is_one_line(monkeypatch: pytest.MonkeyPatch, extra: str, module: str, options: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    env = TableEnvironment.create()
    told = fails(lambda: env.execute_sql(f"CREATE CATALOG c WITH ('type' = '{extra}', {options})"))
    assert told.startswith("[OPT122]") and f"pip install 'stateplan[{extra}]'" in told
    assert rows(env, "SHOW CATALOGS") == ["default_catalog"]


def test_a_server_that_is_gone_is_told_when_it_is_needed(database: Database, tmp_path: Path) -> None:
    """A catalog of the store whose server does not answer keeps nobody from working with the others."""
    store = {"table.catalog-store.kind": "file", "table.catalog-store.file.path": str(tmp_path)}
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    (tmp_path / "pg.yaml").write_text(
        f"type: jdbc\nbase-url: jdbc:postgresql://127.0.0.1:{port}\ndefault-database: d\nusername: u\n"
    )
    env = TableEnvironment.create(store)
    env.execute_sql(f"CREATE TABLE t (a INT) {PRINT}")
    assert rows(env, "SHOW CATALOGS") == ["default_catalog", "pg"]
    assert fails(lambda: env.execute_sql("DESCRIBE x")).startswith("[CAT002]")
    for statement in ("USE CATALOG pg", "SHOW TABLES FROM pg.d", "SELECT * FROM pg.d.t", "SHOW DATABASES FROM pg"):
        assert fails(lambda statement=statement: env.execute_sql(statement)).startswith("[RUN140]")
    assert complete(env, "SELECT * FROM pg.d.", 19) == []
    assert rows(env, "SHOW CREATE CATALOG pg")
    env.execute_sql("DROP CATALOG pg")


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that accepts connections and says nothing."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        server.settimeout(0.1)
        held: list[socket.socket] = []

        def accept() -> None:
            while not stop.is_set():
                try:
                    held.append(server.accept()[0])
                except TimeoutError:
                    continue

        thread = threading.Thread(target=accept)
        thread.start()
        yield server.getsockname()[1]
        stop.set()
        thread.join()
        for connection in held:
            connection.close()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (
            "'type' = 'jdbc', 'base-url' = 'jdbc:postgresql://127.0.0.1:{}', 'default-database' = 'd', "
            "'username' = 'u', 'password' = 'p'",
            "RUN140",
        ),
        (
            "'type' = 'delta', 'warehouse' = 's3://bkt/lake', 'storage.aws_endpoint_url' = 'http://127.0.0.1:{}', "
            "'storage.aws_allow_http' = 'true', 'storage.aws_region' = 'x', 'storage.aws_access_key_id' = 'k', "
            "'storage.aws_secret_access_key' = 's'",
            "DATA452",
        ),
    ],
    ids=["jdbc", "delta"],
)
def test_a_silent_server_keeps_no_other_session_waiting(
    silent: int, monkeypatch: pytest.MonkeyPatch, options: str, code: str
) -> None:
    monkeypatch.setattr("stateplan.connectors.jdbc.catalog._SECONDS", 2)
    monkeypatch.setattr("stateplan.connectors.delta.folders._SECONDS", 3)
    service = SqlGatewayService()
    try:
        one, two = service.open_session().environment, service.open_session().environment
        told: list[str] = []
        statement = f"CREATE CATALOG c WITH ({options.format(silent)})"
        waiting = threading.Thread(target=lambda: told.append(fails(lambda: one.execute_sql(statement))))
        began = time.monotonic()
        waiting.start()
        time.sleep(0.2)
        answers = 0
        while waiting.is_alive():
            assert rows(two, "SHOW CATALOGS") == ["default_catalog"]
            answers += 1
            time.sleep(0.05)
        assert answers > 10 and time.monotonic() - began < 20
        assert told and told[0].startswith(f"[{code}]")
    finally:
        service.stop()


# ---- rows ------------------------------------------------------------------------------------------------------


def test_rows_of_a_table_that_nobody_declared(pg: TableEnvironment, database: Database) -> None:
    database.execute("CREATE TABLE names (id bigint PRIMARY KEY, name text)", "INSERT INTO names VALUES (1, 'one')")
    assert collected(pg, "SELECT id + 1, name FROM names") == [(2, "one")]


@pytest.mark.spark
def test_an_insert_from_postgresql_into_delta(spark: Any, database: Database, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    database.execute("CREATE TABLE t (id bigint, v text)", "INSERT INTO t VALUES (1, 'x'), (2, NULL)")
    (tmp_path / "secret").write_text(PASSWORD)
    pg = TableEnvironment.create()
    pg.execute_sql(create(database, password=f"${{file:{tmp_path}/secret}}"))
    pg.use_catalog("pg")
    pg.execute_sql(f"CREATE CATALOG lake WITH ('type' = 'delta', 'warehouse' = '{tmp_path}/lake')")
    pg.execute_sql("CREATE TABLE lake.`default`.copied (id BIGINT, v STRING)")
    pg.execute_sql(f"SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoint'")
    pg.execute_sql("INSERT INTO lake.`default`.copied SELECT id, v FROM t").wait()
    table = DeltaTable(str(tmp_path / "lake" / "default" / "copied")).to_pyarrow_table()
    assert sorted(map(tuple, zip(*table.to_pydict().values(), strict=True))) == [(1, "x"), (2, None)]
    files = (p for p in (tmp_path / "checkpoint").rglob("*") if p.is_file())
    assert not [p for p in files if PASSWORD.encode() in p.read_bytes()]


# ---- catalogs of other packages --------------------------------------------------------------------------------


class _Shelf(ExternalCatalog):
    kind = "shelf"

    def databases(self) -> list[str]:
        return ["d"]

    def tables(self, database: str) -> list[str]:
        return ["t"] if database == "d" else []

    def table(self, database: str, name: str) -> ExternalTable | None:
        if (database, name) != ("d", "t"):
            return None
        columns = (ExternalColumn("id", BIGINT, "its number"), ExternalColumn("v", STRING))
        return ExternalTable(columns, {"connector": "datagen"}, ("id",), "pk", ("v",), "all of them")


class _ShelfType(CatalogType):
    name = "shelf"
    options = (Option("colour", OptionType.ENUM, "Of the shelf.", is_required=True, values=("red", "blue")),)

    def open(self, name: str, options: Any) -> ExternalCatalog:
        return _Shelf(name, "d")


def test_a_catalog_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.CATALOGS, "shelf", _ShelfType())
    env = TableEnvironment.create()
    assert fails(lambda: env.execute_sql("CREATE CATALOG s WITH ('type' = 'shelf')")).startswith("[OPT004]")
    told = fails(lambda: env.execute_sql("CREATE CATALOG s WITH ('type' = 'shelf', 'colour' = 'green')"))
    assert told.startswith("[OPT105]") and "'red' or 'blue'" in told
    env.execute_sql("CREATE CATALOG s WITH ('type' = 'shelf', 'colour' = 'red')")
    assert rows(env, "SHOW TABLES FROM s.d") == ["t"]
    assert rows(env, "SHOW CREATE TABLE s.d.t") == [
        "CREATE TABLE `s`.`d`.`t` (\n  `id` BIGINT NOT NULL COMMENT 'its number',\n  `v` VARCHAR(2147483647),\n"
        "  CONSTRAINT `pk` PRIMARY KEY (`id`) NOT ENFORCED\n)\nCOMMENT 'all of them'\nPARTITIONED BY (`v`)\n"
        "WITH (\n  'connector' = 'datagen'\n)"
    ]
    assert fails(lambda: env.execute_sql(f"CREATE TABLE s.d.u (a INT) {PRINT}")).startswith("[CAT110]")
    assert "datagen" not in repr(pickle.loads(pickle.dumps(_Shelf("s", "d").table("d", "t"))))
