"""Plans whose states age in a given way, played without Spark, and a story that every kind of operator can tell.

The story, on the clock by which the state ages (the other one stands still): at 0 s a row is written to the state, at
6 s it is read (if the operator has rows that read and do not write), at 12 s it is asked for, and at 13 s again. The
TTL is 10 s.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from stateplan.connectors.print import format_rows
from stateplan.plans.document import PlanDocument
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import Inserts, read_script
from tests.support.local import LocalRun, rows_at

START = datetime(2024, 1, 1, tzinfo=UTC)
TABLES = """
CREATE TABLE a (k INT, d INT, v INT, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts)
  WITH ('connector'='replay', 'path'='{folder}/a.json', 'format'='json');
CREATE TABLE b (k INT, w INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector'='replay', 'path'='{folder}/b.json', 'format'='json');
CREATE TABLE c (k INT, x INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector'='replay', 'path'='{folder}/c.json', 'format'='json');
CREATE TABLE vs (k INT, w INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector'='replay', 'path'='{folder}/vs.json', 'format'='json');
CREATE TABLE ups (k INT, v INT, ts TIMESTAMP(3), PRIMARY KEY (k) NOT ENFORCED, WATERMARK FOR ts AS ts)
  WITH ('connector'='replay', 'path'='{folder}/ups.json', 'format'='debezium-json');
"""
"""Columns of each table, with the times of rows behind them."""
COLUMNS = {"a": ("k", "d", "v"), "b": ("k", "w"), "c": ("k", "x"), "vs": ("k", "w"), "ups": ("k", "v")}

Rows = Sequence[tuple[Any, ...]]
"""A table, and a row of it."""


@dataclass(frozen=True)
class Kind:
    """A kind of operator, and the story's rows and lines for it.

    Attributes:
        query: an INSERT without its first two words, into ``snk`` with the columns ``sink``.
        node: the title of the operator; the last one of the plan is meant.
        slot: the state that ages.
        write, read, ask: rows of the story; ``read`` is empty where every row that reads also writes.
        found, lost: the lines of asking when the state is found, and when it is not: without the last bracket, and
            without times at their end.
        asking_writes: whether the row that asks writes the entry anew.
        again_lost: the lines of asking once more after the state was lost, or read for the last time.
        again_found: the same after it was found, where asking writes.
        options: session options for compiling.
        asks_again: whether the row that asks comes through to the operator a second time.
        event_time: whether its state can age by event time; PLAN190 refuses that where its input has no event times.
        marked: whether a row of another key advances the watermark. Otherwise a row that asks does, because it is
            processed before the watermark that it causes.
    """

    query: str
    sink: str
    node: str
    write: Rows
    read: Rows
    ask: Rows
    found: list[str]
    lost: list[str]
    asking_writes: bool = True
    slot: int = 0
    again_lost: list[str] = field(default_factory=list)
    again_found: list[str] = field(default_factory=list)
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    asks_again: bool = True
    event_time: bool = True
    marked: bool = True


TOP = "SELECT k, v, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS n FROM a) WHERE n {which}"
ROW = "k INT, v INT, ts TIMESTAMP(3)"
TWO = "k INT, v INT, w INT, t1 TIMESTAMP(3), t2 TIMESTAMP(3)"
"""The times stand in the output as columns that nobody uses are not read; lines are compared without them."""

KINDS = {
    "deduplicate first": Kind(
        TOP.format(order="pt", which="= 1"), ROW, "deduplicate",
        [("a", 1, 0, 5)], [("a", 1, 0, 6)], [("a", 1, 0, 7)], [], ["+I[1, 7"], asking_writes=False,
    ),
    "deduplicate last": Kind(
        TOP.format(order="pt DESC", which="= 1"), ROW, "deduplicate",
        [("a", 1, 0, 5)], [], [("a", 1, 0, 7)], ["-U[1, 5", "+U[1, 7"], ["+I[1, 7"],
        again_lost=["-U[1, 7", "+U[1, 7"], again_found=["-U[1, 7", "+U[1, 7"],
    ),
    "deduplicate by event time": Kind(
        TOP.format(order="ts DESC", which="= 1"), ROW, "deduplicate",
        [("a", 1, 0, 5)], [], [("a", 1, 0, 7)], ["-U[1, 5", "+U[1, 7"], ["+I[1, 7"],
        again_lost=["-U[1, 7", "+U[1, 7"], again_found=["-U[1, 7", "+U[1, 7"],
    ),
    "group-aggregate": Kind(
        "SELECT k, CAST(SUM(v) AS INT), MAX(ts) FROM a GROUP BY k", ROW, "group-aggregate",
        [("a", 1, 0, 5)], [], [("a", 1, 0, 7)], ["-U[1, 5", "+U[1, 12"], ["+I[1, 7"],
        again_lost=["-U[1, 7", "+U[1, 14"], again_found=["-U[1, 12", "+U[1, 19"],
    ),
    "global-group-aggregate": Kind(
        "SELECT k, CAST(SUM(v) AS INT), MAX(ts) FROM a GROUP BY k", ROW, "global-group-aggregate",
        [("a", 1, 0, 5)], [], [("a", 1, 0, 7)], ["-U[1, 5", "+U[1, 12"], ["+I[1, 7"],
        again_lost=["-U[1, 7", "+U[1, 14"], again_found=["-U[1, 12", "+U[1, 19"],
        options={
            "table.exec.mini-batch.enabled": "true",
            "table.exec.mini-batch.allow-latency": "1 s",
            "table.exec.mini-batch.size": "5",
            "table.optimizer.agg-phase-strategy": "TWO_PHASE",
        },
        event_time=False,
    ),
    "join": Kind(
        "SELECT a.k, v, w, a.ts, b.ts FROM a JOIN b ON a.k = b.k", TWO, "join",
        [("a", 1, 0, 5)], [("b", 1, 1)], [("b", 1, 2)], ["+I[1, 5, 2"], [], asking_writes=False,
    ),
    "right side of a join": Kind(
        "SELECT a.k, v, w, a.ts, b.ts FROM a JOIN b ON a.k = b.k", TWO, "join",
        [("b", 1, 1)], [("a", 1, 0, 5)], [("a", 1, 0, 6)], ["+I[1, 6, 1"], [], asking_writes=False, slot=1,
    ),
    "semi join": Kind(
        "SELECT k, v, ts FROM a WHERE k IN (SELECT k FROM b)", ROW, "join",
        [("b", 1, 1)], [("a", 1, 0, 5)], [("a", 1, 0, 6)], ["+I[1, 6"], [], asking_writes=False, slot=1,
        event_time=False,
    ),
    "outer join": Kind(
        "SELECT a.k, v, w, a.ts, b.ts FROM a LEFT JOIN b ON a.k = b.k", TWO, "join",
        [("b", 1, 1)], [("a", 1, 0, 5)], [("a", 1, 0, 6)], ["+I[1, 6, 1"], ["+I[1, 6, null"],
        asking_writes=False, slot=1, again_lost=["+I[1, 6, null"],
    ),
    "multi-join": Kind(
        "SELECT /*+ MULTI_JOIN(a, b, c) */ a.k, v, w, a.ts, c.ts FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k",
        TWO, "multi-join",
        [("a", 1, 0, 5), ("b", 1, 1)], [("c", 1, 8)], [("c", 1, 9)], ["+I[1, 5, 1"], [], asking_writes=False,
    ),
    "rank, first rows by a column": Kind(
        TOP.format(order="v DESC", which="<= 2"), ROW, "rank",
        [("a", 1, 0, 9), ("a", 1, 0, 8)], [("a", 1, 0, 3)], [("a", 1, 0, 4)], [], ["+I[1, 4"], asking_writes=False,
        again_lost=["+I[1, 4"],
    ),
    "rank, first row by a column": Kind(
        TOP.format(order="v DESC", which="= 1"), ROW, "rank",
        [("a", 1, 0, 9)], [("a", 1, 0, 3)], [("a", 1, 0, 4)], [], ["+I[1, 4"], asking_writes=False, again_lost=[],
    ),
    "limit": Kind(
        "SELECT k, v, ts FROM a LIMIT 1", ROW, "limit",
        [("a", 1, 0, 5)], [("a", 1, 0, 6)], [("a", 1, 0, 7)], [], ["+I[1, 7"], asking_writes=False, marked=False,
    ),
    "sort-limit": Kind(
        "SELECT k, v, ts FROM a ORDER BY v DESC LIMIT 1", ROW, "sort-limit",
        [("a", 1, 0, 9)], [("a", 1, 0, 3)], [("a", 1, 0, 4)], [], ["+I[1, 4"], asking_writes=False, marked=False,
    ),
    "rank over updates": Kind(
        "SELECT k, v, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS n FROM "
        "(SELECT k, d, MAX(v) AS v, MAX(ts) AS ts FROM a GROUP BY k, d)) WHERE n <= 1", ROW, "rank",
        [("a", 1, 0, 3)], [("a", 1, 1, 8)], [("a", 1, 2, 5)], [], ["-D[1, 8", "+I[1, 5"], asking_writes=False,
        asks_again=False, event_time=False,
    ),
    "changelog-normalize": Kind(
        "SELECT k, v, ts FROM ups", ROW, "changelog-normalize",
        [("ups", 1, 5)], [], [("ups", 1, 7)], ["-U[1, 5", "+U[1, 7"], ["+I[1, 7"],
        again_lost=["-U[1, 7", "+U[1, 7"], again_found=["-U[1, 7", "+U[1, 7"],
        options={"table.exec.source.cdc-events-duplicate": "true"},
    ),
    "sink": Kind(
        "SELECT k, v, ts FROM a", ROW + ", PRIMARY KEY (k) NOT ENFORCED", "sink",
        [("a", 1, 0, 5)], [], [("a", 1, 0, 7)], ["+U[1, 7"], ["+I[1, 7"],
        again_lost=["+U[1, 7"], again_found=["+U[1, 7"], options={"table.exec.sink.upsert-materialize": "FORCE"},
    ),
}  # fmt: skip


@lru_cache
def compiled(query: str, sink: str, options: tuple[tuple[str, str], ...], folder: str, delay: str = "") -> PlanDocument:
    """The plan of a query over :data:`TABLES` whose rows are in ``folder``; ``delay`` comes behind ``AS ts`` in their
    watermarks."""
    environment = TableEnvironment.create()
    for key, value in options:
        environment.get_config().set(key, value)
    *tables, insert = read_script(
        TABLES.format(folder=folder).replace("AS ts)", f"AS ts{delay})")
        + f"CREATE TABLE snk ({sink}) WITH ('connector'='print');"
        + f"INSERT INTO snk {query};"
    )
    for table in tables:
        environment.execute_statement(table)
    return environment.session.compiler.document(Inserts.of(insert.node, insert.source))


def aged(plan: PlanDocument, node: str, slot: int, ttl: str, *words: str) -> PlanDocument:
    """The plan with a lifetime for a state of its last operator of that title: update type, visibility and time
    characteristic in the plan's words."""
    data = json.loads(plan.text)
    found = [n for n in data["nodes"] if n["type"].split("_")[0] == f"stream-exec-{node}"][-1]
    entry = next(e for e in found["state"] if e["index"] == slot)
    entry["ttl"] = ttl
    entry |= dict(zip(("updateType", "visibility", "timeCharacteristic"), words, strict=False))
    return PlanDocument.parse(json.dumps(data))


class Play:
    """A plan that is played, one micro-batch after the other.

    Args:
        plan: over :data:`TABLES` in ``folder``.
        by_event: whether the time of a row is its event time; else it is when it arrives, and event time stands still.
    """

    def __init__(self, plan: PlanDocument, folder: Path, by_event: bool) -> None:
        self.folder, self.by_event = folder, by_event
        self.local = LocalRun(translate(plan.graph, {}, key_groups=1))
        self.number = 0

    def go_on(self, plan: PlanDocument) -> None:
        """Goes on with another plan over the same state."""
        self.local = self.local.continue_with(translate(plan.graph, {}, key_groups=1))

    def batch(self, second: float, rows: Rows) -> list[str]:
        """What the rows of one micro-batch print; they come at ``second``."""
        self.number += 1
        event = START + timedelta(seconds=second if self.by_event else 0)
        now = 1_000_000 + (self.number if self.by_event else int(second * 1000))
        at = event.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        given: dict[int, list[Any]] = {}
        for i, source in enumerate(self.local.graph.sources):
            reader: Any = source.reader
            name = Path(reader.path).stem
            lines = []
            for table, *values in rows:
                if table == name:
                    row = dict(zip(COLUMNS[name], values, strict=True)) | {"ts": at}
                    body = {"before": None, "after": row, "op": "c"} if name == "ups" else row
                    lines.append(json.dumps({**body, "@at": self.number}) + "\n")
            (self.folder / f"{name}.json").write_text("".join(lines))
            given[i] = rows_at(reader, self.number) if lines else []
        (frames,) = self.local.batch(given, now)
        (sink,) = self.local.graph.sinks
        return [line for frame in frames for line in format_rows(frame, [t for _, t in sink.columns], None)]

    def mark(self, second: float) -> None:
        """Has both clocks come to ``second``, by rows of a key that means nothing."""
        self.batch(second, [(name, 99, *[0] * (len(columns) - 1)) for name, columns in COLUMNS.items()])


def story(kind: Kind, play: Play) -> tuple[list[str], list[str]]:
    """The lines of asking at 12 s and at 13 s, up to their times."""
    play.batch(0, kind.write)
    if kind.read:
        play.batch(6, kind.read)
    if play.by_event and kind.marked:
        play.mark(12)
    elif play.by_event:
        play.batch(12, kind.ask)
    return _short(play.batch(12, kind.ask)), _short(play.batch(13, kind.ask))


def _short(lines: Sequence[str]) -> list[str]:
    return [line.split(", 2024")[0].removesuffix("]") for line in lines]
