"""What a TTL per operator is worth: both examples of FLIP-292, three queries over auctions and one over sessions, with
no TTL, one for the whole job, and one per operator.

    python -m benchmarks.ttl [--instants 60] [--rows 40000] [--seed 1] [--queries aggregate,join,..] [--no-report]

Arrivals (:mod:`benchmarks.ttl_data`) are played on the replay clock, half a day per micro-batch. Each way of setting
TTLs runs the same query over the same rows on a checkpoint of its own; then the job is stopped and started again a few
times, and at last runs to its end, where its result is compared with that of the job that forgets nothing.
Writes table and plot to the page per-operator-ttl.md and the picture beside it.
"""

from __future__ import annotations

import json
import math
import shutil
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.chaos import folded
from benchmarks.harness import run, work_folder
from benchmarks.nine_queries import machine, write_report
from benchmarks.ttl_data import make_input, rows_until
from scripts.pages import page_path
from stateplan.plans.render.chart import Panel, numbers, to_svg
from stateplan.runtime.job import Job as StartedJob
from stateplan.runtime.metrics.log import read_metrics
from stateplan.runtime.metrics.records import BatchMetrics
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.session.environment import TableEnvironment

REPORT = page_path("per-operator-ttl")
PLOT = REPORT.with_suffix(".svg")
RESTARTS = 2
_DAYS = "days of the recorded arrivals"
_PLOTTED = ("none", "job-wide, short", "job-wide, right", "per operator")
WARM = 5
"""Micro-batches that do not count for the rows per second."""


@dataclass(frozen=True)
class Way:
    """A way of setting TTLs.

    Attributes:
        short: the name in the plot.
        job: ``table.exec.state.ttl``.
        states: selectors in the plan, and their TTLs.
        refreshed: the type of node whose states are refreshed by reads, too.
        right: whether the result has to be that of the way that forgets nothing.
    """

    name: str
    short: str
    job: str
    states: Mapping[str, str] = field(default_factory=dict)
    refreshed: str = ""
    right: bool = True


@dataclass(frozen=True)
class Query:
    """A query over recorded tables.

    Attributes:
        tables: file -> columns.
        sink: columns and format.
        body: what is inserted.
        ways: how it is measured; the first one forgets nothing.
    """

    name: str
    title: str
    tables: Mapping[str, str]
    sink: tuple[str, str]
    body: str
    ways: tuple[Way, ...]


_AUCTIONS = {"auctions": "id BIGINT, category INT", "bids": "auction BIGINT, bidder INT, price BIGINT"}


def _auction_ways(kept: str, bids: str) -> tuple[Way, ...]:
    """How queries over auctions and bids are measured: ``kept`` is what lives for 36 h, ``bids`` the state of bids."""
    return (
        Way("none", "none", "0 ms"),
        Way("job-wide, 12 h", "job-wide, short", "12 h", right=False),
        Way("job-wide, 36 h", "job-wide, right", "36 h"),
        Way(f"per operator: {kept} 36 h, bids 18 h", "per operator", "36 h", {bids: "18 h"}),
    )


