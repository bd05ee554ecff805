"""A job on a cluster, between a broker, a database and a Delta table."""

from __future__ import annotations

from stateplan import TableEnvironment
from tests.cluster.cluster_jobs import CLUSTER

TABLES = """
CREATE TABLE orders (id BIGINT, account STRING, amount BIGINT, ordered AS PROCTIME()) WITH ('connector' = 'kafka',
  'topic' = '{orders}', {broker}, 'format' = 'json', 'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset', 'scan.max-rows-per-batch' = '1000');
CREATE TABLE accounts (account STRING, region STRING) WITH ({database}, 'table-name' = 'accounts');
CREATE TABLE copies (id BIGINT, region STRING) WITH ('connector' = 'kafka', 'topic' = '{copies}', {broker},
  'format' = 'json', 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{copies}');
CREATE TABLE totals (account STRING PRIMARY KEY NOT ENFORCED, n BIGINT, total BIGINT)
  WITH ({database}, 'table-name' = 'totals');
CREATE TABLE ids (id BIGINT) WITH ('connector' = 'delta', 'table-path' = '{folder}/ids');
"""
INSERTS = """EXECUTE STATEMENT SET BEGIN
INSERT INTO copies SELECT o.id, a.region FROM orders AS o
  JOIN accounts FOR SYSTEM_TIME AS OF o.ordered AS a ON a.account = o.account;
INSERT INTO totals SELECT account, COUNT(*), SUM(amount) FROM orders GROUP BY account;
INSERT INTO ids SELECT id FROM orders;
END"""


def between_servers(folder: str, servers: str, orders: str, copies: str, database: str) -> None:
    """Runs the job to its end, from the topic ``orders`` to the topic ``copies`` and others. ``servers`` are the
    brokers, ``database`` the options of a table in the database."""
    env = TableEnvironment.create(
        {**CLUSTER, "execution.checkpointing.dir": f"{folder}/checkpoint", "parallelism.default": "2"}
    )
    broker = f"'properties.bootstrap.servers' = '{servers}'"
    tables = TABLES.format(folder=folder, broker=broker, orders=orders, copies=copies, database=database)
    for statement in tables.split(";")[:-1]:
        env.execute_sql(statement)
    job = env.execute_sql(INSERTS).job
    assert job is not None
    assert job.wait(300)
