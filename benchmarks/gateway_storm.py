"""Many sessions at a gateway at once, connections that break, and kill -9: how long do statements take, and is any job
lost or doubled?

    python -m benchmarks.gateway_storm [--sessions 50] [--statements 200] [--jobs 1] [--kills 3] [--pause 1.0]
        [--breaks 0.02] [--seed 1] [--keep FOLDER]

Each session submits its statements one after the other, with ``--pause`` seconds between them on average; 0 for no
pause at all, which measures throughput. ``--jobs`` of them are INSERTs over files, which run in Spark. ``--breaks`` is
the share of statements whose connection breaks before the answer is read. The gateway is killed ``--kills`` times, and
started again on the same folder. One job runs the whole time, and gets a new file every few seconds.

A time is that from the submission of a statement to its first page, as the client sees it. A job is *lost* when
somebody was told of it and its rows are not all there in the end or it is not listed; it is *doubled* when a row is
there twice. Of a job whose answer was lost, nothing or all must be there. Linux and macOS. Exit code 1 when a job is
lost or doubled, or an error came that nobody expects.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import json
import random
import re
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.harness import run, work_folder

ROWS = 1000
"""Of the table that INSERTs read."""
FEED_SECONDS = 4.0
END_SECONDS = 400.0
"""So long the jobs may take at the end."""
SLOWEST = 5
"""So many statements are listed at the end."""
EXPECTED = ("GW001", "GW002", "GW004", "GW009")
"""Codes of errors that cancels, closes and restarts bring about."""

TABLES = (
    "CREATE TABLE orders (id BIGINT, product STRING, num INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
    "WITH ('connector' = 'filesystem', 'path' = '{data}/orders', 'format' = 'json')",
    "CREATE TABLE products (product STRING, price DECIMAL(10, 2), PRIMARY KEY (product) NOT ENFORCED) "
    "WITH ('connector' = 'filesystem', 'path' = '{data}/products', 'format' = 'debezium-json')",
    "CREATE TABLE few (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{data}/few', 'format' = 'json')",
)
SINK = "CREATE TABLE {name} (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{data}/{name}', 'format' = 'json')"
ENDLESS = (
    "CREATE TABLE fed (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{data}/fed', 'format' = 'json', "
    "'source.monitor-interval' = '1 s')"
)
STATEMENTS = {
    "DDL": (
        "CREATE TABLE t{n} (a INT, b STRING, c ROW<d BIGINT, e ARRAY<INT>>) WITH ('connector' = 'print')",
        "CREATE VIEW v{n} AS SELECT product, COUNT(*) AS n FROM orders GROUP BY product",
        "ALTER TABLE orders SET ('source.monitor-interval' = '{n} s')",
        "DROP TABLE IF EXISTS t{n}",
        "CREATE DATABASE IF NOT EXISTS d{n}",
    ),
    "SET": ("SET 'table.exec.state.ttl' = '{n} h'", "RESET 'table.exec.state.ttl'", "SET"),
    "SHOW": ("SHOW TABLES", "SHOW CATALOGS", "SHOW FUNCTIONS", "SHOW CREATE TABLE orders", "SHOW VIEWS"),
    "SHOW JOBS": ("SHOW JOBS",),
    "DESCRIBE": ("DESCRIBE orders", "DESCRIBE products"),
    "EXPLAIN": (
        "EXPLAIN SELECT product, COUNT(*), SUM(num) FROM orders GROUP BY product",
        "EXPLAIN SELECT o.id, p.price * o.num FROM orders AS o JOIN products AS p ON o.product = p.product",
        "EXPLAIN SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts DESC) AS n FROM orders) "
        "WHERE n = 1",
    ),
    "error": ("SELECT * FROM nosuch", "SELEC 1"),
    "SELECT": (
        "SELECT a, COUNT(*) FROM (VALUES (1, 'x'), (1, 'y'), (2, 'z')) AS t (a, b) GROUP BY a",
        "SELECT a + {n}, UPPER(b) FROM (VALUES (1, 'x'), (2, 'y')) AS t (a, b)",
    ),
}
"""Statements by kind. SELECT is a job in the gateway's process, INSERT (which is not here) one in Spark."""

WEIGHTS = {"DDL": 15, "SET": 10, "SHOW": 15, "SHOW JOBS": 5, "DESCRIBE": 10, "EXPLAIN": 20, "error": 5, "SELECT": 15,
           "completion": 5}  # fmt: skip
