"""The TTLs that ``state advise`` gives, next to those that the data needs; and what a job misses with them.

    python -m benchmarks.advise [--instants 60] [--rows 2000] [--seed 1] [--kills 0]

Three jobs over recorded arrivals (:mod:`benchmarks.ttl_data`) and one whose second rows come after times with a heavy
tail. Each runs without a TTL, is killed (kill -9) and started again ``--kills`` times on the way, with another
parallelism and other TTLs each time, and is asked for advice for shares of 0, 0.01 and 1 percent. The needed TTLs
are worked out from the rows. Then the job runs with the advice for 1 %, and what it misses is counted. An audit of its
state records the expired rows that were needed; they are compared, one by one, with those that follow from the input.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.harness import run, work_folder
from benchmarks.ttl import QUERIES, Query
from benchmarks.ttl_data import make_input
from stateplan.common.errors import StateplanError
from stateplan.common.readable import ago, in_columns
from stateplan.common.ttl import format_ttl
from stateplan.plans.document import PlanDocument
from stateplan.plans.edit import set_ttls
from stateplan.plans.state import CheckpointReader
from stateplan.runtime.metrics.log import read_metrics
from stateplan.runtime.metrics.state_uses import StateUses
from stateplan.session.environment import TableEnvironment

SHARES = (0.0, 0.01, 1.0)
_STEP = 600_000
_LONG = "300 d"


Lost = tuple[str, tuple[object, ...], int, int]
"""An expired row that was needed: its state, its key, its last access, and when it was needed (ms)."""


@dataclass(frozen=True)
class Case:
    """A query, how its state is refreshed, and the ages at which its rows are needed.

    Attributes:
        query: over recorded arrivals.
        ages: per state, gives the ages (ms) of its uses from the folder of the rows.
        refreshed: the type of node whose states are refreshed by reads too.
        lost: gives the expired rows that are needed, from the folder of the rows and the TTLs (ms) by state.
        exact: whether the rows that are missing are the uses that were missed.
    """

    query: Query
    ages: Callable[[Path], Mapping[str, np.ndarray]]
    lost: Callable[[Path, Mapping[str, int]], Counter[Lost]]
    refreshed: str = ""
    exact: bool = True


def arrivals(folder: Path, name: str) -> pl.DataFrame:
    """The rows of a table, with the time of each."""
    return pl.read_ndjson(folder / f"{name}.json").rename({"@at": "at"})


def waits(folder: Path, left: str, right: str, on: tuple[str, str]) -> dict[str, np.ndarray]:
    """Of a join: how long a row has waited for a micro-batch with rows of its key on the other side, once for each."""
    both = [arrivals(folder, name) for name in (left, right)]
    out = {}
    for side, (mine, theirs) in enumerate((both, both[::-1])):
        keys = on if side == 0 else on[::-1]
        came = theirs.select(pl.col(keys[1]).alias("key"), pl.col("at").alias("later")).unique()
        rows = mine.select(pl.col(keys[0]).alias("key"), "at")
        met = rows.join(came, on="key").filter(pl.col("later") > pl.col("at"))
        out["join.left" if side == 0 else "join.right"] = (met["later"] - met["at"]).to_numpy()
    return out


def lost_in_join(folder: Path, left: str, right: str, on: tuple[str, str], ttls: Mapping[str, int]) -> Counter[Lost]:
    """Of a join: rows for whose key a row comes on the other side when they have expired."""
    both = [arrivals(folder, name) for name in (left, right)]
    out: Counter[Lost] = Counter()
    for side, (mine, theirs) in enumerate((both, both[::-1])):
        state, keys = ("join.left", "join.right")[side], on if side == 0 else on[::-1]
        if state in ttls:
            came = theirs.select(pl.col(keys[1]).alias("key"), pl.col("at").alias("later")).unique()
            met = mine.select(pl.col(keys[0]).alias("key"), "at").join(came, on="key")
            rows = met.filter(pl.col("later") - pl.col("at") >= ttls[state]).rows()
            out.update((state, (key,), at, later) for key, at, later in rows)
    return out


class Expiring:
    """The last accesses to the keys of a state.

    Args:
        state: its name.
        ttl: ms; 0 is for ever.
    """

    def __init__(self, state: str, ttl: int) -> None:
        self.state, self.ttl = state, ttl
        self.last: dict[tuple[object, ...], int] = {}

    def access(self, key: tuple[object, ...], now: int, refreshes: bool, lost: Counter[Lost]) -> bool:
        """Whether the key is live; an expired one is counted as lost, and begins anew."""
        before = self.last.get(key)
        is_live = before is not None and not (self.ttl and now - before >= self.ttl)
        if before is not None and not is_live:
            lost[self.state, key, before, now] += 1
        if refreshes or not is_live:
            self.last[key] = now
        return is_live


def lost_in_aggregate(folder: Path, ttls: Mapping[str, int]) -> Counter[Lost]:
    """Of the deduplication and the aggregate behind it: one key after the other."""
    names = ("deduplicate", "group-aggregate", "group-aggregate$distinct1")
    seen, groups, users = (Expiring(name, ttls.get(name.partition("$")[0], 0)) for name in names)
    lost: Counter[Lost] = Counter()
    for (now,), rows in arrivals(folder, "orders").group_by(["at"], maintain_order=True):
        once = rows.unique("order_id", keep="first", maintain_order=True)
        new = [row for row in once.iter_rows(named=True) if not seen.access((row["order_id"],), now, False, lost)]
        for product in dict.fromkeys(row["product_id"] for row in new):
            groups.access((product,), now, True, lost)
        for pair in dict.fromkeys((row["product_id"], row["user_id"]) for row in new):
            users.access(pair, now, True, lost)
    return lost


def recorded(checkpoint: Path) -> Counter[Lost]:
    """What the audit of a job has recorded."""
    session = TableEnvironment.create()
    session.execute_sql(f"CREATE CATALOG s WITH ('type' = 'state', 'path' = '{checkpoint}')")
    rows = session.sql_query("SELECT state, state_key, access_time, needed_at FROM s.job.lost_rows").to_arrow()
    frame = pl.DataFrame(rows).with_columns(pl.col("access_time", "needed_at").dt.epoch("ms"))
    return Counter((state, tuple(json.loads(key).values()), at, later) for state, key, at, later in frame.rows())


def gaps(times: pl.DataFrame, keys: list[str]) -> np.ndarray:
    """The times between the micro-batches in which rows of a key come, ms."""
    seen = times.select([*keys, "at"]).unique().sort([*keys, "at"])
    found = seen.with_columns((pl.col("at") - pl.col("at").shift(1)).over(keys).alias("gap"))["gap"]
    return found.drop_nulls().to_numpy()


def aggregate_ages(folder: Path) -> dict[str, np.ndarray]:
    """Of the deduplication: since the order came first; of the aggregate: since its product, or its customer, did."""
    orders = arrivals(folder, "orders")
    first = orders.group_by("order_id").agg(pl.col("at").min().alias("first"))
    again = orders.select("order_id", "at").unique().join(first, on="order_id").filter(pl.col("at") > pl.col("first"))
    once = orders.sort("at", maintain_order=True).unique("order_id", keep="first", maintain_order=True)
    values = np.concatenate([gaps(once, ["product_id"]), gaps(once, ["product_id", "user_id"])])
    return {"deduplicate": (again["at"] - again["first"]).to_numpy(), "group-aggregate": values}


def make_heavy(folder: Path, instants: int, rows: int, seed: int) -> None:
    """``asked.json`` and ``answered.json``: every question is answered once, after a time with a heavy tail, in steps
    of ten minutes."""
    rng = np.random.default_rng(seed)
    count = instants * rows
    asked = np.repeat(np.arange(instants), rows)
    answered = asked + np.floor(rng.pareto(1.1, count)).astype(np.int64)
    for name, at in (("asked", asked), ("answered", answered)):
        frame = pl.DataFrame({"id": np.arange(count), "@at": at * _STEP}).filter(pl.col("@at") < instants * _STEP)
        frame.sort("@at", maintain_order=True).write_ndjson(folder / f"{name}.json")


HEAVY = Query(
    "heavy",
    "questions and answers",
    {"asked": "id BIGINT", "answered": "id BIGINT"},
    ("id BIGINT", "json"),
    "SELECT q.id FROM asked AS q JOIN answered AS a ON q.id = a.id",
    (),
)
_BY_NAME = {query.name: query for query in QUERIES}


def _join_case(query: Query, left: str, right: str, key: str) -> Case:
    on = (key, key)
    return Case(
        query,
        lambda folder: waits(folder, left, right, on),
        lambda folder, ttls: lost_in_join(folder, left, right, on, ttls),
    )


CASES = (
    Case(_BY_NAME["aggregate"], aggregate_ages, lost_in_aggregate, "group-aggregate", exact=False),
    _join_case(_BY_NAME["join"], "placed", "logistics", "order_id"),
    _join_case(HEAVY, "asked", "answered", "id"),
)


class Job:
    """A query on a checkpoint of its own, in processes that may be killed."""

    def __init__(self, case: Case, data: Path, folder: Path, audit: str = "OFF") -> None:
        folder.mkdir()
        self.audit = audit
        self.case, self.folder, self.plan, self.checkpoint = case, folder, folder / "plan.json", folder / "checkpoint"
        self.data = data
        plan = self.session(2).compile_plan_sql(f"INSERT INTO snk {case.query.body}").as_json_string()
        whole = json.loads(plan)
        for node in whole["nodes"]:
            for state in node.get("state") or ():
                if case.refreshed and case.refreshed in node["type"]:
                    state |= {"updateType": "OnReadAndWrite", "ttl": _LONG}
        self.plan.write_text(json.dumps(whole), encoding="utf-8")

    def session(self, parallelism: int) -> TableEnvironment:
        """A session with the tables."""
        env = TableEnvironment.create(
            {
                "execution.checkpointing.dir": str(self.checkpoint),
                "parallelism.default": str(parallelism),
                "table.exec.state.audit": self.audit,
                "table.exec.state.audit.retention": "0",
            }
        )
        for name, columns in self.case.query.tables.items():
            env.execute_sql(
                f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'replay', 'format' = 'json', "
                f"'path' = '{self.data / name}.json')"
            )
        env.execute_sql(f"CREATE TABLE snk ({self.case.query.sink[0]}) WITH ('connector' = 'blackhole')")
        return env

    def set(self, ttls: Mapping[str, str]) -> None:
        """Sets TTLs in the plan."""
        document = PlanDocument.load(str(self.plan))
        set_ttls(document, ttls)
        document.write(str(self.plan), overwrite=True)

    def run(self, kills: int = 0, keeps_ttls: bool = False) -> None:
        """Runs to the end; ``kills`` processes on the way do not, and each has other TTLs unless ``keeps_ttls``."""
        states = list(self.case.ages(self.data))
        for kill in range(kills):
            if not keeps_ttls:
                self.set(dict.fromkeys(states, random.choice(["200 d", "250 d", _LONG])))
            with self._process(1 + kill % 3) as process:
                before = self._batch()
                while process.poll() is None and self._batch() < before + 2:
                    time.sleep(0.05)
                time.sleep(random.random())
                os.killpg(process.pid, signal.SIGKILL)
        with self._process(2) as process:
            if process.wait():
                raise SystemExit(f"{self.case.query.name} failed")

    def _process(self, parallelism: int) -> subprocess.Popen[bytes]:
        code = (
            f"from benchmarks.advise import *; Job.__init__ = lambda self: None; job = Job(); "
            f"job.case = CASES[{CASES.index(self.case)}]; job.checkpoint = Path({str(self.checkpoint)!r}); "
            f"job.data = Path({str(self.data)!r}); job.audit = {self.audit!r}; "
            f"job.session({parallelism}).execute_sql(\"EXECUTE PLAN '{self.plan}'\").wait()"
        )
        log = (self.folder / "log.txt").open("ab")
        return subprocess.Popen([sys.executable, "-c", code], stdout=log, stderr=log, start_new_session=True)

    def _batch(self) -> int:
        try:
            return max((r.batch for r in read_metrics(self.checkpoint)), default=-1)
        except StateplanError:
            return -1  # there is no checkpoint yet

    @property
    def rows(self) -> int:
        """Rows that the sink has got."""
        sinks = (f for r in read_metrics(self.checkpoint) for f in r.operators.values() if "sink_ms" in f)
        return sum(int(figures["rows_in"]) for figures in sinks)


def agrees_with_audit(job: Job, ttls: Mapping[str, int]) -> bool:
    """Prints whether the audit of a job has recorded the expired rows that were needed, and no others.

    Args:
        ttls: of its states, ms.
    """
    needed_rows, records = job.case.lost(job.data, ttls), recorded(job.checkpoint)
    wrong, unseen = (records - needed_rows).total(), (needed_rows - records).total()
    print(f"  expired rows that were needed: {needed_rows.total():,}; the audit: {wrong:,} wrong, {unseen:,} not seen")
    return needed_rows == records


def measure(case: Case, data: Path, folder: Path, kills: int) -> bool:
    """Prints the tables of one case; whether the advice is within five percent and misses no more than it says."""
    truth = case.ages(data)
    job = Job(case, data, folder / "never")
    job.run(kills)
    reader = CheckpointReader.read(job.checkpoint)
    print(f"\n{case.query.name}: {kills} kills, {len(read_metrics(job.checkpoint))} micro-batches")
    good = True
    lines = [("share", "state", "uses", "needed", "advised", "ratio", "may miss", "told", "would miss")]
    for share in SHARES:
        advised = reader.advise(miss=share)
        for state in advised.states:
            if not len(truth[state.selector]):
                good &= state.own is None
                continue
            ages, ttl = np.sort(truth[state.selector])[::-1], state.own or 1
            may = int(len(ages) * share / 100)
            needed = int(ages[may]) + 1
            lost = int((ages >= ttl).sum())
            good &= state.all.total == len(ages) and needed <= ttl <= 1.05 * needed and lost <= state.at(ttl).missed
            lines.append(
                (
                    f"{share:g}%", state.selector, f"{len(ages):,}", ago(needed, 0), ago(ttl, 0), f"{ttl / needed:.4f}",
                    f"{may:,}", f"{state.at(ttl).missed:,}", f"{lost:,}",
                )
            )  # fmt: skip
    print(in_columns(lines, indent="  ", left=2))
    short = Job(case, data, folder / "short", "ALL")
    ttls = {s.selector: s.ttl for s in advised.states if s.ttl}
    short.set({selector: format_ttl(ttl) for selector, ttl in ttls.items()})
    short.run(kills, keeps_ttls=True)
    told = sum(s.at(s.ttl).missed for s in advised.states if s.ttl)
    found = StateUses.of(read_metrics(short.checkpoint))
    uses = sum(h.total for of in found.ages.values() for h in of.values())
    whole = sum(s.all.total for s in advised.states)
    print(f"  with the advice for 1%: {told:,} of {whole:,} uses told to be missed, {whole - uses:,} missed")
    good &= agrees_with_audit(short, ttls)
    scarce = Job(case, data, folder / "scarce", "ALL")
    halves = {selector: ttl // 2 for selector, ttl in ttls.items()}
    scarce.set({selector: format_ttl(ttl) for selector, ttl in halves.items()})
    scarce.run(kills, keeps_ttls=True)
    print("  with half of these TTLs:")
    good &= agrees_with_audit(scarce, halves)
    if case.exact:
        print(f"  rows of the result: {job.rows:,} before, {job.rows - short.rows:,} missing")
        good &= job.rows - short.rows <= told
    return good and whole - uses <= told


def main(instants: int = 60, rows: int = 2000, seed: int = 1, kills: int = 0) -> int:
    """Measures all cases; 1 when one of them falls short."""
    random.seed(seed)
    with work_folder("advise") as work:
        data = Path(work) / "data"
        make_input(data, instants, rows, seed)
        make_heavy(data, 2 * instants, rows // 4, seed)
        results = []
        for case in CASES:
            folder = Path(work) / case.query.name
            folder.mkdir()
            results.append(measure(case, data, folder, kills))
    print("\nall within five percent, and nothing more missed than told" if all(results) else "\nFELL SHORT")
    return 0 if all(results) else 1


if __name__ == "__main__":
    run(main, __doc__)
