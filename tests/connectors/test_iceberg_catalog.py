"""Iceberg catalogs as catalogs of a session."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType, TimeType

from stateplan.common.roots import Roots, holding
from stateplan.connectors.iceberg.access import CatalogAccess, _Guard
from stateplan.connectors.registry import find_catalog_type
from stateplan.session.environment import TableEnvironment
from tests.connectors.catalog_queries import PRINT, collected, fails, rows
from tests.connectors.iceberg_tables import append, catalog, opened, sink_of
from tests.support.delta import frame


@pytest.fixture
def lake(tmp_path: Path) -> TableEnvironment:
    """A session with the warehouse ``tmp_path / "lake"`` as the catalog ``lake``, which is current."""
    env = TableEnvironment.create()
    env.execute_sql(f"CREATE CATALOG lake WITH ('type' = 'iceberg', 'warehouse' = '{tmp_path}/lake')")
    env.use_catalog("lake")
    return env


def test_tables_of_an_iceberg_catalog(lake: TableEnvironment, tmp_path: Path) -> None:
    assert rows(lake, "SHOW DATABASES") == ["default"] and rows(lake, "SHOW TABLES") == []
    assert not (tmp_path / "lake").exists(), "a look makes nothing"
    made = catalog(tmp_path / "lake")
    made.create_namespace("shop")
    schema = Schema(
        NestedField(1, "id", LongType(), required=True, doc="the key"),
        NestedField(2, "name", StringType()),
        NestedField(3, "at", TimestamptzType()),
        identifier_field_ids=[1],
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
    made.create_table("shop.orders", schema, partition_spec=spec, properties={"comment": "what was ordered"})
    made.create_table("shop.odd", Schema(NestedField(1, "t", TimeType())))
    assert rows(lake, "SHOW DATABASES") == ["default", "shop"]
    assert sorted(map(str, rows(lake, "SHOW TABLES FROM shop"))) == ["odd", "orders"]
    assert rows(lake, "SHOW CREATE TABLE shop.orders") == [
        "CREATE TABLE `lake`.`shop`.`orders` (\n"
        "  `id` BIGINT NOT NULL COMMENT 'the key',\n  `name` VARCHAR(2147483647),\n"
        "  `at` TIMESTAMP(6) WITH LOCAL TIME ZONE,\n  CONSTRAINT `PK_id` PRIMARY KEY (`id`) NOT ENFORCED\n)\n"
        "COMMENT 'what was ordered'\nPARTITIONED BY (`name`)\n"
        "WITH (\n  'catalog-database' = 'shop',\n  'catalog-table' = 'orders',\n  'connector' = 'iceberg',\n"
        f"  'warehouse' = '{tmp_path}/lake'\n)"
    ]
    assert "did you mean 'orders'?" in fails(lambda: lake.execute_sql("DESCRIBE shop.ordrs"))
    assert "[CAT117]" in fails(lambda: lake.execute_sql("DESCRIBE shop.odd"))
    for path in ("shop.`../orders`", "`../shop`.orders"):
        assert fails(lambda path=path: lake.execute_sql(f"DESCRIBE {path}")).startswith("[CAT00")


def test_create_table_insert_and_select_in_iceberg(lake: TableEnvironment, tmp_path: Path) -> None:
    lake.execute_sql("CREATE DATABASE made")
    lake.execute_sql(
        "CREATE TABLE made.t (id BIGINT COMMENT 'the key', ts TIMESTAMP(3), v DECIMAL(10, 2), "
        "PRIMARY KEY (id) NOT ENFORCED) COMMENT 'mine' WITH ('partitioning' = 'days(ts), bucket(4, id)', "
        "'sort-order' = 'v DESC', 'write.parquet.compression-codec' = 'snappy')"
    )
    table = catalog(tmp_path / "lake").load_table("made.t")
    assert table.current_snapshot() is None and table.properties["comment"] == "mine"
    later = TableEnvironment.create()
    later.execute_sql(f"CREATE CATALOG lake WITH ('type' = 'iceberg', 'warehouse' = '{tmp_path}/lake')")
    shown = str(rows(later, "SHOW CREATE TABLE lake.made.t")[0])
    assert "'partitioning' = 'days(ts), bucket(4, id)'" in shown and "'sort-order' = 'v DESC'" in shown
    assert "PRIMARY KEY (`id`)" in shown and "PARTITIONED BY" not in shown
    assert fails(lambda: later.execute_sql("CREATE TABLE lake.made.t (a INT)")).startswith("[CAT010]")
    later.execute_sql("CREATE TABLE IF NOT EXISTS lake.made.t (a INT)")
    moment = "TIMESTAMP '2024-01-01 00:00:00'"
    for value in ("1.5", "2.5"):
        lake.execute_sql(f"INSERT INTO made.t VALUES (1, {moment}, {value}) ON CONFLICT DO DEDUPLICATE").wait()
    assert collected(lake, "SELECT id, v FROM made.t WHERE id = 1") == [(1, Decimal("2.50"))]
    lake.execute_sql("CREATE TABLE made.u AS SELECT id, v FROM made.t").wait()
    assert len(collected(lake, "SELECT * FROM made.u")) == 1
    lake.execute_sql("CREATE TABLE made.w LIKE made.t")
    like = catalog(tmp_path / "lake").load_table("made.w")
    assert [f.name for f in like.spec().fields] == ["ts_day", "id_bucket"]


def test_what_iceberg_cannot_keep_is_refused(lake: TableEnvironment, tmp_path: Path) -> None:
    lake.execute_sql("CREATE TABLE t (a INT)")
    for statement, told in {
        "CREATE TABLE u (a INT, b AS a + 1)": "[CAT117]",
        "CREATE TABLE u (t TIMESTAMP(3), WATERMARK FOR t AS t)": "[CAT117]",
        "CREATE TABLE u (a INT) WITH ('streaming' = 'true')": "[CAT117]",
        f"CREATE TABLE u (a INT) {PRINT}": "[CAT117]",
        "CREATE TABLE u (a INT) WITH ('format-version' = '1')": "[OPT105]",
        "CREATE TABLE u (a INT) WITH ('format-version' = '3')": "[OPT107]",
        "CREATE TABLE u (a INT) WITH ('write.py-location-provider.impl' = 'os.system')": "[OPT175]",
        "CREATE TABLE u (a INT) WITH ('partitioning' = 'hours(a)')": "[OPT174]",
        "CREATE TABLE u (a TIME)": "[CAT102]",
        "CREATE TABLE u (a TIMESTAMP(9))": "[CAT102]",
        "CREATE TABLE `../u` (a INT)": "[CAT118]",
        "CREATE DATABASE `..`": "[CAT118]",
        f"CREATE DATABASE `{'x' * 256}`": "[CAT118]",
        f"CREATE TABLE `{'ä' * 128}` (a INT)": "[CAT118]",
        "CREATE DATABASE d COMMENT 'x'": "[CAT110]",
        "CREATE TABLE u WITH ('streaming' = 'true') AS SELECT a FROM t": "[CAT117]",
        f"CREATE TABLE u {PRINT} AS SELECT a FROM t": "[CAT117]",
        "CREATE TABLE u WITH ('format-version' = '1') AS SELECT a FROM t": "[OPT105]",
        "DROP TABLE t": "[CAT110]",
        "CREATE VIEW v AS SELECT 1": "[CAT110]",
    }.items():
        assert fails(lambda statement=statement: lake.execute_sql(statement)).startswith(told), statement
    assert [p.name for p in (tmp_path / "lake" / "default").iterdir()] == ["t"]
    lake.execute_sql("CREATE DATABASE vain")
    lake.execute_sql("DROP DATABASE vain")
    assert rows(lake, "SHOW DATABASES") == ["default"]
    lake.execute_sql("CREATE DATABASE d")
    lake.execute_sql("CREATE TABLE d.t (a INT)")
    assert fails(lambda: lake.execute_sql("DROP DATABASE d")).startswith("[CAT008]")
    assert fails(lambda: lake.execute_sql("DROP DATABASE d CASCADE")).startswith("[CAT110]")
    assert rows(lake, "SHOW TABLES FROM d") == ["t"]


def test_create_table_as_gets_the_options_of_the_iceberg_catalog(lake: TableEnvironment, tmp_path: Path) -> None:
    lake.execute_sql("CREATE TABLE o (id INT, v STRING)")
    lake.execute_sql("INSERT INTO o VALUES (1, 'x'), (2, 'y')").wait()
    query = "AS SELECT id, v FROM o"
    for name, more in {
        "plain": "",
        "named": "WITH ('connector' = 'iceberg')",
        "packed": "WITH ('write.parquet.compression-codec' = 'gzip')",
        "parts": "PARTITIONED BY (v)",
        "hidden": "WITH ('partitioning' = 'bucket(2, id)')",
    }.items():
        lake.execute_sql(f"CREATE TABLE {name} {more} {query}").wait()
        assert collected(lake, f"SELECT id FROM {name}") == [(1,), (2,)], name
    grouped = "SELECT COALESCE(id, 0) AS k, COUNT(*) AS n FROM o GROUP BY COALESCE(id, 0)"
    lake.execute_sql(f"CREATE TABLE keyed (PRIMARY KEY (k) NOT ENFORCED) AS {grouped}").wait()
    assert collected(lake, "SELECT k, n FROM keyed") == [(1, 1), (2, 1)]
    assert "PRIMARY KEY (`k`)" in str(rows(lake, "SHOW CREATE TABLE keyed")[0])
    assert opened(tmp_path / "lake", "packed").properties["write.parquet.compression-codec"] == "gzip"
    assert "Sink(table=[lake.default.u]" in lake.explain_sql(f"CREATE TABLE u {query}")
    assert "u" not in rows(lake, "SHOW TABLES")
    lake.execute_sql(f"CREATE TABLE IF NOT EXISTS plain {query}").wait()
    assert collected(lake, "SELECT id FROM plain") == [(1,), (1,), (2,), (2,)]


def test_create_table_like_takes_no_options_that_the_iceberg_catalog_adds(
    lake: TableEnvironment, tmp_path: Path
) -> None:
    codec = "write.parquet.compression-codec"
    lake.execute_sql(f"CREATE TABLE o (id INT, v STRING) PARTITIONED BY (v) WITH ('{codec}' = 'gzip')")
    lake.execute_sql("CREATE TABLE l LIKE o")
    lake.execute_sql(f"CREATE TABLE more WITH ('{codec}' = 'snappy') LIKE o")
    lake.execute_sql("CREATE TABLE bare LIKE o (EXCLUDING OPTIONS)")
    for name, text in {"l": None, "more": "snappy", "bare": None}.items():
        shown = str(rows(lake, f"SHOW CREATE TABLE {name}")[0])
        assert f"'catalog-table' = '{name}'" in shown and "PARTITIONED BY (`v`)" in shown
        assert opened(tmp_path / "lake", name).properties.get(codec) == text
    lake.execute_sql("CREATE TEMPORARY TABLE beside LIKE o")
    lake.execute_sql("CREATE TABLE default_catalog.default_database.away LIKE o")
    lake.execute_sql("INSERT INTO default_catalog.default_database.away VALUES (1, 'x')").wait()
    for name in ("o", "beside"):
        assert collected(lake, f"SELECT id FROM {name}") == [(1,)]


def test_one_partition_is_overwritten(lake: TableEnvironment) -> None:
    lake.execute_sql("CREATE TABLE parts (k BIGINT, p STRING) PARTITIONED BY (p)")
    lake.execute_sql("INSERT INTO parts VALUES (1, 'a'), (2, 'b'), (3, CAST(NULL AS STRING))").wait()
    lake.execute_sql("INSERT OVERWRITE parts PARTITION (p = 'b') VALUES (9), (8)").wait()
    assert collected(lake, "SELECT k FROM parts") == [(1,), (3,), (8,), (9,)]
    assert collected(lake, "SELECT k FROM parts WHERE p = 'b' AND k < 9") == [(8,)]
    lake.execute_sql("CREATE TABLE keys (a BIGINT, b STRING) PARTITIONED BY (a, b)")
    lake.execute_sql("INSERT INTO keys VALUES (1, 'x')").wait()
    assert collected(lake, "SELECT a, b FROM keys") == [(1, "x")], "files have the columns of partitions"


def test_a_warehouse_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    env = TableEnvironment.create()
    for number, path in enumerate((tmp_path / "file", tmp_path / "file" / "lake")):
        env.execute_sql(f"CREATE CATALOG c{number} WITH ('type' = 'iceberg', 'warehouse' = '{path}')")
        create = f"CREATE TABLE c{number}.`default`.t (a INT)"
        assert fails(lambda create=create: env.execute_sql(create)).startswith("[DATA475]")


def test_a_catalog_that_does_not_answer(tmp_path: Path) -> None:
    env = TableEnvironment.create()
    created = "CREATE CATALOG c WITH ('type' = 'iceberg', {})"
    assert fails(lambda: env.execute_sql(created.format("'catalog-name' = 'x'"))).startswith("[OPT175]")
    rest = created.format("'catalog-type' = 'rest', 'uri' = 'http://127.0.0.1:9', 'token' = 's3cr3t'")
    message = fails(lambda: env.execute_sql(rest))
    assert message.startswith("[DATA475]") and "s3cr3t" not in message
    (tmp_path / "catalog.db").write_text("no database")
    assert fails(lambda: env.execute_sql(created.format(f"'warehouse' = '{tmp_path}'"))).startswith("[DATA475]")
    hive = created.format("'catalog-type' = 'hive', 'uri' = 'thrift://127.0.0.1:9'")
    assert fails(lambda: env.execute_sql(hive)).startswith(("[OPT175]", "[OPT122]", "[DATA475]"))


def test_no_table_leads_out_of_the_roots_or_to_code(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    append(outside, (1, "canary"))
    append(root, (1, "a"))
    table = opened(outside)
    catalog(root).register_table("default.stolen", table.metadata_location)
    read = (
        "CREATE TEMPORARY TABLE {0} (k BIGINT, v STRING) WITH ('connector' = 'iceberg', "
        f"'warehouse' = '{root}', 'catalog-table' = '{{0}}')"
    )
    env = TableEnvironment.create()
    for name in ("t", "stolen", "coded"):
        env.execute_sql(read.format(name))
    assert collected(env, "SELECT v FROM stolen") == [("canary",)], "without roots"
    with holding(Roots((str(root),))):
        assert collected(env, "SELECT v FROM t") == [("a",)]
        message = fails(lambda: collected(env, "SELECT v FROM stolen"))
        assert message.startswith("[GW012]") and "canary" not in message
    metadata = json.loads(Path(opened(root).metadata_location).read_text())
    metadata["properties"]["py-io-impl"] = "os.system"
    (root / "coded.metadata.json").write_text(json.dumps(metadata))
    with pytest.raises(TypeError):  # the library itself has imported it
        catalog(root).register_table("default.coded", str(root / "coded.metadata.json"))
    assert fails(lambda: collected(env, "SELECT v FROM coded")).startswith("[DATA476]")
    with opened(root).transaction() as change:
        change.set_properties({"s3.retry-strategy-impl": "os.system"})
    assert fails(lambda: collected(env, "SELECT v FROM t")).startswith("[DATA476]")


def test_a_server_does_not_lead_to_code_or_out_of_the_roots(tmp_path: Path) -> None:
    """What a REST server sends counts as what the metadata of a table says."""
    guard = _Guard()
    guard.properties = CatalogAccess({"catalog-type": "rest", "uri": "http://h:1"}).properties()
    for key in ("py-io-impl", "py-catalog-impl", "s3.retry-strategy-impl", "write.py-location-provider.impl"):
        assert fails(lambda key=key: guard._load_file_io({key: "os.system"})).startswith("[DATA476]"), key
    away = {"s3.endpoint": "http://169.254.169.254", "s3.access-key-id": "k", "io-impl": "org.apache.X"}
    assert guard._load_file_io(away).properties["s3.endpoint"] == away["s3.endpoint"]
    with holding(Roots((str(tmp_path),))):
        assert fails(lambda: guard._load_file_io(away)).startswith("[GW012]")
        guard._load_file_io({"s3.access-key-id": "k", "s3.region": "eu", "comment": "http://x"})
    guard.properties["s3.retry-strategy-impl"] = "os.system"  # as an override of the server's configuration
    assert fails(guard._load_file_io).startswith("[DATA476]")


def test_time_travel(lake: TableEnvironment, tmp_path: Path) -> None:
    for k in (1, 2):
        append(tmp_path / "lake", (k, "v"))
    first, second = opened(tmp_path / "lake").history()
    query = "SELECT k FROM t FOR SYSTEM_TIME AS OF {}"
    assert collected(lake, query.format(first.snapshot_id)) == [(1,)]
    lake.execute_sql("ALTER TABLE t ADD n INT")
    assert collected(lake, query.format(first.snapshot_id).replace("k", "*", 1)) == [(1, "v", None)]
    assert collected(lake, query.format(first.snapshot_id) + " WHERE n IS NULL") == [(1,)]
    assert collected(lake, query.format(first.snapshot_id) + " WHERE n = 1") == []
    lake.execute_sql("SET 'table.local-time-zone' = 'UTC'")
    for at, keys in ((first.timestamp_ms, [(1,)]), (second.timestamp_ms, [(1,), (2,)])):
        text = datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        assert collected(lake, query.format(f"TIMESTAMP '{text}'")) == keys
    assert "[OPT179]" in fails(lambda: lake.execute_sql(query.format(7)))
    assert "[OPT179]" in fails(lambda: lake.execute_sql(query.format("TIMESTAMP '2001-01-01 00:00:00'")))


def test_alter_table_keeps_values_by_ids(lake: TableEnvironment, tmp_path: Path) -> None:
    append(tmp_path / "lake", (1, "a"))
    field = opened(tmp_path / "lake").schema().find_field("v").field_id
    for statement in (
        "ALTER TABLE t RENAME v TO w",
        "ALTER TABLE t ADD (n INT COMMENT 'a number' FIRST, m INT)",
        "ALTER TABLE t MODIFY (n BIGINT COMMENT 'wide', m INT AFTER n)",
        "ALTER TABLE t SET ('write.parquet.compression-codec' = 'gzip', 'partitioning' = 'bucket(2, k)')",
        "ALTER TABLE t SET ('sort-order' = 'k DESC', 'history.expire.min-snapshots-to-keep' = '3')",
        "ALTER TABLE t RESET ('history.expire.min-snapshots-to-keep')",
    ):
        lake.execute_sql(statement)
    lake.execute_sql("INSERT INTO t VALUES (7, 8, 2, 'b')").wait()
    assert collected(lake, "SELECT k, w, n, m FROM t") == [(1, "a", None, None), (2, "b", 7, 8)]
    table = opened(tmp_path / "lake")
    assert [f.name for f in table.schema().fields] == ["n", "m", "k", "w"]
    assert table.schema().find_field("w").field_id == field and table.schema().find_field("n").doc == "wide"
    assert [str(f.transform) for f in table.spec().fields] == ["bucket[2]"] and len(table.sort_order().fields) == 1
    shown = str(rows(lake, "SHOW CREATE TABLE t")[0])
    assert "'write.parquet.compression-codec' = 'gzip'" in shown and "min-snapshots" not in shown
    lake.execute_sql("ALTER TABLE t DROP m")
    lake.execute_sql("ALTER TABLE t RENAME TO u")
    assert rows(lake, "SHOW TABLES") == ["u"]
    for statement, told in {
        "ALTER TABLE u MODIFY k INT": "[CAT110]",
        "ALTER TABLE u DROP k": "[CAT110]",
        "ALTER TABLE u ADD z INT NOT NULL": "[CAT110]",
        "ALTER TABLE u MODIFY w STRING NOT NULL": "[CAT110]",
        "ALTER TABLE u ADD x TIME": "[CAT102]",
        "ALTER TABLE u ADD y AS k + 1": "[CAT117]",
        "ALTER TABLE u SET ('streaming' = 'true')": "[CAT117]",
        "ALTER TABLE u SET ('write.py-location-provider.impl' = 'x.y')": "[OPT175]",
    }.items():
        assert fails(lambda statement=statement: lake.execute_sql(statement)).startswith(told), statement


def test_a_gateway_knows_the_places_of_a_catalog() -> None:
    kind = find_catalog_type("iceberg")
    assert kind is not None
    options = {
        "uri": "sqlite:////data/../etc/x.db",
        "s3.endpoint": "http://store:9000",
        "s3.region": "eu",
        "s3.access-key-id": "k",
        "s3.proxy-uri": "http://proxy",
        "s3.retry-strategy-impl": "os.system",
    }
    assert set(kind.places(options)) == {"/data/../etc/x.db", "http://store:9000", "http://proxy", "os.system"}
    assert list(kind.programs(options)) == ["s3.retry-strategy-impl"]
    assert list(kind.places({"uri": "postgresql://h/db"})) == ["postgresql://h/db"]
    assert list(kind.places({"uri": "sqlite:////root/%2e%2e/etc/x.db"})) == ["/root/../etc/x.db"]


def test_no_file_is_written_out_of_the_roots(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    append(root, (1, "a"))
    with opened(root).transaction() as change:
        change.set_properties({"write.data.path": str(outside)})
    (root / "link").symlink_to(outside)
    sink = sink_of(root)
    with holding(Roots((str(root),))):
        sink.prepare(0)
        assert fails(lambda: sink.write(frame((2, "b")), 0, "p")).startswith("[GW012]")
        for folder in (outside, root / "link", f"{root}/../outside"):
            assert fails(lambda folder=folder: sink_of(folder).prepare(0)).startswith("[GW012]")
        for path in (f"{outside}/catalog.db", f"{root}/%2e%2e/outside/catalog.db"):
            away = sink_of(root, uri=f"sqlite:///{path}")
            assert fails(lambda away=away: away.prepare(0)).startswith("[GW012]")
    assert not outside.exists()
