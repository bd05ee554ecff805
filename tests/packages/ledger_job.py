"""Runs a job over ledger tables in a process of its own, until it has written so many rows or is killed in a commit.

python ledger_job.py DATABASE CHECKPOINT MODE PARALLELISM ROWS [before|after]
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Sequence

TABLES = """
CREATE TABLE entries (id BIGINT, account STRING, amount BIGINT, arrived AS PROCTIME())
  WITH ({entries}, 'scan.mode' = '{mode}', 'scan.max-rows' = '100', 'scan.interval' = '100 ms');
CREATE TABLE accounts (account STRING, owner STRING) WITH ({accounts});
CREATE TABLE copies (id BIGINT, amount BIGINT) WITH ({copies});
CREATE TABLE totals (owner STRING, n BIGINT, total BIGINT) WITH ({totals})
"""
INSERTS = """EXECUTE STATEMENT SET BEGIN
INSERT INTO copies SELECT id, amount FROM entries;
INSERT INTO totals SELECT a.owner, COUNT(*), SUM(e.amount) FROM entries AS e
  JOIN accounts FOR SYSTEM_TIME AS OF e.arrived AS a ON a.account = e.account GROUP BY a.owner;
END"""


def main(database: str, checkpoint: str, mode: str, parallelism: str, rows: str, kill: str = "") -> None:
    from stateplan import TableEnvironment

    session = TableEnvironment.create(
        {
            "execution.checkpointing.dir": checkpoint,
            "parallelism.default": parallelism,
            "pipeline.max-parallelism": "4",
            "execution.checkpointing.interval": "100 ms",
        }
    )
    names = ("entries", "accounts", "copies", "totals")
    tables = {n: f"'connector' = 'ledger', 'path' = '{database}', 'table' = '{n}'" for n in names}
    for statement in TABLES.format(mode=mode, **tables).split(";"):
        session.execute_sql(statement)
    if kill:
        kill_in_commit(kill)
    job = session.execute_sql(INSERTS).job
    assert job is not None
    if job.bounded:
        assert job.wait(120)
        return
    deadline = time.monotonic() + 120
    while copied(database) < int(rows) and time.monotonic() < deadline:
        job.wait(0.1)
    job.stop()


def kill_in_commit(when: str) -> None:
    """Ends the process in the third commit of a sink of this run, ``before`` or ``after`` its transaction."""
    from stateplan_ledger import LedgerSink

    commit, commits = LedgerSink.commit, []

    def killed(sink: LedgerSink, parts: Sequence[bytes], epoch: int) -> None:
        commits.append(epoch)
        if len(commits) == 3 and when == "before":
            os._exit(9)
        commit(sink, parts, epoch)
        if len(commits) == 3:
            os._exit(9)

    LedgerSink.commit = killed  # type: ignore[method-assign]


def copied(database: str) -> int:
    """How many rows have been written."""
    connection = sqlite3.connect(database, timeout=60)
    try:
        (count,) = connection.execute("SELECT COUNT(*) FROM copies").fetchone()
    except sqlite3.OperationalError:  # not made yet
        return 0
    finally:
        connection.close()
    return int(count)


if __name__ == "__main__":
    main(*sys.argv[1:])
