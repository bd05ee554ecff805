"""kill -9 at bad moments, other TTLs and another parallelism in between: is the result that of a run in peace?

    python -m benchmarks.chaos [--minutes 10] [--kills 50] [--limit MINUTES] [--rows 100] [--seed 1] [--keep FOLDER]
        [--hosts] [--job event-time]

After ``--limit`` nothing more is killed; ``--keep`` works in a folder that stays. With ``--hosts``, the job runs on two
separate hosts, and its driver on a third (:mod:`benchmarks.hosts`); hosts and executors are killed too.

The job has both examples of FLIP-292, each with a file sink: a deduplication before an aggregation, and a join; or,
with ``--job event-time``, windows, sessions, an interval join and MATCH_RECOGNIZE. Its input is recorded arrivals
(``replay``), a minute of the virtual clock per micro-batch, so that which rows expire follows from the TTLs of each
micro-batch alone. Input is added until there were enough kills and minutes. TTLs are
changed live, and in the plan file between runs. Then the same input is run once in peace, with the same TTLs from the
same micro-batches on; every change in the sinks' files has to be the same. Linux only. Exit code 1 when they are not.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import psutil

from benchmarks.chaos_jobs import JOBS, MINUTE, Job, edit_plan
from benchmarks.harness import process_tree, run, work_folder
from benchmarks.hosts import DRIVER, OPTIONS, Hosts
from stateplan.common.ttl import format_ttl
from stateplan.plans.live import set_live_ttls
from stateplan.runtime.checkpoint.live_ttl import LiveTtls, StateTtl, read_ttls
from stateplan.runtime.spark import fork_server, worker_daemon

TTLS = tuple(minutes * MINUTE for minutes in (3, 8, 20, 45, 90, 0))
KINDS = {"whole job": 9, "Python worker": 20, "commit": 10, "driver alone": 4, "start": 7}
"""What is killed, and in how many of 50 kills."""
KINDS_ON_HOSTS = {
    "whole job": 9,
    "Python worker": 8,
    "commit": 8,
    "driver alone": 3,
    "start": 5,
    "executor": 5,
    "host": 12,
}
"""The same on separate hosts; *whole job* is the driver's host without Spark's master."""
WORKERS = ("pyspark.daemon", worker_daemon.MODULE, fork_server.NAMES[worker_daemon.MODULE])
"""Words in the commands or names of Python workers, and of the processes that they are forked from."""
MISSES = 20
"""Attempts after which the test ends that found nothing to kill."""


# ---- the job --------------------------------------------------------------------------------------------------------


def start(arguments: Sequence[str], log: Path, hosts: Hosts | None = None) -> subprocess.Popen[bytes]:
    """The command as a user runs it, in a process group of its own; on the driver's host, where there are hosts."""
    command = [sys.executable, "-m", "stateplan", *arguments]
    with log.open("ab") as out:
        if hosts is not None:
            return hosts.on(DRIVER, *command, stdout=out, stderr=out)
        return subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)


def batches(checkpoint: Path, kind: str) -> int:
    """Micro-batches begun (``offsets``) or finished (``commits``) so far."""
    folder = checkpoint / "spark" / kind
    return max((int(p.name) for p in folder.iterdir() if p.name.isdigit()), default=-1) + 1 if folder.is_dir() else 0


def played(checkpoint: Path) -> dict[int, int]:
    """Of the last hundred micro-batches, how many instants had been played when each was done."""
    found = {}
    for path in (checkpoint / "spark" / "offsets").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, StopIteration):
            sources = [json.loads(line) for line in path.read_text().splitlines()[2:] if line != "-"]
            found[int(path.name)] = next(line["logOffset"] for line in sources if isinstance(line, dict)) + 1
    return found


def result(folder: Path) -> Counter[str]:
    """Every line of a sink's files."""
    return Counter(line for path in folder.glob("part-*") for line in path.read_text().splitlines())


def folded(folder: Path) -> Counter[str]:
    """The rows that the changes in a sink's files amount to."""
    rows: Counter[str] = Counter()
    for line, count in result(folder).items():
        event = json.loads(line)
        sides = [("before", -count), ("after", count)] if "op" in event else []
        for side, sign in sides:
            if event[side] is not None:
                rows[json.dumps(event[side])] += sign
        if not sides:
            rows[line] += count
    return Counter({row: n for row, n in rows.items() if n})


# ---- kills ----------------------------------------------------------------------------------------------------------


def kill(*pids: int) -> bool:
    """kill -9; whether one of them was there."""
    hit = False
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            hit = True
    return hit


def kill_some(among: Iterable[psutil.Process], words: Sequence[str], rng: random.Random) -> bool:
    """Kills one or all of the processes that have one of the words in their command or name."""
    found = []
    for process in among:
        with contextlib.suppress(psutil.Error):
            command = " ".join([*process.cmdline(), process.name()])
            if any(word in command for word in words):
                found.append(process.pid)
    if not found:
        return False
    return kill(*(found if rng.random() < 0.3 else [rng.choice(found)]))


