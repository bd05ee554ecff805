"""Folders of Delta tables, and of stored definitions in an object store, as catalogs."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from stateplan.planner.session.environment import TableEnvironment
from tests.connectors.test_external_catalogs import PRINT, fails, rows


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
        "CREATE VIEW v AS SELECT a FROM t": "[CAT110]",
        "DROP TABLE t": "[CAT110]",
        "ALTER TABLE t RENAME TO u": "[CAT110]",
        "ALTER TABLE t SET ('a' = 'b')": "[CAT110]",
        "CREATE DATABASE d COMMENT 'x'": "[CAT110]",
    }.items():
        assert fails(lambda statement=statement: lake.execute_sql(statement)).startswith(told), statement
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


def test_a_damaged_log_hurts_only_its_table(lake: TableEnvironment, tmp_path: Path) -> None:
    write(tmp_path / "lake" / "default" / "good")
    log = tmp_path / "lake" / "default" / "bad" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("{")
    assert rows(lake, "SHOW TABLES") == ["bad", "good"]
    assert len(rows(lake, "DESCRIBE good")) == 7
    assert fails(lambda: lake.execute_sql("DESCRIBE bad")).startswith("[DATA45")


def test_catalogs_in_an_object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    import s3fs

    from tests.support.object_store import served

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