QUERIES = (
    Query(
        "aggregate",
        "deduplication, then aggregate",
        {"orders": "order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT, proctime AS PROCTIME()"},
        ("product_id BIGINT, order_user_cnt BIGINT, order_cnt BIGINT, total_sum BIGINT", "debezium-json"),
        """SELECT product_id, COUNT(DISTINCT user_id), COUNT(order_id), SUM(num) FROM (
             SELECT * FROM (
               SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY proctime ASC) AS row_num FROM orders)
             WHERE row_num = 1) GROUP BY product_id""",
        (
            Way("none", "none", "0 ms"),
            Way("job-wide, 2 d", "job-wide, short", "2 d", right=False),
            Way("job-wide, 8 d", "job-wide, long", "8 d", right=False),
            Way("job-wide, 8 d, aggregate refreshed by reads", "job-wide, right", "8 d", refreshed="group-aggregate"),
            Way(
                "per operator: deduplicate 2 d, aggregate 8 d, refreshed by reads",
                "per operator",
                "8 d",
                {"deduplicate": "2 d"},
                "group-aggregate",
            ),
        ),
    ),
    Query(
        "join",
        "join",
        {
            "placed": "order_id BIGINT, user_id BIGINT, num INT",
            "logistics": "order_id BIGINT, target STRING",
        },
        ("order_id BIGINT, user_id BIGINT, num INT, target STRING", "json"),
        """SELECT o.order_id, o.user_id, o.num, l.target FROM placed o JOIN logistics l ON o.order_id = l.order_id""",
        (
            Way("none", "none", "0 ms"),
            Way("job-wide, 1 d", "job-wide, short", "1 d", right=False),
            Way("job-wide, 8 d", "job-wide, right", "8 d"),
            Way("per operator: orders 8 d, logistics 1 d", "per operator", "8 d", {"join.right": "1 d"}),
        ),
    ),
    Query(
        "average",
        "average of the highest bids by category",
        _AUCTIONS,
        ("category INT, price BIGINT", "debezium-json"),
        """SELECT category, AVG(highest) FROM (
             SELECT a.id, a.category, MAX(b.price) AS highest FROM auctions a JOIN bids b ON a.id = b.auction
             GROUP BY a.id, a.category) GROUP BY category""",
        _auction_ways("auctions and highest bids", "join.right"),
    ),
    Query(
        "winner",
        "highest bid of each auction",
        _AUCTIONS,
        ("id BIGINT, bidder INT, price BIGINT", "debezium-json"),
        """SELECT id, bidder, price FROM (
             SELECT a.id, b.bidder, b.price, ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC) AS n
             FROM auctions a JOIN bids b ON a.id = b.auction) WHERE n = 1""",
        _auction_ways("auctions and winners", "join.right"),
    ),
    Query(
        "bids",
        "bids with their auctions",
        _AUCTIONS,
        ("auction BIGINT, bidder INT, price BIGINT, category INT", "json"),
        """SELECT b.auction, b.bidder, b.price, a.category FROM bids b JOIN auctions a ON b.auction = a.id""",
        _auction_ways("auctions", "join.left"),
    ),
    Query(
        "visits",
        "sessions, then visits per visitor",
        {"visits": "visitor INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '12' HOUR"},
        ("visitor INT, visits BIGINT, clicks BIGINT", "debezium-json"),
        """SELECT visitor, COUNT(*), SUM(n) FROM (
             SELECT visitor, COUNT(*) AS n
             FROM TABLE(SESSION(TABLE visits PARTITION BY visitor, DESCRIPTOR(ts), INTERVAL '30' MINUTE))
             GROUP BY visitor, window_start, window_end) GROUP BY visitor""",
        (
            Way("none", "none", "0 ms"),
            Way("job-wide, 2 d", "job-wide, short", "2 d", right=False),
            Way("job-wide, 8 d", "job-wide, right", "8 d"),
            Way("per operator: visits 8 d, sessions 2 d", "per operator", "8 d", {"window-aggregate": "2 d"}),
        ),
    ),
)


@dataclass
class Measured:
    """What a way came to.

    Attributes:
        state: after each micro-batch: virtual days, rows, bytes.
        committed: bytes that a micro-batch adds to the checkpoint, on average.
        restarts: seconds from a start to the end of its first micro-batch.
        speed: rows per second.
        rows: of the result.
    """

    way: Way
    state: list[tuple[float, int, int]]
    committed: float
    restarts: list[float]
    speed: float
    rows: Counter[str]


class Job:
    """One way of one query on a checkpoint of its own."""

    def __init__(self, query: Query, way: Way, data: Path, folder: Path) -> None:
        self.folder, self.query = folder, query
        folder.mkdir(parents=True)
        self.checkpoint = folder / "checkpoint"
        self._data = data
        session = self._session()
        self._plan = folder / "plan.json"
        session.execute_sql(f"SET 'table.exec.state.ttl' = '{way.job}'")
        plan = session.compile_plan_sql(f"INSERT INTO snk {query.body}")
        plan.set_ttls(way.states).write_to_file(self._plan)
        document = json.loads(self._plan.read_text(encoding="utf-8"))
        for node in document["nodes"]:
            if way.refreshed and way.refreshed in node["type"]:
                for state in node["state"]:
                    state["updateType"] = "OnReadAndWrite"
        self._plan.write_text(json.dumps(document), encoding="utf-8")

    def _session(self) -> TableEnvironment:
        session = TableEnvironment.create(
            {
                "execution.checkpointing.dir": str(self.checkpoint),
                # Nothing is removed from the checkpoint while its growth is measured.
                "spark.sql.streaming.minBatchesToRetain": "100000",
            }
        )
        for name, columns in self.query.tables.items():
            session.execute_sql(
                f"CREATE TABLE {name} ({columns}) WITH ('connector'='replay', 'format'='json', "
                f"'path'='{self._data / name}.json')"
            )
        columns, form = self.query.sink
        session.execute_sql(
            f"CREATE TABLE snk ({columns}) WITH ('connector'='filesystem', 'format'='{form}', "
            f"'path'='{self.folder / 'out'}')"
        )
        return session

    def start(self) -> StartedJob:
        job = self._session().execute_plan(self._plan).job
        assert job is not None
        return job

    def until(self, batch: int) -> float:
        """Runs until a micro-batch is done, and stops; the seconds until the first one was."""
        started = time.perf_counter()
        job = self.start()
        try:
            first = 0.0
            while job.progress.batch < batch or not (self.checkpoint / "spark" / "commits" / str(batch)).exists():
                if job.wait(0.005):
                    raise SystemExit(f"{self.query.name} ended before micro-batch {batch}")
                if not first and job.progress.batch >= 0:
                    first = time.perf_counter() - started
            return first or time.perf_counter() - started
        finally:
            job.stop()

    def bytes(self) -> int:
        """What Spark has in the checkpoint."""
        return sum(p.stat().st_size for p in (self.checkpoint / "spark").rglob("*") if p.is_file())


