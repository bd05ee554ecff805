"""Plans of any size: a statement set with joins, aggregates, deduplication, Top-N, unions and shared sub-plans."""

from __future__ import annotations

from functools import cache

_TABLES = """
CREATE TABLE orders (id BIGINT, product STRING, amount DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = '/data/orders', 'format' = 'debezium-json');
CREATE TABLE clicks (id BIGINT, product STRING, price DOUBLE, seen AS PROCTIME())
WITH ('connector' = 'filesystem', 'path' = '/data/clicks', 'format' = 'json');
CREATE VIEW latest AS SELECT id, product, price FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY product ORDER BY seen DESC) AS n FROM clicks) WHERE n = 1;
CREATE VIEW sums AS SELECT product, COUNT(*) AS orders, SUM(amount) AS amount FROM orders GROUP BY product;
"""

_SINK = """
CREATE TABLE sink_{i} (product STRING, orders BIGINT, amount DECIMAL(38, 2), price DOUBLE)
WITH ('connector' = 'print');
"""

_INSERTS = (
    """INSERT INTO sink_{i} SELECT /*+ STATE_TTL('s' = '{i} h', 'c' = '1 d') */ s.product, s.orders, s.amount, c.price
       FROM sums s JOIN clicks c ON s.product = c.product AND c.price > {i}""",
    """INSERT INTO sink_{i} SELECT product, COUNT(DISTINCT id), CAST(MAX(price) AS DECIMAL(38, 2)), SUM(price)
       FROM clicks WHERE id > {i} GROUP BY product""",
    """INSERT INTO sink_{i} SELECT s.product, s.orders, s.amount, l.price
       FROM sums s LEFT JOIN latest l ON s.product = l.product WHERE s.orders > {i}""",
    """INSERT INTO sink_{i} SELECT product, n, CAST(amount AS DECIMAL(38, 2)), CAST({i} AS DOUBLE) FROM (
       SELECT *, ROW_NUMBER() OVER (PARTITION BY product ORDER BY amount DESC) AS n FROM orders WHERE id > {i})
       WHERE n <= 3""",
    """INSERT INTO sink_{i} SELECT product, COUNT(*), CAST({i} AS DECIMAL(38, 2)), MAX(price) FROM (
       SELECT product, price FROM clicks WHERE id < {i} UNION ALL SELECT product, price FROM latest)
       GROUP BY product""",
)


def wide_script(inserts: int) -> str:
    """Tables and a statement set of so many INSERTs, which read each other's tables and views."""
    sinks = "".join(_SINK.format(i=i) for i in range(inserts))
    body = ";\n".join(_INSERTS[i % len(_INSERTS)].format(i=i) for i in range(inserts))
    return f"{_TABLES}{sinks}COMPILE PLAN 'wide.json' FOR STATEMENT SET BEGIN\n{body};\nEND;"


@cache
def wide_plan(operators: int) -> str:
    """The text of a plan of our planner with at least so many operators, and at most a dozen more."""
    from stateplan.planner.dialect.nodes import CompilePlan
    from stateplan.session.environment import TableEnvironment
    from stateplan.session.script import Inserts, read_script

    inserts = max(1, operators // 7)
    while True:
        environment = TableEnvironment.create({})
        for statement in read_script(wide_script(inserts)):
            if isinstance(statement.node, CompilePlan):
                document = environment.session.compiler.document(Inserts.of(statement.node.this, statement.source))
            else:
                environment.execute_statement(statement)
        missing = operators - len(document.graph.nodes)
        if missing <= 0:
            return document.text
        inserts += max(1, missing // 7)
