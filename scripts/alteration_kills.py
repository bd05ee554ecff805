"""Kills a gateway at random instants of ALTER JOB: no row is lost or doubled, and a job always continues.

    python -m scripts.alteration_kills [--kills 10] [--seed 1]

A job counts rows that arrive in files. Again and again it gets another plan: one with a second aggregate, whose state
is made from history, and then the one without it. The new plan takes the place of the old one at once, or runs as its
shadow until COMMIT or ROLLBACK. The gateway is killed at an instant of one of these statements, and another one starts
on its folder. Then more rows arrive. Exactly one job has to run, and its counts have to be those of all rows. So have
those of the second aggregate, for the values that have just arrived. Both plans count the same, so a shadow has to
agree.

Exit code 1 when rows differ.
"""

from __future__ import annotations

import contextlib
import json
import random
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import httpx
import typer

from benchmarks.harness import run
from stateplan.session.environment import TableEnvironment
from tests.gateway.gateway_server import FailedError, GatewayClient, GatewayServer

FILES = "WITH ('connector' = 'filesystem', 'path' = '{0}/"
TABLES = (
    f"CREATE TABLE arriving (k INT, v BIGINT) {FILES}in', 'format' = 'json', 'source.monitor-interval' = '200 ms')",
    f"CREATE TABLE counts (k INT, n BIGINT) {FILES}counts', 'format' = 'debezium-json')",
    f"CREATE TABLE seen (v BIGINT, n BIGINT) {FILES}seen', 'format' = 'debezium-json')",
)
COUNTS = "INSERT INTO counts SELECT k, COUNT(*) FROM arriving GROUP BY k"
SEEN = "INSERT INTO seen SELECT v, COUNT(*) FROM arriving GROUP BY v"
PLANS = {"one": (COUNTS,), "two": (COUNTS, SEEN)}
KINDS = ("alter", "shadow", "COMMIT", "ROLLBACK")
SECONDS = 600


