"""Changed queries on Spark: many old plans in one job, and the new ones that take over from its checkpoint."""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stateplan.session.compiled_plan import CompiledPlan
from stateplan.session.environment import TableEnvironment
from tests.support.changes import MORE_TABLES, TABLES, fields_of
from tests.support.kafka import Kafka

Rows = Counter[tuple[Any, ...]]

SOURCES = ("orders", "shipped", "payments", "stock")
_SEEN = " UNION ALL ".join(f"SELECT '{table}' AS t, COUNT(*) AS n FROM {table}" for table in SOURCES)


@dataclass(frozen=True)
class Side:
    """The queries of a plan, by the name of their change, and the options that they set."""

    queries: Mapping[str, Sequence[str]]
    options: Mapping[str, str]


def side_of(cells: Mapping[str, str]) -> Side:
    """The queries in cells of a table: settings come first, and all cells have the same."""
    queries: dict[str, list[str]] = {}
    options: dict[str, str] = {}
    for change, cell in cells.items():
        for text in map(str.strip, cell.split(";")):
            setting = re.fullmatch(r"SET '(.+)' = '(.+)'", text)
            if setting is None:
                queries.setdefault(change, []).append(text)
            else:
                options[setting[1]] = setting[2]
    return Side(queries, options)


def settings_of(cell: str) -> str:
    """The settings of a cell, as one text."""
    return ";".join(text.strip() for text in cell.split(";") if text.strip().startswith("SET "))


