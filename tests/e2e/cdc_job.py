"""Runs a job that joins orders from Kafka with changes of PostgreSQL, in a process of its own, until it is killed.

python -m tests.e2e.cdc_job HOST PORT DATABASE USER KAFKA TOPIC FOLDER
"""

from __future__ import annotations

import sys

QUERY = """SELECT c.region, p.kind, COUNT(*) AS n, CAST(SUM(o.amount * p.price) AS BIGINT) AS total, MAX(p.note) AS note
  FROM orders AS o JOIN customers AS c ON o.customer = c.id JOIN products AS p ON o.product = p.id
  GROUP BY c.region, p.kind"""
SINKS = {
    "upserted": "'connector' = 'jdbc', 'url' = 'jdbc:postgresql://{host}:{port}/{database}', 'username' = '{user}', "
    "'password' = '${{env:CDC_PASSWORD}}', 'table-name' = 'upserted'",
    "merged": "'connector' = 'delta', 'table-path' = '{folder}/merged'",
    "changes": "'connector' = 'filesystem', 'path' = '{folder}/changes', 'format' = 'op-json', "
    "'op-json.mode' = 'retract'",
}


def main(host: str, port: str, database: str, user: str, kafka: str, topic: str, folder: str) -> None:
    from stateplan import TableEnvironment

    session = TableEnvironment.create(
        {
            "execution.checkpointing.dir": f"{folder}/checkpoint",
            "parallelism.default": "2",
            "pipeline.max-parallelism": "2",
            "execution.checkpointing.interval": "100 ms",
        }
    )
    session.execute_sql(
        "CREATE TABLE orders (id INT, customer INT, product INT, amount BIGINT) WITH ('connector' = 'kafka', "
        f"'topic' = '{topic}', 'properties.bootstrap.servers' = '{kafka}', 'scan.startup.mode' = 'earliest-offset', "
        "'format' = 'json')"
    )
    cdc = (
        f"'connector' = 'postgres-cdc', 'hostname' = '{host}', 'port' = '{port}', 'username' = '{user}', "
        f"'password' = '${{env:CDC_PASSWORD}}', 'database-name' = '{database}', 'schema-name' = 'public'"
    )
    tables = {
        "customers": ("region STRING, PRIMARY KEY (id) NOT ENFORCED", "upsert"),
        "products": ("kind STRING, price BIGINT, note STRING", "all"),
    }
    for name, (columns, mode) in tables.items():
        session.execute_sql(
            f"CREATE TABLE {name} (id INT, {columns}) WITH ({cdc}, 'table-name' = '{name}', "
            f"'slot.name' = 'slot_{name}', 'changelog-mode' = '{mode}')"
        )
    inserts = session.create_statement_set()
    columns, key = "region STRING, kind STRING, n BIGINT, total BIGINT, note STRING", "(region, kind) NOT ENFORCED"
    for name, given in SINKS.items():
        options = given.format(host=host, port=port, database=database, user=user, folder=folder)
        keyed = "" if name == "changes" else f", PRIMARY KEY {key}"
        session.execute_sql(f"CREATE TABLE {name} ({columns}{keyed}) WITH ({options})")
        inserts.add_insert_sql(f"INSERT INTO {name} {QUERY}")
    job = inserts.execute().job
    assert job is not None
    job.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