WITH_JOB = ("SELECT", "INSERT")


class BrokenError(Exception):
    """The connection was broken, or the gateway is not there."""


class AnsweredError(Exception):
    """The gateway answered with an error.

    Attributes:
        code: of the error; ``?`` where it has none.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        found = re.search(r"\[([A-Z]+\d{3})\]", text)
        self.code = found[1] if found else "?"


class Connection:
    """HTTP as far as it is needed, with as little work as possible: what is measured is the gateway."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: object = None, breaks: float | None = None) -> dict[str, Any]:
        """The answer to a request.

        Args:
            method: of the request.
            path: likewise.
            body: as JSON.
            breaks: after so many seconds the connection is closed, whatever has been sent and received.

        Raises:
            AnsweredError: it is an error.
            BrokenError: there is none.
        """
        data = json.dumps({} if body is None else body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._streams
            writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            async with asyncio.timeout(60 if breaks is None else breaks):
                lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = re.search(r"content-length: (\d+)", lines)
                answer = await reader.readexactly(int(length[1]) if length else 0)
        except (OSError, EOFError, TimeoutError, asyncio.IncompleteReadError) as cause:
            self.close()
            raise BrokenError from cause
        if "connection: close" in lines:
            self.close()
        found: dict[str, Any] = json.loads(answer)
        if " 200 " not in lines.partition("\r\n")[0]:
            raise AnsweredError(str(found.get("errors", [""])[-1]))
        return found

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


class Gateway:
    """``stateplan gateway``, started, killed and started again on the same port and folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.log = folder / "gateway.log"
        self.started = time.monotonic()
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        arguments = ["--port", str(self.port), "--dir", str(self._folder / "state")]
        with self.log.open("ab") as out:
            return subprocess.Popen(
                [sys.executable, "-m", "stateplan", "gateway", *arguments],
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def check(self) -> None:
        """Raises RuntimeError when it has ended by itself."""
        if self._process.poll() is not None:
            raise RuntimeError(f"the gateway has ended: {self.log.read_text(errors='replace')[-2000:]}")

    @property
    def memory(self) -> float:
        """MiB of memory of its process, without Spark's; 0 when it is not there."""
        with contextlib.suppress(psutil.Error):
            return float(psutil.Process(self._process.pid).memory_info().rss) / (1 << 20)
        return 0.0

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._process = self._start()
        self.started = time.monotonic()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(90)
        except subprocess.TimeoutExpired:
            self._process.kill()


@dataclass
class Job:
    """An INSERT that was submitted.

    Attributes:
        sink: its table.
        id: the job's; None while nobody has been told.
    """

    sink: str
    id: str | None = None


@dataclass
class Tally:
    """What was seen.

    Attributes:
        times: seconds by kind of statement.
        slow: the slowest statements without a job: seconds, seconds since the last start of the gateway, kind.
        errors: codes of errors, with the kind of statement.
        texts: the first error of each code.
        events: what was done to the gateway, and what came of it.
        jobs: all INSERTs.
        listed: where the jobs stood when SHOW JOBS listed them last.
        going: the jobs that run according to the last list. A query that ran before a kill is in no list after it.
        memory: seconds since the last start of the gateway, statements done, and MiB; a list per start.
        done: statements, of all sessions.
    """

    times: dict[str, list[float]] = field(default_factory=dict)
    slow: list[tuple[float, float, str]] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    texts: dict[str, str] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)
    jobs: list[Job] = field(default_factory=list)
    listed: dict[str, str] = field(default_factory=dict)
    going: set[str] = field(default_factory=set)
    memory: list[list[tuple[float, int, float]]] = field(default_factory=lambda: [[]])
    done: int = 0