def require_hits(kind: str, misses: int) -> None:
    """Ends the test when nothing could be killed too often: it would end well without its kills."""
    if misses >= MISSES:
        raise SystemExit(f"the kind '{kind}' found nothing to kill in {misses} attempts")


def kill_all(process: subprocess.Popen[bytes]) -> bool:
    """Kills the driver, its JVM and all Python workers."""
    below = process_tree(process.pid)[1:]
    hit = kill(process.pid)
    kill(*(p.pid for p in below))
    process.wait()
    return hit


def wait_until(process: subprocess.Popen[bytes], reached: Callable[[], bool], seconds: float, step: float) -> bool:
    """Whether it was reached, while the process ran and before ``seconds`` were over."""
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        if reached():
            return True
        time.sleep(step)
    return False


def in_commit(folder: Path, stage: str, batch: int) -> bool:
    """Whether the commit of micro-batch ``batch`` or a later one has come as far as ``stage``, and no further."""
    checkpoint = folder / "checkpoint"
    done, begun = batches(checkpoint, "commits"), batches(checkpoint, "offsets")
    if begun <= max(done, batch):
        return False
    now = begun - 1
    if stage == "state":
        deltas = (checkpoint / "spark" / "state").glob(f"*/*/{now + 1}[._]*changelog")
        return next(deltas, None) is not None
    hidden = [*(folder / "out").glob("*/.staged-*")]
    if stage == "staged":
        return any((h / str(now)).is_dir() for h in hidden)
    return any((h / f"{now}.committed").exists() for h in hidden)


# ---- the run that is disturbed --------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What was done to the job."""

    kills: Counter[str] = field(default_factory=Counter)
    moments: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    failures: int = 0
    live: int = 0
    edits: int = 0
    rescales: int = 0
    seconds: float = 0.0


