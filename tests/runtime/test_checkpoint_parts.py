"""The parts of a checkpoint belong together: one that was lost, or is older than the others, is found out at the start.
A job that was killed at any moment goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stateplan.common.errors import CheckpointError
from stateplan.runtime.checkpoint import directory, live_ttl, record
from stateplan.runtime.checkpoint.directory import Checkpoint
from stateplan.runtime.checkpoint.savepoint import RECOVERY_PATH, write_savepoint
from stateplan.runtime.spark.checkpoint_files import PARTITIONS
from tests.runtime.state_jobs import GRAPH, JOB, go_on, job

STATES: Any = SimpleNamespace(node=lambda _: SimpleNamespace(state_names=("state",)))
READERS: Any = SimpleNamespace(last=-1)
PLANS = {"one": JOB, "two": job((1, 1)), "three": job((1, 1), (2, 1), (3, 1))}


def start(folder: Path, plan: str = "one", **more: str) -> tuple[Checkpoint, live_ttl.LiveTtls]:
    """A job starts."""
    options = {"execution.checkpointing.dir": str(folder), "pipeline.max-parallelism": "4", **more}
    checkpoint = Checkpoint.open(options, plan, GRAPH, go_on)
    checkpoint.close()
    checkpoint.fit(PLANS[plan])
    ttls = checkpoint.ttls(PLANS[plan], STATES, lambda _: None)
    checkpoint.adopt()
    ttls.settle()
    return checkpoint, ttls


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def marker(folder: Path, number: int) -> Path:
    return folder / "splits" / "src" / f"{number:010d}_9"


def plan(folder: Path, number: int) -> None:
    """Spark plans a micro-batch; every third entry of the log of its source has all before it."""
    spark, lines = folder / "spark", []
    for n in range(number + 1) if number % 3 == 2 else [number]:
        lines.append({"path": f"file://{marker(folder, n)}", "timestamp": 1, "batchId": n})
        lines.append({"path": f"file:///in/{n}", "timestamp": 1, "batchId": n})
    put(marker(folder, number), f"files {number}")
    put(spark / "metadata", '{"id":"1"}')
    log = "\n".join(("v1", *(json.dumps(line, separators=(",", ":")) for line in lines)))
    put(spark / "sources" / "0" / (f"{number}.compact" if number % 3 == 2 else str(number)), log)
    if not (spark / "offsets" / str(number)).exists():
        put(
            spark / "offsets" / str(number),
            f'v1\n{{"conf":{{"{PARTITIONS}":"1"}},"n":{number}}}\n{{"logOffset":{number}}}',
        )


def commit(folder: Path, number: int) -> None:
    put(folder / "spark" / "commits" / str(number), "v1\n{}")


def run(folder: Path, numbers: range, plan_: str = "one") -> None:
    """A job starts and runs micro-batches."""
    checkpoint, ttls = start(folder, plan_)
    for number in numbers:
        plan(folder, number)
        checkpoint.begin(number, ttls, READERS)
        commit(folder, number)


def refusal(folder: Path, plan_: str = "one") -> str:
    """The code that a start is refused with; nothing for none."""
    try:
        start(folder, plan_)
    except CheckpointError as error:
        return error.code
    return ""


class KilledError(Exception):
    """The process is killed."""


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, bool], None]]:
    """Has the process killed at a write of a file, before it or after it."""
    write, left = directory.write_whole, [0, False]

    def writing(*given: Any, **more: Any) -> None:
        left[0] -= 1
        if left[0] == 0 and not left[1]:
            raise KilledError
        write(*given, **more)
        if left[0] == 0:
            raise KilledError

    def arm(number: int, after: bool) -> None:
        left[:] = [number, after]

    for module in (directory, live_ttl, record):
        monkeypatch.setattr(module, "write_whole", writing)
    yield arm


@pytest.mark.parametrize("after", [False, True])
def test_a_job_that_is_killed_at_any_write_goes_on(tmp_path: Path, killed: Any, after: bool) -> None:
    """Two starts in a row may be killed, with another plan each time."""
    steps = 0
    for first in range(1, 16):
        folder = tmp_path / str(first)
        killed(first, after)
        try:
            run(folder, range(3))
        except KilledError:
            steps += 1
        killed(0, False)
        done = len(list((folder / "spark" / "commits").glob("*")))
        run(folder, range(done, 4))
        for second, name in enumerate(("two", "three", "one", "two"), start=1):
            killed((first + second) % 6, after)
            try:
                run(folder, range(0), name)
            except KilledError:
                steps += 1
        killed(0, False)
        run(folder, range(4, 6), "two")
    assert steps > 40


@pytest.mark.parametrize("after", [False, True])
def test_a_micro_batch_that_was_killed_runs_again(tmp_path: Path, after: bool) -> None:
    run(tmp_path, range(4))
    checkpoint, ttls = start(tmp_path)
    plan(tmp_path, 4)
    reads = checkpoint.begin(4, ttls, READERS) if after else ""
    plan(tmp_path, 5)  # its entry of the source is there, and the micro-batch is not planned
    (tmp_path / "spark" / "offsets" / "5").unlink()
    again, ttls = start(tmp_path, "two")
    assert again.begin(4, ttls, READERS) == reads or not after


PARTS = {
    "spark": "CKPT016",
    "spark/offsets": "CKPT016",
    "spark/offsets/4": "CKPT016",
    "spark/offsets/3": "CKPT014",
    "spark/commits": "CKPT016",
    "spark/sources": "CKPT014",
    "spark/sources/0/4": "CKPT014",
    "spark/sources/0/2.compact": "CKPT014",
    "spark/metadata": "CKPT014",
    "splits": "CKPT014",
    "splits/src/0000000001_9": "CKPT014",
    "ttl.json": "CKPT016",
    "progress.json": "CKPT016",
    "plan.json": "CKPT005",
    "stateplan.json": "CKPT002",
    "spark/offsets/0": "",
    "spark/commits/4": "",
    "spark/commits/3": "",
    "spark/sources/0/1": "",
}


@pytest.mark.parametrize(("place", "code"), PARTS.items())
def test_a_part_that_was_lost(place: str, code: str, tmp_path: Path) -> None:
    run(tmp_path / "c", range(5))
    path = tmp_path / "c" / place
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert refusal(tmp_path / "c") == code


@pytest.mark.parametrize(
    "places",
    [
        ("spark",),
        ("spark/offsets",),
        ("progress.json",),
        ("spark", "progress.json"),
        ("splits",),
        ("ttl.json",),
        ("stateplan.json", "plan.json"),
    ],
)
def test_a_part_of_an_older_copy(places: tuple[str, ...], tmp_path: Path) -> None:
    folder, older = tmp_path / "c", tmp_path / "older"
    run(folder, range(3))
    shutil.copytree(folder, older)
    run(folder, range(3, 5), "two")
    run(folder, range(5, 6), "two")
    shutil.copytree(folder, tmp_path / "sound")
    for place in places:
        path = folder / place
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(older / place, path) if path.suffix == "" else shutil.copy(older / place, path)
    assert refusal(folder, "two") in ("CKPT014", "CKPT016")
    assert refusal(tmp_path / "sound", "two") == ""


@pytest.mark.parametrize(
    "place", sorted(p for p, code in PARTS.items() if code and ("." in p or p[-1].isdecimal() or "metadata" in p))
)
def test_a_changed_byte(place: str, tmp_path: Path) -> None:
    """In any file that a job goes on from: it is refused, or mended, as paths of the checkpoint itself are. Spark tells
    of another number of a version."""
    run(tmp_path, range(5))
    path = tmp_path / place
    data = path.read_bytes()
    for at in range(0 if path.suffix == ".json" else 2, len(data), max(1, len(data) // 30)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x01]) + data[at + 1 :])
        assert refusal(tmp_path) or path.read_bytes().split() == data.split(), (at, data[at : at + 10])
    path.write_bytes(data)
    assert refusal(tmp_path) == ""


def test_watermarks_of_an_older_copy(tmp_path: Path) -> None:
    run(tmp_path, range(4))
    checkpoint, ttls = start(tmp_path)
    plan(tmp_path, 4)
    checkpoint.begin(4, ttls, SimpleNamespace(last=4))  # type: ignore[arg-type]
    known = {}
    for batch in (4, 5, 3):
        (tmp_path / "watermarks.json").write_text(json.dumps({str(batch - 1): {}, str(batch): {}}))
        known[batch] = refusal(tmp_path)
    assert known == {4: "", 5: "", 3: "CKPT016"}


def test_spark_may_have_removed_the_entries_of_the_last_micro_batch(tmp_path: Path) -> None:
    """It was told to keep few, and has put the state into another number of partitions since."""
    run(tmp_path, range(5))
    plan(tmp_path, 5)
    commit(tmp_path, 5)
    for place in ("offsets/3", "commits/3", "commits/4"):
        (tmp_path / "spark" / place).unlink()
    assert refusal(tmp_path) == ""


def test_a_checkpoint_that_was_moved_goes_on(tmp_path: Path) -> None:
    run(tmp_path / "a", range(5))
    (tmp_path / "a").rename(tmp_path / "b")
    run(tmp_path / "b", range(5, 8))
    shutil.copytree(tmp_path / "b", tmp_path / "ä c")
    run(tmp_path / "ä c", range(8, 9))
    run(tmp_path / "b", range(8, 9))


def test_a_savepoint_has_a_record_and_a_job_from_it_begins_another(tmp_path: Path) -> None:
    run(tmp_path / "a", range(5))
    write_savepoint(tmp_path / "a", tmp_path / "saved")
    for folder in ("b", "c"):
        checkpoint, ttls = start(tmp_path / folder, **{RECOVERY_PATH: str(tmp_path / "saved")})
        plan(tmp_path / folder, 5)
        checkpoint.begin(5, ttls, READERS)
        commit(tmp_path / folder, 5)
        start(tmp_path / folder, **{RECOVERY_PATH: str(tmp_path / "saved")})
    (tmp_path / "saved" / "spark" / "offsets" / "4").unlink()
    with pytest.raises(CheckpointError) as raised:
        start(tmp_path / "d", **{RECOVERY_PATH: str(tmp_path / "saved")})
    assert raised.value.code == "CKPT016"
    assert not (tmp_path / "d" / "stateplan.json").exists()


def test_a_checkpoint_of_a_version_without_a_record_goes_on(tmp_path: Path) -> None:
    run(tmp_path, range(5))
    (tmp_path / "progress.json").unlink()
    facts = json.loads((tmp_path / "stateplan.json").read_text())
    del facts["reached"]
    (tmp_path / "stateplan.json").write_text(json.dumps(facts))
    ttls = json.loads((tmp_path / "ttl.json").read_text())
    (tmp_path / "ttl.json").write_text(json.dumps({"format": 1, "states": ttls["states"]}))
    run(tmp_path, range(5, 7))
    shutil.rmtree(tmp_path / "spark")
    assert refusal(tmp_path) == "CKPT016"


def test_a_version_without_a_record_may_run_in_between(tmp_path: Path) -> None:
    run(tmp_path, range(5))
    facts = json.loads((tmp_path / "stateplan.json").read_text())
    del facts["reached"]
    (tmp_path / "stateplan.json").write_text(json.dumps(facts))
    for number in range(5, 9):
        plan(tmp_path, number)
        commit(tmp_path, number)
    (tmp_path / "spark" / "offsets" / "4").unlink()
    run(tmp_path, range(9, 10))


def test_a_checkpoint_that_was_filled_before_its_process_was_killed_starts_without_the_helpers(tmp_path: Path) -> None:
    start(tmp_path)
    for name in ("recovering", "backfill-0/spark/metadata", "corrections-0/old/0-0.arrow"):
        put(tmp_path / name, "")
    start(tmp_path)
    assert not [p.name for p in tmp_path.iterdir() if p.name.startswith(("recovering", "backfill", "corrections"))]
    put(tmp_path / "backfill-0" / "spark" / "metadata", "of somebody else")
    start(tmp_path)
    assert (tmp_path / "backfill-0").exists()