def measure(query: Query, way: Way, data: Path, work: Path, instants: int) -> Measured:
    """Runs ``query`` one way over the instants, restarts it, and lets it end."""
    job = Job(query, way, data, work / f"{query.name}-{query.ways.index(way)}")
    job.until(instants - 1)
    done = len(SparkCheckpoint.of(job.checkpoint).committed_batches)
    committed = job.bytes() / done
    records = [r for r in read_metrics(job.checkpoint) if r.batch < instants]
    rows = sum(rows_until(data / f"{t}.json", instants) - rows_until(data / f"{t}.json", WARM) for t in query.tables)
    seconds = sum(_milliseconds(r) for r in records if r.batch >= WARM) / 1000
    restarts = [job.until(read_metrics(job.checkpoint)[-1].batch + 1) for _ in range(RESTARTS)]
    job.start().wait()
    state = [
        (
            r.time / 86_400_000,
            sum(sum(s.rows) for s in r.state.values()),
            sum(sum(s.bytes) for s in r.state.values()),
        )
        for r in records
    ]
    found = Measured(way, state, committed, restarts, rows / seconds, folded(job.folder / "out"))
    shutil.rmtree(job.folder)
    return found


def _milliseconds(record: BatchMetrics) -> float:
    """A micro-batch from Spark's trigger to its commit, or the driver's part of it where Spark does not say."""
    return record.spark.get("triggerExecution", record.ms)


def table(query: Query, measured: Sequence[Measured]) -> str:
    """The Markdown table of a query."""
    whole = measured[0].rows
    head = [
        f"**{query.title[0].upper()}{query.title[1:]}**",
        "",
        "| TTL | state rows | state MB | committed per micro-batch, kB | restart, s | rows/s | rows of the result | "
        "missing or wrong |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for m in measured:
        wrong = sum((whole - m.rows).values())
        _, rows, size = m.state[-1]
        head.append(
            f"| {m.way.name} | {rows:,} | {size / 1e6:.1f} | {m.committed / 1e3:,.0f} | "
            f"{statistics.median(m.restarts):.2f} | {m.speed:,.0f} | {sum(m.rows.values()):,} | "
            f"{wrong:,} ({wrong / sum(whole.values()):.1%}) |"
        )
    return "\n".join(head)


def plot(results: Mapping[str, list[Measured]]) -> str:
    """The state of every way over the virtual days, a panel per query."""
    chosen = [query for query in QUERIES if query.name in results]
    shown = {q.title: [m for m in results[q.name] if m.way.short in _PLOTTED] for q in chosen}
    panels = [
        Panel(title, [(m.way.short, [(day, rows) for day, rows, _ in m.state]) for m in measured])
        for title, measured in shown.items()
    ]
    days = max(day for measured in shown.values() for m in measured for day, _, _ in m.state)
    return to_svg("State rows by how TTLs are set", "state rows", panels, numbers(0, math.ceil(days), _DAYS))


def main(
    instants: int = 60,
    rows: int = 40_000,
    seed: int = 1,
    queries: str = "aggregate,join,average,winner,bids,visits",
    report: bool = True,
) -> int:
    """Measures; 1 when a way that should be right is not."""
    chosen = [q for q in QUERIES if q.name in queries.split(",")]
    results: dict[str, list[Measured]] = {}
    with work_folder("ttl") as folder:
        work = Path(folder)
        make_input(work / "data", instants + 2 * RESTARTS + 2, rows, seed)
        make_input(work / "warm", 2 * RESTARTS + WARM + 3, rows, seed)
        for query in chosen:
            measure(query, query.ways[0], work / "warm", work / "warming", WARM + 1)
            for way in query.ways:
                found = measure(query, way, work / "data", work, instants)
                results.setdefault(query.name, []).append(found)
                print(table(query, results[query.name]).splitlines()[-1], flush=True)
    text = (
        f"{instants} micro-batches of half a day each, about {rows:,} rows in each; parallelism 2; restart: "
        f"the median of {RESTARTS}, in a process that runs Spark already. {machine()}.\n\n"
        + "\n\n".join(table(q, results[q.name]) for q in chosen)
    )
    print("\n" + text)
    if report:
        write_report(text, report=REPORT)
        PLOT.write_text(plot(results), encoding="utf-8")
    return int(any(m.way.right and m.rows != ways[0].rows for ways in results.values() for m in ways))


if __name__ == "__main__":
    run(main, __doc__)