@dataclass
class Storm:
    """One job, killed again and again.

    Attributes:
        job: what is killed.
        folder: the plan, its input and output, the checkpoint and the log of all starts.
        minutes, kills: how many of both there have to be.
        rows: orders per micro-batch.
        kinds: what is killed, and how often in relation.
        limit: the minutes after which nothing more is killed, however much there has been.
        hosts: where the job runs; None for this machine alone.
        parallelisms: what the parallelism changes to.
        edits, rescales: how probable another TTL in the plan, and another parallelism, are at a start.
        asks: how probable another TTL is before a kill.
        minute: minutes of input so far.
        instants: micro-batch -> how many instants had been played when it was done.
    """

    job: Job
    folder: Path
    minutes: float
    kills: int
    rows: int
    rng: random.Random
    kinds: dict[str, int] = field(default_factory=lambda: dict(KINDS))
    limit: float = float("inf")
    hosts: Hosts | None = None
    parallelisms: tuple[int, ...] = (1, 2, 3)
    edits: float = 0.3
    rescales: float = 0.3
    asks: float = 0.5
    tally: Tally = field(default_factory=Tally)
    parallelism: int = 2
    minute: int = 0
    instants: dict[int, int] = field(default_factory=dict)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def run(self) -> None:
        began = time.monotonic()
        todo = self._todo()
        misses = 0
        process = self._start()
        while self._goes_on(bool(todo), (time.monotonic() - began) / 60):
            if process.poll() is not None:
                self._require(process)
                process = self._start()
            kind = todo[0] if todo else self._one()
            if self._strike(process, kind):
                self.tally.kills[kind] += 1
                done, begun = batches(self.checkpoint, "commits"), batches(self.checkpoint, "offsets")
                self.tally.moments["with a micro-batch in hand" if begun > done else "between micro-batches"] += 1
                del todo[:1]
                misses = 0
                self.instants |= played(self.checkpoint)
                self._say(
                    f"{sum(self.tally.kills.values()):3} {kind:14} micro-batches {done} done, {begun - done} in hand"
                )
            elif process.poll() is None:
                misses += 1
                require_hits(kind, misses)
        while process.wait() != 0 or max(played(self.checkpoint).values(), default=0) < self.minute:
            self._require(process)
            process = self._start(more=False)
        self.instants |= played(self.checkpoint)
        self.tally.seconds = time.monotonic() - began
        (self.folder / "storm.json").write_text(json.dumps({"instants": self.instants, **vars(self.tally)}))

    def _goes_on(self, todo: bool, minutes: float) -> bool:
        return minutes < self.limit and (todo or minutes < self.minutes)

    def _todo(self) -> list[str]:
        """What is to be killed, each kind as often as its share says."""
        shares = sum(self.kinds.values())
        todo = [kind for kind, share in self.kinds.items() for _ in range(max(1, round(share * self.kills / shares)))]
        while len(todo) < self.kills:
            todo.append(self._one())
        self.rng.shuffle(todo)
        return todo[: self.kills]

    def _one(self) -> str:
        return self.rng.choices(list(self.kinds), list(self.kinds.values()))[0]

    def _start(self, more: bool = True) -> subprocess.Popen[bytes]:
        """Starts the job, sometimes with another TTL in its plan, or with other parallelism."""
        left = self.minute - max(played(self.checkpoint).values(), default=0)
        if more and left < self.job.chunk:
            self.job.extend(self.folder, self.minute, self.job.chunk, self.rows, self.rng)
            self.minute += self.job.chunk
        if self.tally.starts and self.rng.random() < self.edits:
            edit_plan(self.folder / "plan.json", {self.rng.choice(self.job.states): self.rng.choice(TTLS)})
            self.tally.edits += 1
        if self.tally.starts and self.rng.random() < self.rescales:
            self.parallelism = self.rng.choice([p for p in self.parallelisms if p != self.parallelism])
            self.tally.rescales += 1
        self.tally.starts += 1
        options = {
            "execution.checkpointing.dir": str(self.checkpoint),
            "parallelism.default": str(self.parallelism),
            **(OPTIONS if self.hosts is not None else {}),
        }
        pairs = [text for key, value in options.items() for text in ("-D", f"{key}={value}")]
        return start(["plan", "execute", str(self.folder / "plan.json"), *pairs], self.log, self.hosts)

    def _require(self, process: subprocess.Popen[bytes]) -> None:
        """The job has ended: because it was through, or killed, or because it had no worker left."""
        if process.returncode in (0, -signal.SIGKILL):
            return
        text = self.log.read_text(errors="replace")
        if (
            process.returncode == 1
            and "[RUN001]" in text[-3000:]
            and self.tally.failures < sum(self.tally.kills[kind] for kind in ("Python worker", "executor", "host"))
        ):
            self.tally.failures += 1
            return
        raise SystemExit(f"the job ended with code {process.returncode}:\n{text[-3000:]}")

    def _strike(self, process: subprocess.Popen[bytes], kind: str) -> bool:
        """Waits for a bad moment, and kills; False when the job ended before."""
        if kind == "start":
            time.sleep(self.rng.random() * (6 if self.hosts is None else 30))
            return process.poll() is None and kill_all(process)
        begun = batches(self.checkpoint, "offsets")
        if not wait_until(process, lambda: batches(self.checkpoint, "offsets") > begun, 120, 0.01):
            return False
        asks = self.rng.random() < self.asks
        if asks and self.rng.random() < 0.5:
            self._ask()
            asks = False
        time.sleep(self.rng.random() * 2.5)
        if asks:
            self._ask()
        if kind == "commit":
            stage = self.rng.choice(("state", "staged", "marked"))
            at = batches(self.checkpoint, "offsets") - 1
            return wait_until(process, lambda: in_commit(self.folder, stage, at), 60, 0) and kill_all(process)
        if process.poll() is not None:
            return False
        if kind == "whole job":
            return kill_all(process)
        if kind == "driver alone":
            hit = kill(process.pid)
            process.wait()
            return hit
        if not self._strike_workers(process, kind):
            return False
        done = batches(self.checkpoint, "commits")  # the job tries the task again, or fails
        wait_until(process, lambda: batches(self.checkpoint, "commits") > done, 30, 0.05)
        if self.hosts is not None and kind == "host":
            for host in self.hosts.down():
                self.hosts.start_worker(host)
        return True

    def _strike_workers(self, process: subprocess.Popen[bytes], kind: str) -> bool:
        if self.hosts is None:
            return kill_some(process_tree(process.pid), WORKERS, self.rng)
        if kind == "host":
            self.hosts.kill(self.rng.choice(self.hosts.names))
            return True
        words = ("CoarseGrainedExecutorBackend",) if kind == "executor" else WORKERS
        return kill_some((p for host in self.hosts.names for p in self.hosts.processes(host)), words, self.rng)

    def _ask(self) -> None:
        set_live_ttls(self.checkpoint, {self.rng.choice(self.job.states): format_ttl(self.rng.choice(TTLS))})
        self.tally.live += 1

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


# ---- the run in peace -----------------------------------------------------------------------------------------------


def schedule(states: Iterable[StateTtl], instants: dict[int, int]) -> dict[int, dict[str, int]]:
    """Instant -> the TTLs that hold from it on; ``instants`` has how many had been played after each micro-batch, but
    for those that play none, such as one that ends event time."""
    found: dict[int, dict[str, int]] = {}
    for state in states:
        for setting in state.settings:
            since = max((count for batch, count in instants.items() if batch < setting.since), default=0)
            found.setdefault(since, {})[state.name] = setting.ttl
    return dict(sorted(found.items()))


