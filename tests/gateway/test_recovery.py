"""Jobs outlive their gateway: kill -9 in the middle, a clean stop in the middle, and the next gateway goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from stateplan.cli.exit_codes import ExitCode
from tests.gateway.gateway_server import FailedError, GatewayClient, GatewayServer
from tests.support.waiting import until

pytestmark = pytest.mark.spark

FILES, ROWS = 30, 50
"""Of the job that is killed: a file is a micro-batch."""
RACING = 3
"""So many statements are being submitted when the kill comes, a moment after the other."""

TABLES = """
CREATE TABLE numbers (id BIGINT, key BIGINT) WITH ('connector' = 'filesystem', 'path' = '{0}/numbers',
  'format' = 'json', 'source.max-files-per-trigger' = '1');
CREATE TABLE few (id BIGINT, key BIGINT) WITH ('connector' = 'filesystem', 'path' = '{0}/few', 'format' = 'json');
CREATE TABLE endless (id BIGINT, key BIGINT) WITH ('connector' = 'filesystem', 'path' = '{0}/few', 'format' = 'json',
  'source.monitor-interval' = '1 s');
CREATE TABLE broken (id BIGINT, key BIGINT) WITH ('connector' = 'filesystem', 'path' = '{0}/broken', 'format' = 'json');
CREATE TABLE copied (id BIGINT, doubled BIGINT) WITH ('connector' = 'filesystem', 'path' = '{0}/copied',
  'format' = 'json');
CREATE TABLE counted (key BIGINT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{0}/counted',
  'format' = 'debezium-json');