def _rows(dice: random.Random) -> dict[str, list[list[dict[str, Any]]]]:
    """By table, the rows of each half. Amounts are unique, and times rise, so that no result is left to chance."""
    amounts = dice.sample(range(1, 200), 80)
    orders: list[dict[str, Any]] = [
        {
            "id": dice.choice([*range(1, 25), None]),
            "product": dice.choice(["a", "b", "c", None]),
            "amount": amounts[n],
            "price": dice.choice([1.5, 2.5, 4.0]),
            "ts": f"2026-01-01 00:{n // 60:02d}:{n % 60:02d}",
        }
        for n in range(80)
    ]
    shipped = [{"id": n, "target": dice.choice("xyz"), "days": dice.choice(amounts)} for n in range(1, 31)]
    payments: list[dict[str, Any]] = [
        {"id": dice.choice(range(1, 30)), "paid": n, "ts": f"2026-01-01 00:{n // 30:02d}:{n * 2 % 60:02d}"}
        for n in range(40)
    ]
    stock: list[dict[str, Any]] = []
    held: dict[str, dict[str, Any]] = {}
    for _ in range(40):
        product = dice.choice("abcdef")
        before = held.pop(product, None)
        after = None
        if before is None or dice.random() < 0.7:
            after = held[product] = {"product": product, "place": dice.choice("xy"), "amount": amounts[len(stock)]}
        op = "d" if after is None else "c" if before is None else "u"
        stock.append({"before": before, "after": after, "op": op})
    tables = {"orders": orders, "shipped": shipped, "payments": payments, "stock": stock}
    return {name: [rows[: len(rows) // 2], rows[len(rows) // 2 :]] for name, rows in tables.items()}


def _instant(half: int, number: int, count: int) -> int:
    """When a row arrives, ms: two seconds lie between two of the five instants of a half."""
    return 1_000_000 + 2_000 * (5 * half + 5 * number // count)


def _count(rows: Sequence[Mapping[str, Any]]) -> int:
    """How many rows a table has after these changes."""
    return sum((row["op"] == "c") - (row["op"] == "d") if "op" in row else 1 for row in rows)


class Change:
    """Old plans that have taken in a half of their input, and new ones that continue.

    Args:
        folder: for the files of tables, and checkpoints.
        seed: of the rows.
        kafka: the broker whose topics are the tables; None for files.
        ends: whether files are all input, and event time ends with each half.
        replays: whether they are played back, ten instants in all. Then input ends, too.
        options: of all sessions.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        kafka: Kafka | None = None,
        ends: bool = False,
        replays: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self.kafka, self.ends, self.replays = folder, kafka, ends or replays, replays
        self.options = options or {}
        self._rows = _rows(random.Random(seed))
        self._topics = {} if kafka is None else {name: kafka.topic() for name in SOURCES}
        for name in (*SOURCES, "other"):
            (folder / name).mkdir()
        self._halves = 0

    def arrive(self) -> None:
        """The next half of the input arrives."""
        for name in SOURCES:
            rows = self._rows[name][self._halves]
            if self.replays:
                rows = [{**row, "@at": _instant(self._halves, n, len(rows))} for n, row in enumerate(rows)]
            lines = [json.dumps(row) for row in rows]
            if self.kafka is not None:
                self.kafka.produce(self._topics[name], lines)
                continue
            for part in range(2):
                file = self.folder / name / f".{self._halves}-{part}.json"
                size = len(lines) // 2
                file.write_text("\n".join(lines[part * size :] if part else lines[:size]) + "\n")
                file.rename(file.with_name(file.name[1:]))
        self._halves += 1

    def plan(self, side: Side, suffix: str, parallelism: int) -> CompiledPlan:
        """The plan of the queries, whose sinks and checkpoint are named by the suffix."""
        env = TableEnvironment.create(
            {
                "parallelism.default": str(parallelism),
                "pipeline.max-parallelism": "12",
                "table.local-time-zone": "UTC",
                **self.options,
                "execution.checkpointing.dir": str(self.folder / f"checkpoint_{suffix}"),
                **side.options,
            }
        )
        for statement in re.split(r";\n", (TABLES + MORE_TABLES).strip().removesuffix(";")):
            env.execute_sql(self._here(statement))
        inserts = []
        queries = {f"{n}_{m}": q for n, some in enumerate(side.queries.values()) for m, q in enumerate(some)}
        for name, query in {"seen": _SEEN, **queries}.items():
            sink = f"sink_{name}_{suffix}"
            query = query.replace("'/other'", f"'{self.folder / 'other'}'")
            env.execute_sql(
                f"CREATE TABLE {sink} ({fields_of(env, query)}) WITH ('connector' = 'filesystem', "
                f"'path' = '{self.folder / sink}', 'format' = 'debezium-json')"
            )
            inserts.append(f"INSERT INTO {sink} {query}")
        return env.compile_plan_sql(f"EXECUTE STATEMENT SET BEGIN {'; '.join(inserts)}; END")

    def _here(self, statement: str) -> str:
        table = re.search(r"'path' = '/(\w+)'", statement)
        assert table is not None
        if self.kafka is None:
            here = f"'path' = '{self.folder / table[1]}'"
            if self.replays:
                return statement.replace(f"'filesystem', {table[0]}", f"'replay', {here}")
            if not self.ends:
                here += ", 'source.monitor-interval' = '300 ms'"
            return statement.replace(table[0], here)
        topic = f"'topic' = '{self._topics[table[1]]}', 'properties.bootstrap.servers' = '{self.kafka.servers}'"
        start = "'scan.startup.mode' = 'earliest-offset'"
        if "debezium" not in statement:
            statement = statement.replace(", PRIMARY KEY (id) NOT ENFORCED", "")
        return statement.replace(f"'filesystem', {table[0]}", f"'kafka', {topic}, {start}")

    def run(self, plan: CompiledPlan, suffix: str, before: Mapping[str, Rows] | None = None) -> None:
        """Runs a plan until it has seen all that has arrived. ``before`` is what its sinks held before."""
        wanted = Counter(
            {(name, sum(_count(half) for half in self._rows[name][: self._halves])): 1 for name in SOURCES}
        )
        job = plan.execute().job
        assert job is not None
        if not self.ends:
            deadline = time.monotonic() + 900
            while job.is_active and _sum(self.holds("seen", suffix), (before or {}).get("seen")) != wanted:
                assert time.monotonic() < deadline, "rows are missing"
                time.sleep(0.3)
            if job.is_active:
                job.finish()
        job.wait()

    def holds(self, sink: str, suffix: str) -> Rows:
        """The rows of a sink, with all changes applied; a negative number of those of others that it has deleted."""
        rows: Rows = Counter()
        for path in (self.folder / f"sink_{sink}_{suffix}").glob("part-*"):
            for line in path.read_text().splitlines():
                change = json.loads(line)
                for side, sign in (("before", -1), ("after", 1)):
                    if change[side] is not None:
                        rows[tuple(change[side].values())] += sign
        return _sum(rows)


def _sum(rows: Rows, more: Rows | None = None) -> Rows:
    total = Counter(rows)
    for row, n in (more or {}).items():
        total[row] += n
    return Counter({row: n for row, n in total.items() if n})


def differences(change: Change, before: Side, after: Side, parallelism: tuple[int, int]) -> dict[str, str]:
    """What is wrong after changes of queries, by change: what the new plans write after they have taken over is not
    what they would have written had they always run.

    Args:
        change: the tables.
        before, after: the queries.
        parallelism: of the old job and of the new one.
    """
    old, new = parallelism
    own = change.plan(after, "own", new)
    change.arrive()
    change.run(change.plan(before, "old", old), "old")
    change.run(own, "own")
    sinks = {f"{n}_{m}": name for n, (name, some) in enumerate(after.queries.items()) for m in range(len(some))}
    half = {sink: change.holds(sink, "own") for sink in ("seen", *sinks)}
    change.arrive()
    change.run(own, "own")
    plan = change.plan(after, "new", new)
    plan.evolve(change.folder / "checkpoint_old")
    change.run(plan, "new", half)
    wrong: dict[str, str] = {}
    for sink, name in sinks.items():
        here, wanted = _sum(half[sink], change.holds(sink, "new")), change.holds(sink, "own")
        if here != wanted:
            wrong[name] = f"more: {here - wanted}, fewer: {wanted - here}"
    return wrong
