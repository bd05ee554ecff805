"""How long a job stands still when a host of its cluster loses power.

    python -m benchmarks.lost_host [--kills 3] [--worker-timeout 60] [--option KEY=VALUE] [--busy 8] [--stop SECONDS]
        [--log]

Two hosts with a Spark worker each, and a driver's host (:mod:`benchmarks.hosts`). A job with two levels of state reads
a file every half second. A host is cut off its network and all its processes are killed; the time until a row that was
written afterwards has reached the sink is the recovery. What a row takes otherwise is measured right before. The host
comes back before the next kill.

``--worker-timeout`` is how long the standalone master waits for a worker. ``--busy`` processes use the cores meanwhile.
With ``--stop``, the JVM of an executor is stopped for so many seconds instead, as a long garbage collection stops it:
it has to go on, and must not be replaced. ``--log`` shows what the driver's log says of tasks and executors.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import run, work_folder
from benchmarks.hosts import ADDRESS, DRIVER, MASTER, Hosts

_TABLES = """
CREATE TABLE rows_in (id BIGINT, grp BIGINT, came AS PROCTIME()) WITH ('connector' = 'filesystem',
  'path' = '{folder}/in', 'format' = 'json', 'source.monitor-interval' = '200 ms');
CREATE TABLE rows_out (grp BIGINT, latest BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}/out',
  'format' = 'op-json', 'op-json.mode' = 'retract')
"""
_QUERY = """INSERT INTO rows_out SELECT grp, MAX(id) FROM
(SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY came) AS n FROM rows_in) WHERE n = 1 GROUP BY grp"""
_STEPS = re.compile(
    r"Lost executor|heartbeat|Lost task|FetchFailed|Resubmitted|worker removed|Registered executor|has been quiet"
    r"|does not answer|Executor (?:added|updated)|is dead|Marking Stage|Starting task"
)


def job(folder: str, settings: str) -> None:
    """The job, in a process on the driver's host."""
    from stateplan import TableEnvironment

    env = TableEnvironment.create(json.loads(settings), console=lambda line: print("note", line, flush=True))
    for statement in _TABLES.format(folder=folder).split(";"):
        env.execute_sql(statement)
    env.execute_sql(_QUERY).wait()


def main(
    kills: int = 3,
    worker_timeout: int = 60,
    option: list[str] | None = None,
    busy: int = 0,
    stop: float = 0,
    log: bool = False,
) -> int:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(work_folder("lost-host")))
        shared = folder / "shared"
        (shared / "in").mkdir(parents=True)
        hosts = stack.enter_context(Hosts(folder / "hosts", [shared], worker_timeout=worker_timeout))
        stack.enter_context(_busy(busy))
        feeding = _Feeder(shared / "in")
        feeding.feed()
        process = stack.enter_context(_running(hosts, shared, dict(text.split("=", 1) for text in option or [])))
        _await(shared, 1, process, 240)
        stack.enter_context(feeding)
        chosen = random.Random(kills)
        for n in range(kills):
            time.sleep(5 + 5 * chosen.random())
            host = hosts.names[n % 2]
            last, began = feeding.last, time.monotonic()
            _await(shared, last + 2, process, 240)
            usual = time.monotonic() - began
            last, began = feeding.last, time.monotonic()
            if stop:
                executors = [
                    p for p in hosts.processes(host) if "CoarseGrainedExecutorBackend" in " ".join(p.cmdline())
                ]
                for executor in executors:
                    executor.send_signal(signal.SIGSTOP)
                time.sleep(stop)
                for executor in executors:
                    executor.send_signal(signal.SIGCONT)
            else:
                hosts.kill(host)
            wall = time.strftime("%H:%M:%S")
            _await(shared, last + 2, process, 400)
            what, load = "stopped" if stop else "killed", os.getloadavg()[0]
            seconds = f"{time.monotonic() - began:.1f} s, {usual:.1f} s before"
            print(f"{host} {what} at {wall}: {seconds} (load {load:.1f})", flush=True)
            if not stop:
                hosts.start_worker(host)
                hosts.await_workers(3 * worker_timeout)
                time.sleep(10)
        if log:
            for path in sorted((shared / "log").rglob("spark.log")):
                for line in path.read_text(errors="replace").splitlines():
                    if _STEPS.search(line):
                        print(line[:230])
        print((shared / "said").read_text()[-2000:])
    return 0


class _Feeder:
    """Writes a file with the next number every half second."""

    def __init__(self, folder: Path) -> None:
        self.last = 0
        self._folder = folder
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.5):
            self.feed()

    def feed(self) -> None:
        number = self.last + 1
        hidden = self._folder / f".{number}"
        hidden.write_text(json.dumps({"id": number, "grp": number % 3}) + "\n")
        hidden.rename(self._folder / f"{number:06d}.json")
        self.last = number


@contextlib.contextmanager
def _running(hosts: Hosts, shared: Path, options: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    settings = {
        "spark.master": MASTER,
        "spark.driver.host": ADDRESS,
        "spark.pyspark.python": "python",
        "spark.executor.memory": "800m",
        "spark.log.level": "INFO",
        "parallelism.default": "2",
        "execution.checkpointing.dir": f"{shared}/checkpoint",
        **options,
    }
    code = "import sys; from benchmarks.lost_host import job; job(*sys.argv[1:])"
    (shared / "log").mkdir()
    with (shared / "said").open("w") as said:
        process = hosts.on(
            DRIVER,
            sys.executable,
            "-c",
            code,
            str(shared),
            json.dumps(settings),
            stdout=said,
            stderr=said,
            text=True,
            env={"TMPDIR": str(shared / "log")},
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _await(shared: Path, number: int, process: subprocess.Popen[str], seconds: float) -> None:
    """Waits until the sink has a row of a number, or of a later one."""
    deadline = time.monotonic() + seconds
    seen: set[Path] = set()
    while True:
        for path in (shared / "out").glob("part-*"):
            if path not in seen:
                seen.add(path)
                if any(int(found) >= number for found in re.findall(r'"latest":\s*(\d+)', path.read_text())):
                    return
        if process.poll() is not None or time.monotonic() > deadline:
            raise TimeoutError((shared / "said").read_text()[-2000:])
        time.sleep(0.1)


@contextlib.contextmanager
def _busy(count: int) -> Iterator[None]:
    made = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in made:
            process.kill()
            process.wait()


if __name__ == "__main__":
    run(main, __doc__)
