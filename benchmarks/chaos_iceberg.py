"""Kafka and PostgreSQL to Iceberg, while all of them are killed: is a row lost, or doubled?

    python -m benchmarks.chaos_iceberg [--kills 50] [--limit MINUTES] [--rows 500] [--changes 5] [--seed 1]
        [--keep FOLDER] [--duckdb PYTHON]

The servers, their traffic and the kills are those of :mod:`benchmarks.chaos_servers`. The job has three sinks, each an
Iceberg table of an embedded catalog:

- ``many``: orders with many items, appended;
- ``stats``: the statistics of each product (example 1 of FLIP-292: a deduplication before an aggregation), merged by
  key, in hidden partitions;
- ``products``: the changes of ``postgres-cdc`` as they are, merged by key.

In the end, the tables are read by ``pyiceberg``. With ``--duckdb``, DuckDB reads their metadata, too: a Python in which
``duckdb`` and its extension for Iceberg are installed (``duckdb-extension-iceberg`` and ``duckdb-extension-avro``).
Linux only. Exit code 1 when a row is lost or doubled.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from typing import ClassVar

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

from benchmarks.chaos_servers import COUNTS, LOGIN, ON_KAFKA, STATS, Row, Storm, play
from benchmarks.harness import run

_LAKE = "'connector' = 'iceberg', 'warehouse' = '{folder}/lake', 'catalog-table'"
SCRIPT = f"""
    CREATE TABLE orders (order_id BIGINT, user_id BIGINT, product_id BIGINT, num BIGINT, arrived AS PROCTIME()) WITH (
      'connector' = 'kafka', 'topic' = 'orders', {ON_KAFKA}, 'properties.group.id' = 'chaos',
      'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
    CREATE TABLE products (product_id BIGINT, category STRING, price BIGINT, PRIMARY KEY (product_id) NOT ENFORCED)
      WITH ('connector' = 'postgres-cdc', 'hostname' = '${{env:PGHOST}}', 'port' = '${{env:PGPORT}}', {LOGIN},
      'database-name' = '${{env:PGDATABASE}}', 'schema-name' = 'public', 'table-name' = 'products',
      'slot.name' = 'chaos');
    CREATE TABLE many (order_id BIGINT, num BIGINT) WITH ({_LAKE} = 'many');
    CREATE TABLE stats_table ({COUNTS}, PRIMARY KEY (product_id) NOT ENFORCED) WITH ({_LAKE} = 'stats',
      'partitioning' = 'bucket(4, product_id)', 'sort-order' = 'product_id');
    CREATE TABLE copies (product_id BIGINT, category STRING, price BIGINT, PRIMARY KEY (product_id) NOT ENFORCED)
      WITH ({_LAKE} = 'products');
    CREATE VIEW first_orders AS SELECT * FROM (
      SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY arrived ASC) AS n FROM orders) WHERE n = 1;
    CREATE VIEW stats AS {STATS};
    COMPILE PLAN '{{folder}}/plan.json' FOR STATEMENT SET BEGIN
      INSERT INTO many SELECT order_id, num FROM orders WHERE num > 4;
      INSERT INTO stats_table SELECT * FROM stats;
      INSERT INTO copies SELECT * FROM products;
    END;"""
PRODUCTS = "SELECT product_id, category, price FROM products"
_DUCKDB = """
import glob, json, site, sys, duckdb
lake = duckdb.connect()
for name in ("avro", "iceberg"):
    folder = f"{site.getsitepackages()[0]}/duckdb_extension_{name}/extensions"
    lake.execute("LOAD '%s'" % glob.glob(f"{folder}/**/*.duckdb_extension", recursive=True)[0])
print(json.dumps(lake.sql(f"SELECT * FROM iceberg_scan('{sys.argv[1]}')").fetchall()))
"""


class LakeStorm(Storm):
    """The job with Iceberg tables.

    Attributes:
        duckdb: the Python that has DuckDB; empty for none.
    """

    duckdb: ClassVar[str] = ""
    script: ClassVar[str] = SCRIPT
    states: ClassVar[tuple[str, ...]] = ("deduplicate[*]", "group-aggregate[*]")

    @property
    def catalog(self) -> SqlCatalog:
        folder = self.folder / "lake"
        folder.mkdir(exist_ok=True)
        return SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.db?timeout=30", warehouse=str(folder))

    def table_rows(self, name: str) -> list[Row]:
        """The rows of a table, as the library reads them."""
        try:
            rows = self.catalog.load_table(("default", name)).scan().to_arrow().to_pylist()
            return [tuple(row.values()) for row in rows]
        except NoSuchTableError:
            return []

    def duckdb_rows(self, name: str) -> list[Row]:
        """The same, as DuckDB reads them."""
        location = self.catalog.load_table(("default", name)).metadata_location
        answer = subprocess.run([self.duckdb, "-c", _DUCKDB, location], capture_output=True, text=True, check=False)
        if answer.returncode:
            raise SystemExit(f"DuckDB cannot read {name}: {answer.stderr[-500:]}")
        return [tuple(row) for row in json.loads(answer.stdout)]

    def has_all_changes(self) -> bool:
        return sorted(self.table_rows("products")) == sorted(self.database.rows(PRODUCTS))

    def versions(self) -> int:
        return sum(1 for _ in (self.folder / "lake" / "default").glob("*/metadata/*.metadata.json"))

    def problems(self) -> Iterator[str]:
        stats, products = self.database.rows(STATS), self.database.rows(PRODUCTS)
        readers: dict[str, Callable[[str], list[Row]]] = {"pyiceberg": self.table_rows}
        if self.duckdb:
            readers["DuckDB"] = self.duckdb_rows
        for reader, rows in readers.items():
            many = Counter((int(order), int(num)) for order, num in rows("many"))
            yield from self.counted(f"`many`, read by {reader}", many)
            yield from self.compared(f"`stats`, read by {reader}", 1, stats, rows("stats"))
            yield from self.compared(f"`products`, read by {reader}", 1, products, rows("products"))


def main(
    kills: int = 50,
    limit: float = float("inf"),
    rows: int = 500,
    changes: float = 5,
    seed: int = 1,
    keep: str = "",
    duckdb: str = "",
) -> int:
    LakeStorm.duckdb = duckdb
    return play(LakeStorm, kills, limit, rows, changes, seed, keep)


if __name__ == "__main__":
    run(main, __doc__)
