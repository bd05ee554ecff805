"""Damages the checkpoint of a job in every way, and starts the job again: are the rows right, or is it refused?

    python -m benchmarks.damage [--job rows|windows] [--pairs 100] [--seed 1] [--only REGEX] [--pending]
        [--folder DIR] [--minutes 5] [--limit 60]

Each file and each folder of the checkpoint is removed, cut, emptied, changed in one byte (with its checksum beside it,
and without), and replaced by the one of an older copy; then so many pairs of damages together. After each damage, more
input comes, and the job starts again from a copy of the damaged checkpoint and of its sink. Wanted are the rows of a
job in peace, or an error with a code other than those for failures that nobody has explained, within a minute. Prints
how many gave what. Exit code 1 when there were wrong rows, errors without an explanation, or jobs that did not end.
With ``--pending``, the last micro-batch before the damage is not known to be done.

All jobs run in one JVM, one after another. Damages of checksums are tried by the dozen, and one by one only if the rows
are not right then. With ``--folder``, the checkpoints and what was found are kept there, and
the next call goes on with the damages that were not tried; ``--minutes`` is after how many a call ends.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.harness import run, work_folder
from stateplan.common.errors import StateplanError
from stateplan.session.environment import TableEnvironment

LIMIT = 60.0
"""Seconds within which a job must end, unless ``--limit`` gives more: for a machine that has much else to do."""

PATIENCE = 600.0
"""Seconds for a job over a sound checkpoint."""

UNEXPLAINED = re.compile(r"RUN001|BUG\d+")

FILES = (3, 3, 1)
"""How many files of input come before the older copy, before the damage, and after it."""

JOBS = {
    "rows": "SELECT k, v FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p) AS n FROM src) WHERE n = 1",
    "windows": "SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE src, DESCRIPTOR(t), INTERVAL '10' SECOND)) "
    "GROUP BY k, window_start, window_end",
}
TIMES = {"rows": "p AS PROCTIME()", "windows": "WATERMARK FOR t AS t"}


# ---- the job --------------------------------------------------------------------------------------------------------


def give(folder: Path, first: int, count: int) -> None:
    """Adds files of input, with keys that come again."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + count):
        path = folder / f"{number}.json"
        rows = [{"k": number * 7 + n, "v": number, "t": f"2024-01-01 00:00:{3 * number:02}"} for n in range(14)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, (1_700_000_000 + number,) * 2)


def run_job(job: str, rows: Path, work: Path, limit: float = PATIENCE) -> bool:
    """Runs the job over the files; whether it ended within so many seconds."""
    env = TableEnvironment.create()
    for key, text in {
        "execution.checkpointing.dir": str(work / "checkpoint"),
        "parallelism.default": "1",
        "pipeline.max-parallelism": "2",
        "table.exec.state.ttl": "10 d",
    }.items():
        env.execute_sql(f"SET '{key}' = '{text}'")
    watched = "" if job == "windows" else ", 'source.max-files-per-trigger' = '1'"
    env.execute_sql(
        f"CREATE TABLE src (k BIGINT, v BIGINT, t TIMESTAMP(3), {TIMES[job]}) WITH ('connector' = 'filesystem', "
        f"'path' = '{rows}', 'format' = 'json'{watched})"
    )
    env.execute_sql(
        f"CREATE TABLE snk (k BIGINT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = '{work / 'out'}', "
        "'format' = 'json')"
    )
    client = env.execute_sql(f"INSERT INTO snk {JOBS[job]}").get_job_client()
    assert client is not None
    if client.wait(limit):
        return True
    client.stop()
    return False


def written(work: Path) -> list[str]:
    """The rows in the sink, sorted."""
    found = (work / "out").glob("[!._]*")
    return sorted(line for path in found for line in path.read_text().splitlines() if path.is_file())


# ---- the damages ----------------------------------------------------------------------------------------------------


def remove(path: Path, older: Path) -> bool:
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return True


