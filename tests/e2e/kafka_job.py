"""Runs a job over Kafka in a process of its own: copies a topic, and counts it by key, exactly once. It ends with what
is in the topic when it starts first, or is killed in a commit.

python kafka_job.py SERVERS CHECKPOINT ROWS_IN_A_BATCH [SINK before|inside|after NUMBER_OF_COMMIT]
"""

from __future__ import annotations

import os
import sys
from typing import Any

from stateplan import TableEnvironment

EXACT = "'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'job'"
TABLES = """
CREATE TABLE orders (id BIGINT, account STRING, amount BIGINT) WITH ('connector' = 'kafka', 'topic' = 'orders', {to},
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json',
  'scan.max-rows-per-batch' = '{most}');
CREATE TABLE copies (id BIGINT, amount BIGINT) WITH ('connector' = 'kafka', 'topic' = 'copies', {to},
  'format' = 'json', {exact});
CREATE TABLE totals (account STRING PRIMARY KEY NOT ENFORCED, n BIGINT, total BIGINT) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'totals', {to}, 'key.format' = 'json', 'value.format' = 'json',
  {exact})
"""
INSERTS = """EXECUTE STATEMENT SET BEGIN
INSERT INTO copies SELECT id, amount FROM orders;
INSERT INTO totals SELECT account, COUNT(*), SUM(amount) FROM orders GROUP BY account;
END"""


def main(servers: str, checkpoint: str, most: str, sink: str = "", when: str = "", commit: str = "1") -> None:
    session = TableEnvironment.create(
        {
            "execution.checkpointing.dir": checkpoint,
            "parallelism.default": "2",
            "pipeline.max-parallelism": "2",
        }
    )
    to = f"'properties.bootstrap.servers' = '{servers}'"
    for statement in TABLES.format(to=to, exact=EXACT, most=most).split(";"):
        session.execute_sql(statement)
    if sink:
        kill_in_commit(sink, when, int(commit))
    job = session.execute_sql(INSERTS).job
    assert job is not None
    assert job.wait(120)


def kill_in_commit(topic: str, when: str, number: int) -> None:
    """Ends the process in a commit of this run for a topic: ``before`` the transaction, ``inside`` it, or ``after``
    it."""
    from stateplan.connectors.kafka.transactions import Transactions

    real, seen = Transactions._transaction, []

    def killed(self: Transactions, outbox: Any, parts: Any, epoch: int) -> None:
        if self.topic == topic:
            seen.append(epoch)
        last = self.topic == topic and len(seen) == number
        if last and when == "before":
            os._exit(9)
        if last and when == "inside":
            self._call = lambda *_: os._exit(9)  # type: ignore[method-assign] - messages are sent, and nothing committed
        real(self, outbox, parts, epoch)
        if last:
            os._exit(9)

    Transactions._transaction = killed  # type: ignore[method-assign]


if __name__ == "__main__":
    main(*sys.argv[1:])
