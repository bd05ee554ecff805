"""The catalog store, and stored catalogs of gateways: what one session defines, the next one knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.gateway.service.service import SqlGatewayService
from stateplan.planner.catalog.manager import CatalogDescriptor
from stateplan.session.environment import TableEnvironment
from tests.session.catalog_sessions import PRINT, fails, rows, shell
from tests.support.command import Command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def store(folder: Path) -> dict[str, str]:
    return {"table.catalog-store.kind": "file", "table.catalog-store.file.path": str(folder / "store")}


# ---- the catalog store -----------------------------------------------------------------------------------------


def test_catalogs_of_yesterday(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = store(folder)
    env = TableEnvironment.create(options)
    env.execute_sql("CREATE CATALOG c COMMENT 'it''s mine' WITH ('type' = 'file', 'path' = 'cat')")
    env.execute_sql("CREATE CATALOG passing WITH ('type' = 'generic_in_memory', 'default-database' = 'd')")
    env.execute_sql(f"CREATE TABLE c.`default`.t (a INT) {PRINT}")
    env.execute_sql(f"CREATE TABLE passing.d.t (a INT) {PRINT}")
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    later = shell(options=options)
    assert rows(later, "SHOW CATALOGS") == ["c", "default_catalog", "passing"]
    assert rows(later, "SHOW TABLES") == ["t"]
    assert rows(later, "SHOW TABLES FROM passing.d") == []
    assert later.execute_sql("DESCRIBE CATALOG EXTENDED c").rows[2:] == [
        ("comment", "it's mine"),
        ("option:path", str(folder / "cat")),
    ]
    assert fails(lambda: later.execute_sql("CREATE CATALOG passing WITH ('type' = 'file', 'path' = 'x')")).startswith(
        "[CAT005]"
    )
    later.execute_sql("DROP CATALOG passing")
    assert rows(env, "SHOW CATALOGS") == ["c", "default_catalog"]
    assert fails(lambda: env.execute_sql("SHOW TABLES FROM passing.d")).startswith("[CAT003]")
    assert (folder / "store" / "c.yaml").read_text() == (
        f'# stateplan catalog store, format 1\n# comment: "it\'s mine"\npath: {folder}/cat\ntype: file\n'
    )
    assert (folder / "cat" / "default" / "tables" / "t.sql").exists()


def test_without_a_store_catalogs_end_with_their_session(folder: Path) -> None:
    shell(f"CREATE TABLE t (a INT) {PRINT}")
    env = TableEnvironment.create()
    assert rows(env, "SHOW CATALOGS") == ["default_catalog"]
    # SET switches the store on for what comes then
    env.execute_sql("SET 'table.catalog-store.kind' = 'file'")
    env.execute_sql(f"SET 'table.catalog-store.file.path' = '{folder / 'store'}'")
    env.execute_sql("CREATE CATALOG c WITH ('type' = 'file', 'path' = 'cat')")
    assert rows(shell(options=store(folder)), "SHOW TABLES") == ["t"]


def test_the_store_is_where_users_keep_data_unless_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    env = TableEnvironment.create({"table.catalog-store.kind": "file"})
    env.execute_sql("CREATE CATALOG c WITH ('type' = 'generic_in_memory')")
    assert (folder / "data" / "stateplan" / "catalogs" / "c.yaml").exists()
    told = fails(lambda: TableEnvironment.create({"table.catalog-store.kind": "zookeeper"}).list_catalogs())
    assert told.startswith("[OPT165]")


def test_definitions_that_flink_wrote_and_damaged_ones(folder: Path) -> None:
    (folder / "store").mkdir()
    (folder / "store" / "flink.yaml").write_text("type: generic_in_memory\ndefault-database: mydb\n")
    (folder / "store" / "bad.yaml").write_text("type: [")
    (folder / "store" / "list.yaml").write_text("- a")
    (folder / "store" / "newer.yaml").write_text("# stateplan catalog store, format 7\ntype: file\n")
    (folder / "store" / "hive.yaml").write_text("type: hive\n")
    env = TableEnvironment.create(store(folder))
    assert rows(env, "SHOW CATALOGS") == ["bad", "default_catalog", "flink", "hive", "list", "newer"]
    assert rows(env, "SHOW DATABASES FROM flink") == ["mydb"]
    for name, code in {"bad": "CAT111", "list": "CAT111", "newer": "CAT112", "hive": "OPT004"}.items():
        told = fails(lambda name=name: env.execute_sql(f"USE CATALOG {name}"))
        assert told.startswith(f"[{code}]"), told
    assert fails(lambda: env.execute_sql("DESCRIBE nowhere")).startswith("[CAT002]")
    env.execute_sql("DROP CATALOG bad")
    assert "bad" not in rows(env, "SHOW CATALOGS")


def test_a_secret_of_a_catalog_is_kept_as_a_reference_only(folder: Path) -> None:
    found = TableEnvironment.create(store(folder)).catalog.store()
    assert found is not None
    told = fails(lambda: found.write("pg", CatalogDescriptor({"type": "jdbc", "password": "hunter22"})))
    assert told.startswith("[CAT114] the option 'password' of the catalog 'pg'") and "hunter22" not in told
    assert not list((folder / "store").glob("*.yaml"))
    assert found.write("pg", CatalogDescriptor({"type": "jdbc", "password": "${env:PGPASSWORD}"}))
    assert "password: ${env:PGPASSWORD}\n" in (folder / "store" / "pg.yaml").read_text()


def test_the_sql_client_remembers_with_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, stateplan: Command
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    (folder / "stateplan.yaml").write_text("table.catalog-store.kind: file\n")
    (folder / "one.sql").write_text(
        "CREATE CATALOG mine WITH ('type' = 'file', 'path' = 'cat');\nUSE CATALOG mine;\n"
        f"CREATE TABLE remembered (a INT) {PRINT};"
    )
    (folder / "two.sql").write_text("USE CATALOG mine;\nSHOW TABLES;")
    assert stateplan("sql", "-f", "one.sql").code == 0
    answer = stateplan("sql", "-f", "two.sql")
    assert answer.code == 0 and "remembered" in answer.out
    (folder / "stateplan.yaml").unlink()
    assert "CAT003" in "".join(map(str, stateplan("sql", "-f", "two.sql")))


# ---- gateways --------------------------------------------------------------------------------------------------


def test_sessions_of_a_gateway_share_stored_catalogs(folder: Path) -> None:
    service = SqlGatewayService(options=store(folder))
    try:
        one, two = service.open_session().environment, service.open_session().environment
        one.execute_sql("CREATE CATALOG c WITH ('type' = 'file', 'path' = 'cat')")
        one.execute_sql(f"CREATE TABLE c.`default`.t (a INT) {PRINT}")
        assert rows(two, "SHOW TABLES FROM c.`default`") == ["t"]
        assert one.get_current_catalog() == two.get_current_catalog() == "default_catalog"
    finally:
        service.stop()


def test_a_confined_gateway_keeps_catalogs_below_its_roots(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    shell(f"CREATE TABLE t (a INT) {PRINT}", "CREATE FUNCTION f AS 'os.system' LANGUAGE PYTHON")
    inside = folder / "root"
    inside.mkdir()
    (folder / "cat").rename(inside / "cat")
    service = SqlGatewayService(roots=[str(inside), "jdbc:postgresql://127.0.0.1:1"])
    try:
        env = service.open_session().environment
        for path in (str(folder / "out"), "out", f"{inside}/../out"):
            told = fails(
                lambda path=path: env.execute_sql(f"CREATE CATALOG x WITH ('type' = 'file', 'path' = '{path}')")
            )
            assert told.startswith("[GW012]")
            told = fails(
                lambda path=path: env.execute_sql(f"CREATE CATALOG x WITH ('type' = 'delta', 'warehouse' = '{path}')")
            )
            assert told.startswith("[GW012]")
        for url, code in (("jdbc:postgresql://127.0.0.1:9", "GW012"), ("jdbc:postgresql://127.0.0.1:1", "RUN140")):
            jdbc = f"'type' = 'jdbc', 'default-database' = 'd', 'base-url' = '{url}'"
            told = fails(lambda jdbc=jdbc: env.execute_sql(f"CREATE CATALOG x WITH ({jdbc})"))
            assert told.startswith(f"[{code}]")
        env.execute_sql(f"CREATE CATALOG c WITH ('type' = 'file', 'path' = '{inside}/cat')")
        assert rows(env, "SHOW TABLES FROM c.`default`") == ["t"]
        # a function of a file is as good as one of a statement
        env.use_catalog("c")
        assert fails(lambda: env.execute_sql("EXPLAIN SELECT f('id')")).startswith("[GW014]")
        env.execute_sql("SET 'table.catalog-store.kind' = 'file'")
        assert fails(lambda: env.execute_sql("SHOW CATALOGS")).startswith("[GW012]")
        assert fails(lambda: env.execute_sql(f"SET 'table.catalog-store.file.path' = '{folder}'")).startswith("[GW012]")
    finally:
        service.stop()
    assert not (folder / "data").exists() and not (folder / "out").exists()