@contextlib.contextmanager
def changed_at(ttls: dict[int, dict[str, int]]) -> Iterator[None]:
    """Within, jobs of this process are asked for TTLs right before micro-batches."""
    take_in = LiveTtls.take_in

    def asked(live: LiveTtls, batch: int) -> str | None:
        if batch in ttls:
            set_live_ttls(live.folder, {state: format_ttl(ms) for state, ms in ttls[batch].items()})
        return take_in(live, batch)

    LiveTtls.take_in = asked  # type: ignore[method-assign, assignment] # replaced while it runs
    try:
        yield
    finally:
        LiveTtls.take_in = take_in  # type: ignore[method-assign] # replaced while it runs


def run_in_peace(storm: Storm, calm: Path) -> dict[int, dict[str, int]]:
    """Runs the input of the storm in ``calm`` from beginning to end, an instant per micro-batch; which TTLs held from
    which one on, as its checkpoint tells."""
    from stateplan.session.environment import TableEnvironment

    calm.mkdir()
    for name in storm.job.inputs:
        shutil.copy(storm.folder / name, calm / name)
    plan = storm.job.compile(calm)
    session = TableEnvironment.create({"execution.checkpointing.dir": str(calm / "checkpoint")})
    with changed_at(schedule(read_ttls(storm.checkpoint).values(), storm.instants)):
        session.execute_plan(plan).wait()
    return schedule(read_ttls(calm / "checkpoint").values(), {n: n + 1 for n in range(storm.minute)})


# ---- the table ------------------------------------------------------------------------------------------------------


def report(storm: Storm, calm: Path, held: dict[int, dict[str, int]]) -> bool:
    """Prints the table; whether all is well. ``held`` are the TTLs of the run in peace."""
    tally, well = storm.tally, True
    lines = [
        ("minutes", f"{tally.seconds / 60:.1f}"),
        ("kill -9", f"{sum(tally.kills.values())}: " + ", ".join(f"{n} {kind}" for kind, n in tally.kills.items())),
        ("of them", ", ".join(f"{n} {moment}" for moment, n in tally.moments.items())),
        ("starts of the job", f"{tally.starts}; it failed for the want of a worker {tally.failures} times"),
        ("TTL edits", f"{tally.live} live, {tally.edits} of the plan file"),
        ("changes of parallelism", str(tally.rescales)),
        ("micro-batches", f"{storm.minute}"),
    ]
    print("\n| | |\n|---|---|")
    for name, text in lines:
        print(f"| {name} | {text} |")
    print("\n| sink | changes in peace | changes found | lost | doubled or wrong | |\n|---|--:|--:|--:|--:|---|")
    for sink in storm.job.sinks:
        expected, found = result(calm / "out" / sink), result(storm.folder / "out" / sink)
        lost, extra = sum((expected - found).values()), sum((found - expected).values())
        same = not lost and not extra and bool(expected)
        well &= same
        print(
            f"| {sink} | {sum(expected.values()):,} | {sum(found.values()):,} | {lost:,} | {extra:,} | "
            f"{'identical' if same else 'DIFFERENT'} |"
        )
    wanted = effective(schedule(read_ttls(storm.checkpoint).values(), storm.instants))
    if effective(held) != wanted:
        print(f"The TTLs were not the same: {effective(held)}, expected {wanted}")
        return False
    return well


def effective(ttls: dict[int, dict[str, int]]) -> list[tuple[int, str, int]]:
    """The instants at which a state began to live for another time."""
    now: dict[str, int] = {}
    found = []
    for instant, states in sorted(ttls.items()):
        for state, ttl in sorted(states.items()):
            if now.get(state) != ttl:
                now[state] = ttl
                found.append((instant, state, ttl))
    return found


def main(
    minutes: float = 10,
    kills: int = 50,
    limit: float = float("inf"),
    rows: int = 100,
    seed: int = 1,
    keep: Path | None = None,
    hosts: bool = False,
    job: Literal["examples", "event-time"] = "examples",
) -> int:
    chosen = JOBS[job]
    with contextlib.ExitStack() as stack:
        work = Path(keep or stack.enter_context(work_folder("chaos")))
        folder, calm = work / "storm", work / "peace"
        folder.mkdir(parents=True)
        chosen.compile(folder)
        storm = Storm(chosen, folder, minutes, kills, rows, random.Random(seed), limit=limit)
        if hosts:
            storm.hosts = stack.enter_context(Hosts(work / "hosts", [folder]))
            storm.kinds, storm.parallelisms = KINDS_ON_HOSTS, (2, 3, 5)
        storm.run()
        well = report(storm, calm, run_in_peace(storm, calm)) and sum(storm.tally.kills.values()) >= kills
    return 0 if well else 1


if __name__ == "__main__":
    run(main, __doc__)
