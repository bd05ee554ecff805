"""What lineage calls the data of tables: by OpenLineage's naming of datasets, without users and passwords."""

from __future__ import annotations

import os

import pytest

from stateplan.connectors.registry import known_connector

KAFKA = {"connector": "kafka", "properties.bootstrap.servers": "broker:9092, other:9093", "format": "json"}
CDC = {"connector": "postgres-cdc", "hostname": "db", "username": "u", "password": "p", "slot.name": "s"}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"connector": "filesystem", "path": "/data/orders"}, ["file /data/orders"]),
        ({"connector": "filesystem", "path": "file:///data/orders"}, ["file /data/orders"]),
        ({"connector": "filesystem", "path": "data/orders"}, [f"file {os.getcwd()}/data/orders"]),
        ({"connector": "filesystem", "path": "s3://shop/raw/orders/"}, ["s3://shop raw/orders"]),
        ({"connector": "filesystem", "path": "s3a://shop/raw/orders"}, ["s3://shop raw/orders"]),
        ({"connector": "filesystem", "path": "s3://shop"}, ["s3://shop /"]),
        ({"connector": "filesystem", "path": "hdfs://name:8020/raw/orders"}, ["hdfs://name:8020 /raw/orders"]),
        ({"connector": "filesystem", "path": "https://me:secret@host/a?sig=x"}, ["https://host a"]),
        ({"connector": "filesystem"}, []),
        ({"connector": "replay", "path": "/data/orders.json"}, ["file /data/orders.json"]),
        ({"connector": "delta", "table-path": "s3a://shop/lake/orders"}, ["s3://shop lake/orders"]),
        ({"connector": "iceberg", "warehouse": "/lake", "catalog-table": "orders"}, ["file /lake/default/orders"]),
        (
            {
                "connector": "iceberg",
                "catalog-type": "rest",
                "uri": "https://me:pw@host/api",
                "catalog-database": "shop",
                "catalog-table": "orders",
            },
            ["https://host/api shop.orders"],
        ),
        ({"connector": "iceberg"}, []),
        ({**KAFKA, "topic": "orders"}, ["kafka://broker:9092 orders"]),
        ({**KAFKA, "topic": "orders;returns"}, ["kafka://broker:9092 orders", "kafka://broker:9092 returns"]),
        ({**KAFKA, "topic-pattern": "orders.*"}, ["kafka://broker:9092 orders.*"]),
        ({**KAFKA, "connector": "upsert-kafka", "topic": "totals"}, ["kafka://broker:9092 totals"]),
        ({"connector": "kafka", "topic": "orders"}, []),
        (
            {"connector": "jdbc", "url": "jdbc:postgresql://me:pw@db:5433/shop?password=x", "table-name": "stats"},
            ["postgres://db:5433 shop.public.stats"],
        ),
        (
            {"connector": "jdbc", "url": "jdbc:postgresql://a,b:5433/shop", "table-name": "app.stats"},
            ["postgres://a:5432 shop.app.stats"],
        ),
        (
            {"connector": "jdbc", "url": "jdbc:postgresql://[::1]/shop", "table-name": "stats"},
            ["postgres://[::1]:5432 shop.public.stats"],
        ),
        (
            {"connector": "jdbc", "url": "jdbc:postgresql:shop", "table-name": "t"},
            ["postgres://localhost:5432 shop.public.t"],
        ),
        ({"connector": "jdbc", "url": "${env:PG_URL}", "table-name": "stats"}, []),
        (
            {**CDC, "database-name": "shop", "schema-name": "public", "table-name": "orders"},
            ["postgres://db:5432 shop.public.orders"],
        ),
        (CDC, []),
        ({"connector": "print"}, []),
        ({"connector": "blackhole"}, []),
        ({"connector": "datagen"}, []),
    ],
)  # fmt: skip
def test_names_of_data(options: dict[str, str], names: list[str]) -> None:
    connector = known_connector(options)
    assert connector is not None
    assert [" ".join(dataset) for dataset in connector.datasets(options)] == names