def cut(path: Path, older: Path) -> bool:
    return _changed(path, lambda data: data[: len(data) // 2])


def empty(path: Path, older: Path) -> bool:
    if path.is_dir():
        for entry in path.iterdir():
            remove(entry, older)
        return True
    return _changed(path, lambda data: b"")


def flip(path: Path, older: Path) -> bool:
    return _changed(path, _flipped)


def flip_unseen(path: Path, older: Path) -> bool:
    """Changes a byte, and removes the checksum that would tell."""
    sums = path.with_name(f".{path.name}.crc")
    if not sums.exists():
        return False
    sums.unlink()
    return _changed(path, _flipped)


def other_digit(path: Path, older: Path) -> bool:
    """Changes a digit to another one, so that the content reads well, and removes the checksum."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    return _changed(path, lambda data: re.sub(rb"\d(?=\D*$)", lambda m: b"%d" % ((int(m[0]) + 1) % 10), data, count=1))


def lengthen(path: Path, older: Path) -> bool:
    """Has the first block of a changelog of state say that it is a gigabyte longer, and removes the checksum."""
    if path.suffix != ".changelog":
        return False
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    return _changed(path, lambda data: data[:12] + bytes([data[12] ^ 0x40]) + data[13:])


def replace(path: Path, older: Path) -> bool:
    """Puts the one of the older copy there; removes it where that has none."""
    remove(path, older)
    if older.is_dir():
        shutil.copytree(older, path)
    elif older.exists():
        shutil.copy2(older, path)
        sums = older.with_name(f".{older.name}.crc")
        if sums.exists():
            shutil.copy2(sums, path.with_name(sums.name))
    return True


def _changed(path: Path, change: Callable[[bytes], bytes]) -> bool:
    if path.is_dir():
        return False
    before = path.read_bytes()
    after = change(before)
    path.write_bytes(after)
    return after != before


def _flipped(data: bytes) -> bytes:
    if not data:
        return data
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x11]) + data[middle + 1 :]


Damage = Callable[[Path, Path], bool]
"""Damages a file or folder, of which there is an older one at the second path; whether anything changed."""

DAMAGES: dict[str, Damage] = {
    "removed": remove,
    "cut": cut,
    "emptied": empty,
    "flipped": flip,
    "flipped unseen": flip_unseen,
    "other digit": other_digit,
    "longer block": lengthen,
    "replaced": replace,
}
NOT_KEPT = re.compile(r"(metrics|.*\.lock|writers?|stateplan\.tmp)(/.*)?$")
"""What no job builds on."""


def places(checkpoint: Path) -> list[str]:
    """All files and folders of a checkpoint that something may happen to."""
    found = (p.relative_to(checkpoint).as_posix() for p in sorted(checkpoint.rglob("*")))
    return [place for place in found if not NOT_KEPT.match(place)]


@dataclass(frozen=True)
class Case:
    """Damages at places of a checkpoint, one after another."""

    steps: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return " and ".join(f"{damage} {place}" for damage, place in self.steps)

    def apply(self, checkpoint: Path, older: Path) -> bool:
        """Whether all of them changed something."""
        for damage, place in self.steps:
            path = checkpoint / place
            if not path.exists() or not DAMAGES[damage](path, older / place):
                return False
        return True


SUMS = re.compile(r"\S+ (\S+/)?\.[^/]+\.crc")
"""Damages that a job should bear: of checksums that Hadoop has beside a file."""
_DOZEN = 12


def groups(chosen: Sequence[Case]) -> Iterator[Sequence[Case]]:
    """Those to be tried at once: a damage of many checksums, or one that is none of that."""
    sums: dict[str, list[Case]] = {}
    for case in chosen:
        if len(case.steps) == 1 and SUMS.fullmatch(str(case)):
            sums.setdefault(case.steps[0][0], []).append(case)
        else:
            yield [case]
    for found in sums.values():
        yield from (found[n : n + _DOZEN] for n in range(0, len(found), _DOZEN))


def cases(checkpoint: Path, pairs: int, seed: int) -> Iterator[Case]:
    """Each damage of each place, and so many random pairs of them."""
    single = [(damage, place) for place in places(checkpoint) for damage in DAMAGES]
    yield from (Case((step,)) for step in single)
    rng = random.Random(seed)
    for _ in range(pairs):
        yield Case((rng.choice(single), rng.choice(single)))


# ---- the whole ------------------------------------------------------------------------------------------------------


class Trial:
    """A job with a sound checkpoint, an older copy of it, and the rows that are wanted in the end.

    Args:
        job: of :data:`JOBS`.
        folder: to work in.
        limit: seconds within which a job must end.
    """

    def __init__(self, job: str, folder: Path, limit: float = LIMIT) -> None:
        self.job, self.folder, self.limit = job, folder, limit
        self.rows, self.sound, self.older = folder / "rows", folder / "sound", folder / "older"
        self.peace = folder / "peace"

    @staticmethod
    def at(folder: Path, job: str, limit: float, pending: bool = False) -> Trial:
        """The one in a folder, which is made where there is none.

        Args:
            folder: to work in.
            job: of :data:`JOBS`.
            limit: seconds within which a job must end.
            pending: whether the last micro-batch of the sound checkpoint is planned, and not known to be done.
        """
        made = folder / "made"
        trial = Trial(job, folder, limit)
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            trial._make(pending)
            made.touch()
        return trial

    @property
    def wanted(self) -> list[str]:
        """The rows in the end."""
        return written(self.peace)

    def _make(self, pending: bool) -> None:
        before, then, later = FILES
        give(self.rows, 0, before)
        self._run_well(self.sound)
        shutil.copytree(self.sound, self.older)
        give(self.rows, before, then)
        self._run_well(self.sound)
        if pending:
            commits = self.sound / "checkpoint" / "spark" / "commits"
            newest = max(int(p.name) for p in commits.glob("[0-9]*"))
            for name in (f"{newest}", f".{newest}.crc"):
                (commits / name).unlink()
        give(self.rows, before + then, later)
        shutil.copytree(self.sound, self.peace)
        self._run_well(self.peace)

    def _run_well(self, work: Path) -> None:
        if not run_job(self.job, self.rows, work):
            raise TimeoutError(f"a job over a sound checkpoint takes more than {PATIENCE:.0f} s")

    def outcome(self, case: Case, copy: Path) -> str | None:
        """What becomes of the job after a damage; None where nothing was damaged."""
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.sound, copy)
        if not case.apply(copy / "checkpoint", self.older / "checkpoint"):
            return None
        return self.judged(copy)

    def outcomes(self, chosen: Sequence[Case], copy: Path) -> dict[str, str | None]:
        """What becomes of the job after each of some damages. If the rows are right after all of them, they are right
        after each."""
        if (
            len(chosen) > 1
            and self.outcome(Case(tuple(step for c in chosen for step in c.steps)), copy) == "right rows"
        ):
            return {str(case): "right rows" for case in chosen}
        return {str(case): self.outcome(case, copy) for case in chosen}

    def judged(self, copy: Path) -> str:
        """What becomes of the job at a place."""
        began = time.monotonic()
        try:
            ended = run_job(self.job, self.rows, copy, self.limit)
        except StateplanError as error:
            late = "slow " if time.monotonic() - began > self.limit else ""
            kind = "unexplained" if UNEXPLAINED.match(error.code) else "refused"
            return f"{late}{kind} {error.code}: {error}" if kind == "unexplained" else f"{late}{kind} {error.code}"
        except Exception as error:  # what is not coded is what is looked for
            return f"unexplained {type(error).__name__}: {error}"
        if not ended:
            return "hang"
        found = written(copy)
        if found == self.wanted:
            return "right rows"
        lost, more = Counter(self.wanted) - Counter(found), Counter(found) - Counter(self.wanted)
        return f"wrong rows: {lost.total()} lost, {more.total()} more"


class Findings:
    """What became of damages, by damage, in a file that grows by a line for each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else ()
        self.known: dict[str, str | None] = dict(map(json.loads, lines))

    def add(self, case: str, found: str | None) -> None:
        self.known[case] = found
        with self._path.open("a") as out:
            out.write(json.dumps([case, found]) + "\n")

    @property
    def bad(self) -> list[str]:
        """The damages that must not end as they did."""
        told = ((case, found) for case, found in self.known.items() if found is not None)
        return [f"{case}: {found}" for case, found in told if not found.startswith(("right", "refused"))]

    def counts(self) -> Counter[str]:
        return Counter(found.split(":")[0] for found in self.known.values() if found is not None)


def main(
    job: Literal["rows", "windows"] = "rows",
    pairs: int = 0,
    seed: int = 1,
    only: str = "",
    pending: bool = False,
    folder: Path | None = None,
    minutes: float = float("inf"),
    limit: float = LIMIT,
) -> int:
    """Tries the damages, and prints what became of them; 1 where one is bad."""
    pattern, until = re.compile(only), time.monotonic() + 60 * minutes
    with work_folder("damage") as temporary:
        place = (folder or Path(temporary)) / (job + ("-pending" if pending else ""))
        trial = Trial.at(place, job, limit, pending=pending)
        findings, left = Findings(place / "found"), 0
        all_cases = cases(trial.sound / "checkpoint", pairs, seed)
        for some in groups([c for c in all_cases if pattern.search(str(c)) and str(c) not in findings.known]):
            if time.monotonic() > until:
                left += len(some)
                continue
            before = len(findings.bad)
            for case, found in trial.outcomes(some, place / "copy").items():
                findings.add(case, found)
            for line in findings.bad[before:]:
                print(line, flush=True)
    counts = findings.counts()
    for what, count in counts.most_common():
        print(f"{count:6} {what}")
    print(f"{counts.total():6} damages, {len(findings.bad)} of them bad; {left} are left")
    return 1 if findings.bad else 0


if __name__ == "__main__":
    run(main, __doc__)
