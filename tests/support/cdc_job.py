"""Runs a job over changes of PostgreSQL in a process of its own, until it is killed.

python -m tests.support.cdc_job OPTIONS CHECKPOINT OUTPUT
"""

from __future__ import annotations

import json
import sys

INSERT = """INSERT INTO totals SELECT c.region, COUNT(*), SUM(o.amount), MAX(o.note)
  FROM orders AS o JOIN customers AS c ON o.customer = c.id GROUP BY c.region"""


def main(given: str, checkpoint: str, output: str) -> None:
    from stateplan import TableEnvironment

    session = TableEnvironment.create(
        {
            "execution.checkpointing.dir": checkpoint,
            "parallelism.default": "2",
            "pipeline.max-parallelism": "2",
            "execution.checkpointing.interval": "100 ms",
        }
    )

    def table(name: str, **more: str) -> str:
        options = {**json.loads(given), "table-name": name, "slot.name": f"slot_{name}", **more}
        return ", ".join(f"'{key}' = '{text}'" for key, text in options.items())

    upserts = table("customers", **{"changelog-mode": "upsert"})
    for statement in (
        f"CREATE TABLE orders (id INT, customer INT, amount BIGINT, note STRING) WITH ({table('orders')})",
        f"CREATE TABLE customers (id INT, region STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ({upserts})",
        "CREATE TABLE totals (region STRING, n BIGINT, total BIGINT, note STRING) WITH "
        f"('connector' = 'filesystem', 'path' = '{output}', 'format' = 'op-json', 'op-json.mode' = 'retract')",
    ):
        session.execute_sql(statement)
    job = session.execute_sql(INSERT).job
    assert job is not None
    job.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