class Session:
    """A session with its tables, opened again when it is gone."""

    def __init__(self, port: int, data: Path, tally: Tally) -> None:
        self._connection = Connection(port)
        self._data = data
        self._tally = tally
        self._handle: str | None = None

    async def open(self) -> None:
        """Opens it, as soon as there is a gateway."""
        while True:
            try:
                opened = await self._connection.ask("POST", "/v4/sessions", {"properties": {"mine": "x"}})
                self._handle = opened["sessionHandle"]
                for table in TABLES:
                    await self.configure(table.format(data=self._data))
                return
            except (BrokenError, AnsweredError) as error:
                if isinstance(error, AnsweredError) and error.code not in EXPECTED:
                    raise
                await asyncio.sleep(0.2)

    async def configure(self, statement: str) -> None:
        await self._ask("POST", "configure-session", {"statement": statement})

    async def _ask(self, method: str, path: str, body: object = None, breaks: float | None = None) -> dict[str, Any]:
        return await self._connection.ask(method, f"/v4/sessions/{self._handle}/{path}".rstrip("/"), body, breaks)

    async def close(self) -> None:
        await self._ask("DELETE", "")

    async def complete(self) -> None:
        statement = "SELECT * FROM ord"
        await self._ask("GET", "complete-statement", {"statement": statement, "position": len(statement)})

    async def submit(self, statement: str, breaks: float | None = None) -> str:
        answer = await self._ask("POST", "statements", {"statement": statement}, breaks)
        return f"operations/{answer['operationHandle']}"

    async def first(self, operation: str, breaks: float | None = None) -> dict[str, Any]:
        """The first page of a result."""
        while True:
            page = await self._ask("GET", f"{operation}/result/0?rowFormat=JSON", None, breaks)
            if page["resultType"] != "NOT_READY":
                return page

    async def rest(self, operation: str, page: dict[str, Any]) -> list[list[Any]]:
        """All rows of a result, from its first page on."""
        rows, token = [row["fields"] for row in page["results"]["data"]], 0
        while page["resultType"] != "EOS":
            token += 1
            page = await self._ask("GET", f"{operation}/result/{token}?rowFormat=JSON")
            rows += [row["fields"] for row in page["results"]["data"]]
        return rows

    async def cancel(self, operation: str) -> None:
        await self._ask("POST", f"{operation}/cancel")

    async def forget(self, operation: str) -> None:
        await self._ask("DELETE", f"{operation}/close")


