"""Column lineage, compared with drawings by hand: a line per output column, and one for the rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.execnodes.node_tables import table_of
from stateplan.execnodes.nodes.sink import Sink
from stateplan.plans.column_lineage import DIRECT, Uses, column_lineage
from stateplan.plans.document import PlanDocument
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import read_script, read_statement

TABLES = """
CREATE TABLE orders (id BIGINT, product STRING, num INT, price INT, ts TIMESTAMP(3), tags ARRAY<STRING>,
  buyer ROW<name STRING, city STRING>, arrived AS PROCTIME(), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'path' = '/data/orders', 'format' = 'json');
CREATE TABLE shipments (order_id BIGINT, target STRING, sent TIMESTAMP(3), WATERMARK FOR sent AS sent)
  WITH ('connector' = 'filesystem', 'path' = '/data/shipments', 'format' = 'json');
CREATE TABLE products (name STRING, kind STRING, maker STRING)
  WITH ('connector' = 'filesystem', 'path' = '/data/products', 'format' = 'json');
"""

DRAWINGS = {
    "projection": (
        "SELECT id, num * price AS total, UPPER(product) AS name, 1 AS constant FROM orders WHERE num > 2",
        "id <- orders.id IDENTITY; total <- orders.num TRANSFORMATION, orders.price TRANSFORMATION;"
        "name <- orders.product TRANSFORMATION; constant <-; rows <- orders.num FILTER",
    ),
    "nested column": (
        "SELECT buyer.city AS city FROM orders",
        "city <- orders.buyer TRANSFORMATION; rows <-",
    ),
    "aggregate of an expression": (
        "SELECT product, SUM(num * price) AS total, COUNT(*) FILTER (WHERE num > 3) AS many FROM orders"
        " GROUP BY product",
        "product <- orders.product IDENTITY; total <- orders.num AGGREGATION, orders.price AGGREGATION;"
        "many <- orders.num CONDITIONAL; rows <- orders.product GROUP_BY",
    ),
    "two phases": (
        "SELECT product, SUM(num) AS total, MAX(price) AS top FROM orders GROUP BY product",
        "product <- orders.product IDENTITY; total <- orders.num AGGREGATION; top <- orders.price AGGREGATION;"
        "rows <- orders.product GROUP_BY",
    ),
    "join": (
        "SELECT o.product, s.target FROM orders o LEFT JOIN shipments s ON o.id = s.order_id AND o.num > 1",
        "product <- orders.product IDENTITY; target <- shipments.target IDENTITY;"
        "rows <- orders.id JOIN, orders.num JOIN, shipments.order_id JOIN",
    ),
    "lookup join": (
        "SELECT o.id, p.maker FROM orders o JOIN products FOR SYSTEM_TIME AS OF o.arrived AS p ON o.product = p.name",
        "id <- orders.id IDENTITY; maker <- products.maker IDENTITY; rows <- orders.product JOIN, products.name JOIN",
    ),
    "windows": (
        "SELECT window_start, product, SUM(num) AS total FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts),"
        " INTERVAL '1' HOUR)) GROUP BY window_start, window_end, product",
        "window_start <- orders.ts TRANSFORMATION; product <- orders.product IDENTITY; total <- orders.num AGGREGATION;"
        "rows <- orders.product GROUP_BY, orders.ts GROUP_BY",
    ),
    "top-N": (
        "SELECT product, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY product ORDER BY price DESC) AS n"
        " FROM orders) WHERE n <= 3",
        "product <- orders.product IDENTITY; price <- orders.price IDENTITY;"
        "rows <- orders.price WINDOW, orders.product WINDOW",
    ),
    "last row by event time": (
        "SELECT id, num FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts DESC) AS n FROM orders)"
        " WHERE n = 1",
        "id <- orders.id IDENTITY; num <- orders.num IDENTITY; rows <- orders.id WINDOW, orders.ts WINDOW",
    ),
    "over": (
        "SELECT id, SUM(num) OVER (PARTITION BY product ORDER BY ts) AS total FROM orders",
        "id <- orders.id IDENTITY; total <- orders.num AGGREGATION, orders.product WINDOW, orders.ts WINDOW; rows <-",
    ),
    "sort": (
        "SELECT id FROM orders ORDER BY price LIMIT 10",
        "id <- orders.id IDENTITY; rows <- orders.price SORT",
    ),
    "union": (
        "SELECT id, product FROM orders UNION ALL SELECT order_id, UPPER(target) FROM shipments",
        "id <- orders.id IDENTITY, shipments.order_id IDENTITY;"
        "product <- orders.product IDENTITY, shipments.target TRANSFORMATION; rows <-",
    ),
    "unnest": (
        "SELECT id, tag FROM orders CROSS JOIN UNNEST(tags) AS t (tag)",
        "id <- orders.id IDENTITY; tag <- orders.tags TRANSFORMATION; rows <-",
    ),
    "interval join": (
        "SELECT o.id, s.target FROM orders o JOIN shipments s ON o.id = s.order_id"
        " AND s.sent BETWEEN o.ts AND o.ts + INTERVAL '1' DAY",
        "id <- orders.id IDENTITY; target <- shipments.target IDENTITY;"
        "rows <- orders.id JOIN, orders.ts JOIN, shipments.order_id JOIN, shipments.sent JOIN",
    ),
    "grouping sets": (
        "SELECT product, num, SUM(price) AS total FROM orders GROUP BY ROLLUP (product, num)",
        "product <- orders.product IDENTITY; num <- orders.num IDENTITY; total <- orders.price AGGREGATION;"
        "rows <- orders.num GROUP_BY, orders.product GROUP_BY",
    ),
}


def drawn(names: dict[int, str], uses: Uses) -> str:
    return ", ".join(sorted(f"{names[c.node]}.{c.name} {kind}" for c, kinds in uses.items() for kind in kinds))


@pytest.mark.parametrize("name", DRAWINGS)
def test_column_lineage_is_as_drawn(name: str) -> None:
    sql, drawing = DRAWINGS[name]
    env = TableEnvironment.create()
    if name == "two phases":
        for key, text in (("enabled", "true"), ("allow-latency", "1 s"), ("size", "10")):
            env.get_config().set(f"table.exec.mini-batch.{key}", text)
    for statement in read_script(TABLES):
        env.execute_statement(statement)
    lines = [line.strip().partition("<-") for line in drawing.split(";")]
    expected = {column.strip(): uses.strip() for column, _, uses in lines}
    columns = [column for column in expected if column != "rows"]
    fields = env.session.compiler.schema(read_statement(sql).node, sql)
    ddl = ", ".join(f"`{column}` {kind.as_nullable()}" for column, (_, kind) in zip(columns, fields, strict=True))
    env.execute_sql(f"CREATE TABLE target ({ddl}) WITH ('connector' = 'blackhole')")
    graph = env.compile_plan_sql(f"INSERT INTO target {sql}").document.graph
    tables = {n.id: table.path[-1] for n in graph.nodes if (table := table_of(n)) is not None}
    ((sink, flow),) = column_lineage(graph).items()
    assert isinstance(graph.node(sink), Sink)
    actual = {c: drawn(tables, uses) for c, uses in zip(columns, flow.fields, strict=True)}
    assert {**actual, "rows": drawn(tables, flow.rows)} == expected
    assert not {kind for kinds in flow.rows.values() for kind in kinds} & set(DIRECT)


FROZEN = sorted((Path(__file__).parent.parent / "frozen").glob("*/*.json"))


@pytest.mark.parametrize("path", FROZEN, ids=lambda path: path.parent.name)
def test_every_column_of_a_frozen_plan_is_of_a_column_that_exists(path: Path) -> None:
    """Plans with each node: whatever the node, every field has a lineage of columns that a table has."""
    graph = PlanDocument.load(str(path)).graph
    tables = {node.id: table for node in graph.nodes if (table := table_of(node)) is not None}
    for sink, flow in column_lineage(graph).items():
        assert len(flow.fields) == len(graph.node(sink).output_type.fields)
        for uses in (*flow.fields, flow.rows):
            for column in uses:
                resolved_table = tables[column.node].resolved_table
                names = {c.name for c in resolved_table.table_schema.columns} if resolved_table else {column.name}
                assert column.name in names
