"""Folders of Delta tables, and of stored definitions in an object store, as catalogs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from stateplan.session.environment import TableEnvironment
from tests.connectors.catalog_queries import PRINT, collected, fails, rows


@pytest.fixture
def lake(tmp_path: Path) -> TableEnvironment:
    """A session with the folder ``tmp_path / "lake"`` as the catalog ``lake``, which is current."""
    env = TableEnvironment.create()
    env.execute_sql(f"CREATE CATALOG lake WITH ('type' = 'delta', 'warehouse' = '{tmp_path}/lake')")
    env.use_catalog("lake")
    return env


def write(path: Path, **options: Any) -> None:
    import polars as pl
    from deltalake import write_deltalake

    at = datetime(2024, 1, 2, 3, 4, 5)
    frame = pl.DataFrame(
        {
            "id": [1, 2],
            "name": ["a", None],
            "amount": [Decimal("1.50"), Decimal("2.25")],
            "wall": [at, at],
            "instant": [at.replace(tzinfo=UTC)] * 2,
            "tags": [["x"], []],
            "point": [{"x": 1, "y": 2.0}] * 2,
        },
        schema_overrides={"amount": pl.Decimal(10, 2)},
    )
    path.mkdir(parents=True)
    write_deltalake(str(path), frame, **options)


def write_by_keys(path: Path) -> None:
    """An empty table that is partitioned by all its columns, as ``deltalake`` lets one be made."""
    from deltalake import DeltaTable, Schema

    columns = [("id", "integer"), ("k", "string")]
    listed = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns]
    schema = Schema.from_json(json.dumps({"type": "struct", "fields": listed}))
    DeltaTable.create(str(path), schema, partition_by=["id", "k"])


def properties_of(path: Path) -> dict[str, str]:
    from deltalake import DeltaTable

    return dict(DeltaTable(str(path)).metadata().configuration)


def test_folders_of_delta_tables(lake: TableEnvironment, tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    write(folder / "shop" / "orders", partition_by=["name"], description="what was ordered")
    write(folder / "default" / "one")
    (folder / "shop" / "no_table").mkdir()
    (folder / "_hidden").mkdir()
    (folder / "file").write_text("x")
    assert rows(lake, "SHOW DATABASES") == ["default", "shop"]
    assert rows(lake, "SHOW TABLES") == ["one"] and rows(lake, "SHOW TABLES FROM shop") == ["orders"]
    assert rows(lake, "SHOW CREATE TABLE shop.orders") == [
        "CREATE TABLE `lake`.`shop`.`orders` (\n"
        "  `id` BIGINT,\n  `name` VARCHAR(2147483647),\n  `amount` DECIMAL(10, 2),\n  `wall` TIMESTAMP(6),\n"
        "  `instant` TIMESTAMP(6) WITH LOCAL TIME ZONE,\n  `tags` ARRAY<VARCHAR(2147483647)>,\n"
        "  `point` ROW<`x` BIGINT, `y` DOUBLE>\n)\nCOMMENT 'what was ordered'\nPARTITIONED BY (`name`)\n"
        f"WITH (\n  'connector' = 'delta',\n  'table-path' = '{folder}/shop/orders'\n)"
    ]
    assert "did you mean 'orders'?" in fails(lambda: lake.execute_sql("DESCRIBE shop.ordrs"))
    assert fails(lambda: lake.execute_sql("DESCRIBE shop.no_table")).startswith("[CAT002]")
    for path in ("shop.`../default/one`", "`../lake/shop`.orders", "shop.``"):
        assert fails(lambda path=path: lake.execute_sql(f"DESCRIBE {path}")).startswith(
            ("[CAT002]", "[CAT004]", "[SQL")
        )


def test_create_table_writes_the_log_of_an_empty_table(lake: TableEnvironment, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    lake.execute_sql("CREATE DATABASE made")
    lake.execute_sql(
        "CREATE TABLE made.t (id BIGINT NOT NULL COMMENT 'the key', `day` DATE, v DECIMAL(10, 2), "
        "PRIMARY KEY (id) NOT ENFORCED) COMMENT 'mine' PARTITIONED BY (`day`) WITH ('delta.appendOnly' = 'false')"
    )
    made = DeltaTable(str(tmp_path / "lake" / "made" / "t"))
    assert made.version() == 0 and made.metadata().partition_columns == ["day"]
    assert made.metadata().description == "mine"
    assert made.metadata().configuration["delta.appendOnly"] == "false"
    later = TableEnvironment.create()
    later.execute_sql(f"CREATE CATALOG lake WITH ('type' = 'delta', 'warehouse' = '{tmp_path}/lake')")
    shown = str(rows(later, "SHOW CREATE TABLE lake.made.t")[0])
    assert "`id` BIGINT NOT NULL COMMENT 'the key'" in shown and "PRIMARY KEY (`id`)" in shown
    assert fails(lambda: later.execute_sql("CREATE TABLE lake.made.t (a INT)")).startswith("[CAT010]")
    later.execute_sql("CREATE TABLE IF NOT EXISTS lake.made.t (a INT)")


def test_what_delta_cannot_keep_is_refused(lake: TableEnvironment, tmp_path: Path) -> None:
    lake.execute_sql("CREATE TABLE t (a INT)")
    for statement, told in {
        "CREATE TABLE u (a INT, b AS a + 1)": "[CAT117] a table of the catalog 'lake' of type 'delta' cannot have the "
        "computed column 'b'",
        "CREATE TABLE u (t TIMESTAMP(3), WATERMARK FOR t AS t)": "[CAT117]",
        "CREATE TABLE u (a INT) WITH ('mode' = 'batch')": "[CAT117]",
        f"CREATE TABLE u (a INT) {PRINT}": "[CAT117]",
        "CREATE TABLE u (a TIME)": "[CAT102]",
        "CREATE TABLE u (a TIMESTAMP(9))": "[CAT102]",
        "CREATE TABLE `../u` (a INT)": "[CAT118]",
        "CREATE DATABASE `..`": "[CAT118]",
        f"CREATE DATABASE `{'x' * 256}`": "[CAT118]",
        f"CREATE TABLE `{'ä' * 128}` (a INT)": "[CAT118]",
        "CREATE VIEW v AS SELECT a FROM t": "[CAT110]",
        "DROP TABLE t": "[CAT110]",
        "ALTER TABLE t RENAME TO u": "[CAT110]",
        "ALTER TABLE t SET ('a' = 'b')": "[CAT110]",
        "CREATE DATABASE d COMMENT 'x'": "[CAT110]",
    }.items():
        assert fails(lambda statement=statement: lake.execute_sql(statement)).startswith(told), statement
    assert not (tmp_path / "u").exists()
    for name in ("../u", "..", "a/b", "%2e%2e", "."):
        catalog = (
            f"CREATE CATALOG up WITH ('type' = 'delta', 'warehouse' = '{tmp_path}/lake', 'default-database' = '{name}')"
        )
        assert fails(lambda catalog=catalog: lake.execute_sql(catalog)).startswith("[CAT118]"), name
    lake.execute_sql("CREATE DATABASE bare")
    lake.execute_sql("DROP DATABASE bare")
    lake.execute_sql("CREATE DATABASE d")
    lake.execute_sql("CREATE TABLE d.t (a INT)")
    assert fails(lambda: lake.execute_sql("DROP DATABASE d")).startswith("[CAT008]")
    assert fails(lambda: lake.execute_sql("DROP DATABASE d CASCADE")).startswith("[CAT110]")
    assert rows(lake, "SHOW TABLES") == ["t"] and (tmp_path / "lake" / "d" / "t" / "_delta_log").is_dir()
    assert [p.name for p in tmp_path.iterdir()] == ["lake"]


def test_a_table_of_partition_keys_alone_is_refused(lake: TableEnvironment, tmp_path: Path) -> None:
    lake.execute_sql("CREATE DATABASE keys")
    columns = "(id INT, k STRING) PARTITIONED BY (id, k)"
    assert fails(lambda: lake.execute_sql(f"CREATE TABLE keys.t {columns}")).startswith("[CAT033]")
    assert not (tmp_path / "lake" / "keys" / "t").exists()
    where = f"'connector' = 'delta', 'table-path' = '{tmp_path}/t'"
    other = TableEnvironment.create()
    other.execute_sql(f"CREATE TABLE t {columns} WITH ({where})")
    assert fails(lambda: other.execute_sql("INSERT INTO t VALUES (1, 'a')")).startswith("[CAT033]")
    assert not (tmp_path / "t").exists()
    write_by_keys(tmp_path / "t")
    assert fails(lambda: collected(other, "SELECT * FROM t")).startswith("[CAT033]")
    other.execute_sql(f"CREATE TABLE part (id INT) WITH ({where})")
    assert fails(lambda: collected(other, "SELECT * FROM part")).startswith("[CAT033]")


def test_a_damaged_log_hurts_only_its_table(lake: TableEnvironment, tmp_path: Path) -> None:
    write(tmp_path / "lake" / "default" / "good")
    log = tmp_path / "lake" / "default" / "bad" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("{")
    assert rows(lake, "SHOW TABLES") == ["bad", "good"]
    assert len(rows(lake, "DESCRIBE good")) == 7
    for text, reason in (
        ("{bad", "Encountered unexpected 'b' whilst parsing object"),
        ("{", "Truncated record"),
        ("[1]", "expected { got [1]"),
    ):
        (log / "00000000000000000000.json").write_text(text)
        told = fails(lambda: lake.execute_sql("SELECT * FROM bad"))
        assert told.startswith("[DATA457] the log of the Delta table lake.default.bad is damaged: " + reason)
        assert "unknown>" not in told and "0:" not in told
    (log / "00000000000000000000.json").write_text("")
    assert fails(lambda: lake.execute_sql("DESCRIBE bad")).startswith("[DATA452]")


def test_create_table_as_gets_the_options_of_the_catalog(lake: TableEnvironment, tmp_path: Path) -> None:
    lake.execute_sql("CREATE TABLE o (id INT, v STRING)")
    lake.execute_sql("INSERT INTO o VALUES (1, 'x'), (2, 'y')").wait()
    query = "AS SELECT id, v FROM o"
    for name, given in {
        "plain": "",
        "named": "WITH ('connector' = 'delta')",
        "feed": "WITH ('delta.enableChangeDataFeed' = 'true')",
        "parts": "PARTITIONED BY (v)",
    }.items():
        lake.execute_sql(f"CREATE TABLE {name} {given} {query}").wait()
        assert collected(lake, f"SELECT id FROM {name}") == [(1,), (2,)], name
    grouped = "SELECT COALESCE(id, 0) AS k, COUNT(*) AS n FROM o GROUP BY COALESCE(id, 0)"
    lake.execute_sql(f"CREATE TABLE keyed (PRIMARY KEY (k) NOT ENFORCED) AS {grouped}").wait()
    assert collected(lake, "SELECT k, n FROM keyed") == [(1, 1), (2, 1)]
    assert "PRIMARY KEY (`k`)" in str(rows(lake, "SHOW CREATE TABLE keyed")[0])
    assert properties_of(tmp_path / "lake" / "default" / "feed") == {"delta.enableChangeDataFeed": "true"}
    assert "Sink(table=[lake.default.u]" in lake.explain_sql(f"CREATE TABLE u {query}")
    for given, code in {
        "WITH ('mode' = 'batch')": "CAT117",
        f"WITH ('connector' = 'delta', 'table-path' = '{tmp_path}/u')": "CAT117",
        PRINT: "CAT117",
        "PARTITIONED BY (id, v)": "CAT033",
    }.items():
        told = fails(lambda given=given: lake.execute_sql(f"CREATE TABLE u {given} {query}"))
        assert told.startswith(f"[{code}]"), given
    assert "u" not in rows(lake, "SHOW TABLES") and not (tmp_path / "lake" / "default" / "u").exists()
    lake.execute_sql(f"CREATE TABLE IF NOT EXISTS plain {query}").wait()
    assert collected(lake, "SELECT id FROM plain") == [(1,), (1,), (2,), (2,)]


def test_create_table_like_takes_no_options_that_the_catalog_adds(lake: TableEnvironment, tmp_path: Path) -> None:
    lake.execute_sql("CREATE TABLE o (id INT, v STRING) PARTITIONED BY (v) WITH ('delta.appendOnly' = 'true')")
    lake.execute_sql("CREATE TABLE l LIKE o")
    lake.execute_sql("CREATE TABLE more WITH ('delta.enableChangeDataFeed' = 'true') LIKE o")
    lake.execute_sql("CREATE TABLE bare LIKE o (EXCLUDING OPTIONS)")
    for name, properties in {"l": {}, "more": {"delta.enableChangeDataFeed": "true"}, "bare": {}}.items():
        shown = str(rows(lake, f"SHOW CREATE TABLE {name}")[0])
        path = tmp_path / "lake" / "default" / name
        assert f"'table-path' = '{path}'" in shown and "PARTITIONED BY (`v`)" in shown
        assert properties_of(path) == properties
    lake.execute_sql("CREATE TEMPORARY TABLE beside LIKE o")
    lake.execute_sql("CREATE TABLE default_catalog.default_database.away LIKE o")
    for name in ("beside", "default_catalog.default_database.away"):
        assert f"'table-path' = '{tmp_path}/lake/default/o'" in str(rows(lake, f"SHOW CREATE TABLE {name}")[0])
    lake.execute_sql("INSERT INTO default_catalog.default_database.away VALUES (1, 'x')").wait()
    assert collected(lake, "SELECT id FROM o") == [(1,)]


def test_properties_that_no_table_is_created_with(lake: TableEnvironment, tmp_path: Path) -> None:
    for given, code in {
        "'delta.enableChangeDataFed' = 'true'": "OPT104",
        "'delta.appendOnly' = 'maybe'": "OPT105",
        "'delta.columnMapping.mode' = 'name'": "OPT107",
    }.items():
        for query in ("", " AS SELECT 1 AS id"):
            columns = "" if query else "(id INT)"
            told = fails(lambda text=f"CREATE TABLE t {columns} WITH ({given}){query}": lake.execute_sql(text))
            assert told.startswith(f"[{code}]"), told
    assert rows(lake, "SHOW TABLES") == []


def test_a_warehouse_that_is_a_file(lake: TableEnvironment, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "lake"):
        create = f"CREATE CATALOG other WITH ('type' = 'delta', 'warehouse' = '{path}')"
        assert fails(lambda text=create: lake.execute_sql(text)).startswith("[CAT113]")
    (tmp_path / "lake").mkdir(exist_ok=True)
    (tmp_path / "lake" / "file").write_text("")
    assert rows(lake, "SHOW DATABASES") == ["default"]


def test_catalogs_in_an_object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    import s3fs

    from tests.connectors.object_store import served

    monkeypatch.setenv("STORE_SECRET", "hidden-from-all")
    with served() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        env = TableEnvironment.create()
        env.execute_sql("CREATE CATALOG mine WITH ('type' = 'file', 'path' = 's3://bkt/mine')")
        env.execute_sql("CREATE DATABASE mine.d")
        env.execute_sql(f"CREATE TABLE mine.d.t (a INT) {PRINT}")
        env.execute_sql("ALTER TABLE mine.d.t RENAME TO u")
        later = TableEnvironment.create()
        later.execute_sql("CREATE CATALOG mine WITH ('type' = 'file', 'path' = 's3://bkt/mine')")
        assert rows(later, "SHOW DATABASES FROM mine") == ["d", "default"]
        assert rows(later, "SHOW TABLES FROM mine.d") == ["u"] and rows(later, "DESCRIBE mine.d.u") == ["a"]
        later.execute_sql("DROP DATABASE mine.d CASCADE")
        assert rows(env, "SHOW DATABASES FROM mine") == ["default"]
        options = {
            "storage.aws_endpoint_url": environment["AWS_ENDPOINT_URL"],
            "storage.aws_allow_http": "true",
            "storage.aws_access_key_id": "key",
            "storage.aws_secret_access_key": "${env:STORE_SECRET}",
            "storage.aws_region": "us-east-1",
        }
        listed = ", ".join(f"'{key}' = '{text}'" for key, text in options.items())
        env.execute_sql(f"CREATE CATALOG lake WITH ('type' = 'delta', 'warehouse' = 's3://bkt/lake', {listed})")
        env.execute_sql("CREATE DATABASE lake.shop")
        env.execute_sql("CREATE TABLE lake.shop.orders (id BIGINT, v STRING) PARTITIONED BY (v)")
        assert rows(env, "SHOW TABLES FROM lake.shop") == ["orders"]
        shown = str(rows(env, "SHOW CREATE TABLE lake.shop.orders")[0])
        assert "'table-path' = 's3://bkt/lake/shop/orders'" in shown and "PARTITIONED BY (`v`)" in shown
        assert "'storage.aws_secret_access_key' = '${env:STORE_SECRET}'" in shown