CREATE TABLE out_1 (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{0}/out_1', 'format' = 'json');
CREATE TABLE out_2 (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{0}/out_2', 'format' = 'json');
CREATE TABLE out_3 (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{0}/out_3', 'format' = 'json');
CREATE FUNCTION doubled AS 'recovery_functions.doubled' LANGUAGE PYTHON
"""


def write_rows(folder: Path, name: str, ids: range) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text("".join(json.dumps({"id": i, "key": i % 7}) + "\n" for i in ids))


class World:
    """The data, a gateway, and its folder.

    Attributes:
        data: the folders of the tables.
        state: what the gateway keeps.
        gateway: the one that runs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self.state = folder, folder / "data", folder / "state"
        self.data.mkdir()
        (folder / "code").mkdir()
        (folder / "code" / "recovery_functions.py").write_text(
            "from stateplan.planner.catalog.udf import udf\n"
            'doubled = udf(lambda value: value * 2, ["BIGINT"], "BIGINT")\n'
        )
        for i in range(FILES):
            write_rows(self.data / "numbers", f"{i:03d}", range(i * ROWS, (i + 1) * ROWS))
        write_rows(self.data / "few", "0", range(10))
        (self.data / "broken").mkdir()
        (self.data / "broken" / "0.json").write_text('{"id": "no number"}\n')
        self.start()

    def start(self) -> GatewayClient:
        """Starts a gateway; a session of it."""
        arguments = ("--allow-module", "recovery_functions", "--warm-spark")
        self.gateway = GatewayServer(self.folder, *arguments, environment={"PYTHONPATH": str(self.folder / "code")})
        return self.session()

    def session(self) -> GatewayClient:
        """A session whose jobs are small."""
        return self.gateway.session({"parallelism.default": "1", "pipeline.max-parallelism": "1"})

    def lines(self, table: str) -> Counter[str]:
        """What readers see of a sink."""
        files = (self.data / table).glob("part-*")
        return Counter(line for path in files for line in path.read_text().splitlines())

    def copied(self) -> int:
        return self.lines("copied").total()

    def job(self, job_id: str) -> dict[str, Any]:
        """What is on disk of a job."""
        found: dict[str, Any] = json.loads((self.state / "jobs" / job_id / "job.json").read_text())
        return found


def counts(lines: Counter[str]) -> dict[int, int]:
    """The rows that changes amount to."""
    rows: Counter[tuple[int, int]] = Counter()
    for line, times in lines.items():
        change = json.loads(line)
        for side, sign in (("before", -times), ("after", times)):
            if change[side] is not None:
                rows[change[side]["key"], change[side]["n"]] += sign
    assert set(rows.values()) <= {0, 1}, "changes are lost or doubled"
    return {key: n for (key, n), times in rows.items() if times}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """No gateway outlives its test."""
    world = World(tmp_path)
    yield world
    world.gateway.stop()


@dataclass
class Jobs:
    """What the first gateway was asked for.

    Attributes:
        ended: by id, the statuses of jobs that have ended.
        going: the id of the job that runs.
        listed: by id, the rows of SHOW JOBS.
    """

    ended: dict[str, str]
    going: str
    listed: dict[str, list[Any]]


def test_jobs_outlive_their_gateway(world: World) -> None:
    session = world.session()
    jobs = started(session, world)

    # kill -9 in the middle of the job, while statements are being submitted
    until(lambda: world.copied() >= 4 * ROWS, 120)
    told = submit_and_kill(world)
    early = {path: path.stat().st_mtime_ns for path in (world.data / "copied").glob("part-*")}
    assert 4 * ROWS <= world.copied() < FILES * ROWS, "it is over already"

    # the next one goes on; while it has the folder, another one is refused
    session = world.start()
    again = {row[0]: row for row in session.run("SHOW JOBS")}
    as_before(again, jobs, world)
    refused(world)
    (stopped,) = (job for job, status in jobs.ended.items() if status == "CANCELED")
    with pytest.raises(FailedError, match=r"RUN052|RUN060"):
        session.run(f"STOP JOB '{stopped}'")
    raced = {row[0]: str(row[1]).rpartition(".")[2] for row in again.values() if "race_" in str(row[1])}
    assert set(told) <= set(raced), "a job was acknowledged and is gone"

    # a clean stop in the middle leaves it as running, and the next one goes on once more
    before = world.copied()
    until(lambda: world.copied() > before, 120)
    began = world.copied()
    assert world.gateway.stop() == ExitCode.TERMINATED
    assert began < FILES * ROWS and world.job(jobs.going)["status"] == "RUNNING"
    session = world.start()
    assert session.jobs()[jobs.going] in ("RESTARTING", "RUNNING")
    until(lambda: all(session.jobs()[job] == "FINISHED" for job in (jobs.going, *raced)), 120)
    assert session.jobs().items() >= jobs.ended.items()

    assert {path: path.stat().st_mtime_ns for path in early} == early, "it began anew"
    assert {path.name for path in (world.state / "jobs").iterdir()} == {*jobs.ended, jobs.going, *raced}
    as_if_nothing_had_happened(world, set(raced.values()))
    assert world.gateway.stop() == ExitCode.TERMINATED
    said = world.gateway.log.read_text()
    assert "Traceback" not in said and "nobody expected" not in said
    assert "Spark is ready" in said and "cannot be kept ready" not in said
    assert said.count(f"the job {jobs.going} runs again") == 2, "the log has gaps"


def started(session: GatewayClient, world: World) -> Jobs:
    """Three jobs that end, each in its way, and one that is running."""
    for statement in TABLES.format(world.data).split(";"):
        assert session.run(statement.strip()) == [["OK"]]
    finished = session.start("INSERT INTO out_1 SELECT id FROM few")
    failed = session.start("INSERT INTO out_2 SELECT id FROM broken")
    stopped = session.start("INSERT INTO out_3 SELECT id FROM endless")
    until(lambda: session.jobs()[finished] == "FINISHED" and session.jobs()[failed] == "FAILED", 120)
    session.run(f"STOP JOB '{stopped}'")
    ended = {finished: "FINISHED", failed: "FAILED", stopped: "CANCELED"}
    session.run("SET 'pipeline.name' = 'the one that goes on'")
    going = session.start(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO copied SELECT id, doubled(id) FROM numbers; "
        "INSERT INTO counted SELECT key, COUNT(*) FROM numbers GROUP BY key; END"
    )
    assert session.jobs() == {**ended, going: "RUNNING"}
    return Jobs(ended, going, {row[0]: row for row in session.run("SHOW JOBS")})


def as_before(again: dict[str, list[Any]], jobs: Jobs, world: World) -> None:
    """Another gateway lists the jobs as the first one did."""
    assert {job: again[job] for job in jobs.ended} == {job: jobs.listed[job] for job in jobs.ended}
    assert again[jobs.going][1] == "the one that goes on" and again[jobs.going][2] in ("RESTARTING", "RUNNING")
    assert again[jobs.going][3] == jobs.listed[jobs.going][3], "it has another start time"
    (failed,) = (job for job, status in jobs.ended.items() if status == "FAILED")
    assert "no number" in world.job(failed)["error"] and "DATA" in world.job(failed)["error"]


def as_if_nothing_had_happened(world: World, raced: set[str]) -> None:
    """Sinks have each row once. Of the jobs that were being submitted, those that are there are whole."""
    ids = range(FILES * ROWS)
    assert world.lines("copied") == Counter(json.dumps({"id": i, "doubled": 2 * i}, separators=(",", ":")) for i in ids)
    assert counts(world.lines("counted")) == dict(Counter(i % 7 for i in ids))
    for number in range(RACING):
        whole = f"race_{number}" in raced
        assert world.lines(f"race_{number}").total() == (10 if whole else 0), "a job is there by half"


def submit_and_kill(world: World) -> list[str]:
    """Statements on their way while the gateway is killed: the ids of the jobs that somebody was told of."""
    clients = [world.session() for _ in range(RACING)]
    for number, client in enumerate(clients):
        options = f"('connector' = 'filesystem', 'path' = '{world.data}/race_{number}', 'format' = 'json')"
        client.run(f"CREATE TABLE race_{number} (id BIGINT) WITH {options}")
        client.run(
            "CREATE TABLE few (id BIGINT, key BIGINT) WITH ('connector' = 'filesystem', "
            f"'path' = '{world.data}/few', 'format' = 'json')"
        )

    def start(number: int) -> str | None:
        time.sleep(0.25 * number)
        try:
            return clients[number].start(f"INSERT INTO race_{number} SELECT id FROM few")
        except (httpx.HTTPError, AssertionError):
            return None

    with ThreadPoolExecutor(RACING) as pool:
        starts = [pool.submit(start, number) for number in range(RACING)]
        time.sleep(0.25 * RACING)
        world.gateway.process.kill()
        told = [start.result() for start in starts]
    world.gateway.kill()
    return [job for job in told if job is not None]


def refused(world: World) -> None:
    command = [sys.executable, "-m", "stateplan", "gateway", "--port", "0", "--dir", str(world.state)]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert second.returncode != 0 and "[GW016]" in second.stderr and str(world.state) in second.stderr
    assert str(world.gateway.process.pid) in second.stderr
