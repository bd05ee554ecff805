"""State that a changed plan uses is what it would have written itself.

For each pair of queries whose verdict keeps all state, the old plan takes in some files and the new one goes on with
its state: it must emit what it emits after having taken in those files itself.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from stateplan.connectors.print import format_rows
from stateplan.connectors.protocol import FileSource
from stateplan.connectors.splits import FileSplit
from stateplan.plans.diff import compare
from stateplan.plans.diff_report import to_text
from stateplan.plans.document import PlanDocument
from stateplan.runtime.checkpoint.slots import Layout, laid_out
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.restart import ACCEPT, continue_from
from tests.support.changes import ROWS, TABLES, document_in
from tests.support.local import LocalRun
from tests.support.long_runs import share

GROUPS = 3
NOW = 1_700_000_000_000

A = "SELECT product AS p, COUNT(*) AS n, SUM(id) AS q FROM orders GROUP BY product"
B = "SELECT product AS p, SUM(amount) AS m, MAX(price) AS x FROM orders GROUP BY product"
C = "SELECT id, amount, COUNT(*) AS n, SUM(price) AS m FROM orders GROUP BY id, amount"
FIRST = "SELECT *, ROW_NUMBER() OVER (PARTITION BY product ORDER BY amount) AS r FROM orders"
LAST = "SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY arrived DESC) AS r FROM orders"
MOST = f"SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC) AS r FROM ({A})"
LAST_ROWS = "WINDOW w AS (PARTITION BY product ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"
ALL_ROWS = "WINDOW w AS (PARTITION BY product ORDER BY ts)"
SESSIONS = (
    "FROM TABLE(SESSION(TABLE orders PARTITION BY product, DESCRIPTOR(ts), INTERVAL '1' SECOND)) "
    "GROUP BY product, window_start, window_end"
)
NEAR = "o.id = p.id AND o.ts BETWEEN p.ts - INTERVAL '2' SECOND AND p.ts"
REWRITTEN = {
    "left join by unique keys": (
        f"SELECT a.p, a.n, b.m, b.x FROM ({A}) AS a LEFT JOIN ({B}) AS b ON a.p = b.p",
        f"SELECT a.p, b.m FROM ({A}) AS a LEFT JOIN ({B}) AS b ON a.p = b.p",
    ),
    "full join by unique keys": (
        f"SELECT a.p, a.n, b.m, b.x FROM ({A}) AS a FULL JOIN ({B}) AS b ON a.p = b.p",
        f"SELECT b.x, a.p FROM ({A}) AS a FULL JOIN ({B}) AS b ON a.p = b.p",
    ),
    "join of updates by a longer key": (
        f"SELECT s.id, o.n, o.m, o.amount FROM shipped AS s JOIN ({C}) AS o ON s.id = o.id",
        f"SELECT o.amount, s.id, o.m FROM shipped AS s JOIN ({C}) AS o ON s.id = o.id",
    ),
    "top-N": (
        f"SELECT product, id, amount, price FROM ({FIRST}) WHERE r <= 2",
        f"SELECT product, amount, id FROM ({FIRST}) WHERE r <= 2",
    ),
    "top-N over updates": (
        f"SELECT p, n, q FROM ({MOST}) WHERE r <= 2",
        f"SELECT n, p FROM ({MOST}) WHERE r <= 2",
    ),
    "last row": (
        f"SELECT id, product, amount FROM ({LAST}) WHERE r = 1",
        f"SELECT amount, id FROM ({LAST}) WHERE r = 1",
    ),
    "aggregates with filters": (
        "SELECT product, AVG(amount), MIN(price), COUNT(amount) FILTER (WHERE id > 1), MAX(id) FROM orders "
        "GROUP BY product",
        "SELECT MAX(id), COUNT(amount) FILTER (WHERE id > 1), product, AVG(amount) FROM orders GROUP BY product",
    ),
    "aggregates in order": (
        "SELECT id, LISTAGG(product), COUNT(*), LAST_VALUE(amount), STDDEV_POP(price) FROM orders GROUP BY id",
        "SELECT id, STDDEV_POP(price), LAST_VALUE(amount), LISTAGG(product) FROM orders GROUP BY id",
    ),
    "rows and calls of frames": (
        f"SELECT id, amount, price, SUM(amount) OVER w, MAX(price) OVER w, COUNT(id) OVER w FROM orders {LAST_ROWS}",
        f"SELECT id, price, MAX(price) OVER w, SUM(amount) OVER w FROM orders {LAST_ROWS}",
    ),
    "calls of all rows so far": (
        f"SELECT id, price, SUM(amount) OVER w, MAX(price) OVER w, COUNT(id) OVER w FROM orders {ALL_ROWS}",
        f"SELECT id, price, MAX(price) OVER w, SUM(amount) OVER w FROM orders {ALL_ROWS}",
    ),
    "session windows": (
        f"SELECT product, COUNT(*), SUM(amount), MAX(price) {SESSIONS}",
        f"SELECT product, MAX(price), SUM(amount) {SESSIONS}",
    ),
    "outer interval join": (
        f"SELECT o.id, o.amount, p.price, p.product FROM orders AS o FULL JOIN purchases AS p ON {NEAR}",
        f"SELECT p.price, o.id FROM orders AS o FULL JOIN purchases AS p ON {NEAR}",
    ),
    "aggregates of updates": (
        f"SELECT n, COUNT(*), SUM(q), AVG(q) FROM ({A}) GROUP BY n",
        f"SELECT n, COUNT(*) FROM ({A}) GROUP BY n",
    ),
}
KEPT = {
    change: (before, after)
    for change, (before, after, verdict, _) in ROWS.items()
    if verdict in ("identical", "ttl-only", "stateless", "rewrite")
} | REWRITTEN


def write_files(folder: Path, seed: int) -> None:
    """Four files of each table, with few keys, NULLs, and equal rows."""
    dice = random.Random(seed)
    for table in ("orders", "shipped"):
        (folder / table).mkdir()
        for number in range(4):
            lines = []
            for _ in range(dice.randint(1, 12)):
                some = {
                    "id": dice.randint(1, 4),
                    "product": dice.choice(["pen", "ink", None]),
                    "target": dice.choice("xy"),
                }
                some |= {
                    "amount": dice.choice([1, 2, 5, None]),
                    "price": dice.choice([1.5, 2.5]),
                    "days": dice.randint(1, 3),
                }
                lines.append(json.dumps({**some, "ts": f"2024-01-01 00:00:{number:02d}"}))
            (folder / table / f"{number}.json").write_text("\n".join(lines) + "\n")


class Plan:
    """A plan that takes in files without Spark."""

    def __init__(self, queries: str, folder: Path) -> None:
        environment = TableEnvironment.create()
        tables = TABLES.replace("'/orders'", f"'{folder}/orders'").replace("'/shipped'", f"'{folder}/shipped'")
        self.document: PlanDocument = document_in(environment, tables, queries)
        self.folder = folder
        options = {"table.local-time-zone": "UTC"}
        self.job: JobGraph = translate(self.document.graph, options, GROUPS)
        self.layout: Layout | None = None

    def start(self) -> LocalRun:
        self.job, self.layout = laid_out(self.job, None, None, 0, "here")
        return LocalRun(self.job)

    def go_on(self, run: LocalRun, old: Plan) -> LocalRun:
        found = continue_from(old.document.text, self.document, {ACCEPT: "rewrite"}, [])
        self.job, self.layout = laid_out(self.job, old.layout, found, 1, "here")
        return run.continue_with(self.job)

    def take(self, run: LocalRun, number: int) -> list[list[str]]:
        """What the sinks get of file ``number``: sorted lines for each."""
        rows = {
            i: list(source.reader.read(FileSplit(f"{source.reader.path}/{number}.json")))
            for i, source in enumerate(self.job.sources)
            if isinstance(source.reader, FileSource)
        }
        out = run.batch(rows, NOW + number)
        return [
            sorted(line for frame in frames for line in format_rows(frame, [kind for _, kind in sink.columns]))
            for sink, frames in zip(self.job.sinks, out, strict=True)
        ]


def continued(change: str, folder: Path, seeds: Sequence[int]) -> None:
    before, after = KEPT[change]
    for seed in seeds:
        here = folder / str(seed)
        here.mkdir()
        write_files(here, seed)
        old, new, alone = Plan(before, here), Plan(after, here), Plan(after, here)
        verdict = compare(old.document, new.document)
        assert verdict.verdict == ("rewrite" if change in REWRITTEN else ROWS[change][2]), to_text(verdict)
        run, own = old.start(), alone.start()
        for number in (0, 1):
            old.take(run, number)
            alone.take(own, number)
        run = new.go_on(run, old)
        for number in (2, 3):
            assert new.take(run, number) == alone.take(own, number), (change, seed, number)


@pytest.mark.parametrize("change", share(KEPT, 2))
def test_it_emits_what_it_would_have_emitted_anyway(change: str, tmp_path: Path) -> None:
    continued(change, tmp_path, range(2))