class World:
    """A gateway with a job over files that arrive.

    Args:
        folder: for all of them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[tuple[int, int]] = []
        (folder / "in").mkdir()
        for name, inserts in PLANS.items():
            env = TableEnvironment.create({"parallelism.default": "2"})
            for statement in TABLES:
                env.execute_sql(statement.format(folder))
            plan = env.compile_plan_sql(f"EXECUTE STATEMENT SET BEGIN {'; '.join(inserts)}; END")
            plan.write_to_file(folder / f"{name}.json")
        self.start()

    def start(self) -> None:
        """Starts a gateway on the folder."""
        self.gateway = GatewayServer(self.folder / "gateway", "-D", "parallelism.default=2")
        self.session: GatewayClient = self.gateway.session()

    def arrive(self, dice: random.Random) -> set[int]:
        """Ten rows arrive. Returns their values."""
        rows = [(dice.randrange(5), dice.randrange(100)) for _ in range(10)]
        name = f"{len(self.rows):06d}.json"
        text = "".join(json.dumps({"k": k, "v": v}) + "\n" for k, v in rows)
        (self.folder / f".{name}").write_text(text)
        (self.folder / f".{name}").rename(self.folder / "in" / name)
        self.rows += rows
        return {v for _, v in rows}

    def running(self) -> list[str]:
        """The ids of the jobs that have not ended."""
        return [job for job, status in self.session.jobs().items() if status in ("RUNNING", "RESTARTING", "CREATED")]

    def counted(self) -> Counter[int]:
        """What the sink of counts holds; a row that is there twice counts as wrong."""
        rows: Counter[tuple[int, int]] = Counter()
        for change in self._changes("counts"):
            for side, sign in (("before", -1), ("after", 1)):
                if change[side] is not None:
                    rows[change[side]["k"], change[side]["n"]] += sign
        left = {row: n for row, n in rows.items() if n}
        return Counter({k: n if times == 1 else -1 for (k, n), times in left.items()})

    def is_right(self) -> bool:
        """Whether one job runs, and has counted all rows once."""
        return self.counted() == Counter(k for k, _ in self.rows) and len(self.running()) == 1

    def has_seen(self, values: Iterable[int]) -> bool:
        """Whether the second sink has the right count of values."""
        totals = Counter(v for _, v in self.rows)
        last = {c["after"]["v"]: c["after"]["n"] for c in self._changes("seen") if c["after"] is not None}
        return all(last.get(v) == totals[v] for v in values)

    def shadow_agrees(self) -> bool:
        """Whether the plans of the job count the same."""
        (job,) = self.running()
        operation = self.session.submit(f"DESCRIBE JOB '{job}'")
        self.session.first(operation)
        page = self.session.fetch(operation, 1)
        return any("counts: 0 rows differ" in note for note in page.get("notes", ()))

    def _changes(self, sink: str) -> list[dict[str, dict[str, int] | None]]:
        files = sorted((self.folder / sink).glob("part-*"), key=lambda path: path.stat().st_mtime_ns)
        return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def main(
    kills: Annotated[int, typer.Option(help="number of kills")] = 10,
    seed: Annotated[int, typer.Option(help="of rows and instants")] = 1,
) -> int:
    dice = random.Random(seed)
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        world = World(Path(name))
        world.arrive(dice)
        world.session.start(f"EXECUTE PLAN '{world.folder / 'one.json'}'")
        _wait(world.is_right)
        current, seconds = Current("one"), {"alter": 80.0, "shadow": 80.0, "COMMIT": 1.0, "ROLLBACK": 1.0}
        kinds: Counter[str] = Counter()
        try:
            for number in range(1, kills + 1):
                (job,) = world.running()
                kind = dice.choice(KINDS[2:] if current.shadow is not None else KINDS[:2])
                goes_through = kind == "shadow" and dice.random() < 0.5  # else there is nothing to end
                after = SECONDS if goes_through else dice.uniform(0, 1.5 * seconds[kind])
                began = time.monotonic()
                ended = _alter(world, current.statement(kind, job, world.folder), after)
                if ended:
                    seconds[kind] = min(seconds[kind], time.monotonic() - began)
                world.gateway.kill()
                world.start()
                values = world.arrive(dice)
                right = _wait(world.is_right)
                current = Current.of(world) if right else current
                if right and current.plan == "two":
                    right = _wait(partial(world.has_seen, values))
                if right and current.shadow is not None:
                    right = _wait(world.shadow_agrees)
                wrong += not right
                kinds[kind] += 1
                when = "at its end" if ended else f"after {after:.1f} s"
                verdict = "right" if right else "WRONG"
                print(f"{number}: {kind} killed {when}, {current} continues: {verdict}", flush=True)
                if not right:
                    break
        finally:
            world.gateway.kill()
    print(f"{number} kills ({', '.join(f'{n} of {kind}' for kind, n in kinds.items())}), {wrong} wrong")
    return int(bool(wrong))


@dataclass(frozen=True)
class Current:
    """What a job runs.

    Attributes:
        plan: that writes the tables.
        shadow: that runs beside it.
    """

    plan: str
    shadow: str | None = None

    def __str__(self) -> str:
        return f"plan {self.plan}" + ("" if self.shadow is None else f" with a shadow of {self.shadow}")

    def statement(self, kind: str, job: str, folder: Path) -> str:
        """The statement that changes it."""
        if kind in ("COMMIT", "ROLLBACK"):
            return f"ALTER JOB '{job}' {kind}"
        other = "two" if self.plan == "one" else "one"
        shadow = " WITH ('shadow' = 'true')" if kind == "shadow" else ""
        return f"ALTER JOB '{job}' USING PLAN '{folder / other}.json'{shadow}"

    @staticmethod
    def of(world: World) -> Current:
        """What the job runs that has not ended."""
        (job,) = world.running()
        plan = world.folder / "gateway" / "state" / "jobs" / job / "checkpoint" / "plan.json"
        tables: dict[str | None, set[str]] = defaultdict(set)
        for node in json.loads(plan.read_text())["nodes"]:
            if "dynamicTableSink" in node:
                table = node["dynamicTableSink"]["table"]["identifier"]
                tables[node["stateplan"].get("shadow")].add(table)
        names = {side: "two" if any("`seen`" in name for name in some) else "one" for side, some in tables.items()}
        return Current(names[None]) if None in names else Current(names["old"], names["new"])


def _alter(world: World, statement: str, seconds: float) -> bool:
    """Runs a statement, and waits at most so long. Returns whether that was enough."""

    def alter() -> None:
        with contextlib.suppress(FailedError, httpx.HTTPError, AssertionError):  # the gateway was killed meanwhile
            world.session.run(statement)

    thread = threading.Thread(target=alter, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def _wait(is_true: Callable[[], bool]) -> bool:
    """Whether something becomes true in time."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(httpx.HTTPError, FailedError, ValueError):  # the gateway is starting
            if is_true():
                return True
        time.sleep(0.3)
    return False


if __name__ == "__main__":
    run(main, __doc__)