class Storm:
    """The run."""

    def __init__(self, folder: Path, sessions: int, statements: int, jobs: int, pause: float, breaks: float) -> None:
        self.data = folder / "data"
        for name in ("orders", "products", "few", "fed"):
            (self.data / name).mkdir(parents=True)
        lines = "".join(f'{{"id":{i}}}\n' for i in range(ROWS))
        (self.data / "few" / "0.json").write_text(lines)
        self.gateway = Gateway(folder)
        self.tally = Tally()
        self._sessions, self._statements, self._jobs = sessions, statements, jobs
        self._pause, self._breaks = pause, breaks
        self._fed = 0
        self.endless = ""

    # ---- sessions ----------------------------------------------------------------------------------------------

    async def user(self, number: int, seed: int) -> None:
        """One session from its first statement to its last."""
        rng = random.Random(f"{seed}-{number}")
        session = Session(self.gateway.port, self.data, self.tally)
        await asyncio.sleep(rng.random() * self._pause)
        await session.open()
        inserts = set(rng.sample(range(self._statements), min(self._jobs, self._statements)))
        for n in range(self._statements):
            if self._pause:
                await asyncio.sleep(rng.expovariate(1 / self._pause))
            kind = "INSERT" if n in inserts else rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            try:
                await self._one(session, kind, f"{number}_{n}", rng)
            except BrokenError:
                self.tally.events["answers lost"] += 1
            except AnsweredError as error:
                if not (kind == "error" and error.code[:3] in ("CAT", "SQL")):
                    self.tally.errors[f"{error.code} {kind}"] += 1
                    self.tally.texts.setdefault(error.code, str(error))
                if error.code == "GW001":
                    await session.open()
            self.tally.done += 1
        with contextlib.suppress(BrokenError, AnsweredError):
            await session.close()

    async def _one(self, session: Session, kind: str, name: str, rng: random.Random) -> None:
        """One statement, and what its user does with it: fetch, cancel, leave, or close the session."""
        luck, began = rng.random(), time.perf_counter()
        if kind == "completion":
            await session.complete()
            self._took(kind, began)
            return
        if kind == "INSERT":
            await self._insert(session, f"sink_{name}", luck < 10 * self._breaks, rng)
            return
        statement = rng.choice(STATEMENTS[kind]).replace("{n}", str(rng.randrange(1, 30)))
        breaks = rng.random() * 0.01 if luck < self._breaks else None
        if 0.9 < luck < 0.92:
            await session.close()
            await session.open()
            self.tally.events["sessions closed"] += 1
            began = time.perf_counter()
        operation = await session.submit(statement, breaks)
        if 0.92 < luck < 0.95:
            self.tally.events["canceled"] += 1
            with contextlib.suppress(AnsweredError):  # it is over
                await session.cancel(operation)
        elif luck < 0.95:
            try:
                page = await session.first(operation, breaks)
            except AnsweredError as error:
                if kind in ("error", "DDL") and error.code[:3] in ("CAT", "SQL"):
                    self._took(kind, began)
                    return
                raise
            self._took(kind, began)
            await session.rest(operation, page)
        await session.forget(operation)

    def _took(self, kind: str, began: float) -> None:
        took = time.perf_counter() - began
        self.tally.times.setdefault(kind, []).append(took)
        if kind not in WITH_JOB:
            since = time.monotonic() - self.gateway.started - took
            self.tally.slow = heapq.nlargest(SLOWEST, [*self.tally.slow, (took, since, kind)])

    async def _insert(self, session: Session, sink: str, breaks: bool, rng: random.Random) -> None:
        job = Job(sink)
        await session.configure(SINK.format(name=sink, data=self.data))
        self.tally.jobs.append(job)
        began = time.perf_counter()
        operation = await session.submit(
            f"INSERT INTO {sink} SELECT id FROM few", rng.random() * 0.1 if breaks else None
        )
        page = await session.first(operation, rng.random() * 5 if breaks else None)
        job.id = page["jobID"]
        self._took("INSERT", began)
        await session.forget(operation)

    # ---- the gateway -------------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Memory, and where the jobs stand; forever."""
        session = Session(self.gateway.port, self.data, self.tally)
        await session.open()
        while True:
            await asyncio.sleep(1)
            since = time.monotonic() - self.gateway.started
            if self.tally.done < self._sessions * self._statements:
                self.tally.memory[-1].append((since, self.tally.done, self.gateway.memory))
            await self._look(session)

    async def _look(self, session: Session) -> None:
        try:
            operation = await session.submit("SHOW JOBS")
            rows = await session.rest(operation, await session.first(operation))
            self.tally.listed.update((row[0], row[2]) for row in rows)
            self.tally.going = {row[0] for row in rows if row[2] in ("RUNNING", "RESTARTING")}
            await session.forget(operation)
        except (BrokenError, AnsweredError):
            with contextlib.suppress(AnsweredError):
                await session.open()

    async def start(self) -> None:
        """Starts the job that runs the whole time."""
        session = Session(self.gateway.port, self.data, self.tally)
        opening = asyncio.create_task(session.open())
        while not opening.done():
            self.gateway.check()
            await asyncio.wait([opening], timeout=1)
        await opening
        await session.configure(ENDLESS.format(data=self.data))
        await session.configure(SINK.format(name="from_fed", data=self.data))
        operation = await session.submit("INSERT INTO from_fed SELECT id FROM fed")
        self.endless = str((await session.first(operation))["jobID"])

    async def feed(self) -> None:
        """New files for that job; forever."""
        while True:
            lines = "".join(f'{{"id":{self._fed * 10 + i}}}\n' for i in range(10))
            hidden = self.data / "fed" / f".{self._fed}"
            hidden.write_text(lines)
            hidden.rename(self.data / "fed" / f"{self._fed}.json")
            self._fed += 1
            await asyncio.sleep(FEED_SECONDS)

    async def kill(self, times: int, seed: int) -> None:
        """kill -9 at random moments of the run."""
        rng, total = random.Random(f"{seed}-kills"), self._sessions * self._statements
        for share in sorted(rng.uniform(0.1, 0.9) for _ in range(times)):
            while self.tally.done < share * total:
                await asyncio.sleep(0.01)
            self.tally.memory.append([])
            self.gateway.kill()
            self.tally.events["kill -9"] += 1

    async def run(self, kills: int, seed: int) -> float:
        """The whole storm; seconds that the sessions took."""
        await self.start()
        others = [asyncio.create_task(work) for work in (self.watch(), self.feed())]
        began = time.monotonic()
        killer = asyncio.create_task(self.kill(kills, seed))
        await asyncio.gather(*(self.user(number, seed) for number in range(self._sessions)))
        took = time.monotonic() - began
        await killer
        others[1].cancel()
        await self._end()
        others[0].cancel()
        await asyncio.gather(*others, return_exceptions=True)
        return took

    async def _end(self) -> None:
        """Waits until all jobs are over, and stops the one that has no end."""
        session = Session(self.gateway.port, self.data, self.tally)
        await session.open()
        until = time.monotonic() + END_SECONDS
        while time.monotonic() < until:
            await asyncio.sleep(0.5)
            await self._look(session)
            if self.tally.going <= {self.endless} and len(self.lines("from_fed")) >= 10 * self._fed:
                break
        operation = await session.submit(f"STOP JOB '{self.endless}'")
        await session.first(operation)
        await self._look(session)

    # ---- what came of it ---------------------------------------------------------------------------------------

    def lines(self, sink: str) -> list[str]:
        return [line for path in (self.data / sink).glob("part-*") for line in path.read_text().splitlines()]

    def problems(self) -> Iterator[str]:
        """What is lost or doubled."""
        whole = Counter(f'{{"id":{i}}}' for i in range(ROWS))
        for job in self.tally.jobs:
            found = Counter(self.lines(job.sink))
            if any(times > 1 for times in found.values()):
                yield f"doubled: {job.sink} ({job.id})"
            elif job.id is not None and (found != whole or self.tally.listed.get(job.id) != "FINISHED"):
                yield f"lost: {job.sink} ({job.id}, {self.tally.listed.get(job.id)}): {found.total()} rows"
            elif found and found != whole:
                yield f"half: {job.sink}: {found.total()} rows"
        fed = Counter(self.lines("from_fed"))
        if fed != Counter(f'{{"id":{i}}}' for i in range(10 * self._fed)):
            yield f"lost or doubled: from_fed has {fed.total()} rows of {10 * self._fed}"
        if self.tally.listed.get(self.endless) != "CANCELED":
            yield f"the job without an end is {self.tally.listed.get(self.endless)}"

    def report(self, took: float) -> None:
        """Prints what was measured."""
        tally = self.tally
        print(f"{tally.done} statements of {self._sessions} sessions in {took:.0f} s, {tally.done / took:.0f} a second")
        print(f"\n{'kind':12} {'count':>7} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8}")
        for kind, times in sorted(tally.times.items()):
            print(_times(kind, times))
        print(_times("without job", [t for kind, times in tally.times.items() if kind not in WITH_JOB for t in times]))
        slow = ", ".join(f"{kind} {1000 * took:.0f} ms at {since:.1f} s" for took, since, kind in tally.slow)
        print(f"slowest without job, with the time since the start of the gateway: {slow}")
        print("\n" + ", ".join(f"{count} {event}" for event, count in sorted(tally.events.items())))
        print("errors: " + (", ".join(f"{count} {code}" for code, count in sorted(tally.errors.items())) or "none"))
        longest = max(tally.memory, key=len)
        steady = longest[len(longest) // 3 :]
        if len(steady) > 5 and steady[0][1] < steady[-1][1]:
            slope = statistics.linear_regression([d for _, d, _ in steady], [m for _, _, m in steady]).slope
            marks = ", ".join(f"{mib:.0f} MiB after {s:.0f} s" for s, _, mib in (longest[0], steady[0], steady[-1]))
            print(f"memory of the gateway: {marks}; at last {1000 * slope:+.2f} MiB per 1000 statements")
        told = sum(job.id is not None for job in tally.jobs)
        print(f"jobs: {told} acknowledged, {len(tally.jobs) - told} whose answer was lost")


def _times(name: str, times: list[float]) -> str:
    if not times:
        return f"{name:12} {0:7}"
    ordered = sorted(1000 * t for t in times)
    p50, p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * q))] for q in (0.5, 0.99))
    return f"{name:12} {len(ordered):7} {p50:8.1f} {p99:8.1f} {ordered[-1]:8.1f}"


def main(
    sessions: int = 50,
    statements: int = 200,
    jobs: int = 1,
    kills: int = 3,
    pause: float = 1.0,
    breaks: float = 0.02,
    seed: int = 1,
    keep: str = "",
) -> int:
    with contextlib.ExitStack() as stack:
        folder = Path(keep or stack.enter_context(work_folder("storm")))
        storm = Storm(folder, sessions, statements, jobs, pause, breaks)
        try:
            took = asyncio.run(storm.run(kills, seed))
        finally:
            storm.gateway.stop()
        storm.report(took)
        problems = list(storm.problems())
        said = storm.gateway.log.read_text(errors="replace")
        problems += [line for line in said.splitlines() if "nobody expected" in line or "Traceback" in line]
        problems += [text for code, text in storm.tally.texts.items() if code not in EXPECTED]
        print("\n".join(problems) or "no job is lost, none is doubled")
        return int(bool(problems))


if __name__ == "__main__":
    run(main, __doc__)
