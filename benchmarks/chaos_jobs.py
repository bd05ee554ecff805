"""The jobs that :mod:`benchmarks.chaos` kills: their queries, states and input."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from stateplan.common.ttl import format_ttl
from stateplan.plans.document import PlanDocument
from stateplan.plans.edit import set_ttls

MINUTE = 60_000


@dataclass(frozen=True)
class Job:
    """A job with file sinks over recorded arrivals.

    Attributes:
        script: what compiles ``{folder}/plan.json``.
        inputs: the files with the arrivals.
        sinks: the names of the folders in ``{folder}/out``.
        states: what is given TTLs, as selectors.
        chunk: so many minutes of input are there at a start, at least.
        arrivals: the rows of a minute, given its number, how many there are to be, and chance: file, row.
    """

    script: str
    inputs: tuple[str, ...]
    sinks: tuple[str, ...]
    states: tuple[str, ...]
    chunk: int
    arrivals: Callable[[int, int, random.Random], list[tuple[str, Mapping[str, object]]]]

    def extend(self, folder: Path, first: int, count: int, rows: int, rng: random.Random) -> None:
        """Adds ``count`` minutes of arrivals."""
        lines: dict[str, list[str]] = {name: [] for name in self.inputs}
        for minute in range(first, first + count):
            for name, row in self.arrivals(minute, rows, rng):
                lines[name].append(json.dumps({**row, "@at": minute * MINUTE}) + "\n")
        for name, more in lines.items():
            with (folder / name).open("a") as file:
                file.writelines(more)

    def compile(self, folder: Path) -> Path:
        """The plan, with the first TTLs; a file of input that is not there yet is empty."""
        from stateplan.session.environment import TableEnvironment
        from stateplan.session.script import read_script

        for name in self.inputs:
            (folder / name).touch()
        session = TableEnvironment.create()
        for statement in read_script(self.script.format(folder=folder)):
            session.execute_statement(statement)
        plan = folder / "plan.json"
        edit_plan(plan, dict.fromkeys(self.states, 20 * MINUTE))
        return plan


def edit_plan(plan: Path, ttls: dict[str, int]) -> None:
    """Sets TTLs in a plan file, in milliseconds by selector."""
    document = PlanDocument.load(str(plan))
    set_ttls(document, {selector: format_ttl(ms) for selector, ms in ttls.items()})
    document.write(str(plan), overwrite=True)


def _orders(minute: int, rows: int, rng: random.Random) -> list[tuple[str, Mapping[str, object]]]:
    """New orders, some of those of the last 100 minutes once more, and where orders go, up to 100 minutes late."""
    out: list[tuple[str, Mapping[str, object]]] = []
    for n in range(rows):
        back = int(100 * rng.random() ** 3) if rng.random() < 0.3 else 0
        order = max(0, minute - back) * rows + (rng.randrange(rows) if back else n)
        row = {"order_id": order, "user_id": rng.randrange(500), "product_id": rng.randrange(50), "num": n}
        late = max(0, minute - int(100 * rng.random() ** 3)) * rows + rng.randrange(rows)
        place = {"order_id": late, "target": f"city{rng.randrange(100)}"}
        out += [("orders.json", row), ("logistics.json", place)]
    return out


EXAMPLES = Job(
    """
    CREATE TABLE orders (order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT, proctime AS PROCTIME())
      WITH ('connector'='replay', 'path'='{folder}/orders.json', 'format'='json');
    CREATE TABLE logistics (order_id BIGINT, target STRING)
      WITH ('connector'='replay', 'path'='{folder}/logistics.json', 'format'='json');
    CREATE TABLE stats (product_id BIGINT, order_user_cnt BIGINT, order_cnt BIGINT, total_sum BIGINT)
      WITH ('connector'='filesystem', 'path'='{folder}/out/stats', 'format'='debezium-json');
    CREATE TABLE joined (order_id BIGINT, user_id BIGINT, num INT, target STRING)
      WITH ('connector'='filesystem', 'path'='{folder}/out/joined', 'format'='json');
    COMPILE PLAN '{folder}/plan.json' FOR STATEMENT SET BEGIN
      INSERT INTO stats
      SELECT product_id, COUNT(DISTINCT user_id), COUNT(order_id), SUM(num) FROM (
        SELECT * FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY proctime ASC) AS row_num FROM orders)
        WHERE row_num = 1) GROUP BY product_id;
      INSERT INTO joined SELECT o.order_id, o.user_id, o.num, l.target
      FROM orders o JOIN logistics l ON o.order_id = l.order_id;
    END;""",
    ("orders.json", "logistics.json"),
    ("stats", "joined"),
    ("deduplicate", "group-aggregate", "join.left", "join.right"),
    16,
    _orders,
)
"""Both examples of FLIP-292: a deduplication before an aggregation, and a join."""


def _clicks(minute: int, rows: int, rng: random.Random) -> list[tuple[str, Mapping[str, object]]]:
    """Clicks of visitors who come and go, most of them up to two minutes late, some ten; and what they buy."""
    here = [k for k in range(40) if (minute // 7 + k) % 3]
    out: list[tuple[str, Mapping[str, object]]] = []
    for n in range(rows):
        late = rng.randrange(10 if rng.random() < 0.05 else 2) * MINUTE + rng.randrange(MINUTE)
        at = max(0, minute * MINUTE - late)
        time = datetime(2026, 1, 1) + timedelta(milliseconds=at)
        row = {"k": rng.choice(here), "v": n % 7, "ts": time.isoformat(timespec="milliseconds")}
        out.append(("clicks.json" if rng.random() < 0.7 else "sales.json", row))
    return out


EVENT_TIME = Job(
    """
    CREATE TABLE clicks (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' MINUTE)
      WITH ('connector'='replay', 'path'='{folder}/clicks.json', 'format'='json',
            'json.timestamp-format.standard'='ISO-8601');
    CREATE TABLE sales (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' MINUTE)
      WITH ('connector'='replay', 'path'='{folder}/sales.json', 'format'='json',
            'json.timestamp-format.standard'='ISO-8601');
    CREATE TABLE windows (k INT, n BIGINT, total BIGINT, window_end TIMESTAMP(3))
      WITH ('connector'='filesystem', 'path'='{folder}/out/windows', 'format'='json');
    CREATE TABLE sessions (k INT, n BIGINT, window_start TIMESTAMP(3), window_end TIMESTAMP(3))
      WITH ('connector'='filesystem', 'path'='{folder}/out/sessions', 'format'='json');
    CREATE TABLE visits (k INT, v INT, window_start TIMESTAMP(3), window_end TIMESTAMP(3))
      WITH ('connector'='filesystem', 'path'='{folder}/out/visits', 'format'='json');
    CREATE TABLE bought (k INT, v INT, w INT)
      WITH ('connector'='filesystem', 'path'='{folder}/out/bought', 'format'='json');
    CREATE TABLE rises (k INT, v INT, w INT)
      WITH ('connector'='filesystem', 'path'='{folder}/out/rises', 'format'='json');
    COMPILE PLAN '{folder}/plan.json' FOR STATEMENT SET BEGIN
      INSERT INTO windows SELECT k, COUNT(*), SUM(v), window_end
      FROM TABLE(HOP(TABLE clicks, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '15' MINUTE))
      GROUP BY k, window_start, window_end;
      INSERT INTO sessions SELECT k, COUNT(*), window_start, window_end
      FROM TABLE(SESSION(TABLE clicks PARTITION BY k, DESCRIPTOR(ts), INTERVAL '4' MINUTE))
      GROUP BY k, window_start, window_end;
      INSERT INTO visits SELECT k, v, window_start, window_end
      FROM TABLE(SESSION(TABLE sales PARTITION BY k, DESCRIPTOR(ts), INTERVAL '6' MINUTE));
      INSERT INTO bought SELECT c.k, c.v, s.v FROM clicks c LEFT JOIN sales s
      ON c.k = s.k AND s.ts BETWEEN c.ts AND c.ts + INTERVAL '4' MINUTE;
      INSERT INTO rises SELECT k, v, w FROM clicks MATCH_RECOGNIZE (
        PARTITION BY k ORDER BY ts MEASURES A.v AS v, LAST(B.v) AS w AFTER MATCH SKIP PAST LAST ROW
        PATTERN (A B+ C) DEFINE B AS B.v > A.v, C AS C.v < A.v) AS m;
    END;""",
    ("clicks.json", "sales.json"),
    ("windows", "sessions", "visits", "bought", "rises"),
    (
        "global-window-aggregate",
        "window-aggregate",
        "window-table-function",
        "interval-join.left",
        "interval-join.right",
        "match",
    ),
    100,
    _clicks,
)
"""Hopping windows, sessions with and without an aggregate, an interval join and MATCH_RECOGNIZE, all by event time."""

JOBS = {"examples": EXAMPLES, "event-time": EVENT_TIME}
