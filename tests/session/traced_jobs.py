"""Jobs whose telemetry goes to a receiver."""

from __future__ import annotations

import json
from pathlib import Path

from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs
from tests.session.otlp_receiver import OtlpReceiver, Span, options_for
from tests.support.waiting import until

JOIN = "INSERT INTO totals SELECT o.k, SUM(o.v) FROM orders AS o JOIN orders AS p ON o.k = p.k GROUP BY o.k"


def session(folder: Path, url: str, rows: str | None = None, **options: str) -> TableEnvironment:
    """A session with a table of 20 orders."""
    env = TableEnvironment.create({**options_for(url), **options}, jobs=Jobs())
    (folder / "orders").mkdir(exist_ok=True)
    lines = rows or "".join(json.dumps({"k": n % 2, "v": n}) + "\n" for n in range(20))
    (folder / "orders" / "rows.json").write_text(lines)
    location = f"'connector' = 'filesystem', 'path' = '{folder}/orders', 'format' = 'json'"
    env.execute_sql(f"CREATE TABLE orders (k INT, v INT) WITH ({location})")
    env.execute_sql("CREATE TABLE totals (k INT, total BIGINT) WITH ('connector' = 'blackhole')")
    return env


def run(env: TableEnvironment, receiver: OtlpReceiver, sql: str = JOIN) -> Span:
    """Runs a job; the root span of its last micro-batch."""
    env.execute_sql(sql).wait()
    until(lambda: bool(receiver.roots()), 20, "no trace")
    return receiver.roots()[-1]
